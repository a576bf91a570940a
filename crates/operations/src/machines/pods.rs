//! The pods that leave a node by its drain. The server is asked for each eviction, and keeps nothing.

use jiff::Timestamp;
use mainstay_diagnostics::Failure;
use mainstay_drain::{Attempt, Drain, DrainError, Found, Options, Settings};
use serde::Serialize;

use crate::pools::{forbidden, owner};
use crate::session::Session;

/// A pod that leaves a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    /// Namespace and name.
    pub pod: String,
    /// Its controller: kind and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Since when it has been ending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why it cannot be evicted now: its budget, or the server's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// A drain before it happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Emptied {
    pub leaving: Vec<Leaving>,
    /// Warnings about pods that stay or are lost, in `kubectl drain`'s words; empty if there are none.
    pub warnings: String,
    /// Reasons that forbid the drain.
    pub refused: Vec<String>,
}

/// Looks at the pods of a node as the drain of its machine would.
pub(super) async fn of_node(
    session: &Session,
    node: &str,
    settings: Settings,
    grace_period: Option<i64>,
    now: Timestamp,
) -> Result<Emptied, Failure> {
    let failed = |error: DrainError| Failure::failed(format!("node {node}"), &error);
    let options = Options { settings, grace_period, dry_run: true, ..Options::default() };
    let drain = Drain::new(session.once.clone(), node, options);
    let look = drain.look(now).await.map_err(failed)?;
    let mut leaving = Vec::new();
    for found in &look.leaving {
        let blocked = match found.deleted {
            Some(_) => None,
            None => blocked(&drain, found).await.map_err(failed)?,
        };
        leaving.push(Leaving { pod: found.pod.to_string(), owner: owner(session, found).await?, since: found.deleted, blocked });
    }
    Ok(Emptied { leaving, warnings: look.warnings, refused: look.refused })
}

async fn blocked(drain: &Drain, found: &Found) -> Result<Option<String>, DrainError> {
    Ok(match drain.evict(found).await? {
        Attempt::Accepted | Attempt::Gone => None,
        Attempt::Forbidden(words) => Some(forbidden(drain, found, &words).await),
        Attempt::TerminatingNamespace(words) | Attempt::Refused(words) => Some(words),
    })
}
