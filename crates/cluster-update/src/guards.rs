//! The state of a cluster in which an update should not be asked for (CVO-CLI-08).

use std::fmt;

use serde_json::Value;

use crate::cluster_version::{Condition, text};
use crate::screen::indented;

/// One reason not to ask now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The sentence before reason and message.
    kind: Kind,
    reason: String,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Failing { target: String },
    Progressing,
}

/// All reasons not to ask now; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n"))]
pub struct Guards(pub Vec<Guard>);

impl fmt::Display for Guard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Invalid => out.write_str("the cluster version object is invalid, you must correct the invalid state first:")?,
            Kind::Failing { target } => {
                write!(out, "the cluster is experiencing an error reconciling {}:", mainstay_golang::quote(target))?;
            }
            Kind::Progressing => out.write_str("the cluster is already upgrading:")?,
        }
        write!(out, "\n\n  Reason: {}\n  Message: {}", self.reason, indented(&self.message))
    }
}

impl Guards {
    /// Returns the reasons of a ClusterVersion.
    pub fn of(cluster_version: &Value) -> Option<Self> {
        let (conditions, desired) = (&cluster_version["status"]["conditions"], &cluster_version["status"]["desired"]);
        let found = |name: &str, kind: Kind| {
            let condition = Condition::find(conditions, name).filter(|condition| condition.status() == "True")?;
            Some(Guard { kind, reason: condition.reason().to_owned(), message: condition.message().to_owned() })
        };
        let target = [text(&desired["version"]), text(&desired["image"])].into_iter().find(|name| !name.is_empty());
        let target = target.unwrap_or("ClusterVersion status.desired has neither a version nor image; please open a bug").to_owned();
        let all = [found("Invalid", Kind::Invalid), found("Failing", Kind::Failing { target }), found("Progressing", Kind::Progressing)];
        let all: Vec<Guard> = all.into_iter().flatten().collect();
        (!all.is_empty()).then_some(Self(all))
    }
}
