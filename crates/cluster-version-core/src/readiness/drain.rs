//! Checks of what drains would meet (MACH-DRAIN-01).

use std::collections::BTreeSet;

use serde_json::Value;

use super::facts::{Facts, PodFacts, Read, known, name};
use super::finding::{Check, Finding, Level, few};

/// The most pods that a finding names.
const MOST: usize = 10;

/// Budgets that allow no eviction, and pods that a drain loses.
pub(super) fn drain(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let drained: BTreeSet<String> = known(&facts.nodes)?.iter().map(name).collect();
    let mut findings: Vec<Finding> = known(&facts.budgets)?.iter().filter_map(budget).collect();
    let pods = known(&facts.pods)?.iter().filter(|pod| drained.contains(&pod.node) && pod.is_drained());
    let (mut alone, mut local) = (Vec::new(), Vec::new());
    for pod in pods {
        if pod.controller.is_none() {
            alone.push(pod.name.as_str());
        }
        if pod.keeps_local_data {
            local.push(pod.name.as_str());
        }
    }
    let mut note = |pods: &[&str], evidence: &str, action: &str| {
        if !pods.is_empty() {
            let evidence = format!("{} {evidence}: {}", counted(pods.len()), few(pods, MOST));
            findings.push(Finding::new(Check::Drain, Level::Note, "pods", evidence, action));
        }
    };
    note(&alone, "no controller, so that nothing makes them again after a drain", "make them by a Deployment or Job, or expect their end");
    note(&local, "data in emptyDir volumes, which a drain deletes", "keep in volumes what must last");
    Ok(findings)
}

impl PodFacts {
    /// Returns true if a drain evicts it.
    pub(super) fn is_drained(&self) -> bool {
        !self.is_mirror && !self.is_finished && self.controller.as_deref() != Some("DaemonSet")
    }
}

/// A budget that allows no eviction now.
fn budget(budget: &Value) -> Option<Finding> {
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let (expected, healthy, desired, allowed) =
        (number("expectedPods"), number("currentHealthy"), number("desiredHealthy"), number("disruptionsAllowed"));
    if expected == 0 || allowed > 0 {
        return None;
    }
    let evidence = format!("it allows no eviction: {healthy} of {expected} pods are healthy, and {desired} must be");
    let object = format!("poddisruptionbudget {}", name(budget));
    Some(if desired >= expected {
        let evidence = format!("{evidence}; it never will");
        Finding::new(Check::Drain, Level::Blocks, object, evidence, "run more pods than it wants, or let it allow one to be away")
    } else {
        Finding::new(Check::Drain, Level::Risk, object, evidence, "bring its pods back")
    })
}

fn counted(pods: usize) -> String {
    if pods == 1 { "1 pod has".to_owned() } else { format!("{pods} pods have") }
}
