//! The generator: an inactive ControlPlaneMachineSet from the machines of the control plane as they are (MACH-CPMS-05).

use mainstay_objects::labels_of;
use serde_json::{Value, json};

use super::failure_domain::{FailureDomain, Platform, distinct};
use super::object::{API_VERSION, KIND, MACHINE_TYPE, NAME, TYPE_LABEL};
use super::provider_spec::{ProviderSpec, SpecError};
use crate::machine::{CLUSTER_LABEL, ROLE_LABEL};

/// Machines that are wanted; anything else must be said by a person.
const REPLICAS: u8 = 3;

/// Returns whether a machine is one of the control plane, by its role.
pub fn is_control_plane(machine: &Value) -> bool {
    labels_of(machine).get(ROLE_LABEL).is_some_and(|role| role == "master" || role == "control-plane")
}

/// Makes a ControlPlaneMachineSet of the machines of a control plane; `None` with fewer than two of them, or on a platform whose failure domains
/// are not known.
///
/// # Errors
/// The provider spec of a machine cannot be read.
pub fn generate(machines: &[Value], namespace: &str) -> Result<Option<Value>, SpecError> {
    if machines.len() < 2 {
        return Ok(None);
    }
    // The newest machine says what is wanted, if they differ.
    let mut machines: Vec<&Value> = machines.iter().collect();
    let age = |machine: &Value| {
        let text = |path: &str| machine.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("/metadata/creationTimestamp"), text("/metadata/name"))
    };
    machines.sort_by_key(|machine| std::cmp::Reverse(age(machine)));
    let specs = machines.iter().map(|machine| {
        let value = machine.pointer("/spec/providerSpec/value").filter(|value| !value.is_null());
        ProviderSpec::read(value.map(Value::to_string).as_deref())
    });
    let specs = specs.collect::<Result<Vec<ProviderSpec>, SpecError>>()?;
    let (Some(newest), Some(machine)) = (specs.first(), machines.first()) else { return Ok(None) };
    if newest.platform() == Platform::Generic || specs.iter().any(|spec| spec.platform() != newest.platform()) {
        return Ok(None);
    }
    let places: Vec<FailureDomain> = specs.iter().map(ProviderSpec::failure_domain).collect();
    let (domains, provider_spec) = spread(newest, distinct(&places));
    let cluster = labels_of(machine).get(CLUSTER_LABEL).cloned().unwrap_or_default();
    let labels = json!({CLUSTER_LABEL: cluster, ROLE_LABEL: "master", TYPE_LABEL: "master"});
    let mut template = json!({"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": provider_spec.value()}}});
    if !domains.is_empty() {
        let platform = newest.platform().name();
        let list: Vec<Value> = domains.iter().map(FailureDomain::to_value).collect();
        template["failureDomains"] = json!({"platform": platform, platform.to_lowercase(): list});
    }
    Ok(Some(json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": REPLICAS,
            "state": "Inactive",
            "strategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels},
            "template": {"machineType": MACHINE_TYPE, MACHINE_TYPE: template},
        },
    })))
}

/// Divides places into failure domains and a template: what all machines have in common stays in the template of Azure, and a single place in
/// that of the simulation.
fn spread(newest: &ProviderSpec, places: Vec<FailureDomain>) -> (Vec<FailureDomain>, ProviderSpec) {
    let is_single = places.len() <= 1;
    match newest.platform() {
        Platform::Azure | Platform::Sim if is_single => (Vec::new(), newest.clone()),
        Platform::Azure => {
            let common = |part: fn(&FailureDomain) -> &str| places.iter().all(|place| part(place) == part(&places[0]));
            let (same_zone, same_subnet) = (common(azure_zone), common(azure_subnet));
            let keep = |same: bool, text: &str| if same { String::new() } else { text.to_owned() };
            let narrowed = places.iter().map(|place| FailureDomain::Azure {
                zone: keep(same_zone, azure_zone(place)),
                subnet: keep(same_subnet, azure_subnet(place)),
            });
            let own = newest.failure_domain();
            let template = newest
                .without_place()
                .with(&FailureDomain::Azure { zone: keep(!same_zone, azure_zone(&own)), subnet: keep(!same_subnet, azure_subnet(&own)) });
            (narrowed.collect(), template)
        }
        _ => (places, newest.without_place()),
    }
}

fn azure_zone(place: &FailureDomain) -> &str {
    match place {
        FailureDomain::Azure { zone, .. } => zone,
        _ => "",
    }
}

fn azure_subnet(place: &FailureDomain) -> &str {
    match place {
        FailureDomain::Azure { subnet, .. } => subnet,
        _ => "",
    }
}

/// Returns whether an inactive object says what is generated now. A provider spec is compared as its platform reads it; other fields must be
/// equal.
pub fn is_current(live: &Value, generated: &Value) -> bool {
    let value = format!("/spec/template/{MACHINE_TYPE}/spec/providerSpec/value");
    let read = |object: &Value| ProviderSpec::read(object.pointer(&value).map(Value::to_string).as_deref());
    let same_machines = match (read(live), read(generated)) {
        (Ok(one), Ok(other)) => one.differences(&other).is_ok_and(|differences| differences.is_empty()),
        _ => false,
    };
    let rest = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(spec) = spec.pointer_mut(&format!("/template/{MACHINE_TYPE}/spec")).and_then(Value::as_object_mut) {
            spec.remove("providerSpec");
            spec.remove("authoritativeAPI");
        }
        spec
    };
    same_machines && rest(live) == rest(generated)
}
