//! What curators ask of catalogs: differences, findings, ways, searches, checks of a change.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use mainstay_catalog::ci::{self, Check};
use mainstay_catalog::diff::{Rule as Impact, diff};
use mainstay_catalog::lint::{Placed, Rule, compare_bundle, lint};
use mainstay_catalog::parts::Parts;
use mainstay_catalog::search::search;
use mainstay_catalog::why::{Question, WhyError, why};
use mainstay_catalog::{Level, Limits, MemorySource};
use serde_json::{Value, json};

fn data(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
    eprintln!("skipped: {} is not here", path.display());
    None
}

fn gunzip(path: &PathBuf) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn untar(path: &PathBuf) -> BTreeMap<String, Vec<u8>> {
    let bytes = gunzip(path);
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(name, content);
        }
    }
    files
}

fn placed(blobs: &[Value]) -> Placed {
    let text: String = blobs.iter().map(|blob| format!("{blob}\n")).collect();
    Placed::load(&MemorySource::of("index.json", text), &Limits::default()).unwrap()
}

const DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn bundle(package: &str, version: &str) -> Value {
    let modes = json!([{"type": "AllNamespaces", "supported": true}]);
    let metadata = json!({"displayName": package.to_uppercase(), "description": "Does things.", "provider": {"name": "Team"},
        "installModes": modes, "annotations": {"categories": "Database", "description": "Things, done"}, "keywords": ["thing"]});
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("registry.example/{package}-{version}@{DIGEST}"),
        "properties": [
            {"type": "olm.gvk", "value": {"group": format!("{package}.example"), "version": "v1", "kind": "Thing"}},
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
            {"type": "olm.csv.metadata", "value": metadata}],
        "relatedImages": [{"name": "operator", "image": format!("registry.example/operator@{DIGEST}")}]})
}

fn channel(name: &str, entries: Value) -> Value {
    json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries})
}

fn entry(version: &str, replaces: &str, skips: &[&str], range: &str) -> Value {
    let mut entry = json!({"name": format!("p.v{version}"), "skips": skips.iter().map(|v| format!("p.v{v}")).collect::<Vec<_>>()});
    if !replaces.is_empty() {
        entry["replaces"] = format!("p.v{replaces}").into();
    }
    if !range.is_empty() {
        entry["skipRange"] = range.into();
    }
    entry
}

/// Package `p`: one channel `stable` with these entries, and bundles 1.0.0, 1.1.0 and 2.0.0.
fn catalog(entries: Value) -> Vec<Value> {
    let icon = json!({"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"});
    vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable", "icon": icon}),
        channel("stable", entries),
        bundle("p", "1.0.0"),
        bundle("p", "1.1.0"),
        bundle("p", "2.0.0"),
    ]
}

fn sound() -> Vec<Value> {
    catalog(json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], ""), entry("2.0.0", "1.1.0", &[], "")]))
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> Placed {
    let mut blobs = sound();
    change(&mut blobs);
    placed(&blobs)
}

// ---- differences

type Impacts = Vec<(Impact, Option<String>)>;

fn impacts(new: &Placed) -> Impacts {
    let found = diff(&placed(&sound()).catalog, &new.catalog);
    found.findings.into_iter().map(|finding| (finding.rule, finding.bundle)).collect()
}

fn of(rule: Impact, version: &str) -> (Impact, Option<String>) {
    (rule, (!version.is_empty()).then(|| format!("p.v{version}")))
}

