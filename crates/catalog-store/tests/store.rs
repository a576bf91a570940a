//! The store on a real file system.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mainstay_catalog::{Catalog, Limits, MemorySource, MetaQuery, Source, validate};
use mainstay_catalog_store::{CatalogDigest, CatalogStore, DirectorySource};

const CATALOG: &str = "{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}\n{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\
                       \"entries\":[{\"name\":\"p.v1\"}]}\n{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"p.v1\",\"image\":\"q.io/p\",\
                       \"properties\":[{\"type\":\"olm.package\",\"value\":{\"packageName\":\"p\",\"version\":\"1.0.0\"}}]}\n";

fn digest(c: char) -> CatalogDigest {
    format!("sha256:{}", c.to_string().repeat(64)).parse().unwrap()
}

fn folder(root: &Path, c: char) -> PathBuf {
    root.join(format!("sha256-{}", c.to_string().repeat(64)))
}

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(store: &CatalogStore, c: char) -> mainstay_catalog_store::StoredCatalog {
    store.put(&digest(c), &MemorySource::of("x", CATALOG), &Limits::default()).unwrap()
}

/// OLM1-CAT-07, OLM1-CAT-17: what is put is there with its index, also for the next process, and is not loaded twice.
#[test]
fn put_and_open() {
    let root = tempfile::tempdir().unwrap();
    let store = CatalogStore::open(root.path()).unwrap();
    assert!(store.get(&digest('a')).unwrap().is_none());
    let stored = put(&store, 'a');
    assert_eq!(String::from_utf8_lossy(stored.content()).lines().count(), 3);
    let query = MetaQuery { schema: Some("olm.package".into()), ..MetaQuery::default() };
    let blobs: Vec<&[u8]> = stored.index().metas(&query).map(|range| stored.blob(range)).collect();
    assert_eq!(blobs, [br#"{"defaultChannel":"c","name":"p","schema":"olm.package"}"#]);
    let again = store.put(&digest('a'), &MemorySource::of("x", "{broken"), &Limits::default()).unwrap();
    assert_eq!(again.content(), stored.content());
    let next = CatalogStore::open(root.path()).unwrap().get(&digest('a')).unwrap().unwrap();
    assert_eq!(next.index().package("p").unwrap().channel("c").unwrap().head().unwrap().name(), "p.v1");
    assert_eq!(next.modified(), stored.modified());
}

/// OLM1-CAT-07: a catalog that cannot be loaded leaves nothing behind and does not disturb what is there.
#[test]
fn failed_put_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let store = CatalogStore::open(root.path()).unwrap();
    put(&store, 'a');
    let broken = MemorySource::of("dir/index.json", format!("{CATALOG}{{\"name\":\"x\"}}\n"));
    let error = store.put(&digest('b'), &broken, &Limits::default()).unwrap_err().to_string();
    assert_eq!(error, "dir/index.json:4: object '{\"name\":\"x\"}' is missing root schema field");
    assert_eq!(names(root.path()), [format!("sha256-{}", "a".repeat(64))]);
}

/// OLM1-GEN-09: at start, incomplete, damaged and foreign entries go, complete ones stay, a damaged index is built again, and nothing beside
/// the directory is touched.
#[test]
fn check_on_start() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("catalogs");
    fs::write(parent.path().join("precious"), "x").unwrap();
    let store = CatalogStore::open(&root).unwrap();
    for c in ['a', 'b', 'c', 'd', 'e'] {
        put(&store, c);
    }
    let mut content = fs::read(folder(&root, 'b').join("all.jsonl")).unwrap();
    content[10] ^= 1;
    fs::write(folder(&root, 'b').join("all.jsonl"), content).unwrap();
    fs::remove_file(folder(&root, 'c').join("entry.json")).unwrap();
    fs::remove_file(folder(&root, 'd').join("all.jsonl")).unwrap();
    fs::write(folder(&root, 'e').join("index"), "damaged").unwrap();
    fs::create_dir(root.join(".new-1-0")).unwrap();
    fs::write(root.join("foreign"), "x").unwrap();
    std::os::unix::fs::symlink(parent.path().join("precious"), root.join("link")).unwrap();
    let store = CatalogStore::open(&root).unwrap();
    assert_eq!(store.digests().unwrap(), [digest('a'), digest('e')]);
    assert_eq!(names(&root).len(), 2);
    assert_eq!(fs::read_to_string(parent.path().join("precious")).unwrap(), "x");
    let rebuilt = store.get(&digest('e')).unwrap().unwrap();
    assert!(rebuilt.index().package("p").is_some());
    assert_ne!(fs::read(folder(&root, 'e').join("index")).unwrap(), b"damaged");
}

/// OLM1-CAT-04: garbage collection removes what nothing refers to; what is open stays readable.
#[test]
fn garbage_collection() {
    let root = tempfile::tempdir().unwrap();
    let store = CatalogStore::open(root.path()).unwrap();
    let open = put(&store, 'a');
    put(&store, 'b');
    let removed = store.retain(&BTreeSet::from([digest('b')])).unwrap();
    assert_eq!(removed, [digest('a')]);
    assert_eq!(store.digests().unwrap(), [digest('b')]);
    assert!(open.content().starts_with(b"{\"defaultChannel\""));
    assert!(open.index().package("p").is_some());
}

/// OLM1-GEN-09: a text that is no digest is no name of a folder.
#[test]
fn digests() {
    for text in ["", "sha256", "sha256:", "sha256:../../etc", "SHA256:abc", "sha256:0123"] {
        assert!(text.parse::<CatalogDigest>().is_err(), "{text}");
    }
    assert_eq!(digest('a').to_string(), format!("sha256:{}", "a".repeat(64)));
}

/// OLM1-FBC-02, OLM1-FBC-03: a directory is walked with its ignore files; links out of it are refused where it came from an image, and
/// followed where the user names it.
#[test]
fn directory_source() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("p/objects")).unwrap();
    fs::write(at("p/index.json"), CATALOG).unwrap();
    fs::write(at("p/objects/csv.yaml"), "kind: ClusterServiceVersion\n").unwrap();
    fs::write(at("p/.indexignore"), "objects/\n").unwrap();
    fs::write(at("empty.yaml"), "").unwrap();
    std::os::unix::fs::symlink("p/.indexignore", at("linked-ignore")).unwrap();
    fs::write(at(".indexignore"), "linked-*\n").unwrap();
    let source = DirectorySource::of_image(root.path()).unwrap();
    let catalog = Catalog::load(&source, &Limits::default()).unwrap();
    validate(&catalog).unwrap();
    assert_eq!(catalog.bundles.len(), 1);
    std::os::unix::fs::symlink("/etc/hostname", at("out")).unwrap();
    let error = source.paths().unwrap_err().to_string();
    assert_eq!(error, "out: symbolic link leads out of the folder that it came with");
    let named = DirectorySource::of_user(root.path()).unwrap();
    assert_eq!(*named.read("out").unwrap(), fs::read("/etc/hostname").unwrap());
    fs::remove_file(at("out")).unwrap();

    // A link to a folder is not gone through; what opm says of it, reading says, unless a pattern takes it out.
    std::os::unix::fs::symlink("p", at("folder")).unwrap();
    let error = Catalog::load(&source, &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("folder: Is a directory"), "{error}");
    std::os::unix::fs::symlink(".", at("linked-folder")).unwrap();
    fs::remove_file(at("folder")).unwrap();
    Catalog::load(&source, &Limits::default()).unwrap();
    assert!(DirectorySource::of_user(&at("p/index.json")).unwrap_err().to_string().ends_with("not a directory"));
}
