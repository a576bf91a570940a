//! Catalogs as they are published, and upstream's recorded verdicts on broken ones.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use mainstay_catalog::{
    Catalog, Extent, Format, Index, Limits, MemorySource, MetaQuery, Part, Source, load, render, render_parts, store, validate,
    validate_source,
};
use mainstay_testing::data::{archive, bytes};
use serde_json::Value;

/// A tree of text as nested sets, because upstream leaves the order of siblings open.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node(String, Vec<Node>);

fn tree(text: &str) -> Node {
    fn depth(line: &str) -> usize {
        line.chars().take_while(|c| " │├└─".contains(*c)).count() / 4
    }
    fn children(lines: &[&str], at: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut i = 0;
        while i < lines.len() {
            let end = (i + 1..lines.len()).find(|j| depth(lines[*j]) <= at).unwrap_or(lines.len());
            let label = lines[i].trim_start_matches([' ', '│', '├', '└', '─']).to_owned();
            nodes.push(Node(label, children(&lines[i + 1..end], at + 1)));
            i = end;
        }
        nodes.sort();
        nodes
    }
    let lines: Vec<&str> = text.lines().collect();
    Node(lines[0].to_owned(), children(&lines[1..], 1))
}

/// OLM1-FBC-20, CATLG-22, CATLG-23, CATLG-25, CATLG-26: the verdict on each broken catalog is upstream's, word for word.
#[test]
fn broken_catalogs_are_refused_in_upstreams_words() {
    let Some(files) = archive("catalog-invalid.tar.gz") else { return };
    let expected: BTreeMap<String, String> = serde_json::from_slice(&files["catalog-invalid/expected-validate-errors.json"]).unwrap();
    assert_eq!(expected.len(), 8);
    for (package, text) in expected {
        let source = MemorySource::of("index.json", files[&format!("catalog-invalid/{package}.json")].clone());
        let catalog = Catalog::load(&source, &Limits::default()).unwrap();
        let found = validate(&catalog).expect_err(&package).to_string();
        assert_eq!(tree(&found), tree(&text), "{package}:\n{found}");
    }
}

/// OLM1-FBC-02, OLM1-FBC-20, OLM1-CAT-07: the large catalog loads, is valid, and its lines are canonical.
#[test]
fn large_catalog_loads_and_is_valid() {
    let Some(bytes) = bytes("catalog-60.json.gz") else { return };
    let source = MemorySource::of("catalog.json", bytes.clone());
    let catalog = Catalog::load(&source, &Limits::default()).unwrap();
    assert_eq!((catalog.packages.len(), catalog.channels.len(), catalog.bundles.len()), (60, 92, 707));
    validate(&catalog).unwrap();
    let mut lines = Vec::new();
    store(&source, &Limits::default(), &mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let originals = String::from_utf8(bytes).unwrap();
    assert_eq!(lines.lines().count(), 859);
    for (line, original) in lines.lines().zip(originals.lines()) {
        assert_eq!(line, serde_json::from_str::<Value>(original).unwrap().to_string());
    }
}

/// OLM1-FBC-02, OLM1-FBC-04: twenty published catalogs load one by one and together as one composed catalog, and stay valid.
#[test]
fn published_catalogs_compose() {
    let Some(files) = archive("real-fbc.tar.gz") else { return };
    let mut whole = MemorySource::new();
    let mut packages = 0;
    for (name, content) in files {
        let Some(below) = name.strip_prefix("real-fbc/catalogs/v4.19/") else { continue };
        let single = MemorySource::of(below, content.clone());
        let catalog = Catalog::load(&single, &Limits::default()).unwrap();
        validate(&catalog).unwrap_or_else(|error| panic!("{below}: {error}"));
        packages += catalog.packages.len();
        whole = whole.with(below, content);
    }
    assert_eq!(packages, 20);
    let catalog = Catalog::load(&whole, &Limits::default()).unwrap();
    validate(&catalog).unwrap();
    assert_eq!(catalog.packages.len(), 20);
}

/// OLM1-BUILD-04, OLM1-QUERY-01, CATLG-10: what is rendered as JSON or YAML loads again as the same catalog.
#[test]
fn rendering_keeps_the_catalog() {
    let Some(files) = archive("real-fbc.tar.gz") else { return };
    for (name, content) in files.into_iter().filter(|(name, _)| name.contains("/catalogs/")).take(6) {
        let source = MemorySource::of("catalog.yaml", content);
        let catalog = Catalog::load(&source, &Limits::default()).unwrap();
        let mut texts = Vec::new();
        for format in [Format::Json, Format::Yaml, Format::JsonLines] {
            let mut text = Vec::new();
            render(&catalog, format, &mut text).unwrap();
            let again = Catalog::load(&MemorySource::of("x", text), &Limits::default()).unwrap();
            let mut lines = Vec::new();
            render(&again, Format::JsonLines, &mut lines).unwrap();
            texts.push(lines);
        }
        assert!(texts.windows(2).all(|pair| pair[0] == pair[1]), "{name}");
    }
}

/// CATLG-10, CATLG-22, CATLG-32: published catalogs, streamed from their files, give the same text as their model, render to themselves,
/// and are valid.
#[test]
fn streaming_published_catalogs() {
    let (Some(large), Some(published)) = (bytes("catalog-60.json.gz"), archive("real-fbc.tar.gz")) else { return };
    let yaml = published.into_iter().filter(|(name, _)| name.contains("/catalogs/"));
    let yaml = yaml.fold(MemorySource::new(), |source, (name, content)| source.with(&name, content));
    for source in [MemorySource::of("catalog.json", large), yaml] {
        validate_source(&source, &Limits::default(), Extent::Everything).unwrap();
        let mut model = Vec::new();
        render(&Catalog::load(&source, &Limits::default()).unwrap(), Format::Json, &mut model).unwrap();
        let again = MemorySource::of("again.json", model.clone());
        for source in [&source, &again] {
            let mut text = Vec::new();
            render_parts(&[Part::Source(source)], &Limits::default(), Format::Json, &mut text).unwrap();
            assert!(text == model);
        }
    }
}

/// OLM1-CAT-17, OLM1-QUERY-02: every query over the index gives the lines that a scan of all lines gives.
#[test]
fn index_answers_as_a_scan_does() {
    let Some(bytes) = bytes("catalog-60.json.gz") else { return };
    let source = MemorySource::of("catalog.json", bytes);
    let mut lines = Vec::new();
    let bytes = store(&source, &Limits::default(), &mut lines).unwrap();
    let index = Index::open(bytes, lines.len() as u64).unwrap();
    let text = String::from_utf8(lines).unwrap();
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let some = |text: &str| Some(text.to_owned());
    let queries = [
        MetaQuery::default(),
        MetaQuery { schema: some("olm.package"), ..MetaQuery::default() },
        MetaQuery { schema: some("olm.package"), name: some("keda"), ..MetaQuery::default() },
        MetaQuery { package: some("keda"), ..MetaQuery::default() },
        MetaQuery { schema: some("olm.channel"), package: some("keda"), ..MetaQuery::default() },
        MetaQuery { schema: some("olm.bundle"), name: some("keda.v2.1.0"), ..MetaQuery::default() },
        MetaQuery { schema: some("none"), ..MetaQuery::default() },
    ];
    for query in queries {
        let agrees = |value: &Value, key: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| value.get(key).and_then(Value::as_str).unwrap_or("") == wanted)
        };
        let scanned: Vec<String> = values
            .iter()
            .filter(|v| agrees(v, "schema", &query.schema) && agrees(v, "package", &query.package) && agrees(v, "name", &query.name))
            .map(Value::to_string)
            .collect();
        let found: Vec<&str> = index.metas(&query).map(|range| &text[range.start as usize..range.end as usize]).collect();
        assert_eq!(found, scanned, "{query:?}");
    }
}

