//! What the index answers, against a walk over the blobs.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;

use mainstay_catalog::{Catalog, Channel, Index, Limits, MemorySource, MetaQuery, store};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A random catalog, valid or not: few names, so that everything meets everything.
fn catalogs() -> impl Strategy<Value = Vec<Value>> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "é", ""]);
    let named = || prop::sample::select(vec!["a", "b", "c"]);
    let api = (name(), prop::sample::select(vec!["v1", "v2"]), prop::sample::select(vec!["K", "L"]))
        .prop_map(|(group, version, kind)| json!({"group": group, "version": version, "kind": kind}));
    let apis = prop::collection::vec((any::<bool>(), api), 0..4).prop_map(|apis| {
        let kind = |provided| if provided { "olm.gvk" } else { "olm.gvk.required" };
        apis.into_iter().map(|(provided, value)| json!({"type": kind(provided), "value": value})).collect::<Vec<_>>()
    });
    let entry = (name(), name(), prop::collection::vec(name(), 0..3))
        .prop_map(|(name, replaces, skips)| json!({"name": name, "replaces": replaces, "skips": skips, "skipRange": "<1.0.0"}));
    let blob = prop_oneof![
        (named(), name()).prop_map(|(name, channel)| json!({"schema": "olm.package", "name": name, "defaultChannel": channel})),
        (named(), name(), prop::collection::vec(entry, 0..4))
            .prop_map(|(package, name, entries)| json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})),
        (named(), name(), apis).prop_map(|(package, name, properties)| {
            json!({"schema": "olm.bundle", "package": package, "name": name, "image": "q.io/x", "properties": properties})
        }),
        (name(), name()).prop_map(|(package, name)| json!({"schema": "custom", "package": package, "name": name})),
    ];
    prop::collection::vec(blob, 0..16)
}

struct Both {
    catalog: Catalog,
    lines: Vec<String>,
    content: Vec<u8>,
    index: Index<Vec<u8>>,
}

fn both(blobs: &[Value]) -> Both {
    let text: String = blobs.iter().flat_map(|blob| [blob.to_string(), "\n".to_owned()]).collect();
    let source = MemorySource::of("c.json", text);
    let mut content = Vec::new();
    let index = store(&source, &Limits::default(), &mut content).unwrap();
    let index = Index::open(index, content.len() as u64).unwrap();
    let lines = std::str::from_utf8(&content).unwrap().lines().map(str::to_owned).collect();
    Both { catalog: Catalog::load(&source, &Limits::default()).unwrap(), lines, content, index }
}

/// Channels in the order of the index: by package, then by name, equal ones as they come.
fn channels(catalog: &Catalog) -> Vec<&Channel> {
    let mut channels: Vec<&Channel> = catalog.channels.iter().collect();
    channels.sort_by_key(|channel| (channel.package.as_str(), channel.name.as_str()));
    channels
}

type Edge = (String, String, String);

fn edge(channel: &Channel, entry: &str) -> Edge {
    (channel.package.to_string(), channel.name.to_string(), entry.to_owned())
}

/// The APIs of the first bundle of a name in a package.
fn apis<'c>(catalog: &'c Catalog, package: &str, name: &str, kind: &'c str) -> Vec<Value> {
    let found = catalog.bundles.iter().find(|bundle| bundle.package.as_str() == package && bundle.name.as_str() == name);
    let properties = found.iter().flat_map(|bundle| &bundle.properties).filter(|property| property.kind == kind);
    properties.map(|property| serde_json::from_str(property.value.get()).unwrap()).collect()
}

