//! Admission webhooks that are real processes as far as the server can tell: HTTPS, a certificate authority of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common;
use std::sync::{Arc, Mutex};

use crate::common::{Answer, Cluster};
use crate::peer::Peer;
use axum::extract::{RawQuery, State};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What a webhook was asked, in order.
type Reviews = Arc<Mutex<Vec<Value>>>;

struct Hooks {
    peer: Peer,
    reviews: Reviews,
}

fn allowed(review: &Value, more: Value) -> Json<Value> {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    for (key, value) in more.as_object().unwrap() {
        response[key] = value.clone();
    }
    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

fn patched(review: &Value, operations: Value) -> Json<Value> {
    allowed(review, json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())}))
}

/// Adds a line to an annotation, so that the order of calls shows in the object.
async fn mark(State((reviews, name)): State<(Reviews, &'static str)>, Json(review): Json<Value>) -> Json<Value> {
    reviews.lock().unwrap().push(json!({"hook": name, "review": review.clone()}));
    let object = &review["request"]["object"];
    let before = object.pointer("/metadata/annotations/seen").and_then(Value::as_str).unwrap_or_default();
    let seen = json!([{"op": "add", "path": "/metadata/annotations", "value": {"seen": format!("{before}{name}")}}]);
    patched(&review, seen)
}

async fn deny(State((reviews, name)): State<(Reviews, &'static str)>, Json(review): Json<Value>) -> Json<Value> {
    reviews.lock().unwrap().push(json!({"hook": name, "review": review.clone()}));
    let bad = [&review["request"]["object"], &review["request"]["oldObject"]].iter().any(|object| object["data"]["bad"] == "yes");
    let status =
        json!({"code": 418, "reason": "Teapot", "message": "bad data", "details": {"causes": [{"field": "data.bad", "message": "m"}]}});
    if bad { allowed(&review, json!({"allowed": false, "status": status})) } else { allowed(&review, json!({"warnings": ["looked at"]})) }
}

/// Refuses with the status that the object carries.
async fn refuse(State(reviews): State<Reviews>, Json(review): Json<Value>) -> Json<Value> {
    reviews.lock().unwrap().push(json!({"hook": review["request"]["operation"]}));
    let status = review["request"]["object"]["data"]["status"].as_str().unwrap_or_default();
    match serde_json::from_str::<Value>(status) {
        Ok(status) => allowed(&review, json!({"allowed": false, "status": status})),
        Err(_) => allowed(&review, json!({})),
    }
}

/// Notes how much time it is given.
async fn timed(State(reviews): State<Reviews>, RawQuery(query): RawQuery, Json(review): Json<Value>) -> Json<Value> {
    reviews.lock().unwrap().push(json!({"hook": query.unwrap_or_default()}));
    allowed(&review, json!({}))
}

impl Hooks {
    async fn start() -> Self {
        let reviews = Reviews::default();
        let state = |name| (reviews.clone(), name);
        let router = Router::new()
            .route("/a", post(mark).with_state(state("a")))
            .route("/b", post(mark).with_state(state("b")))
            .route("/deny", post(deny).with_state(state("deny")))
            .route("/refuse", post(refuse).with_state(reviews.clone()))
            .route("/timed", post(timed).with_state(reviews.clone()))
            .route("/text", post(|| async { "no review" }))
            .route(
                "/stale",
                post(|| async {
                    Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "other"}}))
                }),
            )
            .route("/patch", post(|Json(review): Json<Value>| async move { patched(&review, json!([])) }))
            .route(
                "/merge",
                post(|Json(review): Json<Value>| async move { allowed(&review, json!({"patchType": "MergePatch", "patch": "W3t9XQ=="})) }),
            )
            .route("/never", post(std::future::pending::<String>));
        Self { peer: Peer::start(&["127.0.0.1"], router).await, reviews }
    }

    fn hook(&self, name: &str, path: &str, more: Value) -> Value {
        let mut hook = json!({
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}{path}", self.peer.port), "caBundle": self.peer.ca_bundle()},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        for (key, value) in more.as_object().unwrap() {
            hook[key] = value.clone();
        }
        hook
    }

    fn asked(&self) -> Vec<String> {
        self.reviews.lock().unwrap().iter().map(|one| one["hook"].as_str().unwrap().to_owned()).collect()
    }
}

