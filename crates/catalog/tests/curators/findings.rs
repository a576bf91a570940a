//! Each rule of `catalog lint`, and what a finding says.

use std::collections::BTreeSet;

use mainstay_catalog::lint::{Placed, Rule, compare_bundle, lint};
use serde_json::{Value, json};

use crate::curators::builders::{bundle, changed, channel, entry, placed, sound};

fn rules(placed: &Placed) -> Vec<&'static str> {
    lint(placed).iter().map(|finding| finding.rule.id()).collect()
}

/// A change of the sound catalog, and the rules that it breaks.
type Case = (fn(&mut Vec<Value>), &'static [&'static str]);

/// CATLG-13..21, CATLG-33, OLM0-BUNDLE-11, OLM0-BUNDLE-12, OLM1-FBC-07, OLM1-FBC-11: each rule finds what it is for, and nothing else.
#[test]
fn each_rule_finds_its_own() {
    assert_eq!(rules(&placed(&sound())), Vec::<&str>::new());
    let cases: &[Case] = &[
        (
            |c| c[1]["entries"] = json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "", &[], ""), entry("2.0.0", "1.1.0", &[], "")]),
            &["multiple-heads"],
        ),
        (
            |c| {
                c[1]["entries"] =
                    json!([entry("1.0.0", "2.0.0", &[], ""), entry("1.1.0", "1.0.0", &[], ""), entry("2.0.0", "1.1.0", &[], "")]);
            },
            &["no-head", "edge-backwards"],
        ),
        // 1.0.0 is skipped by 1.1.0, which nobody updates any more: valid, and a dead end.
        (
            |c| {
                c[1]["entries"] =
                    json!([entry("1.0.0", "1.1.0", &[], ""), entry("1.1.0", "", &["1.0.0"], ""), entry("2.0.0", "", &["1.5.0"], "")]);
                c[1]["entries"][2]["replaces"] = "p.v1.5.0".into();
                c[1]["entries"][1]["skips"] = json!(["p.v1.0.0", "p.v1.1.0"]);
            },
            &["unreachable", "unreachable", "edge-backwards"],
        ),
        (|c| c[1]["entries"][2]["skipRange"] = ">=3.0.0 <2.0.0".into(), &["skip-range-empty"]),
        (|c| c[1]["entries"][2]["skipRange"] = ">=1.5.0 <2.0.0".into(), &["skip-range-unmatched"]),
        (|c| c[1]["entries"][2]["skipRange"] = "<2.0.0".into(), &["skip-range-shadows"]),
        (|c| c[1]["entries"][1]["skipRange"] = ">=1.0.0".into(), &["skip-range-newer"]),
        (|c| c[1]["entries"][0]["replaces"] = "p.1.1.0".into(), &["misspelt-edge"]),
        (
            |c| {
                c.push(channel("stable-2", json!([entry("1.0.0", "", &[], ""), entry("2.0.0", "1.1.0", &["1.0.0"], "")])));
                c.push(channel(
                    "stable-3",
                    json!([entry("0.9.0", "", &[], ""), entry("1.0.0", "", &["0.9.0"], ""), entry("2.0.0", "1.1.0", &["1.0.0"], "")]),
                ));
                c.push(bundle("p", "0.9.0"));
            },
            &["replaces-outside"],
        ),
        (|c| c[0]["defaultChannel"] = "none".into(), &["default-channel-missing"]),
        (
            |c| {
                c[0]["defaultChannel"] = "alpha".into();
                c.push(channel("alpha", json!([entry("2.0.0", "", &[], "")])));
            },
            &["default-channel-unstable"],
        ),
        (
            |c| {
                c[0]["defaultChannel"] = "stable-1".into();
                c.push(channel("stable-1", json!([entry("1.0.0", "", &[], "")])));
            },
            &["default-channel-behind"],
        ),
        (
            |c| {
                c[0]["defaultChannel"] = "a b".into();
                c[1]["name"] = "a b".into();
            },
            &["channel-name"],
        ),
        (|c| c[0]["icon"] = Value::Null, &["icon-missing"]),
        (|c| c[0]["icon"]["base64data"] = "%".into(), &["icon-broken"]),
        (|c| c[0]["icon"]["mediatype"] = "image/png".into(), &["icon-media-type"]),
        (|c| c[4]["properties"][2]["value"]["description"] = "".into(), &["description-missing"]),
        (|c| c[4]["properties"][2]["value"]["displayName"] = "".into(), &["display-name-missing"]),
        (|c| c[4]["properties"][2]["value"]["provider"] = Value::Null, &["provider-missing"]),
        (|c| c[4]["properties"][2]["value"]["installModes"] = json!([]), &["install-modes-missing"]),
        (|c| c[4]["properties"][2]["value"]["annotations"]["capabilities"] = "Everything".into(), &["capability-level"]),
        (|c| c[4]["properties"][2]["value"]["annotations"]["categories"] = "".into(), &["category-missing"]),
        (|c| c[4]["properties"][2]["value"]["minKubeVersion"] = "v1.28".into(), &["min-kube-version"]),
        (|c| c[4]["properties"][2]["value"]["keywords"] = "thing".into(), &["invalid", "metadata-broken"]),
        (
            |c| {
                c[4]["properties"].as_array_mut().unwrap().pop();
            },
            &["metadata-missing"],
        ),
        (|c| c[2]["image"] = "registry.example/p:v1".into(), &["image-by-tag"]),
        (|c| c[2]["relatedImages"] = json!([]), &["related-images-missing"]),
        (|c| c[2]["relatedImages"][0]["image"] = "registry.example/x:1".into(), &["related-image-by-tag"]),
        (|c| c[2]["image"] = c[3]["image"].clone(), &["image-shared"]),
        (
            |c| {
                c[2]["properties"][1]["value"]["version"] = "1.0.1".into();
            },
            &["name-version"],
        ),
        (
            |c| c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.maxOpenShiftVersion", "value": 4.1})),
            &["max-openshift-version"],
        ),
        (
            |c| c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.maxOpenShiftVersion", "value": "soon"})),
            &["max-openshift-version"],
        ),
        (
            |c| c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.maxOpenshiftVersion", "value": "4.19"})),
            &["unknown-property"],
        ),
        (|c| c.push(json!({"schema": "olm.deprecation", "package": "p"})), &["unknown-schema"]),
        (
            |c| c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.bundle.object", "value": {"data": "e30="}})),
            &["bundle-object"],
        ),
        (
            |c| c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "example.com/pad", "value": "x".repeat(5 << 20)})),
            &["large-blob"],
        ),
        (
            |c| {
                c[2]["properties"]
                    .as_array_mut()
                    .unwrap()
                    .push(json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0"}}));
            },
            &["dependency-missing"],
        ),
        (
            |c| {
                let package = json!({"package": {"packageName": "p", "versionRange": "new"}});
                let constraint = json!({"type": "olm.constraint", "value": {"all": {"constraints": [package]}}});
                c[2]["properties"].as_array_mut().unwrap().push(constraint);
            },
            &["dependency-range"],
        ),
        (
            |c| {
                for (from, to) in [("q", "r"), ("r", "q")] {
                    c.push(json!({"schema": "olm.package", "name": from, "defaultChannel": "c", "icon": c[0]["icon"]}));
                    c.push(json!({"schema": "olm.channel", "package": from, "name": "c", "entries": [{"name": format!("{from}.v1.0.0")}]}));
                    let mut of = bundle(from, "1.0.0");
                    of["properties"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"type": "olm.package.required", "value": {"packageName": to, "versionRange": ">=1.0.0"}}));
                    c.push(of);
                }
            },
            &["dependency-cycle"],
        ),
        (
            |c| {
                c.push(json!({"schema": "olm.package", "name": "q", "defaultChannel": "c", "icon": c[0]["icon"]}));
                c.push(json!({"schema": "olm.channel", "package": "q", "name": "c", "entries": [{"name": "q.v1.0.0"}]}));
                let mut of = bundle("q", "1.0.0");
                of["properties"][0]["value"]["group"] = "p.example".into();
                c.push(of);
            },
            &["api-providers"],
        ),
        (|c| c.push(deprecated(&[("olm.bundle", "p.v2.0.0")])), &["deprecated-head"]),
        (|c| c.push(deprecated(&[("olm.channel", "stable")])), &["deprecated-all"]),
        (
            |c| {
                c.push(channel("other", json!([entry("2.0.0", "", &[], "")])));
                c.push(deprecated(&[("olm.channel", "stable")]));
            },
            &["deprecated-default"],
        ),
        (|c| c.push(deprecated(&[("olm.package", ""), ("olm.channel", "stable"), ("olm.bundle", "p.v2.0.0")])), &[]),
        (|c| c[2]["image"] = "not an image".into(), &["invalid", "image-by-tag"]),
    ];
    let mut wrong = Vec::new();
    for (number, (change, expected)) in cases.iter().enumerate() {
        let (mut found, mut expected) = (rules(&changed(change)), expected.to_vec());
        found.sort_unstable();
        expected.sort_unstable();
        if found != expected {
            wrong.push(format!("case {number}: {found:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn deprecated(references: &[(&str, &str)]) -> Value {
    let entries = references.iter().map(|(schema, name)| {
        let reference = if name.is_empty() { json!({"schema": schema}) } else { json!({"schema": schema, "name": name}) };
        json!({"reference": reference, "message": "gone"})
    });
    json!({"schema": "olm.deprecations", "package": "p", "entries": entries.collect::<Vec<_>>()})
}

/// Adds package `name` at 1.0.0, which provides the APIs `Thing` of these groups.
fn provider(blobs: &mut Vec<Value>, name: &str, groups: &[&str]) {
    blobs.push(json!({"schema": "olm.package", "name": name, "defaultChannel": "c", "icon": blobs[0]["icon"]}));
    blobs.push(json!({"schema": "olm.channel", "package": name, "name": "c", "entries": [{"name": format!("{name}.v1.0.0")}]}));
    let mut of = bundle(name, "1.0.0");
    for group in groups {
        let provided = json!({"type": "olm.gvk", "value": {"group": group, "version": "v1", "kind": "Thing"}});
        of["properties"].as_array_mut().unwrap().push(provided);
    }
    blobs.push(of);
}

fn package_dependency(range: &str) -> Value {
    json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": range}})
}

fn api_dependency() -> Value {
    json!({"type": "olm.gvk.required", "value": {"group": "q.example", "version": "v1", "kind": "Thing"}})
}

/// One `olm.constraint` with `all` of a package in a range and its API.
fn both(range: &str) -> Value {
    let (package, gvk) = (package_dependency(range)["value"].clone(), api_dependency()["value"].clone());
    json!({"type": "olm.constraint", "value": {"all": {"constraints": [{"package": package}, {"gvk": gvk}]}}})
}

/// OLM0-RES-30, OLM0-RES-31: how dependencies of the newest bundle are written; each row says rule, field and a part of the message.
#[test]
fn dependencies_are_advised_on() {
    type Row<'a> = (&'a str, Vec<Value>, Option<&'a Value>, &'a [(&'a str, &'a str, &'a str)]);
    let requires = json!({"required": [{"name": "things.q.example", "version": "v1", "kind": "Thing"}]});
    let two = json!({"type": "olm.constraint", "value": {"all": {"constraints": [
        {"package": {"packageName": "q", "versionRange": ">=1.0.0"}}, {"package": {"packageName": "r", "versionRange": ">=1.0.0"}}]}}});
    let either = json!({"type": "olm.constraint", "value": {"any": {"constraints": [
        {"package": {"packageName": "q", "versionRange": "<1.5.0"}}, {"package": {"packageName": "r", "versionRange": "1.0.0"}}]}}});
    let cel = json!({"type": "olm.constraint", "value": {"cel": {"rule": "true"}}});
    let rows: &[Row<'_>] = &[
        ("nothing needed", vec![], None, &[]),
        ("package with a minimum", vec![package_dependency(">=1.0.0")], None, &[]),
        ("a new major version ends it", vec![package_dependency(">=1.0.0 <2.0.0 !1.5.0")], None, &[]),
        (
            "narrow",
            vec![package_dependency(">=1.0.0 <1.5.0")],
            None,
            &[("dependency-range-narrow", "properties[3].value.versionRange", "ends at 1.5.0, inside of major version 1")],
        ),
        ("narrow inside of all", vec![both("1.0.0")], None, &[("dependency-range-narrow", "properties[3].value", "ends at 1.0.0")]),
        ("alternatives may be narrow", vec![either], None, &[]),
        (
            "API alone",
            vec![api_dependency()],
            None,
            &[("dependency-api-only", "properties[3].value", "here package q provides it, from \">=1.0.0\" on")],
        ),
        (
            "API and package apart",
            vec![package_dependency(">=1.0.0"), api_dependency()],
            None,
            &[("dependency-mixed", "properties[4].value", "another package with the API may satisfy the second")],
        ),
        ("API and package joined", vec![both(">=1.0.0")], None, &[]),
        ("two packages joined", vec![two], None, &[("dependency-all-packages", "properties[3].value", "packages q and r")]),
        (
            "required by the CSV only",
            vec![],
            Some(&requires),
            &[(
                "dependency-undeclared",
                "customResourceDefinitions.required[0]",
                "Thing.q.example/v1, which no dependency names; here q provides it",
            )],
        ),
        ("required, and the package named", vec![package_dependency(">=1.0.0")], Some(&requires), &[]),
        ("required, and both named", vec![both(">=1.0.0")], Some(&requires), &[]),
        ("required, and a rule decides", vec![cel], Some(&requires), &[]),
    ];
    for (name, dependencies, required, expected) in rows {
        let found = lint(&changed(|c| {
            provider(c, "q", &[]);
            provider(c, "r", &[]);
            c[4]["properties"].as_array_mut().unwrap().extend(dependencies.clone());
            if let Some(required) = required {
                c[4]["properties"][2]["value"]["customResourceDefinitions"] = (*required).clone();
            }
        }));
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for (finding, (rule, field, message)) in found.iter().zip(*expected) {
            assert_eq!((finding.rule.id(), finding.field.as_str(), finding.line), (*rule, *field, 5), "{name}");
            assert!(finding.message.contains(message), "{name}: {}", finding.message);
        }
    }
    // A second provider: it may be chosen for the API, and is named; which package is meant is no longer known.
    let with_two = |dependencies: Vec<Value>| {
        let found = lint(&changed(|c| {
            provider(c, "q", &[]);
            provider(c, "r", &["q.example"]);
            c[4]["properties"].as_array_mut().unwrap().extend(dependencies);
        }));
        found.into_iter().filter(|finding| finding.rule != Rule::ApiProviders).map(|finding| finding.message).collect::<Vec<_>>()
    };
    let mixed = "needs package q \">=1.0.0\" and, by another dependency, API Thing.q.example/v1 of it: r may satisfy the second";
    assert_eq!(with_two(vec![package_dependency(">=1.0.0"), api_dependency()]), [mixed]);
    assert_eq!(with_two(vec![api_dependency()]), Vec::<String>::new());
}

/// OLM0-RES-30: what several bundles have in common is reported once, at the newest.
#[test]
fn advice_about_several_bundles_is_given_once() {
    let found = lint(&changed(|c| {
        provider(c, "q", &[]);
        for at in [2, 4] {
            c[at]["properties"].as_array_mut().unwrap().push(package_dependency("1.0.0"));
        }
    }));
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.rule, finding.bundle.as_str()), (Rule::DependencyNarrow, "p.v2.0.0"));
    assert!(finding.message.ends_with("(so it is with 2 of 3 bundles; this is the newest)"), "{}", finding.message);
}

/// Findings name the line of the blob that is to be changed.
#[test]
fn findings_have_places() {
    let found = lint(&changed(|c| {
        c[0]["icon"] = Value::Null;
        c[3]["image"] = "registry.example/p:v1".into();
        c[1]["entries"][2]["skipRange"] = ">=3.0.0 <2.0.0".into();
    }));
    let places: BTreeSet<(&str, usize)> = found.iter().map(|finding| (finding.rule.id(), finding.line)).collect();
    assert_eq!(places, BTreeSet::from([("icon-missing", 1), ("skip-range-empty", 2), ("image-by-tag", 4)]));
    assert!(found.iter().all(|finding| finding.path == "index.json"));
}

/// Rules are found by name, and explained.
#[test]
fn rules_have_names() {
    let names: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    for rule in Rule::ALL {
        assert_eq!(Rule::named(rule.id()), Some(*rule));
        assert!(rule.why().ends_with('.') && !rule.fix().ends_with('.') && !rule.title().ends_with('.'), "{}", rule.id());
    }
}

/// CATLG-33: a blob that is not what its bundle renders to; manifests, metadata and a curator's own properties are no difference.
#[test]
fn blobs_beside_their_bundles() {
    let placed = changed(|c| {
        c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "example.com/ours", "value": 1}));
    });
    let said = &placed.catalog.bundles[0];
    let mut rendered = said.clone();
    rendered.image = String::new();
    rendered.properties.pop();
    assert_eq!(compare_bundle(&placed, said, Ok(&rendered)), None);
    rendered.related_images[0].image = "registry.example/other:v1".to_owned();
    let found = compare_bundle(&placed, said, Ok(&rendered)).unwrap();
    assert_eq!((found.rule, found.line), (Rule::BundleMismatch, 3));
    assert!(found.message.contains("the catalog lacks related image registry.example/other:v1 (operator)"), "{}", found.message);
    assert_eq!(compare_bundle(&placed, said, Err("it is gone")).unwrap().rule, Rule::BundleUnread);
}
