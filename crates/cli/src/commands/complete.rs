//! Completions for the end of a command line, for the scripts of `mainstay completion`: commands, flags and values as the command line declares them,
//! and names of the selected cluster. One line each: the word, a tab, its description.

use std::time::Duration;

use clap::{Arg, Command};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_olm_classic_core::overview::Overview;
use mainstay_operations::catalogs::CatalogSnapshot;
use mainstay_operations::classic::explain::Subject;
use mainstay_operations::classic::objects::{self, CATALOG_SOURCE, Kind, PACKAGE_MANIFEST};
use mainstay_operations::classic::{approval, listing};
use mainstay_operations::machines::MACHINE;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::{output, runtime};

/// Limit for the cluster's answer: the user waits for it at the prompt.
const PATIENCE: Duration = Duration::from_secs(2);

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A new word begins: for shells that cannot say an empty one
    #[arg(long)]
    new_word: bool,
    /// The words after the program's name; the last is being written
    #[arg(last = true)]
    words: Vec<String>,
}

/// Kinds of names that come from a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    Extensions,
    Packages,
    Catalogs,
    Namespaces,
    Plans,
    Contexts,
    /// Subscriptions of OLM classic, and CSVs that none asks for.
    Operators,
    /// Packages that Subscriptions of OLM classic ask for.
    Subscribed,
    /// Objects of a kind.
    Classic(Kind),
    /// InstallPlans that wait for an approval, as `installplan/NAME`.
    Waiting,
}

/// Completions: words with their descriptions, and names of the cluster behind a prefix.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fitting {
    words: Vec<(String, String)>,
    live: Vec<Live>,
    prefix: String,
}

/// The words before the one that is being written.
struct Before<'a> {
    /// The command.
    path: Vec<&'a str>,
    /// The values of its positional arguments.
    given: Vec<&'a str>,
    /// True if `--classic` is among them.
    is_classic: bool,
}

/// Prints the completions; without names of the cluster if it cannot be asked, since errors would not be seen here.
pub fn run(arguments: &Arguments, mut root: Command) -> Result<(), Failure> {
    let mut words = arguments.words.clone();
    if arguments.new_word || words.is_empty() {
        words.push(String::new());
    }
    root.build();
    let Fitting { words: mut fitting, live, prefix } = fitting(&root, &words);
    if !live.is_empty() {
        let (cluster, namespace) = (cluster(&words), value(&words, &["--namespace", "-n"]));
        // Kinds that the cluster does not serve have no names; the others are offered all the same.
        let asked = live.iter().map(|live| names(&cluster, namespace.as_deref(), *live));
        let names = runtime::block_on(async { Ok(tokio::time::timeout(PATIENCE, futures::future::join_all(asked)).await) });
        let names = names.ok().and_then(Result::ok).into_iter().flatten().flatten().flatten();
        fitting.extend(names.map(|name| (format!("{prefix}{name}"), String::new())));
    }
    let current = words.last().map(String::as_str).unwrap_or_default();
    // Shells parse these words again, so words with anything that a shell would run or expand are left out.
    let plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:/@+=".contains(letter));
    for (word, about) in fitting.into_iter().filter(|(word, _)| word.starts_with(current) && plain(word)) {
        output::line(if about.is_empty() { word } else { format!("{word}\t{about}") })?;
    }
    Ok(())
}

