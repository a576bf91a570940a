//! ClusterVersion, ClusterOperator and FeatureGate against the definitions of the recorded releases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_api::config_v1::{ClusterOperator, ClusterVersion};
use serde_json::{Value, json};

use crate::recorded::{Difference, differences, facts};

fn ours(plural: &str) -> Value {
    let manifests = mainstay_api::release_manifests().unwrap();
    let file = format!("config.openshift.io_{plural}.yaml");
    manifests.into_iter().find(|manifest| manifest.file == file).unwrap().definition
}

/// CVO-API-01, CVO-API-02, CVO-API-03, CVO-API-04, CVO-API-05, CVO-API-06, CVO-CO-01, CVO-CO-02: names, columns, rules and schemas are those
/// of the recorded release; fields whose gate is off are not in them.
#[test]
fn definitions_are_those_of_the_release() {
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let files = [
        ("clusterversions", "0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml"),
        ("clusteroperators", "0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"),
        ("featuregates", "0000_10_config-operator_01_featuregates.crd.yaml"),
    ];
    for (plural, file) in files {
        let (_, text) = payload.iter().find(|(path, _)| path.contains("/4.19.") && path.ends_with(file)).expect(file);
        let theirs = mainstay_yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let mut out = Vec::new();
        differences("", &facts(&ours(plural))["spec"], &facts(&theirs)["spec"], &mut out);
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{plural}:\n{}", shown.join("\n"));
    }
}

/// CVO-API-03, CVO-API-07, CVO-API-08: the example of the specification keeps its fields through the schema and through the type.
#[test]
fn an_object_is_kept_whole() {
    let text = r#"
apiVersion: config.openshift.io/v1
kind: ClusterVersion
metadata: {name: version}
spec:
  clusterID: 5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11
  channel: fast-4.11
  desiredUpdate: {version: 4.11.9}
  overrides: [{kind: Deployment, group: apps, namespace: demo-system, name: demo-operator, unmanaged: true}]
status:
  observedGeneration: 2
  versionHash: aa
  capabilities: {enabledCapabilities: [Build], knownCapabilities: [Build, Console]}
  desired: {version: 4.10.22, image: "registry.example/release@sha256:aa", url: "https://errata.example/1", channels: [fast-4.10, fast-4.11]}
  history: [{state: Partial, version: 4.10.22, image: "registry.example/release@sha256:aa", startedTime: "2026-01-01T08:00:00Z", completionTime: null, verified: true}]
  availableUpdates: null
  conditions: [{type: Progressing, status: "True", reason: ClusterOperatorUpdating, message: Working, lastTransitionTime: "2026-01-01T08:00:00Z"}]
  conditionalUpdates:
  - release: {version: 4.11.2, image: "registry.example/release@sha256:cc", channels: [fast-4.11]}
    risks:
    - {name: SlowDiskRegression, url: "https://kb.example/7", message: "Clusters with demo disks may stall.", matchingRules: [{type: PromQL, promql: {promql: "max(demo_disks) > bool 0"}}]}
    conditions: [{type: Recommended, status: "False", reason: SlowDiskRegression, message: "Clusters with demo disks may stall. https://kb.example/7", lastTransitionTime: "2026-01-02T00:00:00Z"}]
"#;
    let object = mainstay_yaml::parse(text).unwrap();
    let schema = &ours("clusterversions")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = mainstay_schema::Schema::from_json(schema).unwrap();
    let mut stored = object.clone();
    mainstay_schema::prune::prune(&schema, &mut stored);
    mainstay_schema::default::default(&schema, &mut stored);
    assert_eq!(stored, object);
    assert_eq!(mainstay_schema::validate::validate(&schema, &stored, &mainstay_schema::field::Path::root()), []);

    let typed: ClusterVersion = serde_json::from_value(object.clone()).unwrap();
    let written = serde_json::to_value(&typed).unwrap();
    for part in ["spec", "status"] {
        assert_eq!(written[part], object[part]);
    }
    // Known to be none is not the same as not known.
    let typed: ClusterVersion = serde_json::from_value(json!({"status": {"availableUpdates": []}})).unwrap();
    assert_eq!(typed.status.available_updates, Some(Vec::new()));
}

/// CVO-API-05: what belongs to a gate that is off does not come through.
#[test]
fn gated_fields_are_pruned() {
    let schema = &ours("clusterversions")["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let schema = mainstay_schema::Schema::from_json(schema).unwrap();
    let mut object = json!({
        "spec": {"clusterID": "x", "signatureStores": [{"url": "https://s.example"}], "desiredUpdate": {"mode": "Preflight", "acceptRisks": [{"name": "A"}]}},
        "status": {"conditionalUpdateRisks": [], "desired": {"version": "1", "image": "i", "architecture": "Multi"}},
    });
    mainstay_schema::prune::prune(&schema, &mut object);
    assert_eq!(object, json!({"spec": {"clusterID": "x", "desiredUpdate": {}}, "status": {"desired": {"version": "1", "image": "i"}}}));
}

/// CVO-CO-02, CVO-CO-03: every ClusterOperator of a recorded release is one to the type.
#[test]
fn cluster_operators_of_a_release() {
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let mut seen = 0;
    for (path, text) in payload
        .iter()
        .filter(|(path, _)| path.contains("/4.19.") && std::path::Path::new(path).extension().is_some_and(|extension| extension == "yaml"))
    {
        let text = std::str::from_utf8(text).unwrap();
        if !text.contains("kind: ClusterOperator\n") {
            continue;
        }
        for document in mainstay_yaml::stream(text).map(|document| document.unwrap().value) {
            if document["kind"] != "ClusterOperator" {
                continue;
            }
            let typed: ClusterOperator = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(typed.status.versions.iter().any(|version| version.name == "operator"), "{path}");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen}");
}
