//! Pulls that a policy about signatures lets in, and those that it does not, from a registry in this process.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::common::{Running, client, image, store};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_oci::registry::Access;
use mainstay_oci::{
    BlobStore, ClientConfig, Descriptor, Digest, ErrorKind, ImageBuilder, ImageIndex, Platform, Reference, Registries, SignatureFiles,
    Tree, media_type,
};
use pgp::composed::{ArmorOptions, KeyType, MessageBuilder, SecretKeyParamsBuilder, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::types::Password;
use rand_core::OsRng;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

/// A folder with a policy, `registries.d`, keys and a store of signatures.
struct Files(tempfile::TempDir);

impl Files {
    fn new(requirement: &Value) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("registries.d/all.yaml", "default-docker:\n  use-sigstore-attachments: true\n");
        files.require(requirement);
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What a key file of the policy is called stands for the file.
    fn require(&self, requirement: &Value) {
        let text = json!({"default": [requirement]}).to_string().replace("DIR", &self.path(""));
        self.write("policy.json", text);
    }

    fn settings(&self) -> SignatureFiles {
        let path = |name: &str| Path::new(&self.path(name)).to_owned();
        SignatureFiles { policies: vec![path("policy.json")], places: vec![path("registries.d")], lookaside: Some(path("sigstore")) }
    }

    fn config(&self) -> ClientConfig {
        ClientConfig { signatures: self.settings(), ..ClientConfig::default() }
    }
}

fn payload(kind: &str, digest: &Digest, name: &str) -> Vec<u8> {
    let critical = json!({"type": kind, "image": {"docker-manifest-digest": digest.as_str()}, "identity": {"docker-reference": name}});
    json!({"critical": critical, "optional": {}}).to_string().into_bytes()
}

/// Puts sigstore signatures beside an image: each by a key, for a digest and a name.
async fn attach(image: &Reference, digest: &Digest, signatures: &[(&KeyPair, &Digest, &str)]) {
    let (_folder, store) = store();
    let layers: Vec<Value> = signatures
        .iter()
        .map(|(key, digest, name)| {
            let payload = payload("cosign container image signature", digest, name);
            let mut layer = descriptor(&store, "application/vnd.dev.cosign.simplesigning.v1+json", &payload);
            layer["annotations"] = json!({"dev.cosignproject.cosign/signature": STANDARD.encode(key.sign(&payload).unwrap())});
            layer
        })
        .collect();
    let config = descriptor(&store, media_type::OCI_CONFIG, b"{}");
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type::OCI_MANIFEST, "config": config, "layers": layers}).to_string();
    store.write(manifest.as_bytes()).unwrap();
    let tree = Tree::read("signatures", &store, &Descriptor::of(media_type::OCI_MANIFEST, manifest.as_bytes())).unwrap();
    let target = image.tagged(&format!("sha256-{}.sig", digest.hex())).unwrap();
    client(ClientConfig::default()).put(&tree, &store, &target, &[]).await.unwrap();
}

fn descriptor(store: &BlobStore, media_type: &str, bytes: &[u8]) -> Value {
    store.write(bytes).unwrap();
    json!({"mediaType": media_type, "digest": Digest::of(bytes).as_str(), "size": bytes.len()})
}

/// Pulls into an empty store; the reason if it is refused.
async fn pull(config: ClientConfig, reference: &Reference) -> Result<Digest, String> {
    let (_folder, store) = store();
    match client(config).pull(reference, &store).await {
        Ok(image) => Ok(image.digest),
        Err(error) => {
            assert!(error.kind() != ErrorKind::Rejected || error.hint().unwrap().contains("policy.json decides"), "{error}");
            Err(error.to_string().replace(&format!("{reference}: "), ""))
        }
    }
}

const NONE: &str = "Source image rejected: A signature was required, but no signature exists";

