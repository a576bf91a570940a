//! What upstream's resolver answered, case by case.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use mainstay_catalog::{Catalog, Index, Limits, MemorySource, store};
use mainstay_resolver::{
    CandidateCatalog, CatalogState, InstalledBundle, ModelSource, PackageSource, Request, UpgradeConstraintPolicy, resolve,
};
use mainstay_testing::data;
use serde_json::Value;

fn request(case: &Value) -> Request {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Request {
        package: text(&case["package"]).unwrap(),
        channels: case["channels"].as_array().map(|list| list.iter().filter_map(text).collect()).unwrap_or_default(),
        version: text(&case["version"]),
        selector: None,
        policy: match case["upgradeConstraintPolicy"].as_str() {
            Some("SelfCertified") => UpgradeConstraintPolicy::SelfCertified,
            _ => UpgradeConstraintPolicy::CatalogProvided,
        },
        installed: case
            .get("installed")
            .map(|installed| InstalledBundle { name: text(&installed["name"]).unwrap(), version: text(&installed["version"]).unwrap() }),
    }
}

fn check(cases: &str, source: &dyn PackageSource) {
    let labels = BTreeMap::new();
    let catalogs = [CandidateCatalog { name: "catalog-60", labels: &labels, priority: 0, state: CatalogState::Content(source) }];
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in cases.lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let (found, expected) = match resolve(&request(&case), &catalogs) {
            Ok(resolution) => {
                assert!(!resolution.reasons.is_empty());
                assert!(resolution.deprecations.is_empty());
                let choice = resolution.choice;
                (
                    format!("{} {}", choice.bundle, choice.version),
                    format!("{} {}", case["resolvedBundle"], case["resolvedVersion"]).replace('"', ""),
                )
            }
            Err(refusal) => {
                // Whatever is hinted at leads to a bundle; the change itself is checked in scenarios.rs.
                assert!(refusal.hints.iter().all(|hint| hint.leads_to.is_some()), "{:?}", refusal.hints);
                (refusal.to_string(), case["error"].as_str().unwrap_or("no error").to_owned())
            }
        };
        if found != expected {
            wrong.push(format!("{line}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert_eq!(count, 168);
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// OLM1-SEL-01, OLM1-SEL-06, OLM1-SEL-09, OLM1-UPG-01, OLM1-UPG-04, OLM1-UPG-05, OLM1-UPG-08, OLM1-UPG-11, OLM1-INST-04: the same bundle or
/// the same words as upstream in all recorded cases, over the index and over the model.
#[test]
fn recorded_cases() {
    let (Some(cases), Some(bytes)) = (data::text("resolve-cases/cases.jsonl"), data::bytes("catalog-60.json.gz")) else { return };
    let files = MemorySource::of("catalog.json", bytes);
    let mut lines = Vec::new();
    let index = store(&files, &Limits::default(), &mut lines).unwrap();
    check(&cases, &Index::open(index, lines.len() as u64).unwrap());
    check(&cases, &ModelSource::new(Catalog::load(&files, &Limits::default()).unwrap()));
}