/// OLM1-QUERY-02: packages, channels, heads and bundles in the index agree with the model.
#[test]
fn index_agrees_with_the_model() {
    let Some(bytes) = bytes("catalog-60.json.gz") else { return };
    let source = MemorySource::of("catalog.json", bytes);
    let catalog = Catalog::load(&source, &Limits::default()).unwrap();
    let versions = catalog.versions();
    let mut lines = Vec::new();
    let index = store(&source, &Limits::default(), &mut lines).unwrap();
    let index = Index::open(index, lines.len() as u64).unwrap();
    assert_eq!(index.packages().len(), 60);
    for package in &catalog.packages {
        let name = package.name.as_str();
        let view = index.package(name).unwrap();
        assert_eq!(view.default_channel(), Some(package.default_channel.as_str()));
        assert!(view.channel(package.default_channel.as_str()).unwrap().head().is_some(), "{name}");
        let mut from_model = catalog.package_facts(name, &versions).unwrap();
        let mut from_index = index.package_facts(name).unwrap();
        for facts in [&mut from_model, &mut from_index] {
            facts.channels.sort_by_key(|channel| channel.name);
            facts.bundles.sort_by_key(|bundle| bundle.name);
        }
        assert_eq!(format!("{from_model:?}"), format!("{from_index:?}"));
    }
    assert!(index.package("no-such-package").is_none());
    assert_eq!(index.search("KEDA")[0].name(), "keda");
    assert!(index.search("no such thing anywhere").is_empty());
}

/// OLM1-FBC-02: the order of files and their number do not change what is loaded.
#[test]
fn loading_streams_blobs_in_path_order() {
    let Some(files) = archive("real-fbc.tar.gz") else { return };
    let mut source = MemorySource::new();
    for (name, content) in files.into_iter().filter(|(name, _)| name.contains("/catalogs/")) {
        source = source.with(&name, content);
    }
    let mut seen: Vec<String> = Vec::new();
    load(&source, &Limits::default(), &mut |blob| {
        seen.push(blob.path.to_owned());
        Ok(())
    })
    .unwrap();
    seen.dedup();
    assert_eq!(seen.len(), source.paths().unwrap().len());
}
