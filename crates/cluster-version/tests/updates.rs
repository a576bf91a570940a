//! Updates of small releases of our own: what is refused, what is waited for, what is restored and deleted.

use mainstay_objects::Patch;
use serde_json::{Value, json};

use crate::cluster::{condition, version};
use crate::releases::{completed, config, image, manifest, release, wish, world};

/// CVO-COND-06, CVO-SIG-10, CVO-RET-08, CVO-PRE-02, CVO-SYNC-08, CVO-TRB-03, CVO-TRB-08: what is refused says why, the release in force is kept;
/// a forced update goes on, and the history says for ever what was risked.
#[tokio::test(flavor = "multi_thread")]
async fn refused_and_forced() {
    let broken = release("1.0.3", &[("0000_30_broken.yaml", json!({"apiVersion": "v1", "metadata": {}}))]);
    let world =
        world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[])), ("1.0.3", broken), ("1.3.0", release("1.3.0", &[]))])
            .await;
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;

    let told = |version: &str, version_of_image: &str| format!("version=\"{version}\" image=\"{}\"", image(version_of_image));
    let refused = |reason: &'static str| move |object: &Value| condition(object, "ReleaseAccepted").starts_with(&format!("False {reason}"));
    // No such image.
    wish(&world, json!({"version": "1.0.9", "image": image("1.0.9"), "force": true})).await;
    let object = world.until(&version(), 30, refused("RetrievePayload")).await;
    let expected = format!(
        "False RetrievePayload: Retrieving payload failed {} failure=Unable to download and prepare the update: manifest unknown",
        told("1.0.9", "1.0.9")
    );
    assert_eq!(condition(&object, "ReleaseAccepted"), expected);
    assert_eq!(object["status"]["desired"]["version"], "1.0.1");
    // Not signed.
    world.stock.genuine.lock().unwrap().retain(|one| *one != image("1.0.2"));
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2"), "force": false})).await;
    let object = world.until(&version(), 30, |object| condition(object, "ReleaseAccepted").contains("cannot be verified")).await;
    let expected = format!(
        "False RetrievePayload: Retrieving payload failed {} failure=The update cannot be verified: no signature",
        told("1.0.2", "1.0.2")
    );
    assert_eq!(condition(&object, "ReleaseAccepted"), expected);
    // Unreadable content; another version than was said; too far ahead.
    wish(&world, json!({"version": "1.0.3", "image": image("1.0.3"), "force": false})).await;
    let object = world.until(&version(), 30, refused("LoadPayload")).await;
    assert!(condition(&object, "ReleaseAccepted").contains("failure=Error loading manifests from"), "{object:#}");
    wish(&world, json!({"version": "1.2.9", "image": image("1.3.0"), "force": false})).await;
    let object = world.until(&version(), 30, refused("VerifyPayloadVersion")).await;
    let expected = "failure=release image version 1.3.0 does not match the expected upstream version 1.2.9";
    assert!(condition(&object, "ReleaseAccepted").ends_with(expected), "{object:#}");
    wish(&world, json!({"version": "1.3.0", "image": image("1.3.0"), "force": false})).await;
    let object = world.until(&version(), 30, refused("PreconditionChecks")).await;
    assert!(condition(&object, "ReleaseAccepted").contains("failed because of \"MultipleMinorVersionsUpdate\""), "{object:#}");
    assert_eq!(object["status"]["history"].as_array().unwrap().len(), 1, "nothing was taken");
    assert_eq!(condition(&object, "Progressing"), "False : Cluster version is 1.0.1");
    // The wish is taken back.
    wish(&world, Value::Null).await;
    let object = world.until(&version(), 30, |object| condition(object, "ReleaseAccepted").starts_with("True PayloadLoaded")).await;
    assert_eq!(condition(&object, "ReleaseAccepted"), format!("True PayloadLoaded: Payload loaded {}", told("1.0.1", "1.0.1")));
    // Forced.
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2"), "force": true})).await;
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    let entry = &object["status"]["history"][0];
    let risks = entry["acceptedRisks"].as_str().unwrap();
    assert!(
        risks.contains(
            "cannot be verified, but continuing anyway because the update was forced: The update cannot be verified: no signature"
        ),
        "{risks}"
    );
    assert_eq!(entry["verified"], false);
}

