//! Requests of machines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_machine_config_core::NAMESPACE;
use mainstay_machine_config_server::{ACCOUNT, Config, Service, manifests};
use mainstay_objects::{Expect, ObjectRef, Until};
use mainstay_rbac::UserInfo;
use mainstay_runtime::Cluster;
use mainstay_testing_cluster::EmbeddedCluster;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const GROUP: &str = "machineconfiguration.openshift.io/v1";
const IGNITION: &str = "application/vnd.coreos.ignition+json;version=";

fn server(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

/// Creates an object, and its status.
async fn create(admin: &Writer, object: &Value) {
    let made = admin.create(object).await.unwrap();
    if let Some(status) = object.get("status") {
        admin.update_status(&made, status).await.unwrap();
    }
}

fn rendered(name: &str, text: &str) -> Value {
    let file = json!({"path": "/etc/own", "contents": {"source": format!("data:,{text}")}});
    let config = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [file]}});
    json!({"apiVersion": GROUP, "kind": "MachineConfig", "metadata": {"name": name}, "spec": {"config": config, "osImageURL": "image"}})
}

fn pool(name: &str, updated: i64) -> Value {
    json!({"apiVersion": GROUP, "kind": "MachineConfigPool", "metadata": {"name": name},
        "spec": {"configuration": {"name": "rendered-new"}, "nodeSelector": {"matchLabels": {"a": "b"}}},
        "status": {"configuration": {"name": "rendered-old"}, "updatedMachineCount": updated, "observedGeneration": 1, "machineCount": 1,
            "readyMachineCount": 0, "unavailableMachineCount": 0, "degradedMachineCount": 0, "conditions": []}})
}

struct Asked {
    client: Client,
    at: SocketAddr,
}

impl Asked {
    async fn send(&self, method: Method, path: &str, accept: &str) -> (StatusCode, reqwest::header::HeaderMap, String) {
        let request = self.client.request(method, format!("http://{}{path}", self.at));
        let request = if accept.is_empty() { request } else { request.header("accept", accept) };
        let answer = request.send().await.unwrap();
        (answer.status(), answer.headers().clone(), answer.text().await.unwrap())
    }

    async fn status(&self, method: Method, path: &str, accept: &str) -> u16 {
        let (status, headers, body) = self.send(method, path, accept).await;
        if status != StatusCode::OK {
            assert_eq!((headers["content-length"].to_str().unwrap(), body.as_str()), ("0", ""), "{path}");
        }
        status.as_u16()
    }