proptest! {
    /// OLM1-CAT-17: a query finds the lines that a walk over all of them finds, in their order.
    #[test]
    fn metas_are_the_lines_that_agree(blobs in catalogs(), schema in 0..4_usize, package in 0..5_usize, name in 0..5_usize) {
        let both = both(&blobs);
        let pick = |names: &[&str], at: usize| names.get(at).map(|name| (*name).to_owned());
        let query = MetaQuery {
            schema: pick(&["olm.package", "olm.bundle", "custom"], schema),
            package: pick(&["a", "b", "", "unknown"], package),
            name: pick(&["a", "é", "", "unknown"], name),
        };
        let found: Vec<String> = both.index.metas(&query)
            .map(|range| String::from_utf8(both.content[range.start as usize..range.end as usize].to_vec()).unwrap()).collect();
        let agrees = |line: &&String| {
            let blob: Value = serde_json::from_str(line).unwrap();
            let is = |key: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| blob[key].as_str().unwrap_or_default() == wanted);
            is("schema", &query.schema) && is("package", &query.package) && is("name", &query.name)
        };
        prop_assert_eq!(found, both.lines.iter().filter(agrees).cloned().collect::<Vec<_>>());
    }

    /// CATLG-37: who replaces a bundle, who provides an API, and the order of all bundles.
    #[test]
    fn entries_are_those_of_a_walk(blobs in catalogs()) {
        let both = both(&blobs);
        let of_index = |entry: mainstay_catalog::EntryView<'_, Vec<u8>>| {
            let channel = entry.channel();
            (channel.package().name().to_owned(), channel.name().to_owned(), entry.name().to_owned())
        };
        let channels = channels(&both.catalog);
        for name in ["a", "b", "c", "d", "é", "", "unknown"] {
            let mut expected = Vec::new();
            for channel in &channels {
                for entry in &channel.entries {
                    let replaces = entry.replaces.as_ref().map_or("", |replaces| replaces.as_str());
                    let skipped = entry.skips.iter().filter(|skip| skip.as_str() == name && skip.as_str() != replaces).count();
                    expected.extend(std::iter::repeat_n(edge(channel, entry.name.as_str()), usize::from(replaces == name) + skipped));
                }
            }
            prop_assert_eq!(both.index.replacers(name).map(of_index).collect::<Vec<_>>(), expected, "{}", name);
        }
        for group in ["a", "é", "", "unknown"] {
            for (version, kind) in [("v1", "K"), ("v2", "L"), ("v1", "unknown")] {
                let mut expected = Vec::new();
                for channel in &channels {
                    for entry in &channel.entries {
                        let wanted = json!({"group": group, "version": version, "kind": kind});
                        if apis(&both.catalog, channel.package.as_str(), entry.name.as_str(), "olm.gvk").contains(&wanted) {
                            expected.push(edge(channel, entry.name.as_str()));
                        }
                    }
                }
                prop_assert_eq!(both.index.providers(group, version, kind).map(of_index).collect::<Vec<_>>(), expected);
            }
        }
        let known = |channel: &Channel, name: &str| {
            both.catalog.bundles.iter().any(|bundle| bundle.package == channel.package && bundle.name.as_str() == name)
        };
        let mut expected: Vec<(String, String, String)> = Vec::new();
        for channel in &channels {
            let entries = channel.entries.iter().filter(|entry| known(channel, entry.name.as_str()));
            expected.extend(entries.map(|entry| (channel.name.to_string(), channel.package.to_string(), entry.name.to_string())));
        }
        expected.sort();
        let listing = both.index.listing(0).map(of_index).map(|(package, channel, name)| (channel, package, name));
        prop_assert_eq!(listing.collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(both.index.listing_len() as usize, expected.len());
        prop_assert_eq!(both.index.listing(1).len(), expected.len().saturating_sub(1));
    }

    /// CATLG-40: packages, channels, entries and bundles are found by name, the first of equal ones; APIs are those of the properties.
    #[test]
    fn things_are_found_by_name(blobs in catalogs()) {
        let both = both(&blobs);
        let names: BTreeSet<&str> = both.catalog.bundles.iter().map(|b| b.package.as_str())
            .chain(both.catalog.channels.iter().map(|c| c.package.as_str()))
            .chain(both.catalog.packages.iter().map(|p| p.name.as_str())).collect();
        prop_assert_eq!(both.index.packages().map(mainstay_catalog::PackageView::name).collect::<BTreeSet<_>>(), names);
        for package in ["a", "b", "c", "d"] {
            let found = both.index.package(package);
            prop_assert_eq!(found.is_some(), both.index.packages().any(|other| other.name() == package));
            let Some(found) = found else { continue };
            for name in ["a", "b", "é", "", "unknown"] {
                let channel = both.catalog.channels.iter().find(|c| c.package.as_str() == package && c.name.as_str() == name);
                prop_assert_eq!(found.channel(name).map(|c| c.entries().len()), channel.map(|c| c.entries.len()));
                for entry in ["a", "d", "", "unknown"] {
                    let expected = channel.and_then(|c| c.entries.iter().find(|e| e.name.as_str() == entry));
                    let replaces = expected.map(|e| e.replaces.as_ref().map_or("", |r| r.as_str()));
                    let entry = found.channel(name).and_then(|c| c.entry(entry));
                    prop_assert_eq!(entry.map(|e| e.replaces().unwrap_or_default()), replaces);
                }
                let json = |api: mainstay_catalog::Api<'_>| json!({"group": api.group, "version": api.version, "kind": api.kind});
                let bundle = found.bundle(name);
                let known = both.catalog.bundles.iter().any(|b| b.package.as_str() == package && b.name.as_str() == name);
                prop_assert_eq!(bundle.is_some(), known);
                if let Some(bundle) = bundle {
                    prop_assert_eq!(bundle.provided_apis().map(json).collect::<Vec<_>>(), apis(&both.catalog, package, name, "olm.gvk"));
                    prop_assert_eq!(bundle.required_apis().map(json).collect::<Vec<_>>(), apis(&both.catalog, package, name, "olm.gvk.required"));
                }
            }
        }
    }
}
