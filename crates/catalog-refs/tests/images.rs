//! Images of registries and of archives: pulled once, and opened wherever they lie.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;
use std::path::Path;

use mainstay_catalog::Limits;
use mainstay_catalog_refs::{Access, BoxError, CATALOG_LABEL, Content, Error, Kind, Names, Place, open, pull_files};
use mainstay_oci::registry::Registry;
use mainstay_oci::{BlobCache, BlobStore, Client, ClientConfig, Image, ImageBuilder, Layout, Platform, Reference, write_docker_archive};

const PACKAGE: &str = "schema: olm.package\nname: app\ndefaultChannel: stable\n";

fn catalog_image(store: &BlobStore, text: &str) -> Image {
    let platform = Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None };
    let builder = ImageBuilder::new().platform(platform).label(CATALOG_LABEL, "/configs");
    builder.file("configs/index.yaml", text.as_bytes().to_vec()).build(store).unwrap()
}

fn no_client() -> Result<Client, BoxError> {
    Err("nothing is pulled here".into())
}

fn children(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// CATLG-32, OLM1-BUILD-03: who opens an image that this user has had before fetches none of it again, and by its digest asks nobody at all.
#[tokio::test]
async fn images_are_pulled_once() {
    let registry = Registry::in_memory();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    tokio::spawn(registry.clone().serve(listener, std::future::pending()));
    let folder = tempfile::tempdir().unwrap();
    let store = BlobStore::open(folder.path().join("built")).unwrap();
    let tag = Reference::parse(&format!("{host}/org/catalog:v1")).unwrap();
    let digest = Client::new(ClientConfig::default()).unwrap().push(&catalog_image(&store, PACKAGE), &store, &tag).await.unwrap();
    let by_digest = tag.at(digest).to_string();

    let cache = folder.path().join("cache");
    // Every client stands for another command.
    let client = || -> Result<Client, BoxError> {
        let cache = BlobCache::open(&cache, 1 << 20)?;
        Ok(Client::new(ClientConfig { cache: Some(cache), ..ClientConfig::default() })?)
    };
    let mut reads = Vec::new();
    for reference in [tag.to_string(), tag.to_string(), by_digest.clone(), by_digest.clone()] {
        for names in [Names::Familiar, Names::Canonical] {
            let opened = open(&reference, &Access { names, ..Access::new(&client, Kind::ANY) }).await.unwrap();
            assert_eq!(opened.kind, Kind::CATALOG_IMAGE);
            assert_eq!(children(&cache.join("work")), 0, "what was pulled is let go as soon as it is unpacked");
            assert_eq!(opened.into_catalog(&Limits::default()).unwrap().packages[0].name.as_str(), "app");
        }
        let counts = registry.counts();
        reads.push((counts.manifest_reads, counts.blob_reads));
    }
    assert_eq!(reads, [(2, 2), (4, 2), (4, 2), (4, 2)], "the manifest of a tag may have changed, the rest cannot");

    // Files of bundles come the same way.
    pull_files(&client().unwrap(), &by_digest).await.unwrap();
    assert_eq!(registry.counts().blob_reads, 2);
    // What was damaged on this disk is fetched anew.
    for blob in std::fs::read_dir(cache.join("blobs/sha256")).unwrap() {
        std::fs::write(blob.unwrap().path(), "damaged").unwrap();
    }
    open(&by_digest, &Access::new(&client, Kind::ANY)).await.unwrap();
    assert_eq!(registry.counts().blob_reads, 4);
}

/// CATLG-51: archives of `skopeo`, `podman save` and `docker save`, compressed or not, are references; of several images one is named.
#[tokio::test]
async fn archives_are_references() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path().join("layout")).unwrap();
    let image = catalog_image(layout.store(), PACKAGE);
    layout.add("quay.io/org/catalog:v1", &image).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    layout.write_archive(Path::new(&at("oci.tar"))).unwrap();
    write_docker_archive(&image, layout.store(), &["quay.io/org/catalog:v1".to_owned()], Path::new(&at("docker.tar"))).unwrap();
    for name in ["oci.tar", "docker.tar"] {
        let mut gzip =
            flate2::write::GzEncoder::new(std::fs::File::create(at(&format!("{name}.gz"))).unwrap(), flate2::Compression::fast());
        gzip.write_all(&std::fs::read(at(name)).unwrap()).unwrap();
        gzip.finish().unwrap();
    }
    let archive = Kind { content: Content::Catalog, place: Place::Archive };
    for name in ["oci.tar", "docker.tar", "oci.tar.gz", "docker.tar.gz", "oci.tar:quay.io/org/catalog:v1"] {
        let opened = open(&at(name), &Access::new(&no_client, Kind::CATALOGS)).await.unwrap();
        assert_eq!(opened.kind, archive, "{name}");
        assert_eq!(opened.into_catalog(&Limits::default()).unwrap().packages[0].name.as_str(), "app");
    }

    let other = catalog_image(layout.store(), &PACKAGE.replace("app", "other"));
    layout.add("quay.io/org/catalog:v2", &other).unwrap();
    layout.write_archive(Path::new(&at("both.tar"))).unwrap();
    let refused = async |name: &str, accept: &[Kind]| open(&at(name), &Access::new(&no_client, accept)).await.unwrap_err();
    let both = refused("both.tar", Kind::CATALOGS).await.to_line();
    assert!(
        both.ends_with(
            "both.tar\": the layout holds 2 images; name one (the images are called quay.io/org/catalog:v1, quay.io/org/catalog:v2)"
        ),
        "{both}"
    );
    let second = open(&at("both.tar:quay.io/org/catalog:v2"), &Access::new(&no_client, Kind::CATALOGS)).await.unwrap();
    assert_eq!(second.into_catalog(&Limits::default()).unwrap().packages[0].name.as_str(), "other");
    assert!(refused("both.tar:v3", Kind::CATALOGS).await.to_line().contains("holds no image of that name"));
    let bundles = refused("oci.tar", Kind::BUNDLES).await.to_string();
    assert_eq!(bundles, "cannot render declarative config image archive: not allowed");

    // A file of a catalog is one compressed too; half an archive is none; opm knows neither.
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(at("c.yaml.gz")).unwrap(), flate2::Compression::fast());
    gzip.write_all(PACKAGE.as_bytes()).unwrap();
    gzip.finish().unwrap();
    assert_eq!(open(&at("c.yaml.gz"), &Access::new(&no_client, Kind::CATALOGS)).await.unwrap().kind, Kind::CATALOG_FILE);
    let bytes = std::fs::read(at("oci.tar")).unwrap();
    std::fs::write(at("half.tar"), &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(refused("half.tar", Kind::CATALOGS).await, Error::Pull { .. }));
    let opm = refused("oci.tar", Kind::OPM_RENDER).await.to_string();
    assert!(opm.ends_with("has unsupported file type: {{application x-tar application/x-tar} tar}"), "{opm}");
}
