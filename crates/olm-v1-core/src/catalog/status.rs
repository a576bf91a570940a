//! The conditions of a ClusterCatalog (OLM1-CAT-08).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::{CatalogSourceType, CatalogUrls, ClusterCatalog, ClusterCatalogStatus, ResolvedImage, ResolvedSource};

use crate::text::bounded;

/// The outcome of the work on a catalog.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// Its content is served.
    Serving {
        /// The image that it is from, by digest.
        resolved: &'a str,
        /// The time at which it was unpacked.
        unpacked: Timestamp,
        /// The address under which clients reach it.
        base: &'a str,
    },
    /// It could not be pulled or stored. Content that was served before is still served.
    Failed {
        /// The cause.
        problem: &'a str,
        /// True if a retry cannot help.
        terminal: bool,
        /// True if older content is served.
        serving: bool,
    },
    /// Switched off by the user.
    Disabled,
    /// Being deleted.
    Leaving,
}

const DISABLED: &str = "Catalog availability mode is set to Unavailable";

/// The status after an outcome.
pub fn status(catalog: &ClusterCatalog, outcome: &Outcome<'_>, now: Timestamp) -> ClusterCatalogStatus {
    let mut status = catalog.status.clone().unwrap_or_default();
    status.conditions.retain(|condition| ["Serving", "Progressing"].contains(&condition.kind.as_str()));
    let mut conditions = std::mem::take(&mut status.conditions);
    let mut set = |kind: &str, holds: Status, reason: &str, message: &str| {
        let condition = Condition {
            kind: kind.to_owned(),
            status: holds,
            reason: reason.to_owned(),
            message: bounded(message, &format!("mainstay explain clustercatalog {}", catalog.metadata.name.as_deref().unwrap_or_default())),
            last_transition_time: Time(now),
            observed_generation: catalog.metadata.generation,
        };
        condition::set(&mut conditions, condition);
    };
    match outcome {
        Outcome::Serving { resolved, unpacked, base } => {
            set("Progressing", Status::True, "Succeeded", "Successfully unpacked and stored content from resolved source");
            set("Serving", Status::True, "Available", "Serving desired content from resolved source");
            status.resolved_source =
                Some(ResolvedSource { kind: CatalogSourceType::Image, image: ResolvedImage { reference: (*resolved).to_owned() } });
            status.urls = Some(CatalogUrls { base: (*base).to_owned() });
            status.last_unpacked = Some(Time(*unpacked));
        }
        Outcome::Failed { problem, terminal, serving } => {
            match terminal {
                true => set("Progressing", Status::False, "Blocked", problem),
                false => set("Progressing", Status::True, "Retrying", problem),
            }
            if !serving {
                set("Serving", Status::False, "Unavailable", "");
            }
        }
        Outcome::Disabled => {
            set("Progressing", Status::True, "Succeeded", DISABLED);
            set("Serving", Status::False, "UserSpecifiedUnavailable", DISABLED);
        }
        Outcome::Leaving => set("Serving", Status::False, "Unavailable", ""),
    }
    let cleared = match outcome {
        Outcome::Disabled | Outcome::Leaving => true,
        Outcome::Failed { serving, .. } => !serving,
        Outcome::Serving { .. } => false,
    };
    if cleared {
        status.resolved_source = None;
        status.urls = None;
        status.last_unpacked = None;
    }
    status.conditions = conditions;
    status
}
