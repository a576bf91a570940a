//! Findings about catalogs as they are published, and as upstream refuses them.

use std::collections::BTreeSet;

use mainstay_catalog::lint::{Placed, Rule, lint};
use mainstay_catalog::{Level, Limits, MemorySource};
use mainstay_testing::data::{archive, bytes};

/// Catalogs that are published, and recorded as valid, have no errors; the findings that they have are true, looked at one by one.
#[test]
fn published_catalogs() {
    if let Some(bytes) = bytes("catalog-60.json.gz") {
        let placed = Placed::load(&MemorySource::of("catalog.json", bytes), &Limits::default()).unwrap();
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
    if let Some(files) = archive("real-fbc.tar.gz") {
        let catalogs = files.into_iter().filter(|(name, _)| name.starts_with("real-fbc/catalogs/"));
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
    let Some(files) = archive("catalog-invalid.tar.gz") else { return };
    for (name, bytes) in files {
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
