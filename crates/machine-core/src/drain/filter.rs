//! Which pods of a node are evicted.

use std::fmt;

use jiff::Timestamp;
use mainstay_golang::quote;
use serde_json::Value;

use crate::machine::{annotations_of, controller_of};

const MIRROR: &str = "kubernetes.io/config.mirror";

/// The permissions of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Pods without a controller are evicted, and those whose DaemonSet does not exist.
    pub force: bool,
    /// Pods of DaemonSets are left alone.
    pub ignore_daemon_sets: bool,
    /// Pods with local data are evicted.
    pub delete_local_data: bool,
    /// Pods that have been deleting for more than this many seconds are not waited for; none if 0.
    pub skip_deleted_after: i64,
}

impl Settings {
    /// As machines are drained.
    pub const MACHINE: Self = Self { force: true, ignore_daemon_sets: true, delete_local_data: true, skip_deleted_after: 0 };
    /// As machines are drained whose kubelet is not heard of: what is deleting will never be gone.
    pub const UNREACHABLE: Self = Self { skip_deleted_after: 1, ..Self::MACHINE };
    /// As a person drains who asks for nothing more.
    pub const PLAIN: Self = Self { force: false, ignore_daemon_sets: false, delete_local_data: false, skip_deleted_after: 0 };
}

/// A pod, as far as drains look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When its deletion was asked for.
    pub deleted: Option<Timestamp>,
    /// True if it is the image of a static pod.
    pub mirror: bool,
    /// Its controller.
    pub controller: Option<Controller>,
    /// True if it ended.
    pub finished: bool,
    /// True if it has a volume of local data.
    pub local_data: bool,
}

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// The DaemonSet of this name.
    DaemonSet(String),
    /// Anything else.
    Other,
}

impl Pod {
    /// Reads a core/v1 Pod; fields that are missing or of another type count as absent.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let volumes = object.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        let controller = controller_of(object).map(|owner| match (owner["apiVersion"].as_str(), owner["kind"].as_str()) {
            (Some("apps/v1"), Some("DaemonSet")) => Controller::DaemonSet(owner["name"].as_str().unwrap_or_default().to_owned()),
            _ => Controller::Other,
        });
        Self {
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
            deleted: text("/metadata/deletionTimestamp").parse().ok(),
            mirror: annotations_of(object).contains_key(MIRROR),
            controller,
            finished: ["Succeeded", "Failed"].contains(&text("/status/phase")),
            local_data: volumes.into_iter().any(is_local),
        }
    }
}

/// Returns whether a volume is local data. One that names no source is, by Kubernetes' defaults.
fn is_local(volume: &Value) -> bool {
    let mut sources = volume.as_object().into_iter().flatten().filter(|(name, source)| *name != "name" && !source.is_null());
    sources.clone().next().is_none() || sources.any(|(name, _)| name == "emptyDir")
}

/// A warning about a pod; the sentence is `kubectl drain`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// It stays.
    DaemonSet,
    /// Its data is lost.
    LocalData,
    /// Nothing will make it again.
    Unmanaged,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "ignoring DaemonSet-managed Pods",
            Self::LocalData => "deleting Pods with local storage",
            Self::Unmanaged => "deleting Pods that declare no controller",
        })
    }
}

/// Why a pod stops the drain; the sentence is `kubectl drain`'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// It is a DaemonSet's.
    DaemonSet,
    /// It is of a DaemonSet that does not exist.
    DaemonSetGone(String),
    /// It has local data.
    LocalData,
    /// Nothing controls it.
    Unmanaged,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DaemonSet => f.write_str("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"),
            Self::DaemonSetGone(name) => write!(f, "daemonsets.apps {} not found", quote(name)),
            Self::LocalData => f.write_str("Pods with local storage (use --delete-emptydir-data to override)"),
            Self::Unmanaged => f.write_str("cannot delete Pods that declare no controller (use --force to override)"),
        }
    }
}

