//! What the server serves, while groups come and go.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use mainstay_bundle::Bundle;
use mainstay_diagnostics::SharedError;
use mainstay_olm_v1::extension::observe::{BundleSource, Observer, PolicySource};
use mainstay_olm_v1_core::extension::facts::{BundleImage, Fact, PullFailure};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_rbac::PolicyIndex;
use serde_json::{Value, json};

struct Nothing;

#[async_trait]
impl BundleSource for Nothing {
    async fn bundle(&self, _extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        Err(PullFailure { terminal: true, ..PullFailure::other(image.reference.clone()) })
    }

    async fn forget(&self, _extension: &str) -> Result<(), SharedError> {
        Ok(())
    }
}

#[async_trait]
impl PolicySource for Nothing {
    async fn index(&self) -> Arc<PolicyIndex> {
        Arc::default()
    }
}

/// A server whose list of groups names one that is gone when its resources are asked for; `broken` is what it answers for another.
fn answer(path: &str, broken: u16) -> (u16, Value) {
    let group = |name: &str| json!({"name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}]});
    let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]});
    let list = |version: &str, resources: Value| (200, json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources}));
    match path {
        "/api" => (200, json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        "/apis" => {
            (200, json!({"kind": "APIGroupList", "groups": [group("gone.example.com"), group("example.com"), group("broken.example.com")]}))
        }
        "/api/v1" => list("v1", json!([resource("pods", "Pod"), resource("pods/log", "Pod")])),
        "/apis/example.com/v1" => list("example.com/v1", json!([resource("widgets", "Widget")])),
        "/apis/broken.example.com/v1" if broken != 200 => (broken, json!("not now")),
        "/apis/broken.example.com/v1" => list("broken.example.com/v1", json!([])),
        path if path.contains("/customresourcedefinitions/") => {
            (404, json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}))
        }
        _ => (404, json!("404 page not found")),
    }
}

async fn apis(broken: u16) -> Result<Vec<String>, String> {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (status, body) = answer(request.uri().path(), broken);
        // As a server does for a path that it does not know: no Status, only text.
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        Ok::<_, Infallible>(Response::builder().status(status).body(Body::from(text.into_bytes())).unwrap())
    });
    let client = Client::new(service, "default");
    let observer = Observer { own: &client, account: None, bundles: &Nothing, policy: &Nothing, system_namespace: "olmv1-system" };
    let extension = serde_json::from_value(json!({"metadata": {"name": "widgets"}, "spec": {"namespace": "work",
        "source": {"sourceType": "Catalog", "catalog": {"packageName": "widgets"}}}}));
    let mut snapshot = observer.begin(Arc::new(extension.unwrap()), FeatureGates::defaults(Profile::Up), false, Vec::new(), None).await;
    observer.fetch(&mut snapshot, vec![Fact::Apis]).await;
    let found = snapshot.known.apis.unwrap().map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|api| format!("{}/{} {}", api.provided.group, api.provided.version, api.provided.kind)).collect())
}

/// OLM1-INST-04: a group that goes while it is looked at is not there; one that does not answer is not taken for gone.
#[tokio::test]
async fn groups_come_and_go() {
    assert_eq!(apis(200).await.unwrap(), ["/v1 Pod", "example.com/v1 Widget"]);
    assert!(apis(503).await.unwrap_err().contains("not now"));
}
