//! Roles and bindings as the authorizer sees them, independent of their store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, PolicyRule, UserInfo, service_account_username};

/// The API group of roles and bindings.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A user, group or service account to which a binding gives its role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// The API group; empty for service accounts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The name.
    pub name: String,
    /// The service account's namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl Subject {
    /// Returns whether the subject is this user, in a binding of this namespace (empty for a cluster binding).
    pub fn applies_to(&self, user: &UserInfo, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.in_group(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                !namespace.is_empty() && user.name == service_account_username(namespace, &self.name)
            }
            _ => false,
        }
    }

    /// The subject in the form of an authorizer's reason.
    pub(crate) fn describe(&self, binding_namespace: &str) -> String {
        if self.kind == "ServiceAccount" {
            let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
            format!("{} {}", self.kind, mainstay_golang::quote(&format!("{}/{namespace}", self.name)))
        } else {
            format!("{} {}", self.kind, mainstay_golang::quote(&self.name))
        }
    }
}

/// The role that a binding gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoleRef {
    /// The role's API group.
    pub api_group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

/// A RoleBinding or ClusterRoleBinding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// The binding's name.
    pub name: String,
    /// The binding's namespace, empty for a ClusterRoleBinding.
    pub namespace: String,
    /// The role that it gives.
    pub role_ref: RoleRef,
    /// The subjects to which it gives the role.
    pub subjects: Vec<Subject>,
}

/// A source of roles and bindings for the authorizer: an index over a watch, or the objects of one test.
pub trait RoleView {
    /// Every ClusterRoleBinding, in the order of names.
    fn cluster_role_bindings(&self) -> Vec<Arc<Binding>>;
    /// The ClusterRoleBindings that concern the user, and possibly others.
    fn cluster_role_bindings_of(&self, user: &UserInfo) -> Vec<Arc<Binding>> {
        let mut all = self.cluster_role_bindings();
        all.retain(|binding| binding.subjects.iter().any(|subject| subject.applies_to(user, "")));
        all
    }
    /// The RoleBindings of a namespace, in the order of names.
    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Binding>>;
    /// The rules of a ClusterRole.
    fn cluster_role(&self, name: &str) -> Option<Arc<[PolicyRule]>>;
    /// The rules of a Role.
    fn role(&self, namespace: &str, name: &str) -> Option<Arc<[PolicyRule]>>;

    /// The rules behind a reference, from a binding of this namespace (empty for a ClusterRoleBinding).
    fn referenced(&self, reference: &RoleRef, binding_namespace: &str) -> Result<Arc<[PolicyRule]>, Error> {
        match reference.kind.as_str() {
            "Role" => self
                .role(binding_namespace, &reference.name)
                .ok_or_else(|| Error::RoleNotFound { resource: "role", name: reference.name.clone() }),
            "ClusterRole" => self
                .cluster_role(&reference.name)
                .ok_or_else(|| Error::RoleNotFound { resource: "clusterrole", name: reference.name.clone() }),
            other => Err(Error::UnsupportedRoleKind { kind: other.to_owned() }),
        }
    }
}

/// The rules of a Role or ClusterRole; none when it has no `rules`.
pub fn parse_rules(role: &Value) -> Result<Vec<PolicyRule>, Error> {
    match role.get("rules") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(rules) => Vec::<PolicyRule>::deserialize(rules).map_err(|e| malformed(role, "rules", &e)),
    }
}

/// A RoleBinding or ClusterRoleBinding from its object.
pub fn parse_binding(object: &Value) -> Result<Binding, Error> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let role_ref = match object.get("roleRef") {
        Some(reference) => RoleRef::deserialize(reference).map_err(|e| malformed(object, "roleRef", &e))?,
        None => return Err(malformed(object, "roleRef", &"is required")),
    };
    let subjects = match object.get("subjects") {
        None | Some(Value::Null) => Vec::new(),
        Some(subjects) => Vec::<Subject>::deserialize(subjects).map_err(|e| malformed(object, "subjects", &e))?,
    };
    Ok(Binding { name: text("/metadata/name"), namespace: text("/metadata/namespace"), role_ref, subjects })
}

pub(crate) fn malformed(object: &Value, field: &str, detail: &dyn std::fmt::Display) -> Error {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    Error::Malformed {
        kind: text("/kind").to_owned(),
        name: if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") },
        field: field.to_owned(),
        detail: detail.to_string(),
    }
}