/// CATLG-34, CATLG-67, OLM1-BUILD-08, OLM1-FBC-17: what a change means for those who have a bundle installed.
#[test]
fn impact_of_changes() {
    let entries = |entries: Value| changed(|blobs| blobs[1]["entries"] = entries);
    assert_eq!(impacts(&changed(|_| {})), []);
    // A new head that everybody can get to.
    let grown = changed(|blobs| {
        blobs[1]["entries"].as_array_mut().unwrap().push(entry("2.1.0", "2.0.0", &[], ""));
        blobs.push(bundle("p", "2.1.0"));
    });
    assert_eq!(impacts(&grown), []);
    // The oldest is gone, and updated by nobody: the tail may not be cut without a word.
    let cut = changed(|blobs| {
        blobs[1]["entries"] = json!([entry("1.1.0", "", &[], ""), entry("2.0.0", "1.1.0", &[], "")]);
        blobs.remove(2);
    });
    assert_eq!(impacts(&cut), [of(Impact::Stranded, "1.0.0"), of(Impact::BundleRemoved, "1.0.0")]);
    // The same, but `replaces` still names it: whoever has it is updated.
    let kept = changed(|blobs| {
        blobs[1]["entries"] = json!([entry("1.1.0", "1.0.0", &[], ""), entry("2.0.0", "1.1.0", &[], "")]);
        blobs.remove(2);
    });
    assert_eq!(impacts(&kept), [of(Impact::BundleRemoved, "1.0.0")]);
    // Or a range covers it.
    let ranged = entries(json!([entry("1.1.0", "", &[], ""), entry("2.0.0", "1.1.0", &[], ">=1.0.0 <1.1.0")]));
    assert_eq!(impacts(&ranged), []);
    // The head is taken back.
    let back = entries(json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], "")]));
    assert_eq!(impacts(&back), [of(Impact::Stranded, "2.0.0"), of(Impact::HeadBack, "1.1.0")]);
    // A published bundle has another image.
    let moved = changed(|blobs| blobs[2]["image"] = "registry.example/p:other".into());
    assert_eq!(impacts(&moved), [of(Impact::BundleChanged, "1.0.0")]);
    // Keys in another order, skips in another order: the same.
    let reordered = changed(|blobs| {
        blobs[2]["properties"] = json!([
            {"value": {"version": "1.0.0", "packageName": "p"}, "type": "olm.package"}, blobs[2]["properties"][0], blobs[2]["properties"][2]]);
    });
    assert_eq!(impacts(&reordered), []);
    // The channel, the package.
    let renamed = changed(|blobs| {
        blobs[0]["defaultChannel"] = "fast".into();
        blobs[1]["name"] = "fast".into();
    });
    assert_eq!(impacts(&renamed), [of(Impact::ChannelRemoved, ""), of(Impact::DefaultChannelChanged, "")]);
    assert_eq!(impacts(&placed(&[])), [of(Impact::PackageRemoved, "")]);
}

/// CATLG-34: whoever is stranded is told of other channels, as far as they lead to their heads.
#[test]
fn stranded_bundles_have_ways_out() {
    let new = changed(|blobs| {
        blobs[1]["entries"] = json!([entry("2.0.0", "", &[], "")]);
        blobs.push(channel("eus", json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], "")])));
    });
    let found = diff(&placed(&sound()).catalog, &new.catalog);
    let hint = found.findings.iter().find(|finding| finding.bundle.as_deref() == Some("p.v1.0.0")).unwrap().hint.clone().unwrap();
    assert!(hint.ends_with("can change to channel eus"), "{hint}");
}

/// CATLG-67: manifests that became metadata are told from other changes.
#[test]
fn migration_is_no_change_of_content() {
    let old = changed(|blobs| {
        blobs[2]["properties"][2] = json!({"type": "olm.bundle.object", "value": {"data": "e30="}});
    });
    let found = diff(&old.catalog, &placed(&sound()).catalog);
    assert_eq!(found.findings.len(), 1);
    assert_eq!((found.findings[0].rule, found.findings[0].level), (Impact::BundleChanged, Level::Info));
}

