//! Validating webhooks: all that a request is the business of, at the same time. The first refusal in their order counts.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::Value;

use super::call::{call, out_of_time};
use super::hook::Configuration;
use super::mutating::{patience, settle};
use crate::admission::compiled::Compiled;
use crate::admission::matching::is_exempt;
use crate::admission::step::{AdmissionStep, Request};
use crate::error::Result;
use crate::remote::Remotes;

/// The plugin.
pub struct ValidatingAdmissionWebhook {
    configurations: Compiled<Configuration>,
    remotes: Arc<Remotes>,
}

impl ValidatingAdmissionWebhook {
    /// The plugin; webhooks are called through `remotes`.
    pub fn new(remotes: Arc<Remotes>) -> Self {
        Self {
            configurations: Compiled::new("admissionregistration.k8s.io/validatingwebhookconfigurations", Configuration::compile),
            remotes,
        }
    }
}

#[async_trait]
impl AdmissionStep for ValidatingAdmissionWebhook {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let configurations = self.configurations.all(&**request.lookup);
        if configurations.is_empty() || is_exempt(request) {
            return Ok(());
        }
        request.reinvocation.limit(patience(request));
        let mut relevant = Vec::new();
        for hook in configurations.iter().flat_map(|(_, configuration)| &configuration.hooks) {
            if let Some(view) = hook.view(request, object).await? {
                relevant.push((hook, view));
            }
        }
        if relevant.is_empty() {
            return Ok(());
        }
        if std::time::Instant::now() >= request.reinvocation.deadline() {
            return Err(out_of_time());
        }
        let asked = join_all(relevant.iter().map(|(hook, view)| call(&self.remotes, request, hook, view, false))).await;
        for (index, ((hook, _), outcome)) in relevant.iter().zip(asked).enumerate() {
            settle(request, hook, outcome, &format!("failed-open.validating.webhook.admission.k8s.io/round_0_index_{index}"))?;
        }
        Ok(())
    }
}
