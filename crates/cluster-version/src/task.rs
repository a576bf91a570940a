//! One manifest of a pass: it is applied, its object is looked at, or it is deleted (CVO-APPLY-01, CVO-DEL-01, CVO-HEALTH-01).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mainstay_api::config_v1::ClusterOperator;
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::apply::{self, ApplyError, Change, ClusterVersionRef};
use mainstay_cluster_version_core::deletion::{self, DeleteError, Deletions, Step};
use mainstay_cluster_version_core::error::{ApiFailure, Task, UpdateError, WaitingSince};
use mainstay_cluster_version_core::health::{self, ObjectProblem, Unhealthy};
use mainstay_cluster_version_core::inject::{self, InjectError, Settings};
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_release::Manifest;
use mainstay_runtime::{Env, KindError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::pace::{Pace, Retry};
use crate::settled::Settled;

/// The reason why one attempt at a manifest failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// An error that is not tried again within the task.
    #[error("{error}: {detail}")]
    Update {
        /// The error.
        error: Box<UpdateError>,
        /// The words of the object itself.
        detail: String,
    },
    /// The object is not as it should be.
    #[error(transparent)]
    Object(#[from] ObjectProblem),
    /// The API refused, or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The manifest can never be applied.
    #[error(transparent)]
    Manifest(#[from] ApplyError),
    /// The object is not deleted.
    #[error(transparent)]
    Delete(#[from] DeleteError),
    /// The cluster's settings cannot be put into the manifest.
    #[error(transparent)]
    Inject(#[from] InjectError),
    /// The manifest is none of its kind.
    #[error("the manifest is no ClusterOperator: {0}")]
    ClusterOperator(#[source] serde_json::Error),
    /// The pass ended before.
    #[error("context canceled")]
    Cancelled,
}

impl From<Unhealthy> for TaskError {
    fn from(unhealthy: Unhealthy) -> Self {
        match unhealthy {
            Unhealthy::Update { error, detail } => Self::Update { error, detail },
            Unhealthy::Object(problem) => Self::Object(problem),
        }
    }
}

impl TaskError {
    /// The class of the API's answer (CVO-ERR-02).
    fn failure(&self) -> ApiFailure {
        let Self::Write(error) = self else { return ApiFailure::Other };
        match error {
            WriteError::Refused { reason, .. } => match reason {
                Reason::NotFound | Reason::AlreadyExists => ApiFailure::NotFound,
                Reason::Conflict | Reason::FieldConflict(_) => ApiFailure::Conflict,
                Reason::Forbidden => ApiFailure::Forbidden,
                Reason::Unauthorized => ApiFailure::Unauthorized,
                Reason::Invalid(_) => ApiFailure::Invalid,
                Reason::BadRequest => ApiFailure::Other,
                Reason::TooManyRequests => ApiFailure::Overloaded,
                Reason::Unavailable => ApiFailure::Down,
                Reason::Other(code) => ApiFailure::of(*code, if *code == 500 { "InternalError" } else { "" }),
            },
            WriteError::Kind { source: KindError::NotServed { .. }, .. } => ApiFailure::NoSuchKind,
            WriteError::Kind { .. } | WriteError::Unreachable { .. } => ApiFailure::Down,
            _ => ApiFailure::Other,
        }
    }
}

/// The means of one pass.
#[derive(Clone, Copy)]
pub(crate) struct Hand<'a> {
    pub writer: &'a Writer,
    pub env: &'a Env,
    pub pace: &'a Pace,
    pub mode: Mode,
    /// Name and uid of the ClusterVersion.
    pub owner: (&'a str, &'a str),
    pub settings: &'a Settings,
    pub since: &'a Mutex<WaitingSince>,
    pub deletions: &'a Mutex<Deletions>,
    pub settled: &'a Settled,
    pub stop: &'a CancellationToken,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hand<'_> {
    /// Creates a ClusterOperator before the other manifests of its group (CVO-GRAPH-07, CVO-APPLY-10). What goes wrong is only logged.
    pub async fn precreate(&self, manifest: &Manifest) {
        if let Err(error) = self.try_precreate(manifest).await {
            tracing::info!(%error, object = %manifest.short(), "not created before its operator");
        }
    }

    async fn try_precreate(&self, manifest: &Manifest) -> Result<(), WriteError> {
        let (object, status) = apply::precreated(&self.owned(manifest));
        if self.writer.get(&ObjectRef::of(&object)?).await?.is_some() {
            return Ok(());
        }
        match self.writer.create(&apply::sent(object)).await {
            Ok(live) => self.writer.update_status(&live, &status).await.map(|_| ()),
            Err(error) if matches!(error.reason(), Some(Reason::AlreadyExists | Reason::Conflict)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn owned(&self, manifest: &Manifest) -> Value {
        let (name, uid) = self.owner;
        apply::owned(&manifest.object(), &ClusterVersionRef { name, uid })
    }

    /// Brings the object of a manifest to what the manifest wants, with the retries of the mode. `failed` hears of every failed attempt.
    pub async fn apply(&self, manifest: &Manifest, index: usize, total: usize, failed: impl Fn(&TaskError)) -> Result<(), TaskFailed> {
        let Retry { steps, first, factor, most } = self.pace.retry(self.mode);
        let mut wait = first;
        let mut step = 1;
        loop {
            let error = match self.once(manifest).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            failed(&error);
            if self.stop.is_cancelled() {
                return Err(TaskFailed::Interrupted);
            }
            match error {
                TaskError::Update { error, detail } => {
                    tracing::debug!(%error, detail, object = %manifest.short(), "not healthy");
                    return Err(TaskFailed::Failed(*error));
                }
                TaskError::Cancelled => return Err(TaskFailed::Interrupted),
                error if step == steps => {
                    let failure = error.failure();
                    let error = mainstay_diagnostics::chain(&error);
                    tracing::warn!(error, object = %manifest.short(), "not applied");
                    let id = manifest.id();
                    let task = Task { kind: id.kind.clone(), namespace: id.namespace.clone(), name: id.name.clone(), index, total };
                    return Err(TaskFailed::Failed(UpdateError::Resource { task, failure }));
                }
                error => tracing::debug!(%error, object = %manifest.short(), "tried again"),
            }
            if !self.sleep(wait).await {
                return Err(TaskFailed::Interrupted);
            }
            wait = wait.mul_f64(factor).min(most);
            step += 1;
        }
    }

    /// Sleeps; false if the pass was stopped.
    async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    async fn once(&self, manifest: &Manifest) -> Result<(), TaskError> {
        let place = ObjectRef {
            api_version: manifest.api_version(),
            kind: manifest.id().kind.clone(),
            namespace: manifest.id().namespace.clone(),
            name: manifest.id().name.clone(),
        };
        let attempt = async {
            if deletion::is_deletion(manifest.annotations()).map_err(DeleteError::from)? {
                return self.delete(manifest, &place).await;
            }
            let is_kept = self.mode == Mode::Reconciling;
            if is_kept && self.settled.holds(manifest) {
                return Ok(());
            }
            let live = self.write(manifest, &place).await?;
            self.check(manifest, &live)?;
            if is_kept {
                self.settled.note(manifest, &live);
            }
            Ok(())
        };
        tokio::select! {
            biased;
            done = attempt => done,
            () = self.stop.cancelled() => Err(TaskError::Cancelled),
        }
    }

    async fn write(&self, manifest: &Manifest, place: &ObjectRef) -> Result<Value, TaskError> {
        let (name, uid) = self.owner;
        let wanted = inject::wanted(&manifest.object(), &ClusterVersionRef { name, uid }, self.settings)?;
        let live = self.writer.get(place).await?;
        match (apply::change(live.as_ref(), &wanted)?, live) {
            (Change::Create(object), _) => Ok(self.writer.create(&apply::sent(object)).await?),
            (Change::Update(object), Some(live)) if apply::is_change(&live, &object) => {
                let written = self.writer.replace(&apply::sent(object)).await?;
                if live["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"] {
                    tracing::warn!(object = %manifest.short(), "written without a change: possible hot loop");
                } else {
                    tracing::info!(object = %manifest.short(), "restored");
                }
                Ok(written)
            }
            (_, live) => Ok(live.unwrap_or_default()),
        }
    }

    fn check(&self, manifest: &Manifest, live: &Value) -> Result<(), TaskError> {
        let id = manifest.id();
        if (id.group.as_str(), id.kind.as_str()) != ("config.openshift.io", "ClusterOperator") {
            return Ok(health::object(live, self.mode)?);
        }
        let read = |object: &Value| serde_json::from_value::<ClusterOperator>(object.clone()).map_err(TaskError::ClusterOperator);
        let (expected, found) = (read(&manifest.object())?, read(live)?);
        let result = health::cluster_operator(&expected, &found, self.mode);
        let mut since = locked(self.since);
        match &result {
            Ok(()) => since.end(&id.name),
            Err(_) => since.begin(&id.name, self.env.now()),
        }
        Ok(result?)
    }

    async fn delete(&self, manifest: &Manifest, place: &ObjectRef) -> Result<(), TaskError> {
        let object = deletion::Object::of(&manifest.object());
        let live = match self.writer.get(place).await {
            Ok(live) => live,
            // Objects of a kind that is gone are gone with it.
            Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => None,
            Err(error) => return Err(DeleteError::Unreadable { object, cause: mainstay_diagnostics::chain(&error) }.into()),
        };
        let step = locked(self.deletions).observe(&object, live.is_some(), self.mode, self.env.now());
        match step {
            Step::Gone | Step::Going { .. } | Step::NotNow => {}
            Step::Reappeared { deleted } => tracing::warn!("{}", deletion::reappeared(&object, deleted)),
            Step::Delete => {
                let uid = live.as_ref().map(Expect::uid_of).unwrap_or_default();
                let deleted = self.writer.delete(place, &uid, Propagation::Background).await;
                if let Err(error) = deleted {
                    return Err(DeleteError::Refused { object, cause: mainstay_diagnostics::chain(&error) }.into());
                }
                tracing::info!(%object, "deletion requested");
                let expected = live.as_ref().and_then(|live| live["metadata"]["deletionTimestamp"].as_str()?.parse().ok());
                locked(self.deletions).requested(object, expected);
            }
        }
        Ok(())
    }
}

/// The end of a task that did not succeed.
pub(crate) use mainstay_cluster_version_core::error::TaskFailure as TaskFailed;

#[cfg(test)]
mod tests;
