//! Clients that do not read, or that only begin: what they cost the server in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use http::Request;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Client, Config};
use mainstay_e2e::{Cluster, need_embedded, resident_memory};
use serde_json::json;

/// More than one watcher may hold at all, less than what is told to them.
const GROWTH_KIB: u64 = 160 << 10;
const DEAF: usize = 20;
const LARGE: usize = 900 << 10;
const ROUNDS: usize = 150;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

async fn config(cluster: &Cluster) -> Config {
    let kubeconfig = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await.unwrap()
}

/// KAPI-SRV-06: watchers that stop reading under heavy events hold no memory without bound, and those that read miss nothing.
#[test]
fn deaf_watchers() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(&["--components", "none"]);
    block_on(async {
        let maps = |config: Config| -> Api<ConfigMap> { Api::namespaced(Client::try_from(config).unwrap(), "default") };
        let writer = maps(config(&cluster).await);
        let small: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "heavy"}, "data": {"round": "none"}})).unwrap();
        writer.create(&PostParams::default(), &small).await.unwrap();
        let begin = writer.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        // Each has a connection of its own, and reads nothing of it.
        let mut deaf = Vec::new();
        for _ in 0..DEAF {
            deaf.push(maps(config(&cluster).await).watch(&WatchParams::default(), &begin).await.unwrap().boxed());
        }
        let mut reader = maps(config(&cluster).await).watch(&WatchParams::default(), &begin).await.unwrap().boxed();
        let before = resident_memory(cluster.pid()).unwrap();
        let large = "x".repeat(LARGE);
        for round in 0..ROUNDS {
            let patch = Patch::Merge(json!({"data": {"round": round.to_string(), "large": large}}));
            writer.patch("heavy", &PatchParams::default(), &patch).await.unwrap();
            // Where this takes more than a minute, bookmarks come in between.
            let map = loop {
                match reader.next().await.expect("the reader is told").unwrap() {
                    kube::api::WatchEvent::Modified(map) => break map,
                    kube::api::WatchEvent::Bookmark(_) => {}
                    told => panic!("{told:?}"),
                }
            };
            assert_eq!(map.data.unwrap()["round"], round.to_string());
        }
        let after = resident_memory(cluster.pid()).unwrap();
        eprintln!(
            "memory before {} MiB, after {} MiB of events to {DEAF} deaf watchers {} MiB",
            before >> 10,
            (ROUNDS * LARGE) >> 20,
            after >> 10
        );
        assert!(after.saturating_sub(before) < GROWTH_KIB, "from {before} to {after} KiB");
        drop(deaf);
    });
}

/// KAPI-SRV-06: streams of HTTP/2 that are opened only to be reset cost nothing that lasts, and others are served meanwhile.
#[test]
fn rapid_resets() {
    let Some(()) = need_embedded() else { return };
    let cluster = Cluster::up(&["--components", "none"]);
    block_on(async {
        let config = config(&cluster).await;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in config.root_cert.clone().unwrap() {
            roots.add(certificate.into()).unwrap();
        }
        let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
        let authority = cluster.server().trim_start_matches("https://").to_owned();
        let before = resident_memory(cluster.pid()).unwrap();
        let (mut sent, mut connections) = (0, 0);
        while sent < 5_000 && connections < 200 {
            connections += 1;
            let stream = tokio::net::TcpStream::connect(&authority).await.unwrap();
            let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
            let stream = connector.connect(name, stream).await.unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake::<_, _, Empty<bytes::Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            let connection = tokio::spawn(connection);
            while sent < 5_000 && sender.ready().await.is_ok() {
                let request = Request::get(format!("https://{authority}/api/v1/namespaces")).body(Empty::new()).unwrap();
                // Sent with the first look at the answer, and reset as that is given up.
                let mut answer = Box::pin(sender.send_request(request));
                let _ = (&mut answer).now_or_never();
                tokio::task::yield_now().await;
                drop(answer);
                sent += 1;
            }
            connection.abort();
        }
        eprintln!("{sent} streams opened and reset on {connections} connections");
        let names: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(Client::try_from(config).unwrap());
        let listed = tokio::time::timeout(Duration::from_secs(60), names.list(&ListParams::default())).await.expect("others are served");
        assert!(listed.unwrap().items.len() >= 4);
        let after = resident_memory(cluster.pid()).unwrap();
        assert!(after.saturating_sub(before) < GROWTH_KIB, "from {before} to {after} KiB");
    });
}
