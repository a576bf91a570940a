//! Recorded form `machineset`.

use mainstay_objects::{LabelSelector, Labels};
use serde_json::{Map, Value, json};

use super::{CaseError, answered, field, machines, nodes, now, optional};
use crate::set::members::left_out;
use crate::set::priority::DeletePolicy;
use crate::set::status::status;

/// Label by which the recorded sets select their machines.
const SELECTED_BY: &str = "set";

/// Answers which machines go first, which the set leaves out, and what its status says.
pub fn machine_set(line: &Value) -> Result<Value, CaseError> {
    let now = now(line)?;
    let machines = machines(line)?;
    let nodes = nodes(line, "nodes")?;
    let set: String = optional(line, "setUID")?;
    let labels: Labels = optional(line, "templateLabels")?;
    let count: i64 = optional(line, "toDelete")?;
    let selector = labels.get(SELECTED_BY).map(|value| LabelSelector::label(SELECTED_BY, value)).unwrap_or_default();
    let excluded: Vec<bool> = machines.iter().map(|machine| left_out(&set, &selector, machine).is_some()).collect();
    let counts = status(&machines, &labels, optional(line, "minReadySeconds")?, now, |name| nodes.iter().find(|node| node.name == name));
    let counts: Map<String, Value> =
        [("fullyLabeledReplicas", counts.fully_labeled), ("readyReplicas", counts.ready), ("availableReplicas", counts.available)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .chain([("replicas", counts.replicas)])
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect();
    let mut out = json!({"excluded": excluded, "status": counts, "error": null, "deleted": null, "priorities": null});
    match DeletePolicy::of(&field::<String>(line, "deletePolicy")?) {
        Ok(policy) => {
            let priorities = machines.iter().map(|machine| (machine.name.clone(), json!(policy.priority(machine, now))));
            out["priorities"] = Value::Object(priorities.collect());
            let deleted = policy.choose(&machines, usize::try_from(count).unwrap_or_default(), now);
            out["deleted"] = deleted.into_iter().map(|machine| machine.name.clone()).collect();
        }
        Err(error) => out["error"] = json!(error.to_string()),
    }
    answered(line, out)
}
