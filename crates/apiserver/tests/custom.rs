//! Custom resources: establishing, validation, pruning, defaulting, rules, columns, the end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use crate::common::Cluster;
use http::StatusCode;
use serde_json::json;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/t.example.com/v1/namespaces/ns/things";

fn thing(name: &str, spec: serde_json::Value) -> serde_json::Value {
    json!({"apiVersion": "t.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

/// KAPI-CRD-01, KAPI-DISC-01: a CRD is established, listed in discovery and OpenAPI, and takes its instances with it when it goes.
#[tokio::test]
async fn a_definition_lives_and_dies() {
    let cluster = Cluster::new().await;
    cluster
        .define(
            "t.example.com",
            json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
            json!({}),
        )
        .await;
    let crd = cluster.get(&format!("{CRDS}/things.t.example.com")).await.ok();
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "ThingList");
    let list = cluster.get("/apis/t.example.com/v1").await.ok();
    assert_eq!(list["resources"][0]["name"], "things");
    let document = cluster.get("/openapi/v3/apis/t.example.com/v1").await.ok();
    assert!(document["components"]["schemas"]["com.example.t.v1.Thing"].is_object());
    cluster.post(THINGS, thing("a", json!({"any": 1}))).await.ok();
    let mut events = cluster.watch(&format!("{CRDS}?watch=1&fieldSelector=metadata.name%3Dthings.t.example.com")).await;
    let deleting = cluster.delete(&format!("{CRDS}/things.t.example.com")).await.ok();
    assert_eq!(deleting["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    while events.next().await.unwrap()["type"] != "DELETED" {}
    while cluster.get(THINGS).await.status != StatusCode::NOT_FOUND {
        tokio::task::yield_now().await;
    }
}

/// KAPI-CRD-02: instances are pruned, defaulted on write and on read, and checked.
#[tokio::test]
async fn instances_follow_their_schema() {
    let cluster = Cluster::new().await;
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1}, "color": {"type": "string", "default": "red", "enum": ["red", "blue"]}}});
    cluster.define("t.example.com", json!({"type": "object", "properties": {"spec": spec}}), json!({})).await;
    let made = cluster.post(THINGS, thing("a", json!({"size": 3, "unknown": true}))).await.ok();
    assert_eq!((&made["spec"], &made["metadata"]["generation"]), (&json!({"size": 3, "color": "red"}), &json!(1)));
    for (spec, field, text) in [
        (json!({"size": 0}), "spec.size", "spec.size in body should be greater than or equal to 1"),
        (json!({"size": "x"}), "spec.size", "must be of type integer"),
        (json!({"size": 1, "color": "green"}), "spec.color", "Unsupported value: \"green\": supported values: \"red\", \"blue\""),
        (json!({}), "spec.size", "Required value"),
    ] {
        let refused = cluster.post(THINGS, thing("b", spec)).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
        let cause = &refused.body["details"]["causes"][0];
        assert_eq!(cause["field"], field, "{}", refused.text);
        assert!(cause["message"].as_str().unwrap().contains(text), "{}", refused.text);
    }
    // A default that comes later shows on read.
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}, "new": {"type": "string", "default": "n"}}}}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    cluster.patch(&format!("{CRDS}/things.t.example.com"), "merge", json!({"spec": {"versions": versions}})).await.ok();
    while cluster.get(&format!("{THINGS}/a")).await.ok()["spec"]["new"] != "n" {
        tokio::task::yield_now().await;
    }
}

/// KAPI-CRD-03: rules see the object and the one before; a rule that cannot be compiled refuses the CRD.
#[tokio::test]
async fn rules_are_enforced() {
    let cluster = Cluster::new().await;
    let spec = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.a <= self.b", "message": "a may not exceed b"},
            {"rule": "self.a >= oldSelf.a", "messageExpression": "oldSelf.a > 1 ? 'a shrank from many' : 'a shrank'", "fieldPath": ".a"}]});
    cluster.define("t.example.com", json!({"type": "object", "properties": {"spec": spec}}), json!({})).await;
    cluster.post(THINGS, thing("x", json!({"a": 2, "b": 3}))).await.ok();
    let refused = cluster.post(THINGS, thing("y", json!({"a": 2, "b": 1}))).await;
    assert!(
        refused.message().contains("spec: Invalid value: a may not exceed b") || refused.message().contains("a may not exceed b"),
        "{}",
        refused.text
    );
    let shrunk = cluster.patch(&format!("{THINGS}/x"), "merge", json!({"spec": {"a": 1}})).await;
    assert_eq!(shrunk.body["details"]["causes"][0]["field"], "spec.a", "{}", shrunk.text);
    assert!(shrunk.message().contains("a shrank from many"), "{}", shrunk.text);

    let bad = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bads.u.example.com"},
        "spec": {"group": "u.example.com", "scope": "Namespaced", "names": {"plural": "bads", "kind": "Bad"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": "self.nope == 1"}]}}}]}});
    let refused = cluster.post(CRDS, bad).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
    assert!(refused.message().contains("x-kubernetes-validations[0].rule"), "{}", refused.message());
}

/// KAPI-REST-06, KAPI-REST-05: printer columns, the status subresource, two served versions.
#[tokio::test]
async fn columns_status_and_scale() {
    let cluster = Cluster::new().await;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    let more = json!({
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "additionalPrinterColumns": [{"name": "Count", "type": "integer", "jsonPath": ".spec.n"}]});
    cluster.define("t.example.com", schema, more).await;
    let mut object = thing("a", json!({"n": 2}));
    object["status"] = json!({"n": 9});
    let made = cluster.post(THINGS, object).await.ok();
    assert!(made.get("status").is_none(), "a new object has no status");
    let status = cluster.patch(&format!("{THINGS}/a/status"), "merge", json!({"spec": {"n": 7}, "status": {"n": 1}})).await.ok();
    assert_eq!((&status["spec"]["n"], &status["status"]["n"], &status["metadata"]["generation"]), (&json!(2), &json!(1), &json!(1)));
    let scaled = cluster.patch(&format!("{THINGS}/a/scale"), "merge", json!({"spec": {"replicas": 5}})).await.ok();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["status"]["replicas"]), (&json!(5), &json!(1)));
    let table = cluster.send("GET", THINGS, &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], "").await.ok();
    assert_eq!(table["columnDefinitions"][1]["name"], "Count");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 5]));
    let strategic = cluster.patch(&format!("{THINGS}/a"), "strategic-merge", json!({})).await;
    assert_eq!(strategic.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}
