//! Condition Upgradeable: whether the cluster may go to its next minor version (CVO-UPG-01 to CVO-UPG-05).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterOperator, ClusterVersion, ClusterVersionSpec, StatusCondition};
use mainstay_golang::quote;
use regex::Regex;

use crate::conditions;
use crate::history::{self, number};
use crate::load::{PRECONDITION_CHECKS, RELEASE_ACCEPTED};

const UPGRADEABLE: &str = "Upgradeable";
/// The reason of overrides.
pub const OVERRIDES_REASON: &str = "ClusterVersionOverridesSet";
/// The message of overrides.
pub const OVERRIDES_MESSAGE: &str =
    "Disabling ownership via cluster version overrides prevents upgrades. Please remove overrides before continuing.";
/// The ConfigMap with gates, in namespace `openshift-config-managed`.
pub const ADMIN_GATES: &str = "admin-gates";
/// The ConfigMap with the administrator's acknowledgments, in namespace `openshift-config`.
pub const ADMIN_ACKS: &str = "admin-acks";
const GATE: &str = "^ack-[4-5][.]([0-9]{1,})-[^-]";
static GATE_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(GATE).ok());

/// The time for which an evaluation counts.
const INTERVAL: Duration = Duration::from_secs(120);
/// The same shortly after preconditions have failed.
const INTERVAL_AFTER_FAILURE: Duration = Duration::from_secs(15);
/// The time for which preconditions count as failed a short while ago.
const SHORTLY: Duration = Duration::from_secs(120);

/// A ConfigMap as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigMap {
    /// It is there, with this data.
    Data(BTreeMap<String, String>),
    /// There is none.
    NotFound,
    /// It cannot be read.
    Unreadable(String),
}

/// The ClusterVersion as it was found.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// It is there.
    ClusterVersion(&'a ClusterVersion),
    /// There is none; the error says so.
    NotFound(&'a str),
}

/// The ClusterOperators as they were found.
#[derive(Clone, Copy, Debug)]
pub enum Operators<'a> {
    /// Their kind is not served.
    NotServed,
    /// They cannot be listed.
    Unreadable(&'a str),
    /// These, in the order in which they are told.
    List(&'a [ClusterOperator]),
}

/// The facts that the condition depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The ClusterVersion.
    pub cluster_version: Found<'a>,
    /// The gates of the release.
    pub gates: &'a ConfigMap,
    /// The acknowledgments of an administrator.
    pub acks: &'a ConfigMap,
    /// The ClusterOperators.
    pub operators: Operators<'a>,
    /// Objects whose deletion was requested and is not done, as they are named in messages.
    pub deletions: &'a [String],
}

/// Something that blocks, or that is to be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Objects are overridden.
    Overrides,
    /// An administrator has something to acknowledge, or a gate is wrong.
    AdminAck(Vec<Gate>),
    /// Cluster operators say that they cannot be updated: name, reason and message of each.
    Operators(Vec<(String, String, String)>),
    /// Cluster operators cannot be listed.
    OperatorsUnreadable(String),
    /// Objects are being deleted.
    Deletions(Vec<String>),
    /// An update is going on; it does not block.
    UpdateInProgress,
}

/// A gate that is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It waits for an acknowledgment; this is what is to be acknowledged.
    Required(String),
    /// Its name is none.
    InvalidName(String),
    /// It does not say what is to be acknowledged.
    NoText(String),
    /// There is no ClusterVersion.
    NoClusterVersion(String),
    /// The gates cannot be read.
    NoGates(ConfigMap),
    /// The acknowledgments cannot be read.
    NoAcks(ConfigMap),
}

impl Gate {
    fn reason(&self) -> &'static str {
        match self {
            Self::Required(_) => "AdminAckRequired",
            Self::InvalidName(_) => "AdminAckConfigMapGateNameError",
            Self::NoText(_) => "AdminAckConfigMapGateValueError",
            Self::NoClusterVersion(_) => "UnableToGetClusterVersion",
            Self::NoGates(_) => "UnableToAccessAdminGatesConfigMap",
            Self::NoAcks(_) => "UnableToAccessAdminAcksConfigMap",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unreadable = |name: &str, found: &ConfigMap| match found {
            ConfigMap::Unreadable(error) => format!("Unable to access configmap {name}, err={error}."),
            _ => format!("{name} configmap not found."),
        };
        match self {
            Self::Required(text) => out.write_str(text),
            Self::InvalidName(name) => {
                write!(out, "{ADMIN_GATES} configmap gate name {name} has invalid format; must comply with {}.", quote(GATE))
            }
            Self::NoText(name) => write!(out, "{ADMIN_GATES} configmap gate {name} must contain a non-empty value."),
            Self::NoClusterVersion(error) => write!(out, "Unable to get ClusterVersion, err={error}."),
            Self::NoGates(found) => out.write_str(&unreadable(ADMIN_GATES, found)),
            Self::NoAcks(found) => out.write_str(&unreadable(ADMIN_ACKS, found)),
        }
    }
}

