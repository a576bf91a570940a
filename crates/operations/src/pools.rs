//! MachineConfigPools: which there are, paused and resumed, explained, and what a MachineConfig would do to them (MACH-PAUSE-02, MACH-DISR-09,
//! MACH-TRB-05 to MACH-TRB-07).

mod explained;
mod planned;

use jiff::Timestamp;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_machine_config_core::pool::Pool;
use mainstay_machine_config_core::pool::limit::max_unavailable;
use mainstay_machine_config_core::pool::membership::{SelectingPool, membership};
use mainstay_machine_config_core::pool::node::Node;
use serde_json::{Value, json};

use crate::classic::objects::{Kind, find, list};
use crate::failure::refused;
use crate::session::Session;

pub use explained::{explain_node, explain_pool};
pub(crate) use explained::{forbidden, owner};
pub use mainstay_machine_config_core::explain::Explanation;
pub use planned::{Drained, Obstacle, Outcome, Plan, plan};

const GROUP: &str = "machineconfiguration.openshift.io";
const POOL: Kind = Kind { group: GROUP, version: "v1", kind: "MachineConfigPool", plural: "machineconfigpools", word: "machineconfigpool" };
const NODE: Kind = Kind { group: "", version: "v1", kind: "Node", plural: "nodes", word: "node" };

/// A pool that keeps a node from a configuration that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The pool.
    pub pool: String,
    /// The reason.
    pub why: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// The pools of a cluster and its nodes.
#[derive(Clone, Debug)]
pub struct Pools {
    /// The objects, by name.
    pub objects: Vec<Value>,
    nodes: Vec<Node>,
    selecting: Vec<SelectingPool>,
}

impl Pools {
    /// The nodes of a pool.
    pub fn nodes(&self, pool: &str) -> Vec<Node> {
        self.nodes.iter().filter(|node| self.pool_of(node).as_deref() == Some(pool)).cloned().collect()
    }

    /// The pool of a node; none if there is none, or several claim it.
    pub fn pool_of(&self, node: &Node) -> Option<String> {
        membership(&node.name, &node.labels, &self.selecting).ok()??.pools.into_iter().next()
    }

    /// Returns whether a node's pool keeps it from the configuration that the pool has, and why: the pool is paused, or as many nodes are unavailable
    /// as may be.
    pub fn holding(&self, node: &Node) -> Option<Holding> {
        let pool = self.pool_of(node)?;
        let object = self.objects.iter().find(|object| object["metadata"]["name"] == pool.as_str())?;
        let nodes = self.nodes(&pool);
        let (settings, limit) = of_object(object, nodes.len()).ok()?;
        if settings.target.is_empty() || node.is_targeted_at(&settings.target) {
            return None;
        }
        let updating = mainstay_objects::condition(object, "Updating").and_then(|one| one["lastTransitionTime"].as_str()?.parse().ok());
        let held = |why: String| Some(Holding { pool: pool.clone(), why, since: updating });
        if settings.paused {
            return held(format!("it is paused, and {} waits; mainstay pool resume {pool}", settings.target));
        }
        let moving = |other: &&Node| !other.is_ready() || (other.is_targeted_at(&settings.target) && !other.is_done_at(&settings.target));
        let unavailable: Vec<&str> = nodes.iter().filter(moving).map(|other| other.name.as_str()).collect();
        let used = i64::try_from(unavailable.len()).unwrap_or(i64::MAX);
        if used < limit { None } else { held(format!("maxUnavailable ({limit}) is used up by {}", unavailable.join(", "))) }
    }

    /// A pool by name.
    fn named(&self, name: &str) -> Result<&Value, Failure> {
        let found = self.objects.iter().find(|pool| pool["metadata"]["name"] == name);
        found.ok_or_else(|| POOL.not_found("", name).hint("mainstay pool list shows those that there are"))
    }
}

/// A pool, as far as targeting needs it, and the number of its nodes that may be unavailable.
fn of_object(object: &Value, nodes: usize) -> Result<(Pool, i64), Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let subject = format!("machineconfigpool {name}");
    let limit = serde_json::from_value(object["spec"]["maxUnavailable"].clone()).map_err(|error| Failure::failed(&subject, &error))?;
    let target = object["spec"]["configuration"]["name"].as_str().unwrap_or_default().to_owned();
    let paused = object["spec"]["paused"].as_bool().unwrap_or_default();
    let pool = Pool { name, target, max_unavailable: limit, paused };
    let limit = max_unavailable(pool.max_unavailable.as_ref(), nodes).map_err(|error| Failure::failed(&subject, &error))?;
    Ok((pool, limit))
}

/// Reads pools and nodes.
///
/// # Errors
/// The cluster has no such kind, or cannot be read.
pub async fn read(session: &Session) -> Result<Pools, Failure> {
    let objects = list(session, POOL, None).await.map_err(not_served)?;
    let nodes = list(session, NODE, None).await?;
    let selector = |pool: &Value| serde_json::from_value(pool["spec"]["nodeSelector"].clone()).ok();
    let name = |pool: &Value| pool["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let selecting = objects.iter().map(|pool| SelectingPool { name: name(pool), node_selector: selector(pool) }).collect();
    Ok(Pools { nodes: nodes.iter().map(Node::of).collect(), selecting, objects })
}

/// Says what a cluster without the kind lacks.
fn not_served(failure: Failure) -> Failure {
    if failure.kind() != FailureKind::NotFound {
        return failure;
    }
    Failure::new(FailureKind::NotFound, "machineconfigpools", "the cluster does not serve this kind: it has no Machine Config Operator")
        .hint("mainstay up --components all starts an embedded cluster that has one")
}

/// Pauses or resumes a pool. Returns whether that changed it.
///
/// # Errors
/// There is no such pool, or the server refuses.
pub async fn pause(session: &Session, name: &str, paused: bool) -> Result<bool, Failure> {
    let live = find(session, POOL, "", name).await.map_err(not_served)?;
    let live = live.ok_or_else(|| POOL.not_found("", name).hint("mainstay pool list shows those that there are"))?;
    if live["spec"]["paused"].as_bool().unwrap_or_default() == paused {
        return Ok(false);
    }
    let patch = json!({"spec": {"paused": paused}});
    let request = http::Request::patch(format!("/apis/{GROUP}/v1/machineconfigpools/{name}"))
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(|error| Failure::failed(format!("machineconfigpool {name}"), &error))?;
    session.client.request::<Value>(request).await.map_err(|error| refused(format!("machineconfigpool {name}"), &error))?;
    Ok(true)
}
