//! The service as clusters and administrators meet it: over HTTP, from images of a registry that runs in the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mainstay_oci::registry::Registry;
use mainstay_oci::{BlobStore, Client, ClientConfig, ImageBuilder, ImageIndex, Layout, Platform, Reference};
use mainstay_update_service::{Addresses, Config, GraphDataPlace, Place, Service};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const PREFIX: &str = "/api/upgrades_info";

/// An answer: status, headers in lower case, body.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Got {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Got { status, headers: lines.filter_map(header).collect(), body: bytes[end + 4..].to_vec() }
}

async fn get(address: SocketAddr, path: &str) -> Got {
    request(address, "GET", path, &[]).await
}

fn addresses() -> Addresses {
    let local = Some(([127, 0, 0, 1], 0).into());
    Addresses { policy: local, policy_status: local, builder: local, public: local, builder_status: local }
}

fn client() -> ClientConfig {
    ClientConfig { insecure: true, ..ClientConfig::default() }
}

/// A world: a registry, graph-data, a folder for what is kept.
struct World {
    folder: TempDir,
    registry: Registry,
    address: SocketAddr,
}

impl World {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let registry = Registry::in_memory();
        tokio::spawn(registry.clone().serve(listener, std::future::pending()));
        let world = Self { folder, registry, address };
        world.write("graph-data/version", "1.1.0\n");
        world.write("graph-data/channels/fast-4.1.yaml", "name: fast-4.1\nversions: [4.1.0, 4.1.1, 4.1.2]\n");
        world.write(
            "graph-data/blocked-edges/slow.yaml",
            "to: 4.1.2\nfrom: 4[.]1[.]0[+]\nurl: u\nname: Slow\nmessage: m\nmatchingRules: [{type: Always}]\n",
        );
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn repository(&self) -> Reference {
        Reference::parse(&format!("{}/ocp/release", self.address)).unwrap()
    }

    fn document(version: &str, previous: &[&str], metadata: &Value) -> String {
        json!({"kind": "cincinnati-metadata-v0", "version": version, "previous": previous, "metadata": metadata}).to_string()
    }

    fn image(document: &str, architecture: &str, store: &BlobStore) -> mainstay_oci::Image {
        let platform = Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None };
        ImageBuilder::new()
            .platform(platform)
            .file("release-manifests/release-metadata", document.as_bytes().to_vec())
            .build(store)
            .unwrap()
    }

    async fn push(&self, tag: &str, version: &str, previous: &[&str], architectures: &[&str], metadata: Value) {
        let store = BlobStore::open(self.path("store")).unwrap();
        let client = Client::new(client()).unwrap();
        let target = self.repository().tagged(tag).unwrap();
        let document = Self::document(version, previous, &metadata);
        let images: Vec<_> = architectures.iter().map(|architecture| Self::image(&document, architecture, &store)).collect();
        if let [image] = images.as_slice() {
            client.push(image, &store, &target).await.unwrap();
        } else {
            let index = ImageIndex::build(images, &store).unwrap();
            client.push_index(&index, &store, &target, &[]).await.unwrap();
        }
    }

    async fn push_three(&self) {
        self.push("4.1.0-x86_64", "4.1.0", &[], &["amd64"], json!({"url": "https://e.example/0"})).await;
        self.push("4.1.1-x86_64", "4.1.1", &["4.1.0"], &["amd64"], json!({})).await;
        self.push("4.1.2-x86_64", "4.1.2", &["4.1.0", "4.1.1"], &["amd64"], json!({})).await;
    }

    fn config(&self, releases: Vec<Place>) -> Config {
        Config {
            releases,
            graph_data: GraphDataPlace::Directory(self.path("graph-data")),
            prefix: PREFIX.to_owned(),
            addresses: addresses(),
            tls: None,
            interval: Duration::from_millis(50),
            cache: Some(self.path("kept")),
            signatures: Some(self.path("signatures")),
            architecture: "amd64".to_owned(),
            commit: "abc".to_owned(),
            registries: client(),
        }
    }
}

