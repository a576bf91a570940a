//! Completions for the end of a command line, for the scripts of `mainstay completion`: commands, flags and values as the command line declares them,
//! and names of the selected cluster. One line each: the word, a tab, its description.

use std::time::Duration;

use clap::{Arg, Command};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::config::Kubeconfig;
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_operations::catalogs::CatalogSnapshot;
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
}

/// Completions: words with their descriptions, and names of the cluster.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fitting {
    words: Vec<(String, String)>,
    live: Option<Live>,
}

/// Prints the completions; without names of the cluster if it cannot be asked, since errors would not be seen here.
pub fn run(arguments: &Arguments, mut root: Command) -> Result<(), Failure> {
    let mut words = arguments.words.clone();
    if arguments.new_word || words.is_empty() {
        words.push(String::new());
    }
    root.build();
    let Fitting { words: mut fitting, live } = fitting(&root, &words);
    if let Some(live) = live {
        let cluster = cluster(&words);
        let names = runtime::block_on(async { Ok(tokio::time::timeout(PATIENCE, names(&cluster, live)).await) });
        fitting.extend(names.ok().and_then(Result::ok).flatten().into_iter().flatten().map(|name| (name, String::new())));
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
    let (mut command, mut path, mut positions, mut pending) = (root, Vec::new(), 0, None::<&Arg>);
    for word in before {
        if pending.take().is_some() {
            continue;
        }
        if let Some(flag) = flag(command, word) {
            pending = Some(flag).filter(|flag| flag.get_action().takes_values() && !word.contains('='));
        } else if word.starts_with('-') && word != "-" {
        } else if let Some(sub) = (positions == 0).then(|| command.find_subcommand(word)).flatten() {
            command = sub;
            path.push(sub.get_name());
        } else {
            positions += 1;
        }
    }
    if let Some(flag) = pending {
        return values(flag, &path);
    }
    let about = |text: Option<&clap::builder::StyledStr>| {
        text.map(|text| text.to_string().lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
    };
    if current.starts_with('-') {
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let words = flags.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect();
        return Fitting { words, live: None };
    }
    let mut found = Fitting::default();
    if positions == 0 {
        let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found.words = commands.map(|sub| (sub.get_name().to_owned(), about(sub.get_about()))).collect();
    }
    let all: Vec<&Arg> = command.get_positionals().collect();
    let here = all.get(positions).or_else(|| all.last().filter(|last| last.get_num_args().is_some_and(|count| count.max_values() > 1)));
    if let Some(arg) = here {
        let Fitting { words, live } = values(arg, &path);
        found.words.extend(words);
        found.live = live;
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
fn values(arg: &Arg, path: &[&str]) -> Fitting {
    let about = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    let words = arg
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| (value.get_name().to_owned(), about(&value)));
    Fitting { words: words.chain(formats(arg)).collect(), live: live(path, arg.get_id().as_str()) }
}

/// The formats that the help of `--output` names.
fn formats(arg: &Arg) -> Vec<(String, String)> {
    let help = if arg.get_long() == Some("output") { arg.get_help().map(ToString::to_string) } else { None };
    let help = help.filter(|_| arg.get_possible_values().is_empty()).unwrap_or_default();
    let named = |format: &&&str| help.split([' ', ',']).any(|word| word == **format);
    ["table", "wide", "json", "yaml", "name"].iter().filter(named).map(|format| ((*format).to_owned(), String::new())).collect()
}

/// The kind of names of the cluster that an argument takes.
fn live(path: &[&str], id: &str) -> Option<Live> {
    Some(match (path, id) {
        (["uninstall" | "upgrade" | "describe" | "history" | "rollback"] | ["plan", "upgrade" | "rollback" | "uninstall"], "name")
        | (["list"], "names")
        | (["explain" | "wait"], "what") => Live::Extensions,
        (["install" | "graph" | "rbac"] | ["plan", "install"], "package") => Live::Packages,
        (["catalog", "show" | "remove"], "name") | (["install"] | ["plan", "install"], "catalog") | (["catalog", "search"], "catalogs") => {
            Live::Catalogs
        }
        (["approve"], "plan") => Live::Plans,
        (_, "namespace" | "watch_namespace") => Live::Namespaces,
        (_, "context") => Live::Contexts,
        _ => return None,
    })
}

/// The cluster that the words select.
fn cluster(words: &[String]) -> ClusterArgs {
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag || word.starts_with(&format!("{flag}=")))?;
        words[at].split_once('=').map(|(_, value)| value.to_owned()).or_else(|| words.get(at + 1).cloned())
    };
    ClusterArgs {
        kubeconfig: value("--kubeconfig").map(Into::into),
        context: value("--context"),
        embedded: words.iter().any(|word| word == "--embedded"),
        act_as: value("--as"),
    }
}

async fn names(cluster: &ClusterArgs, live: Live) -> Option<Vec<String>> {
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
            ("uninstall ", Some(Live::Extensions)),
            ("uninstall beacon ", None),
            ("list a ", Some(Live::Extensions)),
            ("explain ", Some(Live::Extensions)),
            ("install --version 1.0 ", Some(Live::Packages)),
            ("install beacon -n ", Some(Live::Namespaces)),
            ("install beacon --catalog ", Some(Live::Catalogs)),
            ("plan upgrade ", Some(Live::Extensions)),
            ("catalog remove ", Some(Live::Catalogs)),
            ("list --context ", Some(Live::Contexts)),
            ("approve ", Some(Live::Plans)),
        ] {
            assert_eq!(fits(line).live, live, "{line}");
        }
    }
}
