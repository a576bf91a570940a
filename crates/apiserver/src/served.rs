//! The resources that are served: the built-in ones and those of established CRDs, as one immutable snapshot at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mainstay_kinds::{Gvk, Resource, Subresource};

use crate::crd::CustomVersion;

/// One resource in one version.
pub struct Served {
    /// A number that no other resource of this process has or had, by which encodings of its objects are kept.
    pub id: u64,
    /// Names, verbs, subresources: what discovery says.
    pub facts: Arc<Resource>,
    /// `GROUP/RESOURCE` below the store's root.
    pub storage: Arc<str>,
    /// The version that objects are stored in.
    pub storage_version: Arc<str>,
    /// The version of a CRD that it is; `None` for built-in kinds.
    pub custom: Option<Arc<CustomVersion>>,
}

impl Served {
    /// A resource with these facts.
    pub fn new(facts: Resource, storage: Arc<str>, storage_version: Arc<str>, custom: Option<Arc<CustomVersion>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), facts: Arc::new(facts), storage, storage_version, custom }
    }

    /// `GROUP/VERSION`.
    pub fn api_version(&self) -> String {
        self.facts.gvk().api_version()
    }

    /// The kind's name.
    pub fn gvk(&self) -> Gvk {
        self.facts.gvk()
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        self.custom.as_ref().map_or_else(|| format!("{}List", self.facts.kind), |custom| custom.list_kind.clone())
    }

    /// The key of an object in the cache.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.facts.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The key of an object in the store.
    pub fn store_key(&self, namespace: &str, name: &str) -> String {
        format!("{}{}/{}", crate::entry::ROOT, self.storage, self.key(namespace, name))
    }

    /// Returns whether a verb is served on the resource itself.
    pub fn serves(&self, verb: &str) -> bool {
        self.facts.verbs.iter().any(|one| one == verb)
    }

    /// Its subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.facts.subresource(name)
    }

    /// Group and plural name.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.facts.group == group && self.facts.plural == plural
    }
}

/// Returns whether a version of a group is there without any CRD.
pub fn is_built_in(group: &str, version: &str) -> bool {
    mainstay_kinds::registry().group(group).is_some_and(|group| group.versions.iter().any(|known| known == version))
}

/// All that is served at one moment.
#[derive(Default)]
pub struct Snapshot {
    resources: HashMap<(String, String, String), Arc<Served>>,
    /// Custom groups with their versions, the preferred first.
    pub custom_groups: BTreeMap<String, Vec<String>>,
    /// The custom resources, by group, version and plural.
    pub custom: BTreeMap<(String, String, String), Arc<Served>>,
    /// Counts the snapshots.
    pub generation: u64,
}

/// The group name in storage keys.
fn storage_group(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

impl Snapshot {
    /// The built-in resources.
    pub fn built_in() -> Self {
        let registry = mainstay_kinds::registry();
        let mut snapshot = Self::default();
        for resource in registry.resources() {
            // Events exist once, whichever group is asked.
            let group = if resource.group == "events.k8s.io" { "" } else { &resource.group };
            let version = match (resource.group.as_str(), resource.plural.as_str()) {
                ("events.k8s.io", _) => "v1",
                ("autoscaling", "horizontalpodautoscalers") => "v2",
                _ => resource.version.as_str(),
            };
            let storage = format!("{}/{}", storage_group(group), resource.plural);
            snapshot.insert(Arc::new(Served::new(resource.clone(), storage.into(), version.into(), None)));
        }
        snapshot
    }

    /// The same with these custom resources; `groups` has each group's versions in order.
    #[must_use]
    pub fn with_custom(&self, custom: Vec<Arc<Served>>, groups: BTreeMap<String, Vec<String>>) -> Self {
        let mut next = Self { generation: self.generation + 1, custom_groups: groups, ..Self::default() };
        for served in self.resources.values().filter(|served| served.custom.is_none()) {
            next.insert(served.clone());
        }
        for served in custom {
            let facts = &served.facts;
            next.custom.insert((facts.group.clone(), facts.version.clone(), facts.plural.clone()), served.clone());
            next.insert(served);
        }
        next
    }

    fn insert(&mut self, served: Arc<Served>) {
        let facts = &served.facts;
        self.resources.insert((facts.group.clone(), facts.version.clone(), facts.plural.clone()), served);
    }

    /// The resource of that name.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Any version of a resource.
    pub fn any_version(&self, group: &str, plural: &str) -> Option<&Arc<Served>> {
        self.resources.values().find(|served| served.is(group, plural))
    }

    /// The resource of a kind.
    pub fn of_kind(&self, gvk: &Gvk) -> Option<&Arc<Served>> {
        self.resources
            .values()
            .find(|served| served.facts.kind == gvk.kind && served.facts.group == gvk.group && served.facts.version == gvk.version)
    }

    /// Every resource.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.resources.values()
    }
}