async fn configure(cluster: &Cluster, kind: &str, name: &str, hooks: Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let body = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": hooks});
    cluster.post(&format!("/apis/admissionregistration.k8s.io/v1/{plural}"), body).await.ok();
    cluster.server.api().objects.cache.catch_up().await.unwrap();
}

const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

async fn create(cluster: &Cluster, name: &str, data: Value) -> Answer {
    cluster.post(MAPS, json!({"metadata": {"name": name}, "data": data})).await
}

/// KAPI-ADM-01: mutating webhooks are asked in the order of their configurations' names; what one changed the next one sees, and
/// those asked before it look again if they want to.
#[tokio::test(flavor = "multi_thread")]
async fn order_and_reinvocation() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    configure(&cluster, MUTATING, "z-last", json!([hooks.hook("b", "/b", json!({}))])).await;
    configure(&cluster, MUTATING, "a-first", json!([hooks.hook("a", "/a", json!({"reinvocationPolicy": "IfNeeded"}))])).await;
    let created = create(&cluster, "one", json!({})).await.ok();
    assert_eq!(created["metadata"]["annotations"]["seen"], "aba");
    assert_eq!(hooks.asked(), ["a", "b", "a"]);
    let review = hooks.reviews.lock().unwrap()[0]["review"].clone();
    let request = &review["request"];
    assert_eq!(request["operation"], "CREATE");
    assert_eq!((&request["namespace"], &request["name"]), (&json!("ns"), &json!("one")));
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!(request["userInfo"]["username"], "admin");
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["object"]["kind"], "ConfigMap");
    assert_eq!(request["dryRun"], false);
    // An update shows both objects; what is removed by nobody stays.
    let answer = cluster.patch(&format!("{MAPS}/one"), "merge", json!({"data": {"x": "y"}})).await.ok();
    assert_eq!(answer["metadata"]["annotations"]["seen"], "abaaba");
    let reviews = hooks.reviews.lock().unwrap();
    assert_eq!(reviews.last().unwrap()["review"]["request"]["oldObject"]["metadata"]["annotations"]["seen"], "aba");
}

/// KAPI-ADM-01: a validating webhook refuses with its own status, warns, and is asked about deletions and dry runs.
#[tokio::test(flavor = "multi_thread")]
async fn refusals() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/deny", json!({}))])).await;
    let refused = create(&cluster, "one", json!({"bad": "yes"})).await;
    assert_eq!(refused.status.as_u16(), 418);
    assert_eq!(refused.message(), "admission webhook \"v.example.com\" denied the request: bad data");
    assert_eq!((&refused.body["reason"], &refused.body["details"]["causes"][0]["field"]), (&json!("Teapot"), &json!("data.bad")));
    let created = create(&cluster, "two", json!({})).await;
    assert_eq!(created.headers["warning"], "299 - \"looked at\"");
    created.ok();
    let answer = cluster.post(&format!("{MAPS}?dryRun=All"), json!({"metadata": {"name": "three"}})).await;
    answer.ok();
    assert_eq!(hooks.reviews.lock().unwrap().last().unwrap()["review"]["request"]["dryRun"], true);
    cluster.delete(&format!("{MAPS}/two")).await.ok();
    let last = hooks.reviews.lock().unwrap().last().unwrap()["review"]["request"].clone();
    assert_eq!(
        (&last["operation"], &last["object"], &last["oldObject"]["metadata"]["name"]),
        (&json!("DELETE"), &Value::Null, &json!("two"))
    );
    // Their own configurations are nobody's business.
    let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    configure(&cluster, VALIDATING, "all", json!([hooks.hook("all", "/text", json!({"rules": everything}))])).await;
    assert_eq!(create(&cluster, "four", json!({})).await.status.as_u16(), 500);
    cluster.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all").await.ok();
}

/// KAPI-ADM-01: selectors and conditions decide whether a webhook is asked at all.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_asked() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    let condition =
        json!([{"name": "only-x", "expression": "object.metadata.name.startsWith('x') && request.userInfo.username == 'admin'"}]);
    let hook = hooks.hook(
        "a",
        "/a",
        json!({
            "objectSelector": {"matchLabels": {"watched": "yes"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}},
            "matchConditions": condition,
        }),
    );
    configure(&cluster, MUTATING, "m", json!([hook])).await;
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.ok();
    for (namespace, name, label, asked) in
        [("ns", "x1", "yes", true), ("ns", "y1", "yes", false), ("ns", "x2", "no", false), ("other", "x1", "yes", false)]
    {
        let before = hooks.asked().len();
        let body = json!({"metadata": {"name": name, "labels": {"watched": label}}});
        cluster.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), body).await.ok();
        assert_eq!(hooks.asked().len() > before, asked, "{namespace}/{name}");
    }
}

