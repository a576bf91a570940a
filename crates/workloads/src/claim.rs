//! Which objects a controller has, takes, and lets go: by controller reference and selector.

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Served};
use serde_json::{Value, json};

use crate::Result;
use crate::api::Patch;
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, selects};

/// What becomes of the objects that could be an owner's.
#[derive(Debug, Default, PartialEq)]
pub struct Claim {
    /// They are its own.
    pub own: Vec<Object>,
    /// They are nobody's and match: they become its own.
    pub adopt: Vec<Object>,
    /// They are its own and match no more: they become nobody's.
    pub release: Vec<Object>,
}

/// Decides by controller reference and selector.
pub fn claim(owner: &DynamicObject, selector: &Value, candidates: impl IntoIterator<Item = Object>) -> Claim {
    let mut claim = Claim::default();
    for object in candidates {
        // Most candidates are somebody else's: the selector is asked only where it matters.
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

/// Carries a claim out; what was adopted is among the owner's own afterwards.
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

/// Adopting for an owner that is gone would leave objects that nobody collects: the server is asked, not the copy.
async fn still_there(served: &Served, owners: &Live, owner: &DynamicObject) -> Result<bool> {
    let live = owners.api().get_metadata(served, &Key::of(owner)).await?;
    Ok(live.is_some_and(|live| live["metadata"]["uid"] == owner.uid() && live.pointer("/metadata/deletionTimestamp").is_none()))
}
