//! The writer against a small API in the same process.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use mainstay_apply::{Effect, EventKind, Reason, Recorder, WriteError, Writer};
use mainstay_merge::merge_patch;
use mainstay_objects::{Expect, ObjectRef, Owner, Patch, Propagation, Step, Until, stale};
use mainstay_runtime::{Clock, Cluster, Env, Kinds};
use serde_json::{Value, json};

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    revision: u64,
    calls: Vec<String>,
    /// The change of another process right after managed fields are written.
    between: Option<Value>,
}

type Shared = Arc<Mutex<State>>;

fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code});
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}

fn resources(path: &str) -> Option<Value> {
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "kind": kind, "namespaced": namespaced, "singularName": "", "verbs": ["get"]});
    let list = |version: &str, resources: Vec<Value>| json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
    Some(match path {
        "/api/v1" => list("v1", vec![resource("configmaps", "ConfigMap", true), resource("namespaces", "Namespace", false)]),
        "/apis/apps/v1" => list("apps/v1", vec![resource("deployments", "Deployment", true)]),
        "/apis/apiextensions.k8s.io/v1" => {
            list("apiextensions.k8s.io/v1", vec![resource("customresourcedefinitions", "CustomResourceDefinition", false)])
        }
        "/apis/events.k8s.io/v1" => list("events.k8s.io/v1", vec![resource("events", "Event", true)]),
        _ => return None,
    })
}

async fn serve(state: Shared, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    if let Some(list) = resources(&path) {
        return Json(list).into_response();
    }
    let body: Value = serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap_or_default();
    let mut state = state.lock().unwrap();
    state.calls.push(format!("{} {path}?{query}", parts.method));
    // Discovery is behind: it names the kind only when it is asked for the third time.
    if path == "/apis/example.com/v1" && state.calls.iter().filter(|call| call.contains(&path)).count() >= 3 {
        let resource = json!({"name": "things", "kind": "Thing", "namespaced": true, "singularName": "", "verbs": ["get"]});
        return Json(json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": [resource]})).into_response();
    }
    if path.contains("forbidden") {
        return status(403, "Forbidden", "configmaps \"forbidden\" is forbidden: User \"u\" cannot patch resource \"configmaps\"");
    }
    let dry = query.contains("dryRun=All");
    let writes_managers = parts.method == "PATCH" && body["metadata"]["managedFields"].is_array();
    let object_path = path.trim_end_matches("/status").to_owned();
    let live = state.objects.get(&object_path).cloned();
    let version = |value: &Value| value["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let (code, mut object) = match (parts.method.as_str(), live) {
        ("GET", _) if query.contains("fieldSelector") => {
            let name = query.split("metadata.name%3D").nth(1).unwrap().split('&').next().unwrap().to_owned();
            let found = state.objects.get(&format!("{path}/{name}")).cloned();
            if query.contains("watch=true") {
                let events = found.map(|object| format!("{}\n", json!({"type": "MODIFIED", "object": object})));
                return events.unwrap_or_default().into_response();
            }
            return Json(json!({"metadata": {"resourceVersion": "1"}, "items": found.into_iter().collect::<Vec<_>>()})).into_response();
        }
        ("GET", Some(live)) => return Json(live).into_response(),
        ("GET" | "DELETE", None) => return status(404, "NotFound", "not found"),
        ("POST", _) => {
            let key = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            if state.objects.contains_key(&key) {
                return status(409, "AlreadyExists", "already exists");
            }
            state.revision += 1;
            let mut object = body;
            object["metadata"]["resourceVersion"] = json!(state.revision.to_string());
            state.objects.insert(key, object.clone());
            return (StatusCode::CREATED, Json(object)).into_response();
        }
        ("DELETE", Some(live)) => {
            let wanted = &body["preconditions"]["uid"];
            if !wanted.is_null() && wanted != &live["metadata"]["uid"] {
                return status(409, "Conflict", "uid mismatch");
            }
            // As the API server does: options come from the body where there is one, and then not from the query.
            if body["dryRun"] != json!(["All"]) {
                state.objects.remove(&object_path);
            }
            return Json(live).into_response();
        }
        ("PUT", Some(live)) => {
            if version(&body) != version(&live) {
                return status(409, "Conflict", "the object has been modified");
            }
            (200, body)
        }
        ("PATCH", None) if parts.headers["content-type"] != "application/apply-patch+yaml" => return status(404, "NotFound", "not found"),
        ("PATCH", None) => {
            let mut object = body;
            object["metadata"]["uid"] = json!(format!("uid-{}", state.revision));
            (201, object)
        }
        ("PATCH", Some(live)) => {
            let precondition = &body["metadata"]["resourceVersion"];
            if !precondition.is_null() && precondition != &live["metadata"]["resourceVersion"] {
                return status(409, "Conflict", "the object has been modified");
            }
            let mut object = live;
            merge_patch(&mut object, &body);
            (200, object)
        }
        other => panic!("{other:?}"),
    };
    let unchanged = state.objects.get(&object_path) == Some(&object);
    if !unchanged {
        state.revision += 1;
        object["metadata"]["resourceVersion"] = json!(state.revision.to_string());
    }
    if !dry {
        state.objects.insert(object_path.clone(), object.clone());
    }
    if let Some(change) = state.between.take_if(|_| writes_managers) {
        state.revision += 1;
        let mut changed = object.clone();
        merge_patch(&mut changed, &change);
        changed["metadata"]["resourceVersion"] = json!(state.revision.to_string());
        state.objects.insert(object_path, changed);
    }
    (StatusCode::from_u16(code).unwrap(), Json(object)).into_response()
}

fn start() -> (Writer, Shared) {
    let state = Shared::default();
    let copy = state.clone();
    let router = Router::new().fallback(move |request: Request<Body>| serve(copy.clone(), request));
    let client = Cluster::Embedded { router, identity: |_| {} }.client().unwrap();
    (Writer::new(client.clone(), Kinds::new(client), "tester"), state)
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data})
}

