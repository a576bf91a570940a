//! The errors of roles and bindings.

/// An object that cannot be read, or a reference to a role that was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The object lacks a field, or a field has the wrong type.
    #[error("{kind} {name:?}: {field}: {detail}")]
    Malformed {
        /// The object's kind.
        kind: String,
        /// The object's name; `namespace/name` if it has a namespace.
        name: String,
        /// The field at fault.
        field: String,
        /// The problem of the field.
        detail: String,
    },
    /// The object's kind is not an RBAC kind.
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
    /// A binding refers to something that is not a role.
    #[error("unsupported role reference kind: {kind:?}")]
    UnsupportedRoleKind {
        /// The kind found.
        kind: String,
    },
}
