//! `catalog build` and `catalog mirror` against registries in this process.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common::{self, Run, command, run};
use mainstay_oci::registry::Registry;
use mainstay_oci::{
    BlobStore, Client, ClientConfig, ErrorKind, Image, ImageBuilder, ImageFile, ImageIndex, Layer, Platform, Reference, Registries,
    UnpackOptions, read_files,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A registry on a port of its own, until it is dropped.
struct Server {
    registry: Registry,
    host: String,
    _runtime: Runtime,
}

impl Server {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let registry = Registry::in_memory();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        runtime.spawn(registry.clone().serve(listener, std::future::pending()));
        Self { registry, host, _runtime: runtime }
    }

    fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.host)).unwrap()
    }
}

/// The test's own view of registries, and a folder for everything.
struct World {
    runtime: Runtime,
    client: Client,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self {
            runtime: Runtime::new().unwrap(),
            client: Client::new(ClientConfig::default()).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> BlobStore {
        BlobStore::open(self.path().join("store")).unwrap()
    }

    fn push(&self, builder: &ImageBuilder, target: &Reference) -> Image {
        let store = self.store();
        let image = builder.build(&store).unwrap();
        self.runtime.block_on(self.client.push(&image, &store, target)).unwrap();
        image
    }

    /// The same content for two platforms; gives the index's digest.
    fn push_for_all(&self, builder: &ImageBuilder, target: &Reference) -> String {
        let store = self.store();
        let build = |platform: &str| builder.clone().platform(platform.parse().unwrap()).build(&store).unwrap();
        let index = ImageIndex::build(vec![build("linux/amd64"), build("linux/arm64")], &store).unwrap();
        self.runtime.block_on(self.client.push_index(&index, &store, target, &[])).unwrap().to_string()
    }

    fn files(&self, client: &Client, reference: &Reference) -> std::collections::BTreeMap<String, Vec<u8>> {
        let store = BlobStore::open(tempfile::tempdir_in(self.path()).unwrap().keep()).unwrap();
        let image = self.runtime.block_on(client.pull(reference, &store)).unwrap();
        read_files(&Layer::of(&image, &store), &UnpackOptions::default()).unwrap()
    }

    fn mirror(&self, code: i32, args: &[&str]) -> Run {
        let mut command = command();
        command.env("HOME", self.path()).current_dir(self.path()).args(["catalog", "mirror"]).args(args);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, code, "{args:?}\n{}\n{}", outcome.stdout, outcome.stderr);
        outcome
    }

    fn outcomes(&self, args: &[&str]) -> Vec<(String, String)> {
        let outcome = self.mirror(0, &[args, &["-o", "json"]].concat());
        let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let item = |image: &Value| (image["source"].as_str().unwrap().to_owned(), image["outcome"].as_str().unwrap().to_owned());
        value["images"].as_array().unwrap().iter().map(item).collect()
    }
}

/// A source with a catalog of two packages, whose bundles share an operand.
struct Source {
    server: Server,
    catalog: Reference,
    digests: Vec<String>,
}

fn bundle(package: &str, version: &str, image: &str, related: &[&str]) -> Value {
    let related: Vec<Value> = related.iter().map(|image| json!({"name": "", "image": image})).collect();
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image, "relatedImages": related,
        "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}]})
}

fn package(name: &str, bundles: &[Value]) -> Vec<Value> {
    let entries: Vec<Value> = bundles.iter().map(|bundle| json!({"name": bundle["name"]})).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    blobs.extend(bundles.iter().cloned());
    blobs
}

fn content(blobs: &[Value]) -> Vec<u8> {
    blobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").into_bytes()
}

fn catalog_image(blobs: &[Value]) -> ImageBuilder {
    ImageBuilder::new()
        .file("configs/catalog.json", content(blobs))
        .file("tmp/cache/digest", b"1".to_vec())
        .file("bin/opm", ImageFile { bytes: b"opm".to_vec(), executable: true })
        .entrypoint(["/bin/opm"])
        .command(["serve", "/configs", "--cache-dir=/tmp/cache"])
        .label("operators.operatorframework.io.index.configs.v1", "/configs")
}

