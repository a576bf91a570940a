//! VolumeAttributesClasses stay as long as a claim or a volume names them: the finalizer goes when the last one is gone.

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::json;

use super::{Storage, release};
use crate::Result;
use crate::api::Patch;
use crate::live::Live;
use crate::object::Read as _;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const IN_USE: &str = "kubernetes.io/vac-protection";
/// The places in claims and volumes that name a class.
const NAMED: [&str; 3] = [
    "/spec/volumeAttributesClassName",
    "/status/currentVolumeAttributesClassName",
    "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
];

/// Runs the controller.
pub async fn run(world: World, storage: Storage) {
    let classes = world.follow("storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", false);
    classes.ready().await;
    let queue: Queue<Key> = Queue::default();
    wake_self(&classes, &queue);
    for live in [&storage.claims, &storage.volumes] {
        let wake = queue.clone();
        live.on_change(move |change| {
            for name in change.before.as_deref().map(names).unwrap_or_default() {
                wake.add(Key::new("", name));
            }
        });
    }
    mainstay_runtime::run("volumeattributesclass-protection", queue, 1, world.env.clone(), world.stop.clone(), move |key| {
        let (classes, storage) = (classes.clone(), storage.clone());
        async move { settle(protect(&classes, &storage, &key).await) }
    })
    .await;
}

async fn protect(classes: &Live, storage: &Storage, key: &Key) -> Result<Outcome> {
    let Some(class) = classes.get(key) else { return Ok(Outcome::Done) };
    let is_protected = class.metadata.finalizers.iter().flatten().any(|own| own == IN_USE);
    if class.deleting() {
        let is_used =
            [&storage.volumes, &storage.claims].iter().any(|live| live.all().iter().any(|object| names(object).contains(&key.name)));
        if !is_used {
            release(classes, &class, IN_USE).await?;
        }
    } else if !is_protected {
        let finalizers: Vec<&str> = class.metadata.finalizers.iter().flatten().map(String::as_str).chain([IN_USE]).collect();
        let meta = json!({"uid": class.uid(), "resourceVersion": class.metadata.resource_version, "finalizers": finalizers});
        classes.patch(key, "", &Patch::Merge(json!({"metadata": meta}))).await?;
    }
    Ok(Outcome::Done)
}

/// The classes that a claim or a volume names.
fn names(object: &DynamicObject) -> Vec<String> {
    NAMED.iter().map(|place| object.text(place)).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
