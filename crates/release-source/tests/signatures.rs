//! Signatures with keys that are made here, in stores that behave and in stores that do not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use jiff::Timestamp;
use mainstay_golang::http_proxy::Proxies;
use mainstay_oci::OutboundConfig;
use mainstay_release::Manifest;
use mainstay_release::signature::{SignatureConfigMap, VerifyError, managed_config_map, release_config_map};
use mainstay_release_source::signature::{CustomStore, StoreAuthority, Stores, Verifier};
use pgp::composed::{ArmorOptions, KeyType, MessageBuilder, SecretKeyParamsBuilder, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::types::Password;
use rand_core::OsRng;
use serde_json::{Value, json};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const IMAGE: &str = "q.example/release@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static OURS: LazyLock<SignedSecretKey> = LazyLock::new(key);
static OTHER: LazyLock<SignedSecretKey> = LazyLock::new(key);

fn key() -> SignedSecretKey {
    let mut params = SecretKeyParamsBuilder::default();
    params.key_type(KeyType::Ed25519Legacy).can_certify(true).can_sign(true).primary_user_id("Release <release@q.example>".into());
    params.build().unwrap().generate(OsRng).unwrap()
}

fn armored(key: &SignedSecretKey) -> String {
    key.to_public_key().to_armored_string(ArmorOptions::default()).unwrap()
}

fn sign(key: &SignedSecretKey, content: &str) -> Vec<u8> {
    let mut message = MessageBuilder::from_bytes("", content.as_bytes().to_vec());
    message.sign(&key.primary_key, Password::empty(), HashAlgorithm::Sha256);
    message.to_vec(OsRng).unwrap()
}

fn claim(digest: &str) -> Value {
    json!({
        "critical": {
            "type": "atomic container signature",
            "image": {"docker-manifest-digest": digest},
            "identity": {"docker-reference": "q.example/release:4.19"},
        },
        "optional": {"creator": "a", "timestamp": 1_700_000_000},
    })
}

fn good(key: &SignedSecretKey) -> Vec<u8> {
    sign(key, &claim(DIGEST).to_string())
}

fn manifests(data: &Value) -> Vec<Manifest> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "a", "name": "keys", "annotations": {"release.openshift.io/verification-config-map": ""}},
        "data": data,
    });
    mainstay_release::parse("a.yaml", object.to_string().as_bytes()).unwrap()
}

/// A verifier with a keyring for each key, and a store.
fn verifier(keys: &[&SignedSecretKey], store: &str) -> Verifier {
    let rings = keys.iter().zip("abc".chars()).map(|(key, name)| (format!("verifier-public-key-{name}"), json!(armored(key))));
    let data: serde_json::Map<String, Value> = rings.chain([("store-a".to_owned(), json!(store))]).collect();
    Verifier::of(&manifests(&Value::Object(data))).unwrap()
}

fn outbound() -> OutboundConfig {
    OutboundConfig {
        proxies: Proxies::default(),
        connect_timeout: Duration::from_secs(5),
        silence: Duration::from_secs(5),
        ..OutboundConfig::default()
    }
}

fn now() -> Timestamp {
    Timestamp::now() + Duration::from_secs(10)
}

async fn verify(
    verifier: &Verifier,
    config_maps: &[SignatureConfigMap],
    custom: Option<&[CustomStore]>,
) -> Result<Vec<Vec<u8>>, VerifyError> {
    let stores = Stores { config_maps, custom, outbound: &outbound(), deadline: Duration::from_secs(10) };
    verifier.verify(IMAGE, stores, now()).await.map(|verified| verified.signatures)
}

/// The error of a failed verification with its causes, without their times.
fn said(error: &VerifyError) -> String {
    let causes = error.causes().unwrap_or_default();
    format!(
        "{error}\n{}",
        causes
            .split(", ")
            .map(|cause| cause.trim_start_matches('[').get(22..).unwrap_or(cause).trim_end_matches(']'))
            .collect::<Vec<_>>()
            .join("\n")
    )
}

fn custom(url: &str) -> CustomStore {
    CustomStore { url: url.to_owned(), authority: StoreAuthority::Default }
}

#[derive(Clone)]
enum Reply {
    Signature(Vec<u8>),
    Status(u16),
    /// More bytes than any signature has.
    Endless,
    Hang,
}

struct Site {
    replies: BTreeMap<usize, Reply>,
    otherwise: Reply,
    asked: AtomicUsize,
}