/// KAPI-ADM-01: a webhook that cannot be asked, or answers nonsense, closes the way or not, as its failure policy says.
#[tokio::test(flavor = "multi_thread")]
async fn failures() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    let port = hooks.peer.port;
    for (path, mutating, words) in [
        ("/text", false, "failed to call webhook: couldn't get version/kind; json parse error".to_owned()),
        ("/stale", false, "received invalid webhook response: expected response.uid=".to_owned()),
        ("/patch", false, "received invalid webhook response: validating webhook may not return response.patch".to_owned()),
        ("/nothing", true, "failed to call webhook: the server could not find the requested resource".to_owned()),
        ("/merge", true, "unsupported patch type \"MergePatch\"".to_owned()),
        ("/never", true, format!("failed to call webhook: Post \"https://127.0.0.1:{port}/never?timeout=1s\": context deadline exceeded")),
    ] {
        let kind = if mutating { MUTATING } else { VALIDATING };
        let name = path.trim_start_matches('/').to_owned();
        configure(&cluster, kind, &name, json!([hooks.hook(&name, path, json!({"timeoutSeconds": 1}))])).await;
        let refused = create(&cluster, "x", json!({})).await;
        let expected = format!("Internal error occurred: failed calling webhook \"{name}.example.com\": {words}");
        assert!(refused.status.as_u16() == 500 && refused.message().starts_with(&expected), "{path}: {}", refused.text);
        let object = format!("/apis/admissionregistration.k8s.io/v1/{}s/{name}", kind.to_lowercase());
        cluster.patch(&object, "json", json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}])).await.ok();
        cluster.server.api().objects.cache.catch_up().await.unwrap();
        create(&cluster, &format!("open-{name}"), json!({})).await.ok();
        cluster.delete(&object).await.ok();
        cluster.server.api().objects.cache.catch_up().await.unwrap();
    }
}

/// KAPI-ADM-01: a rule for one version is a rule for its equivalents, and the webhook sees the version that it asked for.
#[tokio::test(flavor = "multi_thread")]
async fn equivalent_versions() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    let rules =
        json!([{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]);
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/deny", json!({"rules": rules}))])).await;
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    cluster.post("/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers", scaler).await.ok();
    let review = hooks.reviews.lock().unwrap()[0]["review"]["request"].clone();
    assert_eq!(review["kind"]["version"], "v1");
    assert_eq!(review["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!((&review["requestKind"]["version"], &review["requestResource"]["version"]), (&json!("v2"), &json!("v2")));
}

/// KAPI-ADM-01: what goes through a subresource is shown as that subresource's kind; the options of a deletion come along.
#[tokio::test(flavor = "multi_thread")]
async fn subresources() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    let rules = json!([
        {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]},
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction", "pods/binding"]},
        {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
    ]);
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/deny", json!({"rules": rules}))])).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    cluster.post("/apis/apps/v1/namespaces/ns/deployments", deployment).await.ok();
    cluster.patch("/apis/apps/v1/namespaces/ns/deployments/d/scale", "merge", json!({"spec": {"replicas": 3}})).await.ok();
    let pods = "/api/v1/namespaces/ns/pods";
    cluster.post(pods, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})).await.ok();
    cluster.post(&format!("{pods}/p/binding"), json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})).await.ok();
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}});
    cluster.post(&format!("{pods}/p/eviction"), eviction).await.ok();
    let reviews = hooks.reviews.lock().unwrap();
    let seen: Vec<_> = reviews
        .iter()
        .map(|one| {
            let request = &one["review"]["request"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&request["operation"]), text(&request["subResource"]), text(&request["kind"]["kind"]), text(&request["object"]["kind"]))
        })
        .collect();
    let expected = [
        ("UPDATE", "scale", "Scale", "Scale"),
        ("CREATE", "binding", "Binding", "Binding"),
        ("CREATE", "eviction", "Eviction", "Eviction"),
        ("DELETE", "", "Pod", ""),
    ];
    let expected: Vec<_> =
        expected.iter().map(|(a, b, c, d)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned(), (*d).to_owned())).collect();
    assert_eq!(seen, expected);
    let scale = &reviews[0]["review"]["request"];
    assert_eq!((&scale["object"]["spec"]["replicas"], &scale["oldObject"]["spec"]["replicas"]), (&json!(3), &json!(1)));
    assert_eq!(reviews[3]["review"]["request"]["options"]["gracePeriodSeconds"], 0);
}

