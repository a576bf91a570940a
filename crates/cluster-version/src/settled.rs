//! Objects that a pass found as they should be: while their versions stay, the next pass asks nothing (CVO-SIM-04, CVO-SYNC-02).
//!
//! The versions come from watches of metadata alone, one for each kind of the release. They begin once the release is there, and a pass that
//! comes before a watch is complete asks as ever.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::api::GroupVersionKind;
use mainstay_release::{Manifest, ManifestId};
use mainstay_runtime::{Cache, Key, Kinds, Part, Scope};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The memory of a worker.
#[derive(Default)]
pub(crate) struct Settled(Mutex<Known>);

#[derive(Default)]
struct Known {
    kinds: HashMap<GroupVersionKind, Watched>,
    /// Uid and version of each object as it was found.
    objects: HashMap<ManifestId, (String, String)>,
}

struct Watched {
    cache: Cache,
    _stop: DropGuard,
}

impl fmt::Debug for Settled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settled").field("objects", &self.known().objects.len()).finish_non_exhaustive()
    }
}

fn kind_of(manifest: &Manifest) -> GroupVersionKind {
    let id = manifest.id();
    GroupVersionKind::gvk(&id.group, manifest.version(), &id.kind)
}

impl Settled {
    fn known(&self) -> MutexGuard<'_, Known> {
        // What is known is whole between statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets every object: another release, or other settings, may want them otherwise.
    pub fn forget(&self) {
        self.known().objects.clear();
    }

    /// Returns whether the object is as it was found to be right.
    pub fn holds(&self, manifest: &Manifest) -> bool {
        let known = self.known();
        let id = manifest.id();
        let Some((uid, version)) = known.objects.get(id) else { return false };
        let Some(watched) = known.kinds.get(&kind_of(manifest)).filter(|watched| watched.cache.is_ready()) else { return false };
        watched
            .cache
            .get(&Key::new(&*id.namespace, &*id.name))
            .is_some_and(|live| live.metadata.uid.as_ref() == Some(uid) && live.metadata.resource_version.as_ref() == Some(version))
    }

    /// Notes the object as it was found to be right.
    pub fn note(&self, manifest: &Manifest, live: &Value) {
        let text = |field: &str| live["metadata"][field].as_str().map(str::to_owned);
        let mut known = self.known();
        match (text("uid"), text("resourceVersion")) {
            (Some(uid), Some(version)) => known.objects.insert(manifest.id().clone(), (uid, version)),
            _ => known.objects.remove(manifest.id()),
        };
    }

    /// Watches the kinds of these manifests, and no others.
    pub async fn watch(&self, manifests: &[Manifest], client: &kube::Client, kinds: &Kinds, stop: &CancellationToken) {
        let wanted: HashSet<GroupVersionKind> = manifests.iter().map(kind_of).collect();
        let missing: Vec<GroupVersionKind> = {
            let mut known = self.known();
            known.kinds.retain(|kind, _| wanted.contains(kind));
            wanted.into_iter().filter(|kind| !known.kinds.contains_key(kind)).collect()
        };
        for kind in missing {
            let served = match kinds.served(&kind).await {
                Ok(served) => served,
                Err(error) => {
                    tracing::debug!(%error, kind = %kind.kind, "not watched");
                    continue;
                }
            };
            let stop = stop.child_token();
            let scope = Scope { part: Part::Metadata, ..Scope::default() };
            let cache = Cache::start(client, &served.resource, &scope, &stop);
            self.known().kinds.insert(kind, Watched { cache, _stop: stop.drop_guard() });
        }
    }
}
