//! Node links: which machine a node is, and what the node gets from it (MACH-RUN-03).

use serde_json::{Map, Value, json};

use crate::machine::{Address, Machine};

/// Annotation of nodes that names their machine.
pub const MACHINE_ANNOTATION: &str = "machine.openshift.io/machine";
const INTERNAL_IP: &str = "InternalIP";

/// Why no machine is a node's, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to find machine from node {node:?} by {by}: failed getting machine: expected 1 machine, got {count}")]
pub struct Ambiguous {
    /// The node.
    pub node: String,
    /// The compared parts.
    pub by: &'static str,
    /// The number of machines that fit.
    pub count: usize,
}

/// Finds the machine of a node: by its name at the provider, else by an internal address.
///
/// # Errors
/// Several machines fit; none is taken.
pub fn machine_of<'a>(node: &Value, machines: &'a [Machine]) -> Result<Option<&'a Machine>, Ambiguous> {
    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let one = |by: &'static str, found: Vec<&'a Machine>| match found.as_slice() {
        [] => Ok(None),
        [machine] => Ok(Some(*machine)),
        several => Err(Ambiguous { node: name.to_owned(), by, count: several.len() }),
    };
    if let Some(id) = node.pointer("/spec/providerID").and_then(Value::as_str).filter(|id| !id.is_empty()) {
        let fits = machines.iter().filter(|machine| machine.provider_id.as_deref() == Some(id)).collect();
        if let Some(machine) = one("ProviderID", fits)? {
            return Ok(Some(machine));
        }
    }
    let addresses = Address::all_of(node);
    let Some(address) = addresses.iter().find(|address| address.kind == INTERNAL_IP) else { return Ok(None) };
    let has_it = |machine: &&Machine| machine.addresses.contains(address);
    one("internal IP", machines.iter().filter(has_it).collect())
}

/// Returns the machine's reference to its node.
pub fn reference(node: &Value) -> Value {
    json!({"kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]})
}

/// Returns the merge patch that gives a node what its machine says; `None` if it has everything. Taints are added and never taken away.
pub fn node_patch(node: &Value, machine: &Value) -> Option<Value> {
    let text = |pointer: &str| machine.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let own = json!(format!("{}/{}", text("/metadata/namespace"), text("/metadata/name")));
    let object = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut wanted = object(machine, "/spec/metadata/annotations");
    wanted.insert(MACHINE_ANNOTATION.to_owned(), own);
    let annotations = missing(&object(node, "/metadata/annotations"), wanted);
    let labels = missing(&object(node, "/metadata/labels"), object(machine, "/spec/metadata/labels"));
    let list = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let present = list(node, "/spec/taints");
    let is_there = |taint: &Value, all: &[Value]| all.iter().any(|one| one["key"] == taint["key"] && one["effect"] == taint["effect"]);
    let mut taints = present.clone();
    for taint in list(machine, "/spec/taints") {
        if !is_there(&taint, &taints) {
            taints.push(taint);
        }
    }
    let mut patch = Map::new();
    let mut metadata = Map::new();
    for (field, content) in [("annotations", annotations), ("labels", labels)] {
        if !content.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(content));
        }
    }
    if taints != present {
        // A list is replaced as a whole: the version protects taints of others.
        metadata.insert("resourceVersion".to_owned(), node["metadata"]["resourceVersion"].clone());
        patch.insert("spec".to_owned(), json!({"taints": taints}));
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Returns what is wanted and not there.
fn missing(present: &Map<String, Value>, wanted: Map<String, Value>) -> Map<String, Value> {
    wanted.into_iter().filter(|(key, value)| present.get(key) != Some(value)).collect()
}
