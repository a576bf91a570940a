//! The control plane: its operators, how far they are, how long it will take (CVO-STAT-02 to CVO-STAT-04).

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::health::{Impact, Insight, Level, Resource};
use super::span::Span;
use super::{Facts, estimate, note};
use crate::cluster_version::{Condition, list, text, time};

const GROUP: &str = "config.openshift.io";
const RUNBOOKS: &str = "https://github.com/openshift/runbooks/blob/master/alerts/cluster-monitoring-operator/";
const HISTORY: &str = "https://docs.openshift.com/container-platform/latest/updating/troubleshooting_updates/gathering-data-cluster-update.html#gathering-clusterversion-history-cli_troubleshooting_updates";

/// The control plane as it is shown.
pub struct ControlPlane {
    assessment: Assessment,
    target: String,
    completion: f64,
    duration: Span,
    remaining: Span,
    whole: Span,
    operators: Operators,
}

/// The pace of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assessment {
    Progressing,
    Slow,
    Stalled,
    Completed,
}

#[derive(Default)]
struct Operators {
    total: usize,
    updated: usize,
    updating: usize,
    waiting: usize,
    unavailable: usize,
    /// Available, but degraded.
    degraded: usize,
}

impl fmt::Display for Assessment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Progressing => "Progressing",
            Self::Slow => "Progressing - Slow",
            Self::Stalled => "Stalled",
            Self::Completed => "Completed",
        })
    }
}

impl fmt::Display for Operators {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} Healthy", self.total - self.unavailable - self.degraded)?;
        if self.unavailable > 0 {
            write!(out, ", {} Unavailable", self.unavailable)?;
        }
        if self.degraded > 0 {
            write!(out, ", {} Available but degraded", self.degraded)?;
        }
        Ok(())
    }
}

impl fmt::Display for ControlPlane {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operators { updated, updating, waiting, .. } = self.operators;
        writeln!(out, "= Control Plane =")?;
        writeln!(out, "Assessment:      {}", self.assessment)?;
        writeln!(out, "Target Version:  {}", self.target)?;
        let completion = percent(self.completion);
        writeln!(out, "Completion:      {completion}% ({updated} operators updated, {updating} updating, {waiting} waiting)")?;
        write!(out, "Duration:        {}", self.duration.short())?;
        if self.remaining != Span(0) {
            write!(out, " (Est. Time Remaining: {})", vague(self.remaining, self.whole))?;
        }
        writeln!(out, "\nOperator Status: {}", self.operators)
    }
}

/// A percentage without decimals, as Go prints it.
pub fn percent(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{value:.0}") }
}

/// Less than ten minutes are not told apart, and a time that has long passed is not told at all.
fn vague(remaining: Span, whole: Span) -> String {
    if remaining < Span::minutes(-10) {
        format!("N/A; estimate duration was {}", whole.short())
    } else if remaining < Span::minutes(10) {
        format!("<{}", Span::minutes(10).short())
    } else {
        remaining.short()
    }
}

/// Looks at the ClusterVersion and its operators.
pub fn assess(facts: &Facts<'_>, insights: &mut Vec<Insight>) -> ControlPlane {
    let status = &facts.cluster_version["status"];
    let name = text(&facts.cluster_version["metadata"]["name"]);
    let resource = Resource { kind: "ClusterVersion", group: GROUP, namespace: String::new(), name: name.to_owned() };
    failing(status, name, &resource, facts.now, insights);
    let target = text(&status["desired"]["version"]);
    let (operators, mut last_progress, machine_config) = count(facts, target, insights);
    let is_complete = operators.updated == operators.total;
    // What daemons do while nodes restart is no progress of the last operator.
    if let (Some(since), 1) = (machine_config, operators.total - operators.updated) {
        last_progress = Some(since);
    }
    let history = list(&status["history"]);
    let (mut updating_for, mut to_last_progress, mut duration) = (Span(0), Span(0), Span(0));
    if let Some(entry) = history.first() {
        let started = time(&entry["startedTime"]);
        if last_progress <= started {
            last_progress = Some(facts.now);
        }
        to_last_progress = Span::between(started, last_progress);
        let end = if entry["state"] == "Completed" { time(&entry["completionTime"]) } else { Some(facts.now) };
        updating_for = Span::between(started, end);
        duration = updating_for.rounded(if updating_for > Span::minutes(10) { Span::MINUTE } else { Span::SECOND });
    }
    let target = versions(history, &resource, is_complete, insights);
    #[expect(clippy::cast_precision_loss, reason = "there are few operators")]
    let completion = operators.updated as f64 / operators.total as f64;
    let mut plane = ControlPlane {
        assessment: if is_complete { Assessment::Completed } else { Assessment::Progressing },
        target,
        completion: completion * 100.0,
        duration,
        remaining: Span(0),
        whole: Span(0),
        operators,
    };
    if completion <= 1.0 && !is_complete {
        plane.remaining = estimate::remaining(estimate::baseline(history), to_last_progress, updating_for, completion);
        plane.whole = Span(updating_for.0 + plane.remaining.0).truncated(Span::MINUTE);
        if plane.remaining < Span::minutes(-10) {
            plane.assessment = Assessment::Stalled;
        } else if plane.remaining < Span(0) {
            plane.assessment = Assessment::Slow;
        }
    }
    plane
}

