//! The same payload from every place, and images that are refused.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mainstay_oci::registry::Registry;
use mainstay_oci::{
    BlobStore, Client, ClientConfig, Compression, Format, Image, ImageBuilder, ImageIndex, Layout, Platform, Reference,
    write_docker_archive,
};
use mainstay_release_source::{Limits, Place, ReadError, Release, image, read, tar};
use tempfile::TempDir;

/// Files of the first layer, and of the one above it.
const LOWER: [(&str, &str); 4] = [
    ("manifests/old.yaml", "hidden"),
    ("release-manifests/0000_10_b.yaml", "lower"),
    ("release-manifests/more/c.yaml", "in a folder below"),
    ("etc/passwd", "root"),
];
const UPPER: [(&str, &str); 4] = [
    ("manifests/a.yaml", "a"),
    ("release-manifests/0000_10_b.yaml", "b"),
    ("release-manifests/image-references", "{}"),
    ("release-manifests/release-metadata", "{}"),
];

type Found = BTreeMap<String, String>;

fn found(release: &Release) -> Found {
    let text = |content: &[u8]| String::from_utf8_lossy(content).into_owned();
    release.files.ordered().map(|(folder, name, content)| (format!("{}/{name}", folder.name()), text(content))).collect()
}

fn expected() -> Found {
    let mut files: Found = UPPER.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
    files.retain(|path, _| path != "etc/passwd");
    files
}

/// Builds an image of two layers; the upper one hides the lower one's `manifests`.
fn build(store: &BlobStore, architecture: &str, compression: Compression, format: Format) -> Image {
    let platform = Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None };
    let base = ImageBuilder::new()
        .files(LOWER.map(|(path, content)| (path, content.as_bytes().to_vec())))
        .label("io.openshift.release", "9.9.9")
        .platform(platform)
        .format(format)
        .compression(compression)
        .build(store)
        .unwrap();
    ImageBuilder::new()
        .base(base)
        .emptied("manifests")
        .files(UPPER.map(|(path, content)| (path, content.as_bytes().to_vec())))
        .format(format)
        .compression(compression)
        .build(store)
        .unwrap()
}

/// A registry on a free port, which ends with the test.
async fn registry() -> (Registry, String) {
    let registry = Registry::in_memory();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(registry.clone().serve(listener, std::future::pending()));
    (registry, address)
}

fn client() -> Client {
    Client::new(ClientConfig { insecure: true, ..ClientConfig::default() }).unwrap()
}

async fn from(text: &str) -> Result<Release, ReadError> {
    read(&Place::parse(text)?, || Ok::<_, ReadError>(client()), &Limits::default()).await
}

fn tarred(files: &[(&str, &str)], links: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = ::tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    for (path, target) in links {
        let mut header = ::tar::Header::new_gnu();
        header.set_entry_type(::tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, path, target).unwrap();
    }
    builder.into_inner().unwrap()
}

fn written(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// CVO-REL-08, CVO-RET-06, CVO-SIM-01: registry by tag and by digest, list of platforms, layout, both sorts of archives, tar and compressed tar,
/// folder: one result.
#[tokio::test]
async fn one_payload_from_every_place() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path().join("layout")).unwrap();
    let docker = build(layout.store(), "amd64", Compression::Gzip, Format::Docker);
    let oci = build(layout.store(), "amd64", Compression::Zstd, Format::Oci);
    layout.add("one", &oci).unwrap();
    layout.add("two", &docker).unwrap();
    layout.write_archive(&directory.path().join("oci.tar")).unwrap();
    write_docker_archive(&docker, layout.store(), &["r.example/release:9.9.9".to_owned()], &directory.path().join("docker.tar")).unwrap();

    let (_registry, address) = registry().await;
    let repository = format!("{address}/demo/release");
    let pushed = Reference::parse(&format!("{repository}:9.9.9")).unwrap();
    client().push(&docker, layout.store(), &pushed).await.unwrap();
    let list = ImageIndex::build(
        vec![
            build(layout.store(), "s390x", Compression::Gzip, Format::Oci),
            build(layout.store(), "amd64", Compression::Gzip, Format::Oci),
        ],
        layout.store(),
    )
    .unwrap();
    let multi = Reference::parse(&format!("{repository}:multi")).unwrap();
    client().push_index(&list, layout.store(), &multi, &[]).await.unwrap();

    let files = tarred(&UPPER, &[]);
    written(&directory, "payload.tar", &files);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&files).unwrap();
    let gz = gz.finish().unwrap();
    written(&directory, "payload.tgz", &gz);
    let folder = directory.path().join("folder");
    for (path, content) in UPPER {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    let place = |name: &str| text(&directory.path().join(name));
    for (place, digest) in [
        (pushed.to_string(), Some(&docker.digest)),
        (format!("{repository}@{}", docker.digest), Some(&docker.digest)),
        (multi.to_string(), Some(&list.images[1].digest)),
        (place("layout:one"), Some(&oci.digest)),
        (place("layout:two"), Some(&docker.digest)),
        (place("oci.tar:one"), Some(&oci.digest)),
        (place("docker.tar"), None),
        (place("payload.tar"), None),
        (place("payload.tgz"), None),
        (place("folder"), None),
    ] {
        let release = from(&place).await.unwrap();
        assert_eq!(found(&release), expected(), "{place}");
        if let Some(digest) = digest {
            let image = release.image.unwrap();
            assert_eq!(image.digest, digest.to_string(), "{place}");
            assert_eq!((image.os(), image.architecture(), image.labels().get("io.openshift.release")), ("linux", "amd64", Some(&"9.9.9")));
            assert_eq!(image.layers.len(), 2);
            assert_eq!(image.listed == image.digest, !place.ends_with(":multi"), "{place}");
        }
    }
    assert_eq!(found(&tar(gz.as_slice(), &Limits::default()).unwrap()), expected(), "standard input");
}

