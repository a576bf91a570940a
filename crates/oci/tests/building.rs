//! Images on a base, for several platforms, as archives, and as Docker has them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Running, client, image, store};
use mainstay_oci::registry::Access;
use mainstay_oci::{
    BlobStore, ClientConfig, Compression, ErrorKind, Format, Image, ImageBuilder, ImageFile, ImageIndex, Layer, Layout, Platform,
    UnpackOptions, media_type, read_files, write_docker_archive,
};
use serde_json::{Value, json};

const LABEL: &str = "operators.operatorframework.io.index.configs.v1";

fn platform(text: &str) -> Platform {
    text.parse().unwrap()
}

/// A base with a program, settings of its own and a content that is to be hidden.
fn base(store: &BlobStore, architecture: &str) -> Image {
    ImageBuilder::new()
        .file("bin/opm", ImageFile { bytes: format!("program for {architecture}").into_bytes(), executable: true })
        .file("configs/old/catalog.json", b"{}".to_vec())
        .label("vendor", "somebody")
        .entrypoint(["/bin/sh"])
        .command(["-c", "true"])
        .variable("PATH", "/bin")
        .user("1001")
        .platform(platform(&format!("linux/{architecture}")))
        .build(store)
        .unwrap()
}

fn config(image: &Image, store: &BlobStore) -> Value {
    serde_json::from_slice(&store.read(&image.manifest.config.digest, 1 << 20).unwrap()).unwrap()
}

/// CATLG-31, CATLG-51: a base's layers are mounted in its own registry and copied to another; its configuration is inherited by the rules of
/// Dockerfiles; what the new layer hides is gone.
#[tokio::test]
async fn a_base_lies_below() {
    let (here, elsewhere) = (Running::start(Access::Open).await, Running::start(Access::Open).await);
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    let below = here.reference("org/opm:v1");
    client.push(&base(&from, "amd64"), &from, &below).await.unwrap();

    let (_to, to) = store();
    let inspected = client.for_platform(platform("linux/amd64")).inspect(&below, &to).await.unwrap();
    assert!(!to.has(&inspected.manifest.layers[0].digest), "an inspected image has no layers here");
    let built = ImageBuilder::new()
        .base(inspected.clone())
        .emptied("/configs")
        .file("configs/new/catalog.json", b"[]".to_vec())
        .label(LABEL, "/configs")
        .entrypoint(["/bin/opm"])
        .command(["serve", "/configs"])
        .variable("PATH", "/usr/bin")
        .variable("A", "b")
        .working_directory("/tmp")
        .port("50051")
        .build(&to)
        .unwrap();
    let written = config(&built, &to);
    assert_eq!(
        written["config"],
        json!({"Labels": {"vendor": "somebody", LABEL: "/configs"}, "Entrypoint": ["/bin/opm"], "Cmd": ["serve", "/configs"],
            "Env": ["PATH=/usr/bin", "A=b"], "User": "1001", "WorkingDir": "/tmp", "ExposedPorts": {"50051/tcp": {}}})
    );
    assert_eq!(written["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
    assert_eq!(built.manifest.layers[0].digest, inspected.manifest.layers[0].digest);

    let before = here.registry.counts();
    client.push_built(&built, &to, &here.reference("org/catalog:v1"), std::slice::from_ref(&below)).await.unwrap();
    let after = here.registry.counts();
    assert_eq!((after.blob_writes - before.blob_writes, after.blob_reads - before.blob_reads), (2, 0), "the base's layer is mounted");
    client.push_built(&built, &to, &elsewhere.reference("org/catalog:v1"), &[below]).await.unwrap();
    for server in [&here, &elsewhere] {
        let (_pulled, pulled) = store();
        let image = client.pull(&server.reference("org/catalog:v1"), &pulled).await.unwrap();
        assert_eq!(image.digest, built.digest);
        let files = read_files(&Layer::of(&image, &pulled), &UnpackOptions::default()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["bin/opm", "configs/new/catalog.json"]);
    }
    // What is nowhere to be had is said so.
    let (_lost, lost) = store();
    let manifest = client.inspect(&here.reference("org/catalog:v1"), &lost).await.unwrap();
    let error = client.push_built(&manifest, &lost, &elsewhere.reference("org/other:v1"), &[]).await.unwrap_err().to_string();
    assert!(error.ends_with("is neither here nor is it known where to get it"), "{error}");
}

/// CATLG-51: an index of several platforms, from which each takes its own.
#[tokio::test]
async fn one_reference_for_several_platforms() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    for format in [Format::Oci, Format::Docker] {
        let build = |name: &str| {
            let builder = ImageBuilder::new().file("arch", name.as_bytes().to_vec()).format(format);
            builder.platform(platform(&format!("linux/{name}"))).build(&from).unwrap()
        };
        let index = ImageIndex::build(vec![build("amd64"), build("arm64/v8")], &from).unwrap();
        let target = server.reference(&format!("org/{format:?}:v1").to_lowercase());
        assert_eq!(client.push_index(&index, &from, &target, &[]).await.unwrap(), index.descriptor.digest);
        for name in ["amd64", "arm64/v8"] {
            let (_to, to) = store();
            let pulled = client.for_platform(platform(&format!("linux/{name}"))).pull(&target, &to).await.unwrap();
            assert_eq!(pulled.digest, index.descriptor.digest);
            assert_eq!(read_files(&Layer::of(&pulled, &to), &UnpackOptions::default()).unwrap()["arch"], name.as_bytes());
        }
        let (_to, to) = store();
        let missing = client.for_platform(platform("linux/s390x")).pull(&target, &to).await.unwrap_err().to_string();
        assert!(missing.ends_with("no image for platform linux/s390x; the index offers [linux/amd64 linux/arm64/v8]"), "{missing}");
        let resolved = client.resolve(&target).await.unwrap();
        let expected = if format == Format::Oci { media_type::OCI_INDEX } else { media_type::DOCKER_LIST };
        assert_eq!(resolved.media_type, expected);
    }
}

/// CATLG-51, OLM0-BUNDLE-13: Docker's and OCI's manifests, with layers of every compression, hold the same files.
#[tokio::test]
async fn formats_and_compressions() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    for (format, compression) in [
        (Format::Oci, Compression::Gzip),
        (Format::Oci, Compression::Zstd),
        (Format::Oci, Compression::None),
        (Format::Docker, Compression::Gzip),
        (Format::Docker, Compression::None),
    ] {
        let built = ImageBuilder::new().file("a", b"content".to_vec()).format(format).compression(compression).build(&from).unwrap();
        let target = server.reference(&format!("org/a:{format:?}-{compression:?}"));
        client.push(&built, &from, &target).await.unwrap();
        let (_to, to) = store();
        let pulled = client.pull(&target, &to).await.unwrap();
        assert_eq!(read_files(&Layer::of(&pulled, &to), &UnpackOptions::default()).unwrap()["a"], b"content");
        let docker = pulled.manifest.layers[0].media_type.starts_with("application/vnd.docker.");
        assert_eq!(docker, format == Format::Docker);
    }
    let refused = ImageBuilder::new().format(Format::Docker).compression(Compression::Zstd).build(&from).unwrap_err();
    assert!(refused.to_string().contains("a Docker manifest has no zstd layers"), "{refused}");
    // A base of one kind below an image of the other keeps its bytes under the other's name.
    let docker = ImageBuilder::new().file("a", b"1".to_vec()).format(Format::Docker).build(&from).unwrap();
    let above = ImageBuilder::new().base(docker.clone()).file("b", b"2".to_vec()).build(&from).unwrap();
    assert_eq!(above.manifest.layers[0].digest, docker.manifest.layers[0].digest);
    assert_eq!(above.manifest.layers[0].media_type, media_type::OCI_LAYER_GZIP);
}

