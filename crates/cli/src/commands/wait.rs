//! `mainstay wait`: until an extension or a catalog is as wanted (MS-CLI-05, MS-CLI-06).

use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use futures::StreamExt as _;
use kube::api::Api;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_objects::{Health, ObjectRef, health};
use mainstay_versions::{ExtensionRange, Version};

use crate::cluster::{ClusterArgs, Session, not_written, refused};
use crate::durations;
use crate::errors::{Exit, Failure};
use crate::extensions;
use crate::output;
use crate::progress::Progress;
use crate::runtime;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Objects that are read at a time.
const READERS: usize = 8;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay wait beacon                           until it is installed and its objects are ready
  mainstay wait beacon --for version=1.1.0       until this version, or one in this range, is installed and ready
  mainstay wait beacon --for deleted --timeout 1m
  mainstay wait clustercatalog team              until it serves

Progress is on stderr. Exit codes: 0 it is so, 3 there is nothing of this name, 4 it cannot become so without somebody's help,
5 it is not so yet.")]
pub struct Arguments {
    /// [clusterextension|clustercatalog] NAME
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    /// installed, healthy, deleted, version=RANGE; serving or deleted of a catalog [default: healthy, or serving]
    #[arg(long = "for", value_name = "STATE")]
    until: Option<Until>,
    /// How long: 90s, 5m, 1h30m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = durations::parse)]
    timeout: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What is waited for.
#[derive(Clone, Debug)]
enum Until {
    Installed,
    Healthy,
    Deleted,
    Serving,
    /// As written, and read.
    Version(String, ExtensionRange),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("version", range)) => ExtensionRange::parse(range)
                .map(|read| Self::Version(range.to_owned(), read))
                .map_err(|error| format!("version {range:?}: {error}")),
            _ => match text {
                "installed" => Ok(Self::Installed),
                "healthy" => Ok(Self::Healthy),
                "deleted" => Ok(Self::Deleted),
                "serving" => Ok(Self::Serving),
                _ => Err("expected installed, healthy, deleted, serving or version=RANGE".to_owned()),
            },
        }
    }
}

/// How a thing stands, compared with what is waited for.
enum Look {
    /// It is so; in words.
    So(String),
    /// Not yet; what it waits for.
    NotYet(String),
    /// It will not be without help.
    Never(String),
    /// It is not there.
    Absent,
}

/// Waits.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (catalog, name) = subject(&arguments.what)?;
    let until = arguments.until.clone().unwrap_or(if catalog { Until::Serving } else { Until::Healthy });
    match (&until, catalog) {
        (Until::Serving, false) => {
            return Err(
                Failure::new(Exit::Usage, "wait", "an extension does not serve").hint("--for installed, healthy, deleted or version=RANGE")
            );
        }
        (Until::Installed | Until::Healthy | Until::Version(..), true) => {
            return Err(Failure::new(Exit::Usage, "wait", "a catalog is not installed").hint("--for serving or deleted"));
        }
        _ => {}
    }
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let kind = if catalog { "clustercatalog" } else { "clusterextension" };
        let subject = format!("{kind} {name}");
        let mut progress = Progress::start();
        let begun = Instant::now();
        loop {
            let look =
                if catalog { look_at_catalog(&session, &name, &until).await? } else { look_at_extension(&session, &name, &until).await? };
            let explain = || if catalog { format!("mainstay explain clustercatalog {name}") } else { format!("mainstay explain {name}") };
            let waits = match look {
                Look::So(said) => {
                    drop(progress);
                    return output::line(format!("{subject}: {said}"));
                }
                Look::Absent => {
                    return Err(Failure::new(Exit::NotFound, subject, "not found")
                        .hint("mainstay list shows the extensions, mainstay catalog list the catalogs"));
                }
                Look::Never(why) => {
                    return Err(Failure::new(Exit::Impossible, subject, why).hint(format!("{} says what to do", explain())));
                }
                Look::NotYet(waits) => waits,
            };
            if begun.elapsed() >= arguments.timeout {
                return Err(Failure::new(
                    Exit::TimedOut,
                    subject,
                    format!("is not {} after {} s", words(&until), arguments.timeout.as_secs()),
                )
                .because(waits)
                .hint(format!("the cluster goes on trying; {} says what it waits for", explain())));
            }
            progress.doing(&format!("{subject}: {waits}"));
            tokio::time::sleep(LOOK).await;
        }
    })
}

fn words(until: &Until) -> String {
    match until {
        Until::Installed => "installed".to_owned(),
        Until::Healthy => "healthy".to_owned(),
        Until::Deleted => "deleted".to_owned(),
        Until::Serving => "serving".to_owned(),
        Until::Version(text, _) => format!("at version {text}"),
    }
}

