//! Images: layers, manifests, and the files that say how registries are reached.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mainstay_oci::mirror::Record;
use mainstay_oci::{
    Credentials, Document, ErrorKind, ImageBuilder, Layer, Layout, Platform, Reference, Registries, UnpackLimits, UnpackOptions,
    parse_manifest, read_files, unpack,
};

/// Small enough that a bomb is noticed, and that a run stays short.
const LIMITS: UnpackLimits = UnpackLimits {
    total_bytes: 1 << 20,
    file_bytes: 1 << 18,
    entries: 2000,
    links: 500,
    read_bytes: 4 << 20,
    written_bytes: 3 << 20,
    free_bytes: 2 << 20,
    ratio: 50,
};
const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Nothing gets out of the root, no link leads out of it, limits hold, and in memory a layer holds what it holds on disk.
///
/// Bytes are a layer; text that begins with `entries` describes layers line by line: `f PATH`, `x PATH`, `d PATH`, `l PATH TARGET`,
/// `h PATH TARGET`, and `--` before the next layer.
pub(crate) fn layers(data: &[u8]) {
    let archives = match std::str::from_utf8(data).ok().and_then(|text| text.strip_prefix("entries\n")) {
        Some(text) => text.split("\n--\n").map(described).collect(),
        None => vec![data.to_vec()],
    };
    hold(&archives);
}

/// What has to hold for the layers of any image.
pub(crate) fn hold(archives: &[Vec<u8>]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let mut stack = Vec::new();
    for (number, bytes) in archives.iter().enumerate().take(8) {
        let path = folder.path().join(format!("layer-{number}"));
        if fs::write(&path, bytes).is_err() {
            return;
        }
        stack.push(Layer { name: format!("layer {number}"), path });
    }
    let options = UnpackOptions { limits: LIMITS, ..UnpackOptions::default() };
    let root = folder.path().join("outside").join("root");
    if fs::create_dir_all(&root).is_err() {
        return;
    }
    let on_disk = unpack(&stack, &root, &options);
    let in_memory = read_files(&stack, &options);
    // In memory each link to a file is a copy, for which there may be no room.
    let full = in_memory.as_ref().is_err_and(|error| error.kind() == ErrorKind::Limit);
    assert!(full || on_disk.is_ok() == in_memory.is_ok(), "{on_disk:?} {:?}", in_memory.as_ref().err());
    assert!(on_disk.as_ref().is_ok_and(|unpacked| unpacked.steps <= 1_000_000 + 64 * LIMITS.entries) || on_disk.is_err());
    let beside: Vec<_> =
        fs::read_dir(folder.path().join("outside")).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(beside, ["root"]);
    let mut files = BTreeMap::new();
    walk(&root, &root, &mut files);
    if let (Ok(unpacked), Ok(in_memory)) = (on_disk, in_memory) {
        assert_eq!(unpacked.bytes, files.values().map(|bytes| bytes.len() as u64).sum::<u64>());
        assert!(unpacked.bytes <= LIMITS.total_bytes && unpacked.written <= LIMITS.written_bytes);
        for (path, bytes) in &files {
            assert_eq!(in_memory.get(path), Some(bytes), "{path}");
        }
    }
}

/// Collects regular files, and checks links.
fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            walk(root, &path, files);
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap_or_default();
            assert!(target.is_relative(), "{} -> {}", path.display(), target.display());
            if let (Ok(leads), Ok(root)) = (path.canonicalize(), root.canonicalize()) {
                assert!(leads.starts_with(root), "{} leads to {}", path.display(), leads.display());
            }
        } else {
            let name = path.strip_prefix(root).map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            files.insert(name, fs::read(&path).unwrap_or_default());
        }
    }
}

