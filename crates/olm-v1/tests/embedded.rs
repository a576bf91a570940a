//! Both controllers against the embedded API, with bundles from a registry: install, upgrade, drift, refusal, removal.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_apiserver::{Config, Server, TrustedIdentity};
use mainstay_apply::Writer;
use mainstay_objects::ObjectRef;
use mainstay_oci::registry::Registry;
use mainstay_oci::{BlobStore, Client as Registries, ClientConfig, ImageBuilder, Reference};
use mainstay_olm_v1::Setup;
use mainstay_olm_v1::manifests::{CATALOGD, OPERATOR_CONTROLLER, manifests};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env, Kinds};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const SYSTEM: &str = "olmv1-system";

fn administrator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new("admin", &["system:masters"]))));
}

fn operator_controller(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM, OPERATOR_CONTROLLER))));
}

fn catalogd(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM, CATALOGD))));
}

/// An embedded cluster, a registry, and both controllers.
struct World {
    admin: Writer,
    registry: String,
    folder: tempfile::TempDir,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    server: Server,
}

impl World {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let _ = tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_test_writer().try_init();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::open(Config::local(folder.path().join("cluster"), 6443)).await.unwrap();
        let cluster = |identity| Cluster::Embedded { router: server.router(), identity };
        let client = cluster(administrator).client().unwrap();
        let admin = Writer::new(client.clone(), Kinds::new(client), "test");
        let stop = CancellationToken::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = listener.local_addr().unwrap().to_string();
        let stopped = stop.clone();
        tokio::spawn(Registry::in_memory().serve(listener, async move { stopped.cancelled().await }));
        let crds = mainstay_api::manifests().unwrap().into_iter().map(|manifest| manifest.definition);
        let mut world = Self { admin, registry, folder, stop: stop.clone(), running: tokio::spawn(async {}), server };
        for object in crds.chain(manifests(SYSTEM)) {
            world.apply(object).await;
        }
        world
            .until(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "clusterextensions.olm.operatorframework.io"), |crd| {
                crd["status"]["conditions"]
                    .as_array()
                    .is_some_and(|all| all.iter().any(|each| each["type"] == "Established" && each["status"] == "True"))
            })
            .await;
        let setup = Setup {
            catalogd: Cluster::Embedded { router: world.server.router(), identity: catalogd },
            operator_controller: Cluster::Embedded { router: world.server.router(), identity: operator_controller },
            env: Env::system(),
            gates: FeatureGates::defaults(Profile::Up),
            system_namespace: SYSTEM.to_owned(),
            cache: world.folder.path().join("cache"),
            external_address: "https://127.0.0.1:6443".to_owned(),
            authority: Vec::new(),
            registries: ClientConfig::default(),
            gc_interval: Duration::from_secs(3600),
            ignore_service_account: false,
        };
        world.running = tokio::spawn(setup.open().unwrap().run(stop));
        world
    }

    async fn apply(&self, object: Value) -> Value {
        self.admin.apply(&object, true, &mainstay_objects::Expect::default()).await.unwrap_or_else(|error| panic!("{error:?}: {object}")).0
    }

    async fn get(&self, place: &ObjectRef) -> Option<Value> {
        self.admin.get(place).await.unwrap()
    }

    async fn until(&self, place: &ObjectRef, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..2_400 {
            last = self.get(place).await.unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{place} did not become as expected: {last:#}");
    }

    async fn gone(&self, place: &ObjectRef) {
        self.until(place, Value::is_null).await;
    }

    async fn push(&self, name: &str, builder: ImageBuilder) -> String {
        let store = BlobStore::open(self.folder.path().join("push")).unwrap();
        let image = builder.build(&store).unwrap();
        let target = format!("{}/{name}", self.registry);
        let digest =
            Registries::new(ClientConfig::default()).unwrap().push(&image, &store, &Reference::parse(&target).unwrap()).await.unwrap();
        format!("{}@{}", target.rsplit_once(':').unwrap().0, digest.as_str())
    }

    async fn bundle(&self, version: &str, extra: bool) -> String {
        let files = bundle(version, extra).into_iter().map(|(path, text)| (path, text.into_bytes()));
        self.push(&format!("test/widgets:v{version}"), ImageBuilder::new().files(files)).await
    }

    async fn catalog(&self, blobs: &[Value]) -> String {
        let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let builder = ImageBuilder::new().file("configs/catalog.json", text.into_bytes());
        self.push("test/catalog:latest", builder.label("operators.operatorframework.io.index.configs.v1", "/configs")).await
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
        self.server.end_watches();
        self.server.close().await;
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn extension(name: &str) -> ObjectRef {
    place("olm.operatorframework.io/v1", "ClusterExtension", "", name)
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    object["status"]["conditions"].as_array().and_then(|all| all.iter().find(|each| each["type"] == kind)).unwrap_or(&Value::Null)
}

fn bundle(version: &str, extra: bool) -> Vec<(String, String)> {
    let mut properties = json!({"size": {"type": "integer"}});
    if extra {
        properties["colour"] = json!({"type": "string"});
    }
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties}
            }}}}
        ]},
    });
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("widgets.v{version}")},
        "spec": {
            "displayName": "Widgets", "version": version,
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": "widgets.example.com", "kind": "Widget", "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "widgets", "rules": [
                    {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}
                ]}],
                "deployments": [{"name": "widgets", "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "widgets"}},
                    "template": {"metadata": {"labels": {"app": "widgets"}}, "spec": {"serviceAccountName": "widgets", "containers": [
                        {"name": "manager", "image": format!("example.com/widgets:{version}")}
                    ]}},
                }}],
            }},
        },
    });
    let mut files = vec![
        ("manifests/crd.yaml".to_owned(), crd.to_string()),
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        (
            "metadata/annotations.yaml".to_owned(),
            json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}}).to_string(),
        ),
    ];
    if !extra {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old-settings"}, "data": {"a": "b"}});
        files.push(("manifests/config.yaml".to_owned(), config.to_string()));
    }
    files
}