/// CVO-GRAPH-08, CVO-ERR-04, CVO-HEALTH-01, CVO-COND-03, CVO-FLOW-02, CVO-TRB-04: nothing of a higher runlevel is applied while an operator is not at
/// its version; what is waited for is said; the update may be given another goal.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_operator() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[])), ("1.0.3", release("1.0.3", &[]))]).await;
    let operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    drop(operators);
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let object = world.until(&version(), 30, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    assert_eq!(
        condition(&object, "Progressing"),
        "True ClusterOperatorUpdating: Working towards 1.0.2: 2 of 5 done (40% complete), waiting on alpha"
    );
    assert_eq!(condition(&object, "Failing"), "False : ");
    world.until(&config("alpha"), 10, |object| object["data"]["release"] == "1.0.2").await;
    assert_eq!(world.admin.get(&config("beta")).await.unwrap().unwrap()["data"]["release"], "1.0.1");
    wish(&world, json!({"version": "1.0.3", "image": image("1.0.3")})).await;
    world.until(&config("alpha"), 30, |object| object["data"]["release"] == "1.0.3").await;
    let _operators = world.operators(&[]);
    let object = world.until(&version(), 30, completed("1.0.3")).await;
    let history = object["status"]["history"].as_array().unwrap();
    let told: Vec<(&str, &str)> =
        history.iter().map(|entry| (entry["version"].as_str().unwrap(), entry["state"].as_str().unwrap())).collect();
    assert_eq!(told, [("1.0.3", "Completed"), ("1.0.2", "Partial"), ("1.0.1", "Completed")]);
    assert!(history.iter().all(|entry| !entry["completionTime"].is_null()));
}

/// CVO-SYNC-02, CVO-TRB-07, CVO-OVR-01, CVO-DEL-01, CVO-DEL-02, CVO-DEL-05, CVO-APPLY-02: what was changed by hand is restored, except what is
/// overridden; a tombstone deletes during an update, what merely vanishes stays.
#[tokio::test(flavor = "multi_thread")]
async fn restored_overridden_and_deleted() {
    let plain = |name: &str| manifest("v1", "ConfigMap", "alpha", name, json!({"data": {"release": "own"}}));
    let mut once = plain("once");
    once["metadata"]["annotations"]["release.openshift.io/create-only"] = json!("true");
    let mut gone = plain("old");
    gone["metadata"]["annotations"]["release.openshift.io/delete"] = json!("true");
    let first = release(
        "1.0.1",
        &[("0000_30_c_10_once.yaml", once.clone()), ("0000_30_c_20_old.yaml", plain("old")), ("0000_30_c_30_kept.yaml", plain("kept"))],
    );
    let second = release("1.0.2", &[("0000_30_c_10_once.yaml", once), ("0000_99_c_00_tombstones.yaml", gone)]);
    let world = world(&[("1.0.1", first), ("1.0.2", second)]).await;
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    let object = world.until(&version(), 30, completed("1.0.1")).await;
    let owner = &world.admin.get(&config("alpha")).await.unwrap().unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("ClusterVersion"), &object["metadata"]["uid"]));
    let change = |value: &str| Patch::Merge(json!({"data": {"release": value, "foreign": "kept"}}));
    for name in ["alpha", "once", "beta"] {
        world.admin.patch(&config(name), "", &change("by hand")).await.unwrap();
    }
    let overrides = json!([{"kind": "ConfigMap", "group": "", "namespace": "alpha", "name": "beta", "unmanaged": true}]);
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"overrides": overrides}}))).await.unwrap();
    let restored = world.until(&config("alpha"), 30, |object| object["data"]["release"] == "1.0.1").await;
    assert_eq!(restored["data"]["foreign"], "kept");
    for name in ["once", "beta"] {
        assert_eq!(world.admin.get(&config(name)).await.unwrap().unwrap()["data"]["release"], "by hand", "{name}");
    }
    let object =
        world.until(&version(), 30, |object| condition(object, "Upgradeable").starts_with("False ClusterVersionOverridesSet")).await;
    assert_eq!(object["status"]["history"].as_array().unwrap().len(), 1);
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"overrides": null}}))).await.unwrap();
    world.until(&version(), 30, |object| condition(object, "Upgradeable") == " : ").await;
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    world.until(&version(), 30, completed("1.0.2")).await;
    assert!(world.admin.get(&config("old")).await.unwrap().is_none());
    assert!(world.admin.get(&config("kept")).await.unwrap().is_some());
    assert_eq!(world.admin.get(&config("beta")).await.unwrap().unwrap()["data"]["release"], "1.0.2");
}

