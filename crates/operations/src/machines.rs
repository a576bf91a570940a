//! Machines: which there are, what a deletion would do, what blocks one, and explanations (MACH-DEL-09, MACH-TRB-01 to MACH-TRB-03, MS-READY-02).
//!
//! ```text
//!   read ──► MachineFacts ──┬── course (machine_core::deletion): the steps, by the controllers' own decisions
//!                           ├── blockers ──► one table: hook, pod with its budget, node, pool, instance; owner and age
//!                           ├── explained ──► state, cause, one next action
//!                           └── planned ──► a deletion before it happens
//! ```

mod blockers;
mod explained;
mod planned;
mod pods;
mod sets;

use kube::api::ListParams;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_machine_core::deletion::{Course, course};
use mainstay_machine_core::etcd::{self, Held, Member};
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use mainstay_objects::{Expect, Propagation};
use mainstay_workloads::certificates::request::Request;
use serde_json::Value;

use crate::classic::objects::{Kind, find, list, list_by};
use crate::failure::not_written;
use crate::session::Session;

pub use blockers::{Blocker, BlockerKind};
pub use explained::{Explanation, explain_machine, explain_node};
pub use planned::{DeletionPlan, PlannedPart, plan_deletion};
pub use pods::Leaving;
pub use sets::explain_set;

const GROUP: &str = "machine.openshift.io";
/// Machines.
pub const MACHINE: Kind = Kind { group: GROUP, version: "v1beta1", kind: "Machine", plural: "machines", word: "machine" };
const NODE: Kind = Kind { group: "", version: "v1", kind: "Node", plural: "nodes", word: "node" };
const REQUEST: Kind = Kind {
    group: "certificates.k8s.io",
    version: "v1",
    kind: "CertificateSigningRequest",
    plural: "certificatesigningrequests",
    word: "certificatesigningrequest",
};
const CONTROL_PLANE: Kind =
    Kind { group: GROUP, version: "v1", kind: "ControlPlaneMachineSet", plural: "controlplanemachinesets", word: "controlplanemachineset" };
const MEMBER: Kind =
    Kind { group: "sim.mainstay.dev", version: "v1alpha1", kind: "SimEtcdMember", plural: "simetcdmembers", word: "simetcdmember" };
/// The namespace in which machines are acted upon.
pub const NAMESPACE: &str = "openshift-machine-api";
/// The signer of nodes' first certificates.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Most pending certificate requests that are looked at.
const MOST_REQUESTS: usize = 1000;

/// A machine with everything that its life depends on.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// The object.
    pub object: Value,
    /// The machine.
    pub machine: Machine,
    /// Its node, if it exists.
    pub node: Option<Value>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// Names of certificate requests of its node without a decision; `None` if they cannot be read.
    pub requests: Option<Vec<String>>,
    /// The members of etcd, while its hook holds the machine up and they can be asked.
    pub quorum: Option<Quorum>,
}

/// The membership of etcd, as far as it holds up the deletion of a machine (MACH-TRB-04).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// The members.
    pub members: Vec<Member>,
    /// Why the machine's member is not removed yet.
    pub held: Option<Held>,
}

impl MachineFacts {
    /// Returns how its deletion goes, or would go.
    pub fn course(&self) -> Course<'_> {
        let node = self.node.as_ref().map(Node::of);
        course(&self.machine, &self.object, node.as_ref(), &self.nodes)
    }
}

/// Lists the machines of a namespace, by name.
///
/// # Errors
/// The cluster does not serve machines, or cannot be read.
pub async fn read_all(session: &Session, namespace: &str) -> Result<Vec<Value>, Failure> {
    list(session, MACHINE, Some(namespace)).await.map_err(not_served)
}

/// Reads a machine and what its life depends on.
///
/// # Errors
/// There is no such machine, or the cluster cannot be read.
pub async fn read(session: &Session, namespace: &str, name: &str) -> Result<MachineFacts, Failure> {
    let found = find(session, MACHINE, namespace, name).await.map_err(not_served)?;
    let Some(object) = found else {
        // A namespaced kind that is not served answers as an object that is not there.
        list_by(session, MACHINE, Some(namespace), &ListParams::default().limit(1)).await.map_err(not_served)?;
        let hint = format!("mainstay machine list -n {namespace} shows those that there are");
        return Err(MACHINE.not_found(namespace, name).hint(hint));
    };
    facts(session, object).await
}

