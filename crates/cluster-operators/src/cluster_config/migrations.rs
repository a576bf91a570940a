//! Migrations of the cluster's configuration in an update (COP-07): each step is a pure function from an old object to a new one, and finds
//! nothing to change in what it returned.

use serde_json::{Value, json};

/// The largest `install-config` that is read, in bytes.
const LARGEST: usize = 1 << 20;
/// Limits for its depth and its values.
const DEPTH: usize = 64;
const VALUES: usize = 100_000;

/// The objects that steps read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// `FeatureGate/cluster`.
    pub feature_gate: Option<&'a Value>,
    /// `Infrastructure/cluster`.
    pub infrastructure: Option<&'a Value>,
    /// ConfigMap `cluster-config-v1` of `kube-system`, which the installer writes.
    pub install_config: Option<&'a Value>,
}

/// A step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its name: upstream's controller, whose conditions have it.
    pub name: &'static str,
    /// The object that it changes.
    pub object: for<'a> fn(&Facts<'a>) -> Option<&'a Value>,
    /// True if it changes the status.
    pub is_status: bool,
    /// Returns the new object, or the old one if there is nothing to change.
    pub migrate: fn(&Value, &Facts<'_>) -> Result<Value, MigrationProblem>,
}

/// Why an object cannot be migrated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationProblem {
    /// The two fields that name the platform differ.
    #[error(
        "Mis-match between status.platform ({old}) and status.platformStatus.type ({new}) in infrastructures.config.openshift.io/cluster"
    )]
    Platform {
        /// `status.platform`.
        old: String,
        /// `status.platformStatus.type`.
        new: String,
    },
    /// The installer's configuration is missing.
    #[error("Unable to load the cluster-config-v1: configmap \"cluster-config-v1\" not found")]
    NoConfigMap,
    /// It has no such key.
    #[error("install-config key doesn't exist in ConfigMap kube-system/cluster-config-v1")]
    NoKey,
    /// It is no YAML, or larger than the limits.
    #[error("unable to parse install-config.yaml: {0}")]
    Unreadable(String),
    /// It says nothing of AWS.
    #[error("no AWS configuration found in cluster-config-v1")]
    NoAws,
    /// It names no region.
    #[error("empty region set in cluster-config-v1")]
    NoRegion,
}

/// The steps, in their order.
pub const STEPS: [Step; 3] = [
    Step {
        name: "LatencySensitiveRemovalController",
        object: |facts| facts.feature_gate,
        is_status: false,
        migrate: without_latency_sensitive,
    },
    Step { name: "MigrationPlatformStatusController", object: |facts| facts.infrastructure, is_status: true, migrate: platform_status },
    Step { name: "MigrationPlatformStatusController", object: |facts| facts.infrastructure, is_status: true, migrate: aws_region },
];