/// KAPI-SSA-01, KAPI-ADM-01: what a webhook refuses with is the answer, even where it reads as if the object were gone or there already:
/// nobody is asked about the same request anew.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_takes_a_refusal_for_an_answer() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    create(&cluster, "one", json!({})).await.ok();
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/refuse", json!({}))])).await;
    for (name, code, reason) in [("one", 404, "NotFound"), ("two", 409, "AlreadyExists")] {
        let status = json!({"code": code, "reason": reason, "message": "no"}).to_string();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"status": status}});
        let refused = cluster.patch(&format!("{MAPS}/{name}?fieldManager=m"), "apply", object).await;
        assert_eq!(refused.status.as_u16(), code, "{}", refused.text);
        assert_eq!(refused.message(), "admission webhook \"v.example.com\" denied the request: no");
    }
    assert_eq!(hooks.asked(), ["UPDATE", "CREATE"]);
}

/// KAPI-SSA-01: an apply follows an object that somebody else deletes or creates meanwhile, but not for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_is_overtaken() {
    let cluster = Cluster::new().await;
    let (asked, patience) = (Reviews::default(), Arc::new(Mutex::new(1)));
    let (noted, left, admin) = (asked.clone(), patience.clone(), cluster.admin.clone());
    // Undoes what the apply stands on: deletes what is updated, creates what is created.
    let meddle = move |Json(review): Json<Value>| {
        let (noted, left, admin) = (noted.clone(), left.clone(), admin.clone());
        async move {
            let request = &review["request"];
            if request["options"]["fieldManager"] != "applier" {
                return allowed(&review, json!({}));
            }
            noted.lock().unwrap().push(request["operation"].clone());
            let meddles = {
                let mut left = left.lock().unwrap();
                let meddles = *left > 0;
                *left -= 1;
                meddles
            };
            if meddles && request["operation"] == "UPDATE" {
                common::send(&admin, "DELETE", &format!("{MAPS}/one"), &[], axum::body::Body::empty()).await.ok();
            } else if meddles {
                let body = json!({"metadata": {"name": "one"}}).to_string();
                common::send(&admin, "POST", MAPS, &[("content-type", "application/json")], body).await.ok();
            }
            allowed(&review, json!({}))
        }
    };
    let hooks = Hooks { peer: Peer::start(&["127.0.0.1"], Router::new().route("/meddle", post(meddle))).await, reviews: asked.clone() };
    let rules = json!([{"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    create(&cluster, "one", json!({})).await.ok();
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/meddle", json!({"rules": rules}))])).await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}});
    let apply = async || cluster.patch(&format!("{MAPS}/one?fieldManager=applier"), "apply", object.clone()).await;
    assert_eq!(apply().await.status.as_u16(), 201);
    assert_eq!(*asked.lock().unwrap(), ["UPDATE", "CREATE"]);

    asked.lock().unwrap().clear();
    *patience.lock().unwrap() = i32::MAX;
    cluster.delete(&format!("{MAPS}/one")).await.ok();
    let refused = apply().await;
    assert_eq!((refused.status.as_u16(), &refused.body["reason"]), (404, &json!("NotFound")));
    assert_eq!(*asked.lock().unwrap(), ["CREATE", "UPDATE", "CREATE", "UPDATE", "CREATE", "UPDATE"]);
}

/// KAPI-ADM-01: the time of the request limits that of its webhooks, in every form that Go reads.
#[tokio::test(flavor = "multi_thread")]
async fn time_of_the_request() {
    let (cluster, hooks) = (Cluster::new().await, Hooks::start().await);
    configure(&cluster, VALIDATING, "v", json!([hooks.hook("v", "/timed", json!({"timeoutSeconds": 30}))])).await;
    for (index, (asked, limited)) in
        [("", false), ("?timeout=0s", false), ("?timeout=1m30s", false), ("?timeout=20.5s", true)].iter().enumerate()
    {
        cluster.post(&format!("{MAPS}{asked}"), json!({"metadata": {"name": format!("m{index}")}})).await.ok();
        let given = hooks.asked().pop().unwrap();
        assert_eq!(given != "timeout=30s", *limited, "{asked}: {given}");
    }
}