async fn facts(session: &Session, object: Value) -> Result<MachineFacts, Failure> {
    let machine = Machine::of(&object);
    let nodes = list(session, NODE, None).await?;
    let node = machine.node.as_deref().and_then(|name| nodes.iter().find(|node| node["metadata"]["name"] == name)).cloned();
    let requests = if machine.is_provisioned() && machine.node.is_none() { requests(session, &machine).await? } else { Some(Vec::new()) };
    let quorum = quorum(session, &machine, &nodes).await?;
    Ok(MachineFacts { nodes: nodes.iter().map(Node::of).collect(), object, machine, node, requests, quorum })
}

/// The members of etcd, if its hook holds up the machine's deletion. Only the member model can be asked through the cluster.
async fn quorum(session: &Session, machine: &Machine, nodes: &[Value]) -> Result<Option<Quorum>, Failure> {
    if !machine.deleting || !etcd::has_hook(machine) {
        return Ok(None);
    }
    let Some(members) = served(list(session, MEMBER, Some(etcd::NAMESPACE)).await)? else { return Ok(None) };
    let machines = list(session, MACHINE, Some(&machine.namespace)).await?;
    let control_plane = served(find(session, CONTROL_PLANE, &machine.namespace, "cluster").await)?.flatten();
    let facts = etcd::model::facts(&machines, nodes, &members, control_plane.as_ref());
    let held = etcd::plan(&facts).held.into_iter().find(|(name, _)| *name == machine.name).map(|(_, held)| held);
    Ok(Some(Quorum { members: facts.members, held }))
}

/// The certificate requests of a machine's node that wait; `None` if this identity may not read them.
async fn requests(session: &Session, machine: &Machine) -> Result<Option<Vec<String>>, Failure> {
    let all = match list(session, REQUEST, None).await {
        Ok(all) => all,
        Err(failure) if failure.kind() == FailureKind::Impossible => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let Some(host) = machine.address("InternalDNS") else { return Ok(Some(Vec::new())) };
    let wanted = format!("system:node:{host}");
    let is_waiting = |request: &&Value| {
        let conditions = request.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        request["spec"]["signerName"] == CLIENT_SIGNER
            && !conditions.into_iter().any(|one| one["type"] == "Approved" || one["type"] == "Denied")
    };
    let is_its = |request: &&Value| {
        let read = request.pointer("/spec/request").and_then(Value::as_str).map(Request::read);
        read.and_then(Result::ok).is_some_and(|read| read.common_name == wanted)
    };
    let its = all.iter().filter(is_waiting).take(MOST_REQUESTS).filter(is_its);
    Ok(Some(its.filter_map(|request| request["metadata"]["name"].as_str()).map(str::to_owned).collect()))
}

/// Asks for the deletion of a machine; returns whether that was new.
///
/// # Errors
/// There is no such machine, or the server refuses.
pub async fn delete(session: &Session, namespace: &str, name: &str) -> Result<bool, Failure> {
    let facts = read(session, namespace, name).await?;
    if facts.machine.deleting {
        return Ok(false);
    }
    let place = MACHINE.place(namespace, name);
    let expect = Expect::uid_of(&facts.object);
    session.writer.delete(&place, &expect, Propagation::Background).await.map_err(|error| not_written(&error))
}

/// Takes a kind that the cluster does not serve for nothing.
fn served<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Err(failure) if failure.kind() == FailureKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// Says what a cluster without the kind lacks.
fn not_served(failure: Failure) -> Failure {
    if failure.kind() != FailureKind::NotFound {
        return failure;
    }
    Failure::new(FailureKind::NotFound, "machines", "the cluster does not serve this kind: it has no Machine API")
        .hint("mainstay up --components all starts an embedded cluster that has one")
}
