//! Cordons: a node takes no new pods, or takes them again.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use crate::DrainError;

/// Marks a node as unschedulable, or as schedulable again. Returns false if it was so before.
///
/// # Errors
/// The node does not exist ([`DrainError::is_not_found`]), or the server refuses.
pub async fn cordon(client: &Client, node: &str, unschedulable: bool) -> Result<bool, DrainError> {
    let verb = if unschedulable { "cordon" } else { "uncordon" };
    let failed = |source: kube::Error| DrainError::Request { what: format!("{verb} node {node}"), source: Box::new(source) };
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Node"), "nodes");
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let live = nodes.get(node).await.map_err(failed)?;
    if live.data.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or_default() == unschedulable {
        return Ok(false);
    }
    // The version is left out on purpose, as upstream does: a kubelet that reports at the same time does not make a cordon fail.
    let wanted = if unschedulable { json!(true) } else { Value::Null };
    let patch = Patch::Strategic(json!({"spec": {"unschedulable": wanted}}));
    nodes.patch(node, &PatchParams::default(), &patch).await.map_err(failed)?;
    Ok(true)
}
