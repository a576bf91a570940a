//! OperatorHub and the default catalogs.

use std::collections::BTreeMap;

use mainstay_objects::{Patch, Step};
use mainstay_olm_classic_core::hub::{DefaultCatalog, MANAGED_BY, default_catalogs, definitions, operator_hub, plan, settings, status};
use serde_json::{Value, json};

fn hub(spec: Value) -> Value {
    let mut hub = operator_hub(false);
    hub["spec"] = spec;
    hub
}

/// A definition as it lies in a cluster.
fn live(definition: &Value) -> Value {
    let mut object = definition.clone();
    object["metadata"]["uid"] = "u".into();
    object["metadata"]["resourceVersion"] = "7".into();
    object["status"] = json!({"message": "x"});
    object
}

fn shown(changes: &[mainstay_olm_classic_core::hub::Change]) -> Vec<String> {
    let verb = |step: &Step| match step {
        Step::Create(_) => "create",
        Step::Patch { .. } => "restore",
        Step::Delete { .. } => "delete",
        other => panic!("{other:?}"),
    };
    changes.iter().map(|change| format!("{} {}", verb(&change.step), change.catalog)).collect()
}

/// OLM0-HUB-03, OLM0-HUB-04, OLM0-HUB-11: the catalogs of a release, with the version in their images.
#[test]
fn definitions_of_releases() {
    let images = |release: &str| -> Vec<String> {
        let all = definitions(&default_catalogs(), release).unwrap();
        all.iter().map(|one| one["spec"]["image"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
    };
    let wanted = ["redhat-operator-index:v4.19", "certified-operator-index:v4.19", "community-operator-index:v4.19"];
    assert_eq!(images("4.19.44"), wanted);
    assert_eq!(images("4.18.0-rc.1")[0], "redhat-operator-index:v4.18");
    assert_eq!(images("4.10.3")[2], "redhat-marketplace-index:v4.10");
    let refused = definitions(&default_catalogs(), "newest").unwrap_err();
    assert!(refused.to_string().starts_with("release \"newest\" is no version"), "{refused}");
    let first = &definitions(&default_catalogs(), "4.19.0").unwrap()[0];
    assert_eq!(first["metadata"]["annotations"][MANAGED_BY.0], MANAGED_BY.1);
    assert_eq!(first["metadata"]["annotations"]["target.workload.openshift.io/management"], "{\"effect\": \"PreferredDuringScheduling\"}");
    let pod = &first["spec"]["grpcPodConfig"];
    assert_eq!((&pod["securityContextConfig"], &pod["memoryTarget"]), (&"restricted".into(), &"30Mi".into()));
    assert_eq!(pod["tolerations"][1]["tolerationSeconds"], 120);
    // The table is data.
    let table = serde_json::to_value(default_catalogs()).unwrap();
    assert_eq!(serde_json::from_value::<Vec<DefaultCatalog>>(table).unwrap(), default_catalogs());
}

/// OLM0-HUB-02, OLM0-HUB-05, OLM0-HUB-06: what is made, restored and deleted, by settings and what exists.
#[test]
fn plans() {
    let defaults = definitions(&default_catalogs(), "4.19.0").unwrap();
    let all: Vec<Value> = defaults.iter().map(live).collect();
    let edited = |at: usize, change: fn(&mut Value)| {
        let mut all = all.clone();
        change(&mut all[at]);
        all
    };
    let older: Vec<Value> = definitions(&default_catalogs(), "4.18.0").unwrap().iter().map(live).collect();
    let own = edited(0, |one| one["metadata"]["annotations"] = json!({"mine": "yes"}));
    let off = json!({"disableAllDefaultSources": true});
    let only_community = json!({"disableAllDefaultSources": true, "sources": [{"name": "community-operators", "disabled": false}]});
    let without_community = json!({"sources": [{"name": "community-operators", "disabled": true}, {"name": "mine", "disabled": false}]});
    let cases: &[(&str, Value, &[Value], &[&str])] = &[
        ("an empty cluster", json!({}), &[], &["create redhat-operators", "create certified-operators", "create community-operators"]),
        ("all as defined", json!({}), &all, &[]),
        ("all disabled", off.clone(), &all, &["delete redhat-operators", "delete certified-operators", "delete community-operators"]),
        ("all disabled, none there", off.clone(), &[], &[]),
        ("one enabled although all are off", only_community, &[], &["create community-operators"]),
        ("one disabled although all are on", without_community, &all, &["delete community-operators"]),
        ("an edited spec", json!({}), &edited(1, |one| one["spec"]["priority"] = 5.into()), &["restore certified-operators"]),
        ("another field", json!({}), &edited(1, |one| one["spec"]["secrets"] = json!(["s"])), &["restore certified-operators"]),
        ("a label is no edit", json!({}), &edited(1, |one| one["metadata"]["labels"] = json!({"a": "b"})), &[]),
        ("a user's own of that name", off, &own, &["delete certified-operators", "delete community-operators"]),
        ("a user's own of that name, enabled", json!({}), &own, &["restore redhat-operators"]),
        ("on its way out", json!({}), &edited(0, |one| one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()), &[]),
        ("another release", json!({}), &older, &["restore redhat-operators", "restore certified-operators", "restore community-operators"]),
    ];
    for (what, spec, live, wanted) in cases {
        assert_eq!(shown(&plan(&hub(spec.clone()), &defaults, live).unwrap()), *wanted, "{what}");
    }
    // A restored catalog keeps the annotations of others, and is the one that was seen.
    let changes = plan(&hub(json!({})), &defaults, &own).unwrap();
    let Step::Patch { patch: Patch::Json(operations), .. } = &changes[0].step else { panic!("{changes:?}") };
    assert_eq!(operations[0], json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}));
    assert_eq!((&operations[1]["value"]["mine"], &operations[1]["value"][MANAGED_BY.0]), (&"yes".into(), &MANAGED_BY.1.into()));
    assert_eq!(operations[2]["value"], defaults[0]["spec"]);
}

/// OLM0-HUB-02, OLM0-HUB-07: the status names each default and each source of the spec.
#[test]
fn statuses() {
    let defaults = definitions(&default_catalogs(), "4.19.0").unwrap();
    let hub = hub(json!({"sources": [
        {"name": "mine", "disabled": false}, {"name": "community-operators", "disabled": true}, {"name": "community-operators", "disabled": false}]}));
    assert!(!settings(&hub, &defaults)["community-operators"], "the last entry of a name counts");
    let failures = BTreeMap::from([("redhat-operators".to_owned(), "quota exceeded".to_owned())]);
    let wanted = json!({"sources": [
        {"name": "certified-operators", "disabled": false, "status": "Success"},
        {"name": "community-operators", "disabled": false, "status": "Success"},
        {"name": "mine", "disabled": false, "status": "Error", "message": "Not present in the default definitions"},
        {"name": "redhat-operators", "disabled": false, "status": "Error", "message": "quota exceeded"},
    ]});
    assert_eq!(status(&hub, &defaults, &failures), wanted);
    assert_eq!(operator_hub(true)["spec"], json!({"disableAllDefaultSources": true}));
}
