//! The reasons why pods remain, as values and in upstream's words (MACH-DRAIN-07).

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_golang::{duration_text, quote};

use crate::error::joined;
use crate::{Budget, PodRef};

/// Why a pod is still on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was asked to end and has not ended yet.
    Ending {
        /// Since when; `None` if it was asked just now.
        since: Option<Timestamp>,
    },
    /// A disruption budget forbids its eviction.
    Budget {
        /// The budgets that cover it; empty if they cannot be read.
        budgets: Vec<Budget>,
        /// The server's words.
        message: String,
    },
    /// Its namespace is being deleted, and it will be deleted with it.
    TerminatingNamespace {
        /// The server's words.
        message: String,
    },
    /// The server refused its eviction.
    Refused {
        /// The server's words.
        message: String,
    },
    /// The request got no answer.
    NoAnswer {
        /// The cause.
        message: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ending { since: None } => out.write_str("it ends now"),
            Self::Ending { since: Some(since) } => write!(out, "it has been ending since {since:.0}"),
            Self::Budget { budgets, message } if budgets.is_empty() => out.write_str(message),
            Self::Budget { budgets, .. } => {
                let names: Vec<String> = budgets.iter().map(Budget::to_string).collect();
                write!(out, "blocked by PodDisruptionBudget {}", names.join(", "))
            }
            Self::TerminatingNamespace { message } | Self::Refused { message } | Self::NoAnswer { message } => out.write_str(message),
        }
    }
}

/// Returns upstream's sentence about a pod that remains after the time of a drain.
pub fn sentence(pod: &PodRef, why: &Why, timeout: Duration) -> String {
    let (name, namespace) = (quote(&pod.name), quote(&pod.namespace));
    match why {
        Why::Ending { .. } => {
            let reached = duration_text(timeout);
            format!("error when waiting for pod {name} in namespace {namespace} to terminate: global timeout reached: {reached}")
        }
        Why::TerminatingNamespace { message } => {
            format!("error when evicting pod {name} from terminating namespace {namespace}: {message}")
        }
        why => format!("error when evicting pods/{name} -n {namespace}: {why}"),
    }
}

/// Returns the sentences about all pods that keep a drain from its end: of those that only end, only the ones that have been ending for
/// longer than `timeout`. `None` if it is enough to wait.
pub fn told(remaining: &[(PodRef, Why)], now: Timestamp, timeout: Duration) -> Option<String> {
    let late = |since: Timestamp| now.duration_since(since).unsigned_abs() >= timeout && since < now;
    let counts = |why: &Why| match why {
        Why::Ending { since } => since.is_some_and(late),
        _ => true,
    };
    let texts: Vec<String> = remaining.iter().filter(|(_, why)| counts(why)).map(|(pod, why)| sentence(pod, why, timeout)).collect();
    (!texts.is_empty()).then(|| joined(&texts))
}
