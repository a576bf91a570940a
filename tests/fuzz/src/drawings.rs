//! Update graphs of whatever catalogs say, drawn in every form.

use mainstay_catalog::graph::{Mermaid, Start, StartState, UpdateGraph, mermaid, picture};
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_graph::{Mark, TextStyle, dot, json, svg, text};

/// A catalog's graphs can be drawn, and no box is lost; names can be anything.
pub fn graphs(data: &[u8]) {
    let limits = Limits { blob_bytes: 1 << 13, yaml_bytes: 1 << 12, ..Limits::default() };
    let Ok(catalog) = Catalog::load(&MemorySource::of("catalog", data), &limits) else { return };
    if let Ok(drawing) = mermaid(&catalog, &Mermaid::default()) {
        assert!(drawing.text.starts_with("graph LR\n"));
    }
    let versions = catalog.versions();
    for package in catalog.packages.iter().take(4) {
        let Some(facts) = catalog.package_facts(package.name.as_str(), &versions) else { continue };
        let start = facts.bundles.first().map(|bundle| Start { bundle: bundle.name.to_owned(), version: None, state: StartState::Asked });
        let Ok(graph) = UpdateGraph::new(&facts, &[], start) else { continue };
        let drawn = picture(&graph, None);
        let boxes: usize = drawn.panels.iter().map(|panel| panel.nodes.len()).sum();
        let page = svg(&drawn).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(page.matches("class=\"card\"").count(), boxes);
        let rows = text(&drawn, &TextStyle::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!rows.chars().any(|letter| letter.is_control() && letter != '\n'), "{rows:?}");
        assert!(dot(&drawn).is_ok() && mainstay_graph::mermaid(&drawn).is_ok() && json(&drawn).is_ok());
        for node in drawn.panels.iter().flat_map(|panel| &panel.nodes).filter(|node| node.marks.has(Mark::Next)) {
            assert!(node.marks.has(Mark::Reachable), "{node:?}");
        }
    }
}

/// A catalog with all kinds of edges.
pub fn graph_seeds() -> Vec<Vec<u8>> {
    let bundle = |version: &str| {
        format!(
            r#"{{"schema":"olm.bundle","package":"p","name":"p.v{version}","image":"q.io/p","properties":[{{"type":"olm.package","value":{{"packageName":"p","version":"{version}"}}}}]}}"#
        )
    };
    let channel = r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v1.2.0","replaces":"p.v1.1.0","skips":["p.v1.0.0","x"],"skipRange":">=1.0.0 <1.2.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0"},{"name":"p.v1.0.0","replaces":"p.v1.2.0"}]}"#;
    let deprecated = r#"{"schema":"olm.deprecations","package":"p","entries":[{"reference":{"schema":"olm.bundle","name":"p.v1.0.0"},"message":"<old> & \"gone\"\u0007"}]}"#;
    let package = r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#;
    let bundles = ["1.0.0", "1.1.0", "1.2.0"].map(bundle).join("\n");
    vec![format!("{package}\n{channel}\n{bundles}\n{deprecated}").into_bytes(), format!("{package}\n{channel}").into_bytes()]
}
