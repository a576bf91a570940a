//! A cluster with the embedded API, releases in memory, and operators that report what they are told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_apiserver::Server;
use mainstay_apply::Writer;
use mainstay_cluster_version::{Config, Genuine, NAMESPACE, Pace, Proof, Proxy, Releases, RetrieveError, UpdateService};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_objects::{Expect, ObjectRef};
use mainstay_release::Files;
use mainstay_runtime::{Cluster, Env};
use mainstay_testing_cluster::{EmbeddedCluster, administrator};
use mainstay_update_graph::{EvaluationError, MatchingRule, Query, RetrievalError, Retrieved, retrieve};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Releases by pullspec; those that are `genuine` can be verified.
#[derive(Default)]
pub struct Stock {
    pub files: Mutex<BTreeMap<String, Files>>,
    pub genuine: Mutex<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(&'static str);

impl Releases for Stock {
    fn files<'a>(&'a self, wanted: &'a Wanted, _: Instant) -> BoxFuture<'a, Result<Files, RetrieveError>> {
        async move { self.files.lock().unwrap().get(&wanted.image).cloned().ok_or_else(|| RetrieveError::new(Refused("manifest unknown"))) }
            .boxed()
    }

    fn verified(&self) -> Option<Value> {
        None
    }

    fn verify<'a>(&'a self, question: Genuine<'a>) -> BoxFuture<'a, Result<Proof, RetrieveError>> {
        async move {
            let genuine = self.genuine.lock().unwrap().iter().any(|image| image == question.image);
            if genuine { Ok(Proof::Signed) } else { Err(RetrieveError::new(Refused("no signature"))) }
        }
        .boxed()
    }
}

/// An update service that answers with this graph, and metrics that say this.
#[derive(Default)]
pub struct Service {
    pub graph: Mutex<Option<Value>>,
    pub matches: Mutex<BTreeMap<String, bool>>,
    pub hangs: AtomicBool,
}

impl UpdateService for Service {
    fn endpoint(&self) -> String {
        "https://updates.example/graph".to_owned()
    }

    fn ask<'a>(&'a self, query: &'a Query, _: &'a Proxy) -> BoxFuture<'a, Result<Retrieved, RetrievalError>> {
        async move {
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let request = query.request()?;
            match &*self.graph.lock().unwrap() {
                Some(graph) => retrieve(query, &request.version, "200 OK", graph.to_string().as_bytes()),
                None => retrieve(query, &request.version, "500 Internal Server Error", b""),
            }
        }
        .boxed()
    }

    fn evaluate<'a>(&'a self, rule: &'a MatchingRule) -> BoxFuture<'a, Result<bool, EvaluationError>> {
        async move {
            let query = rule.promql.as_ref().map(|promql| promql.promql.clone()).unwrap_or_default();
            self.matches.lock().unwrap().get(&query).copied().ok_or_else(|| EvaluationError("no metrics endpoint is configured".to_owned()))
        }
        .boxed()
    }
}

/// A cluster.
pub struct World {
    pub service: Arc<Service>,
    pub admin: Writer,
    pub server: Arc<Server>,
    pub stock: Arc<Stock>,
    pub expected: watch::Receiver<Arc<[Value]>>,
    sender: watch::Sender<Arc<[Value]>>,
    _folder: tempfile::TempDir,
}

pub fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

pub fn version() -> ObjectRef {
    place("config.openshift.io/v1", "ClusterVersion", "", "version")
}

impl World {
    /// A cluster with the definitions of a cluster's own kinds, and a ClusterVersion.
    pub async fn new(spec: Value) -> Self {
        let EmbeddedCluster { admin, server, folder } = EmbeddedCluster::start().await;
        for manifest in mainstay_api::release_manifests().unwrap() {
            admin.apply(&manifest.definition, true, &Expect::default()).await.unwrap();
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        admin.apply(&namespace, true, &Expect::default()).await.unwrap();
        let object =
            json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": spec});
        for _ in 0..500 {
            if admin.apply(&object, true, &Expect::default()).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for (namespace, name) in [("openshift-config-managed", "admin-gates"), ("openshift-config", "admin-acks")] {
            let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {}});
            for object in [own, map] {
                admin.apply(&object, true, &Expect::default()).await.unwrap();
            }
        }
        let (sender, expected) = watch::channel(Arc::from(Vec::new()));
        Self { admin, server: Arc::new(server), stock: Arc::default(), service: Arc::default(), expected, sender, _folder: folder }
    }

