//! The work of the config operator, played to its end on objects in memory (COP-07).

use jiff::Timestamp;
use mainstay_api::cluster_operator::{self, Report};
use mainstay_cluster_operators::cluster_config::{Facts, Part, Snapshot, plan};
use serde_json::{Value, json};

struct World {
    version: String,
    gates: Vec<Value>,
    gate: Option<Value>,
    infrastructure: Value,
    install_config: Option<Value>,
    cluster_version: Value,
    operator: Value,
    /// The reports, in their order.
    reports: Vec<Report>,
}

fn gates(set: &str, version: &str, enabled: &[&str]) -> Value {
    let enabled: Vec<Value> = enabled.iter().map(|name| json!({"name": name})).collect();
    json!({
        "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {"featureSet": set},
        "status": {"featureGates": [{"version": version, "enabled": enabled}]},
    })
}

impl World {
    fn new() -> Self {
        Self {
            version: "4.18.9".to_owned(),
            gates: vec![gates("", "", &["Stable"]), gates("TechPreviewNoUpgrade", "", &["New", "Stable"])],
            gate: Some(json!({"kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {}})),
            infrastructure: json!({"kind": "Infrastructure", "metadata": {"name": "cluster"}, "status": {"platform": "AWS"}}),
            install_config: Some(json!({"data": {"install-config": "platform: {aws: {region: eu-north-1}}"}})),
            cluster_version: json!({"status": {"history": [{"version": "4.18.9"}]}}),
            operator: cluster_operator::object("config-operator"),
            reports: Vec::new(),
        }
    }

    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            let mut expected = cluster_operator::object("config-operator");
            expected["status"] = json!({"versions": [{"name": "operator", "version": self.version}]});
            let release: Vec<Value> = self.gates.iter().cloned().chain([expected.clone()]).collect();
            let facts = Facts {
                feature_gate: self.gate.as_ref(),
                infrastructure: Some(&self.infrastructure),
                install_config: self.install_config.as_ref(),
            };
            let cluster_version = Some(&self.cluster_version);
            let found = plan(&Snapshot { release: &release, expected: &expected, live: &self.operator, cluster_version, facts });
            let before = (self.gate.clone(), self.infrastructure.clone(), self.operator.clone());
            for write in &found.writes {
                match write.object["kind"].as_str().unwrap() {
                    "FeatureGate" => self.gate = Some(write.object.clone()),
                    "Infrastructure" => {
                        assert_eq!(write.part, Part::Status);
                        self.infrastructure = write.object.clone();
                    }
                    other => panic!("{other}"),
                }
            }
            let told = found.told;
            assert!(!told.is_played, "its work is done here");
            self.operator["status"] =
                cluster_operator::status_of_release(&self.operator, &told.report, told.versions.as_deref(), Timestamp::UNIX_EPOCH);
            self.reports.push(told.report);
            if before == (self.gate.clone(), self.infrastructure.clone(), self.operator.clone()) {
                return self;
            }
        }
        panic!("it does not settle");
    }

    fn condition(&self, kind: &str) -> (String, String, String) {
        let all = self.operator["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|each| each["type"] == kind).unwrap();
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    fn features(&self) -> String {
        let all = self.gate.as_ref().unwrap()["status"]["featureGates"].as_array().unwrap().clone();
        let names = |list: &Value| {
            list.as_array().into_iter().flatten().map(|each| each["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
        };
        let shown =
            |entry: &Value| format!("{} +{} -{}", entry["version"].as_str().unwrap(), names(&entry["enabled"]), names(&entry["disabled"]));
        all.iter().map(shown).collect::<Vec<_>>().join("; ")
    }

    fn versions(&self) -> String {
        let all = self.operator["status"]["versions"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|each| format!("{}={}", each["name"].as_str().unwrap(), each["version"].as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// COP-07, COP-G-08: objects are migrated and the features are written before the version is told, with Progressing=True meanwhile; an update adds the
/// entry of its version, and keeps those of the history.
#[test]
fn an_installation_and_an_update() {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.infrastructure["status"]["platformStatus"], json!({"type": "AWS", "aws": {"region": "eu-north-1"}}));
    assert_eq!(world.features(), "4.18.9 +Stable -New");
    assert_eq!(world.versions(), "operator=4.18.9 feature-gates=4.18.9");
    let first = world.reports[0].progressing.clone().unwrap();
    assert_eq!(first.message, "Working towards 4.18.9: migrating Infrastructure/cluster, FeatureGate/cluster");
    assert_eq!(world.condition("Progressing").0, "False");
    assert_eq!(world.condition("Upgradeable"), ("True".to_owned(), "AsExpected".to_owned(), "All is well".to_owned()));

    world.reports.clear();
    world.version = "4.19.0".to_owned();
    world.cluster_version = json!({"status": {"history": [{"version": "4.19.0"}, {"version": "4.18.9"}]}});
    world.gates = vec![gates("", "4.19.0", &["New", "Stable"]), gates("TechPreviewNoUpgrade", "4.19.0", &["Newest"])];
    world.settle();
    assert_eq!(world.features(), "4.19.0 +New,Stable -Newest; 4.18.9 +Stable -New");
    assert_eq!(world.versions(), "operator=4.19.0 feature-gates=4.19.0");
    assert!(world.reports[0].progressing.is_some() && world.reports.last().unwrap().progressing.is_none());
    // Once: what is changed afterwards is the user's.
    world.infrastructure["status"] = json!({"platform": "AWS"});
    world.settle();
    assert_eq!(world.infrastructure["status"], json!({"platform": "AWS"}));
}

/// COP-07: a feature set other than the default one holds back the next minor version, and its features are on at once.
#[test]
fn a_feature_set() {
    let mut world = World::new();
    world.settle();
    world.gate.as_mut().unwrap()["spec"] = json!({"featureSet": "TechPreviewNoUpgrade"});
    world.settle();
    assert_eq!(world.features(), "4.18.9 +New,Stable -");
    let (status, reason, message) = world.condition("Upgradeable");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FeatureGates_RestrictedFeatureGates_TechPreviewNoUpgrade"));
    assert_eq!(message, "FeatureGatesUpgradeable: \"TechPreviewNoUpgrade\" does not allow updates");
    assert_eq!(world.condition("Progressing").0, "False");
}

/// COP-07: an object that cannot be migrated holds the version back, and is named in upstream's words; so does a feature set that the release lacks.
/// Without a FeatureGate, or with a release that lists no features, only that part is missing.
#[test]
fn what_goes_wrong() {
    let mut world = World::new();
    world.install_config = None;
    world.gate.as_mut().unwrap()["spec"] = json!({"featureSet": "DevPreviewNoUpgrade"});
    world.settle();
    assert_eq!(world.versions(), "");
    assert_eq!(world.condition("Progressing").0, "True");
    let (status, reason, message) = world.condition("Degraded");
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("True", "MigrationPlatformStatusController_SyncError::FeatureGateController_SyncError")
    );
    assert_eq!(
        message,
        "MigrationPlatformStatusControllerDegraded: Unable to load the cluster-config-v1: configmap \"cluster-config-v1\" not found\n\
         FeatureGateControllerDegraded: unable to determine FeatureGateDetails from FeatureSets: .spec.featureSet \"DevPreviewNoUpgrade\" not found"
    );
    assert_eq!(world.infrastructure["status"], json!({"platform": "AWS"}), "nothing is half migrated");
    world.install_config = World::new().install_config;
    world.gate = None;
    world.settle();
    assert_eq!((world.versions().as_str(), world.condition("Degraded").0.as_str()), ("operator=4.18.9", "False"));
    world.gate = World::new().gate;
    world.gates.clear();
    world.settle();
    assert_eq!(world.features(), "4.18.9 + -");
    assert_eq!(world.versions(), "operator=4.18.9 feature-gates=4.18.9");
}
