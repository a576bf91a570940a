//! ControllerRevisions: the previous and current templates of a StatefulSet or DaemonSet, by hash.

use kube::api::DynamicObject;
use mainstay_runtime::Key;
use serde_json::{Value, json};

use crate::Result;
use crate::api::{Delete, Patch};
use crate::hash::of_data;
use crate::live::Live;
use crate::object::{Object, Read as _, controlled_by, controller_reference};

/// The label that names a pod's revision.
pub const HASH: &str = "controller-revision-hash";

/// Returns the data of a revision: a patch that restores the template.
pub fn data(owner: &DynamicObject) -> Value {
    let mut template = owner.at("/spec/template").clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// Returns the template of a revision.
pub fn template(revision: &DynamicObject) -> Value {
    let mut template = revision.data.pointer("/data/spec/template").cloned().unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    template
}

/// Returns the number of a revision.
pub fn number(revision: &DynamicObject) -> i64 {
    revision.int("/revision").unwrap_or_default()
}

/// Returns the revisions of an owner, oldest first.
pub fn of(revisions: &Live, owner: &DynamicObject) -> Vec<Object> {
    let mut own: Vec<Object> =
        revisions.owned_by(owner.uid()).into_iter().filter(|revision| controlled_by(revision, owner.uid())).collect();
    own.sort_by_key(|revision| (number(revision), revision.name().to_owned()));
    own
}

/// Returns the revision of the current template. An existing one is made the newest again; a missing one is created.
pub async fn current(revisions: &Live, api_version: &str, kind: &str, owner: &DynamicObject) -> Result<Object> {
    let all = of(revisions, owner);
    let wanted = data(owner);
    let newest = all.last().map_or(0, |revision| number(revision));
    if let Some(known) = all.iter().rev().find(|revision| revision.data["data"] == wanted) {
        if number(known) < newest {
            let patch = Patch::Merge(json!({"metadata": {"uid": known.uid()}, "revision": newest + 1}));
            return Ok(revisions.patch(&Key::of(known), "", &patch).await?.into());
        }
        return Ok(known.clone());
    }
    let hash = of_data(&wanted, owner.int("/status/collisionCount").filter(|count| *count > 0));
    let mut labels = owner.at("/spec/template/metadata/labels").clone();
    labels[HASH] = json!(hash);
    let body = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{}-{hash}", owner.name()),
            "namespace": owner.namespace(),
            "labels": labels,
            "ownerReferences": [controller_reference(api_version, kind, owner)],
        },
        "data": wanted,
        "revision": newest + 1,
    });
    Ok(revisions.create(owner.namespace(), &body).await?.into())
}

/// Deletes the oldest unused revisions beyond the history limit.
pub async fn trim(revisions: &Live, owner: &DynamicObject, used: &[String]) -> Result<()> {
    let limit = owner.int("/spec/revisionHistoryLimit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(10);
    let idle = |revision: &Object| !used.iter().any(|name| name == revision.name() || Some(name) == revision.labels().get(HASH));
    let old: Vec<Object> = of(revisions, owner).into_iter().filter(idle).collect();
    for revision in old.iter().take(old.len().saturating_sub(limit)) {
        revisions.delete(&Key::of(revision), &Delete::uid(revision.uid())).await?;
    }
    Ok(())
}
