//! Upstream's cache, made here.
//!
//! The digest below was confirmed by `opm serve --cache-enforce-integrity` (v1.65.0), which served an unpacked image that held this catalog
//! and this cache, and answered `ListBundles` as it did from a cache of its own. To make another: build the image with
//! `mainstay catalog build DIR --base-image BASE --layout OUT`, unpack its last layer, and start opm on it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use mainstay_catalog::MemorySource;
use mainstay_catalog_serve::cache::Cache;
use mainstay_catalog_serve::opm_cache;
use serde_json::{Value, json};

const PACKAGE: &str = "very-long-package-name-that-goes-on-and-on-for-quite-a-while";

fn files() -> BTreeMap<String, Vec<u8>> {
    let name = format!("{PACKAGE}.v1.0.0-with-a-very-long-prerelease-part-that-makes-it-longer-than-one-hundred");
    let image = format!("q.io/a/b@sha256:{}", "a".repeat(64));
    let long = [
        format!(r#"{{"schema": "olm.package", "name": "{PACKAGE}", "defaultChannel": "a"}}"#),
        format!(
            r#"{{"schema": "olm.channel", "package": "{PACKAGE}", "name": "a", "entries": [{{"name": "{name}", "skips": ["x.v1", "x.v2"]}}]}}"#
        ),
        format!(
            r#"{{"schema": "olm.bundle", "package": "{PACKAGE}", "name": "{name}", "image": "{image}", "properties": [{{"type": "olm.package", "value": {{"packageName": "{PACKAGE}", "version": "1.0.0"}}}}, {{"type": "olm.gvk", "value": {{"group": "g", "version": "v1", "kind": "K"}}}}]}}"#
        ),
    ];
    let folders: Vec<String> = (0..5).map(|number| format!("folder-with-a-long-name-{number}")).collect();
    let short = "schema: olm.package\nname: b\ndefaultChannel: a\n---\nschema: olm.channel\npackage: b\nname: a\nentries:\n- name: b.v1\n---\nschema: olm.deprecations\npackage: b\nentries:\n- reference: {schema: olm.bundle, name: b.v1}\n  message: old\n- reference: {schema: olm.package}\n  message: gone\n---\nschema: olm.bundle\npackage: b\nname: b.v1\nimage: q.io/b:1\nproperties:\n- type: olm.package\n  value: {packageName: b, version: 1.0.0}\n";
    BTreeMap::from([
        (format!("{}/catalog-file-with-quite-a-long-name.json", folders.join("/")), long.join("\n").into_bytes()),
        // Sorts between the folder `b` and what is in it, unless it is compared part by part.
        ("b.json".to_owned(), Vec::new()),
        ("b/ü.yaml".to_owned(), short.as_bytes().to_vec()),
    ])
}

/// CATLG-31, CATLG-45: names that fit no header, names that are split, and names that are not ASCII count as opm counts them.
#[test]
fn opm_accepts_the_cache() {
    let files = files();
    let source = files.iter().fold(MemorySource::new(), |source, (path, bytes)| source.with(path, bytes.clone()));
    let folder = tempfile::tempdir().unwrap();
    let stored = Cache::open(folder.path()).unwrap().build(&source).unwrap();
    let cache = opm_cache(&stored, &files).unwrap();
    let names: Vec<&str> = cache.keys().map(|name| name.split('_').next().unwrap()).collect();
    assert_eq!(names, ["cache/b", "cache/packages.json", &format!("cache/{PACKAGE}"), "digest"]);
    let read = |name: &str| serde_json::from_slice::<Value>(&cache[name]).unwrap();
    assert_eq!(
        read("cache/b_a_b.v1.json"),
        json!({"csvName": "b.v1", "packageName": "b", "channelName": "a", "bundlePath": "q.io/b:1", "version": "1.0.0",
            "properties": [{"type": "olm.package", "value": "{\"packageName\":\"b\",\"version\":\"1.0.0\"}"}], "deprecation": {"message": "old"}})
    );
    let packages = read("cache/packages.json");
    assert_eq!(packages["b"]["Channels"]["a"]["Head"], "b.v1");
    assert_eq!(packages["b"]["deprecation"]["message"], "gone");
    assert_eq!(cache["digest"], b"52a945c34d539111");
}
