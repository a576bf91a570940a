//! The end while requests are under way.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::peer::Peer;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use http_body_util::BodyExt as _;
use mainstay_e2e::client::{JSON, Target};
use mainstay_e2e::{Cluster, eventually, need_embedded};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HELD: usize = 8;

/// A webhook that says who has come, and lets nobody go on before it is told to.
struct Gate {
    peer: Peer,
    come: mpsc::UnboundedReceiver<()>,
    open: watch::Sender<bool>,
}

impl Gate {
    async fn start() -> Self {
        let (tell, come) = mpsc::unbounded_channel();
        let (open, opened) = watch::channel(false);
        let hold = move |Json(review): Json<Value>| {
            let (tell, mut opened) = (tell.clone(), opened.clone());
            async move {
                // The test may be over before the server gives up: then nobody listens, and nobody opens.
                let _ = tell.send(());
                let _ = opened.wait_for(|open| *open).await;
                let response = json!({"uid": review["request"]["uid"], "allowed": true});
                Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
            }
        };
        Self { peer: Peer::start(&["127.0.0.1"], Router::new().route("/", post(hold))).await, come, open }
    }

    /// Holds the creation of every ConfigMap `held-...` in this cluster.
    async fn stand_before(&self, target: &Target) {
        let hook = json!({
            "name": "gate.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", self.peer.port), "caBundle": self.peer.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "matchConditions": [{"name": "held", "expression": "object.metadata.name.startsWith('held-')"}],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        target.connect().await.unwrap().json("POST", path, &json!({"metadata": {"name": "gate"}, "webhooks": [hook]})).await.unwrap();
    }
}

fn map(name: &str) -> bytes::Bytes {
    json!({"metadata": {"name": name}, "data": {"name": name}}).to_string().into()
}

/// A request for a ConfigMap on a connection of its own; what became of it.
fn write(target: &Target, name: String) -> tokio::task::JoinHandle<anyhow::Result<StatusCode>> {
    let target = target.clone();
    tokio::spawn(async move { Ok(target.connect().await?.ask("POST", MAPS, JSON, map(&name)).await?.0) })
}

/// A watch that is open: its end shows that the server has begun to end.
async fn witness(target: &Target) -> http_body_util::BodyStream<hyper::body::Incoming> {
    let mut connection = target.connect().await.unwrap();
    let stream = connection.stream("/api/v1/namespaces?watch=true").await.unwrap();
    // The connection lives as long as its stream.
    std::mem::forget(connection);
    http_body_util::BodyStream::new(stream)
}

fn signal(cluster: &Cluster) {
    assert!(Command::new("kill").args(["-TERM", &cluster.pid().to_string()]).status().unwrap().success());
}

/// Waits until the process has ended by itself; [`Cluster::stop`] then knows its exit code.
fn ended(cluster: &Cluster) {
    let stat = format!("/proc/{}/stat", cluster.pid());
    eventually("the process ends", Duration::from_secs(60), || {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        let state = text.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
        if matches!(state, None | Some('Z')) { Ok(()) } else { Err(format!("its state is {state:?}")) }
    });
}

async fn names(target: &Target) -> BTreeSet<String> {
    let list = target.connect().await.unwrap().json("GET", MAPS, &Value::Null).await.unwrap();
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// KAPI-SRV-04, KAPI-STORE-02: on SIGTERM, every write that was under way is answered, nobody new is let in, the exit code is 0, and
/// whatever was acknowledged by then is there after the next start.
#[test]
fn writes_in_flight_are_answered() {
    let Some(()) = need_embedded() else { return };
    let runtime = Runtime::new().unwrap();
    let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let target = Target::read(cluster.kubeconfig()).unwrap();
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    runtime.block_on(async {
        let mut gate = Gate::start().await;
        gate.stand_before(&target).await;
        let held: Vec<_> = (0..HELD).map(|index| write(&target, format!("held-{index}"))).collect();
        for _ in 0..HELD {
            gate.come.recv().await.unwrap();
        }
        // Others write one after the other until they cannot.
        let (told, mut count) = watch::channel(0);
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (target, acknowledged, told) = (target.clone(), acknowledged.clone(), told.clone());
                tokio::spawn(async move {
                    let mut connection = target.connect().await.unwrap();
                    for number in 0.. {
                        let name = format!("free-{writer}-{number}");
                        let Ok((status, answer)) = connection.ask("POST", MAPS, JSON, map(&name)).await else { return };
                        assert_eq!(status, StatusCode::CREATED, "{}", String::from_utf8_lossy(&answer));
                        acknowledged.lock().unwrap().insert(name);
                        told.send_modify(|count| *count += 1);
                    }
                })
            })
            .collect();
        let mut watch = witness(&target).await;
        count.wait_for(|count| *count >= 100).await.unwrap();
        signal(&cluster);
        while watch.frame().await.is_some_and(|frame| frame.is_ok()) {}
        gate.open.send(true).unwrap();
        for (index, write) in held.into_iter().enumerate() {
            assert_eq!(write.await.unwrap().unwrap(), StatusCode::CREATED, "a write under way is answered");
            acknowledged.lock().unwrap().insert(format!("held-{index}"));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(target.connect().await.is_err(), "nobody is let in any more");
    });
    ended(&cluster);
    assert_eq!(cluster.stop(), Some(0), "{}", cluster.log());
    cluster.start_again();
    let found = runtime.block_on(names(&Target::read(cluster.kubeconfig()).unwrap()));
    let lost: Vec<_> = acknowledged.lock().unwrap().difference(&found).cloned().collect();
    assert!(lost.is_empty(), "{lost:?} are lost");
}

/// KAPI-SRV-04, KAPI-STORE-02: while the first signal waits for a write under way, a second one ends the process at once: with an exit
/// code that says so, and without loss of what was acknowledged.
#[test]
fn a_second_signal_waits_for_nobody() {
    let Some(()) = need_embedded() else { return };
    let runtime = Runtime::new().unwrap();
    let mut cluster = Cluster::up(&["--components", "none", "--nodes", "0"]);
    let target = Target::read(cluster.kubeconfig()).unwrap();
    runtime.block_on(async {
        let mut gate = Gate::start().await;
        gate.stand_before(&target).await;
        assert_eq!(write(&target, "kept".to_owned()).await.unwrap().unwrap(), StatusCode::CREATED);
        let held = write(&target, "held-for-ever".to_owned());
        gate.come.recv().await.unwrap();
        let mut watch = witness(&target).await;
        signal(&cluster);
        while watch.frame().await.is_some_and(|frame| frame.is_ok()) {}
        signal(&cluster);
        held.await.unwrap().unwrap_err();
        drop(gate);
    });
    ended(&cluster);
    assert_eq!(cluster.stop(), Some(1), "{}", cluster.log());
    cluster.start_again();
    let found = runtime.block_on(names(&Target::read(cluster.kubeconfig()).unwrap()));
    assert!(found.contains("kept") && !found.contains("held-for-ever"), "{found:?}");
}