    /// Starts the operator with its own release.
    pub fn operator(&self, image: &str, acceleration: f64) -> DropGuard {
        self.start(image, acceleration, false, true)
    }

    /// The same, which reaches the API by a router of the test's.
    pub fn through(&self, router: axum::Router, image: &str, acceleration: f64) -> DropGuard {
        self.on(router, image, acceleration, false, true)
    }

    /// The same, which makes nothing that operators would make.
    pub fn strict(&self, image: &str, acceleration: f64) -> DropGuard {
        self.start(image, acceleration, false, false)
    }

    /// The same, which takes every recommended update by itself.
    pub fn automatic(&self, image: &str, acceleration: f64) -> DropGuard {
        self.start(image, acceleration, true, true)
    }

    fn start(&self, image: &str, acceleration: f64, is_automatic: bool, plays: bool) -> DropGuard {
        self.on(self.server.router(), image, acceleration, is_automatic, plays)
    }

    /// The same, with releases from elsewhere.
    pub fn retrieving(&self, releases: Arc<dyn Releases>, image: &str, acceleration: f64) -> DropGuard {
        self.with(releases, self.server.router(), image, acceleration, false, true)
    }

    fn on(&self, router: axum::Router, image: &str, acceleration: f64, is_automatic: bool, plays: bool) -> DropGuard {
        self.with(self.stock.clone(), router, image, acceleration, is_automatic, plays)
    }

    fn with(
        &self,
        releases: Arc<dyn Releases>,
        router: axum::Router,
        image: &str,
        acceleration: f64,
        is_automatic: bool,
        plays: bool,
    ) -> DropGuard {
        let stop = CancellationToken::new();
        let cluster = Cluster::Embedded { router, identity: administrator };
        let config = Config {
            release_image: Some(image.to_owned()),
            releases,
            updates: self.service.clone(),
            update_service: None,
            is_automatic,
            profile: "self-managed-high-availability".to_owned(),
            exclude_identifier: String::new(),
            always_enabled: Vec::new(),
            is_hosted: false,
            plays,
            candidates: Arc::from(Vec::new()),
            pace: Pace::new(0.0).accelerated(acceleration),
            expected: self.sender.clone(),
        };
        let until = stop.clone();
        tokio::spawn(async move { mainstay_cluster_version::run(cluster, Env::system(), config, until).await.unwrap() });
        stop.drop_guard()
    }

    /// Reports every expected ClusterOperator as available at its versions, except those that `skips` names.
    pub fn operators(&self, skips: &'static [&'static str]) -> DropGuard {
        let stop = CancellationToken::new();
        let (until, admin, mut expected) = (stop.clone(), self.admin.clone(), self.expected.clone());
        tokio::spawn(async move {
            while !until.is_cancelled() {
                let all = expected.borrow_and_update().clone();
                for manifest in all.iter().filter(|manifest| !skips.contains(&manifest["metadata"]["name"].as_str().unwrap())) {
                    let place = ObjectRef::of(manifest).unwrap();
                    // Operators make the namespaces of what they run.
                    let related = manifest["status"]["relatedObjects"].as_array().into_iter().flatten();
                    for name in related.filter(|one| one["resource"] == "namespaces").filter_map(|one| one["name"].as_str()) {
                        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                        let _ = admin.create(&namespace).await;
                    }
                    if let Ok(Some(live)) = admin.get(&place).await {
                        let mut status = live["status"].clone();
                        let at = "2026-01-01T00:00:00Z";
                        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": at, "reason": "AsExpected", "message": "fine"});
                        status["conditions"] =
                            json!([condition("Available", "True"), condition("Degraded", "False"), condition("Progressing", "False")]);
                        status["versions"] = manifest["status"]["versions"].clone();
                        let _ = admin.update_status(&live, &status).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        stop.drop_guard()
    }

    pub async fn until(&self, place: &ObjectRef, seconds: u64, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..seconds * 20 {
            last = self.admin.get(place).await.ok().flatten().unwrap_or_default();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{place} did not become as expected: {:#}", last["status"]);
    }
}

/// A condition as `STATUS REASON: MESSAGE`.
pub fn condition(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|each| each["type"] == kind);
    let text = |field: &str| found.map_or("", |found| found[field].as_str().unwrap_or_default()).to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}
