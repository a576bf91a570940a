//! PersistentVolumes and their claims: they are bound to each other, created by the simulated provisioner, and released when unused
//! (KAPI-WL-01).

mod attributes;
pub mod plan;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::plan::{ForClaim, ForVolume, claims_of};
use crate::Result;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, items};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const COMPONENT: &str = "persistentvolume-controller";
const PROVISIONING: &str = plan::PROVISIONER;
const CLAIM_IN_USE: &str = "kubernetes.io/pvc-protection";
const VOLUME_IN_USE: &str = "kubernetes.io/pv-protection";

/// The kinds of storage, which the scheduler follows too.
#[derive(Clone)]
pub struct Storage {
    /// PersistentVolumeClaims.
    pub claims: Live,
    /// PersistentVolumes.
    pub volumes: Live,
    /// StorageClasses.
    pub classes: Live,
}

impl Storage {
    /// Starts to follow these kinds.
    pub fn follow(world: &World) -> Self {
        Self {
            claims: world.follow("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true),
            volumes: world.follow("v1", "PersistentVolume", "persistentvolumes", false),
            classes: world.follow("storage.k8s.io/v1", "StorageClass", "storageclasses", false),
        }
    }

    /// Waits until all of them have been listed.
    pub async fn ready(&self) {
        for live in [&self.claims, &self.volumes, &self.classes] {
            live.ready().await;
        }
    }

    /// Returns the class of a claim.
    pub fn class_of(&self, claim: &DynamicObject) -> Option<Object> {
        self.classes.get(&Key::new("", plan::class(claim)))
    }
}

#[derive(Clone)]
struct Controller {
    world: World,
    storage: Storage,
}

/// Runs the controllers of claims, of volumes, of classes of attributes, and of the ephemeral claims of pods.
pub async fn run(world: World, storage: Storage) {
    storage.ready().await;
    world.pods.ready().await;
    let (claims, volumes, pods): (Queue<Key>, Queue<Key>, Queue<Key>) = Default::default();
    wake_self(&storage.claims, &claims);
    wake_self(&storage.volumes, &volumes);
    let (wake, known) = (volumes.clone(), storage.volumes.clone());
    storage.claims.on_change(move |change| {
        let named = change.object().map(|claim| claim.text("/spec/volumeName").to_owned()).filter(|name| !name.is_empty());
        if let Some(name) = named {
            wake.add(Key::new("", name));
        } else if let Some(gone) = change.before.as_ref().filter(|_| change.now.is_none()) {
            let of = |volume: &&Object| volume.text("/spec/claimRef/uid") == gone.uid();
            known.all().iter().filter(of).for_each(|volume| wake.add(Key::of(volume)));
        }
    });
    for live in [&storage.volumes, &storage.classes] {
        // A claim that is not bound yet may match now.
        let (wake, all) = (claims.clone(), storage.claims.clone());
        live.on_change(move |change| {
            let before = change.before.as_ref().map(|before| before.at("/spec"));
            if before == change.now.as_ref().map(|now| now.at("/spec")) && before.is_some_and(|spec| !spec.is_null()) {
                return;
            }
            all.all()
                .iter()
                .filter(|claim| claim.text("/status/phase") != "Bound" || change.now.is_none())
                .for_each(|claim| wake.add(Key::of(claim)));
        });
    }
    let (wake, mine) = (claims.clone(), pods.clone());
    world.pods.on_change(move |change| {
        let Some(pod) = change.object().filter(|pod| items(pod, "/spec/volumes").next().is_some()) else { return };
        if change.now.as_ref().is_none_or(|pod| pod::finished(pod)) {
            // The last pod that uses the claim may be gone.
            for name in claims_of(pod) {
                wake.add(Key::new(pod.namespace(), name));
            }
        } else if items(pod, "/spec/volumes").any(|volume| volume["ephemeral"].is_object()) {
            mine.add(Key::of(pod));
        }
    });
    let classes = attributes::run(world.clone(), storage.clone());
    let controller = Controller { world: world.clone(), storage };
    let (of_claims, of_volumes, of_pods) = (controller.clone(), controller.clone(), controller);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    tokio::join!(
        classes,
        mainstay_runtime::run("persistentvolume-binder", claims, 2, env.clone(), stop.clone(), move |key| {
            let controller = of_claims.clone();
            async move { settle(controller.claim(&key).await) }
        }),
        mainstay_runtime::run("persistentvolume", volumes, 2, env.clone(), stop.clone(), move |key| {
            let controller = of_volumes.clone();
            async move { settle(controller.volume(&key).await) }
        }),
        mainstay_runtime::run("ephemeral-volume", pods, 1, env, stop, move |key| {
            let controller = of_pods.clone();
            async move { settle(controller.bring(&key).await) }
        }),
    );
}

impl Controller {
    async fn claim(&self, key: &Key) -> Result<Outcome> {
        let Some(claim) = self.storage.claims.get(key) else { return Ok(Outcome::Done) };
        if claim.deleting() {
            if !self.in_use(&claim) {
                release(&self.storage.claims, &claim, CLAIM_IN_USE).await?;
            }
            return Ok(Outcome::Done);
        }
        let class = self.storage.class_of(&claim);
        match plan::claim(&claim, &self.storage.volumes.all(), class.as_deref()) {
            ForClaim::Wait(phase, event) => {
                if claim.text("/status/phase") != phase {
                    let mut status = claim.at("/status").as_object().cloned().unwrap_or_default();
                    status.insert("phase".into(), json!(phase));
                    self.storage.claims.write_status(&claim, &Value::Object(status)).await?;
                }
                if let Some(event) = event {
                    self.world.events.tell(COMPONENT, self.storage.claims.served(), &claim, event);
                }
            }
            ForClaim::Ask(annotations, event) => {
                if annotations.iter().any(|(key, value)| claim.annotation(key) != value.as_str()) {
                    let patch = Patch::Merge(json!({"metadata": {"uid": claim.uid(), "annotations": annotations}}));
                    self.storage.claims.patch(key, "", &patch).await?;
                }
                self.world.events.tell(COMPONENT, self.storage.claims.served(), &claim, event);
            }
            ForClaim::Provision(body) => {
                let events = &self.world.events;
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let served = self.storage.claims.served();
                let message = format!("External provisioner is provisioning volume for claim \"{key}\"");
                events.record(PROVISIONING, "Normal", served, &claim, "Provisioning", message);
                self.storage.volumes.create("", &body).await?;
                let message = format!("Successfully provisioned volume {name}");
                events.record(PROVISIONING, "Normal", served, &claim, "ProvisioningSucceeded", message);
            }
            ForClaim::Bind(volume) => self.bind(key, &claim, &volume).await?,
        }
        Ok(Outcome::Done)
    }

