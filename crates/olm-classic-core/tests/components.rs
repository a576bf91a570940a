//! Failure stays with who causes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_olm_classic_core::cases;
use mainstay_olm_classic_core::properties::Property;
use mainstay_olm_classic_core::resolve::{
    Catalog, Content, OperatorGroup, RegistryBundle, Resolved, Snapshot, Subscription, resolve, resolve_components,
};
use mainstay_olm_classic_core::source::SourceKey;
use proptest::prelude::*;

fn names(resolved: &[Resolved]) -> BTreeSet<(String, String, String)> {
    resolved.iter().map(|one| (one.name.clone(), one.channel.clone(), one.catalog.to_string())).collect()
}

/// MS-EXPL-05: in every recorded world that upstream solves, the components together give the same bundles, and where it finds no solution
/// one of them has none.
#[test]
fn together_they_are_the_namespace() {
    let Some(lines) = mainstay_testing::data::json_lines("olm-classic/resolve.jsonl.gz") else { return };
    let (mut solved, mut apart) = (0, 0);
    for line in &lines {
        let snapshot = cases::snapshot(&line["input"]).unwrap();
        let components = resolve_components(&snapshot);
        match resolve(&snapshot) {
            Ok(whole) => {
                let parts: Vec<Resolved> = components.iter().flat_map(|one| one.outcome.as_ref().unwrap().clone()).collect();
                assert_eq!(names(&parts), names(&whole), "{}", line["id"]);
                solved += 1;
                apart += usize::from(components.len() > 1);
            }
            Err(error) => assert!(components.iter().any(|one| one.outcome.is_err()), "{}: {error}", line["id"]),
        }
    }
    assert!(solved > 250 && apart > 50, "{solved} solved, {apart} of more than one component");
}

