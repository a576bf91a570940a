//! Available updates, and the automatic choice among them.

use mainstay_api::config_v1::{ClusterVersion, Release};
use mainstay_cluster_version_core::retrieval::Decision;
use mainstay_cluster_version_core::validation::{validate, without_invalid};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_runtime::Outcome;
use serde_json::json;

use super::state::{Operator, Part};
use super::{API_VERSION, NAME};
use crate::Error;
use crate::updates::Subject;

impl Operator {
    /// Asks the update service when it is time, and evaluates risks (CVO-USC-04 to CVO-USC-06).
    pub(super) async fn updates(&self) -> Result<Outcome, Error> {
        let Some(current) = self.state().running.as_ref().map(|running| running.release()) else { return Ok(Outcome::Done) };
        let Some((_, read)) = self.observed.cluster_version()? else { return Ok(Outcome::Done) };
        let errors = validate(&read);
        let cluster_version = without_invalid(read, &errors);
        let service = self.config.updates.as_ref();
        let subject = Subject { flag: self.config.update_service.clone(), current };
        let (question, query) = subject.query(service, &cluster_version);
        let decision = {
            let mut state = self.state();
            state.retrieval.remember(&cluster_version);
            state.retrieval.decide(&question, &self.config.pace, self.env.now())
        };
        if let Decision::Ask(why) = decision {
            let outcome = service.ask(&query, &self.observed.proxy()).await;
            self.metrics.retrieved(&outcome, self.env.now());
            self.state().retrieval.keep(why, question, outcome, self.env.now_seconds());
        }
        if decision != Decision::Wait {
            let wanted = self.state().retrieval.evaluate(&self.config.pace, self.env.now_seconds());
            if let Some(rule) = wanted {
                let result = service.evaluate(&rule).await;
                let mut state = self.state();
                state.retrieval.record(&rule, result, &self.config.pace, self.env.now());
                state.retrieval.evaluate(&self.config.pace, self.env.now_seconds());
            }
            self.queue.add(Part::Sync);
        }
        if self.config.is_automatic {
            self.choose(&cluster_version).await?;
        }
        Ok(Outcome::After(self.state().retrieval.again(&self.config.pace)))
    }

    /// Wishes for the highest recommended version (CVO-AUTO-01).
    async fn choose(&self, cluster_version: &ClusterVersion) -> Result<(), Error> {
        let highest = self.state().retrieval.answer.as_ref().and_then(|answer| answer.updates.as_ref()?.first().cloned());
        let Some(Release { version, image, .. }) = highest else { return Ok(()) };
        if cluster_version.spec.desired_update.as_ref().is_some_and(|wish| wish.version == version) {
            return Ok(());
        }
        let place =
            ObjectRef { api_version: API_VERSION.into(), kind: "ClusterVersion".into(), namespace: String::new(), name: NAME.into() };
        let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"version": version, "image": image}}}));
        self.writer.patch(&place, "", &patch).await?;
        Ok(())
    }
}
