//! CSVs and groups, read once for each version, and the links between objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::api::DynamicObject;
use mainstay_olm_classic_core::copies::{Extent, Prototype};
use mainstay_olm_classic_core::csv::{Definition, Group, Member, Serving};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use super::index::Links;

/// An object that a CSV names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Named {
    /// An API, `Kind.version.group`.
    Api(String),
    /// A CRD.
    Definition(String),
    /// An APIService.
    ApiService(String),
    /// A service account.
    Account(Key),
    /// The CSV that it replaces.
    Replaced(Key),
}

/// An object that an OperatorGroup names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NamedByGroup {
    /// An API of its annotation.
    Api(String),
    /// A namespace of its status.
    Target(String),
    /// Namespaces by a selector.
    Selected,
    /// Every namespace.
    All,
    /// A service account.
    Account(Key),
}

/// A role; ClusterRoles have no namespace.
pub(super) type RoleId = Key;
/// A binding; ClusterRoleBindings have no namespace.
pub(super) type BindingId = Key;

/// An object that a binding names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NamedByBinding {
    /// A service account.
    Account(Key),
    /// A role.
    Role(RoleId),
}

/// An object with a component label: its kind and place.
pub(super) type Component = (&'static str, Key);

/// The links between objects.
#[derive(Default)]
pub(super) struct Index {
    pub csvs: Links<Named, Key>,
    pub groups: Links<NamedByGroup, Key>,
    pub bindings: Links<NamedByBinding, BindingId>,
    /// The copies of each CSV.
    pub copies: Links<Key, Key>,
    /// The Subscriptions by the CSV that they installed.
    pub subscriptions: Links<Key, Key>,
    /// The objects of each `Operator`, by its component label.
    pub components: Links<String, Component>,
}

/// A value for the version of the object that it was made of.
struct Memo<T> {
    held: Mutex<HashMap<Key, (String, Arc<T>)>>,
}

impl<T> Default for Memo<T> {
    fn default() -> Self {
        Self { held: Mutex::default() }
    }
}

impl<T> Memo<T> {
    fn get(&self, key: &Key, version: &str) -> Option<Arc<T>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(key).filter(|(of, _)| of == version).map(|(_, value)| value.clone())
    }

    fn put(&self, key: &Key, version: &str, value: T) -> Arc<T> {
        let value = Arc::new(value);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), (version.to_owned(), value.clone()));
        value
    }

    fn forget(&self, key: &Key) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// The hashes of the copies of a CSV, each of the content and of the status.
#[derive(Debug)]
pub struct CopyHashes {
    whole: (String, String),
    summary: (String, String),
}

impl CopyHashes {
    /// The hashes of a copy of an extent.
    pub fn of(&self, extent: Extent) -> (&str, &str) {
        let (content, status) = if extent == Extent::Whole { &self.whole } else { &self.summary };
        (content, status)
    }
}

/// Everything that is known between reconciles. All of it is made of the caches.
#[derive(Default)]
pub(super) struct State {
    index: RwLock<Index>,
    members: RwLock<BTreeMap<Key, Arc<Member>>>,
    groups: RwLock<BTreeMap<Key, Arc<Group>>>,
    /// The hashes of copies.
    copy_hashes: Memo<CopyHashes>,
    definitions: Memo<Definition>,
    certificates: Memo<Option<Serving>>,
    /// CSVs in whose namespaces accounts, roles or bindings changed while they had failed for lack of permissions.
    permissions_changed: Mutex<BTreeSet<Key>>,
    /// True for CSVs whose users were told that copies are disabled; nothing is known of it after a start.
    told: Mutex<BTreeMap<Key, bool>>,
}

impl State {
    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The CSV at a place.
    pub fn member(&self, key: &Key) -> Option<Arc<Member>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// The places of all CSVs.
    pub fn all_csvs(&self) -> Vec<Key> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// The CSVs of a namespace.
    pub fn members_in(&self, namespace: &str) -> Vec<Arc<Member>> {
        in_namespace(&self.members.read().unwrap_or_else(PoisonError::into_inner), namespace)
    }

    /// Reads a CSV that changed; its content is read again only if it is another.
    pub fn take_csv(&self, key: &Key, before: Option<&DynamicObject>, now: Option<&DynamicObject>) -> Option<Arc<Member>> {
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        let Some(now) = now else {
            members.remove(key);
            self.copy_hashes.forget(key);
            self.permissions_changed.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return None;
        };
        let known = members.get(key).filter(|_| before.is_some_and(|before| same_content(before, now)));
        let member = match known {
            Some(known) => known.renewed(&metadata(now), now.data.get("status").unwrap_or(&Value::Null)),
            None => Member::read(&value(now)),
        };
        let member = Arc::new(member);
        members.insert(key.clone(), member.clone());
        Some(member)
    }

