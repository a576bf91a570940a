//! The embedded API on a real etcd: one server, two servers that share it, and an etcd that dies.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Config, ResourceExt as _};
use mainstay_e2e::client::{JSON, Target};
use mainstay_e2e::{Cluster, eventually, kubectl, need_embedded, replay, skip};
use mainstay_testing::data;
use serde_json::{Value, json};

use crate::etcd_process::EtcdProcess;

const LONG: Duration = Duration::from_secs(120);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap()).unwrap()
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Two servers on one etcd that begin at the same moment.
fn two_servers(process: &EtcdProcess, pki: &Path) -> (Cluster, Cluster) {
    let (storage, pki) = (format!("etcd://{}", process.address()), pki.display().to_string());
    let arguments = ["--storage", &storage, "--pki-dir", &pki, "--components", "controllers", "--nodes", "0"];
    std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(|| Cluster::up(&arguments)), scope.spawn(|| Cluster::up(&arguments)));
        (one.join().unwrap(), other.join().unwrap())
    })
}

/// KAPI-STORE-03: kubectl notices nothing of where objects are stored.
#[test]
fn kubectl_on_etcd() {
    let Some(()) = need_embedded() else { return };
    if kubectl().is_none() {
        return skip("kubectl is not to be had here (make setup)");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let storage = format!("etcd://{}", process.address());
    let mut cluster =
        Cluster::up(&["--storage", &storage, "--storage-prefix", "/elsewhere", "--components", "controllers,scheduler,nodes"]);
    cluster.kubectl(&["create", "namespace", "shop"]).ok();
    cluster.apply(
        r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}}}"#,
    );
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", "shop", "--timeout=120s"]).ok();
    cluster.kubectl(&["scale", "deployment/web", "-n", "shop", "--replicas=3"]).ok();
    cluster.until("the deployment is scaled", &["deployment/web", "-n", "shop"], |web| web["status"]["readyReplicas"] == 3);
    cluster.kubectl(&["label", "deployment/web", "-n", "shop", "tier=front"]).ok();
    let listed = cluster.kubectl(&["get", "deployments", "-A", "-l", "tier=front", "-o", "name"]).ok();
    assert_eq!(listed.trim(), "deployment.apps/web");
    cluster.kill();
    cluster.start_again();
    assert_eq!(cluster.get(&["deployment/web", "-n", "shop"]).unwrap()["spec"]["replicas"], 3);
    cluster.kubectl(&["delete", "namespace", "shop", "--wait=false"]).ok();
    cluster.until_gone(&["namespace/shop"]);
}

/// KAPI-STORE-03: recorded answers hold over etcd, too.
#[test]
fn recorded_answers_on_etcd() {
    let Some(()) = need_embedded() else { return };
    let Some(transcripts) = data::path("kube-transcripts") else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let listed = std::fs::read_to_string(mainstay_e2e::here("transcripts-passing.txt")).unwrap();
    let topics = ["crud", "list", "watch", "patch", "apply", "table", "service", "custom"];
    let must: BTreeSet<&str> = listed.lines().filter(|name| topics.contains(&name.split('/').next().unwrap_or_default())).collect();
    let scenarios: Vec<_> = replay::load(&transcripts).unwrap().into_iter().filter(|one| must.contains(replay::name(one))).collect();
    assert_eq!(scenarios.len(), must.len());
    let storage = format!("etcd://{}", process.address());
    let cluster = Cluster::up(&["--storage", &storage, "--components", "controllers", "--nodes", "0"]);
    let target = replay::Target::from_kubeconfig(cluster.kubeconfig(), 1.0).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut differing = Vec::new();
    for report in runtime.block_on(replay::check(&target, &scenarios, 4)).into_iter().filter(|report| !report.passed()) {
        // They watch controllers by the clock, and a busy machine may be late once.
        let one: Vec<_> = scenarios.iter().filter(|one| replay::name(one) == report.name).cloned().collect();
        differing.extend(runtime.block_on(replay::check(&target, &one, 1)).into_iter().filter(|report| !report.passed()));
    }
    let shown: Vec<String> = differing.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{} of {} differ:\n{}", shown.len(), scenarios.len(), shown.join("\n"));
}