fn place(name: &str) -> ObjectRef {
    ObjectRef::of(&config_map(name, &json!({}))).unwrap()
}

fn owner(name: &str, uid: &str) -> Owner {
    Owner {
        api_version: "olm.operatorframework.io/v1".into(),
        kind: "ClusterExtension".into(),
        name: name.into(),
        uid: uid.into(),
        labels: vec![
            ("olm.operatorframework.io/owner-kind".into(), "ClusterExtension".into()),
            ("olm.operatorframework.io/owner-name".into(), name.into()),
        ],
        manager: "operator-controller".into(),
    }
}

#[tokio::test]
async fn applies_and_tells_what_it_did() {
    let (writer, state) = start();
    let object = config_map("a", &json!({"k": "1"}));
    let (_, effect) = writer.apply(&object, true, &Expect::default()).await.unwrap();
    assert_eq!(effect, Effect::Created);
    let owner = owner("x", "u1");
    let refused = writer.apply_owned(&object, &owner).await.unwrap_err();
    assert_eq!(refused.to_string(), "ConfigMap 'a' already exists in namespace 'n' and cannot be managed by operator-controller");
    let mine = config_map("b", &json!({"k": "1"}));
    assert_eq!(writer.apply_owned(&mine, &owner).await.unwrap().1, Effect::Created);
    assert_eq!(writer.apply_owned(&mine, &owner).await.unwrap().1, Effect::Unchanged);
    assert_eq!(writer.apply_owned(&config_map("b", &json!({"k": "2"})), &owner).await.unwrap().1, Effect::Applied);
    let calls = state.lock().unwrap().calls.clone();
    assert_eq!(calls[0], "PATCH /api/v1/namespaces/n/configmaps/a?fieldManager=tester&force=true");
}

