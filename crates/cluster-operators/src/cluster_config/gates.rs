//! Which features are on in a release (COP-07), as upstream's operator completes and orders them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The feature set whose lists the administrator writes.
const CUSTOM: &str = "CustomNoUpgrade";

/// The features of a feature set that are on and off by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that are on.
    pub enabled: BTreeSet<String>,
    /// Those that are off.
    pub disabled: BTreeSet<String>,
}

/// Why the features of a release are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// The release has no list for the feature set.
    #[error("unable to determine FeatureGateDetails from FeatureSets: .spec.featureSet {0:?} not found")]
    Set(String),
    /// The administrator wants a feature on and off.
    #[error("unable to determine FeatureGateDetails from FeatureSets: trying to enable and disable {0:?}")]
    Contradiction(String),
}

/// Returns the lists of a release by feature set, from its FeatureGate manifests: those of the version, or those that stand there for any version.
pub fn sets(release: &[Value], version: &str) -> BTreeMap<String, Lists> {
    let mut sets = BTreeMap::new();
    for manifest in release.iter().filter(|manifest| manifest["kind"] == "FeatureGate") {
        let all = manifest.pointer("/status/featureGates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of = |version: &str| all.iter().find(|each| each["version"].as_str().unwrap_or_default() == version);
        let Some(found) = of(version).or_else(|| of("")) else { continue };
        let set = manifest.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default();
        sets.insert(set.to_owned(), Lists { enabled: named(&found["enabled"]), disabled: named(&found["disabled"]) });
    }
    sets
}

/// Names in a list of objects that have one.
fn named(list: &Value) -> BTreeSet<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|each| each["name"].as_str()).map(str::to_owned).collect()
}

