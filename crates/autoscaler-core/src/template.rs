//! The node that a new machine of a set would be (COP-CAS-02, COP-CAS-03).
//!
//! A set with a ready node says by that node what the next one is like. A set without any says it by annotations, or its provider by its defaults.

use mainstay_kinds::quantity::Quantity;
use mainstay_objects::condition;
use serde_json::{Map, Value, json};

use crate::group::GroupId;
use crate::node::ACCELERATOR;

const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io";
const OLD: &str = "machine.openshift.io";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
/// Pods of a node of which nothing else is said.
const PODS: &str = "110";
/// The capacity of simulated instances unless their provider spec says otherwise.
const SIMULATED_CPU: &str = "8";
const SIMULATED_MEMORY: &str = "32Gi";
/// Taints of nodes that are not ready, cordoned or about to go: a new node has none of them.
const PASSING: [&str; 2] = ["node.kubernetes.io/", "DeletionCandidateOfClusterAutoscaler"];

/// Why it is not known what a new node would be like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nothing says how large it would be.
    #[error("no machine of the set is a node, and annotations {OLD}/vCPU and {OLD}/memoryMb do not say what one would have")]
    NoCapacity,
    /// An annotation is no amount.
    #[error("annotation {key}: {value:?} is no amount")]
    Amount {
        /// The annotation.
        key: String,
        /// Its value.
        value: String,
    },
}

/// Returns the imagined node of a set. `living` are the nodes that its machines have become; a name is given by [`named`].
///
/// # Errors
/// It is not known what it would be like.
pub fn template(set: &Value, living: &[&Value], startup_taints: &[String]) -> Result<Value, TemplateError> {
    let is_ready = |node: &&&Value| condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
    match living.iter().find(is_ready) {
        Some(node) => Ok(like(node, startup_taints)),
        None => from_nothing(set, startup_taints),
    }
}

/// Returns the imagined node of a number.
pub fn named(template: &Value, group: &GroupId, number: usize) -> Value {
    let name = format!("{group}/{number}");
    let mut node = template.clone();
    node["metadata"]["name"] = json!(name);
    node["metadata"]["uid"] = json!(name);
    node["metadata"]["labels"][HOSTNAME] = json!(name);
    node
}

fn like(node: &Value, startup_taints: &[String]) -> Value {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut status = Map::new();
    for field in ["capacity", "allocatable"] {
        if let Some(list) = node["status"].get(field) {
            status.insert(field.to_owned(), list.clone());
        }
    }
    let labels = node.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    imagined(&labels, &lasting(taints, startup_taints), &Value::Object(status))
}

fn imagined(labels: &Value, taints: &[Value], status: &Value) -> Value {
    let mut status = status.clone();
    status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "", "labels": labels}, "spec": {"taints": taints}, "status": status,
    })
}

/// The taints that a node keeps.
fn lasting(taints: Vec<Value>, startup_taints: &[String]) -> Vec<Value> {
    let is_passing = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        PASSING.iter().any(|prefix| key.starts_with(prefix)) || startup_taints.iter().any(|own| own == key)
    };
    taints.into_iter().filter(|taint| !is_passing(taint)).collect()
}