/// The completions after these words; the last word is incomplete.
fn fitting(root: &Command, words: &[String]) -> Fitting {
    let Some((current, before)) = words.split_last() else { return Fitting::default() };
    let (mut command, mut pending) = (root, None::<&Arg>);
    let mut said = Before { path: Vec::new(), given: Vec::new(), is_classic: before.iter().any(|word| word == "--classic") };
    for word in before {
        if pending.take().is_some() {
            continue;
        }
        if let Some(flag) = flag(command, word) {
            pending = Some(flag).filter(|flag| flag.get_action().takes_values() && !word.contains('='));
        } else if word.starts_with('-') && word != "-" {
        } else if let Some(sub) = said.given.is_empty().then(|| command.find_subcommand(word)).flatten() {
            command = sub;
            said.path.push(sub.get_name());
        } else {
            said.given.push(word);
        }
    }
    if let Some(flag) = pending {
        return values(flag, &said, current);
    }
    let about = |text: Option<&clap::builder::StyledStr>| {
        text.map(|text| text.to_string().lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    if current.starts_with('-') {
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let words = flags.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect();
        return Fitting { words, ..Fitting::default() };
    }
    let mut found = Fitting::default();
    if said.given.is_empty() {
        let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found.words = commands.map(|sub| (sub.get_name().to_owned(), about(sub.get_about()))).collect();
    }
    let all: Vec<&Arg> = command.get_positionals().collect();
    let several = |last: &&&Arg| last.get_num_args().is_some_and(|count| count.max_values() > 1);
    if let Some(arg) = all.get(said.given.len()).or_else(|| all.last().filter(several)) {
        let Fitting { words, live, prefix } = values(arg, &said, current);
        found.words.extend(words);
        (found.live, found.prefix) = (live, prefix);
    }
    found
}

fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let name = word.split('=').next().unwrap_or(word);
    command.get_arguments().find(|arg| {
        arg.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long))
            || arg.get_short().is_some_and(|short| name.strip_prefix('-') == Some(short.to_string().as_str()))
    })
}

/// The values of an argument.
fn values(arg: &Arg, said: &Before<'_>, current: &str) -> Fitting {
    let about = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    let words = arg
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| (value.get_name().to_owned(), about(&value)));
    let mut words: Vec<(String, String)> = words.chain(formats(arg)).collect();
    let (id, first) = (arg.get_id().as_str(), said.given.first().copied());
    if let (["explain"], "what") | (["approve"], "plan") = (said.path.as_slice(), id) {
        // One object in two words, or in one with a slash.
        let slash = current.split_once('/').map(|(kind, _)| kind);
        if let Some(kind) = slash.or(first.filter(|_| said.given.len() == 1)).and_then(Subject::parse) {
            let prefix = slash.map(|kind| format!("{kind}/")).unwrap_or_default();
            return Fitting { words, live: vec![Live::Classic(kind.kind())], prefix };
        }
        if id == "what" && first.is_none() {
            words.extend(KINDS.map(|kind| (kind.to_owned(), String::new())));
        }
    }
    Fitting { words, live: live(said, id), prefix: String::new() }
}

/// The kinds that `mainstay explain` names.
const KINDS: [&str; 14] = [
    "clusterextension",
    "clustercatalog",
    "package",
    "subscription",
    "csv",
    "installplan",
    "catalogsource",
    "operatorgroup",
    "operatorcondition",
    "clusterversion",
    "clusteroperator",
    "machine",
    "machineconfigpool",
    "node",
];

/// The formats that the help of `--output` names.
fn formats(arg: &Arg) -> Vec<(String, String)> {
    let help = if arg.get_long() == Some("output") { arg.get_help().map(ToString::to_string) } else { None };
    let help = help.filter(|_| arg.get_possible_values().is_empty()).unwrap_or_default();
    let named = |format: &&&str| help.split([' ', ',']).any(|word| word == **format);
    ["table", "wide", "json", "yaml", "name"].iter().filter(named).map(|format| ((*format).to_owned(), String::new())).collect()
}

