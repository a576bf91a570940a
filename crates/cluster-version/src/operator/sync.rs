//! The status of the ClusterVersion: made from the wish, the release in force and the worker's report, and written when it differs.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use mainstay_api::config_v1::{CapabilitiesStatus, Capability, ClusterVersion, ClusterVersionStatus};
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::error::UpdateError;
use mainstay_cluster_version_core::release::Known;
use mainstay_cluster_version_core::status::{self, Facts, Work, Write};
use mainstay_cluster_version_core::validation::{validate, without_invalid};
use mainstay_cluster_version_core::{retrieval, upgradeable, wanted};
use mainstay_objects::ObjectRef;
use mainstay_release::{Capabilities, Override};
use mainstay_runtime::Outcome;
use serde_json::{Value, json};

use super::NAME;
use super::state::{Operator, Part};
use crate::Error;
use crate::accepted::Accepted;
use crate::pass::Job;

/// The failures in a row after which the status says that it cannot be kept (CVO-COND-08).
const MOST_FAILURES: u32 = 15;

impl Operator {
    pub(super) async fn sync(self: Arc<Self>) -> Result<Outcome, Error> {
        if !self.observed.is_ready_for_sync() {
            // Each of them calls when it is known.
            return Ok(Outcome::Done);
        }
        let Some((live, cluster_version)) = self.observed.cluster_version()? else {
            tracing::info!("there is no ClusterVersion {NAME:?}");
            return Ok(Outcome::After(self.config.pace.interval()));
        };
        if let Some(image) = wanted::own_image(&cluster_version, self.config.release_image.as_deref()) {
            self.own_image.get_or_init(|| image.to_owned());
        }
        let feature_set = self.observed.feature_set();
        if self.state().feature_set.as_ref().is_some_and(|loaded| *loaded != feature_set) {
            tracing::info!(feature_set, "the feature set changed: the operator starts again");
            self.stop.cancel();
            return Ok(Outcome::Done);
        }
        let settings = self.observed.settings();
        {
            let mut held = self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
            if *held != settings {
                *held = settings;
                self.shared.settled.forget();
            }
        }
        let errors = validate(&cluster_version);
        let accepted = without_invalid(cluster_version.clone(), &errors);
        let capabilities = self.capabilities(&accepted);
        let again = self.clone().follow(&accepted, &live, &capabilities, feature_set);
        let running = self.state().running.clone();
        if let Some(running) = &running {
            self.submit(&accepted, running, capabilities);
        }

        let now = self.env.now_seconds();
        let mut status = cluster_version.status.clone();
        let work = self.work(&accepted, running.as_deref());
        let since = self.shared.since.lock().unwrap_or_else(PoisonError::into_inner).mapped(|since| self.config.pace.began(since, now));
        let answer = self.state().retrieval.answer.clone();
        let known = Known {
            current: answer.as_ref().and_then(|answer| answer.current.as_ref()),
            updates: answer.as_ref().and_then(|answer| answer.updates.as_deref()).unwrap_or_default(),
        };
        let facts = Facts { own: &self.own(), known, invalid: &errors, since: &since, shows_architecture: true };
        if let Some(work) = &work {
            status::update(&mut status, work, &facts, now);
        }
        if let Some(answer) = &answer {
            let mut shown = ClusterVersion { status, ..accepted.clone() };
            retrieval::put(answer, &mut shown, true, now);
            status = shown.status;
        }
        upgradeable::put(&mut status.conditions, &self.state().upgradeable);
        self.write(&live, &cluster_version, &status).await?;
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    /// The capabilities of the cluster: those of the spec, of before, and those that are always on (CVO-CAP-03).
    fn capabilities(&self, cluster_version: &ClusterVersion) -> Capabilities {
        let spec = cluster_version.spec.capabilities.as_ref().and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or_default();
        let before: Vec<String> = cluster_version.status.capabilities.enabled_capabilities.iter().map(|one| one.0.clone()).collect();
        let mut capabilities = Capabilities::of(&spec, before.clone()).unwrap_or_else(|error| {
            // The schema lets known sets through alone.
            tracing::warn!(%error, "the default capability set counts");
            let additional = json!({"additionalEnabledCapabilities": spec["additionalEnabledCapabilities"]});
            Capabilities::of(&additional, before).unwrap_or_else(|_| Capabilities::all())
        });
        let always = &self.config.always_enabled;
        capabilities.enabled.extend(always.iter().cloned());
        for one in always {
            capabilities.implicitly_enabled.remove(one);
        }
        let implied = self.state().running.as_ref().map(|running| running.implied.clone()).unwrap_or_default();
        capabilities.imply(implied);
        capabilities
    }

    /// Gives the worker its job.
    fn submit(&self, cluster_version: &ClusterVersion, running: &Arc<Accepted>, capabilities: Capabilities) {
        let overrides = cluster_version.spec.overrides.iter().map(|one| Override {
            kind: one.kind.clone(),
            group: one.group.clone(),
            namespace: one.namespace.clone(),
            name: one.name.clone(),
            unmanaged: one.unmanaged,
        });
        let metadata = &cluster_version.metadata;
        let job = Job {
            generation: metadata.generation.unwrap_or_default(),
            release: running.clone(),
            overrides: overrides.collect(),
            capabilities,
            mode: wanted::mode(&cluster_version.status.history, &running.wanted),
            owner: (NAME.to_owned(), metadata.uid.clone().unwrap_or_default()),
        };
        self.jobs.send_if_modified(|current| {
            let is_new = current.as_ref().is_none_or(|current| !current.is_same_work(&job) || current.generation != job.generation);
            if is_new {
                *current = Some(Arc::new(job));
            }
            is_new
        });
    }

    /// The facts of the status; nothing before the operator's own release is loaded or has failed to.
    fn work(&self, cluster_version: &ClusterVersion, running: Option<&Accepted>) -> Option<Work> {
        let load = self.state().load.clone();
        let Some(running) = running else {
            let failed = load.has_failed();
            let no_image = self.own_image.get().is_none_or(String::is_empty);
            return (failed || no_image).then(|| Work {
                generation: cluster_version.metadata.generation.unwrap_or_default(),
                failure: no_image.then_some(UpdateError::NoDesiredImage),
                load,
                ..Work::default()
            });
        };
        let report = self.shared.report().filter(|report| report.job.release.image() == running.image());
        let job = self.jobs.borrow().clone();
        let capabilities = job.as_ref().map(|job| &job.capabilities);
        let named = |names: &BTreeSet<String>| names.iter().cloned().map(Capability).collect::<Vec<_>>();
        Some(Work {
            generation: report.as_ref().map_or(0, |report| report.job.generation).max(job.as_ref().map_or(0, |job| job.generation)),
            failure: report.as_ref().and_then(|report| report.failure.clone()),
            done: report.as_ref().map_or(0, |report| report.done),
            total: running.manifests().len(),
            completed: report.as_ref().map_or(0, |report| report.completed),
            reconciling: report.as_ref().is_some_and(|report| report.mode == Mode::Reconciling),
            version_hash: running.version_hash().to_owned(),
            actual: running.release(),
            verified: load.verified && load.wanted.image == running.image(),
            capabilities: capabilities.map_or_else(CapabilitiesStatus::default, |all| CapabilitiesStatus {
                enabled_capabilities: named(&all.enabled),
                known_capabilities: named(&all.known),
            }),
            implicitly_enabled: capabilities.map(|all| named(&all.implicitly_enabled)).unwrap_or_default(),
            load,
        })
    }

    /// Says in the status that it could not be kept for many times in a row.
    pub(super) async fn failed(&self, error: &Error) {
        let failures = {
            let mut state = self.state();
            state.failures = state.failures.saturating_add(1);
            state.failures
        };
        if failures < MOST_FAILURES {
            return;
        }
        let Some((live, cluster_version)) = self.observed.cluster_version().ok().flatten() else { return };
        let mut status = cluster_version.status.clone();
        status::update_failed(&mut status, error, &self.own(), Known::default(), self.env.now_seconds());
        if let Err(error) = self.write(&live, &cluster_version, &status).await {
            tracing::warn!(%error, "the failure is not in the status of the ClusterVersion");
        }
    }

    /// The worker's report changed: soon it is in the status (CVO-SYNC-06).
    pub(super) fn reported(&self) {
        let wait = self.state().reports.wait(&self.config.pace, self.env.now());
        if wait.is_zero() { self.queue.add(Part::Sync) } else { self.queue.add_after(Part::Sync, wait) }
    }

    /// Writes the status if it differs; after a conflict once more, on the object as it is now (CVO-COND-09).
    async fn write(&self, live: &Value, cluster_version: &ClusterVersion, status: &ClusterVersionStatus) -> Result<(), Error> {
        if status::write(&cluster_version.status, status) == Write::Nothing {
            return Ok(());
        }
        let unreadable = |source| Error::Object { object: "the status of ClusterVersion version", source };
        let wanted = serde_json::to_value(status).map_err(unreadable)?;
        match self.writer.update_status(live, &wanted).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(now) = self.writer.get(&ObjectRef::of(live).map_err(mainstay_apply::WriteError::from)?).await? else { return Ok(()) };
        let read: ClusterVersion = serde_json::from_value(now.clone()).map_err(unreadable)?;
        let uid = |version: &ClusterVersion| version.metadata.uid.clone().unwrap_or_default();
        if status::write_after_conflict(&uid(cluster_version), &uid(&read), &read.status, status)? == Write::Status {
            self.writer.update_status(&now, &wanted).await?;
        }
        Ok(())
    }
}
