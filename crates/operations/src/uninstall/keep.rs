//! Objects that are kept although their extension goes. A finalizer holds the extension until it does not own them any more, then the
//! cluster removes the rest.

use std::time::{Duration, Instant};

use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_apply::{Reason, WriteError};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::removal::{Stays, Tie};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_olm_v1_core::extension::owned::{PRIMARY_RESOURCE, PRIMARY_RESOURCE_TYPE};
use serde_json::{Value, json};

use super::place_of;
use crate::apply::named;
use crate::extensions::reference;
use crate::failure::not_written;
use crate::ownership;
use crate::progress::Progress;
use crate::session::Session;

/// The finalizer that holds an extension until it does not own its CRDs any more.
const KEEPER: &str = "lifecycle.mainstay.dev/keep-crds";

/// Waits until our finalizer is the only one on the extension: then no reconcile of it is running any more (OLM1-CTRL-07).
pub(super) async fn released(session: &Session, place: &ObjectRef, timeout: Duration) -> Result<(), Failure> {
    const LOOK: Duration = Duration::from_millis(50);
    let begun = Instant::now();
    loop {
        let live = session.writer.get(place).await.map_err(|error| not_written(&error))?;
        let others = live.as_ref().and_then(|live| live.pointer("/metadata/finalizers")).and_then(Value::as_array);
        if others.is_none_or(|all| all.iter().all(|finalizer| finalizer == KEEPER)) {
            return Ok(());
        }
        if begun.elapsed() > timeout {
            let problem = format!("the controller still holds it after {} s; nothing was deleted yet", timeout.as_secs());
            return Err(Failure::new(FailureKind::TimedOut, place.to_string(), problem).hint("is the operator-controller running?"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Adds our finalizer to the extension, or removes it. The controller changes the same list at the same time, so a conflict reads the
/// extension again.
pub(super) async fn hold(session: &Session, extension: &ClusterExtension, on: bool) -> Result<(), Failure> {
    const TRIES: usize = 20;
    let place = reference(extension.metadata.name.as_deref().unwrap_or_default());
    let mut tries = 0;
    loop {
        let Some(live) = session.writer.get(&place).await.map_err(|error| not_written(&error))? else {
            return Ok(());
        };
        let outcome =
            if on { session.writer.add_finalizer(&live, KEEPER).await } else { session.writer.remove_finalizer(&live, KEEPER).await };
        tries += 1;
        match outcome {
            Ok(_) => return Ok(()),
            Err(error) if error.reason() == Some(&Reason::Conflict) && tries < TRIES => {}
            Err(error) => return Err(not_written(&error)),
        }
    }
}

/// Removes the extension from the owners of every CRD that it owns now, and checks again: a CRD that it still owns would be lost.
pub(super) async fn definitions(
    session: &Session,
    extension: &ClusterExtension,
    staying: Option<Stays>,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    const TRIES: usize = 20;
    let mut tries = 0;
    loop {
        let mut owned = ownership::definitions(session, extension).await?;
        // If the extension itself asks for it, its controller has removed the owner reference, and the labels stay (OLM1-INST-15).
        owned.retain(|(_, tie)| staying.is_none() || *tie != Tie::Mark);
        if owned.is_empty() {
            return Ok(());
        }
        tries += 1;
        if tries > TRIES {
            let names: Vec<String> = owned.iter().map(|(definition, _)| named(definition)).collect();
            let problem = format!("{} cannot be kept: another client sets the owner again", names.join(", "));
            let name = extension.metadata.name.as_deref().unwrap_or_default();
            return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), problem)
                .because(format!("finalizer {KEEPER} holds the extension, so that nothing was lost")));
        }
        for (definition, _) in &owned {
            progress.doing(&format!("keep {}", named(definition)));
            disown(session, extension, definition).await?;
        }
    }
}

/// Removes the extension from the owners of all objects that its controller has not released, because it does not know the annotation.
pub(super) async fn objects(
    session: &Session,
    extension: &ClusterExtension,
    objects: &[&Value],
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    const TRIES: usize = 20;
    for object in objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        let place = place_of(object)?;
        let mut tries = 0;
        loop {
            let live = session.writer.get(&place).await.map_err(|error| not_written(&error))?;
            let Some(live) = live.filter(|live| ownership::identity(extension).tie(live, &[]) == Some(Tie::Reference)) else { break };
            tries += 1;
            if tries > TRIES {
                return Err(Failure::new(FailureKind::Impossible, named(&live), "cannot be kept: another client sets the owner again")
                    .because(format!("finalizer {KEEPER} holds the extension, so that nothing was lost")));
            }
            progress.doing(&format!("keep {}", named(&live)));
            disown(session, extension, &live).await?;
        }
    }
    Ok(())
}

/// Removes the extension from the owners of an object; other owners stay.
async fn disown(session: &Session, extension: &ClusterExtension, object: &Value) -> Result<(), Failure> {
    let place = place_of(object)?;
    let owners = ownership::identity(extension).other_owners(object);
    let patch = Patch::Merge(json!({"metadata": {
        "resourceVersion": object["metadata"]["resourceVersion"],
        "ownerReferences": if owners.is_empty() { Value::Null } else { Value::from(owners) },
        "labels": {OWNER_KIND_LABEL: null, OWNER_NAME_LABEL: null},
        "annotations": {PRIMARY_RESOURCE: null, PRIMARY_RESOURCE_TYPE: null},
    }}));
    match session.writer.patch(&place, "", &patch).await {
        // The object was changed or deleted meanwhile: the next check reads it again.
        Ok(_) | Err(WriteError::Refused { reason: Reason::NotFound | Reason::Conflict, .. }) => Ok(()),
        Err(error) => Err(not_written(&error)),
    }
}
