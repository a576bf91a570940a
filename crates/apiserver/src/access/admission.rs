//! Escalation prevention as the last step of admission: what is to be stored must not give more than the writer holds.

use std::sync::Arc;

use async_trait::async_trait;
use mainstay_rbac::RBAC_GROUP;
use serde_json::Value;

use super::escalation::{check_binding_write, check_role_write};
use super::policy::Policy;
use crate::admission::{AdmissionStep, Operation, Request};
use crate::error::Result;

/// Refuses roles and bindings beyond the writer's own permissions (KAPI-AUTHZ-01). Push it behind every step that changes objects.
#[derive(Debug)]
pub struct Escalation(pub Arc<Policy>);

#[async_trait]
impl AdmissionStep for Escalation {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let facts = &request.served.facts;
        let Some(object) = object else { return Ok(()) };
        if request.operation == Operation::Delete || !request.subresource.is_empty() || *facts.group != *RBAC_GROUP {
            return Ok(());
        }
        let (policy, user) = (self.0.snapshot(), &request.api_request.user);
        match &*facts.plural {
            resource @ ("roles" | "clusterroles") => {
                check_role_write(&*policy, user, resource, &request.api_request.info.name, object, request.old)
            }
            resource @ ("rolebindings" | "clusterrolebindings") => check_binding_write(&*policy, user, resource, object, request.old),
            _ => Ok(()),
        }
    }
}
