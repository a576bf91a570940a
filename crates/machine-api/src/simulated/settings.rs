//! The provider spec of simulated machines.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_golang::{DurationError, parse_duration};
use mainstay_machine_core::cloud::{self, CloudError, CloudSpec};
use serde::Deserialize;
use serde_json::Value;

/// The usual time until an instance runs.
const BOOT: Duration = Duration::from_secs(5);
/// The usual time until its kubelet asks for a certificate.
const JOIN: Duration = Duration::from_secs(5);
/// The usual time until a deleted instance is gone.
const DELETE: Duration = Duration::from_secs(3);
/// Most scripted failures.
const FAILURES: usize = 20;

/// A call of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "named by what they are")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Exists,
}

/// A failure that is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedFailure {
    /// The call that fails.
    pub operation: Operation,
    /// The number of times.
    pub times: u32,
    /// The reason; `InvalidConfiguration` is terminal.
    pub reason: String,
}

/// The settings of a simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its name at the provider, where a cloud gives it; else it is made of zone and machine.
    pub provider_id: Option<String>,
    /// Its size.
    pub instance_type: String,
    /// Its region.
    pub region: String,
    /// Its zone.
    pub zone: String,
    /// Its processors.
    pub cpu: Option<String>,
    /// Its memory.
    pub memory: Option<String>,
    /// The time from its creation until it runs.
    pub boot_delay: Duration,
    /// The time from running until its kubelet asks for a certificate.
    pub join_delay: Duration,
    /// The time from its deletion until it is gone.
    pub delete_delay: Duration,
    /// Labels that its kubelet gives the node.
    pub labels: BTreeMap<String, String>,
    /// Failures that are played.
    pub failures: Vec<ScriptedFailure>,
    /// True if its kubelet never starts.
    pub never_join: bool,
    /// The time after which it is lost by itself.
    pub vanish_after: Option<Duration>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// They have another form.
    #[error("spec.providerSpec.value cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// A duration is none.
    #[error("spec.providerSpec.value.{field}: {source}")]
    Duration {
        /// The field.
        field: &'static str,
        /// The mistake.
        source: DurationError,
    },
    /// There are too many failures.
    #[error("spec.providerSpec.value.failures: at most {FAILURES} can be played")]
    TooManyFailures,
    /// The provider spec of a cloud cannot be used.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Written {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: Option<Value>,
    instance_type: Option<String>,
    region: Option<String>,
    zone: Option<String>,
    cpu: Option<String>,
    memory: Option<String>,
    boot_delay: Option<String>,
    join_delay: Option<String>,
    delete_delay: Option<String>,
    labels: BTreeMap<String, String>,
    failures: Vec<WrittenFailure>,
    never_join: bool,
    vanish_after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFailure {
    operation: Operation,
    #[serde(default = "once")]
    times: u32,
    #[serde(default)]
    reason: String,
}

fn once() -> u32 {
    1
}

impl Settings {
    /// Reads the provider spec of a machine.
    ///
    /// # Errors
    /// A field is unknown, or has another type or form.
    pub fn of(machine: &Value) -> Result<Self, SettingsError> {
        let value = machine.pointer("/spec/providerSpec/value").unwrap_or(&Value::Null);
        if !value.get("kind").is_none_or(|kind| kind == super::KIND) {
            return Self::of_cloud(machine);
        }
        let written = Written::deserialize(value)?;
        let duration = |field: &'static str, text: Option<&String>| {
            text.map(|text| parse_duration(text).map_err(|source| SettingsError::Duration { field, source })).transpose()
        };
        if written.failures.len() > FAILURES {
            return Err(SettingsError::TooManyFailures);
        }
        let failures = written.failures.into_iter();
        Ok(Self {
            boot_delay: duration("bootDelay", written.boot_delay.as_ref())?.unwrap_or(BOOT),
            join_delay: duration("joinDelay", written.join_delay.as_ref())?.unwrap_or(JOIN),
            delete_delay: duration("deleteDelay", written.delete_delay.as_ref())?.unwrap_or(DELETE),
            vanish_after: duration("vanishAfter", written.vanish_after.as_ref())?,
            instance_type: written.instance_type.unwrap_or_else(|| "sim.small".to_owned()),
            provider_id: None,
            region: written.region.unwrap_or_else(|| "sim".to_owned()),
            zone: written.zone.unwrap_or_else(|| "zone-a".to_owned()),
            cpu: written.cpu,
            memory: written.memory,
            labels: written.labels,
            failures: failures.map(|one| ScriptedFailure { operation: one.operation, times: one.times, reason: one.reason }).collect(),
            never_join: written.never_join,
        })
    }

    /// Reads the provider spec of a cloud, for a rehearsal (MACH-PROV-10). What it does not say of a place is empty, as on that cloud.
    fn of_cloud(machine: &Value) -> Result<Self, SettingsError> {
        let spec = CloudSpec::of(machine)?;
        Ok(Self {
            provider_id: Some(cloud::provider_id(&spec, machine)),
            instance_type: spec.size.unwrap_or_default(),
            region: spec.region.unwrap_or_default(),
            zone: spec.zone.unwrap_or_default(),
            cpu: spec.cpu,
            memory: spec.memory,
            boot_delay: BOOT,
            join_delay: JOIN,
            delete_delay: DELETE,
            labels: BTreeMap::new(),
            failures: Vec::new(),
            never_join: false,
            vanish_after: None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn settings(value: &Value) -> Result<Settings, SettingsError> {
        Settings::of(&json!({"spec": {"providerSpec": {"value": value}}}))
    }

    /// MACH-PROV-04: the fields, their defaults, and what is said of fields that are none.
    #[test]
    fn fields() {
        let kind = json!({"apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig"});
        let usual = settings(&kind).unwrap();
        assert_eq!((usual.boot_delay, usual.delete_delay, &*usual.zone), (BOOT, DELETE, "zone-a"));
        let set = json!({"bootDelay": "0s", "zone": "zone-b", "failures": [{"operation": "create", "reason": "OutOfCapacity"}]});
        let set = settings(&set).unwrap();
        assert_eq!((set.boot_delay, &*set.zone, set.failures[0].times), (Duration::ZERO, "zone-b", 1));
        let text = |value: Value| settings(&value).unwrap_err().to_string();
        assert!(text(json!({"bootDelai": "0s"})).starts_with("spec.providerSpec.value cannot be read: unknown field `bootDelai`"));
        assert!(text(json!({"bootDelay": "soon"})).starts_with("spec.providerSpec.value.bootDelay: "));
        assert!(text(json!({"failures": [{"operation": "explode"}]})).contains("unknown variant `explode`"));
    }
}