fn from_nothing(set: &Value, startup_taints: &[String]) -> Result<Value, TemplateError> {
    let spec = set.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    let provider = spec.pointer("/providerSpec/value").unwrap_or(&Value::Null);
    let is_simulated = provider["kind"] == "SimProviderConfig";
    let annotation = |key: &str| set.pointer("/metadata/annotations").and_then(|all| all.get(key)).and_then(Value::as_str);
    let amount = |key: String| match annotation(&key).map(|text| (text, Quantity::parse(text))) {
        None => Ok(None),
        Some((_, Ok(quantity))) => Ok(Some(quantity)),
        Some((text, Err(_))) => Err(TemplateError::Amount { key, value: text.to_owned() }),
    };
    let own = |name: &str, old: &str| match amount(format!("{CAPACITY}/{name}"))? {
        Some(quantity) => Ok(Some(quantity.to_string())),
        None => amount(format!("{OLD}/{old}")).map(|found| found.map(|quantity| quantity.to_string())),
    };
    let mut labels = text_map(spec.pointer("/metadata/labels"));
    let usual = |field: &str, usual: &str| is_simulated.then(|| provider[field].as_str().unwrap_or(usual).to_owned());
    let cpu = own("cpu", "vCPU")?.or_else(|| usual("cpu", SIMULATED_CPU));
    let memory = match amount(format!("{CAPACITY}/memory"))? {
        Some(quantity) => Some(quantity.to_string()),
        // The older form counts mebibytes.
        None => amount(format!("{OLD}/memoryMb"))?.map(|quantity| format!("{}Mi", quantity.to_int())),
    };
    let memory = memory.or_else(|| usual("memory", SIMULATED_MEMORY));
    let (Some(cpu), Some(memory)) = (cpu, memory) else { return Err(TemplateError::NoCapacity) };
    let mut resources = json!({"cpu": cpu, "memory": memory, "pods": own("maxPods", "maxPods")?.unwrap_or_else(|| PODS.to_owned())});
    if let Some(disk) = amount(format!("{CAPACITY}/ephemeral-disk"))? {
        resources["ephemeral-storage"] = json!(disk.to_string());
    } else if is_simulated {
        resources["ephemeral-storage"] = json!("100Gi");
    }
    if let Some(count) = own("gpu-count", "GPU")?.filter(|count| count != "0") {
        let kind = annotation(&format!("{CAPACITY}/gpu-type")).filter(|kind| kind.contains('/')).unwrap_or("nvidia.com/gpu");
        resources[kind] = json!(count);
    }
    for (key, value) in [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")] {
        labels.entry(key.to_owned()).or_insert_with(|| json!(value));
    }
    for pair in annotation(&format!("{CAPACITY}/labels")).unwrap_or_default().split(',') {
        if let Some((key, value)) = pair.trim().split_once('=') {
            labels.insert(key.to_owned(), json!(value));
        }
    }
    if is_simulated {
        simulated_labels(set, provider, &mut labels);
    }
    let mut taints = spec["taints"].as_array().cloned().unwrap_or_default();
    taints.extend(annotation(&format!("{CAPACITY}/taints")).unwrap_or_default().split(',').filter_map(|text| taint(text.trim())));
    let status = json!({"capacity": resources, "allocatable": resources});
    Ok(imagined(&Value::Object(labels), &lasting(taints, startup_taints), &status))
}

fn text_map(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The labels that the kubelets of simulated instances give their nodes (MACH-PROV-04).
fn simulated_labels(set: &Value, provider: &Value, labels: &mut Map<String, Value>) {
    labels.extend(text_map(provider.get("labels")));
    let known = [
        ("node.kubernetes.io/instance-type", "instanceType"),
        ("topology.kubernetes.io/region", "region"),
        ("topology.kubernetes.io/zone", "zone"),
    ];
    for (label, field) in known {
        if let Some(text) = provider[field].as_str().filter(|text| !text.is_empty()) {
            labels.entry(label.to_owned()).or_insert_with(|| json!(text));
        }
    }
    let role = set.pointer("/spec/template/metadata/labels").and_then(|labels| labels.get(ROLE)).and_then(Value::as_str);
    if let Some(role) = role.filter(|role| !role.is_empty()) {
        labels.insert(format!("node-role.kubernetes.io/{role}"), json!(""));
    }
    labels.insert("mainstay.dev/simulated".to_owned(), json!("true"));
}

/// Reads `key=value:Effect`.
fn taint(text: &str) -> Option<Value> {
    let (pair, effect) = text.split_once(':')?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some(json!({"key": key, "value": value, "effect": effect}))
}

/// Labels that differ between sets that are alike.
const ALIKE_BUT_FOR: [&str; 8] = [
    HOSTNAME,
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "machine.openshift.io/zone",
    "cluster.x-k8s.io/machine-name",
];
/// The share by which memory may differ, in thousandths.
const MEMORY_TOLERANCE: i128 = 15;

/// Returns whether two imagined nodes are alike: the same labels, but for zone and host, and the same size, memory within 1.5 %.
pub fn are_alike(one: &Value, other: &Value, ignored: &[String]) -> bool {
    let labels = |node: &Value| {
        let mut labels = text_map(node.pointer("/metadata/labels"));
        labels.retain(|key, _| !ALIKE_BUT_FOR.contains(&key.as_str()) && !ignored.contains(key));
        labels
    };
    let size = |node: &Value| crate::Node::of(node, &[]).size;
    let (left, right) = (size(one), size(other));
    let within = (left.memory - right.memory).abs() * 1000 <= left.memory.max(right.memory) * MEMORY_TOLERANCE;
    left.cpu == right.cpu && left.gpus == right.gpus && within && labels(one) == labels(other)
}

/// Returns the type of GPU of an imagined node.
pub fn gpu_type(node: &Value) -> Option<&str> {
    node.pointer("/metadata/labels")?.get(ACCELERATOR)?.as_str()
}