/// The archive of some described entries. What a tar header cannot hold is left out.
fn described(text: &str) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for line in text.lines().take(200) {
        let mut words = line.split(' ');
        let (Some(kind), Some(path)) = (words.next(), words.next()) else { continue };
        let mut header = tar::Header::new_gnu();
        header.set_mode(if kind == "x" { 0o755 } else { 0o644 });
        header.set_size(0);
        let (entry, content): (_, &[u8]) = match kind {
            "f" | "x" => (tar::EntryType::Regular, path.as_bytes()),
            "d" => (tar::EntryType::Directory, b""),
            "l" => (tar::EntryType::Symlink, b""),
            "h" => (tar::EntryType::Link, b""),
            _ => continue,
        };
        header.set_entry_type(entry);
        header.set_size(content.len() as u64);
        // The crate's own setters refuse what an attacker would write.
        set(&mut header.as_old_mut().name, path);
        set(&mut header.as_old_mut().linkname, words.next().unwrap_or_default());
        header.set_cksum();
        if archive.append(&header, content).is_err() {
            break;
        }
    }
    archive.into_inner().unwrap_or_default()
}

fn set(field: &mut [u8; 100], text: &str) {
    let length = text.len().min(99);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}

pub(crate) fn layer_seeds() -> Vec<Vec<u8>> {
    vec![
        b"entries\nd a\nf a/b\nl c a\nf c/d\nl up ../..\nf up/x\n".to_vec(),
        b"entries\nf a/b\nx a/c\nl l a/b\nh m a/b\n--\nf a/.wh.b\nf a/.wh..wh..opq\nf a/n\n--\nl a /\nf a/x\nh y l\n".to_vec(),
        b"entries\nl a b\nl b a\nf a/x\nf ../x\nf /etc/x\nl abs /a/b\nf abs\nd abs\n".to_vec(),
        described("d a\nf a/b\nl c a/b\n"),
    ]
}

