//! What curators write and name: selections, compositions, and whole catalogs that they look at.

use mainstay_catalog::compose::Composition;
use mainstay_catalog::diff::diff;
use mainstay_catalog::filter::{Choice, Dependencies, Selection, filter};
use mainstay_catalog::lint::{Placed, lint};
use mainstay_catalog::parts::Parts;
use mainstay_catalog::search::search;
use mainstay_catalog::why::{Question, why};
use mainstay_catalog::{Limits, MemorySource, validate};

/// Configuration files and selections are read or refused.
pub(crate) fn selections(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(choice) = text.parse::<Choice>() {
        assert!(!choice.package.is_empty());
    }
    if let Ok(composition) = Composition::from_yaml(text) {
        let safe = |name: &str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        assert!(safe(&composition.name) && composition.references.iter().all(|part| safe(&part.name)));
    }
    // Whether it can be read is all there is to a selection.
    let _read = Selection::from_yaml(text);
}

pub(crate) fn selection_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "beacon:stable,candidate@>=1.0.0 <2.0.0",
        "withDependencies: true\npackages:\n- {name: p, channels: [{name: c, minVersion: 1.0.0}], keepPathFrom: [0.9.0]}\n",
        "name: team\nrepo: r\ntag: t\nreferences:\n- {name: a, image: i}\n",
    ];
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

/// A catalog, however broken, can be looked at; what is filtered from it is valid, and a catalog is the same as itself.
pub(crate) fn looks(bytes: &[u8]) {
    let source = MemorySource::of("index.json", bytes);
    let limits = Limits { blobs: 200, ..Limits::default() };
    let Ok(placed) = Placed::load(&source, &limits) else { return };
    let catalog = &placed.catalog;
    for finding in lint(&placed) {
        assert!(!finding.message.is_empty());
    }
    let same = diff(catalog, catalog);
    assert!(same.is_empty() && same.findings.is_empty());
    let packages = Parts::by_package(catalog);
    assert_eq!(search(&packages, "").len(), packages.len());
    for (name, parts) in &packages {
        let choice = Choice { package: (*name).to_owned(), ..Choice::default() };
        if let Ok(filtered) = filter(catalog, &Selection { packages: vec![choice], dependencies: Dependencies::Include }) {
            assert!(validate(&filtered.catalog).is_ok());
        }
        for bundle in parts.bundles.iter().take(8) {
            let question = Question { package: name, from: bundle.name.as_str(), to: None, channels: &[] };
            assert!(why(&question, &packages).is_ok());
        }
    }
}

pub(crate) fn look_seeds() -> Vec<Vec<u8>> {
    let valid = r#"{"schema":"olm.package","name":"p","defaultChannel":"c","icon":{"base64data":"PHN2Zy8+","mediatype":"image/svg+xml"}}
{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.0.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0","skips":["p.v1.0.1"],"skipRange":">=0.9.0 <1.1.0"}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.0.0","image":"r/p:1","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"p","name":"p.v1.1.0","image":"r/p:2","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.0"}},{"type":"olm.constraint","value":{"all":{"constraints":[{"package":{"packageName":"q","versionRange":">1.0.0"}}]}}},{"type":"olm.gvk","value":{"group":"g","version":"v1","kind":"K"}}]}
{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.channel","name":"c"},"message":"m"}]}
"#;
    let circle = r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"a","replaces":"b","skips":["a"]},{"name":"b","replaces":"a"},{"name":"a"}]}{"schema":"olm.bundle","package":"p","name":"a"}"#;
    [valid, circle].iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
