//! `mainstay explain`: why something is as it is, what it waits for, and the one thing to do (MS-EXPL-02, MS-EXPL-04).

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod advised;
mod gather;

use clap::Args;
use jiff::Timestamp;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_olm_v1_core::extension::explain::{Explanation, explain, explain_catalog, explain_package};

use crate::cluster::{ClusterArgs, Session};
use crate::errors::{Exit, Failure};
use crate::output::{self, Format};
use crate::plans::advice;
use crate::progress::Progress;
use crate::{extensions, runtime};

pub use gather::{last_seen, raw_events};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay explain beacon                        the extension beacon, or the package where there is none of this name
  mainstay explain clustercatalog team
  mainstay explain package beacon
  mainstay explain beacon -o 'jsonpath={.next.commands[0]}'

-o json gives {\"subject\", \"situation\", \"state\", \"summary\", \"installed\": {\"name\", \"version\"}, \"waitsFor\", \"since\", \"why\": [...],
\"next\": {\"text\", \"commands\", \"warning\"}, \"alternatives\": [...], \"newer\": {\"version\", \"heldBackBy\", \"why\", \"action\"}, \"notes\": [...],
\"evidence\": [{\"what\", \"says\", \"at\"}]}; what does not apply is absent. state is one of healthy, held, working, not-installed, degraded
and removing.

Nothing is changed. Commands that are proposed were tried where that is possible without changing anything.

Exit codes: 0 explained, 2 a kind that this version does not look after, 3 there is nothing of this name.")]
pub struct Arguments {
    /// [clusterextension|clustercatalog|package] NAME
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// An extension, or a package where there is no extension of the name.
    Any(String),
    Extension(String),
    Catalog(String),
    Package(String),
}

impl Subject {
    /// `NAME`, `KIND NAME` or `KIND/NAME`.
    fn read(words: &[String]) -> Result<Self, Failure> {
        let (kind, name) = match words {
            [name] => match name.split_once('/') {
                None if foreign(name).is_some() => (name.as_str(), ""),
                None => return Ok(Self::Any(name.clone())),
                Some(split) => split,
            },
            [kind, name] => (kind.as_str(), name.as_str()),
            _ => return Err(Failure::new(Exit::Usage, "explain", "expected a name, or a kind and a name")),
        };
        let lower = kind.to_lowercase();
        let plain = lower.split('.').next().unwrap_or_default();
        match plain {
            "clusterextension" | "clusterextensions" | "extension" => Ok(Self::Extension(name.to_owned())),
            "clustercatalog" | "clustercatalogs" | "catalog" => Ok(Self::Catalog(name.to_owned())),
            "package" | "packages" => Ok(Self::Package(name.to_owned())),
            _ => Err(match foreign(plain) {
                Some(why) => Failure::new(Exit::Usage, plain, why),
                None => Failure::new(Exit::Usage, "explain", format!("{kind:?} is no kind that can be explained")),
            }
            .hint("it can be clusterextension, clustercatalog or package")),
        }
    }
}

/// Kinds that later versions look after.
fn foreign(kind: &str) -> Option<&'static str> {
    match kind.to_lowercase().as_str() {
        "subscription"
        | "subscriptions"
        | "sub"
        | "installplan"
        | "installplans"
        | "ip"
        | "csv"
        | "csvs"
        | "clusterserviceversion"
        | "clusterserviceversions"
        | "catalogsource"
        | "operatorgroup" => Some("belongs to OLM classic, which this version of mainstay does not manage"),
        "clusterversion" | "clusterversions" => Some("this version of mainstay does not manage the platform's version"),
        "machine" | "machines" | "machineset" | "machineconfigpool" => Some("this version of mainstay does not manage machines"),
        _ => None,
    }
}

/// Explains.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = Subject::read(&arguments.what)?;
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let answer = answer(&session, &subject).await?;
        show(&arguments.output, &answer)
    })
}

async fn answer(session: &Session, subject: &Subject) -> Result<Explanation, Failure> {
    let mut progress = Progress::start();
    match subject {
        Subject::Any(name) => match extensions::find(session, name).await? {
            Some(extension) => extension_answer(session, extension, &mut progress).await,
            None => package(session, name, true, &mut progress).await,
        },
        Subject::Extension(name) => {
            let extension = extensions::get(session, name).await?;
            extension_answer(session, extension, &mut progress).await
        }
        Subject::Catalog(name) => Ok(explain_catalog(&gather::catalog(session, name).await?)),
        Subject::Package(name) => package(session, name, false, &mut progress).await,
    }
}

/// An extension, with what it is told to do planned, too.
async fn extension_answer(session: &Session, extension: ClusterExtension, progress: &mut Progress) -> Result<Explanation, Failure> {
    let (facts, mut world) = Box::pin(gather::extension(session, extension, progress)).await?;
    let answer = explain(&facts);
    let Ok(plan) = &facts.plan else { return Ok(answer) };
    let outcomes = Box::pin(advice::outcomes(&mut world, &facts.snapshot, plan, answer.proposals(), progress)).await;
    Ok(answer.weighed(&facts, &outcomes))
}

/// A package. Where the kind was not said, a name that is nothing at all is not found.
async fn package(session: &Session, name: &str, guessed: bool, progress: &mut Progress) -> Result<Explanation, Failure> {
    let facts = Box::pin(gather::package(session, name, progress)).await?;
    let answer = explain_package(&facts);
    if answer.situation != "unknown-package" {
        return Ok(answer);
    }
    let what = if guessed { "no extension and no package has this name" } else { "no catalog has it" };
    let failure = Failure::new(Exit::NotFound, if guessed { name.to_owned() } else { format!("package {name}") }, what);
    let failure = match &answer.next {
        Some(next) if next.commands.is_empty() => failure.hint(next.text.as_str()),
        Some(next) => {
            let text = next.text.trim_end_matches(':');
            let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
            failure.hint(format!("{}: {}{rest}", next.commands.join(" && "), first.to_lowercase()))
        }
        None => failure,
    };
    Err(if guessed { failure.hint("mainstay list shows the extensions") } else { failure })
}

fn show(format: &Format, answer: &Explanation) -> Result<(), Failure> {
    if format.is_table() {
        return output::print(&answer.text(Timestamp::now()));
    }
    let value = serde_json::to_value(answer).map_err(|error| Failure::failed(&answer.subject, &error))?;
    output::value(format, &value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-EXPL-02: how a subject is written, and what this version does not look after.
    #[test]
    fn subjects() {
        let read = |text: &str| Subject::read(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("beacon").unwrap(), Subject::Any("beacon".into()));
        assert_eq!(read("clusterextension beacon").unwrap(), Subject::Extension("beacon".into()));
        assert_eq!(read("ClusterCatalog/team").unwrap(), Subject::Catalog("team".into()));
        assert_eq!(read("clustercatalogs.olm.operatorframework.io/team").unwrap(), Subject::Catalog("team".into()));
        assert_eq!(read("package beacon").unwrap(), Subject::Package("beacon".into()));
        for (text, says) in [
            ("subscription x", "OLM classic"),
            ("csv/x", "OLM classic"),
            ("installplan x", "OLM classic"),
            ("clusterversion", "platform"),
            ("machine x", "machines"),
            ("pod x", "no kind"),
        ] {
            let failure = read(text).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{text}");
            assert!(failure.message().contains(says), "{text}: {}", failure.message());
        }
    }
}
