//! The parts of an update that take time, as far as they are known before.

use jiff::Timestamp;
use mainstay_api::config_v1::{ClusterVersion, UpdateState};
use mainstay_diagnostics::SharedError;
use mainstay_objects::{IntOrString, LabelSelector, PlainText, Rounding, labels_of};
use serde::Serialize;
use serde_json::Value;

use super::facts::name;

/// Facts about the duration of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// The seconds that the last completed update of the operators took; none if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_seconds: Option<i64>,
    /// The pools, whose nodes are drained and started again one round after the other.
    pub pools: Vec<PoolEstimate>,
}

/// The rounds of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolEstimate {
    /// Its name.
    pub name: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// The number of nodes that may be away at once.
    pub max_unavailable: usize,
    /// The number of rounds.
    pub rounds: usize,
}

/// Facts about the duration of an update.
pub fn estimate(cluster_version: &ClusterVersion, pools: &[Value], nodes: &[Value]) -> Estimate {
    // The first entry is the installation.
    let history = &cluster_version.status.history;
    let updates = history.split_last().map_or(&[][..], |(_, updates)| updates);
    let seconds = updates.iter().filter(|entry| entry.state == UpdateState::Completed).find_map(|entry| {
        let (begun, done): (Timestamp, Timestamp) = (entry.started_time.as_ref()?.0, entry.completion_time.as_ref()?.0);
        Some(done.as_second() - begun.as_second())
    });
    let pool = |pool: &Value| {
        let selector: LabelSelector = serde_json::from_value(pool["spec"]["nodeSelector"].clone()).unwrap_or_default();
        let members = nodes.iter().filter(|node| selector.matches(&labels_of(node))).count();
        // A pool that is stopped makes no round; the check of pools says why.
        let max_unavailable = max_unavailable(pool, members).unwrap_or(0);
        let rounds = if max_unavailable == 0 { 0 } else { members.div_ceil(max_unavailable) };
        PoolEstimate { name: name(pool), nodes: members, max_unavailable, rounds }
    };
    Estimate { last_update_seconds: seconds, pools: pools.iter().map(pool).collect() }
}

/// The number of nodes that may be away at once (MACH-MCP-04): a number or a percentage, rounded down and at least one; one if nothing is said. A
/// negative number stops the pool.
///
/// # Errors
/// It is neither a number nor a percentage, which stops the pool, too.
pub(super) fn max_unavailable(pool: &Value, nodes: usize) -> Result<usize, SharedError> {
    let limit: Option<IntOrString> = serde_json::from_value(pool["spec"]["maxUnavailable"].clone()).map_err(SharedError::new)?;
    let limit = limit.unwrap_or(IntOrString::Int(1)).scaled(nodes, Rounding::Down, PlainText::Refused).map_err(SharedError::new)?;
    Ok(if limit == 0 { 1 } else { usize::try_from(limit).unwrap_or(0) })
}
