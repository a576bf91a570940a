//! One node: how far its update is, and how it is (CVO-STAT-05).

use serde_json::Value;

use super::health::{Impact, Insight, Level, Resource};
use super::{Facts, MASTER, annotation, note};
use crate::cluster_version::{list, text};

const PREFIX: &str = "machineconfiguration.openshift.io/";
const MACHINE_CONFIGS: &str = "https://docs.openshift.com/container-platform/latest/post_installation_configuration/machine-configuration-tasks.html#understanding-the-machine-config-operator";

/// The phase of a node's update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Draining,
    Updating,
    Rebooting,
    Paused,
    Pending,
    Updated,
}

/// The state of a node, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assessment {
    Degraded,
    Unavailable,
    Progressing,
    Excluded,
    Outdated,
    Completed,
}

/// A node as it is shown.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Node {
    pub name: String,
    pub assessment: Assessment,
    pub phase: Phase,
    /// The version of its configuration; empty if it is not known.
    pub version: String,
    pub estimate: &'static str,
    pub message: String,
    pub is_unavailable: bool,
    pub is_degraded: bool,
    pub is_updating: bool,
    pub is_updated: bool,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Draining => "Draining",
            Self::Updating => "Updating",
            Self::Rebooting => "Rebooting",
            Self::Paused => "Paused",
            Self::Pending => "Pending",
            Self::Updated => "Updated",
        }
    }

    /// The assessment of a node that is well, and the time that remains.
    fn usual(self) -> (Assessment, &'static str) {
        match self {
            Self::Paused => (Assessment::Excluded, "-"),
            Self::Pending => (Assessment::Outdated, "?"),
            Self::Draining => (Assessment::Progressing, "+10m"),
            Self::Updating | Self::Rebooting => (Assessment::Progressing, "+5m"),
            Self::Updated => (Assessment::Completed, "-"),
        }
    }
}

impl Assessment {
    pub fn name(self) -> &'static str {
        match self {
            Self::Degraded => "Degraded",
            Self::Unavailable => "Unavailable",
            Self::Progressing => "Progressing",
            Self::Excluded => "Excluded",
            Self::Outdated => "Outdated",
            Self::Completed => "Completed",
        }
    }
}

/// An annotation of the machine config operator.
fn mark<'a>(object: &'a Value, key: &str) -> &'a str {
    annotation(object, &format!("{PREFIX}{key}"))
}

/// Looks at a node of a pool.
pub fn assess(node: &Value, pool: &Value, facts: &Facts<'_>, insights: &mut Vec<Insight>) -> Node {
    let name = text(&node["metadata"]["name"]);
    let version_of = |config: &str| {
        let config = facts.machine_configs.iter().find(|one| text(&one["metadata"]["name"]) == config);
        config.map_or("", |config| mark(config, "release-image-version"))
    };
    let (current, desired) = (version_of(mark(node, "currentConfig")), version_of(mark(node, "desiredConfig")));
    let newest = list(&facts.cluster_version["status"]["history"]).first().map(|entry| text(&entry["version"]));
    let is_updated = !current.is_empty() && newest == Some(current);
    let is_updating = !is_updated && !current.is_empty() && !desired.is_empty() && newest == Some(desired);
    let is_unavailable = is_unavailable(node, pool);
    let is_degraded = !mark(node, "desiredConfig").is_empty() && is_failed(node);
    let phase = if is_updating && is_draining(node) {
        Phase::Draining
    } else if is_updating {
        match mark(node, "state") {
            "Rebooting" => Phase::Rebooting,
            "Done" => Phase::Updated,
            _ => Phase::Updating,
        }
    } else if is_updated {
        Phase::Updated
    } else if pool["spec"]["paused"] == true {
        Phase::Paused
    } else {
        Phase::Pending
    };
    let (mut assessment, mut estimate) = phase.usual();
    let mut message = String::new();
    let unknown = if is_updated { "-" } else { "?" };
    if is_unavailable && !is_updating {
        (assessment, estimate) = (Assessment::Unavailable, unknown);
        "Node is unavailable".clone_into(&mut message);
    }
    if is_degraded {
        (assessment, estimate) = (Assessment::Degraded, unknown);
        mark(node, "reason").clone_into(&mut message);
    }
    let found = [
        (is_unavailable && !is_updating, Level::Warning, Impact::UpdateSpeed, "unavailable"),
        (is_degraded, Level::Error, Impact::UpdateStalled, "degraded"),
    ];
    for (_, level, impact, word) in found.into_iter().filter(|(is_so, ..)| *is_so) {
        note(
            insights,
            Insight {
                since: None,
                level,
                impact,
                summary: format!("Node {name} is {word}"),
                description: message.clone(),
                reference: MACHINE_CONFIGS.to_owned(),
                resources: vec![Resource { kind: "Node", group: "", namespace: String::new(), name: name.to_owned() }],
            },
        );
    }
    // A long name would widen the column for every node.
    let message = if name.len() < 8 { message } else { message.replace(name, "<node>") };
    Node {
        name: name.to_owned(),
        assessment,
        phase,
        version: current.to_owned(),
        estimate,
        message,
        is_unavailable,
        is_degraded,
        is_updating,
        is_updated,
    }
}

/// Returns whether the daemon gave up.
fn is_failed(node: &Value) -> bool {
    matches!(mark(node, "state"), "Degraded" | "Unreconcilable")
}

fn is_draining(node: &Value) -> bool {
    let (desired, applied) = (mark(node, "desiredDrain"), mark(node, "lastAppliedDrain"));
    if desired.is_empty() || applied.is_empty() {
        return false;
    }
    // A daemon that still says Done has not begun, and draining comes first.
    desired != applied && desired.split('-').next() == Some("drain") || mark(node, "state") == "Done"
}

/// Returns whether a node cannot take pods, or is about to: the rule of the machine config operator.
fn is_unavailable(node: &Value, pool: &Value) -> bool {
    let image = mark(pool, "newestImageEquivalentConfig");
    let is_layered = pool["metadata"]["labels"].get(format!("{PREFIX}layering-enabled")).is_some();
    let expected = if is_layered { image } else { "" };
    mark(node, "desiredImage") == expected && (!is_ready(node) || !is_done(node) && !is_stuck(node))
}

fn is_ready(node: &Value) -> bool {
    let bad = |condition: &Value| match text(&condition["type"]) {
        "Ready" => condition["status"] != "True",
        "DiskPressure" | "NetworkUnavailable" => condition["status"] != "False",
        _ => false,
    };
    !list(&node["status"]["conditions"]).iter().any(bad) && node["spec"]["unschedulable"] != true
}

fn is_done(node: &Value) -> bool {
    let has = |key: &str| node["metadata"]["annotations"].get(format!("{PREFIX}{key}")).is_some();
    let same = |left: &str, right: &str| !mark(node, left).is_empty() && mark(node, left) == mark(node, right);
    let image = !has("desiredImage") && !has("currentImage") || same("currentImage", "desiredImage");
    same("currentConfig", "desiredConfig") && image && mark(node, "state") == "Done"
}

/// Returns whether the daemon gave up on a configuration that is not the current one.
fn is_stuck(node: &Value) -> bool {
    mark(node, "currentConfig") != mark(node, "desiredConfig") && is_failed(node)
}

/// Returns whether a pool is that of the control plane.
pub fn is_control_plane(pool: &str) -> bool {
    pool == MASTER
}