/// OLM1-GEN-12: sigstore signatures beside the image decide, with keys and policy as they are at each pull.
#[tokio::test]
async fn sigstore_signatures() {
    let server = Running::start(Access::Open).await;
    let (_from, from) = store();
    let built = image(&from);
    let target = server.reference("org/widget:v1");
    client(ClientConfig::default()).push(&built, &from, &target).await.unwrap();
    let (ours, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let files = Files::new(&json!({"type": "sigstoreSigned", "keyPath": "DIRcosign.pub"}));
    files.write("cosign.pub", ours.public_key_pem());
    let ask = || pull(files.config(), &target);

    assert_eq!(ask().await.unwrap_err(), NONE);
    let (name, digest, elsewhere) = (target.to_string(), built.digest.clone(), Digest::of(b"elsewhere"));
    attach(&target, &digest, &[(&other, &digest, &name)]).await;
    let error = ask().await.unwrap_err();
    assert!(error.starts_with("Source image rejected: cryptographic signature verification failed"), "{error}");
    attach(&target, &digest, &[(&ours, &digest, "q.example/a:1")]).await;
    assert_eq!(ask().await.unwrap_err(), "Source image rejected: Signature for identity \"q.example/a:1\" is not accepted");
    attach(&target, &digest, &[(&ours, &elsewhere, &name)]).await;
    assert_eq!(ask().await.unwrap_err(), format!("Source image rejected: Signature for digest {elsewhere} does not match"));
    attach(&target, &digest, &[(&other, &digest, &name), (&ours, &elsewhere, &name)]).await;
    let error = ask().await.unwrap_err();
    assert!(error.starts_with("Source image rejected: None of the signatures were accepted, reasons: crypto"), "{error}");
    attach(&target, &digest, &[(&other, &digest, &name), (&ours, &digest, &name)]).await;
    assert_eq!(ask().await.unwrap(), digest);
    assert_eq!(pull(files.config(), &target.at(digest.clone())).await.unwrap(), digest);

    files.write("cosign.pub", other.public_key_pem());
    assert_eq!(ask().await.unwrap(), digest);
    files.write("cosign.pub", KeyPair::generate().unwrap().public_key_pem());
    assert!(ask().await.is_err());
    fs::remove_file(files.path("cosign.pub")).unwrap();
    let error = ask().await.unwrap_err();
    assert!(error.starts_with("Source image rejected: open ") && error.ends_with("cosign.pub: no such file or directory"), "{error}");
    files.write("cosign.pub", ours.public_key_pem());
    files.write("registries.d/all.yaml", "docker: {}\n");
    assert_eq!(ask().await.unwrap_err(), NONE);
    files.require(&json!({"type": "reject"}));
    assert_eq!(ask().await.unwrap_err(), format!("Source image rejected: Running image docker://{name} is rejected by policy."));
    files.write("policy.json", "{}");
    assert!(ask().await.unwrap_err().ends_with("policy.json: invalid policy: Default policy is missing"));
    files.require(&json!({"type": "insecureAcceptAnything"}));
    assert_eq!(ask().await.unwrap(), digest);
}

/// OLM1-GEN-12: of an index the image that is chosen has to be signed; a copy of all of it needs a signature for each manifest. All
/// requirements have to be met.
#[tokio::test]
async fn signatures_of_indexes() {
    let server = Running::start(Access::Open).await;
    let (_from, from) = store();
    let build = |platform: &str| {
        let builder = ImageBuilder::new().platform(platform.parse().unwrap()).file("a", platform.as_bytes().to_vec());
        builder.build(&from).unwrap()
    };
    let (chosen, other) = (build(&Platform::default().to_string()), build("linux/riscv64"));
    let index = ImageIndex::build(vec![chosen.clone(), other.clone()], &from).unwrap();
    let (plain, target) = (client(ClientConfig::default()), server.reference("org/widget:v1"));
    plain.push_index(&index, &from, &target, &[]).await.unwrap();
    let (key, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let files = Files::new(&json!({"type": "sigstoreSigned", "keyPath": "DIRcosign.pub"}));
    files.write("cosign.pub", key.public_key_pem());
    files.write("second.pub", second.public_key_pem());
    let (name, whole) = (target.to_string(), index.descriptor.digest.clone());
    let by_digest = target.at(whole.clone());

    attach(&target, &whole, &[(&key, &whole, &name)]).await;
    let other_digest = &other.descriptor.digest;
    attach(&target, other_digest, &[(&key, other_digest, &name)]).await;
    for asked in [&target, &by_digest] {
        assert_eq!(pull(files.config(), asked).await.unwrap_err(), NONE, "{asked}");
    }
    let ours = &chosen.descriptor.digest;
    // The signature of the index under the tag of the image.
    attach(&target, ours, &[(&key, &whole, &name)]).await;
    assert!(pull(files.config(), &by_digest).await.unwrap_err().contains(&format!("Signature for digest {whole} does not match")));
    let copied = async || client(files.config()).survey(&target, &store().1).await.map(|tree| tree.manifests.len());
    assert!(copied().await.is_err());
    attach(&target, ours, &[(&key, ours, &name)]).await;
    assert_eq!((pull(files.config(), &target).await.unwrap(), pull(files.config(), &by_digest).await.unwrap()), (whole.clone(), whole));
    assert_eq!(copied().await.unwrap(), 3);

    let both =
        [json!({"type": "sigstoreSigned", "keyPath": "DIRcosign.pub"}), json!({"type": "sigstoreSigned", "keyPath": "DIRsecond.pub"})];
    files.write("policy.json", json!({"default": both}).to_string().replace("DIR", &files.path("")));
    assert!(pull(files.config(), &target).await.unwrap_err().contains("signature verification failed"));
    attach(&target, ours, &[(&key, ours, &name), (&second, ours, &name)]).await;
    assert!(pull(files.config(), &target).await.is_ok());
}

/// OLM1-GEN-12, OLM1-DISC-01: from a mirror the name is the one that was asked for, and the signatures are those of the mirror; what is
/// refused there is not asked for elsewhere.
#[tokio::test]
async fn signatures_at_mirrors() {
    let (mirror, origin) = (Running::start(Access::Open).await, Running::start(Access::Open).await);
    let (_from, from) = store();
    let built = image(&from);
    let (asked, there) = (origin.reference("org/widget:v1"), mirror.reference("copies/org/widget:v1"));
    for place in [&asked, &there] {
        client(ClientConfig::default()).push(&built, &from, place).await.unwrap();
    }
    let key = KeyPair::generate().unwrap();
    let files = Files::new(&json!({"type": "sigstoreSigned", "keyData": STANDARD.encode(key.public_key_pem())}));
    let conf = format!("[[registry]]\nlocation = \"{}\"\n[[registry.mirror]]\nlocation = \"{}/copies\"\n", origin.host, mirror.host);
    let config = || ClientConfig { registries: Registries::parse("registries.conf", &conf).unwrap(), ..files.config() };
    attach(&asked, &built.digest, &[(&key, &built.digest, &asked.to_string())]).await;
    assert_eq!(pull(config(), &asked).await.unwrap_err(), NONE);
    attach(&there, &built.digest, &[(&key, &built.digest, &there.to_string())]).await;
    assert!(pull(config(), &asked).await.unwrap_err().contains("is not accepted"));
    attach(&there, &built.digest, &[(&key, &built.digest, &asked.to_string())]).await;
    assert_eq!(pull(config(), &asked).await.unwrap(), built.digest);
}

fn gpg_key() -> SignedSecretKey {
    let mut params = SecretKeyParamsBuilder::default();
    params.key_type(KeyType::Ed25519Legacy).can_certify(true).can_sign(true).primary_user_id("Dev <dev@b.example>".into());
    params.build().unwrap().generate(OsRng).unwrap()
}

fn gpg_sign(key: &SignedSecretKey, digest: &Digest, name: &str) -> Vec<u8> {
    let mut message = MessageBuilder::from_bytes("", payload("atomic container signature", digest, name));
    message.sign(&key.primary_key, Password::empty(), HashAlgorithm::Sha256);
    message.to_vec(OsRng).unwrap()
}

/// OLM1-GEN-12: OpenPGP signatures of a separate store, as files and by HTTP.
#[tokio::test]
async fn simple_signatures() {
    let server = Running::start(Access::Open).await;
    let (_from, from) = store();
    let built = image(&from);
    let target = server.reference("org/widget:v1");
    client(ClientConfig::default()).push(&built, &from, &target).await.unwrap();
    let (ours, other) = (gpg_key(), gpg_key());
    let files = Files::new(&json!({"type": "signedBy", "keyType": "GPGKeys", "keyPath": "DIRkey.asc"}));
    files.write("key.asc", ours.to_public_key().to_armored_string(ArmorOptions::default()).unwrap());
    let (name, digest) = (target.to_string(), built.digest.clone());
    let place = |number: usize| format!("sigstore/org/widget@{}/signature-{number}", digest.as_str().replace(':', "="));
    assert_eq!(pull(files.config(), &target).await.unwrap_err(), NONE);
    files.write(&place(1), gpg_sign(&other, &digest, &name));
    let error = pull(files.config(), &target).await.unwrap_err();
    assert!(error.starts_with("Source image rejected: Invalid GPG signature: "), "{error}");
    files.write(&place(2), gpg_sign(&ours, &digest, &name));
    assert_eq!(pull(files.config(), &target).await.unwrap(), digest);
    for number in 3..=129 {
        files.write(&place(number), gpg_sign(&other, &digest, &name));
    }
    assert!(pull(files.config(), &target).await.unwrap_err().contains("number of signatures is over the limit of 128"));

    // The same, elsewhere: the store is a web server.
    let (path, good) = (format!("/sigs/{}", place(1).trim_start_matches("sigstore/")), gpg_sign(&ours, &digest, &name));
    let router = axum::Router::new().fallback(move |url: axum::http::Uri| {
        let found = (url.path() == path).then(|| good.clone());
        async move { found.ok_or(axum::http::StatusCode::NOT_FOUND) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let web = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    files.write("registries.d/all.yaml", format!("docker:\n  {}/org:\n    lookaside: http://{web}/sigs\n", server.host));
    assert_eq!(pull(files.config(), &target).await.unwrap(), digest);
}
