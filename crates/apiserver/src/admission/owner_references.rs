//! OwnerReferencesPermissionEnforcement (an option): owners are changed by those who may delete the dependent, and owners are kept
//! from going by those who may write the owner's finalizers.

use async_trait::async_trait;
use mainstay_kinds::Gvk;
use serde_json::Value;

use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::request::RequestInfo;

/// The step.
pub struct OwnerReferencesPermissionEnforcement;

fn owners(object: Option<&Value>) -> &[Value] {
    let list = object.and_then(|object| object.pointer("/metadata/ownerReferences")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// The owners that an object keeps from going, and did not keep before.
fn newly_blocked<'a>(new: &'a [Value], old: &[Value]) -> Vec<&'a Value> {
    let blocks = |owner: &Value| owner["blockOwnerDeletion"] == true;
    let before = |owner: &Value| old.iter().any(|other| other["uid"] == owner["uid"] && blocks(other));
    new.iter().filter(|owner| blocks(owner) && !before(owner)).collect()
}

#[async_trait]
impl AdmissionStep for OwnerReferencesPermissionEnforcement {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        // The status of a pod cannot change its owners, and old kubelets send them mangled.
        let of_pod_status = request.served.is("", "pods") && request.subresource == "status";
        let (new, old) = (owners(object), owners(request.old));
        if request.operation == Operation::Delete || of_pod_status || new == old {
            return Ok(());
        }
        let facts = &request.served.facts;
        if request.operation != Operation::Create {
            let delete = RequestInfo {
                verb: "delete".to_owned(),
                group: facts.group.clone(),
                version: facts.version.clone(),
                namespace: request.namespace.clone(),
                resource: facts.plural.clone(),
                subresource: request.subresource.to_owned(),
                name: request.name.clone(),
                ..RequestInfo::default()
            };
            if !may(request, delete) {
                return Err(request.forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"));
            }
        }
        let blocked = newly_blocked(new, old);
        if blocked.is_empty() || may(request, finalizers("*", "*", "*", "*")) {
            return Ok(());
        }
        for owner in blocked {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let gvk = Gvk::of(text("apiVersion"), text("kind"));
            let snapshot = request.lookup.served();
            let Some(resource) = snapshot.of_kind(&gvk) else {
                let (version, kind) = (text("apiVersion"), text("kind"));
                return Err(request.forbidden(format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind {kind:?} in version {version:?}"
                )));
            };
            let of = &resource.facts;
            let mut update = finalizers(&of.group, &of.version, &of.plural, text("name"));
            if of.namespaced {
                update.namespace.clone_from(&request.namespace);
            }
            if !may(request, update) {
                let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";
                return Err(request.forbidden(why));
            }
        }
        Ok(())
    }
}

fn finalizers(group: &str, version: &str, resource: &str, name: &str) -> RequestInfo {
    RequestInfo {
        verb: "update".to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.to_owned(),
        subresource: "finalizers".to_owned(),
        name: name.to_owned(),
        ..RequestInfo::default()
    }
}

fn may(request: &Request<'_>, question: RequestInfo) -> bool {
    let question = RequestInfo { is_resource: true, ..question };
    request.lookup.decide(&request.api_request.user, &question).allowed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_blocked_anew_is_asked_for() {
        let owner = |uid: &str, block: bool| json!({"uid": uid, "blockOwnerDeletion": block});
        let new = [owner("a", true), owner("b", true), owner("c", false), owner("d", true)];
        let old = [owner("a", true), owner("b", false)];
        let uids: Vec<&str> = newly_blocked(&new, &old).iter().filter_map(|owner| owner["uid"].as_str()).collect();
        assert_eq!(uids, ["b", "d"]);
    }
}
