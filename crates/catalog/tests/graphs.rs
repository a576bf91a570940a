//! Update graphs: upstream's drawings byte for byte, edges and ways against slow definitions, pictures of real packages.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use mainstay_catalog::graph::{Mermaid, Start, StartState, UpdateGraph, V0Semantics, mermaid, picture};
use mainstay_catalog::{BundleFacts, Catalog, ChannelFacts, EntryFacts, Limits, MemorySource, PackageFacts};
use mainstay_graph::{Mark, TextStyle, svg, text};
use mainstay_versions::{CatalogRange, Version};
use proptest::prelude::*;

fn load(json: &[u8]) -> Catalog {
    Catalog::load(&MemorySource::of("catalog.json", json), &Limits::default()).unwrap()
}

fn catalog_60() -> Option<Catalog> {
    Some(load(&mainstay_testing::data::bytes("catalog-60.json.gz")?))
}

fn marked<'a>(package: Option<&'a str>, minimum_edge: Option<&'a str>) -> Mermaid<'a> {
    Mermaid { package, minimum_edge, semantics: V0Semantics::Marked }
}

/// CATLG-49, CATLG-50: a catalog of ours with what goes wrong in catalogs, and what `opm alpha render-graph` v1.65.0 made of it: channels
/// of one name in many packages, quotes in names, heads beyond one, a range that is none, entries without bundles, deprecations.
#[test]
fn upstreams_drawing_of_a_difficult_catalog() {
    let catalog = load(include_bytes!("data/render-graph/catalog.json"));
    let drawing = mermaid(&catalog, &marked(None, None)).unwrap();
    assert_eq!(drawing.text, include_str!("data/render-graph/marked.mmd"));
    let ignored =
        "warning: ignoring invalid SkipRange for package/edge \"op-5\"/\"op-5.v1.1.1\": Could not get version from string: \"not\"";
    assert!(!drawing.warnings.is_empty() && drawing.warnings.iter().all(|warning| warning == ignored), "{:?}", drawing.warnings);
    let plain = |package, minimum_edge| mermaid(&catalog, &Mermaid { package, minimum_edge, semantics: V0Semantics::Plain }).unwrap().text;
    assert_eq!(plain(Some("op-7"), None), include_str!("data/render-graph/op-7.mmd"));
    assert_eq!(plain(None, Some("op-5.v1.2.0")), include_str!("data/render-graph/from-op-5.mmd"));
}

/// CATLG-49: the real catalog, whole and in parts. The table has package, minimum edge, and length and CRC-32 of what `opm` v1.65.0 wrote.
#[test]
fn upstreams_drawing_of_a_real_catalog() {
    let Some(catalog) = catalog_60() else { return };
    let table = include_str!("data/render-graph/catalog-60.txt");
    assert!(table.lines().count() > 30);
    for line in table.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[package, edge, semantics, length, sum] = words.as_slice() else { panic!("{line}") };
        let some = |text: &'static str| (text != "-").then_some(text);
        let semantics = if semantics == "marked" { V0Semantics::Marked } else { V0Semantics::Plain };
        let drawn = mermaid(&catalog, &Mermaid { package: some(package), minimum_edge: some(edge), semantics }).unwrap().text;
        assert_eq!((drawn.len().to_string().as_str(), crc32fast::hash(drawn.as_bytes()).to_string().as_str()), (length, sum), "{line}");
    }
}

