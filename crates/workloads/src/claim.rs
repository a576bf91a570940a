//! Claims of a controller to objects: those that it owns, adopts and releases, by controller reference and selector.

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Served};
use serde_json::{Value, json};

use crate::Result;
use crate::api::Patch;
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, selects};

/// The candidates for one owner, by their fate.
#[derive(Debug, Default, PartialEq)]
pub struct Claim {
    /// Objects that the owner controls and keeps.
    pub own: Vec<Object>,
    /// Objects without a controller that match: the owner adopts them.
    pub adopt: Vec<Object>,
    /// Objects of the owner that no longer match: it releases them.
    pub release: Vec<Object>,
}

/// Decides by controller reference and selector.
pub fn claim(owner: &DynamicObject, selector: &Value, candidates: impl IntoIterator<Item = Object>) -> Claim {
    let mut claim = Claim::default();
    for object in candidates {
        // Most candidates belong to other owners, so the selector is evaluated only when it matters.
        match object.controller() {
            Some(controller) if controller.uid == owner.uid() => {
                if selects(selector, object.labels()) {
                    claim.own.push(object);
                } else if !owner.deleting() {
                    claim.release.push(object);
                }
            }
            None if !owner.deleting() && !object.deleting() && selects(selector, object.labels()) => claim.adopt.push(object),
            _ => {}
        }
    }
    claim
}

/// Carries a claim out, and returns the owner's objects including the adopted ones.
pub async fn carry_out(claim: Claim, owners: &Live, owner: &DynamicObject, objects: &Live) -> Result<Vec<Object>> {
    let mut own = claim.own;
    if !claim.adopt.is_empty() && still_there(owners.served(), owners, owner).await? {
        for object in claim.adopt {
            let resource = &owners.served().resource;
            let reference = controller_reference(&resource.api_version, &resource.kind, owner);
            let patch = json!({"metadata": {"uid": object.uid(), "ownerReferences": [reference]}});
            match objects.patch(&Key::of(&object), "", &Patch::Strategic(patch)).await {
                Ok(adopted) => own.push(std::sync::Arc::new(adopted)),
                Err(error) if error.is_stale() => {}
                Err(error) => return Err(error),
            }
        }
    }
    for object in claim.release {
        let patch = json!({"metadata": {"uid": object.uid(), "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}]}});
        match objects.patch(&Key::of(&object), "", &Patch::Strategic(patch)).await {
            Ok(_) => {}
            Err(error) if error.is_stale() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(own)
}

/// Asks the server, not the cache, if the owner still exists: an adoption for a deleted owner would leave objects that are never collected.
async fn still_there(served: &Served, owners: &Live, owner: &DynamicObject) -> Result<bool> {
    let live = owners.api().get_metadata(served, &Key::of(owner)).await?;
    Ok(live.is_some_and(|live| live["metadata"]["uid"] == owner.uid() && live.pointer("/metadata/deletionTimestamp").is_none()))
}