/// Manifests, indexes and configurations are read or refused, never both; what is read has no more parts than are allowed.
pub(crate) fn manifests(data: &[u8]) {
    match parse_manifest("fuzz", data) {
        Ok(Document::Image(manifest)) => {
            assert!(manifest.layers.len() <= 512);
            if let Ok(again) = serde_json::to_vec(&manifest) {
                assert!(matches!(parse_manifest("fuzz", &again), Ok(Document::Image(same)) if same == manifest));
            }
        }
        Ok(Document::Index(index)) => {
            assert!(index.manifests.len() <= 512);
            for platform in index.manifests.iter().filter_map(|entry| entry.platform.as_ref()) {
                assert!(index.select("fuzz", platform).is_ok());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz: "), "{error}"),
    }
    let Ok(folder) = tempfile::tempdir() else { return };
    let _ = Record::read("fuzz", data);
    if let Ok(layout) = Layout::create(folder.path()) {
        let _written = fs::write(folder.path().join("index.json"), data);
        let _image = layout.image(None, &Platform::default());
        let _names = layout.names();
    }
}

pub(crate) fn manifest_seeds() -> Vec<Vec<u8>> {
    let descriptor = |kind: &str| {
        format!(
            "{{\"mediaType\":\"{kind}\",\"digest\":\"{DIGEST}\",\"size\":3,\"platform\":{{\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\"}}}}"
        )
    };
    vec![
        format!("{{\"schemaVersion\":2,\"config\":{},\"layers\":[{}],\"annotations\":{{\"a\":\"b\"}}}}", descriptor("c"), descriptor("l")).into_bytes(),
        format!("{{\"schemaVersion\":2,\"mediaType\":\"i\",\"manifests\":[{},{}]}}", descriptor("a"), descriptor("b")).into_bytes(),
        format!("{{\"version\":1,\"catalog\":\"a/b:c\",\"images\":[{{\"source\":\"a\",\"target\":\"b\",\"place\":\"c\",\"digest\":\"{DIGEST}\",\"manifests\":[]}}]}}").into_bytes(),
    ]
}

/// A file of rules is read or refused with its name; whatever it says, an image is looked for only in well-formed places.
pub(crate) fn registries(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut registries = match Registries::parse("registries.conf", text) {
        Ok(registries) => registries,
        Err(error) => {
            assert!(error.to_string().starts_with("registries.conf: "), "{error}");
            return;
        }
    };
    registries.extend(registries.clone());
    for name in ["quay.io/org/a:v1".to_owned(), format!("a.b.example:5000/x@{DIGEST}"), "short".to_owned()] {
        let Ok(reference) = registries.reference(&name) else { continue };
        for source in registries.sources(&reference).unwrap_or_default() {
            let place = source.reference;
            assert_eq!(place.version(), reference.version());
            assert!(!place.registry().is_empty() && !place.repository().is_empty() && !place.registry().contains('/'));
            assert_eq!(Reference::parse(&place.to_string()).ok(), Some(place), "a mirror gives a reference that is none");
        }
    }
}

pub(crate) fn registry_seeds() -> Vec<Vec<u8>> {
    vec![
        b"unqualified-search-registries = ['quay.io']\n[aliases]\n'short' = 'quay.io/org/short'\n[[registry]]\nprefix = 'quay.io'\nlocation = 'm.example/x'\nblocked = false\n[[registry.mirror]]\nlocation = 'mirror.example:5000/quay'\npull-from-mirror = 'digest-only'\n".to_vec(),
        b"[[registry]]\nprefix = '*.b.example'\ninsecure = true\n[[registry]]\nlocation = 'quay.io/org/a'\nblocked = true\n".to_vec(),
        b"short-name-mode = 'enforcing'\ncredential-helpers = ['containers-auth.json', 'x']\n[[registry]]\nlocation = 'quay.io/org'\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = 'm.example'\ninsecure = true\n".to_vec(),
    ]
}

/// Auth files are read or refused with their name, and no password is ever shown.
pub(crate) fn auth_files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for read in [Credentials::parse, Credentials::parse_legacy] {
        match read("auth.json", text) {
            Ok(credentials) => {
                let shown = format!("{credentials:?}");
                assert!(!shown.contains("pa55word"), "{shown}");
                let _found = credentials.find("quay.io", "org/a");
            }
            Err(error) => {
                let shown = error.to_string();
                assert!(shown.starts_with("auth.json: "), "{shown}");
            }
        }
    }
}

pub(crate) fn auth_seeds() -> Vec<Vec<u8>> {
    vec![
        br#"{"auths": {"https://index.docker.io/v1/": {"auth": "dTpwYTU1d29yZA=="}, "quay.io/org": {"username": "a", "password": "pa55word"}}}"#.to_vec(),
        br#"{"auths": {"ghcr.io": {"identitytoken": "pa55word"}, "quay.io": {}}, "credHelpers": {"gcr.io": "gcloud"}, "credsStore": "desktop"}"#.to_vec(),
        br#"{"quay.io": {"auth": "YTpwYTU1d29yZA", "email": "x"}}"#.to_vec(),
    ]
}

/// Labels and paths of whatever kind make an image that holds exactly them, or are refused.
pub(crate) fn builds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(folder) = tempfile::tempdir() else { return };
    let Ok(store) = mainstay_oci::BlobStore::open(folder.path()) else { return };
    let paths: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(50).collect();
    let builder = ImageBuilder::new().files(paths.iter().map(|path| (*path, path.as_bytes().to_vec()))).label("text", text);
    let Ok(image) = builder.build(&store) else { return };
    assert_eq!(image.config.config.labels.get("text").map(String::as_str), Some(text));
    if let Ok(files) = read_files(&Layer::of(&image, &store), &UnpackOptions::default()) {
        for path in &paths {
            let name = path.trim_start_matches('/');
            // A path below another file, or one that means a whiteout, takes that away.
            if let Some(bytes) = files.get(name) {
                assert!(paths.iter().any(|other| other.trim_start_matches('/') == name && other.as_bytes() == bytes));
            }
        }
    }
}

pub(crate) fn build_seeds() -> Vec<Vec<u8>> {
    vec![b"configs/a.json\nconfigs/b/c.yaml\n/bin/opm\n".to_vec(), b"a\na/b\n.wh.a\nc/.wh..wh..opq\nc/d\n".to_vec()]
}
