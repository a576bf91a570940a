//! The status of policies: which generation was looked at, and what type checking found.

use std::sync::Arc;

use mainstay_store::Expect;
use serde_json::json;

use super::typecheck::type_checking;
use crate::api::Api;
use crate::cache::{Begin, Scope};
use crate::error::Result;
use crate::object::meta;

/// The task that keeps it.
pub struct PolicyStatus {
    api: Arc<Api>,
}

impl PolicyStatus {
    /// A task over this API; nothing happens before [`PolicyStatus::run`].
    pub fn new(api: Arc<Api>) -> Self {
        Self { api }
    }

    /// Follows the policies until the server ends.
    pub async fn run(self) {
        let policies = match self.api.built_in("admissionregistration.k8s.io", "validatingadmissionpolicies") {
            Ok(policies) => policies,
            Err(error) => {
                tracing::error!(%error, "cannot follow admission policies");
                return;
            }
        };
        while !self.api.closing.is_cancelled() {
            let Ok(mut subscription) = self.api.cache.resource(&policies.storage).subscribe(Scope::default(), Begin::Now, &self.api.cache)
            else {
                continue;
            };
            loop {
                for entry in self.api.cache.resource(&policies.storage).list(&Scope::default()) {
                    if let Err(error) = self.settle(&policies, &entry).await {
                        // Somebody else changed it meanwhile: that brings the next pass.
                        tracing::debug!(%error, "the status of an admission policy could not be written yet");
                    }
                }
                tokio::select! {
                    change = subscription.changes.recv() => if change.is_none() { break },
                    () = self.api.closing.cancelled() => return,
                }
                while subscription.changes.try_recv().is_some() {}
            }
        }
    }

    async fn settle(&self, policies: &Arc<crate::served::Served>, entry: &crate::cache::Entry) -> Result<()> {
        let policy = entry.value();
        let generation = &policy["metadata"]["generation"];
        if policy["status"]["observedGeneration"] == *generation || !meta(&policy, "deletionTimestamp").is_empty() {
            return Ok(());
        }
        let mut next = policy.clone();
        next["status"]["observedGeneration"] = generation.clone();
        next["status"]["typeChecking"] = json!(type_checking(&policy, &self.api.served()));
        crate::fields::by_server(policies, &policy, &mut next, Some("status"));
        self.api.save(policies, &mut next, Expect::Revision(entry.revision)).await.map(drop)
    }
}
