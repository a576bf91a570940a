//! The policy of a running server: fed by a watch of roles and bindings, read by every request.

use std::sync::{Arc, PoisonError, RwLock};

use mainstay_rbac::{Attributes, Decision, Error, PolicyIndex, authorize};
use serde_json::Value;

/// A shared [`PolicyIndex`]. Readers take a snapshot and never wait for a decision of another.
#[derive(Debug, Default)]
pub struct Policy(RwLock<Arc<PolicyIndex>>);

impl Policy {
    /// Takes in a Role, ClusterRole, RoleBinding or ClusterRoleBinding.
    pub fn apply(&self, object: &Value) -> Result<(), Error> {
        Arc::make_mut(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)).apply(object)
    }

    /// Forgets one.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) {
        Arc::make_mut(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)).delete(kind, namespace, name);
    }

    /// Puts another policy in place, after a relist.
    pub fn replace(&self, index: PolicyIndex) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(index);
    }

    /// The policy at this moment.
    pub fn snapshot(&self) -> Arc<PolicyIndex> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The decision about a request, as of now.
    pub fn decide(&self, request: &Attributes) -> Decision {
        authorize(&*self.snapshot(), request)
    }
}
