//! What changed, and whom it strands.

use mainstay_catalog::Level;
use mainstay_catalog::diff::{Rule as Impact, diff};
use mainstay_catalog::lint::Placed;
use serde_json::{Value, json};

use crate::curators::builders::{bundle, changed, channel, entry, placed, sound};

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
