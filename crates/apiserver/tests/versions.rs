//! Owners of fields in several versions of a kind, beside what kube-apiserver answers to the same writes (see `data/README.md`).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use crate::common::Cluster;
use crate::peer;
use crate::peer::Peer;
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn recorded(kind: &str) -> Vec<Value> {
    let recorded = mainstay_testing::data::own_json(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/versions.json.gz"));
    recorded["sequences"].as_array().unwrap().iter().filter(|sequence| sequence["kind"] == kind).cloned().collect()
}

/// Without what differs from run to run; owners in a fixed order.
fn plain(answer: &Value) -> Value {
    if answer["kind"] == "Status" {
        let mut out = json!({"message": answer["message"], "reason": answer["reason"]});
        if let Some(causes) = answer["details"].get("causes").filter(|causes| !causes.is_null()) {
            out["causes"] = causes.clone();
        }
        return expected(&out);
    }
    let mut answer = answer.clone();
    let metadata = answer["metadata"].as_object_mut().unwrap();
    for name in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(name);
    }
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry.as_object_mut().unwrap().remove("time");
    }
    expected(&answer)
}

/// Owners in a fixed order; causes, too, which Go collects from a map.
fn expected(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for list in ["/metadata/managedFields", "/causes"] {
        if let Some(Value::Array(items)) = answer.pointer_mut(list) {
            items.sort_by_key(Value::to_string);
        }
    }
    answer
}

/// Where two values differ, as pointers with both sides.
fn differences(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                differences(&format!("{path}/{name}"), a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null), out);
            }
        }
        _ if ours == theirs => {}
        _ => out.push(format!("{path}: {ours} is not {theirs}")),
    }
}

/// Plays what was recorded of a kind. But for these `SEQUENCE.STEP`, where a sequence ends, every answer and what is read afterwards is that of
/// kube-apiserver.
async fn replay(cluster: &Cluster, kind: &str, open: &[&str]) {
    let sequences = recorded(kind);
    assert!(sequences.len() >= 40, "{} sequences of {kind}", sequences.len());
    let (mut wrong, mut details, mut steps) = (Vec::new(), Vec::new(), 0);
    for (number, sequence) in sequences.iter().enumerate() {
        for (at, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            let (path, verb) = (step["path"].as_str().unwrap(), step["verb"].as_str().unwrap());
            let object = path.split('?').next().unwrap();
            let mut body = step["body"].clone();
            let answer = match verb {
                "create" => cluster.post(path, body).await,
                "update" => {
                    body["metadata"]["resourceVersion"] = cluster.get(object).await.ok()["metadata"]["resourceVersion"].clone();
                    cluster.put(path, body).await
                }
                patch => cluster.patch(path, patch, body).await,
            };
            steps += 1;
            let mut found = Vec::new();
            differences("", &json!(answer.status.as_u16()), &step["status"], &mut found);
            // How validation words its refusals is compared in `kinds`.
            if answer.status != StatusCode::UNPROCESSABLE_ENTITY {
                differences("", &plain(&answer.body), &expected(&step["answer"]), &mut found);
            }
            for (_, read) in step["reads"].as_object().into_iter().flatten() {
                let version = read["apiVersion"].as_str().unwrap();
                let prefix = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
                let plural = object.split("/namespaces/ns/").nth(1).unwrap().split('/').next().unwrap();
                let name = read["metadata"]["name"].as_str().unwrap();
                let shown = cluster.get(&format!("{prefix}/namespaces/ns/{plural}/{name}")).await.ok();
                differences(&format!("read {version}"), &plain(&shown), &expected(read), &mut found);
            }
            if !found.is_empty() {
                details.push(format!("{kind} {number}.{at} {verb} {path} {}\n  {}", step["body"], found.join("\n  ")));
                wrong.push(format!("{number}.{at}"));
                // What follows would only repeat it.
                break;
            }
        }
    }
    assert_eq!(wrong, open, "{} of {} sequences differ within {steps} steps\n{}", wrong.len(), sequences.len(), details.join("\n"));
}

/// KAPI-SSA-01, KAPI-REST-07: autoscalers written and owned in v1 and v2. Five of the 120 end where an object of v2 is written through v1: kube-apiserver
/// then keeps what the write does not touch as v2 had it (a second utilization of cpu, the order of metrics, an amount of zero), here it
/// becomes what v1 can say of it.
#[tokio::test(flavor = "multi_thread")]
async fn autoscalers() {
    replay(&Cluster::new().await, "HorizontalPodAutoscaler", &["15.4", "32.3", "57.1", "98.2", "111.2"]).await;
}

