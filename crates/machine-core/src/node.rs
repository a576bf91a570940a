//! A Node, as far as decisions about machines look at it.

use jiff::Timestamp;
use mainstay_objects::{Labels, labels_of};
use serde_json::Value;

const READY: &str = "Ready";
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// `Ready`, `DiskPressure` and so on.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A Node. Fields that are missing or of another type count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its labels.
    pub labels: Labels,
    /// True if it is cordoned.
    pub unschedulable: bool,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
}

impl Node {
    /// Reads a core/v1 Node.
    pub fn of(object: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let conditions = conditions.map(|condition| NodeCondition {
            kind: text(condition.get("type")),
            status: text(condition.get("status")),
            since: condition.get("lastTransitionTime").and_then(Value::as_str).and_then(|time| time.parse().ok()),
        });
        Self {
            name: text(object.pointer("/metadata/name")),
            uid: text(object.pointer("/metadata/uid")),
            labels: labels_of(object),
            unschedulable: object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default(),
            conditions: conditions.collect(),
        }
    }

    /// Returns the first condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Returns the Ready condition, if it is true.
    pub fn ready(&self) -> Option<&NodeCondition> {
        self.condition(READY).filter(|condition| condition.status == "True")
    }

    /// Returns whether the kubelet is not heard of any more.
    pub fn is_unreachable(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == READY && condition.status == "Unknown")
    }

    /// Returns whether it is a node of the control plane.
    pub fn is_control_plane(&self) -> bool {
        CONTROL_PLANE.iter().any(|label| self.labels.contains_key(*label))
    }
}
