//! The release of objects that stay when their extension is deleted (OLM1-INST-15).

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::chain;
use mainstay_olm_v1_core::extension::facts::Answer;
use mainstay_olm_v1_core::extension::plan::{Plan, Reason, Verdict, release};
use mainstay_runtime::Outcome;
use serde_json::Value;

use super::super::observe::Observer;
use super::decide::ROUNDS;
use super::{ExtensionError, Extensions};

impl Extensions {
    /// Releases the objects that are to stay. `None` means that nothing is left to do; until then the finalizers keep the extension.
    pub(super) async fn release(&self, live: &Value, extension: Arc<ClusterExtension>) -> Result<Option<Outcome>, ExtensionError> {
        let name = extension.name_any();
        let account = self.account(&extension).await;
        let observer = Observer {
            own: self.writer.client(),
            account: account.as_ref().ok(),
            bundles: &*self.bundles,
            policy: &self.policy,
            system_namespace: &self.system_namespace,
        };
        let known = self.known_account(&account);
        let mut snapshot = observer.begin(extension.clone(), self.gates.clone(), self.ignore_service_account, Vec::new(), known).await;
        let mut rounds = 0;
        let plan = loop {
            match release(&snapshot) {
                Answer::Ready(plan) => break plan,
                Answer::Need(_) if rounds == ROUNDS => return Err(ExtensionError::Endless { name }),
                Answer::Need(facts) => observer.fetch(&mut snapshot, facts).await,
            }
            rounds += 1;
        };
        if plan.verdict == Verdict::Reached && plan.steps.is_empty() {
            return Ok(None);
        }
        let (outcome, verdict) = match (&plan.verdict, &account) {
            (Verdict::Reached, Ok(account)) => {
                let steps: Vec<_> = plan.steps.iter().map(|planned| planned.step.clone()).collect();
                match account.execute(&steps, |_| {}).await {
                    Ok(done) => {
                        self.events.normal(&*extension, "Released", &format!("{} objects stay", done.len()));
                        // The objects are listed again: those created meanwhile are released, too.
                        return Ok(Some(Outcome::After(Duration::ZERO)));
                    }
                    Err(failed) => (Outcome::Retry, Verdict::Retrying(Reason::Unreleased(chain(&failed.error)))),
                }
            }
            (Verdict::Reached, Err(error)) => (Outcome::Retry, Verdict::Retrying(Reason::Unreleased(chain(error)))),
            // Only a change of the annotation helps, and that wakes the extension.
            (verdict @ Verdict::Blocked(_), _) => (Outcome::Blocked, verdict.clone()),
            (verdict, _) => (Outcome::Retry, verdict.clone()),
        };
        let plan = Plan { verdict: verdict.clone(), ..plan };
        self.report(live, &extension, &plan, &verdict, snapshot.history.as_ref()).await?;
        Ok(Some(outcome))
    }
}
