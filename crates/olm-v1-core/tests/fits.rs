//! Every real bundle held against a plain Kubernetes 1.34: what is told of its roles and webhooks is true, and nothing else is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use std::collections::{BTreeMap, BTreeSet};

use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use mainstay_lifecycle::preview::{Cluster, Served, Told, told};
use mainstay_testing::{bundles, data};
use serde_json::Value;

/// What a plain kube-apiserver 1.34 serves, as it was recorded.
fn kubernetes() -> Option<Served> {
    let mut all = Vec::new();
    for name in ["aggregated-api.json.gz", "aggregated-apis.json.gz"] {
        let list = data::json(&format!("kubernetes-openapi/discovery/{name}"))?;
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in group["versions"].as_array().unwrap() {
                let of = version["version"].as_str().unwrap();
                let resources = version["resources"].as_array().into_iter().flatten();
                all.extend(resources.map(|one| (name.to_owned(), of.to_owned(), one["resource"].as_str().unwrap().to_owned())));
            }
        }
    }
    assert!(all.len() > 60, "{}", all.len());
    Some(Served::new(all))
}

fn objects(files: &bundles::Files) -> Option<Vec<Value>> {
    let bundle = Bundle::read(files).ok()?;
    let target_namespaces = match ["AllNamespaces", "SingleNamespace"].map(|mode| bundle.csv.supports(mode)) {
        [true, _] => None,
        [false, true] => Some(vec!["watched".to_owned()]),
        _ => Some(vec!["work".to_owned()]),
    };
    let options = RenderOptions {
        install_namespace: "work".to_owned(),
        target_namespaces,
        certificates: CertificateProvider::OpenshiftServiceCa,
        deployment: None,
    };
    render(&bundle, &options).ok()
}

/// MS-PLAN-01: permissions on APIs that Kubernetes removed are warned of for the real bundles that have such permissions and no others; what plain
/// Kubernetes does not serve is told without any of its own resources among it.
#[test]
fn real_bundles_on_a_plain_cluster() {
    let (Some(bundles), Some(served)) = (bundles::bundles(), kubernetes()) else { return };
    let mut found: BTreeMap<String, Told> = BTreeMap::new();
    let mut looked = 0;
    for (name, files) in bundles {
        let Some(objects) = objects(files) else { continue };
        looked += 1;
        let all = told(&objects, &[], Cluster { served: Some(&served), version: Some("1.34.0") });
        // Without discovery the same warnings follow from the version.
        let blind = told(&objects, &[], Cluster { served: None, version: Some("1.34.0") });
        assert_eq!((&all.warnings, blind.not_served.len()), (&blind.warnings, 0), "{name}");
        // A bundle that is installed already is not told again what it lacked before.
        assert!(
            told(&objects, &objects, Cluster { served: Some(&served), version: None })
                .not_served
                .iter()
                .all(|line| line.contains("webhook"))
        );
        found.insert(name.clone(), all);
    }
    assert!(looked > 130, "{looked}");
    let mut warnings: BTreeSet<&str> = BTreeSet::new();
    for (name, told) in &found {
        warnings.extend(told.warnings.iter().map(String::as_str));
        told.warnings.iter().for_each(|line| eprintln!("{name}: {line}"));
        told.not_served.iter().for_each(|line| eprintln!("{name}: not served: {line}"));
    }
    let removed =
        [("auditsinks.auditregistration.k8s.io", "1.19"), ("ingresses.extensions", "1.22"), ("podsecuritypolicies.policy", "1.25")];
    let expected = removed.map(|(resource, release)| format!("the bundle's roles name {resource}, which Kubernetes {release} removed"));
    assert_eq!(warnings.into_iter().collect::<Vec<_>>(), expected);
}