fn failing(status: &Value, name: &str, resource: &Resource, now: Timestamp, insights: &mut Vec<Insight>) {
    let failing = Condition::find(&status["conditions"], "Failing");
    let (since, summary, description) = match failing {
        None => (
            Some(now),
            format!("Cluster Version {name} has no Failing condition"),
            "Current status of Cluster Version reconciliation is unclear.  See 'oc -n openshift-cluster-version logs -l k8s-app=cluster-version-operator --tail -1' to debug.".to_owned(),
        ),
        Some(failing) if failing.status() == "False" => return,
        Some(failing) => (
            failing.since(),
            format!("Cluster Version {name} is failing to proceed with the update ({})", failing.reason()),
            failing.message().to_owned(),
        ),
    };
    note(
        insights,
        Insight {
            since,
            level: Level::Warning,
            impact: Impact::UpdateStalled,
            summary,
            description,
            reference: format!("{RUNBOOKS}ClusterOperatorDegraded.md"),
            resources: vec![resource.clone()],
        },
    );
}

/// Counts the operators of the release; returns the last time that one changed, and since when the machine config operator is at work.
fn count(facts: &Facts<'_>, target: &str, insights: &mut Vec<Insight>) -> (Operators, Option<Timestamp>, Option<Timestamp>) {
    let (mut operators, mut last_progress, mut machine_config) = (Operators::default(), None, None);
    for operator in facts.operators {
        let mut annotations = operator["metadata"]["annotations"].as_object().into_iter().flatten().map(|(key, _)| key);
        if !annotations.any(|key| key.starts_with("exclude.release.openshift.io/") || key.starts_with("include.release.openshift.io/")) {
            continue;
        }
        let status = &operator["status"];
        let name = text(&operator["metadata"]["name"]);
        let is_updated =
            list(&status["versions"]).iter().any(|version| version["name"] == "operator" && text(&version["version"]) == target);
        // Of several conditions of one type the last one counts.
        let condition = |kind: &str| {
            let last = list(&status["conditions"]).iter().rev().find(|condition| condition["type"] == kind)?;
            Some((text(&last["status"]), time(&last["lastTransitionTime"]), last))
        };
        let (available, degraded) = (condition("Available"), condition("Degraded"));
        operators.total += 1;
        operators.updated += usize::from(is_updated);
        if let Some((status, since, _)) = condition("Progressing") {
            last_progress = last_progress.max(since);
            operators.updating += usize::from(!is_updated && status == "True");
            operators.waiting += usize::from(!is_updated && status == "False");
            if status == "True" && name == "machine-config" && !is_updated {
                machine_config = since;
            }
        }
        if available.is_none_or(|(status, ..)| status != "True") {
            operators.unavailable += 1;
        } else if degraded.is_some_and(|(status, ..)| status == "True") {
            operators.degraded += 1;
        }
        let late = [
            (available, "False", "unavailable", Span::minutes(20), "ClusterOperatorDown.md"),
            (degraded, "True", "degraded", Span::minutes(40), "ClusterOperatorDegraded.md"),
        ];
        for (condition, bad, word, grave, runbook) in late {
            let Some((_, since, condition)) = condition.filter(|(status, ..)| *status == bad) else { continue };
            let lasted = Span::between(since, Some(facts.now));
            if lasted <= Span::minutes(5) {
                continue;
            }
            let message = text(&condition["message"]);
            note(
                insights,
                Insight {
                    since,
                    level: if lasted > grave { Level::Error } else { Level::Warning },
                    impact: Impact::ApiAvailability,
                    summary: format!("Cluster Operator {name} is {word} ({})", text(&condition["reason"])),
                    description: if message.is_empty() { "<no message>".to_owned() } else { message.to_owned() },
                    reference: format!("{RUNBOOKS}{runbook}"),
                    resources: vec![Resource { kind: "ClusterOperator", group: GROUP, namespace: String::new(), name: name.to_owned() }],
                },
            );
        }
    }
    (operators, last_progress, machine_config)
}

/// The versions from and to, and an insight where the update before never ended.
fn versions(history: &[Value], resource: &Resource, is_complete: bool, insights: &mut Vec<Insight>) -> String {
    let version = |entry: Option<&Value>| entry.map_or("unknown", |entry| text(&entry["version"])).to_owned();
    let (target, previous) = (version(history.first()), version(history.get(1)));
    if history.len() == 1 {
        return format!("{target} (a new install)");
    }
    let is_partial = history.get(1).is_some_and(|entry| entry["state"] == "Partial");
    if is_partial && !is_complete {
        let completed = history.iter().skip(2).find(|entry| entry["state"] == "Completed");
        note(
            insights,
            Insight {
                since: history.first().and_then(|entry| time(&entry["startedTime"])),
                level: Level::Warning,
                impact: Impact::None,
                summary: format!("Previous update to {previous} never completed, last complete update was {}", version(completed)),
                description: format!(
                    "Current update to {target} was initiated while the previous update to version {previous} was still in progress"
                ),
                reference: HISTORY.to_owned(),
                resources: vec![resource.clone()],
            },
        );
    }
    if is_partial { format!("{target} (from incomplete {previous})") } else { format!("{target} (from {previous})") }
}