/// A running service, which stops with the value.
struct Running {
    policy: SocketAddr,
    all: Addresses,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(config: Config) -> Running {
    let service = Service::open(config).await.unwrap();
    let all = service.bound();
    let stop = CancellationToken::new();
    tokio::spawn(service.run(stop.clone()));
    Running { policy: all.policy.unwrap(), all, stop }
}

/// Asks until the answer is as wanted.
async fn until(address: SocketAddr, path: &str, wanted: impl Fn(&Got) -> bool) -> Got {
    let begin = Instant::now();
    loop {
        let got = get(address, path).await;
        if wanted(&got) {
            return got;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{path}: {got:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn versions(graph: &Value) -> Vec<&str> {
    graph["nodes"].as_array().unwrap().iter().map(|node| node["version"].as_str().unwrap()).collect()
}

const ASK: &str = "/api/upgrades_info/v1/graph?channel=fast-4.1&arch=amd64&version=4.1.0&id=x";

/// CVO-OSUS-01, CVO-OSUS-02, CVO-OSUS-03, CVO-OSUS-11, CVO-OSUS-14: images of a registry become the graph that a cluster is answered.
#[tokio::test(flavor = "multi_thread")]
async fn from_images_to_answers() {
    let world = World::new().await;
    world.push_three().await;
    world.push("sha256-00.sig", "9.9.9", &[], &["amd64"], json!({})).await;
    let running = run(world.config(vec![Place::Repository(world.repository())])).await;
    let got = until(running.policy, ASK, |got| got.status == 200).await;
    let graph = got.json();
    assert_eq!(versions(&graph), ["4.1.0", "4.1.1", "4.1.2"]);
    assert_eq!((&graph["version"], &graph["edges"]), (&json!(1), &json!([[0, 1], [1, 2]])));
    let group = &graph["conditionalEdges"][0];
    assert_eq!((&group["edges"], &group["risks"][0]["name"]), (&json!([{"from": "4.1.0", "to": "4.1.2"}]), &json!("Slow")));
    let node = &graph["nodes"][0];
    let payload = node["payload"].as_str().unwrap();
    let digest = payload.strip_prefix(&format!("{}@", world.repository().name())).unwrap();
    assert_eq!(
        node["metadata"],
        json!({
            "url": "https://e.example/0",
            "io.openshift.upgrades.graph.release.channels": "fast-4.1",
            "io.openshift.upgrades.graph.release.manifestref": digest,
        })
    );
    assert_eq!(get(running.policy, "/api/upgrades_info/graph?channel=fast-4.1&arch=amd64").await.body, got.body);
    let openapi = get(running.policy, "/api/upgrades_info/v1/openapi").await.json();
    assert!(openapi["paths"]["/api/upgrades_info/v1/graph"]["get"].is_object());
    let whole = get(running.all.builder.unwrap(), "/api/upgrades_info/graph").await.json();
    assert_eq!(versions(&whole)[0], "4.1.0+amd64");
    assert_eq!(get(running.policy, "/graph?channel=fast-4.1").await.status, 404);
}

/// CVO-OSUS-11: architectures: one image, a list of one, a list of several, and the parts of a release for several.
#[tokio::test(flavor = "multi_thread")]
async fn architectures() {
    let world = World::new().await;
    let multi = json!({"release.openshift.io/architecture": "multi"});
    world.push("a", "4.1.0", &[], &["arm64"], json!({})).await;
    world.push("b", "4.1.0", &[], &["amd64", "arm64"], multi.clone()).await;
    world.push("part", "4.1.0", &[], &["s390x"], multi).await;
    let running = run(world.config(vec![Place::Repository(world.repository())])).await;
    for (architecture, expected) in [("arm64", 1), ("multi", 1), ("amd64", 0), ("s390x", 0)] {
        let path = format!("{PREFIX}/graph?channel=fast-4.1&arch={architecture}");
        let graph = until(running.policy, &path, |got| got.status == 200).await.json();
        assert_eq!(versions(&graph).len(), expected, "{architecture}");
        if architecture == "multi" {
            assert_eq!(graph["nodes"][0]["metadata"]["release.openshift.io/architecture"], "multi");
        }
    }
}

/// CVO-OSUS-03, CVO-OSUS-04, CVO-OSUS-05, CVO-OSUS-06, CVO-OSUS-09: methods, media types, errors, tags, compression, other origins.
#[tokio::test(flavor = "multi_thread")]
async fn the_interface() {
    let world = World::new().await;
    world.push_three().await;
    let running = run(world.config(vec![Place::Repository(world.repository())])).await;
    let plain = until(running.policy, ASK, |got| got.status == 200).await;
    let vendor = "application/vnd.redhat.cincinnati.v1+json";
    for (accept, status, media_type) in [
        (None, 200, vendor),
        (Some("*/*"), 200, vendor),
        (Some("application/*"), 200, vendor),
        (Some("application/json"), 200, "application/json"),
        (Some(vendor), 200, vendor),
        (Some("text/html, application/json;q=0.9"), 200, "application/json"),
        (Some("text/plain"), 406, "application/json"),
        (Some("application/json;q=0"), 406, "application/json"),
        (Some("application/vnd.redhat.cincinnati.v2+json"), 406, "application/json"),
    ] {
        let headers: Vec<(&str, &str)> = accept.iter().map(|accept| ("accept", *accept)).collect();
        let got = request(running.policy, "GET", ASK, &headers).await;
        assert_eq!((got.status, got.headers["content-type"].as_str()), (status, media_type), "{accept:?}");
    }
    for (path, status, kind) in [
        ("/api/upgrades_info/graph", 400, "missing_params"),
        ("/api/upgrades_info/graph?channel=A", 400, "invalid_params"),
        ("/api/upgrades_info/graph?channel=a&arch=-", 400, "invalid_params"),
        ("/signatures/sha256=00/signature-1", 400, "invalid_params"),
        ("/signatures/md5=00/signature-1", 400, "invalid_params"),
    ] {
        let got = get(running.policy, path).await;
        assert_eq!((got.status, got.json()["kind"].as_str()), (status, Some(kind)), "{path}");
    }
    let head = request(running.policy, "HEAD", ASK, &[]).await;
    assert_eq!((head.status, head.body.len(), &head.headers["content-length"]), (200, 0, &plain.body.len().to_string()));
    assert_eq!(request(running.policy, "POST", ASK, &[]).await.status, 405);
    let preflight = request(running.policy, "OPTIONS", ASK, &[("origin", "https://console.example")]).await;
    assert_eq!((preflight.status, preflight.headers["access-control-allow-methods"].as_str()), (200, "GET, HEAD"));
    assert_eq!(plain.headers["access-control-allow-origin"], "*");
    let packed = request(running.policy, "GET", ASK, &[("accept-encoding", "gzip")]).await;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    assert_ne!(packed.headers["etag"], plain.headers["etag"]);
    for (encoding, tag) in [("identity", &plain.headers["etag"]), ("gzip", &packed.headers["etag"])] {
        let known = request(running.policy, "GET", ASK, &[("accept-encoding", encoding), ("if-none-match", tag)]).await;
        assert_eq!((known.status, known.body.len(), &known.headers["etag"]), (304, 0, tag));
    }
    let other = request(running.policy, "GET", ASK, &[("if-none-match", "\"x\"")]).await;
    assert_eq!((other.status, other.body), (200, plain.body));
    let unknown = get(running.policy, "/api/upgrades_info/graph?channel=nothing").await.json();
    assert_eq!(unknown, json!({"version": 1, "nodes": [], "edges": [], "conditionalEdges": []}));
}

/// CVO-OSUS-08, CVO-OSUS-10: health, metrics by upstream's names, and the graph-data in use.
#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_graph_data() {
    let world = World::new().await;
    let (policy, builder) = {
        // Nothing listens where the registry should be: there is no graph.
        let gone = Reference::parse("127.0.0.1:1/gone").unwrap();
        let running = run(Config { cache: None, ..world.config(vec![Place::Repository(gone)]) }).await;
        let (policy, builder) = (running.all.policy_status.unwrap(), running.all.builder_status.unwrap());
        assert_eq!((get(policy, "/livez").await.status, get(policy, "/readyz").await.status), (200, 503));
        assert_eq!((get(builder, "/liveness").await.status, get(builder, "/readiness").await.status), (200, 503));
        let got = get(running.policy, ASK).await;
        assert_eq!((got.status, got.json()["kind"].as_str()), (500, Some("failed_upstream_fetch")));
        (policy, builder)
    };
    assert_ne!(policy, builder);
    world.push_three().await;
    let running = run(world.config(vec![Place::Repository(world.repository())])).await;
    until(running.policy, ASK, |got| got.status == 200).await;
    get(running.policy, "/api/upgrades_info/graph").await;
    let (policy, builder) = (running.all.policy_status.unwrap(), running.all.builder_status.unwrap());
    assert_eq!((get(policy, "/readyz").await.status, get(builder, "/readiness").await.status), (200, 200));
    let page = String::from_utf8(get(policy, "/metrics").await.body).unwrap();
    for line in [
        "cincinnati_pe_graph_incoming_requests_total{uri_path=\"/graph\"} 1",
        "cincinnati_pe_graph_response_errors_total{code=\"400\",kind=\"missing_params\"} 1",
        "cincinnati_pe_graph_serve_duration_seconds_count",
        "cincinnati_pe_build_info{git_commit=\"abc\"} 1",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let page = String::from_utf8(get(builder, "/metrics").await.body).unwrap();
    for line in [
        "cincinnati_gb_graph_final_releases 3",
        "cincinnati_gb_graph_upstream_raw_releases 3",
        "cincinnati_gb_graph_upstream_scrapes_total",
        "cincinnati_gb_graph_upstream_errors_total 0",
        "cincinnati_gb_graph_last_successful_refresh_timestamp",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    let archive = get(running.all.public.unwrap(), "/api/upgrades_info/graph-data").await;
    let path = world.path("got.tar.gz");
    std::fs::write(&path, &archive.body).unwrap();
    let files = mainstay_update_service::graph_data_from_archive(&path).unwrap();
    assert_eq!(files, mainstay_update_service::graph_data_from_directory(&world.path("graph-data")).unwrap());
}

/// CVO-OSUS-08: while the graph is replaced under load, every request is answered by the old or the new graph; one that cannot be built changes
/// nothing.
#[tokio::test(flavor = "multi_thread")]
async fn replacing_the_graph_drops_nothing() {
    let world = World::new().await;
    world.push_three().await;
    let running = run(world.config(vec![Place::Repository(world.repository())])).await;
    until(running.policy, ASK, |got| got.status == 200).await;
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (stop, asked, address) = (stop.clone(), asked.clone(), running.policy);
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let got = get(address, ASK).await;
                    assert_eq!(got.status, 200);
                    let count = versions(&got.json()).len();
                    assert!((3..=5).contains(&count), "{count}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for (tag, version) in [("c", "4.1.3"), ("d", "4.1.4")] {
        world.push(tag, version, &["4.1.2"], &["amd64"], json!({})).await;
    }
    world.write("graph-data/channels/fast-4.1.yaml", "name: fast-4.1\nversions: [4.1.0, 4.1.1, 4.1.2, 4.1.3, 4.1.4]\n");
    until(running.policy, ASK, |got| versions(&got.json()).len() == 5).await;
    world.write("graph-data/blocked-edges/broken.yaml", "to: [");
    let builder = running.all.builder_status.unwrap();
    until(builder, "/metrics", |got| !String::from_utf8_lossy(&got.body).contains("upstream_errors_total 0")).await;
    assert_eq!(versions(&get(running.policy, ASK).await.json()).len(), 5);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(asked.load(Ordering::Relaxed) > 20);
}

/// CVO-OSUS-09, CVO-OSUS-11: a start with what was kept answers at once and asks the registry for no image again; a damaged file is read anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_warm_start() {
    let world = World::new().await;
    world.push_three().await;
    {
        let running = run(world.config(vec![Place::Repository(world.repository())])).await;
        until(running.policy, ASK, |got| got.status == 200).await;
        // The input is kept just after the graph is replaced.
        let begin = Instant::now();
        while !world.path("kept/releases.json").exists() {
            assert!(begin.elapsed() < Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let before = world.registry.counts();
    let begin = Instant::now();
    let mut service = Service::open(world.config(vec![Place::Repository(world.repository())])).await.unwrap();
    assert_eq!(service.snapshot().unwrap().len(), 3);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    service.build_once().await.unwrap();
    assert_eq!(world.registry.counts().blob_reads, before.blob_reads, "no blob is read again");
    drop(service);
    for entry in std::fs::read_dir(world.path("kept/images")).unwrap() {
        std::fs::write(entry.unwrap().path(), "{").unwrap();
    }
    std::fs::write(world.path("kept/releases.json"), "[").unwrap();
    let mut service = Service::open(world.config(vec![Place::Repository(world.repository())])).await.unwrap();
    assert!(service.snapshot().is_none());
    service.build_once().await.unwrap();
    assert_eq!(service.snapshot().unwrap().len(), 3);
}

/// CVO-OSUS-12: directories, OCI layouts and lists give the same graph as a registry.
#[tokio::test(flavor = "multi_thread")]
async fn other_places() {
    let world = World::new().await;
    let repository = world.repository().name();
    world.push_three().await;
    let graph_of = async |places: Vec<Place>| {
        let mut service = Service::open(Config { cache: None, ..world.config(places) }).await.unwrap();
        service.build_once().await.unwrap();
        let all = service.bound();
        let stop = CancellationToken::new();
        tokio::spawn(service.run(stop.clone()));
        let graph = get(all.policy.unwrap(), ASK).await.json();
        stop.cancel();
        graph
    };
    let expected = graph_of(vec![Place::Repository(world.repository())]).await;
    let layout = Layout::create(world.path("layout")).unwrap();
    let releases = [
        ("4.1.0", &[][..], json!({"url": "https://e.example/0"})),
        ("4.1.1", &["4.1.0"][..], json!({})),
        ("4.1.2", &["4.1.0", "4.1.1"][..], json!({})),
    ];
    let mut list = Vec::new();
    for (index, (version, previous, metadata)) in releases.iter().enumerate() {
        let document = World::document(version, previous, metadata);
        let image = World::image(&document, "amd64", layout.store());
        layout.add(version, &image).unwrap();
        let pullspec = expected["nodes"][index]["payload"].as_str().unwrap();
        assert!(pullspec.ends_with(image.descriptor.digest.as_str()), "the same image");
        world.write(&format!("payloads/{version}/release-manifests/release-metadata"), &document);
        world.write(&format!("payloads/{version}/image"), &format!("{pullspec}\n"));
        list.push(json!({"image": pullspec, "arch": "amd64", "metadata": serde_json::from_str::<Value>(&document).unwrap()}));
    }
    world.write("list.json", &json!(list).to_string());
    assert_eq!(graph_of(vec![Place::Layout(world.path("layout"), Some(repository.clone()))]).await, expected);
    assert_eq!(graph_of(vec![Place::Directory(world.path("payloads"))]).await, expected);
    assert_eq!(graph_of(vec![Place::List(world.path("list.json"))]).await, expected);
    std::fs::remove_file(world.path("payloads/4.1.1/image")).unwrap();
    let mut service = Service::open(world.config(vec![Place::Directory(world.path("payloads"))])).await.unwrap();
    let error = service.build_once().await.unwrap_err();
    assert!(error.to_string().contains("release 4.1.1: the image of the release is not known"), "{error}");
    for (text, kind) in [("list:a.json", "list"), ("dir:a", "dir"), ("oci:a=r/b", "oci"), ("quay.example/a/b", "registry")] {
        let place: Place = text.parse().unwrap();
        let found = match place {
            Place::List(_) => "list",
            Place::Directory(_) => "dir",
            Place::Layout(_, repository) => {
                assert_eq!(repository.as_deref(), Some("r/b"));
                "oci"
            }
            Place::Repository(_) => "registry",
        };
        assert_eq!(found, kind);
    }
    assert!("list:".parse::<Place>().is_err());
}

/// CVO-OSUS-14: graph-data from an image.
#[tokio::test(flavor = "multi_thread")]
async fn graph_data_images() {
    let world = World::new().await;
    world.push_three().await;
    let store = BlobStore::open(world.path("store")).unwrap();
    let files = mainstay_update_service::graph_data_from_directory(&world.path("graph-data")).unwrap();
    let files = files.into_iter().map(|(path, bytes)| (format!("var/lib/cincinnati/graph-data/{path}"), bytes));
    let image = ImageBuilder::new().files(files).file("etc/passwd", b"x".to_vec()).build(&store).unwrap();
    let target = Reference::parse(&format!("{}/graph-data:v1", world.address)).unwrap();
    Client::new(client()).unwrap().push(&image, &store, &target).await.unwrap();
    let mut service =
        Service::open(Config { graph_data: GraphDataPlace::Image(target), ..world.config(vec![Place::Repository(world.repository())]) })
            .await
            .unwrap();
    service.build_once().await.unwrap();
    assert_eq!(service.snapshot().unwrap().len(), 3);
}

/// CVO-GD-07: signatures, in both layouts; nothing outside of the folder can be read.
#[tokio::test(flavor = "multi_thread")]
async fn signatures() {
    let world = World::new().await;
    let (first, second) = ("0".repeat(64), "1".repeat(64));
    world.write(&format!("signatures/sha256={first}/signature-1"), "signed");
    world.write(&format!("signatures/sha256/{second}/signature-2"), "too");
    world.write(&format!("signatures/sha256={first}/signature-3"), &"x".repeat(51 << 10));
    let running = run(world.config(vec![Place::Directory(world.path("payloads"))])).await;
    for (path, status) in [
        (format!("/signatures/sha256={first}/signature-1"), 200),
        (format!("/signatures/sha256={second}/signature-2"), 200),
        (format!("/signatures/sha256={first}/signature-2"), 404),
        (format!("/signatures/sha256={first}/signature-3"), 404),
        (format!("/signatures/sha256={first}/..%2f..%2fgraph-data%2fversion"), 400),
        ("/signatures/sha256=..%2f../signature-1".to_owned(), 400),
    ] {
        let got = get(running.policy, &path).await;
        assert_eq!(got.status, status, "{path}");
        if status == 404 {
            assert_eq!(got.json()["kind"], "does_not_exist");
        }
    }
    assert_eq!(get(running.policy, &format!("/signatures/sha256={first}/signature-1")).await.body, b"signed");
    assert!(Path::new(&world.path("graph-data/version")).exists());
}