/// OLM1-OWN-01: a dry run tells the same and keeps nothing.
#[tokio::test]
async fn dry_runs_keep_nothing() {
    let (writer, state) = start();
    let steps = [
        Step::ApplyOwned { object: config_map("a", &json!({})), owner: owner("x", "u1") },
        Step::Wait { object: place("a"), until: Until::Healthy, timeout: Duration::from_secs(1) },
    ];
    let done = writer.dry().execute(&steps, |_| {}).await.unwrap();
    assert_eq!(done.iter().map(|done| done.effect).collect::<Vec<_>>(), [Effect::Created, Effect::Skipped]);
    assert!(state.lock().unwrap().objects.is_empty());
    writer.create(&config_map("b", &json!({}))).await.unwrap();
    for propagation in [Propagation::Background, Propagation::Foreground] {
        assert!(writer.dry().delete(&place("b"), &Expect::default(), propagation).await.unwrap());
    }
    assert_eq!(state.lock().unwrap().objects.len(), 1);
    assert!(writer.delete(&place("b"), &Expect::default(), Propagation::Background).await.unwrap());
    assert!(state.lock().unwrap().objects.is_empty());
}

#[tokio::test]
async fn stops_at_the_first_failure() {
    let (writer, _) = start();
    let mut forbidden = config_map("forbidden", &json!({}));
    let steps = [
        Step::CreateOnce(config_map("a", &json!({}))),
        Step::CreateOnce(config_map("a", &json!({}))),
        Step::Apply { object: forbidden.clone(), force: false, expect: Expect::default() },
        Step::Create(config_map("c", &json!({}))),
    ];
    let failed = writer.execute(&steps, |_| {}).await.unwrap_err();
    assert_eq!((failed.index, failed.done.len()), (2, 2));
    assert_eq!(failed.done[1].effect, Effect::Unchanged);
    assert!(failed.error.is_forbidden());
    assert_eq!(
        failed.error.to_string(),
        "cannot apply ConfigMap n/forbidden: configmaps \"forbidden\" is forbidden: User \"u\" cannot patch resource \"configmaps\""
    );
    forbidden["kind"] = json!("Nonsense");
    let unknown = writer.apply(&forbidden, true, &Expect::default()).await.unwrap_err();
    assert!(matches!(unknown, WriteError::Kind { .. }), "{unknown}");
}

/// MS-RBAC-01, OLM1-OWN-01: an object is made by a request that names it, and what somebody else made meanwhile stays as it is.
#[tokio::test]
async fn made_by_name_and_only_once() {
    let (writer, state) = start();
    writer.create_named(&config_map("a", &json!({"k": "mine"}))).await.unwrap();
    let made = state.lock().unwrap().calls.last().unwrap().clone();
    assert!(made.starts_with("PATCH /api/v1/namespaces/n/configmaps/a?"), "{made}");
    let refused = writer.create_named(&config_map("a", &json!({"k": "other"}))).await.unwrap_err();
    assert_eq!(refused.reason(), Some(&Reason::AlreadyExists), "{refused}");
    assert_eq!(writer.get(&place("a")).await.unwrap().unwrap()["data"]["k"], "mine");
    // An object that has a version of its own is applied as ever.
    assert_eq!(writer.apply(&config_map("a", &json!({"k": "next"})), true, &Expect::default()).await.unwrap().1, Effect::Applied);
}

