//! What is read and written in pieces, against the slow ways through a whole tree in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;

use mainstay_catalog::{
    Bundle, Catalog, Channel, Entry, Extent, Format, Limits, MemorySource, Package, Part, Property, Source, load, render, render_parts,
    validate, validate_all, validate_source,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A value whose canonical text is the same for Go and for serde_json.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\{}\\[\\]\né: -]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c{\"]{1,2}", inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_blob() -> impl Strategy<Value = Value> {
    let names = || prop_oneof![Just(""), Just("a"), Just("b"), Just("a.v1"), Just("c")];
    let property = ("[xyz]|olm.bundle.object.not|olm.csv.metadata", any_value().prop_filter("null has no place", |value| !value.is_null()))
        .prop_map(|(kind, value)| match kind.as_str() {
            "olm.csv.metadata" => json!({"type": kind, "value": {"description": value.to_string(), "other": value}}),
            _ => json!({"type": kind, "value": value}),
        });
    let schema =
        prop_oneof![Just("olm.package"), Just("olm.channel"), Just("olm.bundle"), Just("olm.deprecations"), Just("x.y"), Just("w")];
    (schema, names(), names(), prop::collection::vec(property, 0..4), any_value()).prop_map(|(schema, package, name, properties, value)| {
        let mut blob = json!({"schema": schema, "package": package, "name": name});
        match schema {
            "olm.package" => blob["properties"] = properties.into(),
            "olm.channel" => blob["entries"] = json!([{"name": name, "skips": [name, package]}, {"name": "z", "replaces": name}]),
            "olm.bundle" => {
                blob["image"] = format!("q.io/{name}").into();
                blob["properties"] = properties.into();
                blob["relatedImages"] = json!([{"name": "n", "image": "b"}, {"name": "m", "image": "a"}, {"name": "l", "image": "a"}]);
            }
            "olm.deprecations" => blob["entries"] = json!([{"reference": {"schema": "olm.package"}, "message": name}]),
            _ => blob["anything"] = value,
        }
        blob
    })
}

/// How the blobs of a file are written.
#[derive(Clone, Copy, Debug)]
enum Style {
    Lines,
    Pretty,
    Yaml,
    /// The first as JSON, the others as YAML.
    Both,
}

fn file(blobs: &[Value], style: Style) -> String {
    let yaml = |blob: &Value| format!("---\n{}", mainstay_yaml::to_string(blob));
    let write = |(number, blob): (usize, &Value)| match style {
        Style::Lines => format!("{blob}\n"),
        Style::Pretty => format!("{blob:#}\n\n"),
        Style::Both if number == 0 => format!("{blob:#}\n"),
        Style::Yaml | Style::Both => yaml(blob),
    };
    blobs.iter().enumerate().map(write).collect()
}

fn any_tree() -> impl Strategy<Value = Vec<(String, Vec<Value>, Style)>> {
    let style = prop_oneof![Just(Style::Lines), Just(Style::Pretty), Just(Style::Yaml), Just(Style::Both)];
    prop::collection::vec(("[ab](/[ab-])?/[abc]", prop::collection::vec(any_blob(), 0..5), style), 0..5)
}

fn source_of(tree: &[(String, Vec<Value>, Style)]) -> MemorySource {
    tree.iter().fold(MemorySource::new(), |source, (path, blobs, style)| source.with(path, file(blobs, *style)))
}

fn rendered(parts: &[Part<'_>], format: Format) -> String {
    let mut text = Vec::new();
    render_parts(parts, &Limits::default(), format, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// CATLG-07, CATLG-10, OLM1-CAT-07: the loader gives what a naive one gives that parses each file whole.
    #[test]
    fn loading_agrees_with_the_naive_way(tree in any_tree()) {
        // The last file of a path is the one that is there.
        let mut files: Vec<(String, Vec<Value>)> = Vec::new();
        for (path, blobs, _) in &tree {
            files.retain(|(other, _)| other != path);
            files.push((path.clone(), blobs.clone()));
        }
        files.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
        let expected: Vec<(String, String)> =
            files.iter().flat_map(|(path, blobs)| blobs.iter().map(|blob| (path.clone(), blob.to_string()))).collect();
        let source = source_of(&tree);
        let mut found = Vec::new();
        load(&source, &Limits::default(), &mut |blob| {
            let text = String::from_utf8(source.read(blob.path).unwrap().into_owned()).unwrap();
            assert!(text.lines().nth(blob.line - 1).is_some_and(|line| !line.trim().is_empty() && line != "---"), "{}:{}", blob.path, blob.line);
            found.push((blob.path.to_owned(), blob.json.to_owned()));
            Ok(())
        }).unwrap();
        prop_assert_eq!(found, expected);
    }

    /// CATLG-10, CATLG-32: what is rendered from files in two passes is what is rendered from the model, in every format, and rendering
    /// that again changes nothing; parts make one whole.
    #[test]
    fn rendering_agrees_with_the_model(tree in any_tree(), cut in 0_usize..5) {
        let source = source_of(&tree);
        let catalog = Catalog::load(&source, &Limits::default()).unwrap();
        for format in [Format::Json, Format::Yaml, Format::JsonLines] {
            let text = rendered(&[Part::Source(&source)], format);
            let mut model = Vec::new();
            render(&catalog, format, &mut model).unwrap();
            prop_assert_eq!(&text, &String::from_utf8(model).unwrap());
            prop_assert_eq!(&rendered(&[Part::Catalog(&catalog)], format), &text);
            prop_assert_eq!(&rendered(&[Part::Source(&MemorySource::of("again", text.as_str()))], format), &text);
        }
        let (first, second) = tree.split_at(cut.min(tree.len()));
        let (first, second) = (source_of(first), Catalog::load(&source_of(second), &Limits::default()).unwrap());
        let parts = rendered(&[Part::Source(&first), Part::Catalog(&second)], Format::JsonLines);
        let blobs = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let whole: BTreeSet<String> = blobs(&rendered(&[Part::Source(&source)], Format::JsonLines));
        prop_assert!(blobs(&parts).is_superset(&whole));
    }

    /// CATLG-22: the verdict on files is the verdict on the model that they load to.
    #[test]
    fn verdicts_agree(tree in any_tree()) {
        let source = source_of(&tree);
        let catalog = Catalog::load(&source, &Limits::default()).unwrap();
        let text = |verdict: Result<(), String>| verdict.err().unwrap_or_default();
        let of_files = |extent| text(validate_source(&source, &Limits::default(), extent).map_err(|error| error.to_string()));
        prop_assert_eq!(of_files(Extent::Opm), text(validate(&catalog).map_err(|error| error.to_string())));
        prop_assert_eq!(of_files(Extent::Everything), text(validate_all(&catalog).map_err(|error| error.to_string())));
    }
}

fn channel_of(entries: &[(usize, Option<usize>, Vec<usize>)]) -> Vec<Entry> {
    let name = |number: usize| format!("p.v{number}");
    entries
        .iter()
        .map(|(own, replaces, skips)| Entry {
            name: name(*own).as_str().into(),
            replaces: replaces.map(|number| name(number).as_str().into()),
            skips: skips.iter().map(|number| name(*number).as_str().into()).collect(),
            skip_range: None,
        })
        .collect()
}

/// The rule of the update graph as it is written down, one question after the other.
fn verdict_by_the_book(entries: &[Entry]) -> Option<String> {
    let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let skipped = |name: &str| entries.iter().any(|entry| entry.skips.iter().any(|skip| skip.as_str() == name));
    let replaces = |name: &str| entries.iter().find(|entry| entry.name.as_str() == name)?.replaces.as_ref().map(|n| n.as_str().to_owned());
    let named = |name: &str| skipped(name) || names.iter().any(|other| replaces(other).as_deref() == Some(name));
    let heads: Vec<&str> = names.iter().copied().filter(|name| !named(name)).collect();
    let [head] = heads.as_slice() else {
        return Some(if heads.is_empty() {
            "no channel head found in graph".to_owned()
        } else {
            format!("multiple channel heads found in graph: {}", heads.join(", "))
        });
    };
    let mut way = vec![(*head).to_owned()];
    while let Some(next) = way.last().and_then(|last| replaces(last)).filter(|next| !skipped(next)) {
        if let Some(at) = way.iter().position(|name| *name == next) {
            way.push(next);
            return Some(format!("detected cycle in replaces chain of upgrade graph: {}", way[at..].join(" -> ")));
        }
        way.push(next);
    }
    let stranded: Vec<&str> = names.into_iter().filter(|name| !skipped(name) && !way.iter().any(|on_way| on_way == name)).collect();
    (!stranded.is_empty()).then(|| format!("channel contains one or more stranded bundles: {}", stranded.join(", ")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// CATLG-26: head, cycle and stranded bundles of any channel, against the rule question by question.
    #[test]
    fn update_graphs(
        edges in prop::collection::btree_map(0_usize..6, (prop::option::weighted(0.8, 0_usize..8), prop::collection::vec(0_usize..8, 0..2)), 1..6),
    ) {
        let entries: Vec<_> = edges.into_iter().map(|(own, (replaces, skips))| (own, replaces, skips)).collect();
        let entries = channel_of(&entries);
        let bundles = entries.iter().enumerate().map(|(number, entry)| Bundle {
            package: "p".into(),
            name: entry.name.clone(),
            image: "q.io/p:v1".to_owned(),
            properties: vec![Property::new("olm.package", &json!({"packageName": "p", "version": format!("{number}.0.0")})).unwrap()],
            related_images: Vec::new(),
        });
        let catalog = Catalog {
            packages: vec![Package { name: "p".into(), default_channel: "c".into(), ..Package::default() }],
            bundles: bundles.collect(),
            channels: vec![Channel { package: "p".into(), name: "c".into(), entries, properties: Vec::new() }],
            ..Catalog::default()
        };
        let found = validate(&catalog).err();
        let texts: Vec<&str> = found.iter().flat_map(mainstay_catalog::Validation::findings).map(|finding| finding.text.as_str()).collect();
        let expected = verdict_by_the_book(&catalog.channels[0].entries);
        prop_assert_eq!(texts, expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
