//! A cluster with an extension that is installed, upgraded and removed again and again, and what is left after each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay_api::lifecycle::ON_DELETE;
use mainstay_objects::{ObjectRef, Patch};
use mainstay_oci::{ClientConfig, ImageBuilder};
use mainstay_olm_v1_core::extension::plan::FINALIZERS;
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL};
use mainstay_testing::widgets::{Content, files};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::process::{Clocks, Process, chain, env};
use super::wire::{Fault, Wire};
use crate::support::{
    Api, SYSTEM, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, place, registry, setup,
};

/// One way through an extension's life, and what goes wrong on it.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub seed: u64,
    pub install: Fault,
    pub upgrade: Fault,
    pub removal: Fault,
    /// Whether everything is to stay when the extension is removed.
    pub stays: bool,
    /// The clocks of the two processes of each change.
    pub clocks: [Clocks; 2],
}

/// Everything that a change leaves, without what differs from run to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    pub objects: Vec<Value>,
    pub records: Vec<Value>,
    pub extension: Value,
}

/// How long an answer is waited for; a silent one costs a schedule that long.
pub const PATIENCE: Duration = Duration::from_secs(2);

pub struct World {
    pub api: Api,
    stop: CancellationToken,
    /// Processes that were started. Each has a chance of its own, since the names of events come from it.
    started: AtomicU64,
}