    /// The config of a pool once it holds a text.
    async fn until(&self, path: &str, accept: &str, text: &str) -> String {
        let mut last = String::new();
        for _ in 0..1_000 {
            let (status, _, body) = self.send(Method::GET, path, accept).await;
            if status == StatusCode::OK && body.contains(text) {
                return body;
            }
            last = format!("{status} {body}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} did not get {text}: {last}");
    }
}

/// MACH-MCS-01: configs by pool and version; methods, paths and headers that are refused; what changes in the cluster is in the next answer.
#[tokio::test(flavor = "multi_thread")]
async fn machines_get_their_config() {
    let EmbeddedCluster { admin, server: api, folder: _folder } = EmbeddedCluster::start().await;
    let kinds: Vec<Value> = mainstay_api::machine_config_manifests().unwrap().into_iter().map(|manifest| manifest.definition).collect();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    for object in kinds.iter().chain([&namespace]).chain(&manifests()) {
        admin.apply(object, true, &Expect::default()).await.unwrap();
    }
    for kind in &kinds {
        admin.wait(&ObjectRef::of(kind).unwrap(), &Until::Healthy, Duration::from_secs(60)).await.unwrap();
    }
    let service = Service::open(Config {
        plain: Some("127.0.0.1:0".parse().unwrap()),
        api_url: Some("https://api.example:6443".to_owned()),
        ..Config::default()
    });
    let service = service.await.unwrap();
    let asked = Asked { client: Client::new(), at: service.bound().plain.unwrap() };
    let stop = CancellationToken::new();
    let _ended = stop.clone().drop_guard();
    let cluster = Cluster::Embedded { router: api.router(), identity: server };
    tokio::spawn(async move { service.run(&cluster, stop).await.unwrap() });

    assert_eq!(asked.status(Method::GET, "/healthz", "").await, 200);
    assert_eq!(asked.status(Method::GET, "/config/worker", "").await, 404, "there is no such pool yet");
    for (method, path, code) in
        [(Method::POST, "/config/worker", 405), (Method::DELETE, "/healthz", 405), (Method::GET, "/", 404), (Method::GET, "/metrics", 404)]
    {
        assert_eq!(asked.status(method.clone(), path, "").await, code, "{method} {path}");
    }

    for (name, text) in [("rendered-old", "of-old"), ("rendered-new", "of-new")] {
        create(&admin, &rendered(name, text)).await;
    }
    create(&admin, &pool("worker", 0)).await;
    create(&admin, &pool("infra", 1)).await;
    let controller = json!({"apiVersion": GROUP, "kind": "ControllerConfig", "metadata": {"name": "machine-config-controller"},
        "spec": {"releaseImage": "", "baseOSContainerImage": "", "network": null, "osImageURL": "", "kubeAPIServerServingCAData": "Y2E=", "rootCAData": "Y2E=", "additionalTrustBundle": null,
            "cloudProviderCAData": null, "cloudProviderConfig": "", "clusterDNSIP": "172.30.0.10", "ipFamilies": "IPv4", "images": {}, "proxy": null,
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "spec": {"cloudConfig": {"name": ""}, "platformSpec": {}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"}, "spec": {"baseDomain": "example"}}}});
    create(&admin, &controller).await;
    // Without a token no machine could join, and none gets a config.
    for _ in 0..500 {
        if asked.status(Method::GET, "/config/worker", "").await == 500 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(asked.status(Method::GET, "/config/worker", "").await, 500);
    let place = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: "node-bootstrapper-token".to_owned(),
    };
    let filled = json!({"data": {"token": "dG9rZW4=", "ca.crt": "Y2E="}});
    admin.patch(&place, "", &mainstay_objects::Patch::Merge(filled)).await.unwrap();

    // A pool of which no node has the newest configuration gives new machines the proven one.
    let newest = format!("{IGNITION}3.4.0");
    let old = asked.until("/config/worker", &newest, "data:,of-old").await;
    assert!(old.starts_with("{\"ignition\":{\"version\":\"3.4.0\"}"), "{}", &old[..80]);
    asked.until("/config/infra", &newest, "data:,of-new").await;
    for (accept, version) in [("", "2.2.0"), ("*/*", "2.2.0"), ("3.1.0", "3.1.0"), ("3.3.9", "3.3.0"), ("3.9.0, */*;q=0.1", "3.5.0")] {
        let accept =
            if accept.starts_with(|first: char| first.is_ascii_digit()) { format!("{IGNITION}{accept}") } else { accept.to_owned() };
        let (status, headers, body) = asked.send(Method::GET, "/config/worker", &accept).await;
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, "application/json"));
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["ignition"]["version"], version, "{accept}");
        let (status, headers, nothing) = asked.send(Method::HEAD, "/config/worker", &accept).await;
        assert_eq!((status, nothing.as_str()), (StatusCode::OK, ""));
        assert_eq!(headers["content-length"].to_str().unwrap(), body.len().to_string(), "{accept}");
    }
    for accept in ["3.0.0", "4.0.0", "2.1.0"] {
        assert_eq!(asked.status(Method::GET, "/config/worker", &format!("{IGNITION}{accept}")).await, 400, "{accept}");
    }
    assert_eq!(asked.status(Method::GET, "/config/nobody", &newest).await, 404);

    // The first node is updated: new machines get the newest from now on.
    let worker = ObjectRef {
        api_version: GROUP.to_owned(),
        kind: "MachineConfigPool".to_owned(),
        namespace: String::new(),
        name: "worker".to_owned(),
    };
    let live = admin.get(&worker).await.unwrap().unwrap();
    admin.update_status(&live, &pool("worker", 1)["status"]).await.unwrap();
    asked.until("/config/worker", &newest, "data:,of-new").await;
}