/// A store that answers each number as given, below the path `/store`.
async fn site(replies: impl IntoIterator<Item = (usize, Reply)>, otherwise: Reply) -> (String, Arc<Site>) {
    let site = Arc::new(Site { replies: replies.into_iter().collect(), otherwise, asked: AtomicUsize::new(0) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/store", listener.local_addr().unwrap());
    let app = Router::new().fallback(reply).with_state(site.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, site)
}

async fn reply(State(site): State<Arc<Site>>, request: Request) -> Response {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let prefix = format!("/store/{}/signature-", DIGEST.replace(':', "="));
    let number = request.uri().path().strip_prefix(&prefix).and_then(|number| number.parse::<usize>().ok());
    let reply = number.and_then(|number| site.replies.get(&number)).unwrap_or(&site.otherwise).clone();
    match reply {
        Reply::Signature(bytes) => Response::new(bytes.into()),
        Reply::Status(status) => Response::builder().status(status).body(Body::empty()).unwrap(),
        Reply::Endless => {
            Response::new(Body::from_stream(futures::stream::repeat(vec![0_u8; 4096]).take(1000).map(Ok::<_, std::io::Error>)))
        }
        Reply::Hang => std::future::pending().await,
    }
}

/// CVO-SIG-05: numbers go on after failures of every kind, up to 9, and end at the first 404; an empty body is nothing.
#[tokio::test]
async fn numbers_of_a_store() {
    let failures = [
        (1, Reply::Status(500)),
        (2, Reply::Endless),
        (3, Reply::Signature(Vec::new())),
        (4, Reply::Signature(b"<html>".to_vec())),
        (5, Reply::Status(403)),
        (6, Reply::Signature(good(&OTHER))),
        (7, Reply::Signature(sign(&OURS, &claim("sha256:ab").to_string()))),
        (8, Reply::Status(204)),
        (9, Reply::Signature(good(&OURS))),
        (10, Reply::Signature(good(&OURS))),
    ];
    let (url, store) = site(failures.clone(), Reply::Status(404)).await;
    let found = verify(&verifier(&[&OURS], &url), &[], None).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(store.asked.load(Ordering::SeqCst), 9);

    let (url, store) = site(failures.into_iter().take(8), Reply::Status(404)).await;
    let error = verify(&verifier(&[&OURS], &url), &[], None).await.unwrap_err();
    let said = said(&error);
    let lines: Vec<&str> = said.lines().collect();
    let place = |number: usize| format!("unable to retrieve signature from {url}/{}/signature-{number}: ", DIGEST.replace(':', "="));
    assert_eq!(lines[0], format!("unable to verify {DIGEST} against keyrings: verifier-public-key-a"));
    assert_eq!(lines[1], format!("{}response status 500", place(1)));
    assert_eq!(lines[2], format!("{}the answer is longer than 51200 bytes", place(2)));
    assert!(lines[3].starts_with("Invalid GPG signature: "), "{said}");
    assert_eq!(lines[4], format!("{}response status 403", place(5)));
    assert!(lines[5].starts_with("Invalid GPG signature: it is not a good signature"), "{said}");
    assert_eq!(lines[6], "signature digest does not match");
    assert_eq!(lines[7], format!("{}no more signatures to check", place(9)));
    assert_eq!(
        lines[8],
        format!("parallel signature store wrapping containers/image signature store under {url}: no more signatures to check")
    );
    assert!(lines[9].starts_with("serial signature store wrapping ClusterVersion signatureStores unset"), "{said}");
    assert!(said.ends_with("no more signatures to check"));
    assert_eq!(store.asked.load(Ordering::SeqCst), 9);

    let (url, store) = site([(2, Reply::Signature(good(&OURS)))], Reply::Status(404)).await;
    verify(&verifier(&[&OURS], &url), &[], None).await.unwrap_err();
    assert_eq!(store.asked.load(Ordering::SeqCst), 1);
}

/// CVO-SIG-03: with two keyrings both must have signed; keys in one keyring stand for each other.
#[tokio::test]
async fn every_keyring() {
    let (both, _) = site([(1, Reply::Signature(good(&OURS))), (2, Reply::Signature(good(&OTHER)))], Reply::Status(404)).await;
    assert_eq!(verify(&verifier(&[&OURS, &OTHER], &both), &[], None).await.unwrap().len(), 2);
    let (one, _) = site([(1, Reply::Signature(good(&OURS)))], Reply::Status(404)).await;
    let error = verify(&verifier(&[&OURS, &OTHER], &one), &[], None).await.unwrap_err();
    assert_eq!(error.to_string(), format!("unable to verify {DIGEST} against keyrings: verifier-public-key-b"));
    let together = json!({"verifier-public-key-all": armored(&OTHER) + &armored(&OURS), "store-a": one});
    verify(&Verifier::of(&manifests(&together)).unwrap(), &[], None).await.unwrap();
}

/// CVO-SIG-04: members that are not known, and other content that is well signed.
#[tokio::test]
async fn foreign_content() {
    let mut foreign = claim(DIGEST);
    foreign["optional"]["expires"] = json!(1);
    let replies = [(1, Reply::Signature(sign(&OURS, &foreign.to_string()))), (2, Reply::Signature(sign(&OURS, "hello")))];
    let (url, _) = site(replies, Reply::Status(404)).await;
    let said = said(&verify(&verifier(&[&OURS], &url), &[], None).await.unwrap_err());
    assert!(said.contains("the signature is not valid JSON: unknown field `expires`"), "{said}");
    assert!(said.contains("the signature is not valid JSON: expected value"), "{said}");
}

/// CVO-SIG-06, CVO-SIG-12: ConfigMaps of the cluster are enough, in every form in which they are written, and no store is asked.
#[tokio::test]
async fn config_maps_are_enough() {
    let verifier = verifier(&[&OURS], "http://127.0.0.1:1/nobody");
    let digest = mainstay_release::signature::ReleaseDigest::parse(DIGEST).unwrap();
    let other = SignatureConfigMap::of(&release_config_map(&digest, &[good(&OTHER)])).unwrap();
    let error = verify(&verifier, std::slice::from_ref(&other), None).await.unwrap_err();
    let prefix = DIGEST.replace(':', "-");
    assert!(said(&error).contains(&format!("prefix {prefix} in config map {prefix}: no more signatures to check")), "{}", said(&error));
    assert!(said(&error).contains("Get \"http://127.0.0.1:1/nobody/"), "{}", said(&error));
    let ours = SignatureConfigMap::of(&release_config_map(&digest, &[b"junk".to_vec(), good(&OURS)])).unwrap();
    verify(&verifier, &[other, ours], None).await.unwrap();
    // What was verified is remembered, and what is kept of it serves a later start (CVO-SIG-08).
    verify(&verifier, &[], Some(&[])).await.unwrap();
    let kept = SignatureConfigMap::of(&managed_config_map(&verifier.verified())).unwrap();
    let later = self::verifier(&[&OURS], "http://127.0.0.1:1/nobody");
    verify(&later, &[kept], Some(&[])).await.unwrap();
}

/// CVO-SIG-07: stores of the ClusterVersion take the place of the release's, which are not asked; an empty list is an error.
#[tokio::test]
async fn custom_stores() {
    let (own, asked) = site([(1, Reply::Signature(good(&OURS)))], Reply::Status(404)).await;
    let (bad, _) = site([(1, Reply::Signature(good(&OTHER)))], Reply::Status(404)).await;
    let verifier = verifier(&[&OURS], &own);
    let error = verify(&verifier, &[], Some(&[])).await.unwrap_err();
    assert_eq!(
        said(&error),
        format!(
            "unable to verify {DIGEST} against keyrings: verifier-public-key-a\nClusterVersion spec.signatureStores is an empty array.  \
             Unset signatureStores entirely if you want to to enable the default signature stores."
        )
    );
    let error = verify(&verifier, &[], Some(&[custom(&bad), custom("ftp://a")])).await.unwrap_err();
    assert!(said(&error).ends_with("ClusterVersion spec.signatureStores exhausted without finding a valid signature."), "{}", said(&error));
    assert!(said(&error).contains("the store ftp://a scheme is unrecognized"), "{}", said(&error));
    assert_eq!(asked.asked.load(Ordering::SeqCst), 0);
    verify(&verifier, &[], Some(&[custom(&bad), custom(&own)])).await.unwrap();
}

/// CVO-SIG-05: a store that hangs holds up neither the others nor, beyond the deadline, the verification.
#[tokio::test]
async fn stores_that_hang() {
    let (hangs, _) = site([], Reply::Hang).await;
    let (good_store, _) = site([(1, Reply::Signature(good(&OURS)))], Reply::Status(404)).await;
    let data = json!({"verifier-public-key-a": armored(&OURS), "store-a": hangs, "store-b": good_store});
    let begun = Instant::now();
    verify(&Verifier::of(&manifests(&data)).unwrap(), &[], None).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let alone = verifier(&[&OURS], &hangs);
    let stores = Stores { config_maps: &[], custom: None, outbound: &outbound(), deadline: Duration::from_millis(300) };
    let error = alone.verify(IMAGE, stores, now()).await.unwrap_err();
    assert!(said(&error).ends_with("context deadline exceeded"), "{}", said(&error));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

/// CVO-SIG-05: a store of files; numbers end at the first that is absent, and a large file is refused.
#[tokio::test]
async fn files() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join(DIGEST.replace(':', "="));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("signature-1"), vec![0; (50 << 10) + 1]).unwrap();
    std::fs::create_dir(folder.join("signature-2")).unwrap();
    let verifier = verifier(&[&OURS], &format!("file://{}", place.path().display()));
    let error = said(&verify(&verifier, &[], None).await.unwrap_err());
    assert!(error.contains("signature-1: it is no file of at most 51200 bytes"), "{error}");
    std::fs::write(folder.join("signature-3"), good(&OURS)).unwrap();
    verify(&verifier, &[], None).await.unwrap();
}

/// CVO-SIG-07: a store's own authority, and a ConfigMap that lacks it.
#[tokio::test]
async fn authorities_of_a_store() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = certificate.cert.pem().into_bytes();
    let tls = tokio_rustls::rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.cert.der().clone()],
            tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()).into(),
        )
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let body = good(&OURS);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let store = |authority: StoreAuthority| [CustomStore { url: url.clone(), authority }];
    let verifier = verifier(&[&OURS], "file:///none");
    let error = said(&verify(&verifier, &[], Some(&store(StoreAuthority::Default))).await.unwrap_err());
    assert!(error.contains("certificate"), "{error}");
    let error = said(&verify(&verifier, &[], Some(&store(StoreAuthority::Missing("trust".to_owned())))).await.unwrap_err());
    assert!(error.contains("ConfigMap \"trust\" in openshift-config has no certificates in ca.crt"), "{error}");
    let authority = StoreAuthority::ConfigMap { name: "trust".to_owned(), pem };
    verify(&verifier, &[], Some(&store(authority))).await.unwrap();
}

