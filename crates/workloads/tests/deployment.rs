//! What a Deployment does next, as a table of situations.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use mainstay_workloads::deployment::plan::{Action, Facts, plan};
use serde_json::{Value, json};

fn object(value: Value) -> Arc<DynamicObject> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn deployment(replicas: i64, image: &str, spec: &Value, status: &Value) -> Arc<DynamicObject> {
    let mut all = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": template(image), "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, "revisionHistoryLimit": 10,
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let metadata =
        json!({"name": "d", "namespace": "n", "uid": "d", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}});
    object(json!({"metadata": metadata, "spec": all, "status": status}))
}

/// A ReplicaSet with so many replicas, so many of them available.
fn set(name: &str, revision: i64, image: &str, replicas: i64, available: i64, desired: i64) -> Arc<DynamicObject> {
    let mut template = template(image);
    template["metadata"]["labels"]["pod-template-hash"] = json!(name);
    let annotations = json!({
        "deployment.kubernetes.io/revision": revision.to_string(),
        "deployment.kubernetes.io/desired-replicas": desired.to_string(),
        "deployment.kubernetes.io/max-replicas": (desired + (desired + 3) / 4).to_string(),
    });
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true}]);
    object(json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "generation": 1, "annotations": annotations, "ownerReferences": owner,
            "creationTimestamp": format!("2025-12-31T00:00:{revision:02}Z")},
        "spec": {"replicas": replicas, "template": template},
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available, "observedGeneration": 1},
    }))
}

/// The steps in short: what is made, scaled and deleted.
fn steps(deployment: &Arc<DynamicObject>, sets: &[Arc<DynamicObject>]) -> Vec<String> {
    let facts = Facts { deployment, replicasets: sets, pods: &[], now: now() };
    let short = |action: Action| match action {
        Action::Create(body) => Some(format!("make {}", body["spec"]["replicas"])),
        Action::Patch { scaled: Some(text), .. } => Some(text),
        Action::Delete(set) => Some(format!("delete {}", set.metadata.name.clone().unwrap())),
        Action::SelectsEverything => Some("refuse".into()),
        Action::Patch { scaled: None, .. } | Action::Annotate(_) | Action::Status(_) => None,
    };
    plan(&facts).actions.into_iter().filter_map(short).collect()
}

/// KAPI-WL-01: RollingUpdate within maxSurge and maxUnavailable, Recreate, pause, scaling, history.
#[test]
fn situations() {
    let none = json!({});
    let plain = |replicas| deployment(replicas, "a:2", &none, &none);
    let recreate = |replicas| deployment(replicas, "a:2", &json!({"strategy": {"type": "Recreate"}}), &none);
    let paused = |replicas| deployment(replicas, "a:2", &json!({"paused": true}), &none);
    let keep_one = deployment(1, "a:3", &json!({"revisionHistoryLimit": 1}), &none);
    let old = |replicas, available| set("old", 1, "a:1", replicas, available, 4);
    let new = |replicas, available| set("new", 2, "a:2", replicas, available, 4);
    let check = |name: &str, deployment: &Arc<DynamicObject>, sets: &[Arc<DynamicObject>], wanted: &[&str]| {
        assert_eq!(steps(deployment, sets), wanted, "{name}");
    };
    check("nothing is there", &plain(4), &[], &["make 4"]);
    check(
        "another template: as many more as the surge, as many fewer as allowed",
        &plain(4),
        &[old(4, 4)],
        &["make 1", "Scaled down replica set old from 4 to 3"],
    );
    check(
        "the new ones do not serve yet: as many fewer as allowed",
        &plain(4),
        &[old(4, 4), new(1, 0)],
        &["Scaled down replica set old from 4 to 3"],
    );
    check("and as many more as then fit", &plain(4), &[old(3, 3), new(1, 0)], &["Scaled up replica set new from 1 to 2"]);
    check("nothing can move before one serves", &plain(4), &[old(3, 3), new(2, 0)], &[]);
    check("what does not serve goes first", &plain(4), &[old(4, 0), new(1, 0)], &["Scaled down replica set old from 4 to 3"]);
    check("the last old one goes", &plain(4), &[old(1, 1), new(4, 4)], &["Scaled down replica set old from 1 to 0"]);
    check("it is done", &plain(4), &[old(0, 0), new(4, 4)], &[]);
    check("more replicas", &plain(6), &[old(0, 0), new(4, 4)], &["Scaled up replica set new from 4 to 6"]);
    check(
        "more replicas in the middle, in proportion",
        &plain(8),
        &[old(3, 3), new(2, 0)],
        &["Scaled up replica set old from 3 to 6", "Scaled up replica set new from 2 to 4"],
    );
    check("paused, no new one", &paused(4), &[old(4, 4)], &[]);
    check("paused, but scaled", &paused(6), &[old(4, 4)], &["Scaled up replica set old from 4 to 6"]);
    check("recreate: old ones go first", &recreate(4), &[old(4, 4)], &["Scaled down replica set old from 4 to 0"]);
    check("recreate: then new ones come", &recreate(4), &[old(0, 0)], &["make 4"]);
    let history = [set("one", 1, "a:1", 0, 0, 1), set("two", 2, "a:2", 0, 0, 1), set("three", 3, "a:3", 1, 1, 1)];
    check("history", &keep_one, &history, &["delete one"]);
    let everything = deployment(1, "a:1", &json!({"selector": {}}), &none);
    check("a selector of everything", &everything, &[], &["refuse"]);
}

