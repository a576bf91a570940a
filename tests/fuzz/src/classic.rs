//! OLM classic's decisions: worlds to resolve, annotations with properties, files of unpacked bundles.

use mainstay_olm_classic_core::resolve::{ResolveError, Resolved, resolve, resolve_components};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::steps::{BundleContent, load, of_bundle};
use mainstay_olm_classic_core::{cases, properties};
use serde_json::{Value, json};

/// The same world has the same answer; nothing deprecated is installed; and the parts of a namespace are answered if the whole is.
pub fn worlds(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Value>(data) else { return };
    let Ok(snapshot) = cases::snapshot(&input) else { return };
    let answer = resolve(&snapshot);
    assert_eq!(answer, resolve(&snapshot), "another answer for the same world");
    let components = resolve_components(&snapshot);
    match &answer {
        Ok(bundles) => {
            let deprecated = |bundle: &&Resolved| bundle.properties.iter().any(|property| property.kind == "olm.deprecated");
            assert!(bundles.iter().find(deprecated).is_none(), "a deprecated bundle is installed");
            assert!(components.iter().all(|one| one.outcome.is_ok()), "the whole has an answer and a part has none");
        }
        Err(ResolveError::Unsatisfiable(conflict)) => assert!(conflict.least.len() <= conflict.found.len() && !conflict.least.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    drop(cases::resolution(&input));
}

pub fn world_seeds() -> Vec<Vec<u8>> {
    let bundle = |name: &str, properties: Value| {
        json!({
            "name": format!("{name}.v1"), "package": name, "version": "1.0.0", "channel": "stable", "defaultChannel": true,
            "bundlePath": name, "properties": properties, "skipRange": ">=0.1.0 <1.0.0", "skips": ["x"],
        })
    };
    let constraint = r#"{"failureMessage":"m","any":{"constraints":[{"package":{"packageName":"b","versionRange":">0.1.0"}},{"cel":{"rule":"size(properties) > 1"}}]}}"#;
    let needs = json!([{"type": "olm.package", "value": r#"{"packageName":"a","version":"1.0.0"}"#}, {"type": "olm.constraint", "value": constraint}]);
    let gives =
        json!([{"type": "olm.gvk", "value": r#"{"group":"g","version":"v1","kind":"K"}"#}, {"type": "olm.deprecated", "value": "{}"}]);
    let world = json!({
        "namespace": "ns", "globalNamespace": "g", "operatorGroups": [{"name": "og", "upgradeStrategy": "TechPreviewUnsafeFailForward"}],
        "catalogs": [{"name": "c", "namespace": "ns", "bundles": [bundle("a", needs), bundle("b", gives)]}],
        "csvs": [{"name": "a.v0", "namespace": "ns", "version": "0.5.0", "phase": "Replacing", "propertiesAnnotation": "{\"properties\":[]}",
            "ownedCRDs": [{"name": "ks.g", "version": "v1", "kind": "K"}]}],
        "subscriptions": [{"name": "s", "package": "a", "channel": "stable", "catalogSource": "c", "catalogSourceNamespace": "ns", "installedCSV": "a.v0"}],
    });
    vec![world.to_string().into_bytes(), world.to_string().replace("\"a.v0\"", "\"\"").into_bytes()]
}

/// What is read of an annotation and written again is read the same.
pub fn annotations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(read) = properties::read(text) else { return };
    // A property without value cannot be written.
    let Ok(written) = properties::annotation(&read) else { return };
    let again = properties::read(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
    assert_eq!(again.len(), read.len(), "{written}");
    assert_eq!(properties::annotation(&again).as_ref(), Ok(&written));
}

pub fn annotation_seeds() -> Vec<Vec<u8>> {
    let texts =
        [r#"{"properties":[{"type":"olm.package","value":{"packageName":"a<","version":"1"}},{"Type":"x","VALUE":null}]}"#, "{}", "null"];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// The files of a bundle give steps whose manifests are JSON, CSVs before CRDs before the rest; or a reason.
pub fn files(data: &[u8]) {
    let (one, other) = super::halves(data).unwrap_or((data, b""));
    let loaded = load([("a.yaml", one), ("b.yaml", other)]);
    let content = BundleContent { name: &loaded.name, csv_json: &loaded.csv_json, objects: &loaded.objects, properties: &[] };
    match of_bundle(content, "ns", "old", &SourceKey::default()) {
        Ok(steps) => {
            let rank =
                |kind: &str| ["ClusterServiceVersion", "CustomResourceDefinition"].iter().position(|first| kind == *first).unwrap_or(2);
            assert!(steps.is_sorted_by_key(|step| rank(&step.kind)));
            for step in &steps {
                let manifest: Result<Value, _> = serde_json::from_str(&step.manifest);
                assert!(manifest.is_ok_and(|manifest| manifest.is_object()), "{}", step.manifest);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn file_seeds() -> Vec<Vec<u8>> {
    let csv = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: a.v1, annotations: {x: y}}
spec:
  version: 1.0.0
  displayName: A
  install:
    strategy: deployment
    spec:
      deployments: [{name: d, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}]
      permissions: [{serviceAccountName: sa, rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]}]
      clusterPermissions: [{serviceAccountName: sa, rules: [{verbs: ['*'], nonResourceURLs: [/x]}]}]
";
    let secret = "kind: Secret\napiVersion: v1\nmetadata: {generateName: s-}\ndata: {a: Yg==}\n";
    vec![format!("{csv}\n--\n{secret}").into_bytes(), format!("# only\n---\n{secret}\n--\n{csv}").into_bytes()]
}
