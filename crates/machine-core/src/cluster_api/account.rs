//! The instance as a Machine of Cluster API tells of it.

use serde_json::{Map, Value, json};

use super::GROUP;
use crate::lifecycle::Instance;
use crate::machine::Address;

/// Most addresses of an instance.
const ADDRESSES: usize = 50;
/// Conditions that say why an instance is not ready, in both versions of Cluster API.
const TOLD: [&str; 5] = ["InfrastructureReady", "BootstrapConfigReady", "BootstrapReady", "Ready", "Deleting"];
/// Where infrastructures say how large an instance is.
const SIZES: [&str; 4] = ["instanceType", "vmSize", "machineType", "flavor"];

/// Returns the account. `clone` is what was cloned from the template, as far as it is known.
pub fn instance(made: &Value, clone: Option<&Value>) -> Instance {
    let text = |path: &str| made.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let phase = text("/status/phase").unwrap_or_else(|| "Pending".to_owned());
    let size = |clone: &Value| SIZES.iter().find_map(|field| clone.pointer(&format!("/spec/{field}"))?.as_str().map(str::to_owned));
    Instance {
        provider_id: text("/spec/providerID"),
        addresses: Address::all_of(made).into_iter().take(ADDRESSES).collect(),
        instance_type: clone.and_then(size),
        region: None,
        zone: text("/status/failureDomain").or_else(|| text("/spec/failureDomain")),
        provider_status: Some(status(made, &phase)),
        state: Some(phase),
        simulated: false,
    }
}

fn status(made: &Value, phase: &str) -> Value {
    let mut status = Map::from_iter([
        ("apiVersion".to_owned(), json!(format!("{GROUP}/v1alpha1"))),
        ("kind".to_owned(), json!("ClusterAPIProviderStatus")),
        ("instanceState".to_owned(), json!(phase)),
        ("machine".to_owned(), json!({"apiVersion": made["apiVersion"], "name": made["metadata"]["name"]})),
    ]);
    for field in ["failureReason", "failureMessage"] {
        let told = ["/status/", "/status/deprecated/v1beta1/"].into_iter().find_map(|place| made.pointer(&format!("{place}{field}")));
        status.extend(told.filter(|told| told.is_string()).map(|told| (field.to_owned(), told.clone())));
    }
    let conditions = made.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let conditions: Vec<Value> = conditions.filter(|one| TOLD.iter().any(|kind| one["type"] == *kind)).map(condition).collect();
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Value::Object(status)
}

/// A condition without what changes by itself.
fn condition(one: &Value) -> Value {
    let fields = ["type", "status", "reason", "message", "lastTransitionTime"].into_iter();
    fields
        .filter_map(|field| Some((field.to_owned(), one.get(field).filter(|value| value.is_string())?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MACH-PROV-11: the account in the form of both versions of Cluster API; what is not said is not made up.
    #[test]
    fn accounts() {
        let fresh = instance(&json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"name": "m"}}), None);
        assert_eq!((fresh.provider_id, fresh.state.as_deref(), fresh.addresses.len()), (None, Some("Pending"), 0));
        let clone = json!({"spec": {"vmSize": "Standard_D4s_v5"}});
        let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1});
        let newer = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "metadata": {"name": "m"},
            "spec": {"providerID": "azure:///x", "failureDomain": "1"},
            "status": {"phase": "Provisioned", "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}], "failureDomain": "2",
                "deprecated": {"v1beta1": {"failureReason": "CreateError"}}, "conditions": [condition, {"type": "NodeHealthy", "status": "Unknown"}]},
        });
        let told = instance(&newer, Some(&clone));
        assert_eq!((told.provider_id.as_deref(), told.instance_type.as_deref()), (Some("azure:///x"), Some("Standard_D4s_v5")));
        assert_eq!((told.zone.as_deref(), told.addresses), (Some("2"), vec![Address::new("InternalIP", "10.0.0.4")]));
        let status = json!({
            "apiVersion": "capi.mainstay.dev/v1alpha1", "kind": "ClusterAPIProviderStatus", "instanceState": "Provisioned",
            "machine": {"apiVersion": "cluster.x-k8s.io/v1beta2", "name": "m"}, "failureReason": "CreateError",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}],
        });
        assert_eq!(told.provider_status, Some(status));
        let older = json!({"spec": {"failureDomain": "eu-1a"}, "status": {"phase": "Failed", "failureMessage": "no quota"}});
        let told = instance(&older, None);
        assert_eq!(
            (told.zone.as_deref(), &told.provider_status.unwrap_or_default()["failureMessage"]),
            (Some("eu-1a"), &json!("no quota"))
        );
    }
}
