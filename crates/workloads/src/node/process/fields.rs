//! The values that pods hand to their containers: fields of the pod, resources of a container (KAPI-WL-07). All of it is pure.

use kube::api::DynamicObject;
use mainstay_kinds::quantity::Quantity;
use serde_json::Value;

use super::error::ProcessError;
use crate::object::{Read as _, items};

/// The processors and the memory of a simulated node, which a container without a limit may use.
const CPU: &str = "8";
const MEMORY: &str = "32Gi";
const STORAGE: &str = "100Gi";

/// The addresses of a pod, which its status has only after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address of its node.
    pub host: String,
    /// Its own address.
    pub pod: String,
}

/// Returns the value of a field as `fieldRef` selects it.
///
/// # Errors
/// The path is not one that the downward API has.
pub fn field(pod: &DynamicObject, addresses: &Addresses, path: &str) -> Result<String, ProcessError> {
    if let Some((map, key)) = path.strip_suffix("']").and_then(|rest| rest.split_once("['")) {
        let value = match map {
            "metadata.labels" => pod.labels().get(key).cloned(),
            "metadata.annotations" => pod.annotation(key).map(str::to_owned),
            _ => return Err(format!("fieldPath {path:?} is not supported").into()),
        };
        return Ok(value.unwrap_or_default());
    }
    let none = std::collections::BTreeMap::new();
    Ok(match path {
        "metadata.name" => pod.name().to_owned(),
        "metadata.namespace" => pod.namespace().to_owned(),
        "metadata.uid" => pod.uid().to_owned(),
        "metadata.labels" => map(pod.labels()),
        "metadata.annotations" => map(pod.metadata.annotations.as_ref().unwrap_or(&none)),
        "spec.nodeName" => pod.text("/spec/nodeName").to_owned(),
        "spec.serviceAccountName" => pod.text("/spec/serviceAccountName").to_owned(),
        "status.hostIP" | "status.hostIPs" => addresses.host.clone(),
        "status.podIP" | "status.podIPs" => addresses.pod.clone(),
        _ => return Err(format!("fieldPath {path:?} is not supported").into()),
    })
}

/// Writes labels or annotations as the downward API does: a line each, in order.
fn map(all: &std::collections::BTreeMap<String, String>) -> String {
    let lines: Vec<String> = all.iter().map(|(key, value)| format!("{key}={}", mainstay_golang::quote(value))).collect();
    lines.join("\n")
}

/// Returns the value of a resource as `resourceFieldRef` selects it, for a container unless the reference names one.
///
/// # Errors
/// The container or the resource is not there, or the divisor cannot be read.
pub fn resource(pod: &DynamicObject, container: &str, reference: &Value) -> Result<String, ProcessError> {
    let name = reference["containerName"].as_str().filter(|name| !name.is_empty()).unwrap_or(container);
    let spec = items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers")).find(|spec| spec["name"] == name);
    let spec = spec.ok_or_else(|| format!("container {name:?} is not found"))?;
    let path = reference["resource"].as_str().unwrap_or_default();
    let (list, resource) = path.split_once('.').ok_or_else(|| format!("resource {path:?} is not supported"))?;
    let node = match resource {
        "cpu" => CPU,
        "memory" => MEMORY,
        "ephemeral-storage" => STORAGE,
        _ if resource.starts_with("hugepages-") => "0",
        _ => return Err(format!("resource {path:?} is not supported").into()),
    };
    let own = &spec["resources"];
    let given = match list {
        "limits" => amount(&own["limits"][resource]).unwrap_or_else(|| node.to_owned()),
        // A limit stands for a request that is not given.
        "requests" => amount(&own["requests"][resource]).or_else(|| amount(&own["limits"][resource])).unwrap_or_else(|| "0".to_owned()),
        _ => return Err(format!("resource {path:?} is not supported").into()),
    };
    let milli = |text: &str| Quantity::parse(text).map(Quantity::to_milli).map_err(|error| error.to_string());
    let divisor = match amount(&reference["divisor"]).as_deref() {
        None | Some("0" | "") => 1_000,
        Some(text) => milli(text)?,
    };
    if divisor <= 0 {
        return Err("the divisor is not positive".into());
    }
    let whole = milli(&given)?;
    Ok(((whole + divisor - 1) / divisor).to_string())
}

fn amount(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