/// KAPI-SSA-01, KAPI-REST-07: events written and owned in both groups, neither of which knows the owners of the other.
#[tokio::test(flavor = "multi_thread")]
async fn events() {
    replay(&Cluster::new().await, "Event", &[]).await;
}

/// The kinds that were recorded: the versions and the name of a field in each of them.
async fn define(cluster: &Cluster, group: &str, conversion: Value, fields: &[(&str, &str)]) {
    let versions = fields.iter().map(|(name, field)| {
        json!({"name": name, "served": *name != "v3", "storage": *name == "v1", "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    (*field): {"type": "integer"},
                    "other": {"type": "string"},
                    "items": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"],
                            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
                    },
                }},
                "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
            },
        }}})
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "conversion": conversion,
            "versions": versions.collect::<Vec<_>>()},
    });
    cluster.post(CRDS, crd).await.ok();
    while cluster.get(&format!("/apis/{group}/v2/namespaces/ns/things")).await.status == StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
}

fn webhook(peer: &Peer) -> Value {
    let client = json!({"url": format!("https://127.0.0.1:{}/convert", peer.port), "caBundle": peer.ca_bundle()});
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}})
}

/// KAPI-SSA-01, KAPI-CRD-04: a webhook that renames a field.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_fields() {
    let peer = Peer::start(
        &["127.0.0.1"],
        Router::new().route("/convert", post(|Json(review): Json<Value>| async move { Json(peer::renamed(&review, |_, _| {})) })),
    )
    .await;
    let cluster = Cluster::new().await;
    define(&cluster, "webhook.example.com", webhook(&peer), &[("v1", "n"), ("v2", "count")]).await;
    replay(&cluster, "webhook.example.com", &[]).await;
}

/// KAPI-SSA-01, KAPI-CRD-04: versions that differ in nothing but their names.
#[tokio::test(flavor = "multi_thread")]
async fn versions_alike() {
    let cluster = Cluster::new().await;
    define(&cluster, "none.example.com", json!({"strategy": "None"}), &[("v1", "n"), ("v2", "n"), ("v3", "n")]).await;
    replay(&cluster, "none.example.com", &[]).await;
}

const V1: &str = "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers";

fn autoscaler(version: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec})
}

fn cpu(share: i64) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": share}}}])
}

/// Who owns a field below `spec`, as `MANAGER VERSION`.
fn owners(object: &Value, field: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let own = entries.filter(|entry| entry["fieldsV1"]["f:spec"].get(format!("f:{field}")).is_some());
    own.map(|entry| format!("{} {}", entry["manager"].as_str().unwrap(), entry["apiVersion"].as_str().unwrap())).collect()
}

/// KAPI-SSA-01: a field that has another name in v2 is defended there for its owner in v1, in the owner's words.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_field_of_autoscalers() {
    let cluster = Cluster::new().await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let first = autoscaler("v1", &json!({"maxReplicas": 5, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50}));
    cluster.post(&format!("{V1}?fieldManager=m"), first).await.ok();
    let wanted = |share: i64| autoscaler("v2", &json!({"metrics": cpu(share)}));
    // The same value is no conflict: both own it.
    let shared = cluster.patch(&format!("{V2}/h?fieldManager=other"), "apply", wanted(50)).await.ok();
    assert_eq!(owners(&shared, "metrics"), ["other autoscaling/v2"]);
    assert_eq!(owners(&shared, "targetCPUUtilizationPercentage"), ["m autoscaling/v1"]);
    let refused = cluster.patch(&format!("{V2}/h?fieldManager=other"), "apply", wanted(60)).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    let words = "Apply failed with 1 conflict: conflict with \"m\" using autoscaling/v1: .spec.targetCPUUtilizationPercentage";
    assert_eq!(refused.message(), words);
    let cause = json!([{"reason": "FieldManagerConflict", "message": "conflict with \"m\" using autoscaling/v1",
        "field": ".spec.targetCPUUtilizationPercentage"}]);
    assert_eq!(refused.body["details"]["causes"], cause);
    let taken = cluster.patch(&format!("{V2}/h?fieldManager=other&force=true"), "apply", wanted(60)).await.ok();
    assert!(owners(&taken, "targetCPUUtilizationPercentage").is_empty());
    assert_eq!(owners(&taken, "scaleTargetRef"), ["m autoscaling/v1"]);
    assert_eq!(cluster.get(&format!("{V1}/h")).await.ok()["spec"]["targetCPUUtilizationPercentage"], 60);
    // And the other way round.
    let refused = cluster
        .patch(&format!("{V1}/h?fieldManager=third"), "apply", autoscaler("v1", &json!({"targetCPUUtilizationPercentage": 70})))
        .await;
    assert_eq!(refused.message(), "Apply failed with 1 conflict: conflict with \"other\": .spec.metrics");
    cluster.patch(&format!("{V1}/h?fieldManager=third"), "merge", json!({"spec": {"targetCPUUtilizationPercentage": 70}})).await.ok();
    assert!(owners(&cluster.get(&format!("{V2}/h")).await.ok(), "metrics").is_empty());
}