fn source(world: &World) -> Source {
    let server = Server::start();
    let image = |name: &str| ImageBuilder::new().file("name", name.as_bytes().to_vec());
    let beacon = world.push(&image("beacon"), &server.reference("ops/beacon-bundle:v1")).digest;
    let lantern = world.push(&image("lantern"), &server.reference("ops/lantern-bundle:v1")).digest;
    let operand = world.push_for_all(&image("operand"), &server.reference("ops/operand:v1"));
    world.push(&image("tool"), &server.reference("tools/tool:v2"));
    let host = &server.host;
    let operand_image = format!("{host}/ops/operand@{operand}");
    let tool = format!("{host}/tools/tool:v2");
    let blobs = [
        package("beacon", &[bundle("beacon", "1.0.0", &format!("{host}/ops/beacon-bundle@{beacon}"), &[&operand_image, &tool, ""])]),
        package("lantern", &[bundle("lantern", "1.0.0", &format!("{host}/ops/lantern-bundle@{lantern}"), &[&operand_image])]),
    ]
    .concat();
    let catalog = server.reference("ops/index:v4.18");
    world.push_for_all(&catalog_image(&blobs), &catalog);
    Source { catalog, digests: vec![beacon.to_string(), lantern.to_string(), operand], server }
}

fn manifests(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("manifests-")).collect()
}