/// CATLG-34: the difference names what changed, and its JSON is as documented.
#[test]
fn difference_as_json() {
    let new = changed(|blobs| {
        blobs[0]["description"] = "New".into();
        blobs[1]["entries"][2] = entry("2.0.0", "1.1.0", &["1.0.0"], ">=1.0.0 <2.0.0");
        blobs.push(json!({"schema": "olm.deprecations", "package": "p",
            "entries": [{"reference": {"schema": "olm.bundle", "name": "p.v1.0.0"}, "message": "old"}]}));
        blobs.push(json!({"schema": "example.com/x", "package": "p", "name": "n"}));
        blobs.push(json!({"schema": "example.com/y"}));
    });
    let found = serde_json::to_value(diff(&placed(&sound()).catalog, &new.catalog)).unwrap();
    assert_eq!(
        found,
        json!({
            "packages": [{
                "package": "p", "change": "changed",
                "fields": [{"field": "description", "new": "New"}],
                "channels": [{"channel": "stable", "change": "changed", "entries": [
                    {"bundle": "p.v2.0.0", "change": "changed", "skips": {"added": ["p.v1.0.0"]}, "skipRange": {"new": ">=1.0.0 <2.0.0"}}]}],
                "deprecations": [{"schema": "olm.bundle", "name": "p.v1.0.0", "change": "added", "message": {"new": "old"}}],
                "others": [{"schema": "example.com/x", "name": "n", "change": "added"}],
            }],
            "others": [{"schema": "example.com/y", "change": "added"}],
            "findings": [{"rule": "deprecated", "level": "info", "package": "p", "bundle": "p.v1.0.0", "message": "p.v1.0.0 is now deprecated: old"}],
        })
    );
}

// ---- findings

fn rules(placed: &Placed) -> Vec<&'static str> {
    lint(placed).iter().map(|finding| finding.rule.id()).collect()
}

/// A change of the sound catalog, and the rules that it breaks.
type Case = (fn(&mut Vec<Value>), &'static [&'static str]);

