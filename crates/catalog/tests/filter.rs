//! Smaller catalogs: what a filter promises, on random channels against brute force, and on catalogs as they are published.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use mainstay_catalog::filter::{Choice, Dependencies, FilterError, NoticeKind, Selection, filter};
use mainstay_catalog::parts::{Parts, Versions};
use mainstay_catalog::reach::{Edges, Updates};
use mainstay_catalog::{Catalog, Limits, MemorySource, validate};
use mainstay_versions::{CatalogRange, Version};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An entry: version, the version it replaces, versions it skips, its range.
type Line = (String, Option<String>, Vec<String>, Option<String>);

fn catalog(channels: &[(&str, Vec<Line>)], extra: Vec<Value>) -> Catalog {
    let mut blobs = vec![json!({"schema": "olm.package", "name": "p", "defaultChannel": channels[0].0})];
    let mut versions = BTreeSet::new();
    for (name, lines) in channels {
        let entries: Vec<Value> = lines
            .iter()
            .map(|(version, replaces, skips, range)| {
                versions.insert(version.clone());
                let mut entry =
                    json!({"name": format!("p.v{version}"), "skips": skips.iter().map(|v| format!("p.v{v}")).collect::<Vec<_>>()});
                if let Some(replaces) = replaces {
                    entry["replaces"] = format!("p.v{replaces}").into();
                }
                if let Some(range) = range {
                    entry["skipRange"] = range.clone().into();
                }
                entry
            })
            .collect();
        blobs.push(json!({"schema": "olm.channel", "package": "p", "name": name, "entries": entries}));
    }
    blobs.extend(versions.iter().map(|version| bundle("p", version, &[])));
    blobs.extend(extra);
    load(&blobs)
}

fn bundle(package: &str, version: &str, more: &[Value]) -> Value {
    let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
    properties.extend(more.iter().cloned());
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("registry.example/{package}:v{version}"), "properties": properties})
}

fn load(blobs: &[Value]) -> Catalog {
    let text: String = blobs.iter().flat_map(|blob| [blob.to_string(), "\n".to_owned()]).collect();
    Catalog::load(&MemorySource::of("catalog.json", text), &Limits::default()).unwrap()
}

fn choose(text: &str) -> Selection {
    Selection { packages: vec![text.parse().unwrap()], dependencies: Dependencies::Leave }
}

fn entries(catalog: &Catalog, channel: &str) -> Vec<String> {
    let channel = catalog.channels.iter().find(|found| found.name.as_str() == channel);
    channel.map(|channel| channel.entries.iter().map(|entry| entry.name.to_string()).collect()).unwrap_or_default()
}

/// `["1.0.0", "1.1.0 < 1.0.0", "1.2.0 < 1.1.0 ! 1.1.1 1.1.2 @ >=1.0.0 <1.2.0"]`: version, what it replaces, skips, and its range.
fn lines(texts: &[&str]) -> Vec<Line> {
    texts
        .iter()
        .map(|text| {
            let (text, range) = text.split_once('@').map_or((*text, None), |(text, range)| (text, Some(range.trim().to_owned())));
            let (text, skips) = text.split_once('!').map_or((text, ""), |(text, skips)| (text, skips));
            let (version, replaces) = text.split_once(" < ").map_or((text, None), |(version, old)| (version, Some(old.trim().to_owned())));
            (version.trim().to_owned(), replaces, skips.split_whitespace().map(str::to_owned).collect(), range)
        })
        .collect()
}

/// CATLG-35, OLM1-BUILD-08: ranges, channels, and what stays between them.
#[test]
fn selections() {
    let chain = catalog(
        &[
            ("stable", lines(&["1.0.0", "1.1.0 < 1.0.0", "1.2.0 < 1.1.0", "2.0.0 < 1.2.0"])),
            ("candidate", lines(&["2.0.0", "2.1.0-rc.1 < 2.0.0"])),
        ],
        Vec::new(),
    );
    for (selection, stable, candidate, notices) in [
        ("p", &["1.0.0", "1.1.0", "1.2.0", "2.0.0"][..], &["2.0.0", "2.1.0-rc.1"][..], 0),
        ("p:stable@>=1.1.0", &["1.1.0", "1.2.0", "2.0.0"], &[], 0),
        ("p:stable@<1.2.0", &["1.0.0", "1.1.0"], &[], 0),
        ("p:stable@1.1.0", &["1.1.0"], &[], 0),
        // What lies between stays.
        ("p:stable@1.0.0 || 2.0.0", &["1.0.0", "1.1.0", "1.2.0", "2.0.0"], &[], 1),
        ("p:stable@!1.1.0", &["1.0.0", "1.1.0", "1.2.0", "2.0.0"], &[], 1),
        // The default channel is not kept.
        ("p:candidate", &[], &["2.0.0", "2.1.0-rc.1"], 1),
        ("p@>2.0.0", &[], &["2.1.0-rc.1"], 1),
    ] {
        let found = filter(&chain, &choose(selection)).unwrap_or_else(|error| panic!("{selection}: {error}"));
        let named = |list: &[&str]| list.iter().map(|version| format!("p.v{version}")).collect::<Vec<_>>();
        assert_eq!(entries(&found.catalog, "stable"), named(stable), "{selection}");
        assert_eq!(entries(&found.catalog, "candidate"), named(candidate), "{selection}");
        assert_eq!(found.notices.len(), notices, "{selection}: {:?}", found.notices);
        validate(&found.catalog).unwrap();
        let bundles: BTreeSet<&str> = stable.iter().chain(candidate).copied().collect();
        assert_eq!(found.catalog.bundles.len(), bundles.len(), "{selection}");
    }
}

