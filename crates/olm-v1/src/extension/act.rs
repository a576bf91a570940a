//! Doing what a plan says, as the extension's account, and keeping the record of it. Nothing is decided here.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_apply::{Effect, Failed, Reason, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Owner, Patch, Propagation};
use serde_json::Value;

use mainstay_olm_v1_core::extension::plan::{Action, Change, GATED, Plan, Planned};
use mainstay_olm_v1_core::extension::record::{self, History, Notes, RecordError, Revision, State};

/// Why a plan was not executed to its end. What was done before stays, and is done again without effect at the next try.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The next phase waits for an object of an earlier one; what is watched wakes the extension again.
    #[error("{0}")]
    Waiting(String),
    /// A step failed.
    #[error("{}", chain(&.0.error))]
    Step(Box<Failed>),
    /// The install record could not be written.
    #[error("the install record could not be written: {}", chain(.0))]
    Record(#[from] WriteError),
    /// Another process works on the extension too.
    #[error("the install record {0} was written by another process meanwhile")]
    Overtaken(String),
    /// The install records could not be listed.
    #[error("the install records could not be listed: {}", chain(.0))]
    List(Box<kube::Error>),
    /// The install record cannot be stored.
    #[error(transparent)]
    Form(#[from] RecordError),
}

impl ActError {
    /// Whether the server said something, be it no.
    fn was_answered(&self) -> bool {
        match self {
            Self::Step(failed) => failed.error.reason().is_some(),
            Self::Waiting(_) => true,
            _ => false,
        }
    }
}

/// Executes plans of one extension.
pub struct Actor<'a> {
    /// The controller's own identity; it writes the records.
    pub own: &'a Writer,
    /// The identity that touches the extension's objects.
    pub account: &'a Writer,
    /// The namespace of the install records.
    pub system_namespace: &'a str,
    /// The extension.
    pub owner: &'a Owner,
    /// The time.
    pub now: Timestamp,
}

