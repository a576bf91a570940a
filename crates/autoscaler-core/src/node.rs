//! A Node, as far as the autoscaler looks at it.

use jiff::Timestamp;
use mainstay_kinds::resource_list::ResourceList;
use mainstay_objects::{Labels, condition, labels_of};
use serde_json::Value;

use crate::size::Size;

/// Annotation of nodes that are never removed.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Label of nodes with GPUs: their type.
pub const ACCELERATOR: &str = "cluster-api/accelerator";

/// A Node. Fields that are missing or of another type count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// The part of it that pods may use.
    pub size: Size,
    /// True if it is ready and has no taint of a start that is not over.
    pub is_ready: bool,
    /// Since when it is as ready as it is.
    pub since: Option<Timestamp>,
    /// True if its owner forbids its removal.
    pub is_kept: bool,
    /// True if its deletion was asked for.
    pub is_deleting: bool,
}

impl Node {
    /// Reads a core/v1 Node. One with a taint of these keys has not started yet.
    pub fn of(object: &Value, startup_taints: &[String]) -> Self {
        let list = |pointer: &str| object.pointer(pointer).filter(|list| list.is_object());
        let ready = condition(object, "Ready");
        let taints = object.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
        let is_starting = taints.filter_map(|taint| taint["key"].as_str()).any(|key| startup_taints.iter().any(|own| own == key));
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            labels: labels_of(object),
            size: Size::of(&ResourceList::read(list("/status/allocatable").or_else(|| list("/status/capacity")))),
            is_ready: !is_starting && ready.is_some_and(|ready| ready["status"] == "True"),
            since: ready.and_then(|ready| ready["lastTransitionTime"].as_str()?.parse().ok()),
            is_kept: object.pointer("/metadata/annotations").is_some_and(|all| all[SCALE_DOWN_DISABLED] == "true"),
            is_deleting: object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string),
        }
    }

    /// Returns the type of its GPUs.
    pub fn gpu_type(&self) -> Option<&str> {
        self.labels.get(ACCELERATOR).map(String::as_str).filter(|_| self.size.gpus > 0)
    }
}
