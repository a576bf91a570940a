//! A Machine, as far as decisions look at it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_objects::{Labels, labels_of};
use serde_json::Value;

use crate::condition::Condition;
use crate::hooks::LifecycleHooks;

/// Phases of a machine (MACH-API-05).
pub mod phase {
    /// Deletion has begun.
    pub const DELETING: &str = "Deleting";
    /// A terminal error.
    pub const FAILED: &str = "Failed";
    /// The instance is to be made.
    pub const PROVISIONING: &str = "Provisioning";
    /// The instance is there and has no node yet.
    pub const PROVISIONED: &str = "Provisioned";
    /// The node is there.
    pub const RUNNING: &str = "Running";
}

/// Condition of a machine whose node was drained.
pub const DRAINED: &str = "Drained";
/// Label of machines that names their cluster.
pub const CLUSTER_LABEL: &str = "machine.openshift.io/cluster-api-cluster";
/// Label of machines that names their role.
pub const ROLE_LABEL: &str = "machine.openshift.io/cluster-api-machine-role";

/// An address of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `InternalIP`, `ExternalIP`, `InternalDNS`, `ExternalDNS` or `Hostname`.
    pub kind: String,
    /// The address.
    pub address: String,
}

impl Address {
    /// Creates an address.
    pub fn new(kind: &str, address: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), address: address.into() }
    }

    /// Reads addresses in an object's status; what has another form is left out.
    pub fn all_of(object: &Value) -> Vec<Self> {
        let addresses = object.pointer("/status/addresses").and_then(Value::as_array).into_iter().flatten();
        addresses.filter_map(|one| Some(Self::new(one["type"].as_str()?, one["address"].as_str()?))).collect()
    }
}

/// A Machine. Fields that are missing or of another type count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// True if its deletion was asked for.
    pub deleting: bool,
    /// UID of the owner that controls it.
    pub controller: Option<String>,
    /// Its lifecycle hooks.
    pub hooks: LifecycleHooks,
    /// Its phase.
    pub phase: Option<String>,
    /// Name of its node.
    pub node: Option<String>,
    /// Its instance, as the provider names it.
    pub provider_id: Option<String>,
    /// The addresses of its instance.
    pub addresses: Vec<Address>,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// When its status changed.
    pub last_updated: Option<Timestamp>,
    /// True if its status has an error, even an empty one.
    pub errored: bool,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl Machine {
    /// Reads a Machine.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let time = |path: &str| text(path).and_then(|time| time.parse().ok());
        let present = |path: &str| object.pointer(path).is_some_and(|value| !value.is_null());
        Self {
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            uid: text("/metadata/uid").unwrap_or_default().to_owned(),
            labels: labels_of(object),
            annotations: annotations_of(object),
            created: time("/metadata/creationTimestamp"),
            deleting: present("/metadata/deletionTimestamp"),
            controller: controller_of(object).and_then(|owner| owner["uid"].as_str()).map(str::to_owned),
            hooks: object.pointer("/spec/lifecycleHooks").map(LifecycleHooks::of).unwrap_or_default(),
            phase: text("/status/phase").map(str::to_owned),
            node: object
                .pointer("/status/nodeRef")
                .filter(|node| node.is_object())
                .map(|node| node["name"].as_str().unwrap_or_default().to_owned()),
            provider_id: text("/spec/providerID").map(str::to_owned),
            addresses: Address::all_of(object),
            finalizers: texts_of(object.pointer("/metadata/finalizers")),
            last_updated: time("/status/lastUpdated"),
            errored: present("/status/errorReason") || present("/status/errorMessage"),
            conditions: Condition::all_of(object),
        }
    }

    /// Returns whether an annotation is there, with any value.
    pub fn is_annotated(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }

    /// Returns whether its instance was given a name or an address.
    pub fn is_provisioned(&self) -> bool {
        !self.addresses.is_empty() || self.provider_id.as_ref().is_some_and(|id| !id.is_empty())
    }

    /// Returns the first address of a kind.
    pub fn address(&self, kind: &str) -> Option<&str> {
        self.addresses.iter().find(|address| address.kind == kind).map(|address| &*address.address)
    }

    /// Returns whether it is in this phase.
    pub fn is_in(&self, phase: &str) -> bool {
        self.phase.as_deref() == Some(phase)
    }
}

/// Returns the owner reference that controls an object.
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

/// Returns the annotations of an object; values that are no text are left out.
pub(crate) fn annotations_of(object: &Value) -> BTreeMap<String, String> {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns the texts of a list.
fn texts_of(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
