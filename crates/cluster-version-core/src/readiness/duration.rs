//! What takes time in an update, as far as it is known before.

use jiff::Timestamp;
use mainstay_api::config_v1::{ClusterVersion, UpdateState};
use mainstay_objects::{LabelSelector, labels_of};
use serde::Serialize;
use serde_json::Value;

use super::facts::name;

/// What is known of the duration of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// The seconds that the last completed update of the operators took; none if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_seconds: Option<i64>,
    /// The pools, whose nodes are drained and started again one round after the other.
    pub pools: Vec<PoolEstimate>,
}

/// What is known of a pool.
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

/// What is known of the duration of an update.
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
        let max_unavailable = max_unavailable(pool, members);
        PoolEstimate { name: name(pool), nodes: members, max_unavailable, rounds: members.div_ceil(max_unavailable.max(1)) }
    };
    Estimate { last_update_seconds: seconds, pools: pools.iter().map(pool).collect() }
}

/// The number of nodes that may be away at once (MACH-MCP-04): a number or a percentage, rounded down and at least one; one if nothing is said.
pub(super) fn max_unavailable(pool: &Value, nodes: usize) -> usize {
    match &pool["spec"]["maxUnavailable"] {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(1),
        Value::String(text) => match text.strip_suffix('%').and_then(|percent| percent.parse::<usize>().ok()) {
            Some(percent) => (nodes.saturating_mul(percent.min(100)) / 100).max(1),
            None => text.parse().unwrap_or(1),
        },
        _ => 1,
    }
}