/// OLM1-GEN-09: a write is made on the object that was seen. A status that was reported meanwhile is no other object, a change is.
#[tokio::test]
async fn what_was_seen_is_what_is_written() {
    let (writer, _) = start();
    let wanted = config_map("a", &json!({"k": "new"}));
    let (seen, _) = writer.apply(&config_map("a", &json!({"k": "old"})), true, &Expect::default()).await.unwrap();
    writer.patch(&place("a"), "", &Patch::Merge(json!({"status": {"replicas": 1}}))).await.unwrap();
    let (applied, effect) = writer.apply(&wanted, true, &Expect::as_seen(&seen)).await.unwrap();
    assert_eq!((&applied["data"]["k"], effect), (&json!("new"), Effect::Applied));
    let again = writer.apply(&wanted, true, &Expect::as_seen(&applied)).await.unwrap();
    assert_eq!(again.1, Effect::Unchanged, "nothing was repaired");
    writer.patch(&place("a"), "", &Patch::Merge(json!({"data": {"k": "of the next leader"}}))).await.unwrap();
    let late = writer.apply(&wanted, true, &Expect::as_seen(&applied)).await.unwrap_err();
    assert_eq!(late.reason(), Some(&Reason::Conflict));
    assert_eq!(writer.get(&place("a")).await.unwrap().unwrap()["data"]["k"], "of the next leader");
}

/// OLM0-RES-28: what another process of the same manager writes between two requests of one apply is not taken away; it is a conflict.
#[tokio::test]
async fn nobody_is_overwritten_in_between() {
    let (writer, state) = start();
    let mut object = config_map("a", &json!({"k": "1"}));
    let entry = |operation: &str, field: &str| json!({"manager": "tester", "operation": operation, "fieldsV1": {"f:data": {field: {}}}});
    object["metadata"]["managedFields"] = json!([entry("Update", "f:k"), entry("Apply", "f:l")]);
    object["metadata"]["resourceVersion"] = json!("1");
    state.lock().unwrap().objects.insert("/api/v1/namespaces/n/configmaps/a".to_owned(), object);
    let seen = writer.get(&place("a")).await.unwrap().unwrap();
    state.lock().unwrap().between = Some(json!({"data": {"of": "another"}}));
    let late = writer.apply(&config_map("a", &json!({"k": "2"})), true, &Expect::exactly(&seen)).await;
    assert_eq!(late.unwrap_err().reason(), Some(&Reason::Conflict));
    assert_eq!(writer.get(&place("a")).await.unwrap().unwrap()["data"]["of"], "another");
}

#[tokio::test]
async fn statuses_and_finalizers_are_written_only_when_they_differ() {
    let (writer, state) = start();
    let (live, _) = writer.apply(&config_map("a", &json!({})), true, &Expect::default()).await.unwrap();
    let with = writer.add_finalizer(&live, "example.com/x").await.unwrap().unwrap();
    assert_eq!(with["metadata"]["finalizers"], json!(["example.com/x"]));
    assert!(writer.add_finalizer(&with, "example.com/x").await.unwrap().is_none());
    let late = writer.add_finalizer(&live, "example.com/y").await.unwrap_err();
    assert_eq!(late.reason(), Some(&Reason::Conflict), "somebody else's finalizer is not lost");
    let after = writer.update_status(&with, &json!({"phase": "x"})).await.unwrap().unwrap();
    let calls = state.lock().unwrap().calls.len();
    assert!(writer.update_status(&after, &json!({"phase": "x"})).await.unwrap().is_none());
    assert_eq!(state.lock().unwrap().calls.len(), calls);
    assert!(writer.remove_finalizer(&after, "example.com/x").await.unwrap().is_some());
    // One that is not there is made first; nothing is written that is there already.
    let own = config_map("kept", &json!({}));
    let keep = |phase: &'static str| writer.keep_status(&own, move |_| json!({"phase": phase}));
    let (before, status) = keep("x").await.unwrap().unwrap();
    assert_eq!((before.get("status"), &status), (None, &json!({"phase": "x"})));
    assert!(keep("x").await.unwrap().is_none());
    assert_eq!(keep("y").await.unwrap().unwrap().0["status"]["phase"], "x");
}

