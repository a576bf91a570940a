//! MachineConfigNodes: one a node, with its progress in steps (MACH-NODE-06).

use mainstay_apply::Writer;
use mainstay_machine_config_core::daemon::Progress;
use mainstay_machine_config_core::pool::node::annotation;
use serde_json::{Value, json};

use crate::Error;
use crate::places::{V1, name, of_group};

const NOT_YET: &str = "not-yet-set";
/// Attempts at a status that others write at the same time.
const ATTEMPTS: usize = 4;

/// Records steps of a node.
pub(crate) async fn record(writer: &Writer, node: &Value, pool: &str, steps: &[Progress], now: &str) -> Result<(), Error> {
    // A node without pool has no object: it must name one.
    if steps.is_empty() || pool.is_empty() {
        return Ok(());
    }
    let mut attempts = 0;
    loop {
        match attempt(writer, node, pool, steps, now).await {
            Err(error) if error.is_behind() && attempts < ATTEMPTS => attempts += 1,
            outcome => return outcome,
        }
    }
}

async fn attempt(writer: &Writer, node: &Value, pool: &str, steps: &[Progress], now: &str) -> Result<(), Error> {
    let told = |key: &str| node["metadata"]["annotations"].get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let desired = told(annotation::DESIRED_CONFIG).unwrap_or(NOT_YET);
    let place = of_group("MachineConfigNode", name(node));
    let spec = json!({"node": {"name": name(node)}, "pool": {"name": pool}, "configVersion": {"desired": desired}});
    let live = match writer.get(&place).await? {
        None => {
            let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": node["metadata"]["uid"]}]);
            let made = json!({"apiVersion": V1, "kind": "MachineConfigNode", "metadata": {"name": name(node), "ownerReferences": owner}, "spec": spec});
            writer.create(&made).await?
        }
        Some(mut live) if live["spec"] != spec => {
            live["spec"] = spec;
            writer.replace(&live).await?
        }
        Some(live) => live,
    };
    let before = live.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let conditions = steps.iter().fold(before, |before, step| step.applied(&before, desired, now));
    let mut status =
        json!({"conditions": conditions, "observedGeneration": live["metadata"]["generation"], "configVersion": {"desired": desired}});
    if let Some(current) = told(annotation::CURRENT_CONFIG) {
        status["configVersion"]["current"] = json!(current);
    }
    if let Some(pinned) = live["status"].get("pinnedImageSets") {
        status["pinnedImageSets"] = pinned.clone();
    }
    writer.update_status(&live, &status).await?;
    Ok(())
}