/// Whether it is a catalog, and its name.
fn subject(words: &[String]) -> Result<(bool, String), Failure> {
    let (kind, name) = match words {
        [name] => match name.split_once('/') {
            None => return Ok((false, name.clone())),
            Some(split) => split,
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(Failure::new(Exit::Usage, "wait", "expected a name, or a kind and a name")),
    };
    match kind.to_lowercase().split('.').next().unwrap_or_default() {
        "clusterextension" | "clusterextensions" | "extension" => Ok((false, name.to_owned())),
        "clustercatalog" | "clustercatalogs" | "catalog" => Ok((true, name.to_owned())),
        _ => Err(Failure::new(Exit::Usage, "wait", format!("{kind:?} is no kind that can be waited for"))
            .hint("it can be clusterextension or clustercatalog")),
    }
}

async fn look_at_extension(session: &Session, name: &str, until: &Until) -> Result<Look, Failure> {
    let found = extensions::find(session, name).await?;
    let Some(extension) = found else {
        return Ok(if matches!(until, Until::Deleted) { Look::So("deleted".to_owned()) } else { Look::Absent });
    };
    if matches!(until, Until::Deleted) {
        let waits = match extension.metadata.deletion_timestamp {
            Some(_) => format!("finalizers {}", extension.metadata.finalizers.clone().unwrap_or_default().join(", ")),
            None => "nobody has deleted it".to_owned(),
        };
        return Ok(Look::NotYet(waits));
    }
    let current = |kind: &str| {
        extensions::condition(&extension, kind).filter(|condition| condition.observed_generation == extension.metadata.generation)
    };
    let Some(progressing) = current("Progressing") else {
        return Ok(Look::NotYet("the controller, which has not looked at it yet".to_owned()));
    };
    if progressing.reason == "Blocked" {
        return Ok(Look::Never(first_line(progressing)));
    }
    let installed = extensions::installed(&extension);
    let there = progressing.reason == "Succeeded" && current("Installed").is_some_and(|installed| installed.status == Status::True);
    let (Some(bundle), true) = (installed, there) else { return Ok(Look::NotYet(first_line(progressing))) };
    match until {
        Until::Installed => return Ok(Look::So(format!("{} is installed", bundle.name))),
        Until::Version(text, range) if !Version::parse(&bundle.version).is_ok_and(|version| range.matches(&version)) => {
            return Ok(Look::NotYet(format!("version {} is installed, {text} is waited for", bundle.version)));
        }
        _ => {}
    }
    Ok(match ill(session, &extension).await? {
        Some(waits) => Look::NotYet(waits),
        None => Look::So(format!("{} is installed and healthy", bundle.name)),
    })
}

/// The first object that is not ready.
async fn ill(session: &Session, extension: &ClusterExtension) -> Result<Option<String>, Failure> {
    let history = extensions::history(session, extension).await?;
    let objects = history.installed().map(|revision| revision.record.objects.as_slice()).unwrap_or_default();
    let targets: Vec<ObjectRef> = objects.iter().filter_map(|object| ObjectRef::of(object).ok()).collect();
    let look = |target: ObjectRef| async move {
        let live = session.writer.get(&target).await.map_err(|error| not_written(&error))?;
        Ok::<_, Failure>(match live.as_ref().map(health) {
            Some(Health::Ready) => None,
            Some(Health::Waiting(why) | Health::Failed(why)) => Some(format!("{target}: {why}")),
            None => Some(format!("{target} is missing")),
        })
    };
    let mut looks = futures::stream::iter(targets).map(look).buffered(READERS);
    while let Some(found) = looks.next().await {
        if let Some(waits) = found? {
            return Ok(Some(waits));
        }
    }
    Ok(None)
}

async fn look_at_catalog(session: &Session, name: &str, until: &Until) -> Result<Look, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    let found = api.get_opt(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?;
    let Some(catalog) = found else {
        return Ok(if matches!(until, Until::Deleted) { Look::So("deleted".to_owned()) } else { Look::Absent });
    };
    if matches!(until, Until::Deleted) {
        return Ok(Look::NotYet(
            if catalog.metadata.deletion_timestamp.is_some() { "its finalizers" } else { "nobody has deleted it" }.to_owned(),
        ));
    }
    let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let current = |kind: &str| condition::get(conditions, kind).filter(|found| found.observed_generation == catalog.metadata.generation);
    let progressing = current("Progressing");
    if progressing.is_some_and(|progressing| progressing.reason == "Blocked") {
        return Ok(Look::Never(progressing.map(first_line).unwrap_or_default()));
    }
    match current("Serving") {
        Some(serving) if serving.status == Status::True => Ok(Look::So("it serves".to_owned())),
        Some(serving) if serving.reason == "UserSpecifiedUnavailable" => Ok(Look::Never("it is switched off".to_owned())),
        _ => Ok(Look::NotYet(
            progressing
                .filter(|found| found.reason == "Retrying")
                .map_or_else(|| "its image, which is being unpacked".to_owned(), first_line),
        )),
    }
}

fn first_line(condition: &Condition) -> String {
    condition.message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(&condition.reason).to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-CLI-06: what can be waited for.
    #[test]
    fn arguments() {
        assert!(matches!("version=1.1.x".parse::<Until>().unwrap(), Until::Version(text, _) if text == "1.1.x"));
        assert!("version=nonsense".parse::<Until>().is_err() && "ready".parse::<Until>().is_err());
        let words = |text: &str| subject(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(words("beacon").unwrap(), (false, "beacon".to_owned()));
        assert_eq!(words("catalog/team").unwrap(), (true, "team".to_owned()));
        assert_eq!(words("pod x").unwrap_err().exit, Exit::Usage);
    }
}
