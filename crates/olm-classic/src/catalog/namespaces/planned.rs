//! From a verdict to an InstallPlan: bundles are unpacked, the plan is made, and its Subscriptions refer to it.

use std::collections::BTreeSet;
use std::time::Duration;

use mainstay_apply::WriteError;
use mainstay_objects::ObjectRef;
use mainstay_olm_classic_core::install_plan::reference::BundleReference;
use mainstay_olm_classic_core::install_plan::{self, Content, ContentError};
use mainstay_olm_classic_core::resolve::{BundleLookup, Outcome as Verdict, Part};
use mainstay_olm_classic_core::steps::{self, Loaded, Step};
use mainstay_olm_classic_core::subscription::{Resolution, resolved};
use mainstay_runtime::Outcome;
use serde_json::Value;

use super::super::bundles::Unpacked;
use super::super::serving::CatalogServing;
use super::{Controller, NamespaceError, RESYNC};

/// Tries to write a status while others write to the object.
const TRIES: usize = 10;

/// The parts of a verdict that are unpacked, and those that wait.
#[derive(Default)]
struct Unpacking {
    /// The content of the next plan.
    content: Content,
    /// The Subscriptions that move on: name and CSV.
    updated: Vec<(String, String)>,
    /// The Subscriptions whose parts are unpacked.
    done: BTreeSet<String>,
    /// Subscriptions that wait, and the reason.
    waiting: Vec<(Vec<String>, Wait)>,
}

/// Why a part waits.
enum Wait {
    /// Its bundles are being pulled.
    Pulling,
    /// A pull failed and is tried again.
    Failing(String),
    /// A bundle is given up: the reason of the condition, its message, and the time until it is tried again.
    Failed(&'static str, String, Option<Duration>),
}

impl Controller {
    /// Unpacks what a verdict needs, and makes the InstallPlan of all that is unpacked.
    pub(super) async fn carry_out(
        &self,
        namespace: &str,
        subscriptions: &[Value],
        plans: &[Value],
        verdict: &Verdict,
    ) -> Result<Outcome, NamespaceError> {
        let unpacking = self.unpack(namespace, verdict).await;
        let now = self.parts.env.now_seconds();
        let named = |names: &[String]| {
            let is_named = |one: &&Value| names.iter().any(|name| one["metadata"]["name"] == **name);
            subscriptions.iter().filter(is_named).collect::<Vec<_>>()
        };
        let mut again = Outcome::After(RESYNC);
        for (names, wait) in &unpacking.waiting {
            let resolution = match wait {
                Wait::Pulling => Resolution::Unpacking { message: "" },
                Wait::Failing(problem) => {
                    again = Outcome::Retry;
                    Resolution::Unpacking { message: problem }
                }
                Wait::Failed(reason, message, retry) => {
                    if let (Some(retry), Outcome::After(wait)) = (retry, &again) {
                        again = Outcome::After(*wait.min(retry));
                    }
                    Resolution::UnpackFailed { reason, message }
                }
            };
            for one in named(names) {
                self.write_status(one, &resolved(one, &resolution, now)).await?;
            }
        }
        if unpacking.waiting.iter().any(|(_, wait)| matches!(wait, Wait::Pulling)) {
            // The end of the pull wakes the namespace: one plan is made for all that can be installed now.
            return Ok(Outcome::After(Duration::from_secs(60)));
        }
        let plan = self.plan(namespace, subscriptions, plans, &unpacking).await?;
        for one in subscriptions {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            if !unpacking.done.contains(name) {
                continue;
            }
            match (&plan, unpacking.updated.iter().find(|(updated, _)| updated == name)) {
                (Some(plan), Some((_, csv))) => {
                    let planned = Resolution::Planned { plan, generation: install_plan::generation(plan), csv };
                    self.write_surely(one, |live| resolved(live, &planned, now)).await?;
                }
                _ => {
                    self.write_status(one, &resolved(one, &Resolution::Current, now)).await?;
                }
            }
        }
        if let Some(plan) = plan {
            // With its content the plan begins, so that nothing is installed that no Subscription knows of.
            let content = unpacking.content.status(plan["spec"]["approved"] == true);
            self.write_surely(&plan, |_| content.clone()).await?;
            let name = plan["metadata"]["name"].as_str().unwrap_or_default();
            tracing::info!(plan = name, namespace, csvs = ?unpacking.content.csvs(), "an InstallPlan is made");
        }
        Ok(again)
    }

