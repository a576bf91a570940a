//! Bundles: a tree of files, and the small readers around it.

use std::collections::BTreeMap;

use mainstay_bundle::configmap::{self, Encoding};
use mainstay_bundle::generate::{self, Description};
use mainstay_bundle::validators::{self, Manifests, Options, Selection};
use mainstay_bundle::{Bundle, Content, diff};

/// Files separated by lines `=== PATH`. Reading gives a bundle or an error, what is installable can be listed, nothing differs from itself.
pub fn bundles(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut path = "manifests/csv.yaml".to_owned();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("=== ") {
            // The names of a tree have no empty parts.
            Some(name) => path = name.trim_end().split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"),
            None => files.entry(path.clone()).or_default().push_str(line),
        }
    }
    let installable = Bundle::read(&files);
    let listed = Bundle::read_for_catalog(&files);
    if let (Ok(bundle), Ok(other)) = (&installable, &listed) {
        assert!(bundle.csv.name == other.csv.name && other.refusal.is_none(), "two readers, two bundles");
    }
    for bundle in installable.iter().chain(&listed) {
        assert!(diff::diff(bundle, bundle).changes.is_empty(), "a bundle that differs from itself");
        assert!(bundle.images(None).iter().all(|image| !image.named.is_empty()), "an image that nothing names");
        let _ = bundle.catalog_blob("", Content::CsvMetadata);
    }
    if let (Ok(manifests), Ok(everything)) = (Manifests::read(&files), Selection::parse("")) {
        let lines = |file: &str| files.get(file).map_or(0, |text| text.split('\n').count());
        for finding in validators::run(&manifests, Some(&everything), &Options::default()) {
            if let Some((place, line)) = finding.place.as_ref().and_then(|place| Some((place, place.line?))) {
                assert!((1..=lines(&place.file)).contains(&line), "a line that is not there: {finding:?}");
            }
        }
        let _ = validators::content(&manifests, "", &["operatorhub"], &Options::default());
    }
    let named = || files.iter().map(|(path, text)| (path.as_str(), text.as_bytes()));
    if let Ok(content) = configmap::content(named(), Encoding::Plain, 1 << 20) {
        let fits = |key: &String| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        assert!(content.data.keys().all(fits), "a key that no ConfigMap takes");
    }
}

/// A file of annotations: what is compared with it is what was read from it.
pub fn annotations(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let entry = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let description = Description {
        media_type: "registry+v1".to_owned(),
        package: entry(&text),
        channels: entry(text.trim_start()),
        default_channel: String::new(),
    };
    assert!(description.differences(&description.annotations()) == Ok(Vec::new()), "annotations that do not read back");
    let _ = description.differences(&text);
    let _ = generate::media_type("manifests", [("a.yaml", data)]);
    let _ = Selection::parse(&text);
}

const CSV: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: a.v1.0.0, annotations: {alm-examples: '[{\"kind\": \"A\"}]'}}
spec:
  version: 1.0.0
  relatedImages: [{name: x, image: 'r/x@sha256:1'}]
  customresourcedefinitions: {owned: [{name: as.example.com, version: v1, kind: A}]}
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: [{name: d, spec: {template: {spec: {containers: [{name: c, image: r/c}]}}}}]}}
=== manifests/crd.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec: {group: example.com, scope: Namespaced, names: {kind: A, plural: as}, versions: [{name: v1, served: true, storage: true}]}
=== metadata/annotations.yaml
annotations:
  operators.operatorframework.io.bundle.package.v1: a
  operators.operatorframework.io.bundle.channels.v1: stable
=== metadata/dependencies.yaml
dependencies:
- {type: olm.package, value: {packageName: b, version: '>1.0.0'}}
=== metadata/properties.yaml
properties:
- property: {type: x, value: {a: 1}}
";

/// Trees.
pub fn bundle_seeds() -> Vec<Vec<u8>> {
    vec![CSV.as_bytes().to_vec(), b"=== metadata/annotations.yaml\nannotations: {a: &x [1], b: *x}\n".to_vec()]
}

/// Annotations and selectors.
pub fn annotation_seeds() -> Vec<Vec<u8>> {
    ["annotations:\n  operators.operatorframework.io.bundle.package.v1: a\n", "name in (a, b),!c", "yes", "1e3: x"]
        .map(|text| text.as_bytes().to_vec())
        .into()
}
