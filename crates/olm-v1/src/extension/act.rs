//! Doing what a plan says, as the extension's account, and keeping the record of it. Nothing is decided here.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_apply::{Effect, Expect, Failed, ObjectRef, Owner, Patch, Propagation, Reason, WriteError, Writer};
use serde_json::Value;

use super::plan::{Action, Plan, Planned};
use super::record::{self, History, KEPT, RecordError, Revision, State};
use crate::text::chain;

/// The field manager of everything that is applied.
pub const FIELD_MANAGER: &str = "operator-controller";

/// Why a plan was not executed to its end. What was done before stays, and is done again without effect at the next try.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// A step failed.
    #[error("{}", chain(&.0.error))]
    Step(Box<Failed>),
    /// The install record could not be written.
    #[error("the install record could not be written: {}", chain(.0))]
    Record(#[from] WriteError),
    /// The install records could not be listed.
    #[error("the install records could not be listed: {}", chain(.0))]
    List(Box<kube::Error>),
    /// The install record cannot be stored.
    #[error(transparent)]
    Form(#[from] RecordError),
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
}

impl Actor<'_> {
    /// Executes the steps and says how many objects changed. An install or upgrade leaves a record first, so that a crash at any
    /// moment is finished by the next reconcile.
    pub async fn act(&self, plan: &Plan, history: &mut History) -> Result<usize, ActError> {
        let (Action::Install | Action::Upgrade, Some(record)) = (&plan.action, &plan.record) else {
            let changed = self.steps(&plan.steps).await?;
            if let (Action::Reassert, Some(latest)) = (&plan.action, history.latest().map(|latest| latest.number)) {
                // A crash after the newest revision began to count may have left an older one that counts too.
                self.finish(history, latest, State::Deployed).await?;
            }
            return Ok(changed);
        };
        let number = match history.latest() {
            // A try of the same content that was left half-way goes on under its number.
            Some(latest) if matches!(latest.state, State::Pending | State::Failed) && latest.record == *record => latest.number,
            latest => {
                let number = latest.map_or(1, |latest| latest.number.saturating_add(1));
                let revision = Revision { number, state: State::Pending, record: record.clone() };
                self.write_record(&revision).await?;
                history.revisions.push(revision);
                number
            }
        };
        let done = self.steps(&plan.steps).await;
        let state = if done.is_ok() { State::Deployed } else { State::Failed };
        self.finish(history, number, state).await?;
        done
    }

    async fn steps(&self, steps: &[Planned]) -> Result<usize, ActError> {
        let steps: Vec<_> = steps.iter().map(|planned| planned.step.clone()).collect();
        let done = self
            .account
            .execute(&steps, |done| tracing::debug!(extension = self.owner.name, step = done.index, effect = ?done.effect))
            .await;
        let done = done.map_err(ActError::Step)?;
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
                // Left by a crash between two chunks, of an attempt which never counted.
                Err(error) if error.reason() == Some(&Reason::AlreadyExists) => {
                    self.own.delete(&place, &Expect::default(), Propagation::Background).await?;
                    self.own.create(&object).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn set_state(&self, revision: &mut Revision, state: State) -> Result<(), ActError> {
        if revision.state != state {
            let place = self.secret(record::secret_name(&self.owner.name, revision.number));
            self.own.patch(&place, "", &Patch::Merge(record::state_patch(state))).await?;
            revision.state = state;
        }
        Ok(())
    }

    /// The new revision counts before the old one stops to, so that there is always an installed one; the oldest beyond those kept go.
    async fn finish(&self, history: &mut History, number: u32, state: State) -> Result<(), ActError> {
        for revision in history.revisions.iter_mut().filter(|revision| revision.number == number) {
            self.set_state(revision, state).await?;
        }
        if state == State::Deployed {
            for revision in history.revisions.iter_mut().filter(|revision| revision.number < number && revision.state == State::Deployed) {
                self.set_state(revision, State::Superseded).await?;
            }
        }
        let installed = history.installed().map(|revision| revision.number);
        while history.revisions.len() > KEPT {
            // However many attempts failed since, what is installed stays known.
            let Some(at) = history.revisions.iter().position(|revision| Some(revision.number) != installed) else { break };
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
