//! ProjectNodeEnv: a namespace's annotations say on which nodes its pods run (KAPI-ADM-05). OpenShift's API server has it, and plain
//! Kubernetes has it off (PodNodeSelector, PodTolerationRestriction).

use async_trait::async_trait;
use mainstay_kinds::placement::Placement;
use serde_json::Value;

use super::step::{AdmissionStep, Request};
use crate::error::Result;

/// The step.
pub struct ProjectNodeEnv;

#[async_trait]
impl AdmissionStep for ProjectNodeEnv {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.creates("", "pods") {
            return Ok(());
        }
        let Some(namespace) = request.find("", "namespaces", "", &request.namespace).await? else { return Ok(()) };
        let placement = Placement::of(&namespace).map_err(|refusal| request.forbidden(refusal.to_string()))?;
        placement.place(object).map_err(|refusal| request.forbidden(refusal.to_string()))?;
        let node = object.pointer("/spec/nodeName").and_then(Value::as_str).filter(|name| !name.is_empty());
        if let Some(name) = node.filter(|_| !placement.selector.is_empty()) {
            let missing = || request.forbidden(format!("cannot validate project node label selector: node {name:?} not found"));
            let node = request.find("", "nodes", "", name).await?.ok_or_else(missing)?;
            placement.allows(&node).map_err(|refusal| request.forbidden(refusal.to_string()))?;
        }
        Ok(())
    }
}
