//! NamespaceLifecycle: nothing is created in a namespace that does not exist or is on its way out; some namespaces stay.

use async_trait::async_trait;
use serde_json::Value;

use super::step::{AdmissionStep, Operation, Request};
use crate::error::{ApiError, Cause, Result};
use crate::object::meta;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The step.
#[derive(Default)]
pub struct NamespaceLifecycle;

#[async_trait]
impl AdmissionStep for NamespaceLifecycle {
    async fn mutate(&self, request: &Request<'_>, _object: &mut Value) -> Result<()> {
        check(request).await
    }

    async fn validate(&self, request: &Request<'_>, _object: Option<&Value>) -> Result<()> {
        if request.operation == Operation::Delete && request.served.is("", "namespaces") && IMMORTAL.contains(&request.name.as_str()) {
            return Err(ApiError::forbidden("", "namespaces", &request.name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}

async fn check(request: &Request<'_>) -> Result<()> {
    if request.operation == Operation::Delete || request.namespace.is_empty() || !request.served.facts.namespaced {
        return Ok(());
    }
    let facts = &request.served.facts;
    // Reviews ask about namespaces that need not exist.
    if facts.plural == "localsubjectaccessreviews" {
        return Ok(());
    }
    let lookup = request.lookup;
    let namespaces = lookup.built_in("", "namespaces")?;
    let namespace = match lookup.cached(&namespaces, "", &request.namespace) {
        // What is there may be changed until it has gone.
        Some(_) if request.operation == Operation::Update => return Ok(()),
        Some(entry) => entry.value(),
        // The cache may lag behind a namespace that was made a moment ago.
        None => match lookup.load(&namespaces, "", &request.namespace).await? {
            Some(loaded) => loaded.value,
            None => return Err(ApiError::not_found("", "namespaces", &request.namespace)),
        },
    };
    if request.operation == Operation::Update || meta(&namespace, "deletionTimestamp").is_empty() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {} because it is being terminated", request.namespace);
    let message = format!("namespace {} is being terminated", request.namespace);
    Err(request.forbidden(why).cause(Cause::new("NamespaceTerminating", message, "metadata.namespace")))
}
