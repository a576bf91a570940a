//! The CRD manifests of the kinds that tell of a cluster's release (CVO-API-01, CVO-CO-01).

use serde_json::{Value, json};

use crate::classic::{CONFIG_GROUP, Kind, Version, manifest};
use crate::config_v1::{
    ClusterOperatorSpec, ClusterOperatorStatus, ClusterVersionSpec, ClusterVersionStatus, FeatureGateSpec, FeatureGateStatus,
    RULE_OF_CAPABILITIES,
};
use crate::manifest::Manifest;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../manifests/release/", $name)))
    };
}

/// The checked-in manifests by file.
const FILES: [(&str, &str); 3] = [
    file!("config.openshift.io_clusteroperators.yaml"),
    file!("config.openshift.io_clusterversions.yaml"),
    file!("config.openshift.io_featuregates.yaml"),
];

/// The manifests of ClusterVersion, ClusterOperator and FeatureGate, as they are checked in.
///
/// # Errors
/// When a checked-in file is no YAML.
pub fn release_manifests() -> Result<Vec<Manifest>, mainstay_yaml::Error> {
    let read = |(file, text): &(&str, &str)| Ok(Manifest { file: (*file).to_owned(), definition: mainstay_yaml::parse(text)? });
    FILES.iter().map(read).collect()
}

/// The definitions as the types give them.
pub fn release_definitions() -> Vec<Manifest> {
    const SPEC: &[&str] = &["spec"];
    let kind = |name, plural, short_names, description, columns, version| {
        manifest(Kind { group: CONFIG_GROUP, name, plural, short_names, scope: "Cluster", description, columns, versions: vec![version] })
    };
    let mut version = kind(
        "ClusterVersion",
        "clusterversions",
        &[],
        "The release that the cluster is to run; only the object named version counts.",
        &[
            ("Version", "string", ".status.history[?(@.state==\"Completed\")].version", ""),
            ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status", ""),
            ("Progressing", "string", ".status.conditions[?(@.type==\"Progressing\")].status", ""),
            ("Since", "date", ".status.conditions[?(@.type==\"Progressing\")].lastTransitionTime", ""),
            ("Status", "string", ".status.conditions[?(@.type==\"Progressing\")].message", ""),
        ],
        Version::of::<ClusterVersionSpec, ClusterVersionStatus>("v1", SPEC),
    );
    let schema = version.definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").and_then(Value::as_object_mut);
    if let Some(schema) = schema {
        let (rule, message) = RULE_OF_CAPABILITIES;
        schema.insert("x-kubernetes-validations".into(), json!([{"rule": rule, "message": message}]));
    }
    let operator = kind(
        "ClusterOperator",
        "clusteroperators",
        &["co"],
        "The state of an operator of the cluster itself.",
        &[
            ("Version", "string", ".status.versions[?(@.name==\"operator\")].version", "The version that all operands have reached"),
            ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status", "Whether it works"),
            ("Progressing", "string", ".status.conditions[?(@.type==\"Progressing\")].status", "Whether it is rolling out a change"),
            ("Degraded", "string", ".status.conditions[?(@.type==\"Degraded\")].status", "Whether it works worse than it should"),
            ("Since", "date", ".status.conditions[?(@.type==\"Available\")].lastTransitionTime", "How long it has worked, or not"),
        ],
        Version::of::<ClusterOperatorSpec, ClusterOperatorStatus>("v1", SPEC),
    );
    let features = kind(
        "FeatureGate",
        "featuregates",
        &[],
        "The features of a release that are on; only the object named cluster counts.",
        &[],
        Version::of::<FeatureGateSpec, FeatureGateStatus>("v1", SPEC),
    );
    vec![operator, version, features]
}
