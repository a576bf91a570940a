//! Escalation prevention for writes of roles and bindings (KAPI-AUTHZ-01), with the 403 that lists the missing rules.
//!
//! The registry calls these before it writes; `old` is the object as it was, for updates.

use mainstay_rbac::{Attributes, RBAC_GROUP, RoleView, UserInfo, authorize, binding_missing, parse_binding, role_missing};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// Checks a write of a Role (`roles`) or ClusterRole (`clusterroles`).
///
/// `name` is that of the request, which a create does not have: a right to `escalate` named roles does not extend to new ones.
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
    let namespace = text(new, "/metadata/namespace");
    let escalate = Attributes::resource(user.clone(), "escalate", namespace, RBAC_GROUP, resource, name);
    if authorize(view, &escalate).allowed {
        return Ok(());
    }
    match role_missing(view, user, new, old) {
        Ok(None) => Ok(()),
        Ok(Some(missing)) => Err(ApiError::forbidden(RBAC_GROUP, resource, text(new, "/metadata/name"), missing)),
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
    let reference = &binding.role_ref;
    let referenced = match reference.kind.as_str() {
        "ClusterRole" => "clusterroles",
        _ => "roles",
    };
    let bind = Attributes::resource(user.clone(), "bind", &binding.namespace, &reference.api_group, referenced, &reference.name);
    if authorize(view, &bind).allowed {
        return Ok(());
    }
    match binding_missing(view, user, &binding.namespace, reference) {
        Ok(None) => Ok(()),
        Ok(Some(missing)) => Err(ApiError::forbidden(RBAC_GROUP, resource, &binding.name, missing)),
        Err(mainstay_rbac::Error::RoleNotFound { name, .. }) => Err(ApiError::not_found(RBAC_GROUP, resource, &name)),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}

/// Whether an update changes nothing but what the garbage collector needs to change.
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
