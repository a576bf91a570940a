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

/// OLM0-HUB-08: an installation from a catalog of the community is acknowledged, one from another catalog is not.
#[test]
fn community_catalogs_are_acknowledged() {
    let plan_of = |category: Category| {
        let package = Package { category, ..package(json!({})) };
        let request = Request { package: "cache".into(), namespace: "caches".into(), create_namespace: true, ..Request::default() };
        plan(&request, &Facts { packages: std::slice::from_ref(&package), ..Facts::default() }).unwrap()
    };
    let community = plan_of(Category::Community);
    assert_eq!(community.acknowledges, Some(Category::Community));
    assert!(community.notes[0].starts_with("catalog team/market is of category Community"), "{:?}", community.notes);
    for other in Category::ALL.into_iter().filter(|category| *category != Category::Community) {
        let planned = plan_of(other);
        assert_eq!((planned.acknowledges, planned.notes), (None, Vec::new()));
    }
}

/// OLM0-TOKEN-05, OLM0-TOKEN-12: on a platform that is too old for the cloud's tokens this is told before, and the plan
/// names the missing variables.
#[test]
fn platforms_without_tokens() {
    let declared = package(json!({"features.operators.openshift.io/token-auth-azure": "true"}));
    let request = Request {
        package: "cache".into(),
        namespace: "caches".into(),
        create_namespace: true,
        env: vec![("TENANTID".into(), "t".into())],
        ..Request::default()
    };
    let planned = |version: &str, cloud: Option<TokenCloud>| {
        let version = Version::parse(version).unwrap();
        let facts = Facts { packages: std::slice::from_ref(&declared), token_cloud: cloud, platform: Some(&version), ..Facts::default() };
        plan(&request, &facts).unwrap()
    };
    let is_told = |plan: &Plan| plan.notes.iter().any(|note| note.contains("from 4.14.8 on"));
    let old = planned("4.14.7", Some(TokenCloud::Azure));
    assert!(is_told(&old), "{:?}", old.notes);
    assert_eq!(old.missing_variables, ["CLIENTID", "SUBSCRIPTIONID"]);
    assert!(!is_told(&planned("4.14.8", Some(TokenCloud::Azure))));
    let elsewhere = planned("4.14.7", None);
    assert!(!is_told(&elsewhere) && elsewhere.missing_variables.is_empty());
}

/// OLM0-ADMIN-30: a group whose account may write CRDs is warned of before anything is installed with it; and the plan knows where permissions hold.
#[test]
fn accounts_that_may_write_apis() {
    let package = package(json!({}));
    let request = Request { package: "cache".into(), namespace: "caches".into(), ..Request::default() };
    let group = Group::read(
        &json!({"metadata": {"name": "g", "namespace": "caches"}, "spec": {"serviceAccountName": "installer"}, "status": {"namespaces": [""]}}),
    );
    let planned = |verb: &str| {
        let rules = [PolicyRule::resources(&[verb], &["apiregistration.k8s.io"], &["apiservices"])];
        let facts = Facts {
            packages: std::slice::from_ref(&package),
            has_namespace: true,
            groups: std::slice::from_ref(&group),
            account_rules: &rules,
            ..Facts::default()
        };
        plan(&request, &facts).unwrap()
    };
    let warned = planned("create");
    assert!(
        warned.watches_all && warned.notes[0].starts_with("serviceaccount caches/installer may write APIServices"),
        "{:?}",
        warned.notes
    );
    assert_eq!(planned("get").notes, Vec::<String>::new());
}