/// OLM1-INST-14: what is no longer wanted goes, what is somebody else's or asks to be kept stays.
#[tokio::test]
async fn prunes_only_what_is_ours() {
    let (writer, state) = start();
    let mine = owner("x", "u1");
    for (name, owner) in [("a", &mine), ("b", &owner("y", "u2")), ("c", &mine)] {
        let mut object = config_map(name, &json!({}));
        if name == "c" {
            object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        }
        writer.apply_owned(&object, owner).await.unwrap();
    }
    let gone = stale(&[place("a"), place("b"), place("c"), place("d")], &[]);
    let pruned = writer.prune(&gone, &mine).await.unwrap();
    assert_eq!(pruned.deleted, [place("a")]);
    let kept: Vec<String> = pruned.kept.iter().map(|(object, why)| format!("{object}: {why}")).collect();
    assert_eq!(kept, ["ConfigMap n/c: it asks to be kept (helm.sh/resource-policy)", "ConfigMap n/b: it is of ClusterExtension y"]);
    assert_eq!(state.lock().unwrap().objects.len(), 2);
    let wrong = Expect::uid_of(&json!({"metadata": {"uid": "other"}}));
    assert_eq!(writer.delete(&place("b"), &wrong, Propagation::Background).await.unwrap_err().reason(), Some(&Reason::Conflict));
    assert!(!writer.delete(&place("a"), &Expect::default(), Propagation::Background).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn waits() {
    let (writer, _) = start();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n", "generation": 1}, "spec": {"replicas": 1}});
    let object = ObjectRef::of(&deployment).unwrap();
    let missing = writer.wait(&object, &Until::Healthy, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(missing.to_string(), "Deployment n/d is not ready after 1 s: it does not exist");
    assert!(writer.wait(&object, &Until::Gone, Duration::from_secs(1)).await.unwrap().is_null());
    writer.apply(&deployment, true, &Expect::default()).await.unwrap();
    let pending = writer.wait(&object, &Until::Healthy, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(pending.to_string(), "Deployment n/d is not ready after 1 s: generation 1 is not observed yet");
    let patch = Patch::Merge(json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True"}]}}));
    let (ready, _) = tokio::join!(writer.wait(&object, &Until::Healthy, Duration::from_secs(5)), writer.patch(&object, "", &patch));
    assert_eq!(ready.unwrap()["status"]["availableReplicas"], 1);
}

/// OLM1-INST-17, KAPI-CRD-01: an established CRD is waited for until discovery names its kind, too.
#[tokio::test(start_paused = true)]
async fn a_definition_is_ready_when_its_kind_is_named() {
    let (writer, state) = start();
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [{"name": "v0", "served": false}, {"name": "v1", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]}});
    writer.apply(&crd, true, &Expect::default()).await.unwrap();
    let object = ObjectRef::of(&crd).unwrap();
    let early = writer.wait(&object, &Until::Healthy, Duration::from_millis(100)).await.unwrap_err();
    assert!(early.to_string().ends_with("the server does not serve Thing of example.com/v1"), "{early}");
    writer.wait(&object, &Until::Healthy, Duration::from_secs(5)).await.unwrap();
    let asked = state.lock().unwrap().calls.iter().filter(|call| call.contains("/apis/example.com/v1")).count();
    assert_eq!(asked, 3);
}

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_767_225_600).unwrap()
    }
}

#[tokio::test]
async fn events_are_counted_instead_of_repeated() {
    let (writer, state) = start();
    let recorder = Recorder::new(writer, Env::new(Fixed, 7), "olm.operatorframework.io/operator-controller", "host-1");
    let about = config_map("a", &json!({}));
    for note in ["one", "one", "two"] {
        recorder.record(&about, EventKind::Warning, "Failed", "Install", note).unwrap();
    }
    recorder.flush().await;
    let state = state.lock().unwrap();
    let notes: BTreeMap<&str, &Value> =
        state.objects.values().map(|event| (event["note"].as_str().unwrap(), &event["series"]["count"])).collect();
    assert_eq!(notes, BTreeMap::from([("one", &json!(2)), ("two", &Value::Null)]));
    let event = state.objects.values().next().unwrap();
    assert_eq!(event["eventTime"], "2026-01-01T00:00:00.000000Z");
    assert_eq!(event["regarding"]["name"], "a");
}