impl Actor<'_> {
    /// Executes the steps and says how many objects changed. An install or upgrade leaves a record first, so that a crash at any
    /// moment is finished by the next reconcile.
    pub async fn act(&self, plan: &Plan, history: &mut History) -> Result<usize, ActError> {
        let (Action::Install | Action::Upgrade, Some(record)) = (&plan.action, &plan.record) else {
            let changed = self.steps(&plan.steps).await?;
            if let (Action::Reassert, true, Some(latest)) = (&plan.action, history.is_whole(), history.latest()) {
                // A crash after the newest revision began to count may have left an older one that counts too.
                let (number, mut notes) = (latest.number, latest.notes.clone());
                if plan.gate.passed {
                    notes.healthy_by = None;
                } else if self.lies_ahead(&notes) && plan.gate.within.is_some() {
                    self.begin_time(&mut notes, plan);
                }
                self.finish(history, number, State::Deployed, notes).await?;
            }
            return Ok(changed);
        };
        let (number, mut notes) = match history.latest() {
            // A try of the same content that was left half-way goes on under its number.
            Some(latest) if matches!(latest.state, State::Pending | State::Failed) && latest.record == *record => {
                (latest.number, Notes { why: None, rolled_back: plan.gate.rolled_back.clone(), ..latest.notes.clone() })
            }
            latest => {
                let number = latest.map_or(1, |latest| latest.number.saturating_add(1));
                let notes = Notes { rolled_back: plan.gate.rolled_back.clone(), ..Notes::default() };
                let revision = Revision { number, state: State::Pending, record: record.clone(), notes: notes.clone() };
                self.write_record(&revision).await?;
                history.revisions.push(revision);
                (number, notes)
            }
        };
        let done = self.steps(&plan.steps).await;
        let state = match &done {
            Ok(_) => {
                notes.waits_before = None;
                State::Deployed
            }
            Err(ActError::Waiting(_)) => {
                notes.waits_before = Some(GATED.to_owned());
                State::Pending
            }
            Err(error) => {
                notes.why = Some(record::brief(&error.to_string()));
                State::Failed
            }
        };
        if state != State::Failed && (notes.applied.is_none() || self.lies_ahead(&notes)) {
            self.begin_time(&mut notes, plan);
        }
        self.finish(history, number, state, notes).await?;
        done
    }

    /// Puts right what is installed, object by object: one that is refused holds up no other. How many changed, and the first problem.
    pub async fn hold(&self, plan: &Plan) -> (usize, Option<ActError>) {
        let (mut changed, mut problem) = (0, None);
        for planned in &plan.steps {
            match self.steps(std::slice::from_ref(planned)).await {
                Ok(count) => changed += count,
                Err(error) => {
                    let answered = error.was_answered();
                    problem.get_or_insert(error);
                    // A server that says nothing is not asked for everything else, too.
                    if !answered {
                        break;
                    }
                }
            }
        }
        (changed, problem)
    }

    /// The time in which the new Deployments have to become healthy begins now.
    fn begin_time(&self, notes: &mut Notes, plan: &Plan) {
        notes.applied = Some(self.now);
        notes.healthy_by = plan.gate.within.and_then(|within| self.now.checked_add(within).ok());
    }

    /// Whether the running time was begun by a clock that was set back since, or by one that is ahead of this one: it would end too late.
    fn lies_ahead(&self, notes: &Notes) -> bool {
        notes.healthy_by.is_some() && notes.applied.is_some_and(|applied| applied > self.now)
    }

    async fn steps(&self, planned: &[Planned]) -> Result<usize, ActError> {
        let steps: Vec<_> = planned.iter().map(|planned| planned.step.clone()).collect();
        let done = self
            .account
            .execute(&steps, |done| tracing::debug!(extension = self.owner.name, step = done.index, effect = ?done.effect))
            .await;
        let done = done.map_err(|failed| match &failed.error {
            WriteError::NotHealthy { .. } => {
                let rest = planned.get(failed.index..).unwrap_or_default();
                let next = rest.iter().find(|planned| planned.change != Change::Wait).map(|planned| planned.target.to_string());
                ActError::Waiting(format!("{}; {} comes after it", failed.error, next.unwrap_or_else(|| "nothing".to_owned())))
            }
            _ => ActError::Step(failed),
        })?;
        Ok(done.iter().filter(|done| matches!(done.effect, Effect::Created | Effect::Applied | Effect::Deleted)).count())
    }

    fn secret(&self, name: String) -> ObjectRef {
        ObjectRef { api_version: "v1".to_owned(), kind: "Secret".to_owned(), namespace: self.system_namespace.to_owned(), name }
    }

    async fn write_record(&self, revision: &Revision) -> Result<(), ActError> {
        let owner = OwnerReference {
            api_version: self.owner.api_version.clone(),
            kind: self.owner.kind.clone(),
            name: self.owner.name.clone(),
            uid: self.owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let mut secrets = record::secrets(revision, &self.owner.name, &owner, self.system_namespace)?;
        // The first Secret makes the record count, so it comes last.
        secrets.reverse();
        for secret in secrets {
            let place = self.secret(secret.name_any());
            let mut object =
                serde_json::to_value(&secret).map_err(|error| RecordError::Content { secret: place.name.clone(), source: error.into() })?;
            object["apiVersion"] = Value::from("v1");
            object["kind"] = Value::from("Secret");
            match self.own.create(&object).await {
                Ok(_) => {}
                Err(error) if error.reason() == Some(&Reason::AlreadyExists) => self.replace_left(&place, &object).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the place of what a crash left between two chunks, or an extension of the same name before this one. A record of this very
    /// extension was not there when the records were read: another process wrote it since, and it counts.
    async fn replace_left(&self, place: &ObjectRef, object: &Value) -> Result<(), ActError> {
        if let Some(found) = self.own.get(place).await? {
            if record::begins(&found, &self.owner.uid) {
                return Err(ActError::Overtaken(place.name.clone()));
            }
            self.own.delete(place, &Expect::exactly(&found), Propagation::Background).await?;
        }
        self.own.create(object).await?;
        Ok(())
    }

    async fn set_state(&self, revision: &mut Revision, state: State, notes: Notes) -> Result<(), ActError> {
        if revision.state != state || revision.notes != notes {
            let place = self.secret(record::secret_name(&self.owner.name, revision.number));
            let mut patch = record::patch(state, &notes);
            if let Some(found) = self.own.get(&place).await? {
                // Whoever leads after this process may have gone on with it.
                if !record::is_in(&found, revision.state) {
                    return Err(ActError::Overtaken(place.name));
                }
                for key in ["uid", "resourceVersion"] {
                    patch["metadata"][key] = found["metadata"][key].clone();
                }
            }
            self.own.patch(&place, "", &Patch::Merge(patch)).await?;
            revision.state = state;
            revision.notes = notes;
        }
        Ok(())
    }

    /// The new revision counts before the old one stops to, so that there is always an installed one; the oldest beyond those kept go.
    async fn finish(&self, history: &mut History, number: u32, state: State, notes: Notes) -> Result<(), ActError> {
        let rolled_back = notes.rolled_back.clone();
        for revision in history.revisions.iter_mut().filter(|revision| revision.number == number) {
            self.set_state(revision, state, notes.clone()).await?;
        }
        if state == State::Deployed {
            for revision in history.revisions.iter_mut().filter(|revision| revision.number < number) {
                match &rolled_back {
                    Some(back) if back.from == revision.number => {
                        let notes = Notes { healthy_by: None, why: Some(record::brief(&back.message)), ..revision.notes.clone() };
                        self.set_state(revision, State::Failed, notes).await?;
                    }
                    _ if revision.state == State::Deployed => {
                        let notes = Notes { healthy_by: None, ..revision.notes.clone() };
                        self.set_state(revision, State::Superseded, notes).await?;
                    }
                    // Nobody goes on with it any more. One that failed says so, and why.
                    _ if revision.state == State::Pending => {
                        let notes = Notes { waits_before: None, healthy_by: None, overtaken_by: Some(number), ..revision.notes.clone() };
                        self.set_state(revision, State::Superseded, notes).await?;
                    }
                    _ => {}
                }
            }
        }
        while let Some(at) = history.surplus() {
            let oldest = history.revisions.remove(at);
            self.remove_record(oldest.number).await?;
        }
        Ok(())
    }

    async fn remove_record(&self, number: u32) -> Result<(), ActError> {
        let api: Api<Secret> = Api::namespaced(self.own.client().clone(), self.system_namespace);
        let selector = format!("{}={},version={number}", record::EXTENSION_LABEL, self.owner.uid);
        let list = api.list_metadata(&ListParams::default().labels(&selector)).await.map_err(|error| ActError::List(Box::new(error)))?;
        for secret in list {
            self.own.delete(&self.secret(secret.name_any()), &Expect::default(), Propagation::Background).await?;
        }
        Ok(())
    }
}
