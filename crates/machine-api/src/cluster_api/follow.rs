//! Changes of Machines of Cluster API wake the machines that they were made for.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_machine_core::cluster_api::{CLUSTER_API, UID_LABEL, Version};
use mainstay_runtime::{Key, Optional, Queue};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Wakes machines until `stop` is cancelled; where Cluster API is not installed, nothing happens until it is.
pub(crate) async fn follow(client: Client, machines: Queue<Key>, stop: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let kinds = Version::ALL.map(|version| {
        let version = version.api_version().rsplit_once('/').map_or("", |(_, version)| version);
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(CLUSTER_API, version, "Machine"), "machines");
        let changed = changed.clone();
        Optional::start(&client, resource, &stop, move || changed.notify_one())
    });
    let mut known = Seen::new();
    while stop.run_until_cancelled(changed.notified()).await.is_some() {
        let objects = kinds.iter().find_map(Optional::objects).map(|cache| cache.all()).unwrap_or_default();
        for key in known_changes(&mut known, &objects) {
            machines.add(key);
        }
    }
}

/// The version of each machine that was seen last.
type Seen = HashMap<Key, String>;

/// Returns which of the machines that were made here are new, changed or gone.
fn known_changes(known: &mut Seen, objects: &[Arc<DynamicObject>]) -> Vec<Key> {
    let ours = objects.iter().filter(|object| object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(UID_LABEL)));
    let now: Seen = ours.map(|object| (Key::of(object), object.metadata.resource_version.clone().unwrap_or_default())).collect();
    let before = mem::replace(known, now);
    let changed = known.iter().filter(|(key, version)| before.get(key) != Some(version)).map(|(key, _)| key.clone());
    let gone = before.keys().filter(|key| !known.contains_key(*key)).cloned();
    changed.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    fn object(name: &str, version: &str, is_ours: bool) -> Arc<DynamicObject> {
        let labels = is_ours.then(|| [(UID_LABEL.to_owned(), "u".to_owned())].into());
        let (name, version) = (Some(name.to_owned()), Some(version.to_owned()));
        let metadata = ObjectMeta { name, resource_version: version, namespace: Some("n".to_owned()), labels, ..ObjectMeta::default() };
        Arc::new(DynamicObject { types: None, metadata, data: serde_json::Value::Null })
    }

    /// MACH-PROV-11: new, changed and gone machines wake, others of Cluster API do not.
    #[test]
    fn changes() {
        let mut known = Seen::new();
        let mut names = |objects: &[Arc<DynamicObject>]| {
            let mut names: Vec<String> = known_changes(&mut known, objects).into_iter().map(|key| key.name).collect();
            names.sort();
            names
        };
        assert_eq!(names(&[object("a", "1", true), object("other", "1", false)]), ["a"]);
        assert_eq!(names(&[object("a", "1", true), object("b", "2", true), object("other", "3", false)]), ["b"]);
        assert_eq!(names(&[object("a", "4", true)]), ["a", "b"]);
        assert_eq!(names(&[object("a", "4", true)]), Vec::<String>::new());
    }
}
