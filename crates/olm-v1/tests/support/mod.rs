//! An embedded API server with the definitions of OLM v1, and ways to it, for tests against the real API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod bench;

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::{Server, TrustedIdentity};
use mainstay_apply::{Reason, Writer};
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_oci::{BlobStore, Client as Registries, ClientConfig, Image, ImageBuilder, Reference};
use mainstay_olm_v1::Setup;
use mainstay_olm_v1::manifests::{CATALOGD, OPERATOR_CONTROLLER, manifests};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::EmbeddedCluster;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

pub const SYSTEM: &str = "olmv1-system";

pub fn operator_controller(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM, OPERATOR_CONTROLLER))));
}

pub fn catalogd(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM, CATALOGD))));
}

/// An embedded cluster.
pub struct Api {
    pub admin: Writer,
    pub server: Server,
    pub folder: tempfile::TempDir,
}

impl Api {
    pub async fn start() -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        let api = Self { admin, server, folder };
        let crds = mainstay_api::manifests().unwrap().into_iter().map(|manifest| manifest.definition);
        for object in crds.chain(manifests(SYSTEM)) {
            api.apply(object).await;
        }
        for plural in ["clusterextensions", "clustercatalogs"] {
            api.established(&format!("{plural}.olm.operatorframework.io")).await;
        }
        api
    }

    pub async fn established(&self, crd: &str) {
        let holds = |crd: &Value| condition(crd, "Established")["status"] == "True";
        self.until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crd), holds).await;
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
        for _ in 0..12_000 {
            last = self.get(place).await.unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    /// Writes the status that is made of the live object; once more where somebody wrote the object in between.
    pub async fn write_status(&self, target: &ObjectRef, status: impl Fn(&Value) -> Value) {
        loop {
            let live = self.get(target).await.unwrap();
            match self.admin.update_status(&live, &status(&live)).await {
                Ok(_) => return,
                Err(error) => assert_eq!(error.reason(), Some(&Reason::Conflict), "{error}"),
            }
        }
    }

    /// Makes a Deployment available, as its controller would.
    pub async fn make_available(&self, deployment: &ObjectRef) {
        let status = |live: &Value| {
            json!({"observedGeneration": live["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
                "availableReplicas": 1,
                "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": ""}]})
        };
        self.write_status(deployment, status).await;
    }

    pub async fn gone(&self, place: &ObjectRef) {
        self.until(place, Value::is_null).await;
    }

    /// Pushes an image.
    pub async fn push(&self, client: ClientConfig, reference: &str, builder: ImageBuilder) -> Image {
        let store = BlobStore::open(self.folder.path().join("push")).unwrap();
        let image = builder.build(&store).unwrap();
        Registries::new(client).unwrap().push(&image, &store, &Reference::parse(reference).unwrap()).await.unwrap();
        image
    }

    /// The account `installer` of the namespace `work`.
    pub async fn account(&self) {
        self.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "work"}})).await;
    }

    /// Lets the account do everything.
    pub async fn administrator(&self) {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "work"}]});
        self.apply(binding).await;
    }

    /// The namespace `work` with its account, which may do everything.
    pub async fn installer(&self) {
        self.apply(namespace("work")).await;
        self.account().await;
        self.administrator().await;
    }

    pub async fn close(self) {
        self.server.end_watches();
        self.server.close().await;
    }
}

/// A registry on a loopback address; it ends with the token.
pub async fn registry(
    options: mainstay_oci::registry::Options,
    stop: &tokio_util::sync::CancellationToken,
) -> (mainstay_oci::registry::Registry, String) {
    let registry = mainstay_oci::registry::Registry::new(options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stopped = stop.clone();
    tokio::spawn(registry.clone().serve(listener, async move { stopped.cancelled().await }));
    (registry, address)
}

/// The address of a registry that accepts every connection and never answers.
pub async fn silent_registry() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut sink = Vec::new();
                let _ = stream.read_to_end(&mut sink).await;
            });
        }
    });
    address
}

/// Both controllers on the router, with their caches in the API's folder.
pub fn setup(api: &Api, router: axum::Router) -> Setup {
    Setup {
        catalogd: Cluster::Embedded { router: api.server.router(), identity: catalogd },
        operator_controller: Cluster::Embedded { router, identity: operator_controller },
        env: Env::system(),
        gates: FeatureGates::defaults(Profile::Up),
        system_namespace: SYSTEM.to_owned(),
        cache: api.folder.path().join("cache"),
        external_address: "https://127.0.0.1:6443".to_owned(),
        authority: Vec::new(),
        registries: ClientConfig::default(),
        gc_interval: Duration::from_secs(3600),
        ignore_service_account: false,
    }
}

/// The image of a catalog.
pub fn catalog_image(text: &str) -> ImageBuilder {
    ImageBuilder::new()
        .file("configs/catalog.json", text.as_bytes().to_vec())
        .label("operators.operatorframework.io.index.configs.v1", "/configs")
}

/// A catalog of one package in which every version replaces the one before.
pub fn catalog_text(package: &str, bundles: &[(&str, &str)]) -> String {
    let name = |version: &str| format!("{package}.v{version}");
    let entry = |(index, (version, _)): (usize, &(&str, &str))| match index.checked_sub(1) {
        Some(before) => json!({"name": name(version), "replaces": name(bundles[before].0)}),
        None => json!({"name": name(version)}),
    };
    let entries: Vec<Value> = bundles.iter().enumerate().map(entry).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
    ];
    blobs.extend(bundles.iter().map(|(version, image)| {
        json!({"schema": "olm.bundle", "package": package, "name": name(version), "image": image,
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}]})
    }));
    blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

pub fn extension(name: &str) -> ObjectRef {
    place("olm.operatorframework.io/v1", "ClusterExtension", "", name)
}

pub fn catalog(name: &str) -> ObjectRef {
    place("olm.operatorframework.io/v1", "ClusterCatalog", "", name)
}

pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().and_then(|all| all.iter().find(|each| each["type"] == kind)).unwrap_or(&Value::Null)
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn catalog_object(name: &str, image: &str) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": name},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}}})
}

/// A ClusterExtension of a package, installed by the account `installer` of the namespace.
pub fn extension_object(name: &str, package: &str, namespace: &str) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": package}}}})
}
