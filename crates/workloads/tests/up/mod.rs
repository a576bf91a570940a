//! A server and the components of a cluster in this process, and what tests ask of them.

use std::future::Future;
use std::time::Duration;

use http::Method;
use mainstay_apiserver::{Config, Server};
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Cluster, Env};
use mainstay_workloads::{Options, run};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Far beyond what anything takes: a limit for a test that hangs, not a measure.
const LIMIT: Duration = Duration::from_secs(120);
pub const CA: &str = "-----BEGIN CERTIFICATE-----\ntest\n-----END CERTIFICATE-----\n";

pub struct Up {
    client: kube::Client,
    stop: CancellationToken,
    workloads: tokio::task::JoinHandle<mainstay_workloads::Result<()>>,
    server: Server,
    _data: tempfile::TempDir,
}

impl Up {
    pub async fn start(options: Options) -> Self {
        Self::start_at(options, Env::system()).await
    }

    /// The components go by this clock; the server goes by the machine's.
    pub async fn start_at(options: Options, env: Env) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Server::open(Config::local(data.path(), 6443)).await.unwrap();
        let user = UserInfo::new("system:kube-controller-manager", &["system:masters"]);
        let cluster = Cluster::Embedded { router: server.in_process(user), identity: |_| {} };
        let client = cluster.client().unwrap();
        let stop = CancellationToken::new();
        let options = Options { ca_pem: CA.as_bytes().to_vec(), ..options };
        let workloads = tokio::spawn(run(cluster, options, env, stop.clone()));
        let up = Self { client, stop, workloads, server, _data: data };
        up.until("/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
        up
    }

    pub async fn ask(&self, method: Method, path: &str, content_type: &str, body: Option<&Value>) -> Result<Value, kube::Error> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type).body(body).unwrap();
        self.client.request(request).await
    }

    pub async fn get(&self, path: &str) -> Option<Value> {
        match self.ask(Method::GET, path, "application/json", None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    pub async fn post(&self, path: &str, body: Value) -> Value {
        self.ask(Method::POST, path, "application/json", Some(&body)).await.unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    pub async fn merge(&self, path: &str, body: Value) -> Value {
        let done = self.ask(Method::PATCH, path, "application/merge-patch+json", Some(&body)).await;
        done.unwrap_or_else(|error| panic!("PATCH {path}: {error}"))
    }

    pub async fn delete(&self, path: &str, policy: &str) -> Value {
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.ask(Method::DELETE, path, "application/json", Some(&body)).await.unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    /// The object as soon as it is as wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        within(path, &mut last, || async { self.get(path).await }, |object| object.as_ref().is_some_and(&wanted)).await.unwrap()
    }

    pub async fn until_gone(&self, path: &str) {
        let mut last = None;
        within(path, &mut last, || async { self.get(path).await }, Option::is_none).await;
    }

    /// What the objects of a list have been since a version, one after the other.
    pub async fn history(&self, path: &str, since: &str) -> Vec<Value> {
        let uri = format!("{path}&watch=true&resourceVersion={since}&timeoutSeconds=1");
        let text = self.client.request_text(http::Request::get(uri).body(Vec::new()).unwrap()).await.unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["object"].take()).collect()
    }

    pub async fn down(self) {
        self.stop.cancel();
        self.server.end_watches();
        self.workloads.await.unwrap().unwrap();
        self.server.close().await;
    }
}

pub async fn within<F: Future<Output = Option<Value>>>(
    what: &str,
    last: &mut Option<Value>,
    ask: impl Fn() -> F,
    good: impl Fn(&Option<Value>) -> bool,
) -> Option<Value> {
    let wait = async {
        loop {
            *last = ask().await;
            if good(last) {
                return last.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(LIMIT, wait).await;
    found.unwrap_or_else(|_| panic!("{what} did not become as wanted; it is {last:?}"))
}
