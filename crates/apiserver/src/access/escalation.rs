//! Escalation prevention for writes of roles and bindings (KAPI-AUTHZ-01), with the 403 that lists the missing rules.
//!
//! The registry calls these before it writes; `old` is the object as it was, for updates.

use mainstay_rbac::{RBAC_GROUP, RoleView, RoleWrite, UserInfo, binding_refusal, parse_binding, role_refusals};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// Checks a write of a Role (`roles`) or ClusterRole (`clusterroles`).
///
/// `name` is that of the request, which a create does not have: a permission to `escalate` named roles does not extend to new ones.
pub fn check_role_write<V: RoleView + ?Sized>(
    view: &V,
    user: &UserInfo,
    resource: &str,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<()> {
    if user.is_master() || only_bookkeeping(new, old) {
        return Ok(());
    }
    match role_refusals(view, user, RoleWrite { resource, request_name: name, new, old }) {
        Ok(refusals) => refusals
            .first()
            .map_or(Ok(()), |refusal| Err(ApiError::forbidden(RBAC_GROUP, resource, text(new, "/metadata/name"), refusal.message(user)))),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}

/// Checks a write of a RoleBinding (`rolebindings`) or ClusterRoleBinding (`clusterrolebindings`).
pub fn check_binding_write<V: RoleView + ?Sized>(
    view: &V,
    user: &UserInfo,
    resource: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<()> {
    if user.is_master() || only_bookkeeping(new, old) {
        return Ok(());
    }
    let binding = parse_binding(new).map_err(|e| ApiError::bad_request(e.to_string()))?;
    match binding_refusal(view, view, user, &binding) {
        Ok(None) => Ok(()),
        Ok(Some(refusal)) => Err(ApiError::forbidden(RBAC_GROUP, resource, &binding.name, refusal.message(user))),
        Err(mainstay_rbac::Error::RoleNotFound { name, .. }) => Err(ApiError::not_found(RBAC_GROUP, resource, &name)),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}

/// Returns whether an update changes nothing but what the garbage collector needs to change.
fn only_bookkeeping(new: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    stripped(new) == stripped(old)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