/// KAPI-SSA-01, KAPI-CRD-04: the same of a custom kind whose webhook renames the field; a write asks it once for all owners of a version, and
/// owners in a version that is no more own nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_field_of_a_custom_kind() {
    let reviews: Arc<Mutex<Vec<usize>>> = Arc::default();
    let seen = reviews.clone();
    let handler = move |Json(review): Json<Value>| {
        seen.lock().unwrap().push(review["request"]["objects"].as_array().unwrap().len());
        async move { Json(peer::renamed(&review, |_, _| {})) }
    };
    let peer = Peer::start(&["127.0.0.1"], Router::new().route("/convert", post(handler))).await;
    let cluster = Cluster::new().await;
    let group = "renamed.example.com";
    define(&cluster, group, webhook(&peer), &[("v1", "n"), ("v2", "count")]).await;
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/ns/things");
    let thing = |version: &str, spec: Value| json!({"apiVersion": format!("{group}/{version}"), "kind": "Thing", "metadata": {"name": "t"}, "spec": spec});
    cluster.post(&format!("{}?fieldManager=m", path("v2")), thing("v2", json!({"count": 1}))).await.ok();
    let applied = cluster.patch(&format!("{}/t?fieldManager=a", path("v2")), "apply", thing("v2", json!({"count": 1}))).await.ok();
    assert_eq!(owners(&applied, "count").len(), 2);

    reviews.lock().unwrap().clear();
    let refused = cluster.patch(&format!("{}/t?fieldManager=b", path("v1")), "apply", thing("v1", json!({"n": 2}))).await;
    let words = format!(
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.count\nconflicts with \"m\" using {group}/v2:\n- .spec.count"
    );
    assert_eq!((refused.status, refused.message()), (StatusCode::CONFLICT, words.as_str()));
    assert_eq!(*reviews.lock().unwrap(), [2], "one review for the object before and after, whoever owns it");
    cluster.patch(&format!("{}/t", path("v1")), "merge", json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    assert_eq!(*reviews.lock().unwrap(), [2, 2]);
    let taken = cluster.patch(&format!("{}/t?fieldManager=b&force=true", path("v1")), "apply", thing("v1", json!({"n": 2}))).await.ok();
    assert_eq!((owners(&taken, "count").len(), owners(&taken, "n")), (0, vec![format!("b {group}/v1")]));

    cluster.patch(&format!("{}/t?fieldManager=c", path("v2")), "apply", thing("v2", json!({"other": "x"}))).await.ok();
    let name = format!("{CRDS}/things.{group}");
    // Anew where its status was written in between.
    loop {
        let mut crd = cluster.get(&name).await.ok();
        crd["spec"]["versions"].as_array_mut().unwrap().retain(|version| version["name"] == "v1");
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        let answer = cluster.put(&name, crd).await;
        if answer.status != StatusCode::CONFLICT {
            answer.ok();
            break;
        }
    }
    while cluster.get(&path("v2")).await.status != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
    let after = cluster.patch(&format!("{}/t?fieldManager=d", path("v1")), "apply", thing("v1", json!({"other": "y"}))).await.ok();
    assert_eq!(owners(&after, "other"), [format!("d {group}/v1")]);
    assert_eq!(owners(&after, "n"), [format!("b {group}/v1")]);
}
