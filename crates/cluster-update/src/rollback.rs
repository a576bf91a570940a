//! Back to the release before (CVO-RLBK-01).

use mainstay_versions::Version;
use serde_json::{Value, json};

use crate::cluster_version::{Condition, list, text};
use crate::request::quoted;
use crate::screen::Screen;

/// The reason for which there is no way back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollbackRefusal {
    /// The current version is not a semantic one.
    #[error("invalid ClusterVersion status.desired.version: {0}")]
    Current(mainstay_versions::Error),
    /// The version before is not a semantic one.
    #[error("previous version {} invalid SemVer: {error}", quoted(.version))]
    Previous {
        /// The version before.
        version: String,
        /// The rule that it breaks.
        error: mainstay_versions::Error,
    },
    /// The history has no other version.
    #[error("no previous version found in ClusterVersion's status.history besides the current {version} ({image}).")]
    None {
        /// The current version.
        version: Box<Version>,
        /// The current image.
        image: String,
    },
    /// The version before is not lower.
    #[error(
        "previous version {previous} ({previous_image}) is greater than or equal to current version {version} ({image}).  Use 'oc adm upgrade ...' to update, and not this rollback command."
    )]
    NotLower {
        /// The version before.
        previous: Box<Version>,
        /// Its image.
        previous_image: String,
        /// The current version.
        version: Box<Version>,
        /// The current image.
        image: String,
    },
    /// The version before is of another minor version.
    #[error(
        "{previous} is less than the current target {version} and matches the cluster's previous version, but rollbacks that change major or minor versions are not recommended."
    )]
    OtherMinor {
        /// The version before.
        previous: Box<Version>,
        /// The current version.
        version: Box<Version>,
    },
    /// It is not known whether the cluster is updating.
    #[error("no current Progressing info, see `oc describe clusterversion` for more details.\n")]
    NoProgressing,
    /// The cluster is updating.
    #[error("unable to rollback while an update is Progressing={status}: {reason}: {message}.")]
    Progressing {
        /// The status of the condition.
        status: String,
        /// Its reason.
        reason: String,
        /// Its message.
        message: String,
    },
}

/// Decides about the way back.
pub fn rollback(cluster_version: &Value) -> Result<Screen, RollbackRefusal> {
    let status = &cluster_version["status"];
    let image = text(&status["desired"]["image"]).to_owned();
    let version = Version::parse(text(&status["desired"]["version"])).map(Box::new).map_err(RollbackRefusal::Current)?;
    let current = version.to_string();
    let before = list(&status["history"]).iter().find(|entry| text(&entry["version"]) != current || text(&entry["image"]) != image);
    let Some(before) = before else { return Err(RollbackRefusal::None { version, image }) };
    let previous_image = text(&before["image"]).to_owned();
    let previous = text(&before["version"]);
    let previous =
        Version::parse(previous).map(Box::new).map_err(|error| RollbackRefusal::Previous { version: previous.to_owned(), error })?;
    if previous >= version {
        return Err(RollbackRefusal::NotLower { previous, previous_image, version, image });
    }
    if (previous.major(), previous.minor()) != (version.major(), version.minor()) {
        return Err(RollbackRefusal::OtherMinor { previous, version });
    }
    let progressing = Condition::find(&status["conditions"], "Progressing").ok_or(RollbackRefusal::NoProgressing)?;
    if progressing.status() != "False" {
        return Err(RollbackRefusal::Progressing {
            status: progressing.status().to_owned(),
            reason: progressing.reason().to_owned(),
            message: progressing.message().to_owned(),
        });
    }
    let wish = json!({"architecture": "", "version": previous.to_string(), "image": previous_image, "force": false});
    Ok(Screen {
        patch: Some(json!({"spec": {"desiredUpdate": wish}})),
        ..Screen::line(format!("Requested rollback from {version} to {previous}"))
    })
}