fn bundle(package: &str, version: u8, replaces: bool, requires: Option<String>) -> RegistryBundle {
    let property = |kind: &str, value: String| Property { kind: kind.to_owned(), value };
    let mut properties = vec![property("olm.package", format!(r#"{{"packageName":"{package}","version":"{version}.0.0"}}"#))];
    properties.extend(
        requires.map(|package| property("olm.package.required", format!(r#"{{"packageName":"{package}","versionRange":">=1.0.0"}}"#))),
    );
    RegistryBundle {
        name: format!("{package}.v{version}"),
        package: package.to_owned(),
        version: format!("{version}.0.0"),
        channel: "stable".to_owned(),
        default_channel: true,
        replaces: if replaces { format!("{package}.v{}", version - 1) } else { String::new() },
        bundle_path: format!("registry/{package}:{version}"),
        properties,
        ..RegistryBundle::default()
    }
}

/// Packages with a few versions; a version may require a package, which may not exist.
fn world() -> impl Strategy<Value = Snapshot> {
    let package = prop::collection::vec(prop::option::weighted(0.4, 0..8_u8), 1..4);
    (prop::collection::vec(package, 1..6), prop::collection::btree_set(0..6_u8, 1..5)).prop_map(|(packages, subscribed)| {
        let mut bundles = Vec::new();
        for (at, versions) in packages.iter().enumerate() {
            for (version, requires) in (1_u8..).zip(versions) {
                bundles.push(bundle(&format!("p{at}"), version, version > 1, requires.map(|other| format!("p{other}"))));
            }
        }
        let key = SourceKey { name: "cat".to_owned(), namespace: "ns".to_owned() };
        let subscription = |at: u8| Subscription {
            name: format!("s{at}"),
            package: format!("p{at}"),
            channel: "stable".to_owned(),
            catalog: key.clone(),
            ..Subscription::default()
        };
        Snapshot {
            namespace: "ns".to_owned(),
            global_namespace: "global".to_owned(),
            operator_groups: vec![OperatorGroup { name: "og".to_owned(), ..OperatorGroup::default() }],
            subscriptions: subscribed.into_iter().map(subscription).collect(),
            catalogs: vec![Catalog { key, priority: 0, content: Ok(Arc::new(Content::of_registry(bundles.iter().cloned()))) }],
            csvs: Vec::new(),
        }
    })
}

/// OLM0-RES-13: a constraint that is longer than what is read is refused, with the number.
#[test]
fn long_constraints() {
    let mut long = bundle("a", 1, false, None);
    let value = format!(r#"{{"failureMessage":"{}","gvk":{{"group":"g","version":"v1","kind":"K"}}}}"#, "m".repeat(131_072));
    long.properties.push(Property { kind: "olm.constraint".to_owned(), value });
    let key = SourceKey { name: "cat".to_owned(), namespace: "ns".to_owned() };
    let subscription = Subscription { name: "s".to_owned(), package: "a".to_owned(), catalog: key.clone(), ..Subscription::default() };
    let world = Snapshot {
        namespace: "ns".to_owned(),
        operator_groups: vec![OperatorGroup::default()],
        subscriptions: vec![subscription],
        catalogs: vec![Catalog { key, priority: 0, content: Ok(Arc::new(Content::of_registry([long]))) }],
        ..Snapshot::default()
    };
    let told = "parse olm.constraint: olm.constraint value is greater than max constraint size 131072 bytes";
    assert_eq!(resolve(&world).unwrap_err().to_string(), told);
}

/// MS-EXPL-05: expressions that would keep a processor busy for hours end in an error for the subscriptions that need them; others get what they ask for.
#[test]
fn expensive_constraints() {
    let rule = "properties.all(a, properties.all(b, properties.all(c, a.type != b.type || b.type != c.type || true)))";
    let mut bundles = Vec::new();
    for at in 0..400 {
        let mut bundle = bundle(&format!("slow{at}"), 1, false, None);
        for more in 0..20 {
            bundle.properties.push(Property { kind: format!("p{more}"), value: "{}".to_owned() });
        }
        let value = format!(r#"{{"failureMessage":"m{at}","cel":{{"rule":"{rule}"}}}}"#);
        bundle.properties.push(Property { kind: "olm.constraint".to_owned(), value });
        bundles.push(bundle);
    }
    bundles.push(bundle("fine", 1, false, None));
    let key = SourceKey { name: "cat".to_owned(), namespace: "ns".to_owned() };
    let subscription = |package: &str| Subscription {
        name: package.to_owned(),
        package: package.to_owned(),
        catalog: key.clone(),
        ..Subscription::default()
    };
    let world = Snapshot {
        namespace: "ns".to_owned(),
        operator_groups: vec![OperatorGroup::default()],
        subscriptions: vec![subscription("slow0"), subscription("fine")],
        catalogs: vec![Catalog { key: key.clone(), priority: 0, content: Ok(Arc::new(Content::of_registry(bundles.iter().cloned()))) }],
        ..Snapshot::default()
    };
    // Every bundle meets the rule, so that the two would belong together; the one is given up before that is known.
    let told = resolve(&world).unwrap_err().to_string();
    assert_eq!(told, "the requirements in namespace ns take too much work to be decided");
    let components = resolve_components(&world);
    let outcome = |name: &str| &components.iter().find(|one| one.subscriptions.iter().any(|own| own == name)).unwrap().outcome;
    assert!(outcome("slow0").is_err());
    assert_eq!(outcome("fine").as_ref().map(Vec::len), Ok(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// MS-EXPL-05: a Subscription that cannot be met never changes what an unrelated one gets.
    #[test]
    fn nobody_else_is_stopped(world in world()) {
        let before = resolve_components(&world);
        let mut with = world.clone();
        with.subscriptions.push(Subscription { name: "a-bad-one".to_owned(), package: "none".to_owned(), ..with.subscriptions[0].clone() });
        let after = resolve_components(&with);
        prop_assert!(after.iter().any(|one| one.subscriptions == ["a-bad-one"] && one.outcome.is_err()));
        for component in before {
            let same = after.iter().find(|one| one.subscriptions == component.subscriptions);
            match (&component.outcome, same.map(|one| &one.outcome)) {
                (Ok(ours), Some(Ok(theirs))) => prop_assert_eq!(ours, theirs),
                (Err(ours), Some(Err(theirs))) => prop_assert_eq!(ours, theirs),
                (ours, theirs) => prop_assert!(false, "{:?} became {:?}", ours, theirs),
            }
        }
        // The namespace has an answer exactly if every component has one.
        let whole = resolve(&world);
        let parts: Result<Vec<_>, _> = resolve_components(&world).into_iter().map(|one| one.outcome).collect();
        prop_assert_eq!(whole.is_ok(), parts.is_ok());
        if let (Ok(whole), Ok(parts)) = (whole, parts) {
            prop_assert_eq!(names(&whole), names(&parts.concat()));
        }
    }
}
