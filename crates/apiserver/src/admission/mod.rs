//! Admission: one ordered chain of steps that every write passes (KAPI-ADM-03).
//!
//! All steps mutate first, in order; after preparation and validation all of them may still refuse. Webhooks, quotas and policies
//! are further steps of the same chain.

mod defaults;
mod lifecycle;
mod service_account;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::Result;
use crate::served::Served;
use crate::server::Context;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of AdmissionReview")]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One write on its way through admission.
pub struct Request<'a> {
    /// The request.
    pub context: &'a Context,
    /// The resource.
    pub served: &'a Arc<Served>,
    /// What is done.
    pub operation: Operation,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The object before, for updates and deletions.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// One step of the chain.
#[async_trait]
pub trait AdmissionStep: Send + Sync {
    /// Changes or refuses what is written.
    async fn mutate(&self, _request: &Request<'_>, _object: &mut Value) -> Result<()> {
        Ok(())
    }

    /// Refuses what is written; `object` is absent for deletions.
    async fn validate(&self, _request: &Request<'_>, _object: Option<&Value>) -> Result<()> {
        Ok(())
    }
}

/// The steps in their order.
pub struct Chain(Vec<Box<dyn AdmissionStep>>);

impl Default for Chain {
    /// The steps of every server, in Kubernetes' order.
    fn default() -> Self {
        Self(vec![
            Box::new(lifecycle::NamespaceLifecycle),
            Box::new(service_account::ServiceAccount),
            Box::new(defaults::Priority),
            Box::new(defaults::DefaultTolerationSeconds),
            Box::new(defaults::CatalogName),
        ])
    }
}

impl Chain {
    /// Appends a step.
    pub fn push(&mut self, step: Box<dyn AdmissionStep>) {
        self.0.push(step);
    }

    /// Every step's changes, in order.
    pub async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        for step in &self.0 {
            step.mutate(request, object).await?;
        }
        Ok(())
    }

    /// Every step's refusals, in order.
    pub async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        for step in &self.0 {
            step.validate(request, object).await?;
        }
        Ok(())
    }
}
