//! Published releases, read again by the crates that a cluster reads them with.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mainstay_oci::registry::Registry;
use mainstay_oci::{BlobStore, Client, ClientConfig, Layout, Reference};
use mainstay_release::{Capabilities, FileName, Load, Payload};
use mainstay_release_samples::{Published, SigningKey, Target, graph_data, publish, releases};
use mainstay_update_graph::{Graph, GraphData, GraphLimits, Parameters, Release, ReleaseMetadata, answer, build};
use pgp::composed::{Deserializable as _, Message, SignedPublicKey};
use serde_json::Value;

fn load<'a>(place: &'a str, image: &'a str, known: Option<&'a Capabilities>) -> Load<'a> {
    Load {
        image,
        profile: "self-managed-high-availability",
        exclude_identifier: "self-managed-high-availability",
        feature_set: "",
        known_capabilities: known,
        place,
    }
}

async fn published(folder: &std::path::Path) -> (Client, Vec<Published>) {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Registry::in_memory().serve(listener, std::future::pending()));
    let client = Client::new(ClientConfig { insecure: true, ..ClientConfig::default() }).unwrap();
    let at = |repository: &str| Reference::parse(&format!("{address}/sample/{repository}")).unwrap();
    let target = Target::Registry { client: &client, releases: at("release"), components: at("components") };
    let key = SigningKey::generate().unwrap();
    let all = publish(&target, &key, "http://127.0.0.1:1/signatures", folder, &folder.join("signatures"), Timestamp::UNIX_EPOCH).await;
    (client, all.unwrap())
}

/// CVO-SIM-02, CVO-SIM-06: each release loads without an exclusion or a duplicate, has about thirty manifests over the runlevels that are
/// promised, and the special ones among them.
#[tokio::test]
async fn payloads_load() {
    let place = tempfile::tempdir().unwrap();
    let (_client, all) = published(place.path()).await;
    assert_eq!(all.iter().map(|release| release.version).collect::<Vec<_>>(), ["4.18.1", "4.18.2", "4.18.3", "4.19.0"]);
    for release in &all {
        let files = mainstay_release_source::folder(&release.folder).unwrap();
        let payload = Payload::load(&files, load("sample", &release.image, None)).unwrap();
        assert!(payload.excluded.is_empty() && payload.duplicates().is_empty(), "{:?}", payload.duplicates());
        assert_eq!(payload.metadata.version_text, release.version);
        let count = payload.manifests.len();
        assert!((30..=45).contains(&count), "{count} manifests");
        let levels: BTreeSet<String> =
            payload.manifests.iter().map(|manifest| manifest.file().split('_').nth(1).unwrap_or_default().to_owned()).collect();
        let mut expected: BTreeSet<String> = ["00", "10", "20", "25", "50", "80"].map(str::to_owned).into();
        if release.version != "4.18.1" {
            expected.insert("99".to_owned());
        }
        assert_eq!(levels, expected);
        assert!(payload.manifests.iter().all(|manifest| FileName::parse(manifest.file()).is_some()));
        let text = |needle: &str| payload.manifests.iter().filter(|manifest| manifest.object().to_string().contains(needle)).count();
        assert_eq!(text("\"kind\":\"Job\""), 1);
        assert_eq!(text("\"kind\":\"CredentialsRequest\""), 2, "the request, and its CRD");
        assert_eq!(text("release.openshift.io/delete"), usize::from(release.version != "4.18.1"));
        assert_eq!(text("capability.openshift.io/name"), 3);
        assert_eq!(text("release.openshift.io/verification-config-map"), 1);
        assert!(text("release.openshift.io/create-only") >= 2);
        assert!(text(&release.image) == 1, "the operator's own Deployment runs the release image");
        for image in &payload.references.images {
            assert!(image.image.contains("@sha256:"), "{image:?}");
        }
    }
}

/// CVO-CAP-01, CVO-SIM-06: without the capability its component is left out; the rest stays.
#[tokio::test]
async fn a_capability_is_optional() {
    let place = tempfile::tempdir().unwrap();
    let (_client, all) = published(place.path()).await;
    let files = mainstay_release_source::folder(&all[0].folder).unwrap();
    let mut known = Capabilities::of(&serde_json::Value::Null, [""; 0]).unwrap();
    known.known.remove("Console");
    let payload = Payload::load(&files, load("sample", "i", Some(&known))).unwrap();
    let out: Vec<&str> = payload.excluded.iter().map(|(manifest, _)| manifest.file()).collect();
    assert_eq!(out.len(), 3);
    assert!(out.iter().all(|file| file.contains("console-operator")), "{out:?}");
}

