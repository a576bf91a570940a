//! An API server with the definitions of OLM classic, a registry, and the catalog operator.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;
use mainstay_apiserver::Server;
use mainstay_apply::{Reason, Writer};
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_oci::{BlobStore, Client as Registries, ClientConfig, ImageBuilder, Reference};
use mainstay_olm_classic::catalog::{self, PodImages, Setup};
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::{EmbeddedCluster, administrator};
use mainstay_workloads::{ImagePuller, PullError, Pulled};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const GROUP: &str = "operators.coreos.com";

/// The pulls of simulated kubelets, as `mainstay up` has them.
struct Puller(PodImages);

#[async_trait]
impl ImagePuller for Puller {
    fn pulls(&self, pod: &DynamicObject, container: &Value) -> bool {
        PodImages::concerns(&json!(pod), container["name"].as_str().unwrap())
    }

    async fn pull(&self, pod: &DynamicObject, container: &Value) -> Result<Pulled, PullError> {
        let image = container["image"].as_str().unwrap();
        let pulled = self.0.pull(&json!(pod), container["name"].as_str().unwrap(), image).await?;
        Ok(Pulled { id: format!("{image}@{}", pulled.digest), problem: pulled.problem })
    }

    fn works(&self, pod: &DynamicObject, container: &Value) -> bool {
        PodImages::works(&json!(pod), container["name"].as_str().unwrap())
    }

    async fn work(&self, pod: &DynamicObject, container: &Value) -> Result<(), PullError> {
        Ok(self.0.work(&json!(pod), container["name"].as_str().unwrap()).await?)
    }
}

