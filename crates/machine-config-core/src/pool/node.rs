//! The configuration of a node, as it and the daemon on it say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_objects::{Labels, labels_of};
use serde_json::Value;

/// Annotations that the daemon and the controller share.
pub mod annotation {
    /// The configuration that the node has.
    pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
    /// The configuration that the node should have.
    pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
    /// The built image that the node runs.
    pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
    /// The built image that the node should run.
    pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
    /// The state of the daemon.
    pub const STATE: &str = "machineconfiguration.openshift.io/state";
    /// The reason why the daemon is degraded.
    pub const REASON: &str = "machineconfiguration.openshift.io/reason";
    /// The drain or the uncordoning that the daemon asks for: `drain-` or `uncordon-` and the configuration.
    pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
    /// The one that the controller did last.
    pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
    /// The topology of the control plane; nodes of one that is a single node are not drained.
    pub const TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";
    /// The actions after the files were written.
    pub const POST_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
    /// The version of the ControllerConfig whose authority the node has.
    pub const CONTROLLER_CONFIG: &str = "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
}

/// States of the daemon, as values of [`annotation::STATE`].
pub mod state {
    /// The node goes to its configuration.
    pub const WORKING: &str = "Working";
    /// The node reboots.
    pub const REBOOTING: &str = "Rebooting";
    /// The node has its configuration.
    pub const DONE: &str = "Done";
    /// An update failed.
    pub const DEGRADED: &str = "Degraded";
    /// The configuration cannot be reached from the current one.
    pub const UNRECONCILABLE: &str = "Unreconcilable";
}

/// Label of the zone that a node is in.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Key of the taint of nodes that wait for an update; its effect is `PreferNoSchedule`.
pub const UPDATE_TAINT: &str = "UpdateInProgress";
const UPDATE_TAINT_EFFECT: &str = "PreferNoSchedule";

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// `Ready`, `DiskPressure` and so on.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// A node, as far as pools look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was created; unknown counts as long ago.
    pub created: Option<Timestamp>,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// True if it is cordoned.
    pub unschedulable: bool,
    /// True if it carries the taint of nodes that wait for an update.
    pub update_taint: bool,
}

impl Node {
    /// Reads a core/v1 Node; what is missing or of another type counts as absent.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |path: &str| object.pointer(path).and_then(Value::as_array).into_iter().flatten();
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
        Self {
            name: object.pointer("/metadata/name").map(text).unwrap_or_default(),
            labels: labels_of(object),
            annotations: annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            created: object.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|time| time.parse().ok()),
            conditions: list("/status/conditions")
                .map(|condition| NodeCondition { kind: text(&condition["type"]), status: text(&condition["status"]) })
                .collect(),
            unschedulable: object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default(),
            update_taint: list("/spec/taints").any(|taint| taint["key"] == UPDATE_TAINT && taint["effect"] == UPDATE_TAINT_EFFECT),
        }
    }

    /// Returns an annotation; absent and empty are different.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Returns the zone that the node is in.
    pub fn zone(&self) -> Option<&str> {
        self.labels.get(ZONE).map(String::as_str)
    }

    /// Returns whether pods may be scheduled here: Ready, without disk pressure, with network, not cordoned. A condition that is not
    /// reported does not count (MACH-MCP-05).
    pub fn is_ready(&self) -> bool {
        let as_needed = |condition: &NodeCondition| match condition.kind.as_str() {
            "Ready" => condition.status == "True",
            "DiskPressure" | "NetworkUnavailable" => condition.status == "False",
            _ => true,
        };
        self.conditions.iter().all(as_needed) && !self.unschedulable
    }

    /// Returns whether the daemon could not apply the configuration that it is asked for.
    pub fn is_failing(&self) -> bool {
        let (current, desired) = (self.annotation(annotation::CURRENT_CONFIG), self.annotation(annotation::DESIRED_CONFIG));
        current.unwrap_or_default() != desired.unwrap_or_default() && self.reports_degraded()
    }

    /// Returns whether the node reports that an update failed; one that was never asked for a configuration does not count.
    pub fn is_degraded(&self) -> bool {
        self.filled(annotation::DESIRED_CONFIG).is_some() && self.reports_degraded()
    }

    /// Returns whether nothing more than what we do keeps the node from being available (MACH-MCP-05).
    pub fn is_unavailable(&self) -> bool {
        !self.is_ready() || (!self.is_settled() && !self.is_failing())
    }

    /// Returns whether the node is asked for this configuration, and for no image.
    pub fn is_targeted_at(&self, target: &str) -> bool {
        self.annotation(annotation::DESIRED_CONFIG).unwrap_or_default() == target && self.filled(annotation::DESIRED_IMAGE).is_none()
    }

    /// Returns whether the node has this configuration, and its daemon is done.
    pub fn is_done_at(&self, target: &str) -> bool {
        self.has_desired_config()
            && self.has_desired_image()
            && self.is_in(state::DONE)
            && self.annotation(annotation::CURRENT_CONFIG) == Some(target)
            && self.filled(annotation::DESIRED_IMAGE).is_none()
            && self.filled(annotation::CURRENT_IMAGE).is_none()
    }

    /// Returns whether the daemon says that it is in this state.
    pub fn is_in(&self, state: &str) -> bool {
        self.annotation(annotation::STATE) == Some(state)
    }

    /// Returns whether the daemon has nothing to do. A node that returns from an image to its configuration has.
    fn is_settled(&self) -> bool {
        let returns = self.annotation(annotation::CURRENT_IMAGE).is_some() && self.annotation(annotation::DESIRED_IMAGE).is_none();
        self.has_desired_config() && !returns && self.is_in(state::DONE)
    }

    fn has_desired_config(&self) -> bool {
        let current = self.filled(annotation::CURRENT_CONFIG);
        current.is_some() && current == self.filled(annotation::DESIRED_CONFIG)
    }

    fn has_desired_image(&self) -> bool {
        match (self.annotation(annotation::DESIRED_IMAGE), self.annotation(annotation::CURRENT_IMAGE)) {
            (None, None) => true,
            (desired, current) => desired == current && desired != Some(""),
        }
    }

    fn reports_degraded(&self) -> bool {
        self.is_in(state::DEGRADED) || self.is_in(state::UNRECONCILABLE)
    }

    /// Returns an annotation that is not empty.
    pub fn filled(&self, key: &str) -> Option<&str> {
        self.annotation(key).filter(|value| !value.is_empty())
    }
}
