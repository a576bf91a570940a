//! A cluster in which an operator is installed, updated and removed again and again, and what is left after each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use mainstay_objects::ObjectRef;
use mainstay_oci::{BlobStore, Client as Registries, ClientConfig, ImageBuilder, Reference};
use mainstay_olm_classic::{catalog, olm};
use mainstay_runtime::{Cluster, Env};
use mainstay_testing::widgets::{Content, files};
use mainstay_testing_cluster::administrator;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::wire::{Fault, Wire};
use crate::catalog::bench::package;
use crate::support::{Api, csv_at, place};

/// One way through an operator's life, and what goes wrong on it.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub seed: u64,
    pub install: Fault,
    pub upgrade: Fault,
    pub removal: Fault,
}

/// The longest wait for an answer; a silent one costs a schedule that long.
const PATIENCE: Duration = Duration::from_secs(2);
const HOME: &str = "home";
const MARKET: &str = "openshift-marketplace";
const OLM: &str = "operators.coreos.com/v1alpha1";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The kinds that are looked at: group, version and kind.
const KINDS: [(&str, &str, &str); 16] = [
    ("operators.coreos.com", "v1alpha1", "Subscription"),
    ("operators.coreos.com", "v1alpha1", "InstallPlan"),
    ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion"),
    ("operators.coreos.com", "v2", "OperatorCondition"),
    ("operators.coreos.com", "v1", "OperatorGroup"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Service"),
    ("", "v1", "Secret"),
    (RBAC, "v1", "Role"),
    (RBAC, "v1", "RoleBinding"),
    (RBAC, "v1", "ClusterRole"),
    (RBAC, "v1", "ClusterRoleBinding"),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
];

pub struct World {
    pub api: Api,
    registry: String,
    folder: tempfile::TempDir,
    stop: CancellationToken,
    /// Processes that were started; each has a chance of its own.
    started: AtomicU64,
}

/// The two operators of one process.
struct Process {
    running: [tokio::task::JoinHandle<()>; 2],
    stop: CancellationToken,
}

impl Process {
    async fn end(self) {
        self.stop.cancel();
        for running in self.running {
            running.await.unwrap();
        }
    }

    /// Its tasks are dropped where they stand.
    async fn kill(self) {
        for running in self.running {
            running.abort();
            let _ = running.await;
        }
        self.stop.cancel();
    }

    /// Ends, or is killed where a last write after the goal is the one at which it is to be.
    async fn end_over(mut self, wire: &Wire) {
        self.stop.cancel();
        let [first, second] = &mut self.running;
        let ended = async {
            first.await.unwrap();
            second.await.unwrap();
        };
        tokio::select! {
            () = ended => {}
            () = wire.over.notified() => self.kill().await,
        }
    }
}

impl World {
    /// Catalog `v1` has widgets 1.0.0 with a ConfigMap that 1.1.0 of catalog `v2` does not have; both have a webhook.
    pub async fn start() -> Self {
        let (api, stop, folder) = (Api::bare().await, CancellationToken::new(), tempfile::tempdir().unwrap());
        let registry = mainstay_oci::registry::Registry::new(mainstay_oci::registry::Options::default()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stopped = stop.clone();
        tokio::spawn(registry.serve(listener, async move { stopped.cancelled().await }));
        let world = Self { api, registry: address, folder, stop, started: AtomicU64::default() };
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old"}, "data": {"a": "b"}});
        let mut images = Vec::new();
        for (version, more) in [("1.0.0", vec![config]), ("1.1.0", Vec::new())] {
            let content = Content { more, webhook: true, ..Content::default() };
            let files = files(version, &content).into_iter().map(|(path, text)| (path, text.into_bytes()));
            images.push((version, world.push(&format!("test/widgets:v{version}"), ImageBuilder::new().files(files)).await));
        }
        let images: Vec<(&str, &str)> = images.iter().map(|(version, image)| (*version, image.as_str())).collect();
        for (tag, known) in [("v1", &images[..1]), ("v2", &images[..])] {
            let text = package("widgets", known).iter().fold(String::new(), |text, blob| text + &blob.to_string() + "\n");
            let image = ImageBuilder::new()
                .file("configs/catalog.json", text.into_bytes())
                .label("operators.operatorframework.io.index.configs.v1", "/configs");
            world.push(&format!("test/catalog:{tag}"), image).await;
        }
        world.api.namespace(HOME, json!({})).await;
        world
    }

    async fn push(&self, name: &str, builder: ImageBuilder) -> String {
        let store = BlobStore::open(self.folder.path().join("push")).unwrap();
        let image = builder.build(&store).unwrap();
        let reference = format!("{}/{name}", self.registry);
        let parsed = Reference::parse(&reference).unwrap();
        Registries::new(ClientConfig::default()).unwrap().push(&image, &store, &parsed).await.unwrap();
        format!("{}@{}", parsed.name(), image.digest.as_str())
    }

    /// Goes through a life with these faults. What is left after install, upgrade and removal is waited for if it is known, and returned.
    pub async fn run(&self, schedule: &Schedule, wanted: Option<&[Vec<Value>; 3]>) -> [Vec<Value>; 3] {
        let wanted = |stage: usize| wanted.map(|all| &all[stage]);
        self.catalog("v1").await;
        self.api.group(HOME, "group", json!({})).await;
        let spec = json!({"name": "widgets", "channel": "stable", "source": "test", "sourceNamespace": MARKET});
        self.api
            .apply(json!({"apiVersion": OLM, "kind": "Subscription", "metadata": {"name": "widgets", "namespace": HOME}, "spec": spec}))
            .await;
        let installed = self.change(schedule.install, schedule.seed, wanted(0), &|left| reached(left, "widgets.v1.0.0")).await;
        self.catalog("v2").await;
        let upgraded = self.change(schedule.upgrade, schedule.seed, wanted(1), &|left| reached(left, "widgets.v1.1.0")).await;
        self.api.delete(&place(OLM, "Subscription", HOME, "widgets")).await;
        self.api.delete(&csv_at(HOME, "widgets.v1.1.0")).await;
        let gone =
            |left: &[Value]| !left.iter().any(|object| ["ClusterServiceVersion", "Deployment"].iter().any(|kind| object["kind"] == *kind));
        let removed = self.change(schedule.removal, schedule.seed, wanted(2), &gone).await;
        self.clean().await;
        [installed, upgraded, removed]
    }

    async fn catalog(&self, tag: &str) {
        let spec = json!({"sourceType": "grpc", "image": format!("{}/test/catalog:{tag}", self.registry)});
        self.api
            .apply(json!({"apiVersion": OLM, "kind": "CatalogSource", "metadata": {"name": "test", "namespace": MARKET}, "spec": spec}))
            .await;
    }

    /// Removes what an operator leaves, so that the next life begins as this one.
    async fn clean(&self) {
        let objects = self.objects().await;
        let left = objects
            .iter()
            .filter(|object| ["InstallPlan", "OperatorGroup", "CustomResourceDefinition"].iter().any(|kind| object["kind"] == *kind));
        let mut places: Vec<ObjectRef> = left.map(|object| ObjectRef::of(object).unwrap()).collect();
        places.push(place(OLM, "CatalogSource", MARKET, "test"));
        for at in &places {
            self.api.patch(at, json!({"metadata": {"finalizers": null}})).await;
            self.api.delete(at).await;
        }
        for at in &places {
            self.api.gone(at).await;
        }
    }

    /// Runs the operators with a fault until the goal is reached. One that is killed or replaced is followed by another.
    async fn change(&self, fault: Fault, seed: u64, wanted: Option<&Vec<Value>>, goal: &(dyn Fn(&[Value]) -> bool + Sync)) -> Vec<Value> {
        let wire = Wire::new(fault);
        let first = self.process(Some(&wire), seed);
        let over = tokio::select! {
            () = wire.over.notified() => true,
            _ = self.settled(wanted, goal) => false,
        };
        if !over {
            first.end_over(&wire).await;
            let next = self.process(None, seed);
            let left = self.settled(wanted, goal).await;
            next.end().await;
            return left;
        }
        let mut first = Some(first);
        if !matches!(fault, Fault::Replaced { .. }) {
            first.take().unwrap().kill().await;
        }
        let second = self.process(None, seed);
        let left = self.settled(wanted, goal).await;
        second.end().await;
        let Some(first) = first else { return left };
        // The writes of the old leader arrive now; then it notices that it is none any more.
        wire.release();
        first.end().await;
        let third = self.process(None, seed);
        let left = self.settled(wanted, goal).await;
        third.end().await;
        left
    }

    /// Waits until what is left is what is wanted; where that is not known, until the goal is reached and nothing changes for a while.
    async fn settled(&self, wanted: Option<&Vec<Value>>, goal: &(dyn Fn(&[Value]) -> bool + Sync)) -> Vec<Value> {
        let (mut last, mut same) = (Vec::new(), 0);
        for _ in 0..1_200 {
            let left = normal(self.objects().await);
            same = if left == last && goal(&left) { same + 1 } else { 0 };
            let as_wanted = wanted.is_none_or(|wanted| left == *wanted);
            if as_wanted && same >= if wanted.is_some() { 2 } else { 30 } {
                return left;
            }
            last = left;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let Some(wanted) = wanted else { panic!("the goal is not reached: {last:#?}") };
        let text = |all: &[Value]| all.iter().map(Value::to_string).collect::<std::collections::BTreeSet<_>>();
        let (found, known) = (text(&last), text(wanted));
        panic!("found: {:#?}\nwanted: {:#?}", found.difference(&known).collect::<Vec<_>>(), known.difference(&found).collect::<Vec<_>>());
    }

    /// The objects of the namespace, and those of the whole cluster that belong to its operators.
    async fn objects(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for (group, version, kind) in KINDS {
            let found = self.api.admin.list(&kube::api::GroupVersionKind::gvk(group, version, kind), 10_000).await.unwrap();
            let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            all.extend(found.into_iter().filter(is_ours).map(|mut object| {
                object["apiVersion"] = json!(api_version);
                object["kind"] = json!(kind);
                object
            }));
        }
        all
    }

    fn process(&self, wire: Option<&Wire>, seed: u64) -> Process {
        let router = self.api.router();
        let over = |router: Router| wire.map_or_else(|| router.clone(), |wire| wire.over(router.clone()));
        let cluster = Cluster::Embedded { router: over(router), identity: administrator }.answering_within(PATIENCE);
        let chance = (seed << 32) | self.started.fetch_add(1, Ordering::SeqCst);
        let env = Env::new(Right, chance);
        let stop = CancellationToken::new();
        let (cache, own, settings, until): (PathBuf, _, _, _) =
            (self.folder.path().join("cache"), cluster.clone(), env.clone(), stop.clone());
        let catalog = tokio::spawn(async move {
            // What a killed process was doing on a thread for blocking work goes on, as a real kill would not have it.
            for _ in 0..1_000 {
                let mut setup = catalog::Setup::new(own.clone(), settings.clone(), cache.clone(), ClientConfig::default());
                setup.retry_for = Duration::from_secs(600);
                match catalog::run(setup, until.clone()).await {
                    Ok(()) => return,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            panic!("the catalog operator does not start");
        });
        let until = stop.clone();
        let olm = tokio::spawn(async move { olm::run(olm::Setup::new(cluster, env), until).await.unwrap() });
        Process { running: [catalog, olm], stop }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.api.close().await;
    }
}

struct Right;

impl mainstay_runtime::Clock for Right {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }
}

fn is_ours(object: &Value) -> bool {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => namespace == HOME && metadata["name"] != "default" && metadata["name"] != "kube-root-ca.crt",
        None => {
            metadata["labels"]["olm.owner.namespace"] == HOME
                || metadata["name"].as_str().is_some_and(|name| name.starts_with("widgets.example.com"))
        }
    }
}

/// Returns whether a version is installed, and nothing of another one.
fn reached(left: &[Value], csv: &str) -> bool {
    let of = |kind: &str| left.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
    let (subscriptions, csvs, plans) = (of("Subscription"), of("ClusterServiceVersion"), of("InstallPlan"));
    let [subscription] = subscriptions.as_slice() else { return false };
    let [only] = csvs.as_slice() else { return false };
    subscription["status"]["state"] == "AtLatestKnown"
        && subscription["status"]["installedCSV"] == csv
        && only["metadata"]["name"] == csv
        && only["status"]["phase"] == "Succeeded"
        && plans.iter().all(|plan| plan["status"]["phase"] == "Complete")
}

/// Objects without what the server stamps, and without what chance and the way here decide: names and generations of plans, certificates, histories.
fn normal(objects: Vec<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = objects.into_iter().map(normal_one).collect();
    all.sort_by_key(|object| format!("{} {} {}", object["kind"], object["metadata"]["name"], object));
    all
}

fn normal_one(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "generateName"] {
            metadata.remove(field);
        }
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        if let Some(owners) = owners {
            for owner in owners.iter_mut() {
                owner["uid"] = Value::Null;
            }
            owners.sort_by_key(Value::to_string);
        }
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|key, _| !key.starts_with("olm.operatorgroup.uid/"));
        }
    }
    let status = object["status"].clone();
    let told =
        |fields: &[&str]| fields.iter().map(|field| ((*field).to_owned(), status[*field].clone())).collect::<serde_json::Map<_, _>>();
    match kind.as_str() {
        "Subscription" => {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let mut conditions: Vec<Value> =
                conditions.map(|each| json!([each["type"], each["status"], each["reason"], each["message"]])).collect();
            conditions.sort_by_key(Value::to_string);
            object["status"] = Value::Object(told(&["state", "currentCSV", "installedCSV"]));
            object["status"]["conditions"] = json!(conditions);
        }
        "InstallPlan" => {
            let steps = status["plan"].as_array().into_iter().flatten();
            let done = |step: &Value| matches!(step["status"].as_str(), Some("Created" | "Present"));
            let steps: Vec<Value> = steps.map(|step| json!([step["resource"]["kind"], step["resource"]["name"], done(step)])).collect();
            object = json!({"kind": kind, "metadata": {"ownerReferences": object["metadata"]["ownerReferences"], "labels": object["metadata"]["labels"]},
                "apiVersion": object["apiVersion"],
                "csvs": object["spec"]["clusterServiceVersionNames"], "status": {"phase": status["phase"], "steps": steps}});
        }
        "ClusterServiceVersion" => {
            object["status"] = Value::Object(told(&["phase", "reason", "message"]));
            for requirement in status["requirementStatus"].as_array().into_iter().flatten() {
                object["status"][format!("{} {}", requirement["kind"], requirement["name"])] = requirement["status"].clone();
            }
        }
        "OperatorGroup" => object["status"] = json!({"namespaces": status["namespaces"]}),
        "Deployment" => {
            object["status"] = json!({"ready": status["readyReplicas"]});
            if let Some(all) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                all.remove("deployment.kubernetes.io/revision");
            }
            if let Some(all) = object.pointer_mut("/spec/template/metadata/annotations").and_then(Value::as_object_mut)
                && all.contains_key("olmcahash")
            {
                all.insert("olmcahash".to_owned(), json!("a hash"));
            }
            if let Some(label) = object.pointer_mut("/metadata/labels/olm.deployment-spec-hash") {
                // The certificate is part of it.
                *label = json!("a hash");
            }
        }
        "Secret" => {
            let keys: Vec<String> = object["data"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
            object["data"] = json!(keys);
            if let Some(all) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
                all.remove("olmcahash");
            }
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs"] {
                object["spec"][field] = Value::Null;
            }
        }
        "ValidatingWebhookConfiguration" => {
            object["metadata"]["name"] = json!("a name");
            object["webhooks"][0]["clientConfig"]["caBundle"] = json!("a certificate");
        }
        "CustomResourceDefinition" => drop(object.as_object_mut().unwrap().remove("status")),
        _ => {}
    }
    object
}
