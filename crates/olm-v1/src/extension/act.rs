//! Execution of a plan as the extension's account, and its install records. Nothing is decided here.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_apply::{Effect, Failed, Reason, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_lifecycle::change::{Action, Operation, PlannedStep};
use mainstay_lifecycle::revision::{Attempted, Ended, HealthClock, History, Revision, RevisionChange};
use mainstay_objects::{Expect, ObjectRef, Owner, Patch, Propagation};
use mainstay_olm_v1_core::extension::plan::Plan;
use mainstay_olm_v1_core::extension::record::{self, RecordError};
use serde_json::Value;

/// An incomplete execution of a plan. Completed steps stay; the next attempt repeats them without effect.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The next phase waits for an object of an earlier one. The watch of the object wakes the extension.
    #[error("{0}")]
    Waiting(String),
    /// A step failed.
    #[error("{}", chain(&.0.error))]
    Step(Box<Failed>),
    /// The install record could not be written.
    #[error("the install record could not be written: {}", chain(.0))]
    Record(#[from] WriteError),
    /// Another process works on the same extension.
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
    /// Returns true if the server answered, even with a refusal.
    fn was_answered(&self) -> bool {
        match self {
            Self::Step(failed) => failed.error.reason().is_some(),
            Self::Waiting(_) => true,
            _ => false,
        }
    }
}

/// The executor of plans of one extension.
pub struct Actor<'a> {
    /// The writer with the controller's own identity, for the records.
    pub own: &'a Writer,
    /// The writer with the identity that changes the extension's objects.
    pub account: &'a Writer,
    /// The namespace of the install records.
    pub system_namespace: &'a str,
    /// The extension.
    pub owner: &'a Owner,
    /// The current time.
    pub now: Timestamp,
}

impl Actor<'_> {
    /// Executes the steps and returns the number of changed objects. An install or upgrade writes a record first, so that the next reconcile
    /// completes it after a crash at any moment.
    pub async fn act(&self, plan: &Plan, history: &mut History) -> Result<usize, ActError> {
        let (Action::Install | Action::Upgrade, Some(record)) = (&plan.action, &plan.record) else {
            let changed = self.steps(&plan.steps).await?;
            if plan.action == Action::Reassert {
                let changes = history.reassert(plan.gate.passed, self.clock(plan));
                self.write(history, changes).await?;
            }
            return Ok(changed);
        };
        let (number, notes) = match history.begin(record, plan.gate.rolled_back.clone()) {
            Attempted::Again(number, notes) => (number, *notes),
            Attempted::New(revision) => {
                self.write_record(&revision).await?;
                let begun = (revision.number, revision.notes.clone());
                history.revisions.push(*revision);
                begun
            }
        };
        let done = self.steps(&plan.steps).await;
        let ended = match &done {
            Ok(_) => Ended::Applied,
            Err(ActError::Waiting(_)) => Ended::AtGate,
            Err(error) => Ended::Failed(error.to_string()),
        };
        let changes = history.end(number, notes, ended, self.clock(plan));
        self.write(history, changes).await?;
        done
    }

    /// Restores the installed objects one by one; a refused object does not hold up the others. Returns the number of changed objects and the first
    /// problem.
    pub async fn hold(&self, plan: &Plan) -> (usize, Option<ActError>) {
        let (mut changed, mut problem) = (0, None);
        for planned in &plan.steps {
            match self.steps(std::slice::from_ref(planned)).await {
                Ok(count) => changed += count,
                Err(error) => {
                    let answered = error.was_answered();
                    problem.get_or_insert(error);
                    // A server that does not answer is not asked for the other objects.
                    if !answered {
                        break;
                    }
                }
            }
        }
        (changed, problem)
    }

    fn clock(&self, plan: &Plan) -> HealthClock {
        HealthClock { now: self.now, within: plan.gate.within }
    }

    async fn steps(&self, planned: &[PlannedStep]) -> Result<usize, ActError> {
        let done = self
            .account
            .execute(planned, |done| tracing::debug!(extension = self.owner.name, step = done.index, effect = ?done.effect))
            .await;
        let done = done.map_err(|failed| match &failed.error {
            WriteError::NotHealthy { .. } => {
                let rest = planned.get(failed.index..).unwrap_or_default();
                let next = rest.iter().find(|planned| planned.operation != Operation::Wait).map(|planned| planned.target.to_string());
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
        // The first Secret makes the record valid, so it is written last.
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

    /// Replaces a Secret left by a crash between two chunks, or by an earlier extension of the same name. A record of this same extension did not
    /// exist when the records were read: another process has written it since, and it stays.
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

    /// Writes changes of revisions in order, then removes the oldest revisions beyond the history limit.
    async fn write(&self, history: &mut History, changes: Vec<RevisionChange>) -> Result<(), ActError> {
        for change in changes {
            let Some(before) = history.revisions.iter().find(|revision| revision.number == change.number) else { continue };
            let place = self.secret(record::secret_name(&self.owner.name, change.number));
            let mut patch = record::patch(change.state, &change.notes);
            if let Some(found) = self.own.get(&place).await? {
                // The next leader may have continued with it.
                if !record::is_in(&found, before.state) {
                    return Err(ActError::Overtaken(place.name));
                }
                for key in ["uid", "resourceVersion"] {
                    patch["metadata"][key] = found["metadata"][key].clone();
                }
            }
            self.own.patch(&place, "", &Patch::Merge(patch)).await?;
            history.set(&change);
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
