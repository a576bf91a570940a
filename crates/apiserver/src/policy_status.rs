//! The status of ValidatingAdmissionPolicies: the generation that was looked at, and the findings of type checking (KAPI-ADM-02).

use std::sync::Arc;
use std::time::Duration;

use mainstay_store::Expect;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::admission::type_checking;
use crate::cache::{Begin, Scope};
use crate::error::Result;
use crate::object::meta;
use crate::object_store::ObjectStore;

/// The pause before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The task that keeps it.
pub struct PolicyStatus {
    objects: Arc<ObjectStore>,
    closing: CancellationToken,
}

impl PolicyStatus {
    /// A task over these objects; nothing happens before [`PolicyStatus::run`].
    pub fn new(objects: Arc<ObjectStore>, closing: CancellationToken) -> Self {
        Self { objects, closing }
    }

    /// Follows the policies until the server ends.
    pub async fn run(self) {
        let policies = match self.objects.built_in("admissionregistration.k8s.io", "validatingadmissionpolicies") {
            Ok(policies) => policies,
            Err(error) => {
                tracing::error!(%error, "cannot follow admission policies");
                return;
            }
        };
        while !self.closing.is_cancelled() {
            let Ok(mut subscription) =
                self.objects.cache.resource(&policies.storage).subscribe(Scope::default(), Begin::Now, &self.objects.cache)
            else {
                continue;
            };
            loop {
                let mut failed = false;
                for entry in self.objects.cache.resource(&policies.storage).list(&Scope::default()) {
                    if let Err(error) = self.settle(&policies, &entry).await {
                        tracing::debug!(%error, "the status of an admission policy could not be written yet");
                        failed = true;
                    }
                }
                tokio::select! {
                    change = subscription.changes.recv() => if change.is_none() { break },
                    () = tokio::time::sleep(AGAIN), if failed => {}
                    () = self.closing.cancelled() => return,
                }
                while subscription.changes.try_recv().is_some() {}
            }
        }
    }

    async fn settle(&self, policies: &Arc<crate::served::Served>, entry: &crate::entry::Entry) -> Result<()> {
        let policy = entry.value();
        let generation = &policy["metadata"]["generation"];
        if policy["status"]["observedGeneration"] == *generation || !meta(&policy, "deletionTimestamp").is_empty() {
            return Ok(());
        }
        let mut next = policy.clone();
        next["status"]["observedGeneration"] = generation.clone();
        next["status"]["typeChecking"] = json!(type_checking(&policy, &self.objects.served()));
        crate::fields::by_server(policies, &policy, &mut next, Some("status"));
        self.objects.save(policies, &mut next, Expect::Revision(entry.revision)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Then, World};

    /// KAPI-ADM-02: a policy gets its status though the store fails in that moment.
    #[tokio::test(flavor = "multi_thread")]
    async fn failures_are_not_the_end() {
        const KEY: &str = "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/p";
        let world = World::new(false).await;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]},
                ]},
                "validations": [{"expression": "true"}],
            },
        });
        // The first write is the client's.
        world.store.arrange(KEY, 1, Then::Refuse);
        world.store.arrange(KEY, 0, Then::Refuse);
        let (status, answer) = world.send("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", policy).await;
        assert_eq!(status, http::StatusCode::CREATED, "{answer}");
        let observed = |policy: Option<&serde_json::Value>| policy.is_some_and(|policy| policy["status"]["observedGeneration"] == 1);
        world.until("admissionregistration.k8s.io/validatingadmissionpolicies", "p", observed).await;
    }
}