fn status(deployment: &Arc<DynamicObject>, sets: &[Arc<DynamicObject>], now: Timestamp) -> (Value, Option<u64>) {
    let plan = plan(&Facts { deployment, replicasets: sets, pods: &[], now });
    let written = plan.actions.into_iter().find_map(|action| match action {
        Action::Status(status) => Some(status),
        _ => None,
    });
    (written.unwrap_or_else(|| deployment.data["status"].clone()), plan.again.map(|again| again.as_secs()))
}

fn progressing(status: &Value) -> (String, String) {
    let all = status["conditions"].as_array().unwrap();
    let one = all.iter().find(|one| one["type"] == "Progressing").unwrap();
    (one["status"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap().to_owned())
}

/// KAPI-WL-01: progressDeadlineSeconds, and conditions that do not change when nothing did.
#[test]
fn progress_is_told() {
    let none = json!({});
    let (first, again) = status(&deployment(1, "a:1", &none, &none), &[], now());
    assert_eq!(progressing(&first), ("True".into(), "NewReplicaSetCreated".into()));
    assert_eq!(again, Some(601));
    let waiting = [set("new", 1, "a:1", 1, 0, 1)];
    let (moved, _) = status(&deployment(1, "a:1", &none, &first), &waiting, now());
    assert_eq!(progressing(&moved), ("True".into(), "ReplicaSetUpdated".into()));
    let later = now().saturating_add(SignedDuration::from_secs(300)).unwrap();
    let (same, again) = status(&deployment(1, "a:1", &none, &moved), &waiting, later);
    assert_eq!((same, again), (moved.clone(), Some(301)));
    let late = now().saturating_add(SignedDuration::from_secs(601)).unwrap();
    let (over, again) = status(&deployment(1, "a:1", &none, &moved), &waiting, late);
    assert_eq!((progressing(&over), again), (("False".into(), "ProgressDeadlineExceeded".into()), None));
    let (done, again) = status(&deployment(1, "a:1", &none, &over), &[set("new", 1, "a:1", 1, 1, 1)], late);
    assert_eq!((progressing(&done), again), (("True".into(), "NewReplicaSetAvailable".into()), None));
    assert_eq!(done["conditions"][0]["reason"], "MinimumReplicasAvailable");
    let (kept, _) = status(&deployment(1, "a:1", &none, &done), &[set("new", 1, "a:1", 1, 1, 1)], late);
    assert_eq!(kept, done);
}