/// CVO-SIM-06: the graph has one edge of each sort.
#[tokio::test]
async fn graph() {
    let all = releases();
    let read = |release: &mainstay_release_samples::Release| {
        let document = serde_json::json!({
            "kind": "cincinnati-metadata-v0", "version": release.version, "previous": release.previous, "metadata": {},
        });
        let digest = format!("sha256:{}", release.version);
        Release::of_image(format!("r@{digest}"), &digest, "amd64", ReleaseMetadata::read(&document).unwrap()).unwrap()
    };
    let data = GraphData::read(&graph_data::files()).unwrap();
    let built = build(all.iter().map(read).collect(), &data, &GraphLimits::default()).unwrap();
    let graph: Graph = answer(&built, &Parameters { channel: "fast-4.18".to_owned(), architecture: "amd64".to_owned() });
    let nodes: Vec<&str> = graph.nodes.iter().map(|node| node.version.as_str()).collect();
    let edges: Vec<String> = graph.edges.iter().map(|(from, to)| format!("{}>{}", nodes[*from], nodes[*to])).collect();
    assert_eq!(edges, ["4.18.1>4.18.2", "4.18.2>4.18.3"]);
    let mut risks: Vec<String> = Vec::new();
    for group in &graph.conditional_edges {
        for edge in &group.edges {
            risks.extend(group.risks.iter().map(|risk| format!("{}>{} {}", edge.from, edge.to, risk.name)));
        }
    }
    risks.sort();
    assert_eq!(risks, ["4.18.1>4.18.3 SlowWidgetRestarts", "4.18.2>4.19.0 LegacyWidgetStorage", "4.18.3>4.19.0 LegacyWidgetStorage"]);
}

/// CVO-SIG-04, CVO-SIG-05, CVO-SIM-06: the images are pulled by digest, and each has a signature by the key in its own payload.
#[tokio::test]
async fn images_and_signatures() {
    let place = tempfile::tempdir().unwrap();
    let (client, all) = published(place.path()).await;
    let store = BlobStore::open(place.path().join("pulled")).unwrap();
    for release in &all {
        let image = client.pull(&Reference::parse(&release.image).unwrap(), &store).await.unwrap();
        assert_eq!(image.config.config.labels.get("io.openshift.release").map(String::as_str), Some(release.version));
        let digest = release.digest.as_str().replace(':', "=");
        let signature = std::fs::read(place.path().join(format!("signatures/{digest}/signature-1"))).unwrap();
        let text = std::fs::read_to_string(release.folder.join("release-manifests/0000_00_cluster-update-keys_configmap.yaml")).unwrap();
        let config_map: Value = mainstay_yaml::parse(&text).unwrap();
        let armour = config_map["data"]["verifier-public-key-mainstay-sample"].as_str().unwrap();
        let (key, _) = SignedPublicKey::from_string(armour).unwrap();
        let mut message = Message::from_bytes(signature.as_slice()).unwrap();
        let content = message.as_data_vec().unwrap();
        message.verify(&key.primary_key).unwrap();
        let claim: Value = serde_json::from_slice(&content).unwrap();
        assert_eq!(claim["critical"]["image"]["docker-manifest-digest"], release.digest.as_str());
        assert_eq!(claim["critical"]["type"], "atomic container signature");
        assert!(signature.len() < 50 << 10);
    }
}

/// CVO-SIM-02: the same releases in a layout.
#[tokio::test]
async fn a_layout() {
    let place = tempfile::tempdir().unwrap();
    let layout = Layout::create(place.path().join("layout")).unwrap();
    let at = |repository: &str| Reference::parse(&format!("registry.example/sample/{repository}")).unwrap();
    let target = Target::Layout { layout: &layout, releases: at("release"), components: at("components") };
    let key = SigningKey::generate().unwrap();
    let all = publish(&target, &key, "file:///nowhere", place.path(), &place.path().join("s"), Timestamp::UNIX_EPOCH).await.unwrap();
    let names = layout.names().unwrap();
    for release in all {
        let descriptor = &names[&format!("{}-x86_64", release.version)];
        assert_eq!(release.image, format!("registry.example/sample/release@{}", descriptor.digest));
        assert!(layout.is_whole(descriptor).unwrap());
    }
}