/// CATLG-35, CATLG-26: 1.1.1 can be reached from 1.0.0, over 1.0.2, but validation does not see that way: it walks 1.0.3 to 1.0.1, and only
/// 1.1.2 skips 1.0.0. So 1.1.2 stays as the head.
#[test]
fn a_way_that_validation_does_not_see() {
    let texts = ["1.0.0", "1.0.1", "1.0.2 < 1.0.0", "1.0.3 < 1.0.1 ! 1.0.2", "1.1.0 < 1.0.3", "1.1.1 < 1.1.0", "1.1.2 < 1.1.1 ! 1.0.0"];
    let source = catalog(&[("stable", lines(&texts))], Vec::new());
    let found = filter(&source, &choose("p:stable@1.0.0 || 1.1.1")).unwrap();
    assert_eq!(entries(&found.catalog, "stable"), ["p.v1.0.0", "p.v1.1.1", "p.v1.1.2"]);
}

/// CATLG-35: a selection that cannot be made says which names and versions there are.
#[test]
fn refusals() {
    let chain = catalog(&[("stable", lines(&["1.0.0", "1.1.0 < 1.0.0"]))], Vec::new());
    for (selection, expected) in [
        ("q", "package q is not in the catalog; there is p"),
        ("p:fast", "package p has no channel fast; it has stable"),
        ("p@>3.0.0", "package p: no bundle of it is selected; the versions are 1.0.0 to 1.1.0"),
        ("p:stable@>3.0.0", "package p: no bundle of channel stable is selected; the versions are 1.0.0 to 1.1.0"),
    ] {
        let error = filter(&chain, &choose(selection)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{selection}: {error}");
    }
    assert_eq!(filter(&chain, &Selection::default()).unwrap_err(), FilterError::Nothing);
    for text in ["", ":stable", "p:", "p@nonsense", "p:a,,b"] {
        assert!(matches!(text.parse::<Choice>(), Err(FilterError::Syntax { .. })), "{text}");
    }
}

/// CATLG-35: whoever has an old version installed keeps a way, also when the catalog does not have that version any more.
#[test]
fn paths_from_installed_versions() {
    let chain = catalog(&[("stable", lines(&["1.1.0 @ >=1.0.0 <1.1.0", "1.2.0 < 1.1.0", "2.0.0 < 1.2.0"]))], Vec::new());
    let from = |installed: &str| {
        let mut selection = choose("p:stable@>=2.0.0");
        selection.packages[0].keep_path_from = vec![installed.to_owned()];
        filter(&chain, &selection).map(|found| entries(&found.catalog, "stable"))
    };
    assert_eq!(from("2.0.0").unwrap(), ["p.v2.0.0"]);
    assert_eq!(from("1.2.0").unwrap(), ["p.v1.2.0", "p.v2.0.0"]);
    assert_eq!(from("p.v1.2.0").unwrap(), ["p.v1.2.0", "p.v2.0.0"]);
    // By way of the range of 1.1.0.
    assert_eq!(from("1.0.3").unwrap(), ["p.v1.1.0", "p.v1.2.0", "p.v2.0.0"]);
    assert_eq!(from("0.9.0").unwrap_err(), FilterError::NoPath { package: "p".to_owned(), from: "0.9.0".to_owned() });
}

fn q(version: &str, more: &[Value]) -> Vec<Value> {
    vec![
        json!({"schema": "olm.package", "name": "q", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "q", "name": "alpha", "entries": [{"name": format!("q.v{version}")}]}),
        json!({"schema": "olm.channel", "package": "q", "name": "stable", "entries": [{"name": "q.v1.0.0"}, {"name": format!("q.v{version}"), "replaces": "q.v1.0.0"}]}),
        bundle("q", "1.0.0", &[]),
        bundle("q", version, more),
    ]
}

/// CATLG-35, OLM0-BUNDLE-11: packages and APIs that kept bundles need come along, in the default channel, and theirs in turn.
#[test]
fn dependencies() {
    let needs_q = json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=2.0.0"}});
    let needs_api = json!({"type": "olm.constraint", "value": {"all": {"constraints": [
        {"gvk": {"group": "r.example", "version": "v1", "kind": "Thing"}}]}}});
    let api = json!({"type": "olm.gvk", "value": {"group": "r.example", "version": "v1", "kind": "Thing"}});
    let mut blobs = q("2.0.0", &[needs_api]);
    blobs.extend([
        json!({"schema": "olm.package", "name": "r", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "r", "name": "c", "entries": [{"name": "r.v1.0.0"}]}),
        bundle("r", "1.0.0", &[api]),
        json!({"schema": "olm.package", "name": "top", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "package": "top", "name": "c", "entries": [{"name": "top.v1.0.0"}]}),
        bundle("top", "1.0.0", &[needs_q]),
    ]);
    let all = load(&blobs);
    let mut selection = choose("top");
    let names = |catalog: &Catalog| catalog.bundles.iter().map(|bundle| bundle.name.to_string()).collect::<Vec<_>>();
    let alone = filter(&all, &selection).unwrap();
    assert_eq!(names(&alone.catalog), ["top.v1.0.0"]);
    assert_eq!(alone.notices[0].message, "needs package q \">=2.0.0\", which is not selected");
    selection.dependencies = Dependencies::Include;
    let found = filter(&all, &selection).unwrap();
    assert_eq!(names(&found.catalog), ["q.v2.0.0", "r.v1.0.0", "top.v1.0.0"]);
    assert_eq!(entries(&found.catalog, "stable"), ["q.v2.0.0"]);
    assert!(found.notices.iter().all(|notice| notice.kind == NoticeKind::Dependency), "{:?}", found.notices);
}

/// CATLG-35: thousands of bundles that need the same are asked about once; one by one they would take minutes.
#[test]
fn many_bundles_with_one_need() {
    let api = json!({"group": "q", "version": "v1", "kind": "K"});
    let (needs, provides) = (json!({"type": "olm.gvk.required", "value": api}), json!({"type": "olm.gvk", "value": api}));
    let mut blobs = q("2.0.0", &[provides]);
    let entries: Vec<Value> = (0..3000)
        .map(|at| {
            if at == 0 {
                json!({"name": "p.v1.0.0"})
            } else {
                json!({"name": format!("p.v1.{at}.0"), "replaces": format!("p.v1.{}.0", at - 1)})
            }
        })
        .collect();
    blobs.push(json!({"schema": "olm.package", "name": "p", "defaultChannel": "s"}));
    blobs.push(json!({"schema": "olm.channel", "package": "p", "name": "s", "entries": entries}));
    blobs.extend((0..3000).map(|at| bundle("p", &format!("1.{at}.0"), std::slice::from_ref(&needs))));
    let selection = Selection { packages: vec!["p".parse().unwrap()], dependencies: Dependencies::Include };
    let filtered = filter(&load(&blobs), &selection).unwrap();
    assert_eq!(filtered.catalog.bundles.len(), 3001);
    assert_eq!(filtered.notices.len(), 1);
}

/// CATLG-35: in a catalog with two bundles of one name a need may stay open whatever is added; that ends.
#[test]
fn needs_that_stay_open_end() {
    let two = |name: &str, version: &str| {
        let mut blob = bundle("p", version, &[]);
        blob["name"] = name.into();
        blob
    };
    let need = json!({"type": "olm.package.required", "value": {"packageName": "p", "versionRange": "=1.0.0"}});
    let mut blobs = q("2.0.0", &[need]);
    blobs.extend([
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "s"}),
        json!({"schema": "olm.channel", "package": "p", "name": "s", "entries": [{"name": "p.v1"}, {"name": "p.v2", "replaces": "p.v1"}]}),
    ]);
    blobs.extend([two("p.v1", "1.0.0"), two("p.v1", "3.0.0"), two("p.v2", "2.0.0")]);
    let packages = ["q", "p:s@=2.0.0"].map(|text| text.parse().unwrap()).to_vec();
    let filtered = filter(&load(&blobs), &Selection { packages, dependencies: Dependencies::Include });
    let missing = filtered.map(|filtered| filtered.notices.into_iter().any(|notice| notice.kind == NoticeKind::Missing));
    assert!(matches!(missing, Ok(true) | Err(FilterError::Invalid(_))), "{missing:?}");
}

