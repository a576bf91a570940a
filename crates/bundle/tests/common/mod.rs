//! The recorded bundles and answers that several tests read.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// Files of a bundle by path.
pub type Files = BTreeMap<String, Vec<u8>>;

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

/// The files of an archive of `.../package/version/file` by `package/version`; nothing (and a note) when the data is not there.
fn archive(name: &str, put: impl Fn(&mut Files, &str, &str, Vec<u8>)) -> Option<BTreeMap<String, Files>> {
    let path = data().join(name);
    let Ok(file) = std::fs::File::open(&path) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is missing", path.display());
        eprintln!("skipped: {} is missing", path.display());
        return None;
    };
    let mut bundles: BTreeMap<String, Files> = BTreeMap::new();
    for entry in tar::Archive::new(flate2::read::GzDecoder::new(file)).entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let parts: Vec<_> = path.splitn(4, '/').skip(1).collect();
        let [package, version, file] = parts[..] else { continue };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        put(bundles.entry(format!("{package}/{version}")).or_default(), package, file, bytes);
    }
    Some(bundles)
}

/// The real bundles by `package/version`.
pub fn bundles() -> Option<&'static BTreeMap<String, Files>> {
    static BUNDLES: LazyLock<Option<BTreeMap<String, Files>>> = LazyLock::new(|| {
        archive("bundles.tar.gz", |files, _, file, bytes| {
            files.insert(file.to_owned(), bytes);
        })
    });
    BUNDLES.as_ref()
}

/// The bundles of the older layout by `package/version`, their folders taken as the manifests that they are.
pub fn legacy() -> Option<&'static BTreeMap<String, Files>> {
    static BUNDLES: LazyLock<Option<BTreeMap<String, Files>>> = LazyLock::new(|| {
        archive("bundles-legacy.tar.gz", |files, package, file, bytes| {
            files.insert(format!("manifests/{file}"), bytes);
            let annotations = format!("annotations: {{operators.operatorframework.io.bundle.package.v1: {package}}}\n");
            files.insert("metadata/annotations.yaml".to_owned(), annotations.into_bytes());
        })
    });
    BUNDLES.as_ref()
}

/// The lines of a recorded answer.
pub fn recorded(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data().join("bundle-oracle").join(name)).expect("recorded answers");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// SHA-256 of the canonical JSON: sorted keys, no blanks, UTF-8, numbers as Go writes them.
pub fn sha256(value: &Value) -> String {
    let text = mainstay_bundle::go::to_string(value).replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
    format!("{:x}", Sha256::digest(text.as_bytes()))
}
