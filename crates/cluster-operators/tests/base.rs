//! The settings of operators, compared with the definitions of the recorded payload.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_cluster_operators::base;
use mainstay_release::platform_operators;
use serde_json::{Map, Value};

/// The kinds that are described in full.
const WHOLE: [&str; 12] = [
    "authentications.operator.openshift.io",
    "configs.operator.openshift.io",
    "etcds.operator.openshift.io",
    "imagedigestmirrorsets.config.openshift.io",
    "imagetagmirrorsets.config.openshift.io",
    "kubeapiservers.operator.openshift.io",
    "kubecontrollermanagers.operator.openshift.io",
    "kubeschedulers.operator.openshift.io",
    "openshiftapiservers.operator.openshift.io",
    "openshiftcontrollermanagers.operator.openshift.io",
    "servicecas.operator.openshift.io",
    "storages.operator.openshift.io",
];

/// A schema without what people read in it, and without the fields that every object has.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !(*name == "description" && value.is_string()));
            Value::Object(kept.map(|(name, value)| (name.clone(), bare(value))).collect::<Map<_, _>>())
        }
        Value::Array(all) => all.iter().map(bare).collect(),
        other => other.clone(),
    }
}

fn schema(definition: &Value) -> Value {
    let mut schema = bare(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    }
    schema
}

/// The definitions of the payload that are those of a usual cluster, by name.
fn recorded() -> Option<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for (path, content) in mainstay_testing::data::archive("payload.tar.gz")? {
        let Some(text) = std::str::from_utf8(&content)
            .ok()
            .filter(|_| path.contains("/4.19.44/") && std::path::Path::new(&path).extension().is_some_and(|end| end == "yaml"))
        else {
            continue;
        };
        if !text.contains("kind: CustomResourceDefinition") {
            continue;
        }
        let Ok(definition) = mainstay_yaml::parse(text) else { continue };
        let set = definition["metadata"]["annotations"].get("release.openshift.io/feature-set").and_then(Value::as_str);
        if set.is_none_or(|set| set.split(',').any(|one| one == "Default")) {
            all.insert(definition["metadata"]["name"].as_str().unwrap_or_default().to_owned(), definition);
        }
    }
    Some(all)
}

/// COP-G-06, COP-G-07: the definitions that are described in full have upstream's schema, field by field, and all have its scope and version.
#[test]
fn as_in_the_payload() {
    let Some(recorded) = recorded() else { return };
    let mut compared = BTreeSet::new();
    for candidate in base::definitions().unwrap() {
        let ours = &candidate.object;
        let name = ours["metadata"]["name"].as_str().unwrap();
        let Some(theirs) = recorded.get(name) else { continue };
        assert_eq!(ours["spec"]["scope"], theirs["spec"]["scope"], "{name}");
        assert_eq!(ours["spec"]["names"]["kind"], theirs["spec"]["names"]["kind"], "{name}");
        assert_eq!(ours["spec"]["versions"][0]["name"], theirs["spec"]["versions"][0]["name"], "{name}");
        if WHOLE.contains(&name) {
            let (ours, theirs) = (schema(ours), schema(theirs));
            assert!(ours == theirs, "{name}\nours\n{ours:#}\nupstream's\n{theirs:#}");
            compared.insert(name.to_owned());
        }
    }
    assert_eq!(compared.iter().map(String::as_str).collect::<Vec<_>>(), WHOLE);
}

/// COP-G-01, COP-G-05: every candidate belongs to a ClusterOperator of the data file, and no two are the same object.
#[test]
fn every_candidate_has_an_operator() {
    let mut seen = BTreeSet::new();
    for candidate in base::candidates().unwrap() {
        assert!(platform_operators().iter().any(|row| row.has(&candidate.operator)), "{}", candidate.operator);
        let object = &candidate.object;
        let id =
            [&object["apiVersion"], &object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]].map(Value::to_string);
        assert!(seen.insert(id.clone()), "{id:?}");
        assert_eq!(object["metadata"]["annotations"]["mainstay.dev/simulated"], "true", "{id:?}");
    }
}