/// The kinds of names of the cluster that an argument takes.
fn live(said: &Before<'_>, id: &str) -> Vec<Live> {
    match (said.path.as_slice(), id) {
        (["uninstall" | "upgrade" | "describe"] | ["plan", "upgrade" | "uninstall"], "name") | (["list"], "names") if said.is_classic => {
            vec![Live::Operators]
        }
        (["migrate"], "operator") => vec![Live::Operators],
        (["list"], "names") => vec![Live::Extensions, Live::Operators],
        (
            ["uninstall" | "upgrade" | "describe" | "history" | "rollback" | "pin"]
            | ["plan", "upgrade" | "rollback" | "pin" | "uninstall"],
            "name",
        )
        | (["wait"], "what") => vec![Live::Extensions],
        (["explain"], "what") => match said.given.as_slice() {
            [] => vec![Live::Extensions],
            [kind] if is_kind(kind, "clusterextension") => vec![Live::Extensions],
            [kind] if is_kind(kind, "clustercatalog") => vec![Live::Catalogs],
            [kind] if is_kind(kind, "package") => vec![Live::Packages],
            [kind] if is_kind(kind, "machine") => vec![Live::Classic(MACHINE)],
            _ => Vec::new(),
        },
        (["install"] | ["plan", "install"], "package") if said.is_classic => vec![Live::Classic(PACKAGE_MANIFEST)],
        (["install"] | ["plan", "install"], "catalog") if said.is_classic => vec![Live::Classic(CATALOG_SOURCE)],
        (["operator", "install" | "describe" | "list-available"], "operator") => vec![Live::Classic(PACKAGE_MANIFEST)],
        (["operator", "upgrade" | "uninstall" | "list-operands"], "operator") => vec![Live::Subscribed],
        (["operator", "describe" | "list-available"], "catalog")
        | (["operator", "catalog", "remove"] | ["catalog", "serve-address"], "name") => vec![Live::Classic(CATALOG_SOURCE)],
        (["install" | "graph" | "rbac"] | ["plan", "install"], "package") => vec![Live::Packages],
        (["catalog", "show" | "remove"], "name")
        | (["install" | "migrate"] | ["plan", "install"], "catalog")
        | (["catalog", "search"], "catalogs") => vec![Live::Catalogs],
        (["approve"], "plan") => vec![Live::Plans, Live::Waiting],
        (["machine", "describe" | "delete"], "name") => vec![Live::Classic(MACHINE)],
        (_, "namespace" | "watch_namespace") => vec![Live::Namespaces],
        (_, "context") => vec![Live::Contexts],
        _ => Vec::new(),
    }
}

fn is_kind(word: &str, kind: &str) -> bool {
    word == kind || word.strip_suffix('s') == Some(kind)
}

/// The value of a flag among the words.
fn value(words: &[String], flags: &[&str]) -> Option<String> {
    let is_flag = |word: &String| flags.iter().any(|flag| word == flag || word.starts_with(&format!("{flag}=")));
    let at = words.iter().position(is_flag)?;
    words[at].split_once('=').map(|(_, value)| value.to_owned()).or_else(|| words.get(at + 1).cloned())
}

/// The cluster that the words select.
fn cluster(words: &[String]) -> ClusterArgs {
    ClusterArgs {
        kubeconfig: value(words, &["--kubeconfig"]).map(Into::into),
        context: value(words, &["--context"]),
        embedded: words.iter().any(|word| word == "--embedded"),
        act_as: value(words, &["--as"]),
    }
}

/// The names of a kind; those of OLM classic in a namespace, or all.
async fn names(cluster: &ClusterArgs, namespace: Option<&str>, live: Live) -> Option<Vec<String>> {
    if live == Live::Contexts {
        let read = cluster.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from).ok()?;
        return Some(read.contexts.into_iter().map(|context| context.name).collect());
    }
    let session = cluster.open().await.ok()?;
    let client = session.client.clone();
    match live {
        Live::Extensions => all(&Api::<ClusterExtension>::all(client)).await,
        Live::Catalogs => all(&Api::<ClusterCatalog>::all(client)).await,
        Live::Namespaces => all(&Api::<Namespace>::all(client)).await,
        Live::Plans => all(&Api::<ChangePlan>::all(client)).await,
        Live::Packages => {
            let snapshot = CatalogSnapshot::open(&session, None).await.ok()?;
            let served = snapshot.catalogs().iter().filter_map(|catalog| catalog.content.as_ref().ok());
            let mut names: Vec<String> =
                served.flat_map(|content| content.index.packages().map(|package| package.name().to_owned())).collect();
            names.sort();
            names.dedup();
            Some(names)
        }
        Live::Classic(kind) => objects::names(&session, kind, namespace).await.ok(),
        Live::Operators | Live::Subscribed => {
            let all = listing::operators(&session, namespace).await.ok()??.operators;
            let name = |each: Overview| match live {
                Live::Subscribed => each.package,
                _ => each.subscription.unwrap_or(each.installed),
            };
            let mut names: Vec<String> = all.into_iter().map(name).filter(|name| !name.is_empty()).collect();
            names.sort();
            names.dedup();
            Some(names)
        }
        Live::Waiting => {
            let all = approval::pending(&session, namespace).await.ok()??;
            Some(all.iter().map(|plan| format!("installplan/{}", objects::text(plan, "/metadata/name"))).collect())
        }
        Live::Contexts => None,
    }
}

