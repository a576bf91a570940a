//! The generator: where no ControlPlaneMachineSet is, or one that is inactive, it describes the machines as they are (MACH-CPMS-05).

use mainstay_apply::{Reason, WriteError};
use mainstay_machine_core::control_plane::generate::{generate, is_control_plane, is_current};
use mainstay_machine_core::control_plane::object::NAME;
use mainstay_objects::{Expect, Propagation};
use mainstay_runtime::{Key, Outcome};
use serde_json::Value;

use super::Controller;
use crate::Error;
use crate::kinds::{CONTROL_PLANE, NAMESPACE};

impl Controller {
    /// Makes the object if there are machines to describe.
    pub(super) async fn generate(&self) -> Result<Outcome, Error> {
        let Some(generated) = self.generated().await? else { return Ok(Outcome::Done) };
        match self.shared.writer.create(&generated).await {
            Ok(_) => {
                tracing::info!("an inactive ControlPlaneMachineSet describes the machines of the control plane");
                Ok(Outcome::Done)
            }
            // Someone was faster.
            Err(WriteError::Refused { reason: Reason::AlreadyExists, .. }) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes an inactive object that does not describe the machines any more; another one is made when it is gone. One that was activated
    /// meanwhile is not deleted.
    pub(super) async fn regenerate(&self, live: &Value) -> Result<(), Error> {
        let Some(generated) = self.generated().await? else { return Ok(()) };
        if is_current(live, &generated) {
            return Ok(());
        }
        tracing::info!("the inactive ControlPlaneMachineSet is outdated, and is made anew");
        let place = CONTROL_PLANE.at(&Key::new(NAMESPACE, NAME));
        match self.shared.writer.delete(&place, &Expect::as_seen(live), Propagation::Background).await {
            Err(error) if !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn generated(&self) -> Result<Option<Value>, Error> {
        let machines = self.shared.machines_now(NAMESPACE).await?;
        let machines: Vec<Value> = machines.into_iter().filter(is_control_plane).collect();
        // Machines that have no cluster yet get it at once, and wake this controller.
        let is_labelled = |machine: &Value| {
            machine.pointer("/metadata/labels").and_then(|labels| labels.get("machine.openshift.io/cluster-api-cluster")).is_some()
        };
        if !machines.iter().all(is_labelled) {
            return Ok(None);
        }
        Ok(generate(&machines, NAMESPACE)?)
    }
}
