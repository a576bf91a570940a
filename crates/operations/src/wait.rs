//! Waiting until an extension or a catalog reaches a state (MS-CLI-05, MS-CLI-06).

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::Api;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Health, ObjectRef, health};
use mainstay_versions::{ExtensionRange, Version};

use crate::failure::{not_written, refused};
use crate::progress::Progress;
use crate::session::Session;
use crate::{approval, extensions};

/// Interval between two reads of the state.
const LOOK: Duration = Duration::from_millis(250);
/// Time that the controller has to take up an approval, before its older condition counts.
const TAKEN_UP: Duration = Duration::from_secs(15);
/// Number of objects that are read at a time.
const READERS: usize = 8;

/// A state to wait for.
#[derive(Clone, Debug)]
pub enum Awaited {
    /// An extension has a bundle installed.
    Installed,
    /// An extension has a bundle installed, and its objects are ready.
    Healthy,
    /// The object is gone.
    Deleted,
    /// A catalog serves its content.
    Serving,
    /// An extension has a version of this range installed and ready. The range is given as written, and parsed.
    Version(String, ExtensionRange),
}

/// A text that names no state to wait for.
#[derive(Debug, thiserror::Error)]
pub enum AwaitedError {
    /// The range cannot be read.
    #[error("version {text:?}: {source}")]
    Range {
        /// The range as written.
        text: String,
        /// The cause.
        source: mainstay_versions::Error,
    },
    /// The text is none of the known words.
    #[error("expected installed, healthy, deleted, serving or version=RANGE")]
    Unknown,
}

impl FromStr for Awaited {
    type Err = AwaitedError;

    fn from_str(text: &str) -> Result<Self, AwaitedError> {
        match text.split_once('=') {
            Some(("version", range)) => ExtensionRange::parse(range)
                .map(|read| Self::Version(range.to_owned(), read))
                .map_err(|source| AwaitedError::Range { text: range.to_owned(), source }),
            _ => match text {
                "installed" => Ok(Self::Installed),
                "healthy" => Ok(Self::Healthy),
                "deleted" => Ok(Self::Deleted),
                "serving" => Ok(Self::Serving),
                _ => Err(AwaitedError::Unknown),
            },
        }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed => out.write_str("installed"),
            Self::Healthy => out.write_str("healthy"),
            Self::Deleted => out.write_str("deleted"),
            Self::Serving => out.write_str("serving"),
            Self::Version(text, _) => write!(out, "at version {text}"),
        }
    }
}

/// An object to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An extension.
    Extension(String),
    /// A catalog.
    Catalog(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension(name) => write!(out, "clusterextension {name}"),
            Self::Catalog(name) => write!(out, "clustercatalog {name}"),
        }
    }
}

/// An object's state, compared with the awaited one.
enum State {
    /// The object reached the state; described in words.
    Reached(String),
    /// The object has not reached it yet; with what it waits for.
    Waiting(String),
    /// The object will not reach it without help.
    Stuck(String),
    /// The object does not exist.
    Absent,
}

/// Waits until a subject reaches a state, `timeout` at most; returns a description of it then.
pub async fn wait(
    session: &Session,
    subject: &Subject,
    awaited: &Awaited,
    timeout: Duration,
    progress: &mut dyn Progress,
) -> Result<String, Failure> {
    let begun = Instant::now();
    let explain = match subject {
        Subject::Catalog(name) => format!("mainstay explain clustercatalog {name}"),
        Subject::Extension(name) => format!("mainstay explain {name}"),
    };
    let failure = |kind: FailureKind, message: String| Failure::new(kind, subject.to_string(), message);
    loop {
        let state = match subject {
            Subject::Catalog(name) => look_at_catalog(session, name, awaited).await?,
            Subject::Extension(name) => match look_at_extension(session, name, awaited).await? {
                State::Stuck(_) if begun.elapsed() < TAKEN_UP && approval::is_under_way(session, name).await => {
                    State::Waiting("the approved change, which the controller takes up".to_owned())
                }
                state => state,
            },
        };
        let waits = match state {
            State::Reached(said) => return Ok(said),
            State::Absent => {
                return Err(failure(FailureKind::NotFound, "not found".to_owned())
                    .hint("mainstay list shows the extensions, mainstay catalog list the catalogs"));
            }
            State::Stuck(why) => return Err(failure(FailureKind::Impossible, why).hint(format!("{explain} says what to do"))),
            State::Waiting(waits) => waits,
        };
        if begun.elapsed() >= timeout {
            return Err(failure(FailureKind::TimedOut, format!("is not {awaited} after {} s", timeout.as_secs()))
                .because(waits)
                .hint(format!("the cluster goes on trying; {explain} says what it waits for")));
        }
        progress.doing(&format!("{subject}: {waits}"));
        tokio::time::sleep(LOOK).await;
    }
}

