//! Recorded form `drain`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CaseError, answered, field, nodes, now, optional, recorded};
use crate::condition;
use crate::drain::filter::{Fates, Pod, Settings};
use crate::drain::verdict::{DrainEvent, DrainFailure, Verdict, drained, verdict};
use crate::machine::Machine;
use crate::node::Node;

#[derive(Default, Deserialize)]
#[serde(default)]
struct DaemonSet {
    namespace: String,
    name: String,
}

/// Answers which pods a drain takes in four settings, and what the drain controller does if the node has no pods.
pub fn drain(line: &Value) -> Result<Value, CaseError> {
    let now = now(line)?;
    let pods: Vec<Pod> = optional::<Vec<Value>>(line, "pods")?.iter().map(Pod::of).collect();
    let daemon_sets: Vec<DaemonSet> = optional(line, "daemonSets")?;
    let exists = |namespace: &str, name: &str| daemon_sets.iter().any(|one| one.namespace == namespace && one.name == name);
    let filters = [
        ("machine", Settings::MACHINE),
        ("unreachable", Settings::UNREACHABLE),
        ("noForce", Settings { force: false, ..Settings::MACHINE }),
        ("plain", Settings::PLAIN),
    ];
    let filters = filters.map(|(name, settings)| (name.to_owned(), filtered(&Fates::of(&pods, settings, now, exists))));
    let machine = Machine::of(&field::<Value>(line, "machine")?);
    let node = Node::of(&field::<Value>(line, "node")?);
    let mut nodes = nodes(line, "otherNodes")?;
    nodes.push(node.clone());
    let out = json!({
        "filters": serde_json::Map::from_iter(filters),
        "controllerWithoutPods": controlled(&machine, &node, &nodes, now),
    });
    answered(line, out)
}

fn filtered(fates: &Fates<'_>) -> Value {
    let mut errors = fates.errors();
    errors.sort_unstable();
    let pods: Vec<String> = fates.evicted().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let errors = if errors.is_empty() { Value::Null } else { json!(errors) };
    json!({"pods": pods, "warnings": fates.warnings(), "errors": errors})
}

fn controlled(machine: &Machine, node: &Node, nodes: &[Node], now: Timestamp) -> Value {
    let own = Some(node).filter(|node| machine.node.as_deref() == Some(&node.name));
    let found = verdict(machine, own, nodes);
    let mut conditions = machine.conditions.clone();
    let mut wait = 0;
    let mut done = |skipped| condition::set(&mut conditions, drained(skipped), now);
    let events = match &found {
        Verdict::Nothing => vec![],
        Verdict::Blocked => vec![DrainEvent::Blocked],
        Verdict::Skipped => {
            done(true);
            vec![DrainEvent::Skipped]
        }
        Verdict::NodeGone => {
            done(false);
            vec![DrainEvent::Proceeds, DrainEvent::Succeeded]
        }
        Verdict::NotPermitted { .. } => {
            let failure = DrainFailure::NotPermitted;
            wait = failure.retry().unwrap_or_default().as_secs();
            vec![DrainEvent::Proceeds, DrainEvent::Requeued(failure)]
        }
        Verdict::Drain { .. } => {
            done(false);
            vec![DrainEvent::Proceeds, DrainEvent::Drained(node.name.clone()), DrainEvent::Succeeded]
        }
    };
    let events: Vec<String> = events.iter().map(|event| format!("{} {} {event}", event.kind().as_str(), event.reason())).collect();
    json!({
        "conditions": recorded(&conditions),
        "cordoned": node.unschedulable || matches!(found, Verdict::Drain { .. }),
        "error": null,
        "events": events,
        "requeueAfterSeconds": wait,
    })
}