/// CATLG-49: what cannot be drawn, in upstream's words.
#[test]
fn upstreams_refusals() {
    let bundle = |properties: &str| {
        load(format!(r#"{{"schema":"olm.bundle","package":"p","name":"p.v1","image":"x","properties":[{properties}]}}"#).as_bytes())
    };
    let of = |value: &str| format!(r#"{{"type":"olm.package","value":{value}}}"#);
    let good = of(r#"{"packageName":"p","version":"1.0.0"}"#);
    for (properties, expected) in [
        (String::new(), "bundle \"p.v1\" has multiple \"olm.package\" properties, expected exactly 1"),
        (format!("{good},{good}"), "bundle \"p.v1\" has multiple \"olm.package\" properties, expected exactly 1"),
        (of(r#"{"version":"1.0"}"#), "bundle \"p.v1\" has invalid version \"1.0\": No Major.Minor.Patch elements found"),
        (
            of(r#"{"version":1}"#),
            "parse properties for bundle \"p.v1\": parse property[0] of type \"olm.package\": json: cannot unmarshal number into Go struct \
             field Package.version of type string",
        ),
        (
            format!(r#"{{"type":"olm.gvk","value":"x"}},{good}"#),
            "parse properties for bundle \"p.v1\": parse property[0] of type \"olm.gvk\": json: cannot unmarshal string into Go value of type \
             property.GVK",
        ),
    ] {
        assert_eq!(mermaid(&bundle(&properties), &Mermaid::default()).unwrap_err().to_string(), expected);
    }
    let unknown = mermaid(&bundle(&good), &marked(None, Some("p.v2"))).unwrap_err();
    assert_eq!(unknown.to_string(), "unknown minimum edge name: \"p.v2\"");
}

/// MS-EXPL-03, OLM1-QUERY-02: every package of the real catalog can be drawn; each entry of a channel is one box and one row, and what is
/// called reachable is.
#[test]
fn every_real_package_can_be_drawn() {
    let Some(catalog) = catalog_60() else { return };
    let versions = catalog.versions();
    for package in &catalog.packages {
        let facts = catalog.package_facts(package.name.as_str(), &versions).unwrap();
        let lowest = facts.bundles.iter().min_by_key(|bundle| bundle.version.and_then(|version| Version::parse(version).ok())).unwrap();
        let version = lowest.version.and_then(|version| Version::parse(version).ok());
        let start = Start { bundle: lowest.name.to_owned(), version, state: StartState::Installed };
        let graph = UpdateGraph::new(&facts, &[], Some(start)).unwrap();
        let drawn = picture(&graph, None);
        assert_eq!(drawn.panels.len(), facts.channels.len());
        for (channel, panel) in graph.channels.iter().zip(&drawn.panels) {
            let entries = &facts.channels.iter().find(|facts| facts.name == channel.name).unwrap().entries;
            let here: BTreeSet<&str> =
                panel.nodes.iter().filter(|node| !node.marks.has(Mark::Elsewhere)).map(|node| node.id.as_str()).collect();
            assert_eq!(here, entries.iter().map(|entry| entry.name).collect(), "{}", channel.name);
            assert_eq!(channel.heads().count(), 1, "{} {}", package.name, channel.name);
        }
        let boxes: usize = drawn.panels.iter().map(|panel| panel.nodes.len()).sum();
        assert_eq!(svg(&drawn).unwrap().matches("class=\"card\"").count(), boxes);
        let rows = text(&drawn, &TextStyle { width: 500, ..TextStyle::default() }).unwrap();
        assert_eq!(
            rows.lines()
                .filter(|line| line.starts_with(" \u{25cf}") || line.starts_with(" \u{25c9}") || line.starts_with(" \u{25cc}"))
                .count(),
            boxes
        );
        let ways = graph.paths();
        for node in graph.channels.iter().flat_map(|channel| &channel.nodes) {
            if let Some(path) = ways.path(&node.name) {
                assert_eq!(path.len(), ways.steps(&node.name).unwrap() + 1);
                assert_eq!((path.first(), path.last()), (Some(&lowest.name), Some(&node.name.as_str())));
            }
        }
    }
}

/// A channel by its parts: for each version from 1 on whom it replaces and skips, and the lowest version of its range.
type Parts = Vec<(Option<usize>, Vec<usize>, Option<usize>)>;

fn name(version: usize) -> String {
    format!("p.v{version}.0.0")
}

fn parts() -> impl Strategy<Value = Parts> {
    (1..8_usize).prop_flat_map(|count| {
        let any = || 0..count + 2;
        prop::collection::vec((prop::option::of(any()), prop::collection::vec(any(), 0..3), prop::option::of(any())), count)
    })
}

proptest! {
    /// MS-EXPL-03, OLM1-UPG-05..07: edges are those of the definition asked pair by pair; ways are as short as repeated steps find.
    #[test]
    fn edges_and_ways(parts in parts(), start in 0..8_usize) {
        let names: Vec<String> = (0..parts.len() + 2).map(name).collect();
        let versions: Vec<String> = (0..parts.len() + 2).map(|version| format!("{version}.0.0")).collect();
        let ranges: Vec<Option<String>> = parts.iter().enumerate().map(|(at, (_, _, from))| from.map(|from| format!(">={from}.0.0 <{}.0.0", at + 1))).collect();
        let entries: Vec<EntryFacts<'_>> = parts
            .iter()
            .zip(&ranges)
            .enumerate()
            .map(|(at, ((replaces, skips, _), range))| EntryFacts {
                name: &names[at + 1],
                replaces: replaces.map(|of| names[of].as_str()),
                skips: skips.iter().map(|of| names[*of].as_str()).collect(),
                skip_range: range.as_deref(),
            })
            .collect();
        let bundles: Vec<BundleFacts<'_>> = (1..=parts.len())
            .map(|at| BundleFacts { name: &names[at], version: Some(&versions[at]), ..BundleFacts::default() })
            .collect();
        let channel = ChannelFacts { name: "stable", deprecation: None, entries };
        let facts = PackageFacts { name: "p", channels: vec![channel], bundles, ..PackageFacts::default() };
        let begin = Start { bundle: name(start), version: Version::parse(&format!("{start}.0.0")).ok(), state: StartState::Asked };
        let graph = UpdateGraph::new(&facts, &[], Some(begin)).unwrap();
        let drawn = &graph.channels[0];

        let found: BTreeSet<(String, String, String)> = drawn.edges.iter()
            .map(|edge| (drawn.nodes[edge.from].name.clone(), drawn.nodes[edge.to].name.clone(), edge.kind.field().to_owned())).collect();
        let mut expected = BTreeSet::new();
        for entry in &facts.channels[0].entries {
            for node in drawn.nodes.iter().filter(|node| node.name != entry.name) {
                let mut add = |field: &str| expected.insert((node.name.clone(), entry.name.to_owned(), field.to_owned()));
                if entry.replaces == Some(&node.name) { add("replaces"); }
                if entry.skips.contains(&node.name.as_str()) { add("skips"); }
                let range = entry.skip_range.and_then(|range| CatalogRange::parse(range).ok());
                if range.zip(node.version.as_ref()).is_some_and(|(range, version)| range.matches(version)) { add("skipRange"); }
            }
        }
        prop_assert_eq!(&found, &expected);

        // Steps by doing all edges again and again until nothing changes.
        let mut steps: BTreeMap<String, usize> = BTreeMap::from([(name(start), 0)]);
        loop {
            let before = steps.clone();
            for (from, to, _) in &found {
                if let Some(far) = steps.get(from).copied() {
                    let now = steps.entry(to.clone()).or_insert(far + 1);
                    *now = (*now).min(far + 1);
                }
            }
            if before == steps { break; }
        }
        let ways = graph.paths();
        for node in &drawn.nodes {
            prop_assert_eq!(ways.steps(&node.name), steps.get(&node.name).copied(), "{}", node.name);
            if let Some(path) = ways.path(&node.name) {
                for pair in path.windows(2) {
                    prop_assert!(found.iter().any(|(from, to, _)| from == pair[0] && to == pair[1]));
                }
            }
        }
    }
}

/// MS-EXPL-03: marks of a small package: start, next, reachable, head, deprecated, blocked, and what is elsewhere.
#[test]
fn marks() {
    let entry = |name, replaces| EntryFacts { name, replaces, ..EntryFacts::default() };
    let bundle = |name, version, deprecation| BundleFacts { name, version: Some(version), deprecation, ..BundleFacts::default() };
    let stable = vec![
        entry("p.v1.0.0", Some("p.v0.9.0")),
        entry("p.v1.1.0", Some("p.v1.0.0")),
        entry("p.v1.2.0", Some("p.v1.1.0")),
        entry("p.v1.3.0", Some("p.v1.2.0")),
    ];
    let facts = PackageFacts {
        name: "p",
        default_channel: Some("stable"),
        channels: vec![
            ChannelFacts { name: "alpha", deprecation: Some("use stable\nsoon"), entries: vec![entry("p.v0.9.0", None)] },
            ChannelFacts { name: "stable", deprecation: None, entries: stable },
        ],
        bundles: vec![
            bundle("p.v0.9.0", "0.9.0", None),
            bundle("p.v1.0.0", "1.0.0", None),
            bundle("p.v1.1.0", "1.1.0", Some("bad")),
            bundle("p.v1.2.0", "1.2.0", None),
        ],
        ..PackageFacts::default()
    };
    let start = Start { bundle: "p.v1.0.0".to_owned(), version: Some(Version::new(1, 0, 0)), state: StartState::Installed };
    let drawn = picture(&UpdateGraph::new(&facts, &[], Some(start)).unwrap(), None);
    assert_eq!(drawn.description, "Installed p.v1.0.0: 1 in one step, 3 reachable in all");
    let panels: Vec<&str> = drawn.panels.iter().map(|panel| panel.name.as_str()).collect();
    assert_eq!(panels, ["channel stable (default)", "channel alpha"]);
    let marks: Vec<(&str, Vec<&str>)> =
        drawn.panels[0].nodes.iter().map(|node| (node.label.as_str(), node.marks.iter().map(Mark::name).collect())).collect();
    assert_eq!(
        marks,
        [
            ("0.9.0", vec!["elsewhere"]),
            ("1.0.0", vec!["installed"]),
            ("1.1.0", vec!["next", "reachable", "deprecated"]),
            ("1.2.0", vec!["reachable"]),
            ("1.3.0", vec!["head", "reachable", "blocked"]),
        ]
    );
    assert_eq!(drawn.panels[0].notes, ["4 bundles, newest 1.3.0", "way to the head: 1.0.0 \u{2192} 1.1.0 \u{2192} 1.2.0 \u{2192} 1.3.0"]);
    assert_eq!(drawn.panels[1].notes[0], "deprecated: use stable");
    assert_eq!(drawn.panels[1].notes[2], "no way leads from p.v1.0.0 to the head 0.9.0");
}

/// MS-EXPL-03: a channel that nobody could look at is refused before it fills the memory.
#[test]
fn too_large() {
    let names: Vec<String> = (0..600).map(name).collect();
    let entries = names.iter().map(|name| EntryFacts { name, skip_range: Some(">=0.0.0"), ..EntryFacts::default() }).collect();
    let versions: Vec<String> = (0..600).map(|version| format!("{version}.0.0")).collect();
    let bundles =
        names.iter().zip(&versions).map(|(name, version)| BundleFacts { name, version: Some(version), ..BundleFacts::default() }).collect();
    let facts = PackageFacts {
        name: "p",
        channels: vec![ChannelFacts { name: "stable", deprecation: None, entries }],
        bundles,
        ..PackageFacts::default()
    };
    let refused = UpdateGraph::new(&facts, &[], None).unwrap_err().to_string();
    assert_eq!(refused, "channel stable of package p has more than 200000 update edges, which is more than a graph can show");
}