/// CATLG-34, CATLG-18: deprecations and blobs of other schemas stay as far as their subjects do.
#[test]
fn the_rest_of_a_package() {
    let extra = vec![
        json!({"schema": "olm.deprecations", "package": "p", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "a"},
            {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "b"},
            {"reference": {"schema": "olm.channel", "name": "old"}, "message": "c"},
            {"reference": {"schema": "olm.bundle", "name": "p.v1.0.0"}, "message": "d"},
            {"reference": {"schema": "olm.bundle", "name": "p.v1.1.0"}, "message": "e"}]}),
        json!({"schema": "example.com/x", "package": "p", "name": "n"}),
    ];
    let all = catalog(&[("stable", lines(&["1.0.0", "1.1.0 < 1.0.0"])), ("old", lines(&["1.0.0"]))], extra);
    let found = filter(&all, &choose("p:stable@>=1.1.0")).unwrap().catalog;
    let messages: Vec<&str> = found.deprecations[0].entries.iter().map(|entry| entry.message.as_str()).collect();
    assert_eq!(messages, ["a", "b", "e"]);
    assert_eq!(found.others.len(), 1);
}

/// CATLG-35: the configuration file says the same as the command line, and what it cannot say is an error.
#[test]
fn configuration() {
    let text =
        "withDependencies: true\npackages:\n- name: p\n  channels:\n  - {name: stable, minVersion: 1.1.0}\n  keepPathFrom: [1.0.0]\n";
    let selection = Selection::from_yaml(text).unwrap();
    assert_eq!(selection.dependencies, Dependencies::Include);
    assert!(selection.packages[0].channels[0].range.as_ref().unwrap().matches(&Version::parse("1.1.0").unwrap()));
    assert_eq!(selection.packages[0].keep_path_from, ["1.0.0"]);
    for (text, expected) in [
        ("packages:\n- name: p\n  chanels: []\n", "unknown field `chanels`"),
        ("packages:\n- name: p\n  range: nonsense\n", "package p: range \"nonsense\""),
        ("packages:\n- {name: p, range: '1.0.0', minVersion: 1.0.0}\n", "give one of them"),
        ("packages:\n- {name: p, minVersion: v1}\n", "version \"v1\""),
        ("a: [\n", "line "),
    ] {
        let error = Selection::from_yaml(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// CATLG-35, OLM1-BUILD-09: every published package, from each of its versions on, and in parts, is a valid catalog of its own. (Upstream's
/// `opm validate` was asked about 86 such selections too, and accepted all.)
#[test]
fn published_packages() {
    let Some(bytes) = mainstay_testing::data::bytes("catalog-60.json.gz") else { return };
    let catalog = Catalog::load(&MemorySource::of("catalog.json", bytes), &Limits::default()).unwrap();
    let mut selections = 0;
    for (name, parts) in Parts::by_package(&catalog) {
        let mut versions: Vec<Version> = parts.versions().into_values().flatten().collect();
        versions.sort();
        let from_each = versions.iter().map(|version| format!(">={version}"));
        let every_third = versions.chunks(3).map(|chunk| chunk[0].to_string()).collect::<Vec<_>>().join(" || ");
        for range in from_each.chain([every_third]) {
            let found = filter(&catalog, &choose(&format!("{name}@{range}"))).unwrap_or_else(|error| panic!("{name}@{range}: {error}"));
            let wanted = CatalogRange::parse(&range).unwrap();
            let kept = Parts::by_package(&found.catalog)[name].versions();
            for version in versions.iter().filter(|version| wanted.matches(version)) {
                assert!(kept.values().flatten().any(|kept| kept == version), "{name}@{range}: {version} is missing");
            }
            selections += 1;
        }
    }
    assert!(selections > 700);
}

/// A valid channel: a chain, entries that one of the chain skips, ranges here and there.
fn channel() -> impl Strategy<Value = Vec<Line>> {
    let entry = (any::<prop::sample::Index>(), prop::bool::weighted(0.35), prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    prop::collection::vec(entry, 1..14).prop_map(|choices| {
        let version = |at: usize| format!("1.{}.{}", at / 4, at % 4);
        let last = choices.len() - 1;
        let on_chain: Vec<usize> = (0..choices.len()).filter(|at| *at == last || !choices[*at].1).collect();
        let mut lines: Vec<Line> = (0..choices.len()).map(|at| (version(at), None, Vec::new(), None)).collect();
        for pair in on_chain.windows(2) {
            lines[pair[1]].1 = Some(version(pair[0]));
        }
        for (at, (index, skipped, also_replaces, ranged)) in choices.iter().enumerate() {
            if *skipped && at != last {
                let above: Vec<usize> = on_chain.iter().copied().filter(|other| *other > at).collect();
                lines[above[index.index(above.len())]].2.push(version(at));
                if *also_replaces && at > 0 {
                    lines[at].1 = Some(version(index.index(at)));
                }
            }
            if *ranged {
                lines[at].3 = Some(format!(">=1.0.0 <{}", version(at)));
            }
        }
        lines
    })
}

/// Whether updates lead from one entry to another, by trying everything.
fn leads(lines: &[Line], from: &str, to: &str, ranges: Edges) -> bool {
    let mut reached = BTreeSet::from([from.to_owned()]);
    loop {
        let before = reached.len();
        for (version, replaces, skips, range) in lines {
            let updates = |old: &String| {
                let named = replaces.as_ref() == Some(old) || skips.contains(old);
                let in_range = || {
                    let range = range.as_ref().and_then(|range| CatalogRange::parse(range).ok());
                    ranges == Edges::Resolver && range.is_some_and(|range| range.matches(&Version::parse(old).unwrap()))
                };
                named || in_range()
            };
            if reached.iter().any(updates) {
                reached.insert(version.clone());
            }
        }
        if reached.len() == before {
            return reached.contains(to);
        }
    }
}

proptest! {
    /// CATLG-35: whatever versions are chosen, the result is valid, has them all, and from each of them updates lead to the head, over
    /// entries and edges of the source alone.
    #[test]
    fn promises_are_kept(lines in channel(), wanted in prop::collection::vec(any::<bool>(), 14)) {
        let source = catalog(&[("stable", lines.clone())], Vec::new());
        validate(&source).unwrap();
        let chosen: Vec<&str> = lines.iter().zip(&wanted).filter(|(_, wanted)| **wanted).map(|(line, _)| line.0.as_str()).collect();
        prop_assume!(!chosen.is_empty());
        let found = filter(&source, &choose(&format!("p:stable@{}", chosen.join(" || ")))).unwrap();
        validate(&found.catalog).unwrap();
        let channel = &found.catalog.channels[0];
        let names: BTreeSet<&str> = channel.entries.iter().map(|entry| entry.name.as_str()).collect();
        for version in &chosen {
            prop_assert!(names.contains(format!("p.v{version}").as_str()), "{} is missing", version);
        }
        for entry in &channel.entries {
            prop_assert!(source.channels[0].entries.contains(entry), "{:?} is not of the source", entry);
        }
        let kept: Vec<Line> = lines.iter().filter(|line| names.contains(format!("p.v{}", line.0).as_str())).cloned().collect();
        let parts = Parts::by_package(&found.catalog);
        let versions = parts["p"].versions();
        let updates = Updates::of(channel, &versions);
        let head = updates.entry(updates.head().unwrap()).name.as_str().trim_start_matches("p.v").to_owned();
        for line in &kept {
            prop_assert!(leads(&kept, &line.0, &head, Edges::Named), "{} does not lead to {}", line.0, head);
        }
        // Notices tell of every entry that was not chosen.
        prop_assert_eq!(found.notices.iter().any(|notice| notice.kind == NoticeKind::KeptBetween), kept.len() > chosen.len());
    }

    /// OLM1-UPG-05: reachability, and shortest ways, are those that trying everything finds.
    #[test]
    fn reach_is_brute_force(lines in channel(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let source = catalog(&[("stable", lines.clone())], Vec::new());
        let versions: BTreeMap<String, Version> = lines.iter().map(|line| (format!("p.v{}", line.0), Version::parse(&line.0).unwrap())).collect();
        let versions: Versions<'_> = versions.iter().map(|(name, version)| (name.as_str(), Some(version.clone()))).collect();
        let updates = Updates::of(&source.channels[0], &versions);
        let (from, to) = (from.index(lines.len()), to.index(lines.len()));
        for edges in [Edges::Named, Edges::Resolver] {
            let expected = leads(&lines, &lines[from].0, &lines[to].0, edges);
            prop_assert_eq!(updates.reaching(to, edges)[from], expected);
            let path = updates.path(updates.installed(from), to, edges);
            prop_assert_eq!(path.is_some(), expected);
            let mut at = from;
            for (next, edge) in path.into_iter().flatten() {
                prop_assert_eq!(updates.edge(updates.installed(at), next, edges), Some(edge));
                at = next;
            }
            prop_assert!(!expected || at == to);
        }
    }
}
