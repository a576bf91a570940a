//! The words of a step to the cluster: annotations of the node, conditions of its MachineConfigNode, events (MACH-NODE-02, MACH-NODE-06, MACH-NODE-08).

use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_machine_config_core::daemon::{NodeEvent, Plan, Progress};
use mainstay_machine_config_core::pool::node::annotation;
use mainstay_objects::{ObjectRef, Patch};
use serde_json::{Map, Value, json};

use crate::Error;

const V1: &str = "machineconfiguration.openshift.io/v1";
const NOT_YET: &str = "not-yet-set";
/// Attempts at a status that others write at the same time.
const ATTEMPTS: usize = 4;

/// The place of a node.
pub fn node_place(name: &str) -> ObjectRef {
    ObjectRef { api_version: "v1".to_owned(), kind: "Node".to_owned(), namespace: String::new(), name: name.to_owned() }
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Tells of a step: progress and annotations first, events last. `note` is the text of an event.
///
/// # Errors
/// The cluster refused, or did not answer.
pub async fn tell(
    writer: &Writer,
    recorder: &Recorder,
    live: &Value,
    pool: &str,
    step: &Plan,
    now: &str,
    note: impl Fn(&NodeEvent) -> String,
) -> Result<(), Error> {
    let mut node = live.clone();
    if !step.annotations.is_empty() {
        let value = |text: &Option<String>| text.as_ref().map_or(Value::Null, |text| json!(text));
        let all: Map<String, Value> = step.annotations.iter().map(|(key, text)| ((*key).to_owned(), value(text))).collect();
        node = writer.patch(&node_place(name(live)), "", &Patch::Merge(json!({"metadata": {"annotations": all}}))).await?;
    }
    progress(writer, &node, pool, &step.progress, now).await?;
    for event in &step.events {
        let kind = if event.is_warning() { EventKind::Warning } else { EventKind::Normal };
        if let Err(error) = recorder.record(&node, kind, event.reason(), "Updating", &note(event)) {
            tracing::warn!(%error, reason = event.reason(), "an event could not be reported");
        }
    }
    Ok(())
}

/// Records steps of a node in its MachineConfigNode.
///
/// # Errors
/// The cluster refused, or did not answer.
pub async fn progress(writer: &Writer, node: &Value, pool: &str, steps: &[Progress], now: &str) -> Result<(), Error> {
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
    let place = ObjectRef {
        api_version: V1.to_owned(),
        kind: "MachineConfigNode".to_owned(),
        namespace: String::new(),
        name: name(node).to_owned(),
    };
    let spec = json!({"node": {"name": name(node)}, "pool": {"name": pool}, "configVersion": {"desired": desired}});
    let live = match writer.get(&place).await? {
        None => {
            let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": node["metadata"]["uid"]}]);
            let metadata = json!({"name": name(node), "ownerReferences": owner});
            writer.create(&json!({"apiVersion": V1, "kind": "MachineConfigNode", "metadata": metadata, "spec": spec})).await?
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