/// A feature set that no release has any more becomes the default one.
#[allow(clippy::unnecessary_wraps, reason = "every step has this form")]
fn without_latency_sensitive(old: &Value, _: &Facts<'_>) -> Result<Value, MigrationProblem> {
    let mut new = old.clone();
    if new["spec"]["featureSet"] == "LatencySensitive" {
        new["spec"]["featureSet"] = "".into();
    }
    Ok(new)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `status.platform` becomes `status.platformStatus.type`.
fn platform_status(old: &Value, _: &Facts<'_>) -> Result<Value, MigrationProblem> {
    let (before, kind) = (text(old, "/status/platform"), text(old, "/status/platformStatus/type"));
    let mut new = old.clone();
    match (before, kind) {
        ("", _) => {}
        (before, "") => new["status"]["platformStatus"]["type"] = before.into(),
        (before, kind) if before != kind => {
            return Err(MigrationProblem::Platform { old: before.to_owned(), new: kind.to_owned() });
        }
        _ => {}
    }
    Ok(new)
}

/// The region of AWS comes from the installer's configuration.
fn aws_region(old: &Value, facts: &Facts<'_>) -> Result<Value, MigrationProblem> {
    let is_aws = ["/status/platformStatus/type", "/status/platform"].iter().map(|pointer| text(old, pointer)).find(|kind| !kind.is_empty());
    if is_aws != Some("AWS") || !text(old, "/status/platformStatus/aws/region").is_empty() {
        return Ok(old.clone());
    }
    let map = facts.install_config.ok_or(MigrationProblem::NoConfigMap)?;
    let config = map.pointer("/data/install-config").and_then(Value::as_str).ok_or(MigrationProblem::NoKey)?;
    if config.len() > LARGEST {
        return Err(MigrationProblem::Unreadable(format!("it has more than {LARGEST} bytes")));
    }
    let options = mainstay_yaml::Options { max_depth: DEPTH, max_nodes: VALUES, ..mainstay_yaml::Options::default() };
    let config = mainstay_yaml::parse_with(config, &options).map_err(|error| MigrationProblem::Unreadable(error.to_string()))?.value;
    let aws = config.pointer("/platform/aws").filter(|aws| aws.is_object()).ok_or(MigrationProblem::NoAws)?;
    let region = aws["region"].as_str().filter(|region| !region.is_empty()).ok_or(MigrationProblem::NoRegion)?;
    let mut new = old.clone();
    if new["status"]["platformStatus"]["aws"].is_null() {
        new["status"]["platformStatus"]["aws"] = json!({});
    }
    new["status"]["platformStatus"]["aws"]["region"] = region.into();
    Ok(new)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// All steps, one after the other.
    fn migrated(facts: &Facts<'_>, mut object: Value, is_status: bool) -> Result<Value, MigrationProblem> {
        for step in STEPS.iter().filter(|step| step.is_status == is_status) {
            object = (step.migrate)(&object, facts)?;
        }
        Ok(object)
    }

    /// COP-07: the steps of an update, and that each finds nothing to change in what it returned.
    #[test]
    fn steps() {
        let map = |config: &str| json!({"data": {"install-config": config}});
        let aws = map("platform: {aws: {region: eu-north-1}}");
        let facts = Facts { install_config: Some(&aws), ..Facts::default() };
        let old = json!({"status": {"platform": "AWS", "infrastructureName": "x"}});
        let new = migrated(&facts, old.clone(), true).unwrap();
        assert_eq!(
            new["status"],
            json!({"platform": "AWS", "infrastructureName": "x", "platformStatus": {"type": "AWS", "aws": {"region": "eu-north-1"}}})
        );
        for status in [json!({}), json!({"platform": "None", "platformStatus": {"type": "None"}}), new["status"].clone()] {
            let settled = json!({"status": status});
            assert_eq!(migrated(&Facts::default(), settled.clone(), true).unwrap(), settled);
        }
        let refused = |facts: &Facts<'_>| migrated(facts, old.clone(), true).unwrap_err().to_string();
        assert!(refused(&Facts::default()).contains("configmap \"cluster-config-v1\" not found"));
        for (config, words) in [
            (json!({"data": {}}), "install-config key doesn't exist"),
            (map("a: ["), "unable to parse install-config.yaml: "),
            (map("platform: {none: {}}"), "no AWS configuration found"),
            (map("platform: {aws: {region: ''}}"), "empty region"),
            (map(&"#".repeat(LARGEST + 1)), "more than 1048576 bytes"),
        ] {
            let said = refused(&Facts { install_config: Some(&config), ..Facts::default() });
            assert!(said.contains(words), "{said}");
        }
        let differs = json!({"status": {"platform": "AWS", "platformStatus": {"type": "None"}}});
        let said = migrated(&facts, differs, true).unwrap_err().to_string();
        assert!(said.starts_with("Mis-match between status.platform (AWS) and status.platformStatus.type (None)"), "{said}");
        let gate = |set: &str| json!({"spec": {"featureSet": set}});
        assert_eq!(migrated(&facts, gate("LatencySensitive"), false), Ok(gate("")));
        assert_eq!(migrated(&facts, gate("TechPreviewNoUpgrade"), false), Ok(gate("TechPreviewNoUpgrade")));
    }
}
