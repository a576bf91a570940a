//! One reconcile of a MachineSet: which machines are its own, how many come, which ones go (MACH-SET-01 to MACH-SET-05).

use jiff::Timestamp;
use mainstay_objects::{LabelSelector, SelectorError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::members::left_out;
use super::priority::{DeletePolicy, UnknownDeletePolicy};
use super::status::SetStatus;
use crate::machine::Machine;

/// API version of the Machine API.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";

/// A MachineSet, as far as decisions look at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// True if its deletion was asked for.
    pub deleting: bool,
    /// Machines that are wanted.
    pub replicas: usize,
    /// Seconds that a node must be ready.
    pub min_ready_seconds: i32,
    /// Which machines go first.
    pub policy: DeletePolicy,
    /// Which machines are its own.
    pub selector: LabelSelector,
    /// The labels of new machines.
    pub template_labels: mainstay_objects::Labels,
}

/// Why a set cannot be worked on, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The selector has another form.
    #[error("failed to parse MachineSet {set:?} label selector: {source}")]
    Selector {
        /// The set.
        set: String,
        /// The mistake.
        source: serde_json::Error,
    },
    /// The selector is invalid.
    #[error("failed to parse MachineSet {set:?} label selector: {source}")]
    InvalidSelector {
        /// The set.
        set: String,
        /// The mistake.
        source: SelectorError,
    },
    /// The selector would not match the machines of the set.
    #[error("failed validation on MachineSet {0:?} label selector, cannot match any machines ")]
    NoMatch(String),
    /// The number of machines is missing or negative.
    #[error("the Replicas field in Spec for machineset {0} is nil, this should not be allowed")]
    Replicas(String),
    /// There is no such policy.
    #[error(transparent)]
    Policy(#[from] UnknownDeletePolicy),
}

impl Set {
    /// Reads a MachineSet.
    ///
    /// # Errors
    /// It cannot be worked on.
    pub fn of(object: &Value) -> Result<Self, SetError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name").to_owned();
        let selector = object.pointer("/spec/selector").unwrap_or(&Value::Null);
        let selector = Option::<LabelSelector>::deserialize(selector)
            .map_err(|source| SetError::Selector { set: name.clone(), source })?
            .unwrap_or_default();
        selector.validate().map_err(|source| SetError::InvalidSelector { set: name.clone(), source })?;
        let template_labels = object.pointer("/spec/template").map(mainstay_objects::labels_of).unwrap_or_default();
        if selector.is_empty() || !selector.matches(&template_labels) {
            return Err(SetError::NoMatch(name));
        }
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let replicas = replicas.ok_or_else(|| SetError::Replicas(name.clone()))?;
        let min_ready = object.pointer("/spec/minReadySeconds").and_then(Value::as_i64).unwrap_or_default();
        Ok(Self {
            namespace: text("/metadata/namespace").to_owned(),
            uid: text("/metadata/uid").to_owned(),
            deleting: object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string),
            replicas,
            min_ready_seconds: i32::try_from(min_ready).unwrap_or(i32::MAX),
            policy: DeletePolicy::of(text("/spec/deletePolicy"))?,
            selector,
            template_labels,
            name,
        })
    }
}

/// The plan of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its machines, by name: also those that are adopted now.
    pub members: Vec<Machine>,
    /// Machines without a controller that become its own.
    pub adopt: Vec<Machine>,
    /// The number of machines that are made.
    pub create: usize,
    /// The machines that are deleted.
    pub delete: Vec<Machine>,
}

/// Plans a set over the machines of its namespace.
pub fn plan(set: &Set, machines: Vec<Machine>, now: Timestamp) -> Plan {
    let mut members: Vec<Machine> = machines.into_iter().filter(|machine| left_out(&set.uid, &set.selector, machine).is_none()).collect();
    members.sort_by(|one, other| one.name.cmp(&other.name));
    let adopt = members.iter().filter(|machine| machine.controller.is_none()).cloned().collect();
    let surplus = members.len().saturating_sub(set.replicas);
    let delete = if surplus == 0 { Vec::new() } else { set.policy.choose(&members, surplus, now).into_iter().cloned().collect() };
    Plan { create: set.replicas.saturating_sub(members.len()), adopt, delete, members }
}

/// Returns a new machine of a set; the server makes its name.
pub fn machine(set: &Value) -> Value {
    let template = |field: &str| set.pointer(&format!("/spec/template/metadata/{field}")).cloned().unwrap_or_else(|| json!({}));
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    json!({
        "apiVersion": API_VERSION,
        "kind": "Machine",
        "metadata": {
            "generateName": format!("{name}-"),
            "namespace": set["metadata"]["namespace"],
            "labels": template("labels"),
            "annotations": template("annotations"),
            "ownerReferences": [owner(set)],
        },
        "spec": set.pointer("/spec/template/spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Returns the reference by which a set controls its machines.
pub fn owner(set: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "MachineSet", "name": set["metadata"]["name"], "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the status that a set is to have.
pub fn status(set: &Value, counts: SetStatus) -> Value {
    let mut status = set.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    status.insert("replicas".into(), json!(counts.replicas));
    let counted =
        [("fullyLabeledReplicas", counts.fully_labeled), ("readyReplicas", counts.ready), ("availableReplicas", counts.available)];
    for (field, count) in counted {
        // A count of none is left out, as Go leaves it out.
        match count {
            0 => drop(status.remove(field)),
            count => drop(status.insert(field.into(), json!(count))),
        }
    }
    status.insert("observedGeneration".into(), set["metadata"]["generation"].clone());
    Value::Object(status)
}
