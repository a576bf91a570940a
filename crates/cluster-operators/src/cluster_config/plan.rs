//! The plan of the config operator: writes, and its report of itself (COP-07).

use std::collections::BTreeMap;

use mainstay_api::cluster_operator::{Problem, Related, Report, Version};
use serde_json::Value;

use super::gates::{self, details, sets};
use super::migrations::{Facts, STEPS};
use crate::reported::{Stage, Told, stage, version, versions};

/// The name of the features' version in the ClusterOperator.
const FEATURE_GATES: &str = "feature-gates";
/// The controller of the features, as conditions name it.
const GATES_CONTROLLER: &str = "FeatureGateController";

/// The facts that the operator decides on.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The release's manifests about its operators: ClusterOperators and FeatureGates.
    pub release: &'a [Value],
    /// The manifest of the operator's ClusterOperator.
    pub expected: &'a Value,
    /// The ClusterOperator.
    pub live: &'a Value,
    /// `ClusterVersion/version`.
    pub cluster_version: Option<&'a Value>,
    /// The objects that are migrated.
    pub facts: Facts<'a>,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Whole,
    /// The status.
    Status,
}

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The object as it is to be.
    pub object: Value,
    /// The part that differs.
    pub part: Part,
}

/// The plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The objects that change; each object is there once.
    pub writes: Vec<Write>,
    /// The report of the operator.
    pub told: Told,
}

/// Returns what is to be done.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let Snapshot { release, expected, live, cluster_version, facts } = *snapshot;
    let target = version(expected).unwrap_or_default();
    let mut problems: Vec<(&'static str, String)> = Vec::new();
    let is_there = stage(live, expected, false) == Stage::There;
    let mut writes = if is_there { Vec::new() } else { migrations(&facts, &mut problems) };
    if let Some(gate) = facts.feature_gate {
        // A migrated FeatureGate is looked at again after its write.
        if !writes.iter().any(|write| write.object["kind"] == gate["kind"]) {
            match details(&sets(release, &target), &gate["spec"], &target) {
                Ok(entry) => {
                    let status = gates::status(gate, entry, &target, cluster_version);
                    if gate["status"] != status {
                        let mut object = gate.clone();
                        object["status"] = status;
                        writes.push(Write { object, part: Part::Status });
                    }
                }
                Err(error) => problems.push((GATES_CONTROLLER, error.to_string())),
            }
        }
    }
    let stage = stage(live, expected, !writes.is_empty() || !problems.is_empty());
    let arrives = stage != Stage::Working && problems.is_empty() && writes.is_empty();
    let versions = arrives.then(|| {
        let of_gates = facts.feature_gate.map(|_| Version::new(FEATURE_GATES, &*target));
        versions(expected).into_iter().chain(of_gates).collect()
    });
    let set = facts.feature_gate.map_or("", |gate| gate["spec"]["featureSet"].as_str().unwrap_or_default());
    let report = Report {
        unavailable: None,
        progressing: (stage == Stage::Working).then(|| Problem::new("Migrating", format!("Working towards {target}: {}", work(&writes)))),
        degraded: degraded(&problems),
        not_upgradeable: (!set.is_empty()).then(|| {
            let reason = format!("FeatureGates_RestrictedFeatureGates_{set}");
            Problem::new(reason, format!("FeatureGatesUpgradeable: {set:?} does not allow updates"))
        }),
        version: None,
        related: vec![
            Related::new("operator.openshift.io", "configs", "", "cluster"),
            Related::new("", "namespaces", "", "openshift-config"),
            Related::new("", "namespaces", "", "openshift-config-operator"),
        ],
    };
    Plan { writes, told: Told { report, versions, words: Vec::new(), is_played: false } }
}

/// The writes of all steps. Steps about the same object follow each other on it; one that fails leaves the object to the next attempt.
fn migrations(facts: &Facts<'_>, problems: &mut Vec<(&'static str, String)>) -> Vec<Write> {
    let mut writes: BTreeMap<String, Write> = BTreeMap::new();
    for step in STEPS {
        let Some(live) = (step.object)(facts) else { continue };
        let id = live["kind"].to_string();
        let part = if step.is_status { Part::Status } else { Part::Whole };
        let old = writes.get(&id).map_or(live, |write| &write.object);
        match (step.migrate)(old, facts) {
            Ok(new) if new != *old => {
                writes.insert(id, Write { object: new, part });
            }
            Ok(_) => {}
            Err(problem) => {
                writes.remove(&id);
                problems.push((step.name, problem.to_string()));
            }
        }
    }
    writes.into_values().collect()
}

/// The work in progress, for people.
fn work(writes: &[Write]) -> String {
    let names: Vec<String> = writes
        .iter()
        .map(|write| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{}/{}", text(&write.object["kind"]), text(&write.object["metadata"]["name"]))
        })
        .collect();
    if names.is_empty() { "looking for objects to migrate".to_owned() } else { format!("migrating {}", names.join(", ")) }
}

/// Problems in the form in which upstream's operators join the conditions of their controllers.
fn degraded(problems: &[(&'static str, String)]) -> Option<Problem> {
    let reasons: Vec<String> = problems.iter().map(|(controller, _)| format!("{controller}_SyncError")).collect();
    let messages: Vec<String> = problems.iter().map(|(controller, message)| format!("{controller}Degraded: {message}")).collect();
    (!problems.is_empty()).then(|| Problem::new(reasons.join("::"), messages.join("\n")))
}
