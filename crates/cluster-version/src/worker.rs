//! The one worker that applies releases, pass after pass (CVO-SYNC-01 to CVO-SYNC-06).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_apply::{Reason, Writer};
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::deletion::Deletions;
use mainstay_cluster_version_core::error::{UpdateError, WaitingSince};
use mainstay_cluster_version_core::inject::Settings;
use mainstay_cluster_version_core::stand_in::{Candidate, StandIns, stand_ins};
use mainstay_release::Manifest;
use mainstay_runtime::{Env, Kinds};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::pace::Pace;
use crate::pass::{self, End, Job};
use crate::settled::Settled;
use crate::task::Hand;

/// The progress of the worker.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The job that it works on.
    pub job: Arc<Job>,
    /// The way in which it is applied.
    pub mode: Mode,
    /// The manifests that are done in this pass.
    pub done: usize,
    /// The passes in a row that applied every manifest.
    pub completed: usize,
    /// The failure of the last pass.
    pub failure: Option<UpdateError>,
}

impl Report {
    /// Notes how many manifests of this pass are done. After a failure smaller numbers are not told until it is passed (CVO-SYNC-06).
    fn count(&mut self, done: usize) {
        if self.failure.is_none() || done >= self.done {
            (self.done, self.failure) = (done, None);
        }
    }
}

/// The state that the worker shares with the operator.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub report: Mutex<Option<Report>>,
    pub since: Mutex<WaitingSince>,
    pub deletions: Mutex<Deletions>,
    pub settings: Mutex<Settings>,
    pub settled: Settled,
    /// Ends a wait between two passes.
    pub wake: Notify,
}

impl Shared {
    pub fn report(&self) -> Option<Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The worker.
pub(crate) struct Worker {
    pub writer: Writer,
    pub kinds: Kinds,
    pub env: Env,
    pub pace: Pace,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    /// Operators are played: what they would make is made here.
    pub plays: bool,
    /// Objects that they would make beside those that every release needs.
    pub candidates: Arc<[Candidate]>,
    /// The stand-ins of the release that is applied, by its pullspec.
    pub stand_ins: Mutex<Option<(String, Arc<StandIns>)>>,
    /// Hears of every change of the report.
    pub reported: Box<dyn Fn() + Send + Sync>,
}

/// The place of the worker in its work.
struct Progress {
    mode: Mode,
    attempt: u32,
    completed: usize,
}

impl Worker {
    /// Works until `stop` is cancelled.
    pub async fn run(&self, mut jobs: watch::Receiver<Option<Arc<Job>>>, stop: CancellationToken) {
        let mut current: Option<Arc<Job>> = None;
        let mut progress = Progress { mode: Mode::Initializing, attempt: 0, completed: 0 };
        while !stop.is_cancelled() {
            let next = jobs.borrow_and_update().clone();
            let Some(job) = next else {
                tokio::select! {
                    () = stop.cancelled() => return,
                    changed = jobs.changed() => if changed.is_err() { return },
                }
                continue;
            };
            if current.as_ref().is_none_or(|current| !current.is_same_work(&job)) {
                progress = Progress { mode: job.mode, attempt: 0, completed: 0 };
                self.begin(&job, &progress);
            }
            current = Some(job.clone());
            let pass_stop = stop.child_token();
            let end = {
                let pass = self.pass(&job, &progress, &pass_stop);
                tokio::pin!(pass);
                loop {
                    tokio::select! {
                        end = &mut pass => break end,
                        // New work ends the pass.
                        changed = jobs.changed() => {
                            let is_new = jobs.borrow_and_update().as_ref().is_some_and(|new| !new.is_same_work(&job));
                            if is_new || changed.is_err() {
                                pass_stop.cancel();
                                break pass.await;
                            }
                        }
                    }
                }
            };
            if matches!(end, End::Complete(_)) {
                // What is there already is left alone; what was deleted comes back with the next pass.
                if self.plays {
                    self.create_once(&self.stand_ins(&job).after).await;
                }
                let client = self.writer.client();
                self.shared.settled.watch(job.release.manifests(), client, &self.kinds, &stop).await;
            }
            let wait = self.end(&mut progress, end);
            if jobs.borrow().as_ref().is_some_and(|new| !new.is_same_work(&job)) {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.shared.wake.notified() => {}
                () = self.new_work(&mut jobs, &job) => {}
            }
        }
    }