/// KAPI-STORE-03, KAPI-WATCH-01: writers and watchers on both servers, and etcd is killed in the middle: no acknowledged write is lost,
/// and every watcher sees the same changes in the same order.
#[test]
fn two_servers_tell_the_same_story() {
    let Some(()) = need_embedded() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(mut process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let (one, other) = two_servers(&process, &folder.path().join("pki"));
    block_on(async {
        let clients = [client(&one).await, client(&other).await];
        let maps: Vec<Api<ConfigMap>> = clients.iter().map(|client| Api::namespaced(client.clone(), "default")).collect();
        let begin = maps[0].list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let written = std::sync::Arc::new(AtomicUsize::new(0));
        let watchers: Vec<_> = maps.iter().chain(&maps).map(|maps| tokio::spawn(follow(maps.clone(), begin.clone()))).collect();
        let writers: Vec<_> = (0..6).map(|writer| tokio::spawn(write(maps[writer % 2].clone(), writer, written.clone()))).collect();
        while written.load(Ordering::Relaxed) < 60 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        process.kill();
        process.run();
        for writer in writers {
            writer.await.unwrap();
        }
        // The last word, which ends the watches.
        let last: ConfigMap = object(json!({"metadata": {"name": "last"}}));
        let creation = PostParams::default();
        retried(|| maps[0].create(&creation, &last)).await;
        let mut stories = Vec::new();
        for watcher in watchers {
            stories.push(watcher.await.unwrap());
        }
        for story in &stories[1..] {
            assert_eq!(story, &stories[0], "all watchers are told the same");
        }
        let mut now = BTreeMap::new();
        for (kind, name, revision) in &stories[0] {
            if kind == "DELETED" {
                now.remove(name)
            } else {
                now.insert(name.clone(), revision.clone())
            };
        }
        for maps in &maps {
            let listed = maps.list(&ListParams::default()).await.unwrap();
            let listed: BTreeMap<String, String> = listed
                .items
                .iter()
                .map(|map| (map.name_any(), map.resource_version().unwrap()))
                .filter(|(name, _)| name != ROOT_CA)
                .collect();
            assert_eq!(listed, now, "the story ends where the lists are");
        }
        assert_eq!(now.len(), 6 * 20 + 1);
    });
}

const ROOT_CA: &str = "kube-root-ca.crt";

/// Creates, changes and deletes; whatever the API says to be done is done.
async fn write(maps: Api<ConfigMap>, writer: usize, written: std::sync::Arc<AtomicUsize>) {
    for count in 0..40 {
        let name = format!("m-{writer}-{count}");
        let map: ConfigMap = object(json!({"metadata": {"name": name}}));
        let creation = PostParams::default();
        retried(|| maps.create(&creation, &map)).await;
        let patch = Patch::Merge(json!({"data": {"count": count.to_string()}}));
        let parameters = PatchParams::default();
        retried(|| maps.patch(&name, &parameters, &patch)).await;
        if count % 2 == 1 {
            let parameters = DeleteParams::default();
            retried(|| async { maps.delete(&name, &parameters).await.map(|_| ()) }).await;
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Does a write until it is done; that it was done before an answer came counts, too.
async fn retried<T, F: Future<Output = Result<T, kube::Error>>>(write: impl Fn() -> F) {
    let begun = Instant::now();
    loop {
        match write().await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
            Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => panic!("{status:?}"),
            Err(error) if begun.elapsed() > LONG => panic!("a write does not succeed: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Everything that is told after a revision, as type, name and revision; begins again where a stream ends.
async fn follow(maps: Api<ConfigMap>, begin: String) -> Vec<(String, String, String)> {
    let (mut version, mut story) = (begin, Vec::new());
    loop {
        let Ok(stream) = maps.watch(&WatchParams::default(), &version).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let mut stream = stream.boxed();
        while let Ok(Some(event)) = tokio::time::timeout(LONG, stream.try_next()).await.expect("a watcher is told something") {
            let (kind, map) = match event {
                WatchEvent::Added(map) => ("ADDED", map),
                WatchEvent::Modified(map) => ("MODIFIED", map),
                WatchEvent::Deleted(map) => ("DELETED", map),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => panic!("{status:?}"),
            };
            version = map.resource_version().unwrap();
            if map.name_any() != ROOT_CA {
                story.push((kind.to_owned(), map.name_any(), version.clone()));
            }
            if map.name_any() == "last" {
                return story;
            }
        }
    }
}

/// KAPI-STORE-03, KAPI-REST-07, KAPI-CRD-01: what two servers give out does not collide, what one establishes the other serves, tokens
/// of one hold at the other, and the components run at one of them, then at the one that is left.
#[test]
fn two_servers_are_one_cluster() {
    let Some(()) = need_embedded() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let (mut one, mut other) = two_servers(&process, &folder.path().join("pki"));
    let holder = block_on(async {
        let clients = [client(&one).await, client(&other).await];
        addresses_are_given_once(&clients).await;
        tokens_hold_everywhere(&clients, &[one.server(), other.server()]).await;
        kinds_are_served_everywhere(&clients).await;
        namespaces_are_looked_after(&clients[0], "first").await;
        endpoints_are(&clients[0], &[one.server(), other.server()]).await;
        let leases: Api<Lease> = Api::namespaced(clients[1].clone(), "kube-system");
        leases.get("mainstay-components").await.unwrap().spec.unwrap().holder_identity.unwrap()
    });
    let first = holder.contains(&format!("_{}-", one.pid()));
    assert!(first || holder.contains(&format!("_{}-", other.pid())), "{holder}");
    let (leader, left) = if first { (&mut one, &other) } else { (&mut other, &one) };
    leader.kill();
    block_on(async {
        let client = client(left).await;
        namespaces_are_looked_after(&client, "second").await;
        endpoints_are(&client, &[left.server()]).await;
    });
}

/// The Service `kubernetes` comes to lead to these servers, by its Endpoints and by its slices.
async fn endpoints_are(client: &Client, servers: &[&str]) {
    let wanted: BTreeSet<String> = servers.iter().map(|server| server.rsplit(':').next().unwrap().to_owned()).collect();
    let endpoints: Api<k8s_openapi::api::core::v1::Endpoints> = Api::namespaced(client.clone(), "default");
    let slices: Api<k8s_openapi::api::discovery::v1::EndpointSlice> = Api::namespaced(client.clone(), "default");
    let of_service = kube::api::ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    let found = tokio::time::timeout(LONG, async {
        loop {
            let subsets = endpoints.get("kubernetes").await.unwrap().subsets.unwrap_or_default();
            let ports: BTreeSet<String> =
                subsets.iter().flat_map(|subset| subset.ports.iter().flatten()).map(|port| port.port.to_string()).collect();
            let listed = slices.list(&of_service).await.unwrap().items;
            let sliced: BTreeSet<String> =
                listed.iter().flat_map(|slice| slice.ports.iter().flatten()).filter_map(|port| Some(port.port?.to_string())).collect();
            if ports == wanted && sliced == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    found.await.expect("the endpoints are the servers that live");
}

async fn addresses_are_given_once(clients: &[Client]) {
    let mut creations = Vec::new();
    for index in 0..60 {
        let services: Api<Service> = Api::namespaced(clients[index % 2].clone(), "default");
        creations.push(tokio::spawn(async move {
            let service =
                object(json!({"metadata": {"name": format!("s-{index}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}));
            services.create(&PostParams::default(), &service).await.unwrap()
        }));
    }
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for creation in creations {
        let spec = creation.await.unwrap().spec.unwrap();
        addresses.insert(spec.cluster_ip.unwrap());
        ports.insert(spec.ports.unwrap()[0].node_port.unwrap());
    }
    assert_eq!((addresses.len(), ports.len()), (60, 60));
    // Of several that want the same address at both servers one gets it, and once it is gone another may.
    let wanted =
        |name: String| object::<Service>(json!({"metadata": {"name": name}, "spec": {"clusterIP": "10.96.0.77", "ports": [{"port": 80}]}}));
    let services: Vec<Api<Service>> = clients.iter().map(|client| Api::namespaced(client.clone(), "default")).collect();
    let parameters = PostParams::default();
    let attempts = (0..8).map(|index| {
        let (services, service) = (&services[index % 2], wanted(format!("same-{index}")));
        let parameters = &parameters;
        async move { services.create(parameters, &service).await }
    });
    let outcomes = futures::future::join_all(attempts).await;
    let winners: Vec<String> = outcomes.iter().flatten().map(kube::ResourceExt::name_any).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    for outcome in outcomes {
        if let Err(error) = outcome {
            let kube::Error::Api(status) = &error else { panic!("{error}") };
            assert!(status.code == 422 && status.message.contains("provided IP is already allocated"), "{status:?}");
        }
    }
    services[0].delete(&winners[0], &DeleteParams::default()).await.unwrap();
    retried(|| async {
        match services[1].create(&parameters, &wanted("later".to_owned())).await {
            // The other server hears of the deletion in a moment.
            Err(kube::Error::Api(mut status)) if status.code == 422 => {
                status.code = 503;
                Err(kube::Error::Api(status))
            }
            other => other.map(|_| ()),
        }
    })
    .await;
}

async fn tokens_hold_everywhere(clients: &[Client], servers: &[&str]) {
    let accounts: Api<ServiceAccount> = Api::namespaced(clients[0].clone(), "default");
    let account: ServiceAccount = object(json!({"metadata": {"name": "robot"}}));
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request: TokenRequest = object(json!({"spec": {"audiences": []}}));
    let token = accounts.create_token_request("robot", &PostParams::default(), &request).await.unwrap().status.unwrap().token;
    for server in servers {
        let mut config = Config::new(server.parse().unwrap());
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(token.clone().into());
        let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config).unwrap());
        let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
        assert_eq!(review.status.unwrap().user_info.unwrap().username.unwrap(), "system:serviceaccount:default:robot");
    }
}

async fn kinds_are_served_everywhere(clients: &[Client]) {
    let crd = |client: &Client| -> Api<DynamicObject> {
        let resource = kube::discovery::ApiResource::from_gvk_with_plural(
            &kube::core::GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            "customresourcedefinitions",
        );
        Api::all_with(client.clone(), &resource)
    };
    let definition = object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]},
    }));
    crd(&clients[0]).create(&PostParams::default(), &definition).await.unwrap();
    let resource =
        kube::discovery::ApiResource::from_gvk_with_plural(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Thing"), "things");
    for (index, client) in clients.iter().enumerate() {
        let things: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        let thing = object(
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": format!("t-{index}")}, "spec": {"size": 1, "more": 2}}),
        );
        // Served once it is established, which the other server learns in a moment.
        let begun = Instant::now();
        let made = loop {
            assert!(begun.elapsed() < LONG, "the kind is not served");
            match things.create(&PostParams::default(), &thing).await {
                Err(kube::Error::Api(status)) if status.code == 404 => tokio::time::sleep(Duration::from_millis(20)).await,
                other => break other.unwrap(),
            }
        };
        assert_eq!(made.data["spec"], json!({"size": 1}), "pruned by the schema");
    }
}

/// A namespace gets its account: the controllers run somewhere.
async fn namespaces_are_looked_after(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &object(json!({"metadata": {"name": name}}))).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let found = tokio::time::timeout(LONG, async {
        while accounts.get_opt("default").await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    found.await.expect("the controllers make the account of a namespace");
}

/// KAPI-STORE-03: while etcd is away, requests fail with clear words and the server is not ready; it is again by itself.
#[test]
fn an_etcd_that_is_away() {
    let Some(()) = need_embedded() else { return };
    if kubectl().is_none() {
        return skip("kubectl is not to be had here (make setup)");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(mut process) = EtcdProcess::start(folder.path(), &[]) else { return };
    let storage = format!("etcd://{}", process.address());
    let cluster = Cluster::up(&["--storage", &storage, "--components", "none"]);
    process.kill();
    // Other clients would ask again for as long as they may, since nothing was done.
    let (code, refused) = block_on(async {
        let mut connection = Target::read(cluster.kubeconfig()).unwrap().connect().await.unwrap();
        connection.ask("GET", "/api/v1/namespaces/default/configmaps/a", JSON, Bytes::new()).await.unwrap()
    });
    let refused = String::from_utf8_lossy(&refused);
    assert!(code == 503 && refused.contains("etcd at 127.0.0.1:"), "{code}: {refused}");
    let unready = cluster.kubectl(&["get", "--raw", "/readyz?verbose"]).refused();
    assert!(unready.contains("[-]etcd failed: reason withheld"), "{unready}");
    process.run();
    eventually("the server is ready again", LONG, || {
        let output = cluster.kubectl(&["get", "--raw", "/readyz"]);
        if output.code == Some(0) { Ok(()) } else { Err(output.to_string()) }
    });
    cluster.kubectl(&["create", "configmap", "a"]).ok();
}
