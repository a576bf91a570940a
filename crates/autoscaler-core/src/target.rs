//! MachineAutoscalers: the bounds and the owner that they write on their target, and what keeps them from it (COP-CAS-02, MACH-SET-06).

use std::fmt;

use serde_json::{Map, Value, json};

/// The group of both kinds.
pub const GROUP: &str = "autoscaling.openshift.io";
/// The finalizer of MachineAutoscalers, so that their target is cleaned.
pub const FINALIZER: &str = "machinetarget.autoscaling.openshift.io";
/// Annotation of a target: `namespace/name` of the MachineAutoscaler that it belongs to.
pub const OWNER: &str = "autoscaling.openshift.io/machineautoscaler";
/// Annotation of a target: the least number of machines.
pub const MIN_SIZE: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size";
/// Annotation of a target: the greatest number of machines.
pub const MAX_SIZE: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size";
const TARGET_GROUP: &str = "machine.openshift.io";
const TARGET_KIND: &str = "MachineSet";

/// Returns the bounds of a set, if its annotations give both.
pub fn bounds(set: &Value) -> Option<(usize, usize)> {
    let annotations = set.pointer("/metadata/annotations")?;
    let bound = |key: &str| annotations.get(key)?.as_str()?.parse::<usize>().ok();
    let (min, max) = (bound(MIN_SIZE)?, bound(MAX_SIZE)?);
    (min <= max).then_some((min, max))
}

/// A reference to a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetRef {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl TargetRef {
    fn of(value: &Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        value.is_object().then(|| Self { api_version: text("apiVersion"), kind: text("kind"), name: text("name") })
    }

    /// Returns whether it is a kind that can be scaled. An API version that is left out is that of the kind.
    pub fn is_supported(&self) -> bool {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        self.kind == TARGET_KIND && (self.api_version.is_empty() || group == TARGET_GROUP)
    }

    fn to_value(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind, "name": self.name})
    }
}

/// The obstacle between a MachineAutoscaler and its target, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Its bounds are no bounds.
    #[error("MachineAutoscaler validation error: {0}")]
    Validation(BoundsError),
    /// The target is of another kind.
    #[error("Error getting target: unsupported MachineAutoscaler target")]
    Unsupported,
    /// The target has no name.
    #[error("Error getting target: invalid MachineAutoscaler target")]
    Invalid,
    /// The target does not exist.
    #[error("Error getting target: machinesets.machine.openshift.io \"{0}\" not found")]
    NotFound(String),
    /// The target belongs to another.
    #[error("Error setting target owner: already owned by another MachineAutoscaler")]
    Owned,
}

/// A mistake in the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// One is negative.
    #[error("min and max replicas must be greater than 0")]
    Negative,
    /// They are the wrong way round.
    #[error("max replicas must be greater than or equal to min")]
    Order,
}

impl TargetError {
    /// Returns the reason of its event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Validation(_) => "FailedValidation",
            Self::Unsupported | Self::Invalid | Self::NotFound(_) => "FailedGetTarget",
            Self::Owned => "FailedSetOwner",
        }
    }
}

/// A MachineAutoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineAutoscaler {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The least number of machines.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// Its target.
    pub target: TargetRef,
    /// The target that it was written to last.
    pub last: Option<TargetRef>,
    /// True if its deletion was asked for.
    pub is_deleting: bool,
}

/// A write to a target: the merge patch of its annotations; `None` if nothing differs.
pub type Annotations = Option<Value>;

impl MachineAutoscaler {
    /// Reads a MachineAutoscaler.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
        Self {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            min: number("/spec/minReplicas"),
            max: number("/spec/maxReplicas"),
            target: object.pointer("/spec/scaleTargetRef").and_then(TargetRef::of).unwrap_or_default(),
            last: object.pointer("/status/lastTargetRef").and_then(TargetRef::of),
            is_deleting: object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string),
        }
    }

    /// Returns the former target that is to be cleaned first: the target changed.
    pub fn former(&self) -> Option<&TargetRef> {
        self.last.as_ref().filter(|last| (&last.kind, &last.name) != (&self.target.kind, &self.target.name))
    }

    /// Returns the status that names a target as the last one.
    pub fn status(&self) -> Value {
        json!({"lastTargetRef": self.target.to_value()})
    }

    fn owner(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Checks itself, before any target is read.
    ///
    /// # Errors
    /// Its bounds or the kind of its target are wrong.
    pub fn check(&self) -> Result<(), TargetError> {
        if self.min < 0 || self.max < 0 {
            return Err(TargetError::Validation(BoundsError::Negative));
        }
        if self.max < self.min {
            return Err(TargetError::Validation(BoundsError::Order));
        }
        if !self.target.is_supported() {
            return Err(TargetError::Unsupported);
        }
        if self.target.name.is_empty() { Err(TargetError::Invalid) } else { Ok(()) }
    }

    /// Returns the patch that makes a target its own; bounds of an earlier owner are replaced.
    ///
    /// # Errors
    /// There is no target, or it belongs to another.
    pub fn claim(&self, target: Option<&Value>) -> Result<Annotations, TargetError> {
        let target = target.ok_or_else(|| TargetError::NotFound(self.target.name.clone()))?;
        let owner = self.owner();
        if annotation(target, OWNER).is_some_and(|known| known != owner) {
            return Err(TargetError::Owned);
        }
        let wanted = [(OWNER, owner), (MIN_SIZE, self.min.to_string()), (MAX_SIZE, self.max.to_string())];
        let differing: Map<String, Value> = wanted
            .into_iter()
            .filter(|(key, value)| annotation(target, key) != Some(value))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        Ok(patch(&differing))
    }

    /// Returns the patch that takes its marks off a target. What belongs to another, or was written by hand, stays.
    pub fn release(&self, target: &Value) -> Annotations {
        if annotation(target, OWNER) != Some(&self.owner()) {
            return None;
        }
        let present = [OWNER, MIN_SIZE, MAX_SIZE].into_iter().filter(|key| annotation(target, key).is_some());
        patch(&present.map(|key| (key.to_owned(), Value::Null)).collect())
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn patch(annotations: &Map<String, Value>) -> Annotations {
    (!annotations.is_empty()).then(|| json!({"metadata": {"annotations": annotations}}))
}

impl fmt::Display for MachineAutoscaler {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}
