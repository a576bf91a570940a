//! Catalogs that cannot be read, and whom they hold back.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_olm_classic_core::properties::Property;
use mainstay_olm_classic_core::resolve::{
    Catalog, CatalogFailure, Content, Isolation, OperatorGroup, Outcome, RegistryBundle, Snapshot, Subscription, decide, decide_isolated,
};
use mainstay_olm_classic_core::source::SourceKey;

fn key(name: &str) -> SourceKey {
    SourceKey { name: name.to_owned(), namespace: "market".to_owned() }
}

fn bundle(package: &str, requires: Option<&str>) -> RegistryBundle {
    let property = |kind: &str, value: String| Property { kind: kind.to_owned(), value };
    let mut properties = vec![property("olm.package", format!(r#"{{"packageName":"{package}","version":"1.0.0"}}"#))];
    properties.extend(
        requires.map(|package| property("olm.package.required", format!(r#"{{"packageName":"{package}","versionRange":">=1.0.0"}}"#))),
    );
    RegistryBundle {
        name: format!("{package}.v1.0.0"),
        package: package.to_owned(),
        version: "1.0.0".to_owned(),
        channel: "stable".to_owned(),
        default_channel: true,
        bundle_path: format!("registry/{package}:1"),
        properties,
        ..RegistryBundle::default()
    }
}

fn content(bundles: &[RegistryBundle]) -> Arc<Content> {
    Arc::new(Content::of_registry(bundles.iter().cloned()))
}

/// Catalog `apps` has `app`, which requires `lib`, and `alone`. Catalogs `high` and `low` have `lib`, and `high` is preferred. Without `read`,
/// `high` cannot be read.
fn world(packages: &[&str], read: bool) -> (Snapshot, Arc<Content>) {
    let preferred = content(&[bundle("lib", None), bundle("other", None)]);
    let high = if read { Ok(preferred.clone()) } else { Err(CatalogFailure::NoConnection(key("high"))) };
    let apps = content(&[bundle("app", Some("lib")), bundle("alone", None)]);
    let subscription = |package: &&str| Subscription {
        name: (*package).to_owned(),
        package: (*package).to_owned(),
        channel: "stable".to_owned(),
        catalog: key(if *package == "other" { "high" } else { "apps" }),
        ..Subscription::default()
    };
    let snapshot = Snapshot {
        namespace: "team".to_owned(),
        global_namespace: "market".to_owned(),
        operator_groups: vec![OperatorGroup { name: "og".to_owned(), ..OperatorGroup::default() }],
        subscriptions: packages.iter().map(subscription).collect(),
        catalogs: vec![
            Catalog { key: key("high"), priority: 10, content: high },
            Catalog { key: key("low"), priority: 0, content: Ok(content(&[bundle("lib", None)])) },
            Catalog { key: key("apps"), priority: 0, content: Ok(apps) },
        ],
        csvs: Vec::new(),
    };
    (snapshot, preferred)
}

/// The Subscriptions that are refused, and the bundles with their catalogs that are not.
fn told(outcome: &Outcome) -> (Vec<&str>, Vec<(String, String)>) {
    let refused = outcome.refusals.iter().flat_map(|refusal| refusal.subscriptions.iter().map(String::as_str)).collect();
    let lookups = outcome.parts.iter().flat_map(|part| &part.steps.lookups);
    (refused, lookups.map(|lookup| (lookup.identifier.clone(), lookup.catalog.name.clone())).collect())
}

fn isolated(snapshot: &Snapshot, last: Option<&Arc<Content>>, isolation: Isolation) -> Outcome {
    let last: BTreeMap<SourceKey, Arc<Content>> = last.map(|content| (key("high"), content.clone())).into_iter().collect();
    decide_isolated(snapshot, isolation, &last)
}

/// OLM0-CAT-35: with the catalog of higher priority unreadable, the provider of the lower one is chosen in neither mode; what has nothing to do
/// with it goes on in `isolate`, and in `block` waits.
#[test]
fn the_lower_provider_is_never_chosen() {
    let (readable, _) = world(&["app", "alone"], true);
    let outcome = isolated(&readable, None, Isolation::Component);
    let (refused, chosen) = told(&outcome);
    assert!(refused.is_empty() && chosen.contains(&("lib.v1.0.0".to_owned(), "high".to_owned())), "{chosen:?}");

    let (snapshot, preferred) = world(&["app", "alone"], false);
    let blocked = decide(&snapshot, Isolation::Component);
    let (mut refused, chosen) = told(&blocked);
    refused.sort_unstable();
    assert_eq!((refused, chosen), (vec!["alone", "app"], Vec::new()));
    let outcome = isolated(&snapshot, Some(&preferred), Isolation::Component);
    assert_eq!(told(&outcome), (vec!["app"], vec![("alone.v1.0.0".to_owned(), "apps".to_owned())]));
    let sentence = "error using catalogsource market/high: no registry client established for catalogsource market/high";
    assert_eq!(outcome.refusals[0].error.to_string(), sentence);
}

/// OLM0-CAT-35: a catalog that was never read could hold anything, the target of a Subscription holds it back, and a namespace that is resolved
/// as one is held back as one.
#[test]
fn what_is_held_back() {
    let (snapshot, preferred) = world(&["alone"], false);
    assert_eq!(told(&isolated(&snapshot, None, Isolation::Component)).0, ["alone"], "never read");
    assert_eq!(told(&isolated(&snapshot, Some(&preferred), Isolation::Component)).0, Vec::<&str>::new());
    assert_eq!(told(&isolated(&snapshot, Some(&preferred), Isolation::Namespace)).0, Vec::<&str>::new());
    let (snapshot, preferred) = world(&["alone", "other"], false);
    assert_eq!(told(&isolated(&snapshot, Some(&preferred), Isolation::Component)).0, ["other"], "its source");
    let (snapshot, preferred) = world(&["alone", "app"], false);
    assert_eq!(told(&isolated(&snapshot, Some(&preferred), Isolation::Namespace)).0, ["alone", "app"]);
    // A package that the last content did not have, of the catalog that cannot be read.
    assert_eq!(told(&isolated(&snapshot, Some(&content(&[])), Isolation::Component)).0, Vec::<&str>::new());
    let (snapshot, _) = world(&["other"], false);
    assert_eq!(told(&isolated(&snapshot, Some(&content(&[])), Isolation::Component)).0, ["other"]);
}

/// OLM0-CAT-35, OLM0-RES-01: a catalog that does not count for the namespace holds nothing back.
#[test]
fn a_hidden_catalog() {
    let (mut snapshot, _) = world(&["alone"], false);
    snapshot.operator_groups[0].excludes_global = true;
    snapshot.catalogs[2].key.namespace = "team".to_owned();
    snapshot.subscriptions[0].catalog.namespace = "team".to_owned();
    assert_eq!(told(&isolated(&snapshot, None, Isolation::Component)).0, Vec::<&str>::new());
}
