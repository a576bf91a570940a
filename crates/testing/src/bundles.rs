//! The recorded bundles of real operators.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::data;

/// Files of a bundle by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files of an archive of `.../package/version/file` by `package/version`.
fn archive(name: &str, put: impl Fn(&mut Files, &str, &str, Vec<u8>)) -> Option<BTreeMap<String, Files>> {
    let mut bundles: BTreeMap<String, Files> = BTreeMap::new();
    for (path, bytes) in data::archive(name)? {
        let parts: Vec<_> = path.splitn(4, '/').skip(1).collect();
        let [package, version, file] = parts[..] else { continue };
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