    /// The group at a place.
    pub fn group(&self, key: &Key) -> Option<Arc<Group>> {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// The groups of a namespace.
    pub fn groups_in(&self, namespace: &str) -> Vec<Arc<Group>> {
        in_namespace(&self.groups.read().unwrap_or_else(PoisonError::into_inner), namespace)
    }

    /// Reads a group that changed.
    pub fn take_group(&self, key: &Key, now: Option<&DynamicObject>) -> Option<Arc<Group>> {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let Some(now) = now else {
            groups.remove(key);
            return None;
        };
        let group = Arc::new(Group::read(&value(now)));
        groups.insert(key.clone(), group.clone());
        Some(group)
    }

    /// The hashes of the copies of a CSV. The copies themselves are as large as the CSV, and made when they are written.
    pub fn copy_hashes(&self, key: &Key, object: &DynamicObject) -> Arc<CopyHashes> {
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        let make = || {
            let csv = value(object);
            let of = |extent| {
                let prototype = Prototype::of(&csv, extent);
                (prototype.content_hash, prototype.status_hash)
            };
            self.copy_hashes.put(key, &version, CopyHashes { whole: of(Extent::Whole), summary: of(Extent::Summary) })
        };
        self.copy_hashes.get(key, &version).unwrap_or_else(make)
    }

    /// A CRD that was read in a version.
    pub fn definition(&self, key: &Key, version: &str) -> Option<Arc<Definition>> {
        self.definitions.get(key, version)
    }

    /// Keeps a CRD.
    pub fn put_definition(&self, key: &Key, version: &str, definition: Definition) -> Arc<Definition> {
        self.definitions.put(key, version, definition)
    }

    /// Forgets a CRD that is gone.
    pub fn forget_definition(&self, key: &Key) {
        self.definitions.forget(key);
    }

    /// The certificate in a Secret of a version, made by `read` if it is not known.
    pub fn certificate(&self, key: &Key, version: &str, read: impl FnOnce() -> Option<Serving>) -> Arc<Option<Serving>> {
        self.certificates.get(key, version).unwrap_or_else(|| self.certificates.put(key, version, read()))
    }

    /// Forgets the certificate of a Secret that is gone.
    pub fn forget_certificate(&self, key: &Key) {
        self.certificates.forget(key);
    }

    /// Returns whether users may have been told that copies of a CSV are disabled.
    pub fn was_told(&self, key: &Key) -> Option<bool> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// Notes whether users are told so.
    pub fn note_told(&self, key: &Key, is_told: bool) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), is_told);
    }

    /// Notes that permissions changed where a CSV lacks some.
    pub fn note_permissions(&self, key: &Key) {
        self.permissions_changed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
    }

    /// Returns whether permissions changed since a CSV failed, and forgets it.
    pub fn take_permissions(&self, key: &Key) -> bool {
        self.permissions_changed.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

fn in_namespace<T>(all: &BTreeMap<Key, Arc<T>>, namespace: &str) -> Vec<Arc<T>> {
    let from = Key::new(namespace, "");
    all.range(from..).take_while(|(key, _)| key.namespace == namespace).map(|(_, each)| each.clone()).collect()
}

/// Returns whether two versions of an object differ in status, finalizers and times alone.
fn same_content(before: &DynamicObject, now: &DynamicObject) -> bool {
    let (before, now) = (&before.metadata, &now.metadata);
    before.uid == now.uid
        && before.generation == now.generation
        && before.generation.is_some()
        && before.labels == now.labels
        && before.annotations == now.annotations
}

/// The metadata of an object as JSON.
pub(super) fn metadata(object: &DynamicObject) -> Value {
    // Metadata of a cache came as JSON.
    serde_json::to_value(&object.metadata).unwrap_or_else(|_| json!({}))
}

/// An object of a cache as JSON.
pub(super) fn value(object: &DynamicObject) -> Value {
    let mut value = object.data.clone();
    if !value.is_object() {
        value = json!({});
    }
    if let Some(types) = &object.types {
        value["apiVersion"] = json!(types.api_version);
        value["kind"] = json!(types.kind);
    }
    value["metadata"] = metadata(object);
    value
}

/// A label of an object.
pub(super) fn label<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    object.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// An annotation of an object.
pub(super) fn annotation<'a>(object: &'a DynamicObject, name: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The CSV that an object's labels or owner references name.
pub(super) fn owner(object: &DynamicObject) -> Option<Key> {
    let namespace = object.metadata.namespace.as_deref();
    let references = object.metadata.owner_references.as_deref().unwrap_or_default();
    let reference = references.iter().find(|owner| owner.kind == "ClusterServiceVersion");
    if let (Some(namespace), Some(owner)) = (namespace, reference) {
        return Some(Key::new(namespace, &owner.name));
    }
    let is_csv = label(object, "olm.owner.kind") == Some("ClusterServiceVersion");
    is_csv.then(|| Some(Key::new(label(object, "olm.owner.namespace")?, label(object, "olm.owner")?))).flatten()
}