/// Names in a list of texts.
fn texts(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the entry of `status.featureGates` for a version, given the spec of `FeatureGate/cluster`: every feature that the release knows in any
/// set is on or off in it. `None` if the release lists no features.
///
/// # Errors
/// The release has no such feature set, or the administrator's lists contradict each other.
pub fn details(sets: &BTreeMap<String, Lists>, spec: &Value, version: &str) -> Result<Option<Value>, GatesError> {
    let set = spec["featureSet"].as_str().unwrap_or_default();
    let lists = if set == CUSTOM {
        let own = &spec["customNoUpgrade"];
        let (on, off) = (texts(&own["enabled"]), texts(&own["disabled"]));
        if let Some(both) = on.intersection(&off).next() {
            return Err(GatesError::Contradiction(both.clone()));
        }
        let usual = sets.get("").cloned().unwrap_or_default();
        if usual == Lists::default() && on.is_empty() && off.is_empty() {
            return Ok(None);
        }
        let enabled = usual.enabled.difference(&off).cloned().chain(on.iter().cloned()).collect();
        let disabled = usual.disabled.difference(&on).cloned().chain(off.iter().cloned()).collect();
        Lists { enabled, disabled }
    } else if sets.is_empty() {
        return Ok(None);
    } else {
        let Lists { enabled, disabled } = sets.get(set).cloned().ok_or_else(|| GatesError::Set(set.to_owned()))?;
        let known = sets.values().flat_map(|lists| lists.enabled.iter().chain(&lists.disabled));
        let disabled = known.chain(&disabled).filter(|name| !enabled.contains(*name)).cloned().collect();
        Lists { enabled, disabled }
    };
    let mut entry = Map::from_iter([("version".to_owned(), json!(version))]);
    for (field, names) in [("enabled", lists.enabled), ("disabled", lists.disabled)] {
        if !names.is_empty() {
            entry.insert(field.to_owned(), names.into_iter().map(|name| json!({"name": name})).collect());
        }
    }
    Ok(Some(Value::Object(entry)))
}

/// Returns the status that a FeatureGate is to have: the entry of the version first, then those of versions that the ClusterVersion has in its
/// history, as they stand. Where the release lists no features, an entry of the version stays, or is a version alone.
pub fn status(live: &Value, entry: Option<Value>, version: &str, cluster_version: Option<&Value>) -> Value {
    let history = cluster_version.and_then(|found| found.pointer("/status/history")).and_then(Value::as_array).into_iter().flatten();
    let known: BTreeSet<&str> = history.filter_map(|each| each["version"].as_str()).collect();
    let before: Vec<&Value> = live.pointer("/status/featureGates").and_then(Value::as_array).into_iter().flatten().collect();
    let is_own = |each: &&Value| each["version"] == version;
    let own = entry.or_else(|| before.iter().copied().find(is_own).cloned()).unwrap_or_else(|| json!({"version": version}));
    let older = before.iter().copied().filter(|each| !is_own(each) && each["version"].as_str().is_some_and(|one| known.contains(one)));
    let mut status = live.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    status.insert("featureGates".to_owned(), std::iter::once(own).chain(older.cloned()).collect());
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn manifest(set: &str, version: &str, enabled: &[&str], disabled: &[&str]) -> Value {
        let named = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        json!({
            "kind": "FeatureGate", "metadata": {"name": "cluster"}, "spec": {"featureSet": set},
            "status": {"featureGates": [{"version": version, "enabled": named(enabled), "disabled": named(disabled)}]},
        })
    }

    fn release() -> BTreeMap<String, Lists> {
        sets(
            &[
                manifest("", "", &["Stable", "Beta"], &["New"]),
                manifest("TechPreviewNoUpgrade", "4.19.0", &["Beta", "New", "Stable"], &["Newer"]),
                manifest("DevPreviewNoUpgrade", "4.18.9", &["Newer"], &[]),
                json!({"kind": "ClusterOperator", "metadata": {"name": "etcd"}}),
            ],
            "4.19.0",
        )
    }

    /// COP-07: the features of a release by feature set, completed by those of the other sets; the administrator's own lists come before the usual
    /// ones.
    #[test]
    fn features_of_a_release() {
        let shown = |spec: Value| {
            let names = |list: &Value| named(list).into_iter().collect::<Vec<_>>().join(",");
            details(&release(), &spec, "4.19.0").map(|found| found.map(|entry| (names(&entry["enabled"]), names(&entry["disabled"]))))
        };
        let lists = |on: &str, off: &str| Ok(Some((on.to_owned(), off.to_owned())));
        assert_eq!(release().len(), 2, "lists of another version count for nothing");
        for (spec, expected) in [
            (json!({}), lists("Beta,Stable", "New,Newer")),
            (json!({"featureSet": ""}), lists("Beta,Stable", "New,Newer")),
            (json!({"featureSet": "TechPreviewNoUpgrade"}), lists("Beta,New,Stable", "Newer")),
            (json!({"featureSet": "DevPreviewNoUpgrade"}), Err(GatesError::Set("DevPreviewNoUpgrade".to_owned()))),
            (json!({"featureSet": "CustomNoUpgrade"}), lists("Beta,Stable", "New")),
            (
                json!({"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["New", "Own"], "disabled": ["Beta"]}}),
                lists("New,Own,Stable", "Beta"),
            ),
            (
                json!({"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["New"], "disabled": ["New"]}}),
                Err(GatesError::Contradiction("New".to_owned())),
            ),
        ] {
            assert_eq!(shown(spec.clone()), expected, "{spec}");
        }
        assert_eq!(details(&BTreeMap::new(), &json!({}), "4.19.0"), Ok(None), "a release that lists none");
        let own = json!({"featureSet": "CustomNoUpgrade", "customNoUpgrade": {"enabled": ["Own"]}});
        assert_eq!(details(&BTreeMap::new(), &own, "4.19.0").unwrap().unwrap(), json!({"version": "4.19.0", "enabled": [{"name": "Own"}]}));
    }

    /// COP-07: the entry of the version comes first; those of versions outside of the history go.
    #[test]
    fn entries_by_version() {
        let live = json!({"status": {"conditions": [], "featureGates": [
            {"version": "4.18.9", "enabled": [{"name": "Old"}]}, {"version": "4.19.0", "enabled": [{"name": "Kept"}]}, {"version": "4.17.1"},
        ]}});
        let cluster_version = json!({"status": {"history": [{"version": "4.19.0"}, {"version": "4.18.9"}]}});
        let entry = json!({"version": "4.19.0", "disabled": [{"name": "New"}]});
        let wanted = status(&live, Some(entry.clone()), "4.19.0", Some(&cluster_version));
        assert_eq!(wanted["featureGates"], json!([entry, {"version": "4.18.9", "enabled": [{"name": "Old"}]}]));
        assert_eq!(wanted["conditions"], json!([]));
        let without = status(&live, None, "4.19.0", None);
        assert_eq!(without["featureGates"], json!([{"version": "4.19.0", "enabled": [{"name": "Kept"}]}]));
        assert_eq!(status(&json!({}), None, "4.20.0", None)["featureGates"], json!([{"version": "4.20.0"}]));
    }
}