impl Obstacle {
    fn kind(&self) -> &'static str {
        match self {
            Self::Overrides => "UpgradeableClusterVersionOverrides",
            Self::AdminAck(_) => "UpgradeableAdminAckRequired",
            Self::Operators(_) | Self::OperatorsUnreadable(_) => "UpgradeableClusterOperators",
            Self::Deletions(_) => "UpgradeableDeletesInProgress",
            Self::UpdateInProgress => "UpgradeableUpgradeInProgress",
        }
    }

    /// Why, for programs.
    pub fn reason(&self) -> &str {
        match self {
            Self::Overrides => OVERRIDES_REASON,
            Self::AdminAck(gates) => {
                let reason = gates.first().map_or("", Gate::reason);
                if gates.iter().all(|gate| gate.reason() == reason) { reason } else { "MultipleReasons" }
            }
            Self::Operators(operators) => match operators.as_slice() {
                [(_, reason, _)] => reason,
                _ => "ClusterOperatorsNotUpgradeable",
            },
            Self::OperatorsUnreadable(_) => "FailedToListClusterOperators",
            Self::Deletions(_) => "ResourceDeletesInProgress",
            Self::UpdateInProgress => "UpdateInProgress",
        }
    }

    fn status(&self) -> Status {
        if *self == Self::UpdateInProgress { Status::True } else { Status::False }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NOT_UPGRADED: &str = "should not be upgraded between minor versions:";
        match self {
            Self::Overrides => out.write_str(OVERRIDES_MESSAGE),
            Self::AdminAck(gates) => {
                // By reason, and then all of them, in the order of their texts.
                let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
                for gate in gates {
                    by_reason.entry(gate.reason()).or_default().push(gate.to_string());
                }
                let texts = by_reason.into_values().map(|mut texts| {
                    texts.sort();
                    texts.join(" ")
                });
                let mut texts: Vec<String> = texts.collect();
                texts.sort();
                out.write_str(&texts.join(" "))
            }
            Self::Operators(operators) => match operators.as_slice() {
                [(name, _, message)] => write!(out, "Cluster operator {name} {NOT_UPGRADED} {message}"),
                several => {
                    write!(out, "Multiple cluster operators {NOT_UPGRADED}")?;
                    several.iter().try_for_each(|(name, reason, message)| {
                        write!(out, "\n* Cluster operator {name} {NOT_UPGRADED} {reason}: {message}")
                    })
                }
            },
            Self::OperatorsUnreadable(error) => write!(out, "failed to list cluster operators: {error}"),
            Self::Deletions(objects) => write!(
                out,
                "Cluster minor level upgrades are not allowed while resource deletions are in progress; resources={}",
                objects.join(",")
            ),
            Self::UpdateInProgress => out.write_str("An update is already in progress and the details are in the Progressing condition"),
        }
    }
}

/// Returns whether any object is overridden; entries that override nothing do not count.
pub fn has_overrides(spec: &ClusterVersionSpec) -> bool {
    spec.overrides.iter().any(|one| one.unmanaged)
}

/// Obstacles to the next minor version, and notices, in the order in which they are told.
pub fn obstacles(facts: &Facts<'_>) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let cluster_version = match facts.cluster_version {
        Found::ClusterVersion(cluster_version) => Some(cluster_version),
        Found::NotFound(_) => None,
    };
    if cluster_version.is_some_and(|cluster_version| has_overrides(&cluster_version.spec)) {
        found.push(Obstacle::Overrides);
    }
    let gates = gates(facts);
    if !gates.is_empty() {
        found.push(Obstacle::AdminAck(gates));
    }
    match facts.operators {
        Operators::NotServed => {}
        Operators::Unreadable(error) => found.push(Obstacle::OperatorsUnreadable(error.to_owned())),
        Operators::List(operators) => {
            let blocking = operators.iter().filter_map(|operator| {
                let condition = conditions::find(&operator.status.conditions, UPGRADEABLE)?;
                let name = operator.metadata.name.clone().unwrap_or_default();
                (condition.status == Status::False).then(|| (name, condition.reason.clone(), condition.message.clone()))
            });
            let blocking: Vec<_> = blocking.collect();
            if !blocking.is_empty() {
                found.push(Obstacle::Operators(blocking));
            }
        }
    }
    if !facts.deletions.is_empty() {
        found.push(Obstacle::Deletions(facts.deletions.to_vec()));
    }
    if cluster_version.is_some_and(|found| conditions::is(&found.status.conditions, "Progressing", Status::True)) {
        found.push(Obstacle::UpdateInProgress);
    }
    found
}

