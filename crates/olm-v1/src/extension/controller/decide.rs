//! One look at an extension: facts are gathered until there is a plan, and with it comes who acts.

use std::sync::Arc;

use kube::ResourceExt;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::Writer;
use mainstay_runtime::{AccountError, Cache, Key, Outcome};
use tokio_util::sync::CancellationToken;

use super::super::act::FIELD_MANAGER;
use super::super::facts::{Answer, Snapshot};
use super::super::lifecycle::LifecycleObjects;
use super::super::observe::Observer;
use super::super::plan::{Plan, account_name, finalizing, plan};
use super::super::watches::{Identity, Watches};
use super::{ExtensionError, Extensions};
use crate::text::chain;

/// How often a plan may ask for facts: account, Deployments, CRDs, custom resources, bundle, policy, live objects, and some to spare.
const ROUNDS: usize = 12;

impl Extensions {
    pub(super) async fn reconcile(
        &self,
        cache: &Cache,
        watches: &Watches,
        lifecycle: &LifecycleObjects,
        key: &Key,
        ending: &CancellationToken,
    ) -> Result<Outcome, ExtensionError> {
        let Some(object) = cache.get(key) else {
            watches.forget(&key.name);
            return Ok(Outcome::Done);
        };
        let live = serde_json::to_value(&*object).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        let extension: ClusterExtension =
            serde_json::from_value(live.clone()).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        // Gathering facts changes nothing, and may wait for what comes no more once the process is to end; acting is finished.
        let Some(decided) = ending.run_until_cancelled(self.decide(Arc::new(extension), lifecycle)).await else {
            tracing::debug!(extension = key.name, "nothing is decided any more: the end was asked for");
            return Ok(Outcome::Done);
        };
        let (snapshot, plan, account) = decided?;
        tracing::debug!(extension = key.name, action = ?plan.action, steps = plan.steps.len(), verdict = ?plan.verdict, "decided");
        self.act(&live, snapshot, plan, account, watches).await
    }

    /// Gathers what the plan asks for until there is one; with it comes who acts.
    async fn decide(
        &self,
        extension: Arc<ClusterExtension>,
        lifecycle: &LifecycleObjects,
    ) -> Result<(Snapshot, Plan, Option<Writer>), ExtensionError> {
        let name = extension.name_any();
        let account = self.account(&extension).await;
        let observer = Observer {
            own: self.writer.client(),
            account: account.as_ref().ok(),
            bundles: &*self.bundles,
            policy: &self.policy,
            system_namespace: &self.system_namespace,
        };
        let catalogs = self.catalogs.catalogs().await;
        let mut snapshot = observer.begin(extension.clone(), self.gates.clone(), self.ignore_service_account, catalogs).await;
        if let Err(error) = &account
            && !matches!(error, AccountError::NotFound { .. })
        {
            snapshot.known.account = Some(Err(chain(error)));
        }
        snapshot.known.now = Some(self.env.now_seconds());
        // No policy has a say in finalizers, and an extension that goes is not to wait for them.
        if finalizing(&snapshot.extension).is_none() {
            snapshot.known.lifecycle = lifecycle.facts().await;
        }
        for _ in 0..ROUNDS {
            match plan(&snapshot) {
                Answer::Ready(plan) => return Ok((snapshot, plan, account.ok())),
                Answer::Need(facts) => {
                    tracing::debug!(extension = name, ?facts, "asked for");
                    observer.fetch(&mut snapshot, facts).await;
                }
            }
        }
        Err(ExtensionError::Endless { name })
    }

    /// Who watches the extension's objects.
    pub(super) fn identity(&self, extension: &ClusterExtension) -> Identity {
        if self.ignore_service_account {
            return Identity::Own;
        }
        Identity::Account(Key::new(extension.spec.namespace.clone(), account_name(extension)))
    }

    /// The identity that touches the extension's objects (OLM1-PERM-01, OLM1-API-07).
    async fn account(&self, extension: &ClusterExtension) -> Result<Writer, AccountError> {
        if self.ignore_service_account {
            return Ok(self.writer.clone());
        }
        let account = Key::new(extension.spec.namespace.clone(), account_name(extension));
        if account.name.is_empty() {
            return Err(AccountError::NotFound { account });
        }
        let client = self.accounts.client(&account).await?;
        Ok(Writer::new(client, self.kinds.clone(), FIELD_MANAGER))
    }
}
