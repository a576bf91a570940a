//! The screen of a running update (CVO-STAT): control plane, worker pools, health.
//!
//! ```text
//!   Facts ── control_plane ── operators counted, duration, estimate ─┐
//!         ── pools ── nodes by pool: phase, assessment ──────────────┼── text
//!         ── health ── insights of all parts, and of firing alerts ──┘
//! ```

mod control_plane;
mod estimate;
mod health;
mod node;
mod pools;
mod span;

use std::fmt::Write as _;

use jiff::Timestamp;
use mainstay_objects::{LabelSelector, SelectorError, labels_of};
use serde_json::Value;

use crate::cluster_version::{Condition, list, text, time};
use health::Insight;
pub use span::Span;

/// The nanoseconds that `oc` adds to a time that it takes from recorded objects, to exercise rounding.
pub const RECORDED: i64 = 368_975;

/// The facts of a status.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The ClusterVersion.
    pub cluster_version: &'a Value,
    /// The ClusterOperators.
    pub operators: &'a [Value],
    /// The MachineConfigPools.
    pub pools: &'a [Value],
    /// The MachineConfigs that nodes name.
    pub machine_configs: &'a [Value],
    /// The nodes.
    pub nodes: &'a [Value],
    /// The answer of the alerts' endpoint, or why there is none.
    pub alerts: Result<&'a Value, &'a str>,
    /// The time.
    pub now: Timestamp,
}

/// The parts that are shown at length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Details {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Every node.
    Nodes,
    /// Descriptions and links of insights.
    Health,
}

/// The reason for which there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusRefusal {
    /// The cluster has no ClusterOperators.
    #[error("no cluster operator information available - you must be connected to an OpenShift version 4 server")]
    NoOperators,
    /// It is not known whether the cluster is updating.
    #[error("no current Progressing info, see `oc describe clusterversion` for more details.\n")]
    NoProgressing,
    /// A pool selects nodes by what is no selector.
    #[error("failed to get label selector from the pool: {pool}")]
    Selector {
        /// The pool.
        pool: String,
        /// The rule that the selector breaks.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Details {
    fn has(self, part: Self) -> bool {
        self == Self::All || self == part
    }
}

/// Returns the time that recorded objects are looked at: the last change of a condition in them.
pub fn recorded_now(cluster_version: &Value, operators: &[Value]) -> Timestamp {
    let of = |object: &Value| -> Vec<Timestamp> {
        list(&object["status"]["conditions"]).iter().filter_map(|one| time(&one["lastTransitionTime"])).collect()
    };
    let last = of(cluster_version).into_iter().chain(operators.iter().flat_map(of)).max();
    last.and_then(|last| last.checked_add(jiff::SignedDuration::from_nanos(RECORDED)).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the screen.
pub fn status(facts: &Facts<'_>, details: Details) -> Result<String, StatusRefusal> {
    let status = &facts.cluster_version["status"];
    if facts.operators.is_empty() {
        return Err(StatusRefusal::NoOperators);
    }
    let progressing = Condition::find(&status["conditions"], "Progressing").ok_or(StatusRefusal::NoProgressing)?;
    let mut insights = Vec::new();
    let mut pools = Vec::new();
    let by_pool = nodes_by_pool(facts)?;
    for (pool, nodes) in facts.pools.iter().zip(by_pool) {
        pools.push(pools::assess(pool, &nodes, facts, &mut insights));
    }
    let (control, workers): (Vec<_>, Vec<_>) = pools.into_iter().partition(|pool| pool.name == MASTER);
    let is_outdated = workers.iter().any(pools::Pool::is_outdated);
    if progressing.status() != "True" && !is_outdated {
        return Ok("The cluster is not updating.\n".to_owned());
    }
    let entry = list(&status["history"]).first();
    let started = entry.map_or(progressing.since(), |entry| time(&entry["startedTime"]));
    let updating_for = Span::between(started, Some(facts.now)).rounded(Span::SECOND);
    let mut screen = String::new();
    match facts.alerts {
        Ok(alerts) => insights.extend(health::of_alerts(alerts, started)),
        // Writing to a text cannot fail.
        Err(error) => drop(writeln!(screen, "Unable to fetch alerts, ignoring alerts in 'Update Health':  {error}")),
    }
    let plane = control_plane::assess(facts, &mut insights);
    screen.push_str(&plane.to_string());
    // Of several pools of this name the last one counts.
    if let Some(pool) = control.last() {
        screen.push_str(&pool.nodes(details.has(Details::Nodes)));
    }
    screen.push_str("\n= Worker Upgrade =\n");
    screen.push_str(&pools::table(&workers));
    for pool in &workers {
        screen.push_str(&pool.nodes(details.has(Details::Nodes)));
    }
    screen.push('\n');
    screen.push_str(&health::text(insights, updating_for, facts.now, details.has(Details::Health)));
    Ok(screen)
}

const MASTER: &str = "master";
const WORKER: &str = "worker";

/// The nodes of each pool: those of the control plane, then those of a custom pool, then workers.
fn nodes_by_pool<'a>(facts: &Facts<'a>) -> Result<Vec<Vec<&'a Value>>, StatusRefusal> {
    let mut selectors = Vec::new();
    for pool in facts.pools {
        let name = text(&pool["metadata"]["name"]);
        let selector = &pool["spec"]["nodeSelector"];
        let refused = |cause: Box<dyn std::error::Error + Send + Sync>| StatusRefusal::Selector { pool: name.to_owned(), cause };
        // A pool without a selector selects nothing.
        let read: Option<LabelSelector> = serde_json::from_value(selector.clone()).map_err(|error| refused(error.into()))?;
        if let Some(selector) = &read {
            selector.validate().map_err(|error: SelectorError| refused(error.into()))?;
        }
        selectors.push((name, read));
    }
    let selects = |at: usize, node: &Value| selectors[at].1.as_ref().is_some_and(|selector| selector.matches(&labels_of(node)));
    let named = |wanted: fn(&str) -> bool, node: &Value| (0..selectors.len()).find(|&at| wanted(selectors[at].0) && selects(at, node));
    let mut nodes = vec![Vec::new(); selectors.len()];
    for node in facts.nodes {
        let pool = named(|name| name == MASTER, node)
            .or_else(|| named(|name| name != MASTER && name != WORKER, node))
            .or_else(|| named(|name| name == WORKER, node));
        if let Some(pool) = pool {
            nodes[pool].push(node);
        }
    }
    Ok(nodes)
}

/// An annotation of an object; empty if it is absent.
fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    text(&object["metadata"]["annotations"][key])
}

/// Adds an insight that says something; others are not shown.
fn note(insights: &mut Vec<Insight>, insight: Insight) {
    insights.push(insight);
}
