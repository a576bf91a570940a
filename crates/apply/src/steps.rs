//! Execution of steps in order, with the outcome of each.

use mainstay_objects::{Health, Step, health};
use serde_json::Value;

use crate::{Reason, WriteError, Writer};

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The object is new.
    Created,
    /// The object was applied or patched.
    Applied,
    /// The object was already as wanted.
    Unchanged,
    /// The object, or some of the objects, were deleted.
    Deleted,
    /// The awaited state was reached.
    Reached,
    /// The step was skipped in a dry run.
    Skipped,
}

/// A step that was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The step's place in the list, from 0.
    pub index: usize,
    /// The effect of the step.
    pub effect: Effect,
    /// The object afterwards, if there is one.
    pub object: Option<Value>,
}

/// A list of steps that stopped at a failure.
#[derive(Debug, thiserror::Error)]
#[error("step {} of {total} failed", index + 1)]
pub struct Failed {
    /// The step that failed, from 0; those before it are done, those after it are not.
    pub index: usize,
    /// Number of steps in the list.
    pub total: usize,
    /// The cause.
    #[source]
    pub error: WriteError,
    /// The steps that were done before.
    pub done: Vec<Done>,
}

impl Writer {
    /// Carries out the steps in order and stops at the first that fails; calls `progress` with each.
    pub async fn execute<S: AsRef<Step> + Sync>(
        &self,
        steps: &[S],
        mut progress: impl FnMut(&Done) + Send,
    ) -> Result<Vec<Done>, Box<Failed>> {
        let mut all = Vec::with_capacity(steps.len());
        for (index, step) in steps.iter().map(AsRef::as_ref).enumerate() {
            match self.step(step).await {
                Ok((effect, object)) => {
                    let done = Done { index, effect, object };
                    progress(&done);
                    all.push(done);
                }
                Err(error) => return Err(Box::new(Failed { index, total: steps.len(), error, done: all })),
            }
        }
        Ok(all)
    }

    async fn step(&self, step: &Step) -> Result<(Effect, Option<Value>), WriteError> {
        match step {
            Step::Create(object) => Ok((Effect::Created, Some(self.create(object).await?))),
            Step::CreateNamed(object) => Ok((Effect::Created, Some(self.create_named(object).await?))),
            Step::CreateOnce(object) => match self.create(object).await {
                Ok(object) => Ok((Effect::Created, Some(object))),
                Err(error) if error.reason() == Some(&Reason::AlreadyExists) => Ok((Effect::Unchanged, None)),
                Err(error) => Err(error),
            },
            Step::Apply { object, force, expect } => {
                let (object, effect) = self.apply(object, *force, expect).await?;
                Ok((effect, Some(object)))
            }
            Step::ApplyOwned { object, owner } => {
                let (object, effect) = self.apply_owned(object, owner).await?;
                Ok((effect, Some(object)))
            }
            Step::Patch { object, subresource, patch } => Ok((Effect::Applied, Some(self.patch(object, subresource, patch).await?))),
            Step::Delete { object, expect, propagation } => {
                let deleted = self.delete(object, expect, *propagation).await?;
                Ok((if deleted { Effect::Deleted } else { Effect::Unchanged }, None))
            }
            Step::Prune { objects, owner } => {
                let pruned = self.prune(objects, owner).await?;
                for (object, why) in &pruned.kept {
                    tracing::info!(%object, why, "an object of an earlier revision stays");
                }
                Ok((if pruned.deleted.is_empty() { Effect::Unchanged } else { Effect::Deleted }, None))
            }
            Step::Wait { .. } | Step::Probe(_) if self.is_dry() => Ok((Effect::Skipped, None)),
            Step::Probe(object) => {
                let live = self.get(object).await?;
                let state = match live.as_ref().map(health) {
                    Some(Health::Ready) => return Ok((Effect::Reached, live)),
                    Some(Health::Waiting(state) | Health::Failed(state)) => state,
                    None => "it does not exist".to_owned(),
                };
                Err(WriteError::NotHealthy { object: Box::new(object.clone()), state })
            }
            Step::Wait { object, until, timeout } => {
                let object = self.wait(object, until, *timeout).await?;
                Ok((Effect::Reached, Some(object).filter(|object| !object.is_null())))
            }
        }
    }
}
