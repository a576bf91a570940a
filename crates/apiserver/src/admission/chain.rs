//! The ordered chain of steps (KAPI-ADM-03).

use std::sync::Arc;

use serde_json::Value;

use super::plugins::{self, Plugins};
use super::step::{AdmissionStep, Request, Steps};
use super::{
    certificates, defaults, lifecycle, limit_ranger, owner_references, pod_security, policy, priority, project_node_env, quota,
    runtime_class, service_account, storage, webhook,
};
use crate::error::Result;
use crate::remote::Remotes;

/// The steps in their order.
pub struct Chain {
    plugins: Plugins,
    steps: Vec<(usize, Arc<dyn AdmissionStep>)>,
}

impl Chain {
    /// The built-in plugins that are on, and the steps of every server; webhooks are called through `remotes`.
    pub fn new(plugins: Plugins, remotes: &Arc<Remotes>) -> Self {
        let mut chain = Self { plugins, steps: Vec::new() };
        chain.plug("NamespaceLifecycle", Box::new(lifecycle::NamespaceLifecycle));
        chain.plug("LimitRanger", Box::new(limit_ranger::LimitRanger));
        chain.plug("ServiceAccount", Box::new(service_account::ServiceAccount));
        chain.plug("TaintNodesByCondition", Box::new(defaults::TaintNodesByCondition));
        chain.plug("AlwaysPullImages", Box::new(defaults::AlwaysPullImages));
        chain.plug("PodSecurity", Box::new(pod_security::PodSecurity));
        chain.plug("ProjectNodeEnv", Box::new(project_node_env::ProjectNodeEnv));
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
        chain.plug("MutatingAdmissionWebhook", Box::new(webhook::MutatingAdmissionWebhook::new(remotes.clone())));
        chain.plug("ValidatingAdmissionPolicy", Box::new(policy::ValidatingAdmissionPolicy::default()));
        chain.plug("ValidatingAdmissionWebhook", Box::new(webhook::ValidatingAdmissionWebhook::new(remotes.clone())));
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

    /// Abandons a write that was let in and is not stored after all.
    pub async fn abandon(&self, request: &Request<'_>) {
        for (_, step) in &self.steps {
            step.abandon(request).await;
        }
    }
}