async fn look_at_extension(session: &Session, name: &str, until: &Awaited) -> Result<State, Failure> {
    let found = extensions::find(session, name).await?;
    let Some(extension) = found else {
        return Ok(if matches!(until, Awaited::Deleted) { State::Reached("deleted".to_owned()) } else { State::Absent });
    };
    if matches!(until, Awaited::Deleted) {
        let waits = match extension.metadata.deletion_timestamp {
            Some(_) => format!("finalizers {}", extension.metadata.finalizers.clone().unwrap_or_default().join(", ")),
            None => "it has not been deleted".to_owned(),
        };
        return Ok(State::Waiting(waits));
    }
    let current = |kind: &str| {
        extensions::condition(&extension, kind).filter(|condition| condition.observed_generation == extension.metadata.generation)
    };
    let Some(progressing) = current("Progressing") else {
        return Ok(State::Waiting("the controller, which has not looked at it yet".to_owned()));
    };
    if progressing.reason == "Blocked" {
        return Ok(State::Stuck(first_line(progressing)));
    }
    let installed = extensions::installed(&extension);
    let there = progressing.reason == "Succeeded" && current("Installed").is_some_and(|installed| installed.status == Status::True);
    let (Some(bundle), true) = (installed, there) else { return Ok(State::Waiting(first_line(progressing))) };
    match until {
        Awaited::Installed => return Ok(State::Reached(format!("{} is installed", bundle.name))),
        Awaited::Version(text, range) if !Version::parse(&bundle.version).is_ok_and(|version| range.matches(&version)) => {
            return Ok(State::Waiting(format!("version {} is installed, {text} is waited for", bundle.version)));
        }
        _ => {}
    }
    Ok(match ill(session, &extension).await? {
        Some(waits) => State::Waiting(waits),
        None => State::Reached(format!("{} is installed and healthy", bundle.name)),
    })
}

/// Returns the first object that is not ready.
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

async fn look_at_catalog(session: &Session, name: &str, until: &Awaited) -> Result<State, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    let found = api.get_opt(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?;
    let Some(catalog) = found else {
        return Ok(if matches!(until, Awaited::Deleted) { State::Reached("deleted".to_owned()) } else { State::Absent });
    };
    if matches!(until, Awaited::Deleted) {
        return Ok(State::Waiting(
            if catalog.metadata.deletion_timestamp.is_some() { "its finalizers" } else { "it has not been deleted" }.to_owned(),
        ));
    }
    let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let current = |kind: &str| condition::get(conditions, kind).filter(|found| found.observed_generation == catalog.metadata.generation);
    let progressing = current("Progressing");
    if progressing.is_some_and(|progressing| progressing.reason == "Blocked") {
        return Ok(State::Stuck(progressing.map(first_line).unwrap_or_default()));
    }
    match current("Serving") {
        Some(serving) if serving.status == Status::True => Ok(State::Reached("it serves".to_owned())),
        Some(serving) if serving.reason == "UserSpecifiedUnavailable" => Ok(State::Stuck("it is switched off".to_owned())),
        _ => Ok(State::Waiting(
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
    fn states_in_words() {
        assert!(matches!("version=1.1.x".parse::<Awaited>().unwrap(), Awaited::Version(text, _) if text == "1.1.x"));
        assert!("version=nonsense".parse::<Awaited>().is_err() && "ready".parse::<Awaited>().is_err());
    }
}
