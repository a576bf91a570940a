//! Catalogs and bundles that a policy about signatures lets in or keeps out, against a registry and the real API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::PathBuf;

use mainstay_objects::Patch;

use crate::support::{Api, catalog, catalog_image, catalog_object, catalog_text, condition, registry, setup};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_oci::registry::Options;
use mainstay_oci::{BlobStore, Client, ClientConfig, Descriptor, Digest, Reference, SignatureFiles, Tree, media_type};
use mainstay_olm_v1::Setup;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const NONE: &str = "Source image rejected: A signature was required, but no signature exists";

/// The API, a registry, the controllers, and the files of a policy.
struct World {
    api: Api,
    address: String,
    registry_stop: CancellationToken,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    async fn start() -> Self {
        let api = Api::start().await;
        let registry_stop = CancellationToken::new();
        let (_, address) = registry(Options::default(), &registry_stop).await;
        let folder = files(&api);
        fs::create_dir_all(folder.join("registries.d")).unwrap();
        fs::write(folder.join("registries.d/all.yaml"), "default-docker:\n  use-sigstore-attachments: true\n").unwrap();
        let (stop, running) = run(&api);
        Self { api, address, registry_stop, stop, running }
    }

    async fn restart(&mut self) {
        self.stop.cancel();
        (&mut self.running).await.unwrap();
        (self.stop, self.running) = run(&self.api);
    }

    fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.address)).unwrap()
    }

    /// Puts the policy in place, as one file that replaces another.
    fn require(&self, scope: &str, requirement: &Value) {
        let any = json!([{"type": "insecureAcceptAnything"}]);
        let scopes = json!({format!("{}/{scope}", self.address): [requirement]});
        let folder = files(&self.api);
        fs::write(folder.join("next"), json!({"default": any, "transports": {"docker": scopes}}).to_string()).unwrap();
        fs::rename(folder.join("next"), folder.join("policy.json")).unwrap();
    }

    fn key_file(&self) -> PathBuf {
        files(&self.api).join("cosign.pub")
    }

    /// Signs an image as its repository has it.
    async fn sign(&self, image: &Reference, digest: &Digest, key: &KeyPair) {
        let store = BlobStore::open(self.api.folder.path().join("push")).unwrap();
        let describe = |media_type: &str, bytes: &[u8]| {
            store.write(bytes).unwrap();
            json!({"mediaType": media_type, "digest": Digest::of(bytes).as_str(), "size": bytes.len()})
        };
        let critical = json!({"type": "cosign container image signature", "image": {"docker-manifest-digest": digest.as_str()},
            "identity": {"docker-reference": image.to_string()}});
        let payload = json!({"critical": critical, "optional": null}).to_string();
        let mut layer = describe(SIGNATURE, payload.as_bytes());
        layer["annotations"] = json!({"dev.cosignproject.cosign/signature": STANDARD.encode(key.sign(payload.as_bytes()).unwrap())});
        let config = describe(media_type::OCI_CONFIG, b"{}");
        let manifest = json!({"schemaVersion": 2, "mediaType": media_type::OCI_MANIFEST, "config": config, "layers": [layer]}).to_string();
        store.write(manifest.as_bytes()).unwrap();
        let tree = Tree::read("signatures", &store, &Descriptor::of(media_type::OCI_MANIFEST, manifest.as_bytes())).unwrap();
        let target = image.tagged(&format!("sha256-{}.sig", digest.hex())).unwrap();
        Client::new(ClientConfig::default()).unwrap().put(&tree, &store, &target, &[]).await.unwrap();
    }

    /// Changes the spec, so that the image is looked at now.
    async fn poll(&self, name: &str, minutes: u32) {
        let patch = json!({"spec": {"source": {"image": {"pollIntervalMinutes": minutes}}}});
        self.api.admin.patch(&catalog(name), "", &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until `Progressing` says this of the current generation.
    async fn progress(&self, name: &str, reason: &str, message: &str) -> Value {
        self.api
            .until(&catalog(name), |object| {
                let progressing = condition(object, "Progressing");
                progressing["reason"] == reason
                    && progressing["observedGeneration"] == object["metadata"]["generation"]
                    && progressing["message"].as_str().is_some_and(|text| text.contains(message))
            })
            .await
    }

    async fn end(self) {
        self.stop.cancel();
        self.registry_stop.cancel();
        self.running.await.unwrap();
        self.api.close().await;
    }
}

fn files(api: &Api) -> PathBuf {
    api.folder.path().join("containers")
}

fn run(api: &Api) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let folder = files(api);
    let signatures =
        SignatureFiles { policies: vec![folder.join("policy.json")], places: vec![folder.join("registries.d")], lookaside: None };
    let registries = ClientConfig { signatures, ..ClientConfig::default() };
    let ready = Setup { registries, ..setup(api, api.server.router()) }.open().unwrap();
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(ready.run(stop)))
}