    /// Binds first the volume, then the claim, so that a claim never names a volume that another claim could get.
    async fn bind(&self, key: &Key, claim: &Object, volume: &Object) -> Result<()> {
        let mut current = DynamicObject::clone(volume);
        if let Some(patch) = plan::bind_volume(volume, claim) {
            current = self.storage.volumes.patch(&Key::of(volume), "", &Patch::Merge(patch)).await?;
        }
        let mut own = DynamicObject::clone(claim);
        if let Some(patch) = plan::bind_claim(claim, &current) {
            own = self.storage.claims.patch(key, "", &Patch::Merge(patch)).await?;
        }
        let status = plan::bound_status(&own, &current);
        if *own.at("/status") != status {
            self.storage.claims.write_status(&own, &status).await?;
        }
        Ok(())
    }

    /// Returns true if a pod that has not ended uses the claim.
    fn in_use(&self, claim: &DynamicObject) -> bool {
        let pods = self.world.pods.in_namespace(claim.namespace());
        pods.iter().any(|pod| {
            !pod::finished(pod) && !pod.text("/spec/nodeName").is_empty() && claims_of(pod).iter().any(|name| name == claim.name())
        })
    }

    async fn volume(&self, key: &Key) -> Result<Outcome> {
        let Some(volume) = self.storage.volumes.get(key) else { return Ok(Outcome::Done) };
        let claims = |namespace: &str, name: &str| self.storage.claims.get(&Key::new(namespace, name));
        match plan::volume(&volume, claims) {
            ForVolume::Delete => {
                if !volume.deleting() {
                    self.storage.volumes.delete(key, &Delete::uid(volume.uid())).await?;
                }
                if let Some(volume) = self.storage.volumes.get(key) {
                    release(&self.storage.volumes, &volume, VOLUME_IN_USE).await?;
                }
            }
            ForVolume::Phase(phase, event) => {
                if volume.deleting() && phase != "Bound" {
                    release(&self.storage.volumes, &volume, VOLUME_IN_USE).await?;
                    return Ok(Outcome::Done);
                }
                if volume.text("/status/phase") != phase {
                    let mut status = json!({"phase": phase});
                    if let Some(event) = &event {
                        status["message"] = json!(event.message);
                    }
                    self.storage.volumes.write_status(&volume, &status).await?;
                    if let Some(event) = event {
                        self.world.events.tell(COMPONENT, self.storage.volumes.served(), &volume, event);
                    }
                }
            }
        }
        Ok(Outcome::Done)
    }

    /// Creates the ephemeral claims of a pod.
    async fn bring(&self, key: &Key) -> Result<Outcome> {
        let Some(pod) = self.world.pods.get(key).filter(|pod| !pod.deleting()) else { return Ok(Outcome::Done) };
        for volume in items(&pod, "/spec/volumes").filter(|volume| volume["ephemeral"].is_object()) {
            let name = format!("{}-{}", pod.name(), volume["name"].as_str().unwrap_or_default());
            let place = Key::new(&key.namespace, &name);
            if self.storage.claims.get(&place).is_some() {
                continue;
            }
            let template = &volume["ephemeral"]["volumeClaimTemplate"];
            let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
            metadata.insert("name".into(), json!(name));
            metadata.insert("namespace".into(), json!(key.namespace));
            metadata.insert("ownerReferences".into(), json!([controller_reference("v1", "Pod", &pod)]));
            self.storage.claims.create(&key.namespace, &json!({"metadata": metadata, "spec": template["spec"]})).await?;
        }
        Ok(Outcome::Done)
    }
}

/// Removes a finalizer.
async fn release(live: &Live, object: &DynamicObject, finalizer: &str) -> Result<()> {
    let present: Vec<&String> = object.metadata.finalizers.iter().flatten().collect();
    if !present.iter().any(|own| *own == finalizer) {
        return Ok(());
    }
    let rest: Vec<&String> = present.into_iter().filter(|own| *own != finalizer).collect();
    let meta = json!({"uid": object.uid(), "resourceVersion": object.metadata.resource_version, "finalizers": rest});
    match live.api().patch(live.served(), &Key::of(object), "", &Patch::Merge(json!({"metadata": meta}))).await {
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}
