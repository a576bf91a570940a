//! Recorded form `cpms-failure-domains`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CaseError, answered, field, optional};
use crate::control_plane::failure_domain::{FailureDomain, Platform};
use crate::control_plane::mapping::{ControlPlaneMachine, mapping};
use crate::control_plane::provider_spec::{ProviderSpec, place_of};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedMachine {
    name: String,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    deleting: bool,
    #[serde(default)]
    provider_spec: Option<String>,
}

impl From<RecordedMachine> for ControlPlaneMachine {
    fn from(machine: RecordedMachine) -> Self {
        Self { name: machine.name, created: machine.creation_timestamp, deleting: machine.deleting, provider_spec: machine.provider_spec }
    }
}

/// Answers which failure domain each index has, and with which provider spec its machine would be made.
pub fn control_plane(line: &Value) -> Result<Value, CaseError> {
    let platform = match field::<String>(line, "platform")?.as_str() {
        "AWS" => Platform::Aws,
        "Azure" => Platform::Azure,
        "GCP" => Platform::Gcp,
        _ => Platform::Generic,
    };
    let machines: Vec<RecordedMachine> = optional(line, "machines")?;
    let machines: Vec<ControlPlaneMachine> = machines.into_iter().map(ControlPlaneMachine::from).collect();
    let domains = match FailureDomain::list(platform, line.get("failureDomains").unwrap_or(&Value::Null)) {
        Ok(domains) => domains,
        Err(error) => return answered(line, json!({"failureDomainsError": error.to_string()})),
    };
    let template = match ProviderSpec::read(field::<Option<String>>(line, "templateProviderSpec")?.as_deref()) {
        Ok(template) => template,
        Err(error) => return answered(line, json!({"error": error.to_string()})),
    };
    let mapping = match mapping(&machines, field(line, "replicas")?, &domains, &template.failure_domain()) {
        Ok(mapping) => mapping,
        Err(error) => return answered(line, json!({"error": error.to_string()})),
    };
    let by_index = |of: &dyn Fn(&FailureDomain) -> Value| -> Value {
        Value::Object(mapping.iter().map(|(index, place)| (index.to_string(), of(place))).collect::<Map<_, _>>())
    };
    let places = machines.iter().filter_map(|machine| {
        let place = place_of(machine.provider_spec.as_deref()).ok()?;
        Some(json!({"machine": machine.name, "failureDomain": place.to_string()}))
    });
    let places: Vec<Value> = places.collect();
    let out = json!({
        "error": null,
        "mapping": by_index(&|place| json!(place.to_string())),
        "injected": by_index(&|place| template.with(place).value().clone()),
        "machineFailureDomains": if places.is_empty() { Value::Null } else { Value::Array(places) },
    });
    answered(line, out)
}
