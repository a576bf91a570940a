//! What admission notes for auditors: events of the target `audit`, with key and text as upstream's audit annotations have them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use crate::common::Cluster;
use crate::peer::Peer;
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Metadata, Subscriber};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// Keeps `annotation=value` of every event of the target, for as long as the guard lives and on its thread; `refused` stands before what
/// was not taken.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn start() -> (Self, DefaultGuard) {
        let notes = Self::default();
        let guard = set_default(notes.clone());
        (notes, guard)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[derive(Default)]
struct Fields {
    annotation: String,
    value: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, text: &str) {
        match field.name() {
            "annotation" => text.clone_into(&mut self.annotation),
            "value" => text.clone_into(&mut self.value),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "audit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let refused = if *event.metadata().level() == Level::WARN { "refused " } else { "" };
        self.0.lock().unwrap().push(format!("{refused}{}={}", fields.annotation, fields.value));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn settled(cluster: &Cluster) {
    cluster.server.api().objects.cache.catch_up().await.unwrap();
}

/// KAPI-ADM-02: a binding that audits lets the request pass and notes the first failed validation, in upstream's form; annotations of
/// the policy itself stand under its name.
#[tokio::test]
async fn policies() {
    let cluster = Cluster::new().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "has(object.data)"}, {"expression": "object.data.size() < 2", "message": "too many"}],
        "auditAnnotations": [{"key": "size", "valueExpression": "string(object.data.size()) + ' keys'"}],
    });
    let policy = json!({"metadata": {"name": "small.example.com"}, "spec": spec});
    cluster.post(&format!("{ADMISSION}/validatingadmissionpolicies"), policy).await.ok();
    for (name, actions) in [("one", json!(["Warn", "Audit"])), ("two", json!(["Audit"]))] {
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": "small.example.com", "validationActions": actions}});
        cluster.post(&format!("{ADMISSION}/validatingadmissionpolicybindings"), binding).await.ok();
    }
    settled(&cluster).await;
    let (notes, _guard) = Notes::start();
    cluster.post(MAPS, json!({"metadata": {"name": "small"}, "data": {"a": "1"}})).await.ok();
    assert_eq!(notes.take(), ["small.example.com/size=1 keys"]);
    cluster.post(MAPS, json!({"metadata": {"name": "large"}, "data": {"a": "1", "b": "2"}})).await.ok();
    let failure =
        r#"[{"message":"too many","policy":"small.example.com","binding":"one","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    let written = notes.take();
    assert_eq!(written[0], format!("validation.policy.admission.k8s.io/validation_failure={failure}"));
    // The second binding finds the key taken.
    assert!(written[1].starts_with("refused ") && written[1].contains(r#""binding":"two""#), "{written:?}");
    assert_eq!(written[2..], ["small.example.com/size=2 keys"]);
}

fn answer(review: &Value, more: &Value) -> Json<Value> {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    for (key, value) in more.as_object().unwrap() {
        response[key] = value.clone();
    }
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// KAPI-ADM-01: annotations of a webhook stand under its name; which webhook changed the object, and which failed and did not matter, is
/// noted by its place.
#[tokio::test]
async fn webhooks() {
    let cluster = Cluster::new().await;
    let change = STANDARD.encode(r#"[{"op": "add", "path": "/data", "value": {"a": "1"}}]"#);
    let router = Router::new()
        .route(
            "/change",
            post(|Json(review): Json<Value>| async move {
                answer(&review, &json!({"patchType": "JSONPatch", "patch": change, "auditAnnotations": {"seen": "yes", "not fit": "x"}}))
            }),
        )
        .route(
            "/merge",
            post(|Json(review): Json<Value>| async move { answer(&review, &json!({"patchType": "Merge", "patch": "W3t9XQ=="})) }),
        );
    let peer = Peer::start(&["127.0.0.1"], router).await;
    let hook = |name: &str, path: &str, policy: &str| {
        json!({
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": policy,
            "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", peer.port), "caBundle": peer.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        })
    };
    for (kind, hooks) in [
        ("mutating", json!([hook("merge", "/merge", "Ignore"), hook("change", "/change", "Fail")])),
        ("validating", json!([hook("gone", "/gone", "Ignore")])),
    ] {
        let path = format!("{ADMISSION}/{kind}webhookconfigurations");
        cluster.post(&path, json!({"metadata": {"name": "all"}, "webhooks": hooks})).await.ok();
    }
    settled(&cluster).await;
    let (notes, _guard) = Notes::start();
    cluster.post(MAPS, json!({"metadata": {"name": "one"}})).await.ok();
    let mut written = notes.take();
    written.sort();
    assert_eq!(
        written,
        [
            "change.example.com/seen=yes",
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0=merge.example.com",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_0=gone.example.com",
            r#"mutation.webhook.admission.k8s.io/round_0_index_0={"configuration":"all","webhook":"merge.example.com","mutated":false}"#,
            r#"mutation.webhook.admission.k8s.io/round_0_index_1={"configuration":"all","webhook":"change.example.com","mutated":true}"#,
            "refused change.example.com/not fit=x",
        ]
    );
}

/// KAPI-ADM-03: PodSecurity notes what is enforced on a pod, and what a pod or a template would violate by the namespace's audit label.
#[tokio::test]
async fn pod_security() {
    let cluster = Cluster::new().await;
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "baseline"}}});
    cluster.patch("/api/v1/namespaces/ns", "merge", labels).await.ok();
    settled(&cluster).await;
    let (notes, _guard) = Notes::start();
    let spec = json!({"hostPID": true, "containers": [{"name": "main", "image": "i"}]});
    cluster.post("/api/v1/namespaces/ns/pods", json!({"metadata": {"name": "p"}, "spec": spec})).await.ok();
    let violation =
        r#"pod-security.kubernetes.io/audit-violations=would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)"#;
    assert_eq!(notes.take(), ["pod-security.kubernetes.io/enforce-policy=privileged:latest", violation]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post("/apis/apps/v1/namespaces/ns/deployments", deployment).await.ok();
    assert_eq!(notes.take(), [violation]);
}