/// CATLG-13..21, CATLG-33, OLM0-BUNDLE-11: each rule finds what it is for, and nothing else.
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
                    json!([entry("1.0.0", "2.0.0", &[], ""), entry("1.1.0", "1.0.0", &[], ""), entry("2.0.0", "1.1.0", &[], "")])
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
                    .push(json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0"}}))
            },
            &["dependency-missing"],
        ),
        (
            |c| {
                c[2]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.constraint", "value": {"all": {"constraints": [{"package": {"packageName": "p", "versionRange": "new"}}]}}}))
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

/// Catalogs that are published, and recorded as valid, have no errors; the findings that they have are true, looked at one by one.
#[test]
fn published_catalogs() {
    if let Some(path) = data("catalog-60.json.gz") {
        let placed = Placed::load(&MemorySource::of("catalog.json", gunzip(&path)), &Limits::default()).unwrap();
        let found = lint(&placed);
        assert_eq!(found.iter().filter(|finding| finding.level == Level::Error).count(), 0);
        let of =
            |rule: Rule| found.iter().filter(|finding| finding.rule == rule).map(|finding| finding.package.as_str()).collect::<Vec<_>>();
        // An icon that begins with the bytes of a JPEG and says PNG.
        assert_eq!(of(Rule::IconMediaType), ["proactive-node-scaling-operator"]);
        assert_eq!(of(Rule::DefaultChannelUnstable), ["pulsar-resources-operator", "silicom-sts-operator"]);
        assert_eq!(of(Rule::SkipRangeNewer), ["machine-deletion-remediation", "node-maintenance-operator", "oadp-operator"]);
        assert!(found.iter().all(|finding| finding.line > 0 && finding.path == "catalog.json"));
    }
    if let Some(path) = data("real-fbc.tar.gz") {
        let catalogs = untar(&path).into_iter().filter(|(name, _)| name.starts_with("real-fbc/catalogs/"));
        let source = catalogs.fold(MemorySource::new(), |source, (name, bytes)| source.with(&name, bytes));
        let found = lint(&Placed::load(&source, &Limits::default()).unwrap());
        assert_eq!(found.iter().filter(|finding| finding.level == Level::Error).count(), 0);
        // 1.0.1-1 is a pre-release of 1.0.1, and replaces it.
        let backwards: Vec<&str> =
            found.iter().filter(|finding| finding.rule == Rule::EdgeBackwards).map(|finding| finding.bundle.as_str()).collect();
        assert_eq!(backwards, ["slurm-operator.v1.0.1-1"]);
    }
}

/// CATLG-25, CATLG-26: what upstream refuses in real packages is among the findings.
#[test]
fn refused_catalogs_have_errors() {
    let Some(path) = data("catalog-invalid.tar.gz") else { return };
    for (name, bytes) in untar(&path) {
        let Some(package) = name.strip_prefix("catalog-invalid/").and_then(|name| name.strip_suffix(".json")) else { continue };
        if package == "expected-validate-errors" {
            continue;
        }
        let found = lint(&Placed::load(&MemorySource::of("index.json", bytes), &Limits::default()).unwrap());
        let errors: BTreeSet<&str> =
            found.iter().filter(|finding| finding.level == Level::Error).map(|finding| finding.rule.id()).collect();
        let expected = match package {
            "aqua" | "gitlab-runner-operator" | "ncn-operator" => "stranded",
            "camel-k" | "shipwright-operator" => "multiple-heads",
            _ => "invalid",
        };
        assert_eq!(errors, BTreeSet::from([expected]), "{package}");
    }
}

// ---- ways

fn ask(blobs: &[Value], from: &str, to: Option<&str>, channels: &[&str]) -> Result<(Vec<String>, Vec<String>), WhyError> {
    let placed = placed(blobs);
    let channels: Vec<String> = channels.iter().map(|name| (*name).to_owned()).collect();
    let question = Question { package: "p", from, to, channels: &channels };
    let answer = why(&question, &Parts::by_package(&placed.catalog))?;
    assert_eq!(answer.reached, answer.channels.iter().any(|channel| channel.reached));
    let told = answer.channels.iter().map(|channel| {
        let way: Vec<&str> = channel.path.iter().map(|step| step.to.shown()).collect();
        if channel.reached {
            format!("{}: {}", channel.channel, way.join(" "))
        } else {
            format!("{}: {}", channel.channel, channel.reasons.join("; "))
        }
    });
    Ok((told.collect(), answer.hints))
}

/// OLM1-QUERY-02: ways, and why there is none; each hint was tried.
#[test]
fn ways_and_reasons() {
    let mut blobs = sound();
    blobs[1]["entries"][1]["skipRange"] = ">=0.5.0 <1.0.0".into();
    blobs.push(channel("eus", json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], "")])));
    blobs.push(channel("new", json!([entry("2.0.0", "", &[], "")])));
    let way = |from, to, channels: &[&str]| ask(&blobs, from, to, channels).unwrap();
    assert_eq!(way("1.0.0", Some("2.0.0"), &[]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("p.v1.0.0", None, &["stable"]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("0.7.0", Some("p.v2.0.0"), &["stable"]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("2.0.0", None, &["stable"]).0, ["stable: "]);
    let (told, hints) = way("1.0.0", Some("2.0.0"), &["new"]);
    assert_eq!(
        told,
        [
            "new: p.v2.0.0 replaces nothing; p.v2.0.0 has no skipRange; no entry of the channel updates p.v1.0.0, which is not in the channel"
        ]
    );
    assert_eq!(hints, ["channel stable leads from p.v1.0.0 to p.v2.0.0"]);
    let (told, hints) = way("2.0.0", Some("1.1.0"), &["stable"]);
    assert!(told[0].starts_with("stable: p.v1.1.0 is not newer than p.v2.0.0; updates go upwards"), "{told:?}");
    assert_eq!(hints, Vec::<String>::new());
    let (told, hints) = way("0.1.0", Some("2.0.0"), &["stable"]);
    assert!(told[0].contains("p.v2.0.0 replaces p.v1.1.0, which can not be reached either"), "{told:?}");
    assert_eq!(hints, ["from p.v1.0.0 channel stable leads to p.v2.0.0"]);
    // Two channels, one after the other.
    blobs[1]["entries"] = json!([entry("1.1.0", "", &[], ""), entry("2.0.0", "1.1.0", &[], "")]);
    let (_, hints) = ask(&blobs, "1.0.0", Some("2.0.0"), &[]).unwrap();
    assert_eq!(hints, ["channel eus leads from p.v1.0.0 to p.v1.1.0, and channel stable from there to p.v2.0.0"]);
    assert!(matches!(ask(&blobs, "p.v1.0.O", None, &[]), Err(WhyError::NoBundle { near: Some(near), .. }) if near == "p.v1.0.0"));
    assert!(matches!(ask(&blobs, "1.0.0", None, &["fast"]), Err(WhyError::NoChannel { .. })));
}

// ---- searches

/// MS-CLI-05: packages are found by what they provide and say, the best fit first; every word counts.
#[test]
fn searches() {
    let placed = changed(|c| {
        c.push(json!({"schema": "olm.package", "name": "things", "defaultChannel": "c"}));
        c.push(json!({"schema": "olm.channel", "package": "things", "name": "c", "entries": [{"name": "things.v1.0.0"}]}));
        let mut of = bundle("things", "1.0.0");
        of["properties"][0]["value"]["kind"] = "Kafka".into();
        c.push(of);
    });
    let packages = Parts::by_package(&placed.catalog);
    let names = |text: &str| search(&packages, text).into_iter().map(|found| found.package).collect::<Vec<_>>();
    assert_eq!(names(""), ["p", "things"]);
    assert_eq!(names("kafka"), ["things"]);
    assert_eq!(names("thing"), ["p", "things"]);
    assert_eq!(names("things"), ["things", "p"]);
    assert_eq!(names("database kafka"), ["things"]);
    assert_eq!(names("database nothing"), Vec::<String>::new());
    let found = serde_json::to_value(search(&packages, "kafka")).unwrap();
    assert_eq!(found[0]["matches"], json!([{"field": "kind", "value": "Kafka"}]));
    assert_eq!(found[0]["version"], "1.0.0");
}

// ---- checks of a change

/// CATLG-69, CATLG-67, OLM1-FBC-18: the checks of a change, each with what it is for.
#[test]
fn checks_of_a_change() {
    let failed = |new: &Placed, allowed: &[&str]| {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let (report, _) = ci::check(&placed(&sound()), new, Some(&allowed));
        assert_eq!(report.passed, report.checks.iter().all(|outcome| outcome.passed));
        report.checks.into_iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.check).collect::<Vec<_>>()
    };
    let grown = changed(|c| {
        c[1]["entries"].as_array_mut().unwrap().push(entry("2.1.0", "2.0.0", &[], ""));
        c.push(bundle("p", "2.1.0"));
    });
    assert_eq!(failed(&grown, &["p"]), []);
    assert_eq!(failed(&grown, &["q"]), [Check::Packages]);
    let (_, difference) = ci::check(&placed(&sound()), &grown, None);
    assert_eq!(ci::images(&difference).into_values().collect::<Vec<_>>(), [("p", "p.v2.1.0")]);
    assert_eq!(failed(&changed(|c| c[2]["image"] = "registry.example/p:v1".into()), &["p"]), [Check::Immutable]);
    assert_eq!(failed(&changed(|c| c[1]["entries"] = json!([entry("2.0.0", "1.1.0", &[], "")])), &["p"]), [Check::Valid, Check::Updates]);
    assert_eq!(failed(&changed(|c| c[0]["defaultChannel"] = "x".into()), &["p"]), [Check::Lint]);
    assert_eq!(failed(&changed(|c| c.push(json!({"schema": "example.com/x"}))), &["p"]), [Check::Packages]);
}
