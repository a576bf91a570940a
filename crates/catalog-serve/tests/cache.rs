//! The cache of `opm serve`. The texts were compared with those of upstream's `opm serve` v1.65.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::common::{bundle, catalog, source};
use mainstay_catalog_serve::cache::Cache;
use serde_json::json;

/// CATLG-45: a cache is good as long as neither the catalog nor the cache changes.
#[test]
fn fills_and_checks() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("cache");
    let good = source(&catalog());
    let cache = Cache::open(&directory).unwrap();
    assert!(!cache.is_present() && !directory.exists());
    let digest = directory.join("mainstay.v1/digest");
    let expected = format!("read existing cache digest: open {}: no such file or directory", digest.display());
    assert_eq!(cache.check_integrity(&good).unwrap_err().to_string(), expected);
    let built = cache.build(&good).unwrap();
    let again = Cache::open(&directory).unwrap();
    assert!(again.is_present());
    again.check_integrity(&good).unwrap();
    assert_eq!(again.load().unwrap().content(), built.content());
    // Group members may read and fill it again, others may not look.
    let mode = |path: &str| fs::metadata(directory.join("mainstay.v1").join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("catalog"), mode("digest")), (0o770, 0o660));
    let existing = fs::read_to_string(&digest).unwrap();
    let other = source(&catalog()[..9]);
    let text = again.check_integrity(&other).unwrap_err().to_string();
    assert!(
        text.starts_with(&format!("cache requires rebuild: cache reports digest as \"{existing}\", but computed digest is \"")),
        "{text}"
    );
    // A changed cache is no cache either.
    let entry = fs::read_dir(directory.join("mainstay.v1/catalog")).unwrap().next().unwrap().unwrap().path();
    let mut content = fs::read(entry.join("all.jsonl")).unwrap();
    content[20] ^= 1;
    fs::write(entry.join("all.jsonl"), content).unwrap();
    assert!(again.check_integrity(&good).is_err());
    again.build(&good).unwrap();
    again.check_integrity(&good).unwrap();
}

/// CATLG-45: several servers that start on one cache directory all get the catalog.
#[test]
fn filled_by_several() {
    for _ in 0..5 {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("cache");
        let good = source(&catalog());
        let all = std::sync::Barrier::new(6);
        let fill = || {
            let cache = Cache::open(&directory).unwrap();
            all.wait();
            cache.build(&good).map(|built| built.content().to_vec()).map_err(|error| error.to_string())
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(fill)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(results[0].as_ref().is_ok_and(|content| !content.is_empty()), "{results:?}");
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
        Cache::open(&directory).unwrap().check_integrity(&good).unwrap();
    }
}

/// CATLG-45: a directory that holds something else is not touched; what other programs cached stays.
#[test]
fn other_contents() {
    let root = tempfile::tempdir().unwrap();
    for name in ["y", "x"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    assert_eq!(Cache::open(root.path()).unwrap_err().to_string(), "cache directory has unexpected contents: x,y");
    fs::create_dir(root.path().join("pogreb.v1")).unwrap();
    let cache = Cache::open(root.path()).unwrap();
    assert!(!cache.is_present());
    cache.build(&source(&catalog())).unwrap();
    assert!(root.path().join("pogreb.v1").is_dir());
}

/// CATLG-45: what is not valid is not served; the refusal names the package, and then what `opm validate` says.
#[test]
fn refuses_what_is_not_valid() {
    let refusal = |blobs: &[serde_json::Value]| {
        let root = tempfile::tempdir().unwrap();
        Cache::open(root.path()).unwrap().build(&source(blobs)).unwrap_err().to_string()
    };
    let mut two_heads = catalog();
    two_heads[2] = json!({"schema": "olm.channel", "package": "web", "name": "fast", "entries": [{"name": "web.v1"}, {"name": "web.v2"}]});
    let text = refusal(&two_heads);
    assert!(text.starts_with("build package index: process package \"web\": invalid index:\n└── invalid package \"web\":\n"), "{text}");
    assert!(text.contains("multiple channel heads found in graph: web.v1, web.v2"), "{text}");
    let mut metadata_twice = catalog();
    let metadata = json!({"type": "olm.csv.metadata", "value": {}});
    metadata_twice[3] = bundle("web", "web.v1", "1.0.0", &[metadata.clone(), metadata]);
    let text = refusal(&metadata_twice);
    let twice = "parse properties: expected at most 1 property of type \"olm.csv.metadata\", found 2";
    assert_eq!(text, format!("build package index: process package \"web\": {twice}"));
    let mut stray = catalog();
    stray.push(json!({"schema": "olm.channel", "name": "c", "entries": []}));
    assert_eq!(refusal(&stray), "build package index: process package \"\": unknown package \"\" for channel \"c\"");
}