async fn all<K>(api: &Api<K>) -> Option<Vec<String>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = api.list_metadata(&ListParams::default()).await.ok()?;
    Some(list.items.into_iter().filter_map(|object| object.metadata.name).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    /// MS-CLI-06: commands, flags and values come from the command line itself, names from the cluster where one is expected.
    #[test]
    fn what_fits() {
        let mut root = Cli::command();
        root.build();
        let fits = |line: &str| fitting(&root, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let words = |line: &str| fits(line).words.into_iter().map(|(word, _)| word).collect::<Vec<_>>();
        assert!(words("inst").contains(&"install".to_owned()) && !words("").contains(&"__complete".to_owned()));
        assert!(words("catalog ").contains(&"add".to_owned()));
        assert!(words("install beacon --ch").contains(&"--channel".to_owned()));
        assert_eq!(words("install beacon --grant "), ["minimal", "admin"]);
        assert_eq!(words("list -o "), ["table", "wide", "json", "yaml", "name"]);
        assert_eq!(words("describe beacon --output "), ["table", "json", "yaml"]);
        assert_eq!(words("completion "), ["bash", "zsh", "fish", "powershell"]);
        for (line, live) in [
            ("uninstall ", vec![Live::Extensions]),
            ("uninstall beacon ", vec![]),
            ("list a ", vec![Live::Extensions, Live::Operators]),
            ("explain ", vec![Live::Extensions]),
            ("install --version 1.0 ", vec![Live::Packages]),
            ("install beacon -n ", vec![Live::Namespaces]),
            ("install beacon --catalog ", vec![Live::Catalogs]),
            ("plan upgrade ", vec![Live::Extensions]),
            ("catalog remove ", vec![Live::Catalogs]),
            ("list --context ", vec![Live::Contexts]),
            ("approve ", vec![Live::Plans, Live::Waiting]),
        ] {
            assert_eq!(fits(line).live, live, "{line}");
        }
    }

    /// MS-CLI-06: where an object of OLM classic is expected, its names are offered, also behind `KIND/`.
    #[test]
    fn names_of_olm_classic() {
        let mut root = Cli::command();
        root.build();
        let fits = |line: &str| fitting(&root, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (line, live) in [
            ("describe --classic ", vec![Live::Operators]),
            ("uninstall -n lights --classic ", vec![Live::Operators]),
            ("upgrade --classic ", vec![Live::Operators]),
            ("plan upgrade --classic ", vec![Live::Operators]),
            ("plan uninstall --classic ", vec![Live::Operators]),
            ("list --classic a ", vec![Live::Operators]),
            ("migrate ", vec![Live::Operators]),
            ("migrate beacon --catalog ", vec![Live::Catalogs]),
            ("install --classic ", vec![Live::Classic(PACKAGE_MANIFEST)]),
            ("install beacon --classic --catalog ", vec![Live::Classic(CATALOG_SOURCE)]),
            ("explain sub ", vec![Live::Classic(objects::SUBSCRIPTION)]),
            ("explain csvs ", vec![Live::Classic(objects::CSV)]),
            ("explain clustercatalog ", vec![Live::Catalogs]),
            ("explain sub beacon ", vec![]),
            ("catalog serve-address ", vec![Live::Classic(CATALOG_SOURCE)]),
            ("operator install ", vec![Live::Classic(PACKAGE_MANIFEST)]),
            ("operator uninstall ", vec![Live::Subscribed]),
            ("operator catalog remove ", vec![Live::Classic(CATALOG_SOURCE)]),
        ] {
            assert_eq!(fits(line).live, live, "{line}");
        }
        for (line, kind, prefix) in [
            ("explain installplan/in", objects::INSTALL_PLAN, "installplan/"),
            ("explain catsrc/t", CATALOG_SOURCE, "catsrc/"),
            ("approve subscription/", objects::SUBSCRIPTION, "subscription/"),
        ] {
            let found = fits(line);
            assert_eq!((found.live, found.prefix.as_str()), (vec![Live::Classic(kind)], prefix), "{line}");
        }
        let words: Vec<String> = fits("explain ").words.into_iter().map(|(word, _)| word).collect();
        assert_eq!(words, KINDS);
    }
}
