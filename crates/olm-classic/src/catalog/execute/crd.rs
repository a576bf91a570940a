//! Steps that are CRDs: always written with OLM's own permissions, and only after the checks of OLM0-RES-28 and OLM0-RES-29.

use std::collections::BTreeSet;

use mainstay_apply::{EventKind, Reason, WriteError};
use mainstay_objects::{Expect, ObjectRef};
use mainstay_olm_classic_core::install_plan::crd::{self, CrdRefusal};
use mainstay_olm_classic_core::install_plan::step::PlannedStep;
use mainstay_runtime::Key;
use serde_json::Value;

use super::{Execution, StepFailure, write_failed};

/// The most objects of one version that are checked; a cluster with more is told so.
const MOST: usize = 100_000;

impl Execution<'_> {
    /// Creates or updates a CRD; one that was created is waited for.
    pub(super) async fn definition(&self, step: &PlannedStep<'_>, mut wanted: Value) -> Result<&'static str, StepFailure> {
        let writer = self.parts.writer.noting(&self.warnings);
        let place = ObjectRef::of(&wanted).map_err(WriteError::from)?;
        let live = writer.get(&place).await?;
        if step.status == "WaitingForApi" {
            return Ok(match live {
                Some(live) if crd::is_established(&live) => "Created",
                Some(_) => "WaitingForApi",
                None => "NotPresent",
            });
        }
        let gone = self.gone(crd::noted(&wanted, live.as_ref())).await?;
        let exists = |namespace: &str, name: &str| !gone.contains(&Key::new(namespace, name));
        crd::note_csv(&mut wanted, live.as_ref(), &self.namespace, step.resolving, exists);
        let Some(live) = live else {
            return match writer.create(&wanted).await {
                Ok(_) => Ok("WaitingForApi"),
                // It was created in between; the next try compares with it.
                Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok("NotPresent"),
                Err(error) => Err(write_failed("creating", step, error)),
            };
        };
        self.check(step, &live, &wanted).await?;
        match writer.apply(&wanted, true, &Expect::exactly(&live)).await {
            Ok(_) => Ok("Present"),
            // Another plan wrote it in between, and its CSV would be forgotten; the next try notes both.
            Err(error) if error.is_conflict() => Ok("NotPresent"),
            Err(error) => Err(write_failed("updating", step, error)),
        }
    }

    /// The CSVs that do not exist. One that was created just now is not in the cache yet, and must not be forgotten.
    async fn gone(&self, csvs: impl Iterator<Item = (&str, &str)>) -> Result<BTreeSet<Key>, StepFailure> {
        let unseen: BTreeSet<Key> =
            csvs.map(|(namespace, name)| Key::new(namespace, name)).filter(|key| self.parts.caches.csvs.get(key).is_none()).collect();
        let mut gone = BTreeSet::new();
        for key in unseen {
            let place = ObjectRef {
                api_version: "operators.coreos.com/v1alpha1".to_owned(),
                kind: "ClusterServiceVersion".to_owned(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            };
            if self.parts.writer.get(&place).await?.is_none() {
                gone.insert(key);
            }
        }
        Ok(gone)
    }

    async fn check(&self, step: &PlannedStep<'_>, live: &Value, wanted: &Value) -> Result<(), StepFailure> {
        crd::check_stored(live, wanted)?;
        if !self.is_shared(step) {
            return Ok(());
        }
        crd::check_versions(live, wanted)?;
        for version in crd::versions_to_check(live, wanted) {
            let kind = kube::api::GroupVersionKind::gvk(
                wanted["spec"]["group"].as_str().unwrap_or_default(),
                &version,
                wanted["spec"]["names"]["kind"].as_str().unwrap_or_default(),
            );
            let objects = self.parts.writer.list(&kind, MOST).await?;
            match crd::check_objects(wanted, &version, &objects) {
                Err(refusal) if refusal.is_about_schema() && crd::converts_by_webhook(wanted) => self.tell_validation(step, &refusal),
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Returns whether operators other than the one of the step own the CRD, in whichever namespace. The CSVs that its CSV replaces, and those that
    /// replace it, are the same operator.
    fn is_shared(&self, step: &PlannedStep<'_>) -> bool {
        let all = self.parts.caches.csvs.all();
        let own = self.parts.caches.csvs.get(&Key::new(&*self.namespace, step.resolving));
        let replaced = own.as_ref().and_then(|own| own.data["spec"]["replaces"].as_str()).unwrap_or_default();
        all.iter().any(|csv| {
            let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
            let name = csv.metadata.name.as_deref().unwrap_or_default();
            let same = namespace == self.namespace
                && (name == step.resolving || name == replaced || csv.data["spec"]["replaces"] == *step.resolving);
            let owned = csv.data["spec"]["customresourcedefinitions"]["owned"].as_array().into_iter().flatten();
            !same && owned.into_iter().any(|owned| owned["name"] == *step.name)
        })
    }

    fn tell_validation(&self, step: &PlannedStep<'_>, refusal: &CrdRefusal) {
        let note = format!(
            "Validation of existing CRs against the new CRD's schema failed, but a webhook conversion strategy was specified in the new CRD.\n\
             The new webhook will only start after the bundle is upgraded, so we must assume that it will successfully convert existing CRs \
             to a format that would have passed validation.\n\nCRD: {:?}\nValidation Error: {refusal}\n",
            step.name
        );
        tracing::warn!(crd = step.name, %refusal, "objects do not fit a new CRD, which converts by a webhook");
        if let Err(error) = self.parts.recorder.record(self.plan, EventKind::Warning, "CRDValidation", "Validating", &note) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }
}
