//! The content of a MachineHealthCheck.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_golang::{DurationError, parse_duration};
use mainstay_objects::{IntOrString, LabelSelector};
use serde::Deserialize;
use serde_json::Value;

use crate::condition::Condition;
use crate::machine::annotations_of;

/// Annotation that stops a check.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation that names who remediates.
pub const STRATEGY_ANNOTATION: &str = "machine.openshift.io/remediation-strategy";
/// The value of [`STRATEGY_ANNOTATION`] for the controller of bare-metal hosts.
pub const EXTERNAL_STRATEGY: &str = "external-baremetal";

/// The time in which a machine must have a node, if the check does not say.
pub const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(600);

/// A condition that nodes may not be in for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyCondition {
    /// Its type.
    pub kind: String,
    /// Its status.
    pub status: String,
    /// The duration.
    pub timeout: Duration,
}

/// A reference to the template of remediation requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemplateRef {
    /// API version.
    pub api_version: String,
    /// Kind; it usually ends in `Template`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// A MachineHealthCheck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Which machines it looks at; an empty selector means all.
    pub selector: LabelSelector,
    /// The conditions that make a node unhealthy.
    pub unhealthy: Vec<UnhealthyCondition>,
    /// The number that may be unhealthy; all if absent.
    pub max_unhealthy: Option<IntOrString>,
    /// The time in which a machine must have a node; zero means for ever.
    pub startup_timeout: Duration,
    /// The template of remediation requests.
    pub template: Option<TemplateRef>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// A MachineHealthCheck that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The spec has not the form of one.
    #[error("the spec of the MachineHealthCheck cannot be read: {0}")]
    Spec(#[from] serde_json::Error),
    /// A duration is none.
    #[error("{field}: {source}")]
    Duration {
        /// Path of the field.
        field: String,
        /// The mistake.
        source: DurationError,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    selector: Option<LabelSelector>,
    unhealthy_conditions: Option<Vec<SpecCondition>>,
    max_unhealthy: Option<IntOrString>,
    node_startup_timeout: Option<String>,
    remediation_template: Option<TemplateRef>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    timeout: Option<String>,
}

impl HealthCheck {
    /// Reads a MachineHealthCheck.
    ///
    /// # Errors
    /// The spec has a field of another type, or a duration that is none.
    pub fn of(object: &Value) -> Result<Self, CheckError> {
        let spec: Option<Spec> = object.get("spec").map(Option::<Spec>::deserialize).transpose()?.flatten();
        let spec = spec.unwrap_or_default();
        let duration = |field: String, text: &str| parse_duration(text).map_err(|source| CheckError::Duration { field, source });
        let conditions = spec.unhealthy_conditions.unwrap_or_default();
        let unhealthy = conditions.into_iter().enumerate().map(|(index, condition)| {
            let field = format!("spec.unhealthyConditions[{index}].timeout");
            let timeout = condition.timeout.map_or(Ok(Duration::ZERO), |timeout| duration(field, &timeout))?;
            Ok(UnhealthyCondition { kind: condition.kind, status: condition.status, timeout })
        });
        let startup = spec.node_startup_timeout.map(|timeout| duration("spec.nodeStartupTimeout".to_owned(), &timeout)).transpose()?;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            annotations: annotations_of(object),
            selector: spec.selector.unwrap_or_default(),
            unhealthy: unhealthy.collect::<Result<_, CheckError>>()?,
            max_unhealthy: spec.max_unhealthy,
            startup_timeout: startup.unwrap_or(DEFAULT_STARTUP_TIMEOUT),
            template: spec.remediation_template,
            conditions: Condition::all_of(object),
        })
    }

    /// Returns whether nothing is to be done (MACH-MHC-05).
    pub fn is_paused(&self) -> bool {
        self.annotations.contains_key(PAUSED_ANNOTATION)
    }

    /// Returns whether the controller of bare-metal hosts remediates.
    pub fn asks_host_controller(&self) -> bool {
        self.annotations.get(STRATEGY_ANNOTATION).is_some_and(|strategy| strategy == EXTERNAL_STRATEGY)
    }
}
