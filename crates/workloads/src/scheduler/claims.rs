//! The claims of a pod as limits of where it fits (KAPI-WL-02).

use kube::api::DynamicObject;
use mainstay_runtime::Key;
use serde_json::Value;

use super::plan::Incoming;
use crate::object::{Object, Read as _};
use crate::volumes::Storage;
use crate::volumes::plan::claims_of;

/// Claims, volumes and classes, as decisions look them up.
pub trait Claims {
    /// Returns a PersistentVolumeClaim.
    fn claim(&self, key: &Key) -> Option<Object>;
    /// Returns a PersistentVolume.
    fn volume(&self, name: &str) -> Option<Object>;
    /// Returns the StorageClass of a claim.
    fn class_of(&self, claim: &DynamicObject) -> Option<Object>;
}

impl Claims for Storage {
    fn claim(&self, key: &Key) -> Option<Object> {
        self.claims.get(key)
    }

    fn volume(&self, name: &str) -> Option<Object> {
        self.volumes.get(&Key::new("", name))
    }

    fn class_of(&self, claim: &DynamicObject) -> Option<Object> {
        Self::class_of(self, claim)
    }
}

/// Returns a pod with what its claims demand, and the claims that wait for its node.
pub fn incoming<'a>(pod: &'a Object, storage: &dyn Claims) -> (Incoming<'a>, Vec<Object>) {
    let mut incoming = Incoming { pod, problem: None, volumes: Vec::new() };
    let mut delayed = Vec::new();
    for name in claims_of(pod) {
        let Some(claim) = storage.claim(&Key::new(pod.namespace(), &name)) else {
            incoming.problem = Some(format!("persistentvolumeclaim {name:?} not found"));
            break;
        };
        if claim.deleting() {
            incoming.problem = Some(format!("persistentvolumeclaim {name:?} is being deleted"));
            break;
        }
        if claim.text("/status/phase") == "Bound" {
            let volume = storage.volume(claim.text("/spec/volumeName"));
            let affinity = volume.map(|volume| volume.at("/spec/nodeAffinity/required").clone());
            incoming.volumes.extend(affinity.filter(Value::is_object));
        } else if claim.text("/status/phase") == "Lost" {
            incoming.problem =
                Some(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}", claim.text("/spec/volumeName")));
        } else if storage.class_of(&claim).is_some_and(|class| class.text("/volumeBindingMode") == "WaitForFirstConsumer") {
            delayed.push(claim);
        } else {
            incoming.problem = Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    (incoming, delayed)
}