/// CVO-REL-08: what `release extract` wrote, as a tar stream.
#[test]
fn a_stream_of_bare_files() {
    let files = [("./release-metadata", "m"), ("./0000_10_b.yaml", "b"), ("./more/c.yaml", "c")];
    let release = tar(tarred(&files, &[]).as_slice(), &Limits::default()).unwrap();
    assert_eq!(found(&release).into_keys().collect::<Vec<_>>(), ["release-manifests/0000_10_b.yaml", "release-manifests/release-metadata"]);
}

/// CVO-RELX-04: a changed layer, of a registry and of a layout, is told as such.
#[tokio::test]
async fn changed_content() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path()).unwrap();
    let built = build(layout.store(), "amd64", Compression::Gzip, Format::Docker);
    layout.add("one", &built).unwrap();
    let (registry, address) = registry().await;
    let reference = Reference::parse(&format!("{address}/demo/release@{}", built.digest)).unwrap();
    client().push(&built, layout.store(), &reference.tagged("x").unwrap()).await.unwrap();
    let layer = &built.manifest.layers[1];
    let size = usize::try_from(layer.size).unwrap();
    registry.corrupt(&layer.digest, vec![7; size]).unwrap();
    fs::write(layout.store().path(&layer.digest), vec![7; size]).unwrap();
    for place in [reference.to_string(), text(directory.path())] {
        let error = from(&place).await.unwrap_err();
        assert!(matches!(error, ReadError::Tampered { .. }), "{place}: {error:?}");
        assert!(error.to_string().contains("may have been tampered with"), "{error}");
    }
}

/// CVO-RELX-04: links that stay in the payload count as the file; others, and paths that leave, are refused, and so is what is no payload.
#[test]
fn links_and_other_content() {
    let link = |path, target| tar(tarred(&UPPER, &[(path, target)]).as_slice(), &Limits::default());
    let inside = link("release-manifests/z.yaml", "0000_10_b.yaml").unwrap();
    assert_eq!(found(&inside).get("release-manifests/z.yaml").map(String::as_str), Some("b"));
    for target in ["/etc/passwd", "../etc/passwd", "missing.yaml"] {
        let error = link("release-manifests/z.yaml", target).unwrap_err();
        assert!(matches!(&error, ReadError::Link { path, .. } if path == "release-manifests/z.yaml"), "{target}: {error:?}");
    }
    let outside = link("release-manifests/z.yaml", "../../etc/passwd").unwrap_err();
    assert!(matches!(&outside, ReadError::Image { error, .. } if error.kind() == mainstay_oci::ErrorKind::UnsafePath), "{outside:?}");
    let empty = tar(tarred(&[("etc/passwd", "x")], &[]).as_slice(), &Limits::default()).unwrap_err();
    assert!(matches!(empty, ReadError::NoPayload(_)), "{empty:?}");
    assert!(matches!(Place::parse("./none"), Err(ReadError::NoFile(_))));
}

/// CVO-RET-06: each limit holds.
#[tokio::test]
async fn limits() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path()).unwrap();
    let built = build(layout.store(), "amd64", Compression::Gzip, Format::Docker);
    let (registry, address) = registry().await;
    let reference = Reference::parse(&format!("{address}/demo/release:1")).unwrap();
    client().push(&built, layout.store(), &reference).await.unwrap();
    let base = Limits::default();
    for (limits, what) in [
        (Limits { image_bytes: 100, ..base }, "size of all layers"),
        (Limits { file_bytes: 1, ..base }, "size of a file"),
        (Limits { payload_bytes: 6, ..base }, "size of all files"),
        (Limits { entries: 3, ..base }, "number of entries"),
        (Limits { expanded_bytes: 1024, ..base }, "size uncompressed"),
    ] {
        let reads = registry.counts().blob_reads;
        let error = image(&client(), &reference, &limits).await.unwrap_err();
        assert!(error.cause().is_some_and(|cause| cause.to_string().contains(what)), "{what}: {error:?}");
        if limits.image_bytes == 100 {
            assert_eq!(registry.counts().blob_reads - reads, 1, "the configuration alone was fetched");
        }
    }
    let none = Limits { deadline: Duration::ZERO, ..base };
    assert!(matches!(image(&client(), &reference, &none).await, Err(ReadError::Deadline { .. })));
}