/// CVO-SIG-01, CVO-SIG-02, CVO-SIG-11: what cannot be verified at all.
#[tokio::test]
async fn what_cannot_be_verified() {
    let no_keys = Verifier::of(&[]).unwrap();
    assert_eq!(verify(&no_keys, &[], None).await.unwrap_err().to_string(), "verification is not possible");
    let stores = Stores { config_maps: &[], custom: None, outbound: &outbound(), deadline: Duration::from_secs(5) };
    let verifier = verifier(&[&OURS], "file:///none");
    let said = |image: &'static str| async { verifier.verify(image, stores, now()).await.unwrap_err().to_string() };
    assert_eq!(said("q.example/release:4.19").await, "release images that are not accessed via digest cannot be verified");
    assert_eq!(said("q.example/release@sha256:../x").await, "the provided release image digest has an invalid format: \"sha256:../x\"");
    let Err(error) = Verifier::of(&manifests(&json!({"verifier-public-key-a": "no key", "store-a": "file:///none"}))) else {
        panic!("no key")
    };
    assert_eq!(
        error.to_string(),
        "the config map a/keys has an invalid key \"verifier-public-key-a\" that must be a GPG public key: it holds no OpenPGP public key"
    );
}

/// CVO-SIG-08: the memory has 64 digests; the oldest leave.
#[tokio::test]
async fn memory_is_bounded() {
    let verifier = verifier(&[&OURS], "file:///none");
    let outbound = outbound();
    for number in 0..70 {
        let digest = mainstay_release::signature::ReleaseDigest::parse(&format!("sha256:{number:064x}")).unwrap();
        let map = SignatureConfigMap::of(&release_config_map(&digest, &[sign(&OURS, &claim(digest.as_str()).to_string())])).unwrap();
        let stores = Stores { config_maps: &[map], custom: None, outbound: &outbound, deadline: Duration::from_secs(5) };
        verifier.verify(&format!("q.example/a@{digest}"), stores, now()).await.unwrap();
    }
    let known = verifier.verified();
    assert_eq!(known.len(), 64);
    assert!(known.keys().all(|digest| digest.as_str() >= format!("sha256:{:064x}", 6).as_str()));
}