/// The fate of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is evicted, with a warning if any.
    Evicted(Option<Warning>),
    /// It stays, with a warning if any.
    Left(Option<Warning>),
    /// It stops the whole drain.
    Refused(Obstacle),
}

/// Decides about one pod. `exists` says whether a DaemonSet of this namespace and name exists.
pub fn fate(pod: &Pod, settings: Settings, now: Timestamp, exists: impl Fn(&str, &str) -> bool) -> Fate {
    let waited = pod.deleted.map(|deleted| now.duration_since(deleted).as_secs());
    if settings.skip_deleted_after > 0 && waited.is_some_and(|seconds| seconds > settings.skip_deleted_after) {
        return Fate::Left(None);
    }
    if let (Some(Controller::DaemonSet(name)), false) = (&pod.controller, pod.finished) {
        match (exists(&pod.namespace, name), settings.force) {
            (false, true) => {}
            (false, false) => return Fate::Refused(Obstacle::DaemonSetGone(name.clone())),
            (true, _) if settings.ignore_daemon_sets => return Fate::Left(Some(Warning::DaemonSet)),
            (true, _) => return Fate::Refused(Obstacle::DaemonSet),
        }
    }
    if pod.mirror {
        return Fate::Left(None);
    }
    if pod.finished {
        return Fate::Evicted(None);
    }
    if pod.local_data && !settings.delete_local_data {
        return Fate::Refused(Obstacle::LocalData);
    }
    // Only the last rule's warning is kept: that about local data never is.
    match (&pod.controller, settings.force) {
        (Some(_), _) => Fate::Evicted(None),
        (None, true) => Fate::Evicted(Some(Warning::Unmanaged)),
        (None, false) => Fate::Refused(Obstacle::Unmanaged),
    }
}

/// The fates of all pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fates<'a>(pub Vec<(&'a Pod, Fate)>);

impl<'a> Fates<'a> {
    /// Decides about pods, in the order of their namespaces and names.
    pub fn of(pods: &'a [Pod], settings: Settings, now: Timestamp, exists: impl Fn(&str, &str) -> bool) -> Self {
        let mut sorted: Vec<&Pod> = pods.iter().collect();
        sorted.sort_by_key(|pod| (&pod.namespace, &pod.name));
        Self(sorted.into_iter().map(|pod| (pod, fate(pod, settings, now, &exists))).collect())
    }

    /// Returns the pods that are evicted, unless something is refused.
    pub fn evicted(&self) -> impl Iterator<Item = &'a Pod> {
        self.0.iter().filter(|(_, fate)| matches!(fate, Fate::Evicted(_))).map(|(pod, _)| *pod)
    }

    /// Returns the warnings in one line, as `kubectl drain` prints them.
    pub fn warnings(&self) -> String {
        let warned = self.0.iter().filter_map(|(pod, fate)| match fate {
            Fate::Evicted(Some(warning)) | Fate::Left(Some(warning)) => Some((*pod, warning.to_string())),
            _ => None,
        });
        gathered(warned).join("; ")
    }

    /// Returns what stops the drain, one text for each reason.
    pub fn errors(&self) -> Vec<String> {
        let refused = self.0.iter().filter_map(|(pod, fate)| match fate {
            Fate::Refused(obstacle) => Some((*pod, format!("cannot delete {obstacle}"))),
            _ => None,
        });
        gathered(refused)
    }
}

/// The pods of each text, in the order of the first of each.
fn gathered<'a>(said: impl Iterator<Item = (&'a Pod, String)>) -> Vec<String> {
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for (pod, text) in said {
        let pod = format!("{}/{}", pod.namespace, pod.name);
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, pods)) => pods.push(pod),
            None => texts.push((text, vec![pod])),
        }
    }
    texts.into_iter().map(|(text, pods)| format!("{text}: {}", pods.join(", "))).collect()
}