fn yaml(path: &Path) -> Value {
    mainstay_yaml::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// CATLG-71, CATLG-72, CATLG-73, OLM1-DISC-01, OLM1-DISC-02, OLM1-DISC-03: a catalog with all its images goes to another registry, digests and
/// platforms as they were; what is written for clusters leads there when the source is gone; a second run copies nothing.
#[test]
fn a_catalog_goes_to_another_registry() {
    let world = World::new();
    let source = source(&world);
    let mirror = Server::start();
    let destination = format!("{}/olm", mirror.host);
    let from = source.catalog.to_string();

    let planned = world.mirror(0, &[&from, &destination, "--dry-run"]);
    assert!(planned.stdout.contains(&format!("{destination}/tools/tool:v2")), "{}", planned.stdout);
    assert!(mirror.registry.repositories().is_empty() && manifests(&world).is_empty(), "a dry run writes nothing");

    let outcomes = world.outcomes(&[&from, &destination]);
    assert_eq!(outcomes.len(), 5, "{outcomes:?}");
    assert!(outcomes.iter().all(|(_, outcome)| outcome == "copied"), "{outcomes:?}");
    let expected =
        ["olm/mainstay-mirror", "olm/ops/beacon-bundle", "olm/ops/index", "olm/ops/lantern-bundle", "olm/ops/operand", "olm/tools/tool"];
    assert_eq!(mirror.registry.repositories(), expected);
    for (repository, digest) in ["beacon-bundle", "lantern-bundle", "operand"].iter().zip(&source.digests) {
        let there = mirror.reference(&format!("olm/ops/{repository}@{digest}"));
        assert_eq!(world.runtime.block_on(world.client.resolve(&there)).unwrap().digest.as_str(), digest);
    }
    let writes = mirror.registry.counts().blob_writes;
    let again = world.outcomes(&[&from, &destination]);
    assert!(again.iter().all(|(_, outcome)| outcome == "there"), "{again:?}");
    assert!(mirror.registry.counts().blob_writes <= writes + 2, "only the record is written again");

    let folder = manifests(&world).remove(0);
    assert!(folder.file_name().unwrap().to_string_lossy().starts_with("manifests-index-"));
    let catalog_source = yaml(&folder.join("catalogSource.yaml"));
    assert_eq!(catalog_source["spec"], json!({"sourceType": "grpc", "image": format!("{destination}/ops/index:v4.18")}));
    let catalog = yaml(&folder.join("clusterCatalog.yaml"));
    assert_eq!(catalog["metadata"]["name"], "cc-index-v4-18");
    assert_eq!(catalog["spec"], json!({"source": {"type": "Image", "image": {"ref": format!("{destination}/ops/index:v4.18")}}}));
    let (host, digests) = (&source.server.host, yaml(&folder.join("imageDigestMirrorSet.yaml")));
    let entry = |name: &str| json!({"source": format!("{host}/{name}"), "mirrors": [format!("{destination}/{name}")]});
    assert_eq!(digests["metadata"]["name"], "idms-operator-0");
    assert_eq!(
        digests["spec"]["imageDigestMirrors"],
        json!([entry("ops/beacon-bundle"), entry("ops/lantern-bundle"), entry("ops/operand")])
    );
    let tags = yaml(&folder.join("imageTagMirrorSet.yaml"));
    assert_eq!(
        (tags["metadata"]["name"].as_str(), &tags["spec"]["imageTagMirrors"]),
        (Some("itms-operator-0"), &json!([entry("tools/tool")]))
    );
    let policy = yaml(&folder.join("imageContentSourcePolicy.yaml"));
    assert_eq!(policy["spec"]["repositoryDigestMirrors"], digests["spec"]["imageDigestMirrors"]);
    let mapping = std::fs::read_to_string(folder.join("mapping.txt")).unwrap();
    assert!(mapping.contains(&format!("{host}/tools/tool:v2={destination}/tools/tool:v2\n")), "{mapping}");

    // The source is gone; whoever uses the written configuration does not notice.
    let operand = source.server.reference(&format!("ops/operand@{}", source.digests[2]));
    let tool = source.server.reference("tools/tool:v2");
    drop(source);
    let text = std::fs::read_to_string(folder.join("registries.conf")).unwrap();
    let of_file = Registries::parse("registries.conf", &text).unwrap();
    let mut of_objects = Registries::default();
    of_objects.add_mirror_sets([&digests, &tags]).unwrap();
    for registries in [of_file, of_objects] {
        let client = Client::new(ClientConfig { registries, ..ClientConfig::default() }).unwrap();
        for platform in ["linux/amd64", "linux/arm64"] {
            assert_eq!(world.files(&client.for_platform(platform.parse().unwrap()), &operand)["name"], b"operand");
        }
        assert_eq!(world.files(&client, &tool)["name"], b"tool");
    }
    let plain = BlobStore::open(world.path().join("plain")).unwrap();
    assert_eq!(world.runtime.block_on(world.client.pull(&tool, &plain)).unwrap_err().kind(), ErrorKind::Unreachable);
}

/// CATLG-71: the same through a directory, which needs neither registry while it is carried.
#[test]
fn a_catalog_goes_through_a_directory() {
    let world = World::new();
    let source = source(&world);
    let from = source.catalog.to_string();
    let written = world.outcomes(&[&from, "file://carry"]);
    assert!(written.iter().all(|(_, outcome)| outcome == "copied"), "{written:?}");
    let again = world.outcomes(&[&from, "file://carry"]);
    assert!(again.iter().all(|(_, outcome)| outcome == "there"), "{again:?}");
    let digests = source.digests.clone();
    drop(source);
    let mirror = Server::start();
    let arrived = world.outcomes(&["file://carry", &mirror.host]);
    assert_eq!(arrived.len(), 5);
    assert!(arrived.iter().all(|(_, outcome)| outcome == "copied"), "{arrived:?}");
    let operand = mirror.reference(&format!("ops/operand@{}", digests[2]));
    for platform in ["linux/amd64", "linux/arm64"] {
        assert_eq!(world.files(&world.client.for_platform(platform.parse().unwrap()), &operand)["name"], b"operand");
    }
    assert_eq!(yaml(&manifests(&world)[0].join("clusterCatalog.yaml"))["metadata"]["name"], "cc-index-v4-18");
    let refused = world.mirror(1, &["file://nothing", &mirror.host]);
    assert!(refused.stderr.contains("makes such a directory"), "{}", refused.stderr);
}

/// CATLG-71, CATLG-74, OLM1-DISC-04: with packages chosen the catalog's image is built anew on its own base, for every platform; what a run does not need
/// any more is deleted with --prune, unless another catalog needs it.
#[test]
fn a_selection_is_mirrored_and_the_rest_pruned() {
    let world = World::new();
    let source = source(&world);
    let mirror = Server::start();
    let from = source.catalog.to_string();
    world.outcomes(&[&from, &mirror.host]);
    let held = |digest: &str, name: &str| {
        let there = mirror.reference(&format!("ops/{name}@{digest}"));
        world.runtime.block_on(world.client.resolve(&there)).is_ok()
    };
    assert!(held(&source.digests[1], "lantern-bundle"));
    let other = source.server.reference("ops/other:v1");
    let lantern = format!("{}/ops/lantern-bundle@{}", source.server.host, source.digests[1]);
    world.push(&catalog_image(&package("lantern", &[bundle("lantern", "1.0.0", &lantern, &[])])), &other);
    world.outcomes(&[&other.to_string(), &mirror.host]);

    // Without --prune everything stays, and is remembered.
    let chosen = world.outcomes(&[&from, &mirror.host, "--package", "beacon"]);
    assert_eq!(chosen.len(), 4, "{chosen:?}");
    assert!(held(&source.digests[1], "lantern-bundle"));
    let catalog = mirror.reference("ops/index:v4.18");
    let tree = world.runtime.block_on(world.client.survey(&catalog, &world.store())).unwrap();
    assert_eq!(tree.manifests.len(), 3, "an index of two platforms");
    for platform in ["linux/amd64", "linux/arm64"] {
        let files = world.files(&world.client.for_platform(platform.parse().unwrap()), &catalog);
        let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        assert!(names.contains("bin/opm"), "{names:?}");
        let text = String::from_utf8(files["configs/catalog.json"].clone()).unwrap();
        assert!(text.contains("beacon") && !text.contains("lantern"), "{text}");
    }
    let image = world.runtime.block_on(world.client.inspect(&catalog, &world.store())).unwrap();
    assert_eq!(image.config.config.command, ["serve", "/configs", "--cache-dir=/tmp/cache"]);
    let cache = world.files(&world.client, &catalog);
    assert!(cache.contains_key("tmp/cache/cache/beacon_stable_beacon.v1.0.0.json"), "a cache of what is left");
    assert_ne!(cache["tmp/cache/digest"], b"1");

    let pruned: Value =
        serde_json::from_str(&world.mirror(0, &[&from, &mirror.host, "--package", "beacon", "--prune", "-o", "json"]).stdout).unwrap();
    let deleted: Vec<&str> = pruned["deleted"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(deleted, [catalog.to_string()], "the catalog's former image goes; lantern's bundle is the other catalog's too");
    assert!(held(&source.digests[1], "lantern-bundle") && held(&source.digests[0], "beacon-bundle"));
    let last = world.mirror(0, &[&from, &mirror.host, "--package", "lantern", "--prune", "-o", "json"]).stdout;
    assert!(last.contains("beacon-bundle") && !held(&source.digests[0], "beacon-bundle") && held(&source.digests[2], "operand"), "{last}");

    // In a directory, blobs that nobody needs go as well.
    world.outcomes(&[&from, "file://carry"]);
    let count = || std::fs::read_dir(world.path().join("carry/blobs/sha256")).unwrap().count();
    let before = count();
    world.outcomes(&[&from, "file://carry", "--package", "beacon", "--prune"]);
    assert!(count() < before, "{} of {before}", count());
    let unknown = world.mirror(3, &[&from, &mirror.host, "--package", "becon"]);
    assert!(unknown.stderr.contains("there is beacon"), "{}", unknown.stderr);
}

/// CATLG-71: an image that is missing stops no other, is named, and what is left to do is said.
#[test]
fn what_is_missing_is_named() {
    let world = World::new();
    let server = Server::start();
    let mirror = Server::start();
    let good = world.push(&ImageBuilder::new().file("a", b"a".to_vec()), &server.reference("ops/a:v1")).digest;
    let host = &server.host;
    let blobs = package("a", &[bundle("a", "1.0.0", &format!("{host}/ops/a@{good}"), &[&format!("{host}/ops/gone:v1")])]);
    let catalog = server.reference("ops/index:v1");
    world.push(&catalog_image(&blobs), &catalog);
    let failed = world.mirror(1, &[&catalog.to_string(), &mirror.host]);
    assert!(failed.stderr.contains(&format!("image {host}/ops/gone:v1")) && failed.stderr.contains("answered 404"), "{}", failed.stderr);
    assert!(
        failed.stderr.contains("1 of 3 images could not be copied") && failed.stderr.contains("hint: --continue-on-error"),
        "{}",
        failed.stderr
    );
    assert!(mirror.registry.repositories().contains(&"ops/a".to_owned()) && manifests(&world).is_empty());
    world.mirror(1, &[&catalog.to_string(), &mirror.host, "--continue-on-error"]);
    assert_eq!(manifests(&world).len(), 1);

    // Of an image without a program the cluster takes the files.
    let files = ImageBuilder::new()
        .file("configs/catalog.json", content(&package("a", &[bundle("a", "1.0.0", &format!("{host}/ops/a@{good}"), &[])])));
    let bare = server.reference("ops/bare:v1");
    world.push(&files.label("operators.operatorframework.io.index.configs.v1", "/configs"), &bare);
    world.mirror(0, &[&bare.to_string(), &mirror.host, "--manifests", "bare"]);
    let written = std::fs::read_dir(world.path().join("bare")).unwrap().next().unwrap().unwrap().path();
    let spec = yaml(&written.join("catalogSource.yaml"))["spec"].clone();
    assert_eq!(spec["grpcPodConfig"], json!({"extractContent": {"catalogDir": "/configs"}}));

    let plain = server.reference("ops/a:v1").to_string();
    let refused = world.mirror(1, &[&plain, &mirror.host]);
    assert!(refused.stderr.contains("the image is no file-based catalog"), "{}", refused.stderr);
    world.mirror(2, &[&plain, "https://mirror.example"]);
}

/// CATLG-27, CATLG-29, CATLG-31, CATLG-51, OLM1-BUILD-11: a catalog directory becomes an image on a base for several platforms, an archive, a layout.
#[test]
fn a_catalog_is_built() {
    let world = World::new();
    let server = Server::start();
    let base = ImageBuilder::new().file("bin/opm", ImageFile { bytes: b"opm".to_vec(), executable: true }).label("vendor", "x");
    world.push_for_all(&base, &server.reference("base/opm:v1"));
    let build = |code: i32, args: &[&str]| {
        let directory = common::workspace().join("examples/catalog");
        let mut command = command();
        command.env("HOME", world.path()).current_dir(world.path()).args(["catalog", "build", directory.to_str().unwrap()]).args(args);
        let outcome = run(&mut command);
        assert_eq!(outcome.code, code, "{args:?}\n{}\n{}", outcome.stdout, outcome.stderr);
        outcome
    };
    let base = server.reference("base/opm:v1").to_string();
    let target = server.reference("team/catalog:latest");
    let writes = server.registry.counts().blob_writes;
    let args = ["--base-image", &base, "--platform", "linux/amd64,linux/arm64", "--push", &target.to_string(), "-l", "team=a"];
    let pushed = build(0, &args);
    assert!(pushed.stdout.starts_with(&format!("{}/team/catalog@sha256:", server.host)), "{}", pushed.stdout);
    assert_eq!(server.registry.counts().blob_writes - writes, 3, "one layer, two configurations; the base is mounted");
    for platform in ["linux/amd64", "linux/arm64"] {
        let client = world.client.for_platform(platform.parse::<Platform>().unwrap());
        let image = world.runtime.block_on(client.inspect(&target, &world.store())).unwrap();
        assert_eq!(image.config.platform().to_string(), platform);
        assert_eq!(
            (image.config.config.entrypoint.as_slice(), image.config.config.command.as_slice()),
            (&["/bin/opm".to_owned()][..], &["serve".to_owned(), "/configs".to_owned(), "--cache-dir=/tmp/cache".to_owned()][..])
        );
        assert_eq!(image.config.config.labels["team"], "a");
        assert!(world.files(&client, &target).keys().any(|path| path.starts_with("configs/beacon/")));
    }
    build(0, &["--layout", "layout", "--compression", "zstd"]);
    build(0, &["--archive", "catalog.tar"]);
    build(0, &["--docker-archive", "docker.tar:team/catalog:v1", "--format", "docker"]);
    for archive in ["catalog.tar", "docker.tar"] {
        let folder = world.path().join(format!("{archive}.read"));
        let layout = mainstay_oci::Layout::read_archive(&world.path().join(archive), &folder).unwrap();
        let image = layout.image(None, &"linux/amd64".parse().unwrap()).unwrap();
        assert!(image.config.config.labels.contains_key("operators.operatorframework.io.index.configs.v1"));
    }
    let wrong = build(1, &["--base-image", &base, "--platform", "linux/s390x", "--layout", "other"]);
    assert!(wrong.stderr.contains("the index offers [linux/amd64 linux/arm64]"), "{}", wrong.stderr);
    build(2, &["--layout", "a", "--push", "b"]);
}