fn blobs(bundles: &[(&str, &str)]) -> Vec<Value> {
    let name = |version: &str| format!("widgets.v{version}");
    let entry = |(index, (version, _)): (usize, &(&str, &str))| {
        let mut entry = json!({"name": name(version)});
        if let Some((before, _)) = index.checked_sub(1).map(|index| bundles[index]) {
            entry["replaces"] = json!(name(before));
        }
        entry
    };
    let entries: Vec<Value> = bundles.iter().enumerate().map(entry).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": "widgets", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "widgets", "name": "stable", "entries": entries}),
    ];
    blobs.extend(bundles.iter().map(|(version, image)| {
        json!({"schema": "olm.bundle", "package": "widgets", "name": name(version), "image": image,
            "properties": [{"type": "olm.package", "value": {"packageName": "widgets", "version": version}}]})
    }));
    blobs
}

fn catalog_object(image: &str) -> Value {
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "test"},
        "spec": {"source": {"type": "Image", "image": {"ref": image}}}})
}

fn extension_object(name: &str, version: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": "widgets", "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "widgets"}}}});
    if let Some(version) = version {
        object["spec"]["source"]["catalog"]["version"] = json!(version);
    }
    object
}

fn administrator_binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "widgets"}]})
}

/// OLM1-CTRL-01..03, OLM1-CTRL-07..12, OLM1-CAT-05..08, OLM1-CAT-16, OLM1-INST-13, OLM1-INST-14, OLM1-PERM-01, OLM1-PERM-02,
/// OLM1-PERM-09, OLM1-UPG-01..03, OLM1-OWN-01..03, OLM1-API-07, OLM1-GEN-11: an extension's life, from nothing to removal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_lives_from_install_to_removal() {
    let world = World::start().await;
    let first = world.bundle("1.0.0", false).await;
    let second = world.bundle("1.1.0", true).await;
    let image = world.catalog(&blobs(&[("1.0.0", &first), ("1.1.0", &second)])).await;
    world.apply(catalog_object(&image)).await;
    let catalog = place("olm.operatorframework.io/v1", "ClusterCatalog", "", "test");
    let served = world.until(&catalog, |catalog| condition(catalog, "Serving")["status"] == "True").await;
    assert_eq!(served["status"]["urls"]["base"], "https://127.0.0.1:6443/catalogs/test");
    assert_eq!(served["status"]["resolvedSource"]["image"]["ref"], image.as_str());
    serde_json::from_value::<ClusterCatalog>(served).unwrap();

    // Without an account nothing is installed, and the condition says so.
    world.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "widgets"}})).await;
    world.apply(extension_object("widgets", Some("1.0.0"))).await;
    let waiting = world.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "Unknown").await;
    assert_eq!(
        condition(&waiting, "Installed")["message"],
        "service account \"installer\" not found in namespace \"widgets\": unable to authenticate with the Kubernetes cluster."
    );

    // Without permissions the preflight lists them, and nothing is written.
    world.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "widgets"}})).await;
    let refused = world
        .until(&extension("widgets"), |object| {
            condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.starts_with("pre-authorization failed: "))
        })
        .await;
    let message = condition(&refused, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\n  Namespace:\"widgets\" APIGroups:[apps] Resources:[deployments] Verbs:[create]"), "{message}");
    assert!(message.ends_with("for resolved bundle \"widgets.v1.0.0\" with version \"1.0.0\""), "{message}");
    assert!(world.get(&place("apps/v1", "Deployment", "widgets", "widgets")).await.is_none());

    // With permissions it goes on by itself.
    world.apply(administrator_binding()).await;
    let installed = world.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "True").await;
    assert_eq!(condition(&installed, "Installed")["message"], format!("Installed bundle {first} successfully"));
    assert_eq!(installed["status"]["install"]["bundle"], json!({"name": "widgets.v1.0.0", "version": "1.0.0"}));
    serde_json::from_value::<ClusterExtension>(installed.clone()).unwrap();
    let deployment = place("apps/v1", "Deployment", "widgets", "widgets");
    let live = world.get(&deployment).await.unwrap();
    assert_eq!(live["metadata"]["labels"]["olm.operatorframework.io/owner-name"], "widgets");
    assert_eq!(live["metadata"]["ownerReferences"][0]["uid"], installed["metadata"]["uid"]);
    assert!(world.get(&place("v1", "ConfigMap", "widgets", "old-settings")).await.is_some());

    // What is deleted by hand returns; what is changed by hand is put back.
    world.admin.delete(&deployment, &mainstay_objects::Expect::default(), mainstay_objects::Propagation::Background).await.unwrap();
    world.until(&deployment, |object| !object.is_null() && object["metadata"]["uid"] != live["metadata"]["uid"]).await;
    world.admin.patch(&deployment, "", &mainstay_objects::Patch::Merge(json!({"spec": {"replicas": 0}}))).await.unwrap();
    world.until(&deployment, |object| object["spec"]["replicas"] == 1).await;

    // A custom resource survives the upgrade; what the new bundle does not hold goes.
    world.apply(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "widgets"}, "spec": {"size": 3}})).await;
    world.apply(extension_object("widgets", Some(">=1.0.0"))).await;
    let upgraded = world.until(&extension("widgets"), |object| object["status"]["install"]["bundle"]["version"] == "1.1.0").await;
    assert_eq!(condition(&upgraded, "Progressing")["reason"], "Succeeded");
    let live = world.get(&deployment).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:1.1.0");
    world.gone(&place("v1", "ConfigMap", "widgets", "old-settings")).await;
    let widget = world.get(&place("example.com/v1", "Widget", "widgets", "one")).await.unwrap();
    assert_eq!(widget["spec"]["size"], 3);

    // A second extension of the same package finds the CRD taken.
    world.apply(extension_object("widgets-again", None)).await;
    let blocked = world.until(&extension("widgets-again"), |object| condition(object, "Progressing")["reason"] == "Retrying").await;
    let message = condition(&blocked, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("already exists in namespace '' and cannot be managed by operator-controller"), "{message}");

    // A version that is not there leaves the old one installed.
    world.apply(extension_object("widgets", Some("9.x"))).await;
    let stuck = world.until(&extension("widgets"), |object| condition(object, "Progressing")["reason"] == "Retrying").await;
    assert_eq!(
        condition(&stuck, "Progressing")["message"],
        "error upgrading from currently installed version \"1.1.0\": no bundles found for package \"widgets\" matching version \"9.x\""
    );
    assert_eq!(condition(&stuck, "Installed")["status"], "True");

    // Removal takes the finalizers off; the garbage collector does the rest.
    for name in ["widgets-again", "widgets"] {
        world
            .admin
            .delete(&extension(name), &mainstay_objects::Expect::default(), mainstay_objects::Propagation::Background)
            .await
            .unwrap();
        world.gone(&extension(name)).await;
    }
    world.end().await;
}