    async fn new_work(&self, jobs: &mut watch::Receiver<Option<Arc<Job>>>, job: &Job) {
        while jobs.changed().await.is_ok() {
            if jobs.borrow_and_update().as_ref().is_some_and(|new| !new.is_same_work(job)) {
                // It is read again when the next pass begins.
                jobs.mark_changed();
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn set(&self, report: impl FnOnce(&mut Option<Report>)) {
        report(&mut self.shared.report.lock().unwrap_or_else(PoisonError::into_inner));
        (self.reported)();
    }

    fn begin(&self, job: &Arc<Job>, progress: &Progress) {
        self.shared.settled.forget();
        let (job, mode) = (job.clone(), progress.mode);
        self.set(|report| *report = Some(Report { job, mode, done: 0, completed: 0, failure: None }));
    }

    async fn pass(&self, job: &Arc<Job>, progress: &Progress, stop: &CancellationToken) -> End {
        if progress.attempt == 0 {
            self.shared.since.lock().unwrap_or_else(PoisonError::into_inner).reset();
        }
        if self.plays && progress.attempt == 0 && progress.mode != Mode::Reconciling {
            self.create_once(&self.stand_ins(job).before).await;
        }
        let settings = self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hand = Hand {
            writer: &self.writer,
            env: &self.env,
            pace: &self.pace,
            mode: progress.mode,
            owner: (&job.owner.0, &job.owner.1),
            settings: &settings,
            since: &self.shared.since,
            deletions: &self.shared.deletions,
            settled: &self.shared.settled,
            stop,
        };
        let version = job.release.version();
        let counted = |done: usize| {
            self.set(|report| {
                if let Some(report) = report {
                    report.count(done);
                }
            });
        };
        let began = std::time::Instant::now();
        let end = pass::run(hand, job, progress.attempt, counted, |_, _| self.metrics.payload_error(version)).await;
        let name = match &end {
            End::Complete(_) => "complete",
            End::Failed(_) => "failed",
            End::Stopped => "stopped",
        };
        self.metrics.passed(progress.mode, name, began.elapsed());
        end
    }

    /// The stand-ins of a release, found once: every manifest is looked at.
    fn stand_ins(&self, job: &Job) -> Arc<StandIns> {
        let mut held = self.stand_ins.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((image, found)) if image == job.release.image() => found.clone(),
            _ => {
                let found = Arc::new(stand_ins(job.release.manifests().iter().map(Manifest::object), &self.candidates));
                *held = Some((job.release.image().to_owned(), found.clone()));
                found
            }
        }
    }

    /// Makes what the release takes for granted. What goes wrong shows in the manifests that need it.
    async fn create_once(&self, objects: &[Value]) {
        for object in objects {
            match self.writer.create(object).await {
                Ok(_) => {}
                Err(error) if matches!(error.reason(), Some(Reason::AlreadyExists)) => {}
                Err(error) => tracing::info!(%error, "no stand-in"),
            }
        }
    }

    /// Notes the end of a pass, and returns how long to wait for the next one.
    fn end(&self, progress: &mut Progress, end: End) -> Duration {
        match end {
            End::Complete(failure) => {
                progress.completed += 1;
                progress.attempt = 0;
                progress.mode = Mode::Reconciling;
                let completed = progress.completed;
                self.set(|report| {
                    if let Some(report) = report {
                        (report.mode, report.completed, report.failure, report.done) = (Mode::Reconciling, completed, failure, 0);
                    }
                });
                self.pace.interval()
            }
            End::Failed(error) => {
                tracing::info!(%error, attempt = progress.attempt, "pass failed");
                progress.completed = 0;
                progress.attempt += 1;
                self.set(|report| {
                    if let Some(report) = report {
                        (report.completed, report.failure) = (0, Some(error));
                    }
                });
                self.pace.after_failures(progress.attempt, self.env.fraction())
            }
            End::Stopped => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use mainstay_cluster_version_core::wanted::Wanted;
    use mainstay_release::{Capabilities, Files};
    use serde_json::json;

    use super::*;
    use crate::accepted::{Accepted, Circumstances};

    fn job() -> Arc<Job> {
        let mut files = Files::default();
        let metadata = json!({"kind": "cincinnati-metadata-v0", "version": "1.0.1"});
        let references =
            json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.1"}, "spec": {"tags": []}});
        files.seen(mainstay_release::Folder::Operator);
        files.add("release-manifests/release-metadata", metadata.to_string().into_bytes()).unwrap();
        files.add("release-manifests/image-references", references.to_string().into_bytes()).unwrap();
        let circumstances = Circumstances { profile: String::new(), exclude_identifier: String::new(), feature_set: String::new() };
        let release = Arc::new(Accepted::load(Wanted::default(), &files, &circumstances).unwrap());
        let (capabilities, owner) = (Capabilities::all(), ("version".to_owned(), "uid".to_owned()));
        Arc::new(Job { generation: 1, release, overrides: Vec::new(), capabilities, mode: Mode::Updating, owner })
    }

    /// CVO-SYNC-06: progress does not go backwards in the pass after a failure; its failure stands until the point of it is passed.
    #[test]
    fn progress_does_not_go_backwards() {
        let mut report = Report { job: job(), mode: Mode::Updating, done: 0, completed: 0, failure: None };
        let told = |report: &mut Report, done: usize| {
            report.count(done);
            (report.done, report.failure.is_some())
        };
        assert_eq!([1, 2, 7].map(|done| told(&mut report, done)), [(1, false), (2, false), (7, false)]);
        report.failure = Some(UpdateError::DeadlineExceeded);
        assert_eq!([1, 6, 7, 8].map(|done| told(&mut report, done)), [(7, true), (7, true), (7, false), (8, false)]);
        // A pass after one that did not fail begins at its own beginning.
        assert_eq!(told(&mut report, 1), (1, false));
    }
}
