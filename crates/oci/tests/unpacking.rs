//! Layers: good ones, and those that somebody made in order to do harm.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use mainstay_oci::{Cache, Digest, ErrorKind, Layer, UnpackLimits, UnpackOptions, read_files, unpack};
use tar::EntryType;

enum Entry<'a> {
    File(&'a str, &'a str),
    Directory(&'a str),
    Link(&'a str, &'a str),
    Hard(&'a str, &'a str),
    Other(&'a str, EntryType),
}
use Entry::{Directory, File, Hard, Link, Other};

/// A tar archive whose paths and targets are written as they are, without the checks of the tar library.
fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let (path, kind, content, target) = match entry {
            File(path, content) => (path, EntryType::Regular, *content, ""),
            Directory(path) => (path, EntryType::Directory, "", ""),
            Link(path, target) => (path, EntryType::Symlink, "", *target),
            Hard(path, target) => (path, EntryType::Link, "", *target),
            Other(path, kind) => (path, *kind, "", ""),
        };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn layers(directory: &Path, archives: &[Vec<u8>]) -> Vec<Layer> {
    let write = |(number, bytes): (usize, &Vec<u8>)| {
        let path = directory.join(format!("layer{number}"));
        std::fs::write(&path, bytes).unwrap();
        Layer { name: format!("layer {number}"), path }
    };
    archives.iter().enumerate().map(write).collect()
}

/// What is on disk, links as `-> target`.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut queue = vec![root.to_owned()];
    while let Some(directory) = queue.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                found.insert(name + "/", String::new());
                queue.push(path);
            } else if kind.is_symlink() {
                found.insert(name, format!("-> {}", std::fs::read_link(&path).unwrap().display()));
            } else {
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Unpacks to disk and in memory; both must agree on success.
fn check(archives: &[&[Entry<'_>]], expected: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let archives: Vec<_> = archives.iter().map(|entries| archive(entries)).collect();
    let layers = layers(directory.path(), &archives);
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    unpack(&layers, &root, &UnpackOptions::default()).unwrap();
    let expected: BTreeMap<String, String> = expected.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
    assert_eq!(tree(&root), expected);
    let in_memory = read_files(&layers, &UnpackOptions::default()).unwrap();
    for (path, content) in expected.iter().filter(|(path, content)| !path.ends_with('/') && !content.starts_with("-> ")) {
        assert_eq!(in_memory[path], content.as_bytes(), "{path}");
    }
}

#[test]
fn layers_stack() {
    check(
        &[
            &[
                Directory("./"),
                File("./configs/a/catalog.yaml", "1"),
                File("configs/b", "2"),
                Directory("etc/"),
                Other("dev/null", EntryType::Char),
            ],
            &[File("configs/a/.wh.catalog.yaml", ""), File("configs/c", "3"), File("configs/b", "4")],
        ],
        &[("configs/", ""), ("configs/a/", ""), ("configs/b", "4"), ("configs/c", "3"), ("etc/", "")],
    );
    // An opaque directory hides what is below in lower layers, but not what its own layer puts there.
    check(
        &[&[File("d/old", "1"), File("d/e/old", "1"), File("keep", "k")], &[File("d/new", "2"), File("d/.wh..wh..opq", "")]],
        &[("d/", ""), ("d/new", "2"), ("keep", "k")],
    );
    // A directory in place of a file, and the other way round.
    check(&[&[File("a", "1"), File("b/c", "2")], &[File("a/x", "3"), File("b", "4")]], &[("a/", ""), ("a/x", "3"), ("b", "4")]);
    // Links stay inside the root, also absolute ones, and files written through a link land behind it.
    check(
        &[
            &[Directory("usr/bin"), Link("bin", "usr/bin"), Link("deep/er/abs", "/usr/bin")],
            &[File("bin/tool", "t"), Hard("copy", "usr/bin/tool")],
        ],
        &[
            ("usr/", ""),
            ("usr/bin/", ""),
            ("usr/bin/tool", "t"),
            ("bin", "-> usr/bin"),
            ("copy", "t"),
            ("deep/", ""),
            ("deep/er/", ""),
            ("deep/er/abs", "-> ../../usr/bin"),
        ],
    );
}

/// Paths and links that lead out of the root, straight or in a roundabout way.
#[test]
fn nothing_leaves_the_root() {
    let cases: &[(&[Entry<'_>], &str)] = &[
        (&[File("../evil", "x")], "contains \"..\""),
        (&[File("a/../../evil", "x")], "contains \"..\""),
        (&[File("/etc/evil", "x")], "is absolute"),
        (&[Link("a", "../outside")], "leads out of the root"),
        (&[Link("a/b", "../../outside")], "leads out of the root"),
        (&[Directory("a/b/c"), Link("a/b/c/root", "../../.."), Link("x", "a/b/c/root/../outside")], "leads out of the root"),
        // Harmless when it is made; a later link turns it outward.
        (&[Link("x", "d/../.."), Link("d", "e/f"), Directory("e/f"), Link("e/f", ".")], "leads out of the root"),
        (&[Link("a", "b"), Link("b", "a"), File("a/x", "1")], "goes through too many links"),
        (&[Hard("a", "../../etc/passwd")], "contains \"..\""),
        (&[Hard("a", "etc/passwd")], "is a hard link to what is not unpacked"),
    ];
    for (entries, problem) in cases {
        let directory = tempfile::tempdir().unwrap();
        let layers = layers(directory.path(), &[archive(entries)]);
        let root = directory.path().join("deep/er/root");
        std::fs::create_dir_all(&root).unwrap();
        for error in
            [unpack(&layers, &root, &UnpackOptions::default()).unwrap_err(), read_files(&layers, &UnpackOptions::default()).unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::UnsafePath, "{error}");
            assert!(error.to_string().starts_with("layer 0: ") && error.to_string().ends_with(problem), "{error}");
        }
        for outside in ["deep/er/evil", "deep/er/outside", "deep/evil", "evil"] {
            assert!(!directory.path().join(outside).exists());
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The head of a file of 10 GB, and some of its zeros, compressed.
fn bomb() -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("configs/zeros").unwrap();
    header.set_size(10 << 30);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(4 << 20, 0);
    gzip(&bytes)
}

/// Ten gigabytes of zeros are refused at the head of the entry, wanted or not, and many small files at the count.
#[test]
fn sizes_are_limited_before_they_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let layers_of = |archives: &[Vec<u8>]| layers(directory.path(), archives);
    let says = |layers: &[Layer], keep: &[&str], limits: UnpackLimits| {
        let options = UnpackOptions { keep: keep.iter().map(|path| (*path).to_owned()).collect(), limits, ..UnpackOptions::default() };
        let error = read_files(layers, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        error.to_string()
    };
    let small = UnpackLimits { read_bytes: 1 << 20, ..UnpackLimits::default() };
    assert_eq!(
        says(&layers_of(&[bomb()]), &[], UnpackLimits::default()),
        "layer 0: size of a file in bytes is over the limit of 536870912"
    );
    assert_eq!(says(&layers_of(&[bomb()]), &["manifests"], small), "layer 0: size uncompressed in bytes is over the limit of 1048576");
    let files = archive(&[File("a", "12345"), File("b", "12345"), File("c", "12345")]);
    let total = UnpackLimits { total_bytes: 12, ..UnpackLimits::default() };
    assert_eq!(says(&layers_of(std::slice::from_ref(&files)), &[], total), "layer 0: size of all files in bytes is over the limit of 12");
    let few = UnpackLimits { entries: 2, ..UnpackLimits::default() };
    assert_eq!(says(&layers_of(&[files]), &[], few), "layer 0: number of entries is over the limit of 2");
}

/// A label that names a folder outside is refused before anybody looks there; nothing of it is unpacked.
#[test]
fn wanted_paths_stay_inside() {
    let directory = tempfile::tempdir().unwrap();
    let layers = layers(directory.path(), &[archive(&[File("configs/a", "1")])]);
    for kept in ["../../etc", "configs/../../etc", "configs/.."] {
        let options = UnpackOptions { keep: vec![kept.to_owned()], ..UnpackOptions::default() };
        let root = directory.path().join("root");
        for error in [unpack(&layers, &root, &options).unwrap_err(), read_files(&layers, &options).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::UnsafePath, "{error}");
            assert_eq!(error.to_string(), format!("path in the image: {kept:?}: contains \"..\""));
        }
    }
}

/// A long name or an extended header that never ends, one large file under many names, and folders that are only implied.
#[test]
fn small_archives_do_not_grow_without_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |bytes: Vec<u8>, limits: UnpackLimits| {
        let layers = layers(directory.path(), &[bytes]);
        let error = read_files(&layers, &UnpackOptions { limits, ..UnpackOptions::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        error.to_string()
    };
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(64 << 20);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(65 << 20, b'a');
        assert_eq!(
            refused(gzip(&bytes), UnpackLimits::default()),
            "layer 0: size of the head of an entry in bytes is over the limit of 1048576",
            "{kind:?}"
        );
    }
    let names = ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"];
    let mut entries = vec![File("big", "0123456789")];
    entries.extend(names.map(|name| Link(name, "big")));
    let total = UnpackLimits { total_bytes: 50, ..UnpackLimits::default() };
    assert_eq!(refused(archive(&entries), total), "layer 0: size of all files in bytes is over the limit of 50");

    let deep = "a/".repeat(45) + "x";
    let few = UnpackLimits { entries: 20, ..UnpackLimits::default() };
    assert_eq!(refused(archive(&[File(&deep, "1")]), few), "layer 0: number of entries is over the limit of 20");

    // What is large, but no head, is not counted as one.
    let large = "x".repeat(3 << 20);
    let good = archive(&[File("a", &large), File("b", "1"), File("c", &large), Link("d", "b")]);
    let files = read_files(&layers(directory.path(), &[gzip(&good)]), &UnpackOptions::default()).unwrap();
    assert_eq!((files["c"].len(), files["d"].as_slice()), (3 << 20, b"1".as_slice()));
}

/// The same content compressed in each way; only what is wanted; and archives that break off.
#[test]
fn compressions_filters_and_broken_archives() {
    let directory = tempfile::tempdir().unwrap();
    let plain = archive(&[File("configs/a", "1"), File("bin/opm", "2"), Link("configs/l", "a"), File("configsx", "3")]);
    let zstd = zstd::encode_all(plain.as_slice(), 1).unwrap();
    let options = UnpackOptions { keep: vec!["/configs/".to_owned()], ..UnpackOptions::default() };
    for bytes in [plain.clone(), gzip(&plain), zstd] {
        let files = read_files(&layers(directory.path(), &[bytes]), &options).unwrap();
        assert_eq!(files, BTreeMap::from([("configs/a".to_owned(), b"1".to_vec()), ("configs/l".to_owned(), b"1".to_vec())]));
    }
    for broken in [gzip(&plain)[..60].to_vec(), plain[..700].to_vec(), b"not an archive at all, but long enough".repeat(30)] {
        let error = read_files(&layers(directory.path(), &[broken]), &UnpackOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Content, "{error}");
    }
}

/// OLM1-GEN-09: at the start complete entries stay and are used again; incomplete, changed and foreign ones go, and nothing beside the
/// cache is touched.
#[test]
fn the_cache_is_checked_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let beside = directory.path().join("beside");
    std::fs::write(&beside, "mine").unwrap();
    let cache = Cache::open(directory.path().join("unpack")).unwrap();
    let (good, changed, partial) = (Digest::of(b"good"), Digest::of(b"changed"), Digest::of(b"partial"));
    let write = |path: &Path| {
        std::fs::create_dir(path.join("configs")).unwrap();
        std::fs::write(path.join("configs/a"), "1").unwrap();
        Ok(())
    };
    let kept = cache.fill("catalog", &good, write).unwrap();
    let mended = cache.fill("catalog", &changed, write).unwrap();
    std::fs::write(mended.join("configs/a"), "2").unwrap();
    let half: PathBuf = cache.root().join("catalog").join(partial.as_str());
    std::fs::create_dir(&half).unwrap();
    std::fs::create_dir_all(cache.root().join("catalog/.incoming-x/y")).unwrap();
    std::fs::write(cache.root().join("catalog/notes.txt"), "").unwrap();
    std::fs::write(cache.root().join("stray"), "").unwrap();
    assert_eq!(cache.get("catalog", &partial).unwrap(), None);

    let mut removed: Vec<_> = cache.verify().unwrap().into_iter().map(|removed| (removed.path, removed.reason)).collect();
    removed.sort();
    let inside = |name: &str| cache.root().join(name);
    let mut expected = vec![
        (inside("catalog/.incoming-x"), "incomplete"),
        (mended.clone(), "changed since it was unpacked"),
        (PathBuf::from(format!("{}.complete", mended.display())), "incomplete"),
        (half, "incomplete"),
        (inside("catalog/notes.txt"), "foreign"),
        (inside("stray"), "foreign"),
    ];
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(cache.get("catalog", &good).unwrap(), Some(kept.clone()));
    assert_eq!(cache.fill("catalog", &good, |_| panic!("unpacked again")).unwrap(), kept);
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "mine");
    assert_eq!(cache.verify().unwrap(), []);

    let failing = cache.fill("catalog", &partial, |path| {
        std::fs::write(path.join("x"), "").unwrap();
        Err(mainstay_oci::Error::Content { subject: "layer".to_owned(), problem: "broken".to_owned() })
    });
    assert!(failing.is_err());
    assert_eq!(cache.verify().unwrap(), []);
    assert!(cache.get("../beside", &good).is_err());
    cache.retain("catalog", &[]).unwrap();
    assert!(!kept.exists());
    assert_eq!(cache.retain_names(["other"]).unwrap(), Vec::<String>::new());
}
