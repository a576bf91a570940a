//! What can be wrong with roles and bindings.

/// An object that can not be read, or a reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object lacks a field, or a field has the wrong type.
    #[error("{kind} {name:?}: {field}: {detail}")]
    Malformed {
        /// The object's kind.
        kind: String,
        /// The object's name, `namespace/name` where it has one.
        name: String,
        /// The field at fault.
        field: String,
        /// What is wrong with it.
        detail: String,
    },
    /// An object of a kind that is no part of the policy.
    #[error("kind {kind:?} is no RBAC object; expected Role, ClusterRole, RoleBinding or ClusterRoleBinding")]
    UnknownKind {
        /// The kind found.
        kind: String,
    },
    /// A binding names a role that does not exist.
    #[error("{resource}.rbac.authorization.k8s.io {name:?} not found")]
    RoleNotFound {
        /// `role` or `clusterrole`.
        resource: &'static str,
        /// The role's name.
        name: String,
    },
    /// A binding refers to something that is no role.
    #[error("unsupported role reference kind: {kind:?}")]
    UnsupportedRoleKind {
        /// The kind found.
        kind: String,
    },
}
