//! The program called by a link named `oc` (MS-CLI-10): what `mainstay adm` answers, and everything else by `kubectl`.

use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use mainstay_terminal::errors::{Exit, Failure};

/// Verbs that `mainstay adm` answers, and those of OpenShift that kubectl does not know.
const OURS: [&[&str]; 8] =
    [&["adm"], &["policy"], &["secrets", "link"], &["extract"], &["set", "data"], &["project"], &["new-project"], &["debug"]];
/// Flags before a verb that take a value in the next word.
const VALUED: [&str; 12] = [
    "-n",
    "--namespace",
    "--kubeconfig",
    "--context",
    "--as",
    "--as-group",
    "--cluster",
    "--user",
    "--token",
    "-s",
    "--server",
    "--request-timeout",
];

/// The meaning of a command line of `oc` here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Words for `mainstay`.
    Ours(Vec<OsString>),
    /// Words for `kubectl`.
    Kubectl(Vec<OsString>),
}

/// Tells what the words after `oc` mean.
pub fn meaning(words: &[OsString]) -> Meaning {
    let mut at = 0;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()).filter(|word| word.starts_with('-')) {
        at += if VALUED.contains(&word) { 2 } else { 1 };
    }
    let (flags, rest) = words.split_at(at.min(words.len()));
    let is = |verb: &&[&str]| rest.len() >= verb.len() && verb.iter().zip(rest).all(|(one, other)| other == one);
    // Nodes are debugged by kubectl in its own way; a host's files are not in this version.
    let is_node = || rest.iter().any(|word| word.to_str().is_some_and(|word| word.starts_with("node/") || word.starts_with("no/")));
    let Some(verb) = OURS.iter().find(|verb| is(verb)) else { return Meaning::Kubectl(words.to_vec()) };
    if verb == &["debug"] && !is_node() {
        return Meaning::Kubectl(words.to_vec());
    }
    // kubectl has no `adm`, so what follows is the verb of ours.
    let rest = if verb == &["adm"] { &rest[1..] } else { rest };
    let ours = [OsString::from("adm")].into_iter().chain(rest.iter().cloned()).chain(flags.iter().cloned());
    Meaning::Ours(ours.collect())
}

/// Runs `kubectl` in the place of this process.
pub fn kubectl(words: &[OsString]) -> ExitCode {
    use std::os::unix::process::CommandExt as _;
    let error = Command::new(OsStr::new("kubectl")).args(words).exec();
    let failure = match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(Exit::Failed, "kubectl", "is not on PATH, and oc hands this verb to it")
            .hint("https://kubernetes.io/docs/tasks/tools says how to install it"),
        _ => Failure::failed("kubectl", &error),
    };
    failure.report();
    ExitCode::from(Exit::Failed as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-10: each documented line, and who answers it.
    #[test]
    fn documented_lines() {
        for (line, expected) in [
            ("get csv -n lights", "kubectl get csv -n lights"),
            ("describe sub beacon", "kubectl describe sub beacon"),
            ("edit operatorcondition beacon.v1", "kubectl edit operatorcondition beacon.v1"),
            ("-n lights get sub", "kubectl -n lights get sub"),
            ("adm upgrade --include-not-recommended", "mainstay adm upgrade --include-not-recommended"),
            ("adm release info", "mainstay adm release info"),
            ("policy add-role-to-user admin ada -n lights", "mainstay adm policy add-role-to-user admin ada -n lights"),
            (
                "adm policy add-scc-to-user anyuid system:serviceaccount:a:b",
                "mainstay adm policy add-scc-to-user anyuid system:serviceaccount:a:b",
            ),
            ("secrets link default pull --for=pull -n lights", "mainstay adm secrets link default pull --for=pull -n lights"),
            ("-n lights secrets link default pull", "mainstay adm secrets link default pull -n lights"),
            ("extract secret/pull -n lights --confirm", "mainstay adm extract secret/pull -n lights --confirm"),
            ("set data secret/pull --from-file=a=b", "mainstay adm set data secret/pull --from-file=a=b"),
            ("set image deployment/a b=c", "kubectl set image deployment/a b=c"),
            ("project lights", "mainstay adm project lights"),
            ("new-project lights", "mainstay adm new-project lights"),
            ("adm new-project lights --node-selector=a=b", "mainstay adm new-project lights --node-selector=a=b"),
            ("adm must-gather", "mainstay adm must-gather"),
            ("adm inspect ns/a", "mainstay adm inspect ns/a"),
            ("debug node/one", "mainstay adm debug node/one"),
            ("debug pod/one", "kubectl debug pod/one"),
            ("adm catalog build", "mainstay adm catalog build"),
            ("adm catalog mirror", "mainstay adm catalog mirror"),
            ("--context a version", "kubectl --context a version"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let (program, words) = match meaning(&words) {
                Meaning::Ours(words) => ("mainstay", words),
                Meaning::Kubectl(words) => ("kubectl", words),
            };
            let told: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(format!("{program} {}", told.join(" ")), expected);
        }
        assert_eq!(meaning(&[]), Meaning::Kubectl(Vec::new()));
    }
}