/// CATLG-51: archives as `podman save` and `docker save` write them come back as the same image.
#[test]
fn archives_make_the_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path().join("layout")).unwrap();
    let built = image(layout.store());
    layout.add("quay.io/org/widget:v1", &built).unwrap();
    let oci = folder.path().join("oci.tar");
    layout.write_archive(&oci).unwrap();
    let again = Layout::read_archive(&oci, &folder.path().join("again")).unwrap();
    assert_eq!(again.image(Some("quay.io/org/widget:v1"), &Platform::default()).unwrap(), built);

    let docker = folder.path().join("docker.tar");
    write_docker_archive(&built, layout.store(), &["quay.io/org/widget:v1".to_owned()], &docker).unwrap();
    let saved = Layout::read_archive(&docker, &folder.path().join("saved")).unwrap();
    let image = saved.image(Some("quay.io/org/widget:v1"), &Platform::default()).unwrap();
    assert_eq!(image.config, built.config);
    let files = |image: &Image, store: &BlobStore| read_files(&Layer::of(image, store), &UnpackOptions::default()).unwrap();
    assert_eq!(files(&image, saved.store()), files(&built, layout.store()));

    // Half an archive, one with other bytes under a digest, and what is none.
    let bytes = std::fs::read(&oci).unwrap();
    let broken = folder.path().join("broken.tar");
    std::fs::write(&broken, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(Layout::read_archive(&broken, &folder.path().join("b1")).unwrap_err().kind(), ErrorKind::Content);
    let at = bytes.windows(10).position(|window| window.starts_with(&[0x1f, 0x8b])).unwrap() + 20;
    let mut changed = bytes.clone();
    changed[at] ^= 1;
    std::fs::write(&broken, &changed).unwrap();
    assert_eq!(Layout::read_archive(&broken, &folder.path().join("b2")).unwrap_err().kind(), ErrorKind::DigestMismatch);
    std::fs::write(&broken, b"not a tar").unwrap();
    assert_eq!(Layout::read_archive(&broken, &folder.path().join("b3")).unwrap_err().kind(), ErrorKind::Content);
}

/// What is no image of files is refused before anything is fetched.
#[tokio::test]
async fn foreign_and_strange_layers_are_refused() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    for (kind, words) in [
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "may not be distributed (a foreign layer)"),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "may not be distributed (a foreign layer)"),
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "is no archive of files, so this is not an image of files"),
    ] {
        let (_from, from) = store();
        let mut odd = image(&from);
        odd.manifest.layers[0].media_type = kind.to_owned();
        let bytes = serde_json::to_vec(&odd.manifest).unwrap();
        from.write(&bytes).unwrap();
        odd.descriptor = mainstay_oci::Descriptor::of(media_type::OCI_MANIFEST, &bytes);
        let target = server.reference("org/odd:v1");
        client.push(&odd, &from, &target).await.unwrap();
        let (_to, to) = store();
        let error = client.pull(&target, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Content);
        assert!(error.to_string().contains(words), "{error}");
        assert!(!to.has(&odd.manifest.layers[0].digest));
    }
}
