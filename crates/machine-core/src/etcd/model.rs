//! The member model: members of etcd as objects, where no etcd of its own can be asked (MACH-ETCD-07). A user plays with them: `spec.fault` makes a
//! member unhealthy, `spec.transfer` is the time in which a learner receives the database.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_golang::parse_duration;
use serde_json::{Value, json};

use super::{Candidate, Facts, Member, is_control_plane};
use crate::machine::{Address, Machine};
use crate::node::Node;

/// API version of members.
pub const API_VERSION: &str = "sim.mainstay.dev/v1alpha1";
/// Kind of members.
pub const KIND: &str = "SimEtcdMember";
/// The time in which a learner receives the database, unless it says another.
pub const TRANSFER: Duration = Duration::from_secs(1);
/// Label and annotation of what is played.
const SIMULATED: &str = "mainstay.dev/simulated";

/// Returns a new member.
pub fn member(node: &str, address: &str, learner: bool) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node, "namespace": super::NAMESPACE, "labels": {SIMULATED: "true"}, "annotations": {SIMULATED: "true"}},
        "spec": {"node": node, "address": address, "learner": learner, "transfer": mainstay_golang::duration_text(TRANSFER)},
    })
}

/// Returns the status that a member is to have, and after which time it changes by itself. It answers while its node is ready and no fault is
/// played.
pub fn status(member: &Value, nodes: &[Value], now: Timestamp) -> (Value, Option<Duration>) {
    let text = |path: &str| member.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let node = nodes.iter().find(|node| node["metadata"]["name"] == text("/spec/node")).map(Node::of);
    let healthy = node.is_some_and(|node| node.ready().is_some()) && text("/spec/fault").is_empty();
    let created: Option<Timestamp> = text("/metadata/creationTimestamp").parse().ok();
    // A time that a person has written wrongly is the usual one.
    let transfer = parse_duration(text("/spec/transfer")).unwrap_or(TRANSFER);
    let learner = member.pointer("/spec/learner") == Some(&Value::Bool(true));
    let was_in_sync = member.pointer("/status/inSync") == Some(&Value::Bool(true));
    let left = created.and_then(|created| {
        let end = created.checked_add(SignedDuration::try_from(transfer).ok()?).ok()?;
        Some(end.duration_since(now)).filter(SignedDuration::is_positive).map(SignedDuration::unsigned_abs)
    });
    // Nothing is received while it does not answer; what was received stays.
    let in_sync = was_in_sync || !learner || (healthy && left.is_none());
    let wait = left.filter(|_| !in_sync && healthy);
    (json!({"healthy": healthy, "inSync": in_sync}), wait)
}

/// Reads the facts from objects: the machines of the Machine API, all nodes, the members, and the ControlPlaneMachineSet if there is one.
pub fn facts(machines: &[Value], nodes: &[Value], members: &[Value], control_plane: Option<&Value>) -> Facts {
    let machines: Vec<Machine> = machines.iter().map(Machine::of).filter(is_control_plane).collect();
    let addressed =
        |node: &Value| Address::all_of(node).into_iter().find(|address| address.kind == "InternalIP").map(|found| found.address);
    let control_nodes = || nodes.iter().filter(|node| Node::of(node).is_control_plane());
    let members: Vec<Member> = members.iter().map(read).collect();
    let candidates = control_nodes().filter(|node| node["metadata"].get("deletionTimestamp").is_none() && Node::of(node).ready().is_some());
    let candidates = candidates.filter_map(|node| {
        let (name, address) = (node["metadata"]["name"].as_str()?, addressed(node)?);
        let is_member = members.iter().any(|member| member.address == address);
        (!is_member).then(|| Candidate { node: name.to_owned(), address })
    });
    let candidates: Vec<Candidate> = candidates.collect();
    let wanted = control_plane.and_then(|object| object.pointer("/spec/replicas")).and_then(Value::as_u64);
    let present = machines.iter().filter(|machine| !machine.deleting).count().max(1);
    Facts {
        nodes: control_nodes().filter_map(addressed).collect(),
        desired: wanted.and_then(|count| usize::try_from(count).ok()).unwrap_or(present),
        stable: true,
        machines,
        members,
        candidates,
    }
}

fn read(object: &Value) -> Member {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |path: &str| object.pointer(path) == Some(&Value::Bool(true));
    Member {
        name: text("/metadata/name"),
        address: text("/spec/address"),
        learner: is("/spec/learner"),
        in_sync: is("/status/inSync"),
        healthy: is("/status/healthy"),
    }
}