pub struct Bench {
    pub admin: Writer,
    pub registry: String,
    /// Clock, randomness and metrics of the operator.
    pub env: Env,
    server: Server,
    folder: tempfile::TempDir,
    stop: CancellationToken,
    registry_stop: CancellationToken,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Bench {
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// The operator with other settings.
    pub async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let registry_stop = CancellationToken::new();
        let registry = mainstay_oci::registry::Registry::new(mainstay_oci::registry::Options::default()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stopped = registry_stop.clone();
        tokio::spawn(registry.serve(listener, async move { stopped.cancelled().await }));
        let mut bench = Self {
            admin,
            registry: address,
            env: Env::system(),
            server,
            folder,
            stop: CancellationToken::new(),
            registry_stop,
            running: None,
        };
        for manifest in mainstay_api::classic_manifests().unwrap() {
            bench.apply(manifest.definition.clone()).await;
        }
        for manifest in mainstay_api::classic_manifests().unwrap() {
            let place = ObjectRef::of(&manifest.definition).unwrap();
            bench.until(&place, |crd| condition(crd, "Established")["status"] == "True").await;
        }
        for name in ["openshift-marketplace", "work"] {
            bench.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        bench.run(change);
        bench
    }

    fn run(&mut self, change: impl FnOnce(&mut Setup)) {
        let cluster = Cluster::Embedded { router: self.server.router(), identity: administrator };
        let mut setup = Setup::new(cluster, self.env.clone(), self.folder.path().join("cache"), ClientConfig::default());
        change(&mut setup);
        self.stop = CancellationToken::new();
        let stop = self.stop.clone();
        self.running = Some(tokio::spawn(async move { catalog::run(setup, stop).await.unwrap() }));
    }

    /// The operator ends and begins again.
    pub async fn restart(&mut self) {
        self.restart_with(|_| {}).await;
    }

    /// The operator ends and begins again with other settings.
    pub async fn restart_with(&mut self, change: impl FnOnce(&mut Setup)) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap();
        self.run(change);
    }

    /// Simulated nodes and controllers, whose pods have their images pulled by `images`.
    pub fn nodes(&self, images: &PodImages) {
        let cluster = Cluster::Embedded { router: self.server.router(), identity: administrator };
        let puller: Arc<dyn ImagePuller> = Arc::new(Puller(images.clone()));
        let options = mainstay_workloads::Options { puller: Some(puller), ..mainstay_workloads::Options::default() };
        let stop = self.registry_stop.clone();
        tokio::spawn(async move { mainstay_workloads::run(cluster, options, Env::system(), stop).await.unwrap() });
    }

    /// The objects of a kind in a namespace.
    pub async fn list(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<Value> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let all = self.admin.list(&kube::api::GroupVersionKind::gvk(group, version, kind), 1000).await.unwrap();
        all.into_iter().filter(|object| object["metadata"]["namespace"] == *namespace).collect()
    }

    /// No registry answers at its address any more.
    pub fn registry_goes_down(&self) {
        self.registry_stop.cancel();
    }

    pub async fn apply(&self, object: Value) -> Value {
        self.admin.apply(&object, true, &Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    pub async fn get(&self, place: &ObjectRef) -> Option<Value> {
        self.admin.get(place).await.unwrap()
    }

    pub async fn delete(&self, place: &ObjectRef) {
        self.admin.delete(place, &Expect::default(), Propagation::Background).await.unwrap();
    }

    pub async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..3_000 {
            last = self.get(place).await.unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    /// Writes the status that is made of the live object.
    pub async fn write_status(&self, target: &ObjectRef, status: impl Fn(&Value) -> Value) {
        loop {
            let live = self.get(target).await.unwrap();
            match self.admin.update_status(&live, &status(&live)).await {
                Ok(_) => return,
                Err(error) => assert_eq!(error.reason(), Some(&Reason::Conflict), "{error}"),
            }
        }
    }

    /// An OperatorGroup of a namespace, with the status that the OLM operator would give it.
    pub async fn group(&self, namespace: &str, spec: Value) -> ObjectRef {
        self.group_named(namespace, "group", spec).await
    }

    /// Such a group with a name, where there is more than one.
    pub async fn group_named(&self, namespace: &str, name: &str, spec: Value) -> ObjectRef {
        let place = own("v1", "OperatorGroup", namespace, name);
        self.apply(
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "OperatorGroup", "metadata": {"name": name, "namespace": namespace},
            "spec": spec}),
        )
        .await;
        self.write_status(&place, |_| json!({"lastUpdated": "2026-01-01T00:00:00Z", "namespaces": [""]})).await;
        place
    }

    /// The phase of a CSV, as the OLM operator would write it.
    pub async fn phase(&self, namespace: &str, name: &str, phase: &str) {
        let place = own("v1alpha1", "ClusterServiceVersion", namespace, name);
        self.write_status(&place, |_| json!({"phase": phase})).await;
    }

    /// Pushes a bundle of `widgets` and returns its reference by digest.
    pub async fn bundle(&self, version: &str, content: &mainstay_testing::widgets::Content) -> String {
        let files = mainstay_testing::widgets::files(version, content).into_iter().map(|(path, text)| (path, text.into_bytes()));
        self.push(&format!("test/widgets:v{version}"), ImageBuilder::new().files(files)).await
    }

    /// Pushes a bundle of an operator without a CRD.
    pub async fn other_bundle(&self, name: &str, version: &str) -> String {
        let csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("{name}.v{version}")},
            "spec": {"displayName": name, "version": version, "installModes": [{"type": "AllNamespaces", "supported": true}],
                "install": {"strategy": "deployment", "spec": {"deployments": [{"name": name, "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "manager", "image": "example.com/a:1"}]}},
                }}]}}},
        });
        let image = ImageBuilder::new()
            .file("manifests/csv.yaml", csv.to_string().into_bytes())
            .file("metadata/annotations.yaml", b"annotations: {}".to_vec());
        self.push(&format!("test/{name}:v{version}"), image).await
    }

    /// Pushes an image, and returns its reference by digest.
    pub async fn push(&self, name: &str, builder: ImageBuilder) -> String {
        let store = BlobStore::open(self.folder.path().join("push")).unwrap();
        let image = builder.build(&store).unwrap();
        let reference = format!("{}/{name}", self.registry);
        let parsed = Reference::parse(&reference).unwrap();
        Registries::new(ClientConfig::default()).unwrap().push(&image, &store, &parsed).await.unwrap();
        format!("{}@{}", parsed.name(), image.digest.as_str())
    }

    /// Pushes a catalog image and makes a CatalogSource of it.
    pub async fn catalog(&self, namespace: &str, name: &str, blobs: &[Value]) -> ObjectRef {
        self.push_catalog(name, blobs).await;
        self.apply(
            json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "CatalogSource", "metadata": {"name": name, "namespace": namespace},
            "spec": {"sourceType": "grpc", "image": format!("{}/test/{name}:latest", self.registry), "displayName": name}}),
        )
        .await;
        own("v1alpha1", "CatalogSource", namespace, name)
    }

    pub async fn push_catalog(&self, name: &str, blobs: &[Value]) {
        let text = blobs.iter().fold(String::new(), |text, blob| text + &blob.to_string() + "\n");
        let image = ImageBuilder::new()
            .file("configs/catalog.json", text.into_bytes())
            .label("operators.operatorframework.io.index.configs.v1", "/configs");
        self.push(&format!("test/{name}:latest"), image).await;
    }

    pub async fn ready(&self, source: &ObjectRef) -> Value {
        self.until(source, |source| source["status"]["connectionState"]["lastObservedState"] == "READY").await
    }

    pub async fn subscribe(&self, namespace: &str, name: &str, change: Value) -> ObjectRef {
        let mut spec = json!({"name": name, "channel": "stable", "source": "test", "sourceNamespace": "openshift-marketplace"});
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        self.apply(
            json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Subscription", "metadata": {"name": name, "namespace": namespace},
            "spec": spec}),
        )
        .await;
        own("v1alpha1", "Subscription", namespace, name)
    }

    /// The plan to which a Subscription refers, in a phase.
    pub async fn plan_of(&self, subscription: &ObjectRef, phase: &str) -> Value {
        let subscribed = self.until(subscription, |one| one["status"]["installPlanRef"].is_object()).await;
        let name = subscribed["status"]["installPlanRef"]["name"].as_str().unwrap().to_owned();
        self.until(&own("v1alpha1", "InstallPlan", &subscription.namespace, &name), |plan| plan["status"]["phase"] == phase).await
    }

    /// The condition of a Subscription, once it is there.
    pub async fn told(&self, subscription: &ObjectRef, kind: &str) -> Value {
        let found = self.until(subscription, |one| condition(one, kind).is_object()).await;
        condition(&found, kind).clone()
    }

    pub async fn plans(&self, namespace: &str) -> Vec<Value> {
        let kind = kube::api::GroupVersionKind::gvk(GROUP, "v1alpha1", "InstallPlan");
        let all = self.admin.list(&kind, 1000).await.unwrap();
        all.into_iter().filter(|plan| plan["metadata"]["namespace"] == *namespace).collect()
    }

    pub async fn close(mut self) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap();
        self.server.end_watches();
        self.server.close().await;
    }
}

/// A package in which every version replaces the one before: versions with their images.
pub fn package(name: &str, bundles: &[(&str, &str)]) -> Vec<Value> {
    let csv = |version: &str| format!("{name}.v{version}");
    let entry = |(index, (version, _)): (usize, &(&str, &str))| match index.checked_sub(1) {
        Some(before) => json!({"name": csv(version), "replaces": csv(bundles[before].0)}),
        None => json!({"name": csv(version)}),
    };
    let entries: Vec<Value> = bundles.iter().enumerate().map(entry).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    blobs.extend(bundles.iter().map(|(version, image)| {
        json!({"schema": "olm.bundle", "package": name, "name": csv(version), "image": image,
            "properties": [{"type": "olm.package", "value": {"packageName": name, "version": version}}]})
    }));
    blobs
}

pub fn own(version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    place(&format!("{GROUP}/{version}"), kind, namespace, name)
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().and_then(|all| all.iter().find(|each| each["type"] == kind)).unwrap_or(&Value::Null)
}
