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
