//! Admission: one ordered chain of steps that every write passes (KAPI-ADM-03).
//!
//! All steps mutate first, in order; after preparation and validation all of them may still refuse. The plugins of kube-apiserver
//! stand in its order; quotas are last, since they count only what nobody else refuses.

mod audit;
mod certificates;
mod compiled;
mod defaults;
mod expressions;
mod lifecycle;
mod limit_ranger;
mod matching;
mod owner_references;
mod plugins;
mod pod_security;
mod policy;
mod priority;
mod quota;
mod review;
mod runtime_class;
mod service_account;
mod storage;
mod subresource;
mod webhook;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::cache::Scope;
use crate::error::{ApiError, Result};
use crate::options::DeleteOptions;
use crate::served::Served;
use crate::server::Context;

pub use audit::Annotations;
pub use plugins::{PluginError, Plugins};
pub use policy::PolicyStatus;
pub use quota::Charges;
pub use subresource::posted;
pub use webhook::Reinvocation;

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
    /// What quotas were charged for it.
    pub charges: Charges,
    /// The options of a deletion.
    pub deletion: Option<&'a DeleteOptions>,
    /// What webhooks remember of it.
    pub reinvocation: Reinvocation,
    /// What is noted of it for auditors.
    pub annotations: Annotations,
}

impl Request<'_> {
    /// Whether this is a write of such a resource itself, not of a subresource.
    pub fn writes(&self, group: &str, plural: &str) -> bool {
        self.subresource.is_empty() && self.operation != Operation::Delete && self.served.is(group, plural)
    }

    /// Whether this is the creation of such a resource.
    pub fn creates(&self, group: &str, plural: &str) -> bool {
        self.operation == Operation::Create && self.writes(group, plural)
    }

    /// The 403 with the words after `is forbidden: `.
    pub fn forbidden(&self, why: impl AsRef<str>) -> ApiError {
        let facts = &self.served.facts;
        ApiError::forbidden(&facts.group, &facts.plural, &self.name, why)
    }

    /// A built-in object. The cache may lag behind one that was made a moment ago, so the store has the last word.
    pub async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let api = &self.context.api;
        let served = api.built_in(group, plural)?;
        match api.cached(&served, namespace, name) {
            Some(entry) => Ok(Some(entry.value())),
            None => Ok(api.load(&served, namespace, name).await?.map(|loaded| loaded.value)),
        }
    }

    /// The objects of a built-in resource as the cache shows them; of all namespaces where none is named.
    pub fn list(&self, group: &str, plural: &str, namespace: &str) -> Result<Vec<Value>> {
        let api = &self.context.api;
        let served = api.built_in(group, plural)?;
        let scope = Scope { namespace: namespace.to_owned(), name: String::new() };
        Ok(api.cache.resource(&served.storage).list(&scope).iter().map(|entry| entry.value()).collect())
    }
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

    /// What was let in is not stored after all: gives back what the step took for it.
    async fn abandon(&self, _request: &Request<'_>) {}
}

/// Steps that whoever composes a server adds to those that every server has; clones share them.
#[derive(Clone, Default)]
pub struct Steps(Vec<Arc<dyn AdmissionStep>>);

impl Steps {
    /// These, in this order.
    pub fn new(steps: Vec<Arc<dyn AdmissionStep>>) -> Self {
        Self(steps)
    }
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Steps").field(&self.0.len()).finish()
    }
}

/// The steps in their order.
pub struct Chain {
    plugins: Plugins,
    steps: Vec<(usize, Arc<dyn AdmissionStep>)>,
}

impl Default for Chain {
    /// The plugins that kube-apiserver has on.
    fn default() -> Self {
        Self::new(Plugins::default())
    }
}

impl Chain {
    /// The built-in plugins that are on, and the steps of every server.
    pub fn new(plugins: Plugins) -> Self {
        let mut chain = Self { plugins, steps: Vec::new() };
        chain.plug("NamespaceLifecycle", Box::new(lifecycle::NamespaceLifecycle));
        chain.plug("LimitRanger", Box::new(limit_ranger::LimitRanger));
        chain.plug("ServiceAccount", Box::new(service_account::ServiceAccount));
        chain.plug("TaintNodesByCondition", Box::new(defaults::TaintNodesByCondition));
        chain.plug("AlwaysPullImages", Box::new(defaults::AlwaysPullImages));
        chain.plug("PodSecurity", Box::new(pod_security::PodSecurity));
        chain.plug("Priority", Box::new(priority::Priority));
        chain.plug("DefaultTolerationSeconds", Box::new(defaults::DefaultTolerationSeconds));
        chain.plug("DefaultStorageClass", Box::new(storage::DefaultStorageClass));
        chain.plug("StorageObjectInUseProtection", Box::new(storage::StorageObjectInUseProtection));
        chain.plug("OwnerReferencesPermissionEnforcement", Box::new(owner_references::OwnerReferencesPermissionEnforcement));
        chain.plug("PersistentVolumeClaimResize", Box::new(storage::PersistentVolumeClaimResize));
        chain.plug("RuntimeClass", Box::new(runtime_class::RuntimeClass));
        chain.plug("CertificateApproval", Box::new(certificates::CertificateApproval));
        chain.plug("CertificateSigning", Box::new(certificates::CertificateSigning));
        chain.plug("CertificateSubjectRestriction", Box::new(certificates::CertificateSubjectRestriction));
        chain.plug("DefaultIngressClass", Box::new(defaults::DefaultIngressClass));
        chain.plug("DenyServiceExternalIPs", Box::new(defaults::DenyServiceExternalIPs));
        chain.plug("MutatingAdmissionWebhook", Box::new(webhook::MutatingAdmissionWebhook::default()));
        chain.plug("ValidatingAdmissionPolicy", Box::new(policy::ValidatingAdmissionPolicy::default()));
        chain.plug("ValidatingAdmissionWebhook", Box::new(webhook::ValidatingAdmissionWebhook::default()));
        chain.plug("ResourceQuota", Box::new(quota::ResourceQuota::default()));
        chain
    }

    /// Adds a plugin of kube-apiserver at its place, unless it is off.
    pub fn plug(&mut self, name: &str, step: Box<dyn AdmissionStep>) {
        if self.plugins.has(name) {
            self.insert(plugins::place(name), step.into());
        }
    }

    /// Adds a step of our own: behind the built-in plugins, before webhooks, policies and quotas.
    pub fn push(&mut self, step: Arc<dyn AdmissionStep>) {
        self.insert(plugins::place(""), step);
    }

    /// Adds steps as [`Chain::push`] does.
    pub fn extend(&mut self, steps: &Steps) {
        for step in &steps.0 {
            self.push(step.clone());
        }
    }

    fn insert(&mut self, place: usize, step: Arc<dyn AdmissionStep>) {
        let at = self.steps.partition_point(|(other, _)| *other <= place);
        self.steps.insert(at, (place, step));
    }

    /// Every step's changes, in order; and once more where a webhook has changed what others saw before it.
    pub async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        loop {
            for (_, step) in &self.steps {
                step.mutate(request, object).await?;
            }
            if !request.reinvocation.begin_again() {
                return Ok(());
            }
        }
    }

    /// Every step's refusals, in order. Where one refuses, nothing is kept that others took.
    pub async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        for (_, step) in &self.steps {
            if let Err(refusal) = step.validate(request, object).await {
                self.abandon(request).await;
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// What was let in is not stored after all.
    pub async fn abandon(&self, request: &Request<'_>) {
        for (_, step) in &self.steps {
            step.abandon(request).await;
        }
    }
}
