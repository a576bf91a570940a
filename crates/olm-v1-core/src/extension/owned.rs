//! The owner of a live object, from the object itself: the owner references, labels and annotations that this controller and upstream's set.
//! The functions are pure.
//!
//! ```text
//!   ClusterExtension ◄──owner reference── object                                   deleted with it
//!   ClusterExtension ◄── revision ◄──owner reference── object                      deleted with the revision, by its controller
//!   owner-kind, owner-name (labels), operator-sdk/primary-resource (annotation)    owned, and not deleted by itself
//! ```
//!
//! Install records say the same, but they can be lost, be in a namespace that the user cannot read, or have a format that only their writer
//! knows. A removal therefore rests on the objects (MS-RB-02).

use mainstay_api::olm_v1::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_lifecycle::removal::Tie;
use mainstay_objects::ObjectRef;
use serde_json::Value;

/// The API group of extensions and of the revisions that upstream keeps as objects.
const GROUP: &str = "olm.operatorframework.io";
const KIND: &str = "ClusterExtension";
/// The annotation with which operator libraries name an owner that an owner reference cannot name.
pub const PRIMARY_RESOURCE: &str = "operator-sdk/primary-resource";
/// The annotation with the kind of [`PRIMARY_RESOURCE`].
pub const PRIMARY_RESOURCE_TYPE: &str = "operator-sdk/primary-resource-type";

/// The identity of an extension, as its objects name it.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// An object between an extension and its objects, such as a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The object.
    pub place: ObjectRef,
    /// Its uid.
    pub uid: String,
}

impl Identity<'_> {
    /// The label selector of the objects that carry its labels.
    pub fn selector(&self) -> String {
        format!("{OWNER_KIND_LABEL}={KIND},{OWNER_NAME_LABEL}={}", self.name)
    }

    /// The object's tie to the extension, if it has one; `holders` are those of [`holders`] that are the extension's own.
    pub fn tie(&self, object: &Value, holders: &[Holder]) -> Option<Tie> {
        if references(object).any(|owner| self.is(owner)) {
            return Some(Tie::Reference);
        }
        let through = references(object).find_map(|owner| holders.iter().find(|holder| owner["uid"] == holder.uid.as_str()));
        if let Some(holder) = through {
            return Some(Tie::Through(holder.place.to_string()));
        }
        let metadata = &object["metadata"];
        let labelled = metadata["labels"][OWNER_KIND_LABEL] == KIND && metadata["labels"][OWNER_NAME_LABEL] == self.name;
        let text = |key: &str| metadata["annotations"][key].as_str().unwrap_or_default();
        let annotated =
            text(PRIMARY_RESOURCE).trim_start_matches('/') == self.name && text(PRIMARY_RESOURCE_TYPE) == format!("{KIND}.{GROUP}");
        (labelled || annotated).then_some(Tie::Mark)
    }

    /// The object's owner references without those that tie it to the extension.
    pub fn other_owners(&self, object: &Value) -> Vec<Value> {
        references(object).filter(|owner| !self.is(owner)).cloned().collect()
    }

    /// Returns true if an owner reference names the extension. A reference to an earlier extension of the same name counts, too.
    fn is(&self, owner: &Value) -> bool {
        !self.uid.is_empty() && owner["uid"] == self.uid || group(owner) == GROUP && owner["kind"] == KIND && owner["name"] == self.name
    }
}

/// Possible holders between an extension and this object: owners of OLM's group that are not extensions.
pub fn holders(object: &Value) -> Vec<Holder> {
    let between = references(object).filter(|owner| group(owner) == GROUP && owner["kind"] != KIND);
    between
        .map(|owner| Holder {
            place: ObjectRef {
                api_version: text(&owner["apiVersion"]),
                kind: text(&owner["kind"]),
                namespace: String::new(),
                name: text(&owner["name"]),
            },
            uid: text(&owner["uid"]),
        })
        .collect()
}

fn references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn group(owner: &Value) -> &str {
    owner["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const WIDGETS: Identity<'_> = Identity { name: "widgets", uid: "1234" };

    fn owner(version: &str, kind: &str, name: &str, uid: &str) -> Value {
        json!({"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}]}})
    }

    /// MS-RB-02: an object says whose it is in each of the ways that controllers of OLM v1 mark theirs, and what belongs to others does not
    /// count.
    #[test]
    fn objects_say_whose_they_are() {
        let v1 = "olm.operatorframework.io/v1";
        let labels = |kind: &str, name: &str| json!({"metadata": {"labels": {OWNER_KIND_LABEL: kind, OWNER_NAME_LABEL: name}}});
        let revision = Holder {
            place: ObjectRef {
                api_version: v1.into(),
                kind: "ClusterExtensionRevision".into(),
                namespace: String::new(),
                name: "widgets-1".into(),
            },
            uid: "77".into(),
        };
        let of_revision = owner(v1, "ClusterExtensionRevision", "widgets-1", "77");
        assert_eq!(holders(&of_revision), std::slice::from_ref(&revision));
        assert!(holders(&owner(v1, KIND, "widgets", "1234")).is_empty());
        let holders = [revision];
        let through = Tie::Through("ClusterExtensionRevision widgets-1".to_owned());
        let annotated = |name: &str| json!({"metadata": {"annotations": {PRIMARY_RESOURCE: name, PRIMARY_RESOURCE_TYPE: "ClusterExtension.olm.operatorframework.io"}}});
        for (object, tie) in [
            (owner(v1, KIND, "widgets", "1234"), Some(Tie::Reference)),
            // Deleted and made again under its name, or of another version of the API.
            (owner("olm.operatorframework.io/v2", KIND, "widgets", "old"), Some(Tie::Reference)),
            (owner(v1, KIND, "gadgets", "99"), None),
            (owner("example.com/v1", KIND, "widgets", "99"), None),
            (of_revision, Some(through)),
            (owner(v1, "ClusterExtensionRevision", "gadgets-1", "78"), None),
            (labels(KIND, "widgets"), Some(Tie::Mark)),
            (labels("ClusterCatalog", "widgets"), None),
            (labels(KIND, "gadgets"), None),
            (annotated("/widgets"), Some(Tie::Mark)),
            (annotated("/gadgets"), None),
            (json!({}), None),
        ] {
            assert_eq!(WIDGETS.tie(&object, &holders), tie, "{object}");
        }
        assert_eq!(Identity { name: "widgets", uid: "" }.tie(&owner("example.com/v1", "Other", "x", ""), &[]), None);
    }

    /// MS-RB-02: keeping a CRD takes off the references of the extension, and nobody else's.
    #[test]
    fn other_owners_stay() {
        let mut object = owner("olm.operatorframework.io/v1", KIND, "widgets", "1234");
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "5"});
        object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(theirs.clone());
        assert_eq!(WIDGETS.other_owners(&object), [theirs]);
    }
}
