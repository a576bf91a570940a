//! Packages of real catalogs: against what the catalogs' own text says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use mainstay_catalog_store::StoredCatalog;
use mainstay_package_server::{Manifest, Packages, SourceFacts};
use mainstay_testing::data::{archive, text};
use mainstay_versions::Version;
use serde_json::Value;

use crate::support::stored;

/// The blobs of a catalog, read without any code of the catalog crates.
fn blobs(text: &str) -> Vec<Value> {
    if text.trim_start().starts_with('{') {
        return serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect();
    }
    mainstay_yaml::stream(text).map(|document| document.unwrap().value).filter(|value| !value.is_null()).collect()
}

fn name_list(value: &Value) -> Vec<&str> {
    value.as_array().map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// The heads of a channel: entries that no entry replaces or skips.
fn heads(channel: &Value) -> Vec<&str> {
    let entries = channel["entries"].as_array().unwrap();
    let below: BTreeSet<&str> =
        entries.iter().flat_map(|entry| entry["replaces"].as_str().into_iter().chain(name_list(&entry["skips"]))).collect();
    entries.iter().filter_map(|entry| entry["name"].as_str()).filter(|name| !below.contains(name)).collect()
}

fn check(catalog: &StoredCatalog, blobs: &[Value]) {
    let packages = Packages::read(catalog);
    let of = |schema: &str| blobs.iter().filter(|blob| blob["schema"] == schema).collect::<Vec<_>>();
    let named: BTreeMap<&str, &Value> = of("olm.package").into_iter().map(|blob| (blob["name"].as_str().unwrap(), blob)).collect();
    let shown: Vec<&str> = packages.all().iter().map(|package| package.name.as_str()).collect();
    assert_eq!(shown, named.keys().copied().collect::<Vec<_>>(), "each package once, by name");
    let channels = of("olm.channel");
    assert_eq!(packages.all().iter().map(|package| package.channels.len()).sum::<usize>(), channels.len());
    let source = SourceFacts { namespace: "market".into(), name: "real".into(), display_name: "Real".into(), ..SourceFacts::default() };
    for package in packages.all() {
        assert_eq!(package.default_channel, named[package.name.as_str()]["defaultChannel"], "{}", package.name);
        let names: Vec<&str> = package.channels.iter().map(|channel| channel.name.as_str()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let object = Manifest { source: &source, package, namespace: "market" }.to_value().unwrap();
        for (channel, shown) in package.channels.iter().zip(object["status"]["channels"].as_array().unwrap()) {
            let blob =
                channels.iter().find(|blob| blob["package"] == package.name.as_str() && blob["name"] == channel.name.as_str()).unwrap();
            assert_eq!([channel.current.as_str()], heads(blob).as_slice(), "{}/{}", package.name, channel.name);
            assert_eq!(channel.entries.len(), blob["entries"].as_array().unwrap().len(), "{}/{}", package.name, channel.name);
            let versions: Vec<Version> = channel.entries.iter().map(|entry| Version::parse(&entry.version).unwrap()).collect();
            assert!(versions.is_sorted_by(|left, right| left.cmp_precedence(right).is_ge()), "{}/{}", package.name, channel.name);
            let description = &shown["currentCSVDesc"];
            let head = channel.entries.iter().find(|entry| entry.name == channel.current).unwrap();
            assert_eq!(description["version"], head.version.as_str());
            assert!(description["displayName"].as_str().is_some_and(|name| !name.is_empty()), "{}", package.name);
            assert!(description.get("icon").is_none() && description["customresourcedefinitions"].is_object());
            assert!(!description["relatedImages"].as_array().unwrap().is_empty(), "{}", package.name);
        }
        let labels = &object["metadata"]["labels"];
        assert_eq!((&labels["catalog"], &labels["catalog-namespace"]), (&"real".into(), &"market".into()));
        assert_eq!(labels["provider"], object["status"]["provider"].get("name").cloned().unwrap_or_else(|| "".into()));
    }
}

/// OLM0-API-28: of a catalog with 60 packages, each package is shown once, with its channels, heads and default channel.
#[test]
#[allow(clippy::print_stderr, reason = "the time that it takes, for people")]
fn a_whole_catalog() {
    let Some(text) = text("catalog-60.json.gz") else { return };
    let (catalog, _folder) = stored('a', &[("catalog.json".to_owned(), text.clone())]);
    let blobs = blobs(&text);
    check(&catalog, &blobs);
    let begun = Instant::now();
    let packages = Packages::read(&catalog);
    assert_eq!((packages.all().len(), packages.all().iter().map(|package| package.channels.len()).sum::<usize>()), (60, 92));
    let read = begun.elapsed();
    let source = SourceFacts::default();
    let begun = Instant::now();
    let mut out = Vec::new();
    for package in packages.all() {
        Manifest { source: &source, package, namespace: "" }.write(&mut out, false).unwrap();
    }
    let (written, held) = (begun.elapsed(), packages.all().iter().flat_map(|p| &p.channels).map(|c| c.description.held()).sum::<usize>());
    eprintln!("60 packages: read in {read:?}, written in {written:?}: {} bytes, {held} held", out.len());
    assert!(held * 2 < out.len());
}

/// OLM0-API-28: the same for 20 catalogs as they are published, in YAML.
#[test]
fn published_catalogs() {
    let Some(files) = archive("real-fbc.tar.gz") else { return };
    let catalogs = files.iter().filter(|(path, _)| path.ends_with("/catalog.yaml"));
    let mut seen = 0;
    for (path, content) in catalogs {
        let text = String::from_utf8(content.clone()).unwrap();
        let (catalog, _folder) = stored('b', &[(path.clone(), text.clone())]);
        check(&catalog, &blobs(&text));
        seen += 1;
    }
    assert_eq!(seen, 20);
}

/// OLM0-API-27: a catalog of the size of the largest public ones is listed at once, and takes little memory.
#[test]
#[allow(clippy::print_stderr, reason = "the time that it takes, for people")]
fn a_large_catalog() {
    let Some(text) = text("catalog-60.json.gz") else { return };
    // The recorded catalog eight times over, each time with other package names.
    let mut all = String::new();
    for copy in 0..8 {
        for line in text.lines() {
            let mut blob: Value = serde_json::from_str(line).unwrap();
            let rename = |name: &mut Value| {
                if let Some(text) = name.as_str() {
                    *name = format!("{text}-{copy}").into();
                }
            };
            let is_package = blob["schema"] == "olm.package";
            if let Some(name) = blob.get_mut(if is_package { "name" } else { "package" }) {
                rename(name);
            }
            for property in blob["properties"].as_array_mut().into_iter().flatten() {
                if property["type"] == "olm.package" {
                    rename(&mut property["value"]["packageName"]);
                }
            }
            all.push_str(&blob.to_string());
            all.push('\n');
        }
    }
    let (catalog, _folder) = stored('e', &[("catalog.json".to_owned(), all)]);
    let begun = Instant::now();
    let packages = Packages::read(&catalog);
    let read = begun.elapsed();
    let source = SourceFacts::default();
    let begun = Instant::now();
    let mut out = Vec::new();
    for package in packages.all() {
        Manifest { source: &source, package, namespace: "" }.write(&mut out, false).unwrap();
    }
    let written = begun.elapsed();
    let held: usize = packages.all().iter().flat_map(|p| &p.channels).map(|c| c.description.held()).sum();
    eprintln!("{} packages: read in {read:?}, written in {written:?}: {} bytes, at most {held} held", packages.all().len(), out.len());
    assert_eq!(packages.all().len(), 480);
    assert!(held * 2 < out.len());
}
