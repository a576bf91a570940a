//! A Pod and a PodDisruptionBudget, as far as the autoscaler looks at them.

use jiff::{SignedDuration, Timestamp};
use mainstay_kinds::resource_list::{Side, charged};
use mainstay_objects::{LabelSelector, Labels, condition, labels_of};
use serde::Deserialize as _;
use serde_json::Value;

use crate::size::Size;

/// Annotation of pods that says whether they may be evicted for a removal of their node.
pub const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The time beyond its grace period after which a pod that is being deleted does not count any more.
const LONG_TERMINATING: SignedDuration = SignedDuration::from_secs(30);
const GRACE: i64 = 30;

/// A Pod that has not ended. Fields that are missing or of another type count as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its node.
    pub node: Option<String>,
    /// True if the scheduler found no node for it.
    pub is_unschedulable: bool,
    /// Its priority.
    pub priority: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The UID of its controller.
    pub controller: Option<String>,
    /// The key that it shares with pods that fit where it fits: its controller, unless it has volumes of its own.
    pub alike: Option<String>,
    /// True if a DaemonSet controls it.
    pub is_daemon: bool,
    /// True if it is the image of a static pod.
    pub is_mirror: bool,
    /// The word of its annotation about its eviction.
    pub safe_to_evict: Option<bool>,
    /// True if it has a volume of its node.
    pub has_local_storage: bool,
    /// True if its deletion was asked for.
    pub is_deleting: bool,
    /// The time after which it should be gone.
    pub gone: Option<Timestamp>,
    /// The resources that it asks for.
    pub size: Size,
}

impl Pod {
    /// Reads a core/v1 Pod; `None` if it has ended.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        if matches!(text("/status/phase"), Some("Succeeded" | "Failed")) {
            return None;
        }
        let time = |pointer: &str| text(pointer).and_then(|time| time.parse::<Timestamp>().ok());
        let annotation = |key: &str| object.pointer("/metadata/annotations").and_then(|all| all.get(key)).and_then(Value::as_str);
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let volumes = object.pointer("/spec/volumes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let has = |kinds: [&str; 2]| volumes.iter().any(|volume| kinds.iter().any(|kind| volume.get(kind).is_some()));
        let uid = controller.map(|owner| owner["uid"].as_str().unwrap_or_default().to_owned());
        let scheduled = condition(object, "PodScheduled");
        let deleted = time("/metadata/deletionTimestamp");
        let grace = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(GRACE);
        Some(Self {
            uid: text("/metadata/uid").unwrap_or_default().to_owned(),
            namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            labels: labels_of(object),
            node: text("/spec/nodeName").map(str::to_owned),
            is_unschedulable: scheduled.is_some_and(|one| one["status"] == "False" && one["reason"] == "Unschedulable"),
            priority: object.pointer("/spec/priority").and_then(Value::as_i64).unwrap_or_default(),
            created: time("/metadata/creationTimestamp"),
            alike: uid.clone().filter(|_| !has(["persistentVolumeClaim", "ephemeral"])),
            controller: uid,
            is_daemon: controller.is_some_and(|owner| owner["kind"] == "DaemonSet"),
            is_mirror: annotation(MIRROR).is_some(),
            safe_to_evict: annotation(SAFE_TO_EVICT).and_then(|text| text.parse().ok()),
            has_local_storage: has(["emptyDir", "hostPath"]),
            is_deleting: deleted.is_some(),
            gone: deleted.and_then(|deleted| {
                deleted.checked_add(SignedDuration::from_secs(grace)).and_then(|end| end.checked_add(LONG_TERMINATING)).ok()
            }),
            size: Size::of(&charged(object, Side::Requests)),
        })
    }

    /// Returns whether it should be gone by now, so that nothing waits for it.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.gone.is_some_and(|gone| gone < now)
    }

    /// Returns `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The pods that it covers; `None` if its selector cannot be read, and then it covers all of its namespace.
    pub selector: Option<LabelSelector>,
    /// The number of pods that may be disrupted now.
    pub allowed: i64,
}

impl Budget {
    /// Reads a policy/v1 PodDisruptionBudget.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let selector = object.pointer("/spec/selector").and_then(|selector| LabelSelector::deserialize(selector).ok());
        Self {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            selector: selector.filter(|selector| selector.validate().is_ok()),
            allowed: object.pointer("/status/disruptionsAllowed").and_then(Value::as_i64).unwrap_or_default(),
        }
    }

    /// Returns whether it covers a pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_none_or(|selector| selector.matches(&pod.labels))
    }
}