/// The gates that are not open (CVO-UPG-04).
fn gates(facts: &Facts<'_>) -> Vec<Gate> {
    let cluster_version = match facts.cluster_version {
        Found::ClusterVersion(cluster_version) => cluster_version,
        Found::NotFound(error) => return vec![Gate::NoClusterVersion(error.to_owned())],
    };
    // Before the first release is noted, there is nothing to compare with.
    let Some(current) = history::current_version(&cluster_version.status.history) else { return Vec::new() };
    let ConfigMap::Data(gates) = facts.gates else { return vec![Gate::NoGates(facts.gates.clone())] };
    let ConfigMap::Data(acks) = facts.acks else { return vec![Gate::NoAcks(facts.acks.clone())] };
    let gate = |(name, text): (&String, &String)| {
        let Some(version) = GATE_NAME.as_ref().and_then(|gate| gate.find(name)) else {
            return Some(Gate::InvalidName(name.clone()));
        };
        let minor = version.as_str().split('-').nth(1).map(|version| number(version, 1));
        if minor != Some(number(current, 1)) {
            return None;
        }
        if text.is_empty() {
            return Some(Gate::NoText(name.clone()));
        }
        (acks.get(name).map(String::as_str) != Some("true")).then(|| Gate::Required(text.clone()))
    };
    gates.iter().filter_map(gate).collect()
}

/// The conditions that obstacles come to, sorted by type (CVO-UPG-02, CVO-UPG-03).
pub fn conditions_of(obstacles: &[Obstacle], now: Timestamp) -> Vec<StatusCondition> {
    let condition = |kind: &str, status, reason: &str, message: String| StatusCondition {
        kind: kind.to_owned(),
        status,
        last_transition_time: Some(Time(now)),
        reason: reason.to_owned(),
        message,
    };
    let mut found: Vec<StatusCondition> = match obstacles {
        [] => Vec::new(),
        // One obstacle is the whole condition.
        [one] => vec![condition(UPGRADEABLE, Status::False, one.reason(), one.to_string())],
        several => {
            let reasons: Vec<&str> = several.iter().map(Obstacle::reason).collect();
            let messages: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!(
                "Cluster should not be upgraded between minor versions for multiple reasons: {}\n* {}",
                reasons.join(","),
                messages.join("\n* ")
            );
            let whole = condition(UPGRADEABLE, Status::False, "MultipleReasons", message);
            let each = several.iter().map(|one| condition(one.kind(), one.status(), one.reason(), one.to_string()));
            each.chain([whole]).collect()
        }
    };
    found.sort_by(|one, other| one.kind.cmp(&other.kind));
    found
}

/// Puts the conditions into those of a ClusterVersion: what no longer holds is removed, and times move with the status alone.
pub fn put(all: &mut Vec<StatusCondition>, wanted: &[StatusCondition]) {
    for condition in wanted {
        match all.iter_mut().find(|found| found.kind == condition.kind) {
            Some(found) => {
                let time = if found.status == condition.status { &found.last_transition_time } else { &condition.last_transition_time };
                *found = StatusCondition { last_transition_time: time.clone(), ..condition.clone() };
            }
            None => all.push(condition.clone()),
        }
    }
    all.retain(|condition| !condition.kind.starts_with(UPGRADEABLE) || wanted.iter().any(|wanted| wanted.kind == condition.kind));
}

/// The time for which an evaluation counts before a change makes a new one (CVO-UPG-01).
pub fn interval(all: &[StatusCondition], now: Timestamp) -> Duration {
    let failed = conditions::find(all, RELEASE_ACCEPTED)
        .filter(|condition| condition.status == Status::False && condition.reason == PRECONDITION_CHECKS);
    let since = failed.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| now.duration_since(time.0));
    match since {
        Some(since) if since.as_millis() < SHORTLY.as_millis() as i128 => INTERVAL_AFTER_FAILURE,
        _ => INTERVAL,
    }
}
