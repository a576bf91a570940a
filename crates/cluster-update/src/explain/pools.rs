//! Machine config pools that hold up an update, or stay behind it (CVO-FLOW-03, CVO-FLOW-07, CVO-TRB-05, CVO-TRB-06, MACH-PAUSE-06).

use serde_json::Value;

use super::{Action, Explanation};
use crate::cluster_version::{Condition, text};

/// The ClusterOperator that reports the pools.
pub(super) const OPERATOR: &str = "machine-config";
/// The label of pools that an update waits for.
const REQUIRED: &str = "operator.machineconfiguration.openshift.io/required-for-upgrade";

fn is(pool: &Value, kind: &str, status: &str) -> bool {
    Condition::find(&pool["status"]["conditions"], kind).is_some_and(|one| one.status() == status)
}

fn is_behind(pool: &Value) -> bool {
    is(pool, "Updated", "False")
}

/// Adds the paused pool that an update waits for, and how it is resumed.
pub(super) fn held(mut found: Explanation, pools: &[Value]) -> Explanation {
    let holds = |pool: &&Value| {
        let is_required = pool["metadata"]["labels"].as_object().is_some_and(|labels| labels.contains_key(REQUIRED));
        is_required && pool["spec"]["paused"] == true && is_behind(pool)
    };
    let Some(pool) = pools.iter().find(holds) else { return found };
    let name = text(&pool["metadata"]["name"]);
    found =
        found.because(format!("machineconfigpool {name} is paused: its nodes stay at the release before, and the update waits for them"));
    let resume =
        Action::new(format!("Resume pool {name}: its nodes are updated then, and restart")).command(format!("mainstay pool resume {name}"));
    if let Some(next) = found.next.replace(resume) { found.or(next) } else { found }
}

/// What is left to do at the nodes of a pool once the release is applied.
pub(super) fn left(pool: &Value) -> Option<String> {
    let count = |field: &str| pool["status"][field].as_i64().unwrap_or_default();
    let (name, done, all) = (text(&pool["metadata"]["name"]), count("updatedMachineCount"), count("machineCount"));
    if is(pool, "Updating", "True") {
        return Some(format!("the release is applied, and pool {name} is still at its nodes: {done} of {all} are updated"));
    }
    (pool["spec"]["paused"] == true && is_behind(pool)).then(|| {
        format!("the release is applied, and pool {name} is paused: {done} of {all} nodes are updated, the others wait for mainstay pool resume {name}")
    })
}
