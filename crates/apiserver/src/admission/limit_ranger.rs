//! LimitRanger: pods get the defaults of their namespace's LimitRanges, and pods and claims keep to their bounds.

use async_trait::async_trait;
use mainstay_kinds::limit_range;
use serde_json::Value;

use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::object::meta;

/// The step.
pub struct LimitRanger;

/// Returns whether the plugin looks at a write: what a pod asks for changes by a resize alone.
fn concerns(request: &Request<'_>) -> bool {
    let resize = request.operation == Operation::Update && request.subresource == "resize" && request.served.is("", "pods");
    let deleting = request.old.is_some_and(|old| !meta(old, "deletionTimestamp").is_empty());
    (resize || request.creates("", "pods") || request.writes("", "persistentvolumeclaims")) && !deleting
}

#[async_trait]
impl AdmissionStep for LimitRanger {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if concerns(request) && request.served.is("", "pods") {
            for limits in request.list("", "limitranges", &request.namespace)? {
                limit_range::default_pod(&limits, object);
            }
        }
        Ok(())
    }

    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let Some(object) = object.filter(|_| concerns(request)) else { return Ok(()) };
        let check = if request.served.is("", "pods") { limit_range::check_pod } else { limit_range::check_claim };
        for limits in request.list("", "limitranges", &request.namespace)? {
            let mut broken: Vec<String> = Vec::new();
            for one in check(&limits, object) {
                if !broken.contains(&one) {
                    broken.push(one);
                }
            }
            match broken.as_slice() {
                [] => {}
                [one] => return Err(request.forbidden(one)),
                many => return Err(request.forbidden(format!("[{}]", many.join(", ")))),
            }
        }
        Ok(())
    }
}