/// CVO-FLOW-06, CVO-HIST-07: a restart goes on where the cluster is, in the middle of an update as after it.
#[tokio::test(flavor = "multi_thread")]
async fn restarts() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let operators = world.operators(&[]);
    let operator = world.operator(&image("1.0.1"), 100.0);
    let before = world.until(&version(), 30, completed("1.0.1")).await;
    drop((operator, operators));
    let operator = world.operator(&image("1.0.1"), 100.0);
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    world.until(&version(), 30, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    drop(operator);
    let _operators = world.operators(&[]);
    // The operator replaced itself: it starts from its own release, which is the new one.
    let _operator = world.operator(&image("1.0.2"), 100.0);
    let object = world.until(&version(), 30, completed("1.0.2")).await;
    let history = object["status"]["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[1]["completionTime"]), (2, &before["status"]["history"][0]["completionTime"]));
}

/// CVO-USC-01, CVO-RISK-01, CVO-RISK-04, CVO-RISK-06, CVO-TRB-01, CVO-TRB-02: updates and risks as the ClusterVersion shows them, and what a
/// failing service keeps.
#[tokio::test(flavor = "multi_thread")]
async fn available_updates() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let node = |version: &str| json!({"version": version, "payload": image(version), "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-1.0"}});
    let rule = json!({"type": "PromQL", "promql": {"promql": "up"}});
    let risk = json!({"url": "https://kb.example/1", "name": "Slow", "message": "Slow disks.", "matchingRules": [rule]});
    *world.service.graph.lock().unwrap() = Some(json!({
        "version": 1, "nodes": [node("1.0.1"), node("1.0.2"), node("1.0.3")], "edges": [[0, 1]],
        "conditionalEdges": [{"edges": [{"from": "1.0.1", "to": "1.0.3"}], "risks": [risk]}],
    }));
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 1000.0);
    let object = world.until(&version(), 30, |object| !object["status"]["conditionalUpdates"][0]["conditions"].is_null()).await;
    assert_eq!(condition(&object, "RetrievedUpdates"), "True : ");
    assert_eq!(object["status"]["availableUpdates"][0]["version"], "1.0.2");
    assert_eq!(object["status"]["desired"]["channels"], json!(["stable-1.0"]));
    let recommended = &object["status"]["conditionalUpdates"][0]["conditions"][0];
    assert_eq!((&recommended["status"], &recommended["reason"]), (&json!("Unknown"), &json!("EvaluationFailed")));
    assert!(recommended["message"].as_str().unwrap().contains("(no metrics endpoint is configured)"), "{recommended}");
    // Once metrics answer, the update is recommended.
    world.service.matches.lock().unwrap().insert("up".to_owned(), false);
    let object =
        world.until(&version(), 60, |object| object["status"]["availableUpdates"].as_array().is_some_and(|all| all.len() == 2)).await;
    assert_eq!(object["status"]["availableUpdates"][0]["version"], "1.0.3");
    *world.service.graph.lock().unwrap() = None;
    let object = world.until(&version(), 90, |object| condition(object, "RetrievedUpdates").starts_with("False ResponseFailed")).await;
    assert_eq!(object["status"]["availableUpdates"].as_array().unwrap().len(), 2);
    // A version alone is enough for a recommended update.
    wish(&world, json!({"version": "1.0.2"})).await;
    world.until(&version(), 60, completed("1.0.2")).await;
}

/// CVO-AUTO-01: the highest recommended version is wished for, and an update with a risk never is.
#[tokio::test(flavor = "multi_thread")]
async fn automatic_updates() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[])), ("1.0.3", release("1.0.3", &[]))]).await;
    let node = |version: &str| json!({"version": version, "payload": image(version), "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-1.0"}});
    let risk = json!({"url": "https://kb.example/1", "name": "Slow", "message": "Slow disks.", "matchingRules": [{"type": "Always"}]});
    *world.service.graph.lock().unwrap() = Some(json!({
        "version": 1, "nodes": [node("1.0.1"), node("1.0.2"), node("1.0.3")], "edges": [[0, 1]],
        "conditionalEdges": [{"edges": [{"from": "1.0.1", "to": "1.0.3"}], "risks": [risk]}],
    }));
    let _operators = world.operators(&[]);
    let _operator = world.automatic(&image("1.0.1"), 100.0);
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    assert_eq!(object["spec"]["desiredUpdate"]["version"], "1.0.2");
    assert!(object["spec"]["desiredUpdate"]["force"].is_null(), "it is never forced");
}

/// CVO-SYNC-05: while the cluster is being installed another release is not begun.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_goes_on() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, |object| object["status"]["history"][0]["state"] == "Partial").await;
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let generation = world.admin.get(&version()).await.unwrap().unwrap()["metadata"]["generation"].clone();
    world.until(&version(), 30, |object| object["status"]["observedGeneration"] == generation).await;
    let object = world.admin.get(&version()).await.unwrap().unwrap();
    assert_eq!(
        (object["status"]["desired"]["version"].as_str(), object["status"]["history"].as_array().map(Vec::len)),
        (Some("1.0.1"), Some(1))
    );
    let _operators = world.operators(&[]);
    world.until(&version(), 60, completed("1.0.2")).await;
}