fn content(version: &str) -> String {
    catalog_text("widgets", &[(version, "example.com/widgets@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")])
}

/// OLM1-GEN-12: a catalog that the policy refuses is let in when it is signed and the key is in place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_is_let_in_when_it_is_signed() {
    let world = World::start().await;
    let (image, key) = (world.reference("org/catalog:v1"), KeyPair::generate().unwrap());
    world.require("org", &json!({"type": "sigstoreSigned", "keyPath": world.key_file()}));
    let pushed = world.api.push(ClientConfig::default(), &image.to_string(), catalog_image(&content("1.0.0"))).await;
    world.api.apply(catalog_object("test", &image.to_string())).await;
    let refused = world.progress("test", "Retrying", NONE).await;
    assert!(condition(&refused, "Progressing")["message"].as_str().unwrap().contains("policy.json decides which images are let in"));
    assert_eq!(condition(&refused, "Serving")["status"], "False");

    world.sign(&image, &pushed.digest, &key).await;
    world.poll("test", 10).await;
    world.progress("test", "Retrying", "cosign.pub: no such file or directory").await;
    fs::write(world.key_file(), key.public_key_pem()).unwrap();
    world.poll("test", 11).await;
    let served = world.progress("test", "Succeeded", "").await;
    assert_eq!(condition(&served, "Serving")["status"], "True");
    world.end().await;
}

/// OLM1-GEN-12: content that is here already passes neither a stricter policy nor one about another name; what was verified once is not asked
/// for again, not even after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_is_here_asks_the_policy_too() {
    let mut world = World::start().await;
    let (free, strict) = (world.reference("free/catalog:v1"), world.reference("org/catalog:v1"));
    let mut digests = Vec::new();
    for image in [&free, &strict] {
        digests.push(world.api.push(ClientConfig::default(), &image.to_string(), catalog_image(&content("1.0.0"))).await.digest);
    }
    assert_eq!(digests[0], digests[1]);
    let (digest, key) = (digests.remove(0), KeyPair::generate().unwrap());
    world.api.apply(catalog_object("free", &free.to_string())).await;
    world.progress("free", "Succeeded", "").await;

    // The same content under a name of which the policy asks for more.
    fs::write(world.key_file(), key.public_key_pem()).unwrap();
    world.require("org", &json!({"type": "sigstoreSigned", "keyPath": world.key_file()}));
    world.api.apply(catalog_object("strict", &strict.to_string())).await;
    let refused = world.progress("strict", "Retrying", NONE).await;
    assert_eq!(condition(&refused, "Serving")["status"], "False");
    world.sign(&strict, &digest, &key).await;
    world.poll("strict", 10).await;
    world.progress("strict", "Succeeded", "").await;

    // Verified is verified: the signature may be gone, the key may not.
    world.sign(&strict, &digest, &KeyPair::generate().unwrap()).await;
    world.restart().await;
    world.poll("strict", 11).await;
    world.progress("strict", "Succeeded", "").await;
    fs::write(world.key_file(), KeyPair::generate().unwrap().public_key_pem()).unwrap();
    world.poll("strict", 12).await;
    world.progress("strict", "Retrying", "cryptographic signature verification failed").await;

    // A policy that comes after the content; what is served stays until somebody takes the catalog away.
    world.require("free", &json!({"type": "reject"}));
    world.poll("free", 10).await;
    let refused = world.progress("free", "Retrying", "is rejected by policy.").await;
    assert_eq!(condition(&refused, "Serving")["status"], "True");
    world.end().await;
}