    async fn unpack(&self, namespace: &str, verdict: &Verdict) -> Unpacking {
        let terms = self.unpack_terms(namespace);
        let mut unpacking = Unpacking::default();
        for Part { subscriptions, steps } in &verdict.parts {
            let mut found: Vec<Step> = steps.steps.clone();
            let mut wait = None;
            for lookup in &steps.lookups {
                match self.bundles.unpack(&self.parts, namespace, lookup, terms).await {
                    Unpacked::Ready(loaded) => match self.steps_of(namespace, lookup, &loaded) {
                        Ok(steps) => found.extend(steps),
                        Err(error) => wait = Some(Wait::Failed("ErrorPreventedUnpacking", error.to_string(), None)),
                    },
                    Unpacked::Pulling => wait = wait.or(Some(Wait::Pulling)),
                    Unpacked::Failing(problem) => wait = Some(Wait::Failing(problem)),
                    Unpacked::Failed { reason, message, again } => {
                        let message = format!("bundle unpacking failed. Reason: {reason}, and Message: {message}");
                        wait = Some(Wait::Failed("BundleUnpackFailed", message, again));
                    }
                }
            }
            if let Some(wait) = wait {
                unpacking.waiting.push((subscriptions.clone(), wait));
                continue;
            }
            unpacking.done.extend(subscriptions.iter().cloned());
            unpacking.content.steps.extend(found);
            unpacking.content.lookups.extend(steps.lookups.iter().cloned());
            unpacking.updated.extend(steps.updated.iter().map(|one| (one.name.clone(), one.current_csv.clone())));
        }
        unpacking.content.steps = steps::ordered(std::mem::take(&mut unpacking.content.steps));
        unpacking
    }

    /// The steps of an unpacked bundle, with references in place of manifests.
    pub(super) fn steps_of(&self, namespace: &str, lookup: &BundleLookup, loaded: &Loaded) -> Result<Vec<Step>, ContentError> {
        let steps = install_plan::unpacked(namespace, lookup, loaded)?;
        let by_job = matches!(self.parts.serving, CatalogServing::Pods { .. });
        let manifest = BundleReference::of(lookup, by_job).to_manifest();
        Ok(steps.into_iter().map(|step| Step { manifest: manifest.clone(), ..step }).collect())
    }

    /// Makes the InstallPlan that takes Subscriptions on, without its content; none if none moves.
    async fn plan(
        &self,
        namespace: &str,
        subscriptions: &[Value],
        plans: &[Value],
        unpacking: &Unpacking,
    ) -> Result<Option<Value>, NamespaceError> {
        if unpacking.updated.is_empty() || (unpacking.content.steps.is_empty() && unpacking.content.lookups.is_empty()) {
            return Ok(None);
        }
        let referred = subscriptions.iter().filter_map(|one| one["status"]["installPlanGeneration"].as_i64());
        let newest = plans.iter().map(install_plan::generation).chain(referred).max().unwrap_or_default();
        let wanted = install_plan::new(namespace, newest + 1, subscriptions, &unpacking.content);
        let created = self.parts.writer.create(&wanted).await?;
        self.note_plan(&created);
        Ok(Some(created))
    }

    /// Writes a status that must not get lost, also if others write to the object meanwhile. An object that is gone needs none.
    async fn write_surely(&self, object: &Value, status: impl Fn(&Value) -> Value) -> Result<(), NamespaceError> {
        let place = ObjectRef::of(object).map_err(WriteError::from)?;
        let mut live = object.clone();
        for _ in 0..TRIES {
            match self.parts.writer.update_status(&live, &status(&live)).await {
                Ok(written) => {
                    if let Some(written) = written.filter(|written| written["kind"] == "Subscription") {
                        self.written.note(&written);
                    }
                    return Ok(());
                }
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            match self.parts.writer.get(&place).await? {
                Some(now) if now["metadata"]["uid"] == live["metadata"]["uid"] => live = now,
                _ => return Ok(()),
            }
        }
        Err(NamespaceError::Busy(place))
    }
}