const OWNED: [(&str, &str, &str); 6] = [
    ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ("/api/v1/configmaps", "v1", "ConfigMap"),
    ("/api/v1/serviceaccounts", "v1", "ServiceAccount"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

impl World {
    /// The catalog has 1.0.0 with a ConfigMap that 1.1.0 does not have, and the account may do everything.
    pub async fn start() -> Self {
        let (api, stop) = (Api::start().await, CancellationToken::new());
        let (_, address) = registry(mainstay_oci::registry::Options::default(), &stop).await;
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}, "data": {"a": "b"}});
        let old = Content { more: vec![config], ..Content::default() };
        let mut bundles = Vec::new();
        for (version, content) in [("1.0.0", old), ("1.1.0", Content::default())] {
            let files = files(version, &content).into_iter().map(|(path, text)| (path, text.into_bytes()));
            let image =
                api.push(ClientConfig::default(), &format!("{address}/test/widgets:v{version}"), ImageBuilder::new().files(files)).await;
            bundles.push((version, format!("{address}/test/widgets@{}", image.digest.as_str())));
        }
        let bundles: Vec<(&str, &str)> = bundles.iter().map(|(version, image)| (*version, image.as_str())).collect();
        let reference = format!("{address}/test/catalog:latest");
        api.push(ClientConfig::default(), &reference, catalog_image(&catalog_text("widgets", &bundles))).await;
        api.apply(catalog_object("test", &reference)).await;
        api.installer().await;
        Self { api, stop, started: AtomicU64::default() }
    }

    /// Goes through a life with these faults; what is left after install, upgrade and removal.
    pub async fn run(&self, schedule: &Schedule) -> [Left; 3] {
        self.request("1.0.0", schedule).await;
        self.change(schedule.install, schedule, &|found| reached(found, "1.0.0")).await;
        let installed = self.left().await;
        self.request("1.1.0", schedule).await;
        self.change(schedule.upgrade, schedule, &|found| reached(found, "1.1.0")).await;
        let upgraded = self.left().await;
        self.api.delete(&extension("widgets")).await;
        self.change(schedule.removal, schedule, &Value::is_null).await;
        let removed = self.left().await;
        self.collected().await;
        [installed, upgraded, removed]
    }

    /// Does what the garbage collector would do.
    async fn collected(&self) {
        for object in self.owned().await {
            let target = place_of(&object);
            self.api.delete(&target).await;
            self.api.gone(&target).await;
        }
        for record in self.list(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), "owner%3Doperator-controller").await {
            self.api.delete(&place("v1", "Secret", SYSTEM, record["metadata"]["name"].as_str().unwrap())).await;
        }
    }

    /// A leader is replaced at this write of the installation, and another version is wanted then: what the first one writes late is not of
    /// that version. What is left after the next reconcile.
    pub async fn overtaken(&self, at: usize) -> Left {
        let schedule = Schedule {
            seed: at as u64,
            install: Fault::None,
            upgrade: Fault::None,
            removal: Fault::None,
            stays: false,
            clocks: [Clocks::RIGHT; 2],
        };
        let target = extension("widgets");
        self.request("1.0.0", &schedule).await;
        let wire = Wire::new(Fault::Replaced { at });
        let first = self.controllers(Some(&wire), 2, &schedule);
        tokio::select! {
            () = wire.over.notified() => {}
            _ = self.api.until(&target, |found| reached(found, "1.0.0")) => {}
        }
        self.request("1.1.0", &schedule).await;
        let second = self.controllers(None, 2, &schedule);
        let found = self.api.until(&target, |found| reached(found, "1.1.0")).await;
        wire.release();
        first.end().await;
        second.end().await;
        let third = self.controllers(None, 2, &schedule);
        self.settled(&found, &|found| reached(found, "1.1.0")).await;
        third.end().await;
        let left = self.left().await;
        self.api.delete(&target).await;
        self.change(Fault::None, &schedule, &Value::is_null).await;
        self.collected().await;
        left
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.api.close().await;
    }

    async fn request(&self, version: &str, schedule: &Schedule) {
        let mut object = extension_object("widgets", "widgets", "work");
        if schedule.stays {
            object["metadata"]["annotations"] = json!({ON_DELETE: "Orphan"});
        }
        object["spec"]["source"]["catalog"]["version"] = json!(version);
        self.api.apply(object).await;
    }

    /// Runs the controllers with a fault until the goal is reached. One that is killed or replaced is followed by another; the goal holds
    /// after the last of them has looked once more.
    async fn change(&self, fault: Fault, schedule: &Schedule, goal: &(dyn Fn(&Value) -> bool + Sync)) {
        let target = extension("widgets");
        let start = |wire: Option<&Wire>, number: usize| self.controllers(wire, number, schedule);
        let reached = || async {
            self.api.until(&target, goal).await;
        };
        if !chain(fault, start, reached).await {
            return;
        }
        // The next reconcile.
        let third = start(None, 2);
        if let Some(found) = self.api.get(&target).await {
            let looked = json!({"metadata": {"annotations": {"example.com/look": schedule.seed.to_string()}}});
            self.api.admin.patch(&target, "", &Patch::Merge(looked)).await.unwrap();
            self.settled(&found, goal).await;
        }
        third.end().await;
    }

    /// Waits until one deployed record is left beside superseded ones, and the objects are those of it: what the next reconcile sees to.
    async fn settled(&self, found: &Value, goal: &(dyn Fn(&Value) -> bool + Sync)) {
        let mut last = String::new();
        for _ in 0..12_000 {
            let now = self.api.get(&extension("widgets")).await.unwrap_or_default();
            let records = self.records(found["metadata"]["uid"].as_str().unwrap()).await;
            let state = |record: &Value| record["state"].as_str().unwrap_or_default().to_owned();
            // What an overtaken process left open is older than what counts.
            let ended = records.last().is_some_and(|last| state(last) == "Deployed");
            let deployed = records.iter().filter(|record| state(record) == "Deployed").count();
            if goal(&now) && ended && deployed == 1 && self.as_recorded(&records).await {
                return;
            }
            let states: Vec<String> = records.iter().map(|record| format!("{} {}", record["number"], state(record))).collect();
            let live: Vec<String> = self.owned().await.iter().map(|object| place_of(object).to_string()).collect();
            last = format!("goal: {}\nrecords: {states:?}\nlive: {live:?}\n{:#}", goal(&now), now["status"]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the next reconcile did not mend it\n{last}");
    }

    async fn as_recorded(&self, records: &[Value]) -> bool {
        let Some(deployed) = records.iter().find(|record| record["state"] == "Deployed") else { return false };
        let mut wanted: Vec<String> = deployed["objects"].as_array().unwrap().iter().map(|object| place_of(object).to_string()).collect();
        let live = self.owned().await;
        let mut found: Vec<String> = live.iter().map(|object| place_of(object).to_string()).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        let image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        let images = |objects: &[Value]| objects.iter().map(image).filter(|image| !image.is_null()).collect::<Vec<_>>();
        wanted == found && images(&live) == images(deployed["objects"].as_array().unwrap())
    }

    /// The controllers of a process that follows so many others, on a wire if need be. A third one has a right clock.
    fn controllers(&self, wire: Option<&Wire>, number: usize, schedule: &Schedule) -> Process {
        let router = self.api.server.router();
        let process = self.started.fetch_add(1, Ordering::SeqCst);
        let clocks = schedule.clocks.get(number).copied().unwrap_or(Clocks::RIGHT);
        Process::start(|| {
            let mut settings = setup(&self.api, wire.map_or_else(|| router.clone(), |wire| wire.over(router.clone())));
            settings.operator_controller = settings.operator_controller.answering_within(PATIENCE);
            settings.env = env(clocks, (schedule.seed << 32) | process);
            settings
        })
    }

    async fn list(&self, path: &str, selector: &str) -> Vec<Value> {
        let request = axum::http::Request::get(format!("{path}?labelSelector={selector}")).body(Vec::new()).unwrap();
        let list: Value = self.api.admin.client().request(request).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    async fn owned(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for (path, api_version, kind) in OWNED {
            for mut object in self.list(path, "olm.operatorframework.io%2Fowner-name%3Dwidgets").await {
                object["apiVersion"] = json!(api_version);
                object["kind"] = json!(kind);
                found.push(object);
            }
        }
        found
    }

    async fn records(&self, uid: &str) -> Vec<Value> {
        let selector = format!("{}%3D{uid}", EXTENSION_LABEL.replace('/', "%2F"));
        let secrets = self.list(&format!("/api/v1/namespaces/{SYSTEM}/secrets"), &selector).await;
        let secrets: Vec<_> = secrets.into_iter().map(|secret| serde_json::from_value(secret).unwrap()).collect();
        let history = record::read(&secrets).unwrap();
        let record = |revision: &mainstay_lifecycle::revision::Revision| {
            let bundle = &revision.record.bundle;
            json!({"number": revision.number, "state": format!("{:?}", revision.state), "version": bundle.version,
                "reference": bundle.reference, "objects": revision.record.objects.iter().cloned().map(normal).collect::<Vec<_>>()})
        };
        history.revisions.iter().map(record).collect()
    }

    async fn left(&self) -> Left {
        let found = self.api.get(&extension("widgets")).await.unwrap_or_default();
        let records = match found["metadata"]["uid"].as_str() {
            Some(uid) => self.records(uid).await,
            None => Vec::new(),
        };
        let mut conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for condition in &mut conditions {
            let fresh = condition["observedGeneration"] == found["metadata"]["generation"];
            condition["observedGeneration"] = json!(if fresh { "the present one" } else { "an old one" });
            condition["lastTransitionTime"] = Value::Null;
        }
        // A list by type: their order says when each was first set.
        conditions.sort_by_key(|condition| condition["type"].to_string());
        let left = json!({"conditions": conditions, "install": found["status"]["install"], "finalizers": found["metadata"]["finalizers"],
            "labels": found["metadata"]["labels"], "spec": found["spec"]});
        let objects = self.owned().await.into_iter().map(normal).collect();
        Left { objects, records, extension: left }
    }
}

fn reached(found: &Value, version: &str) -> bool {
    let progressing = condition(found, "Progressing");
    found["status"]["install"]["bundle"]["version"] == version
        && progressing["reason"] == "Succeeded"
        && progressing["observedGeneration"] == found["metadata"]["generation"]
        && found["metadata"]["finalizers"] == json!(FINALIZERS)
}

pub fn place_of(object: &Value) -> ObjectRef {
    ObjectRef::of(object).unwrap()
}

/// An object without what the server counts and stamps.
fn normal(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(field);
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = Value::Null;
        }
    }
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    object
}
