//! Recorded form `machinehealthcheck`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CaseError, answered, field, machines, nodes, now, recorded};
use crate::health_check::check::HealthCheck;
use crate::health_check::plan::{max_unhealthy, plan, select};
use crate::health_check::remediate::Remediation;
use crate::health_check::target::{EXTERNAL_ANNOTATION, Health, Target};

/// Answers who needs remediation, and what a whole reconcile does.
pub fn health_check(line: &Value) -> Result<Value, CaseError> {
    let now = now(line)?;
    let check = HealthCheck::of(&field::<Value>(line, "machineHealthCheck")?)?;
    let machines = machines(line)?;
    let held = held(line);
    let nodes = nodes(line, "nodes")?;
    let targets: Vec<Target<'_>> =
        machines.iter().map(|machine| Target::of(machine, |name| nodes.iter().find(|node| node.name == name))).collect();
    let examined: Vec<Value> = targets
        .iter()
        .map(|target| {
            let (unhealthy, wait) = match target.health(&check, now) {
                Health::Unhealthy(_) => (true, 0.0),
                Health::AtRisk(wait) => (false, wait.as_secs_f64()),
                Health::Sound => (false, 0.0),
            };
            json!({"machine": target.machine.name, "needsRemediation": unhealthy, "nextCheckSeconds": wait, "error": null})
        })
        .collect();
    let mut out = json!({
        "targets": if examined.is_empty() { Value::Null } else { Value::Array(examined) },
        "status": {"conditions": recorded(&check.conditions), "currentHealthy": null, "expectedMachines": null, "remediationsAllowed": 0},
        "events": [], "deleted": [], "error": null, "requeueAfterSeconds": 0,
    });
    let (mut annotated, mut gone) = (Vec::new(), Vec::new());
    if !check.is_paused() {
        let (events, planned) = match select(&check, targets) {
            Ok(targets) => plan(&check, targets, now),
            Err(refusal) => (Vec::new(), Err(refusal)),
        };
        let mut events: Vec<String> = events.iter().map(|event| format!("{} {} {event}", event.kind().as_str(), event.reason())).collect();
        events.sort_unstable();
        out["events"] = json!(events);
        match planned {
            Ok(plan) => {
                out["status"] = json!({
                    "conditions": recorded(&plan.conditions), "currentHealthy": plan.healthy, "expectedMachines": plan.expected,
                    "remediationsAllowed": plan.remediations_allowed,
                });
                out["allowed"] = json!(plan.allowed);
                let limit = max_unhealthy(check.max_unhealthy.as_ref(), plan.expected);
                out["maxUnhealthy"] = json!(limit.as_ref().ok());
                out["maxUnhealthyError"] = json!(limit.as_ref().err().map(ToString::to_string));
                out["requeueAfterSeconds"] = json!(plan.requeue.as_ref().map_or(0.0, Duration::as_secs_f64));
                let of = |wanted: Remediation| {
                    plan.remediations.iter().filter(move |(_, found)| *found == wanted).map(|(target, _)| target.machine.name.as_str())
                };
                out["deleted"] = of(Remediation::Delete).collect();
                annotated.extend(of(Remediation::Annotate));
                // An object without finalizers is gone at once.
                gone.extend(of(Remediation::Delete).filter(|name| !held.contains(name)));
            }
            Err(refusal) => out["error"] = json!(refusal.to_string()),
        }
    }
    let annotated: Vec<&str> = machines
        .iter()
        .filter(|machine| machine.is_annotated(EXTERNAL_ANNOTATION) || annotated.contains(&machine.name.as_str()))
        .map(|machine| machine.name.as_str())
        .filter(|name| !gone.contains(name))
        .collect();
    out["annotatedExternal"] = if annotated.is_empty() { Value::Null } else { json!(annotated) };
    answered(line, out)
}

/// Names of machines with a finalizer.
fn held(line: &Value) -> Vec<&str> {
    let machines = line.get("machines").and_then(Value::as_array).into_iter().flatten();
    let held =
        machines.filter(|machine| machine.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty()));
    held.filter_map(|machine| machine.pointer("/metadata/name").and_then(Value::as_str)).collect()
}
