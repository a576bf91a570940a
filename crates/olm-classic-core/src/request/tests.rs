//! Tests of requests.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::package::Channel;
use crate::token_auth::TokenCloud;

fn package(annotations: Value) -> Package {
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let install_modes = modes.map(|mode| mainstay_bundle::InstallMode { mode: mode.to_owned(), supported: true }).to_vec();
    let stable = Channel { name: "stable".into(), head: "cache.v1".into(), install_modes, annotations, ..Channel::default() };
    Package {
        name: "cache".into(),
        catalog: "team".into(),
        catalog_namespace: "market".into(),
        default_channel: "stable".into(),
        channels: vec![stable],
        ..Package::default()
    }
}

/// OLM0-TOKEN-09, OLM0-TOKEN-12, OLM0-TOKEN-15: on a cluster in token mode an operator that declares it is installed with its variables; what is missing, and
/// automatic updates, are told before.
#[test]
fn operators_with_tokens() {
    let declared = package(json!({"features.operators.openshift.io/token-auth-aws": "true"}));
    let other = package(json!({}));
    let notes = |package: &Package, cloud: Option<TokenCloud>, request: &Request| {
        let facts = Facts { packages: std::slice::from_ref(package), token_cloud: cloud, ..Facts::default() };
        plan(request, &facts).unwrap()
    };
    let bare = Request { package: "cache".into(), namespace: "caches".into(), create_namespace: true, ..Request::default() };
    let told = notes(&declared, Some(TokenCloud::Aws), &bare).notes;
    assert!(told.iter().any(|note| note.contains("--env ROLEARN=...")) && told.iter().any(|note| note.contains("Manual")), "{told:?}");
    for (package, cloud) in [(&declared, None), (&declared, Some(TokenCloud::Gcp)), (&other, Some(TokenCloud::Aws))] {
        assert_eq!(notes(package, cloud, &bare).notes, Vec::<String>::new());
    }
    let role = "arn:aws:iam::123456789012:role/cache".to_owned();
    let full = Request { env: vec![("ROLEARN".into(), role.clone())], approval: Some(Approval::Manual), ..bare };
    let planned = notes(&declared, Some(TokenCloud::Aws), &full);
    assert_eq!(planned.notes, Vec::<String>::new());
    let subscription = planned.objects.last().unwrap();
    assert_eq!(subscription["spec"]["config"], json!({"env": [{"name": "ROLEARN", "value": role}]}));
}
