//! Pulling and pushing against registries in this process, and Debian's docker-registry where it is installed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::sync::{Arc, Mutex};

use crate::common::{Running, client, image, store};
use mainstay_oci::registry::{Access, Registry};
use mainstay_oci::{
    BlobStore, CertificateProblem, Client, ClientConfig, Credential, Credentials, Digest, Error, ErrorKind, Layer, Layout, Platform,
    Reference, Registries, UnpackOptions, read_files,
};

fn assert_send<T: Send>(future: T) -> T {
    future
}

/// OLM1-BUILD-11, MS-CLI-05: an image built here, pushed and pulled again by tag and by digest is the same image; what is there already is
/// neither sent nor fetched again.
#[tokio::test]
async fn images_make_the_round_trip() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    let built = image(&from);
    let target = server.reference("org/widget-bundle:v1");
    assert_eq!(client.push(&built, &from, &target).await.unwrap(), built.digest);
    client.push(&built, &from, &server.reference("org/widget-bundle:v2")).await.unwrap();
    assert_eq!(server.registry.counts().blob_writes, 2);

    let resolved = client.resolve(&target).await.unwrap();
    assert_eq!(resolved.digest, built.digest);
    assert_eq!(resolved.reference, server.reference(&format!("org/widget-bundle@{}", built.digest)));

    let (_to, to) = store();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let report = Arc::clone(&seen);
    let telling = client.with_progress(Arc::new(move |progress| report.lock().unwrap().push(progress)));
    let pulled = assert_send(telling.pull(&resolved.reference, &to)).await.unwrap();
    assert_eq!(pulled, built);
    assert_eq!(pulled.config.config.labels["operators.operatorframework.io.bundle.package.v1"], "widget");
    let last = seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!((last.done, last.digest), (last.total, built.manifest.layers[0].digest.clone()));
    let reads = server.registry.counts().blob_reads;
    client.pull(&target, &to).await.unwrap();
    assert_eq!(server.registry.counts().blob_reads, reads);

    let files = read_files(&Layer::of(&pulled, &to), &UnpackOptions::default()).unwrap();
    assert_eq!(files["manifests/csv.yaml"], b"kind: ClusterServiceVersion\n");
    assert_eq!(client.tags(&target).await.unwrap(), ["v1", "v2"]);
    let copy = server.reference("org/copy:v1");
    client.mounting_from("org/widget-bundle").push(&built, &from, &copy).await.unwrap();
    assert_eq!(server.registry.counts().blob_writes, 2);
    assert_eq!(client.resolve(&copy).await.unwrap().digest, built.digest);
    assert_eq!(server.registry.repositories(), ["org/copy", "org/widget-bundle"]);
}

/// OLM1-BUILD-01: the same files give the same bytes, in whatever order they come.
#[test]
fn building_is_deterministic() {
    let (_one, one) = store();
    let (_two, two) = store();
    let files = [("b/c", b"2".to_vec()), ("a", b"1".to_vec())];
    let forward = mainstay_oci::ImageBuilder::new().files(files.clone()).build(&one).unwrap();
    let backward = mainstay_oci::ImageBuilder::new().files(files.into_iter().rev()).build(&two).unwrap();
    assert_eq!(forward, backward);
}

/// OLM1-GEN-10: basic and token authentication; without or with wrong credentials the pull says who wants them.
#[tokio::test]
async fn credentials_open_the_registry() {
    let who = || ("dev".to_owned(), "secret".to_owned());
    for access in [Access::Basic { user: who().0, password: who().1 }, Access::Token { user: who().0, password: who().1 }] {
        let server = Running::start(access).await;
        let mut credentials = Credentials::default();
        credentials.insert(&server.host, Credential::Basic { user: who().0, password: who().1 });
        let known = client(ClientConfig { credentials, ..ClientConfig::default() });
        let (_from, from) = store();
        let built = image(&from);
        let target = server.reference("org/widget:v1");
        known.push(&built, &from, &target).await.unwrap();
        let (_to, to) = store();
        known.pull(&target, &to).await.unwrap();
        assert!(server.registry.counts().refused <= 2, "{:?}", server.registry.counts());

        let mut wrong = Credentials::default();
        wrong.insert(&server.host, Credential::Basic { user: "dev".to_owned(), password: "guess".to_owned() });
        let none = format!("add credentials for {} to the pull secret or the auth file", server.host);
        let refused = format!(
            "{} does not take the credentials of user dev: log in again, or mend them in the pull secret or the auth file",
            server.host
        );
        for (credentials, hint) in [(Credentials::default(), none), (wrong, refused)] {
            let stranger = client(ClientConfig { credentials, ..ClientConfig::default() });
            let error = stranger.pull(&target, &to).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
            assert!(!error.is_transient());
            assert!(error.to_string().starts_with(&format!("{target}: registry {} answered 401", server.host)), "{error}");
            assert_eq!(error.hint().unwrap(), hint);
        }
    }
}

/// MS-OFF-01: a blob or manifest that is not what its digest says is refused, both digests named, and nothing of it stays.
#[tokio::test]
async fn tampered_content_is_refused() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    let built = image(&from);
    let target = server.reference("org/widget:v1");
    client.push(&built, &from, &target).await.unwrap();

    let layer = &built.manifest.layers[0];
    let mut bytes = from.read(&layer.digest, 1 << 20).unwrap();
    bytes[20] ^= 1;
    server.registry.corrupt(&layer.digest, bytes.clone()).unwrap();
    let (_to, to) = store();
    let error = client.pull(&target, &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DigestMismatch);
    assert!(error.to_string().ends_with(&format!("content has digest {}, expected {}", Digest::of(&bytes), layer.digest)), "{error}");
    assert!(!to.has(&layer.digest));

    // Shorter by the registry's own word: that is other content, no transfer to be continued.
    server.registry.corrupt(&layer.digest, b"something else".to_vec()).unwrap();
    assert_eq!(client.pull(&target, &to).await.unwrap_err().kind(), ErrorKind::DigestMismatch);

    bytes.extend_from_slice(&[0; 100]);
    server.registry.corrupt(&layer.digest, bytes).unwrap();
    let error = client.pull(&target, &to).await.unwrap_err();
    assert!(error.to_string().contains("the registry sends more than the"), "{error}");

    // Into a store that does not have the manifest already: what is there is not fetched again.
    let (_to, to) = store();
    server.registry.corrupt(&built.digest, b"{}".to_vec()).unwrap();
    let error = client.pull(&target.at(built.digest.clone()), &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DigestMismatch);
}

/// What is not there, and who does not answer: the one is final, the other is tried again.
#[tokio::test]
async fn failures_are_told_apart() {
    let server = Running::start(Access::Open).await;
    let client = client(ClientConfig::default());
    let (_to, to) = store();
    let error = client.pull(&server.reference("org/nothing:v1"), &to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        format!("{0}/org/nothing:v1: registry {0} answered 404: repository org/nothing unknown to registry (NAME_UNKNOWN)", server.host)
    );
    assert!(!error.is_transient());

    let error = client.resolve(&Reference::parse("127.0.0.1:1/a:1").unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.is_transient());
    assert!(error.to_string().contains("cannot reach registry 127.0.0.1:"), "{error}");
}

/// OLM1-GEN-12, OLM1-DISC-01: mirrors are asked first; when all fail the error names each.
#[tokio::test]
async fn mirrors_serve_the_pull() {
    let mirror = Running::start(Access::Open).await;
    let (_from, from) = store();
    let built = image(&from);
    let plain = client(ClientConfig::default());
    plain.push(&built, &from, &mirror.reference("copies/org/widget:v1")).await.unwrap();
    // A port that nobody is given by chance.
    let closed = "127.0.0.1:1";
    let conf = format!("[[registry]]\nlocation = \"{closed}\"\n[[registry.mirror]]\nlocation = \"{}/copies\"\n", mirror.host);
    let registries = Registries::parse("registries.conf", &conf).unwrap();
    let mirrored = client(ClientConfig { registries, ..ClientConfig::default() });
    let (_to, to) = store();
    let pulled = mirrored.pull(&Reference::parse(&format!("{closed}/org/widget:v1")).unwrap(), &to).await.unwrap();
    assert_eq!(pulled.digest, built.digest);
    let error = mirrored.pull(&Reference::parse(&format!("{closed}/org/other:v1")).unwrap(), &to).await.unwrap_err();
    assert!(matches!(&error, Error::Sources { attempts, .. } if attempts.len() == 2), "{error}");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

struct Tls {
    listener: tokio::net::TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            // A client that does not trust us hangs up; the next one may.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A registry with a certificate of its own making. Gives its host and the certificate as PEM.
async fn tls_registry(registry: Registry) -> (String, String) {
    tls_registry_for(registry, None).await
}

/// The same, which lets only clients in whose certificate this authority signed.
async fn tls_registry_for(registry: Registry, clients: Option<&[u8]>) -> (String, String) {
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    tls_registry_with(registry, params, clients).await
}

/// The same with a certificate of this sort.
async fn tls_registry_with(registry: Registry, params: rcgen::CertificateParams, clients: Option<&[u8]>) -> (String, String) {
    let key_pair = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key_pair).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(key_pair.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(rustls_pki_types::CertificateDer::from(authority.to_vec())).unwrap();
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let tls = Tls { listener, acceptor: Arc::new(config).into() };
    tokio::spawn(async move { axum::serve(tls, registry.router()).await });
    (host, certificate.pem())
}

/// OLM1-GEN-06: what `openssl req -x509` makes is marked as an authority's certificate; container tools take it from a registry when it
/// is listed itself, for its own names and its own time.
#[tokio::test]
async fn authorities_stand_for_themselves() {
    let params = |name: &str| {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
    };
    let mut past = params("127.0.0.1");
    past.not_after = rcgen::date_time_ymd(2020, 1, 1);
    past.not_before = rcgen::date_time_ymd(2019, 1, 1);
    for (params, problem) in [
        (params("127.0.0.1"), None),
        (params("registry.example.com"), Some(("not valid for name", CertificateProblem::OtherName))),
        (past, Some(("certificate expired", CertificateProblem::Expired))),
    ] {
        let (host, pem) = tls_registry_with(Registry::in_memory(), params, None).await;
        let target = Reference::parse(&format!("{host}/org/widget:v1")).unwrap();
        let (_from, from) = store();
        let built = image(&from);
        let stranger = client(ClientConfig::default()).push(&built, &from, &target).await.unwrap_err();
        assert_eq!(stranger.kind(), ErrorKind::Certificate(CertificateProblem::Untrusted), "{stranger}");
        assert!(stranger.to_string().ends_with("invalid peer certificate: UnknownIssuer"), "{stranger}");
        assert!(stranger.hint().unwrap().contains(&format!("certs.d/{host}/ca.crt")), "{stranger}");
        let authorities = vec![("ca.pem".to_owned(), pem.into_bytes())];
        let outcome = client(ClientConfig { authorities, ..ClientConfig::default() }).push(&built, &from, &target).await;
        match (outcome, problem) {
            (Ok(_), None) => {}
            (Err(error), Some((problem, kind))) => {
                assert!(error.to_string().contains(problem), "{error}");
                assert_eq!(error.kind(), ErrorKind::Certificate(kind), "{error}");
            }
            (outcome, problem) => panic!("{outcome:?}, expected {problem:?}"),
        }
    }
}

/// OLM1-GEN-06, OLM1-GEN-14: HTTPS with a trusted authority; without trust the pull fails unless the registry is configured as insecure.
#[tokio::test]
async fn certificates_are_verified() {
    let (host, pem) = tls_registry(Registry::in_memory()).await;
    let target = Reference::parse(&format!("{host}/org/widget:v1")).unwrap();
    let (_from, from) = store();
    let built = image(&from);
    let trusting = client(ClientConfig { authorities: vec![("ca.pem".to_owned(), pem.into_bytes())], ..ClientConfig::default() });
    trusting.push(&built, &from, &target).await.unwrap();

    let error = client(ClientConfig::default()).resolve(&target).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Certificate(CertificateProblem::Untrusted), "{error}");
    assert!(error.hint().unwrap().contains("insecure = true in registries.conf"));

    let conf = format!("[[registry]]\nlocation = \"{host}\"\ninsecure = true\n");
    let registries = Registries::parse("registries.conf", &conf).unwrap();
    let insecure = client(ClientConfig { registries, ..ClientConfig::default() });
    assert_eq!(insecure.resolve(&target).await.unwrap().digest, built.digest);

    let broken = Client::new(ClientConfig {
        authorities: vec![("ca.pem".to_owned(), b"-----BEGIN CERTIFICATE-----\n!".to_vec())],
        ..ClientConfig::default()
    });
    assert!(broken.is_err_and(|error| error.to_string().starts_with("ca.pem: ")));
}

/// OLM1-GEN-06: `certs.d` holds authorities and client certificates of single registries.
#[tokio::test]
async fn certificates_of_single_registries() {
    let user = rcgen::generate_simple_self_signed(["somebody".to_owned()]).unwrap();
    let (host, pem) = tls_registry_for(Registry::in_memory(), Some(user.cert.der())).await;
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(&host);
    let attempt = || async {
        let client = client(ClientConfig { certificates: vec![folder.path().to_owned()], ..ClientConfig::default() });
        let (_from, from) = store();
        let built = image(&from);
        client.push(&built, &from, &Reference::parse(&format!("{host}/org/widget:v1")).unwrap()).await
    };
    assert_eq!(attempt().await.unwrap_err().kind(), ErrorKind::Certificate(CertificateProblem::Untrusted), "nobody is trusted");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("ca.crt"), pem).unwrap();
    assert!(attempt().await.is_err(), "the registry wants a certificate");
    std::fs::write(own.join("client.cert"), user.cert.pem()).unwrap();
    let lacking = attempt().await.unwrap_err().to_string();
    assert!(lacking.contains("client.cert: the client certificate lacks its key"), "{lacking}");
    std::fs::write(own.join("client.key"), user.signing_key.serialize_pem()).unwrap();
    attempt().await.unwrap();
    std::fs::write(own.join("client.key"), "no key").unwrap();
    let broken = attempt().await.unwrap_err().to_string();
    assert!(broken.contains("client.cert: its key cannot be read"), "{broken}");
}

/// MS-OFF-01: layouts hold images by name and platform.
#[tokio::test]
async fn layouts_hold_images() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout::create(directory.path()).unwrap();
    let built = image(layout.store());
    layout.add("quay.io/org/widget:v1", &built).unwrap();
    let again = Layout::open(directory.path()).unwrap();
    assert_eq!(again.image(None, &Platform::default()).unwrap(), built);
    assert_eq!(again.image(Some("quay.io/org/widget:v1"), &Platform::default()).unwrap().digest, built.digest);
    assert!(again.image(Some("other"), &Platform::default()).unwrap_err().to_string().ends_with("holds no image of that name"));
    let path = layout.store().path(&built.manifest.config.digest);
    std::fs::write(&path, b"{}").unwrap();
    assert_eq!(again.image(None, &Platform::default()).unwrap_err().kind(), ErrorKind::DigestMismatch);
    assert!(Layout::open(tempfile::tempdir().unwrap().path()).is_err());
}

/// The manifest of an index for this platform, and what is said when there is none.
#[tokio::test]
async fn indexes_are_chosen_from() {
    let server = Running::start(Access::Open).await;
    let (_from, from) = store();
    let plain = client(ClientConfig::default());
    let mut entries = Vec::new();
    for architecture in ["arm64", "s390x"] {
        let platform = Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None };
        let built = mainstay_oci::ImageBuilder::new()
            .file("arch", architecture.as_bytes().to_vec())
            .platform(platform.clone())
            .build(&from)
            .unwrap();
        plain.push(&built, &from, &server.reference(&format!("org/multi:{architecture}"))).await.unwrap();
        entries.push(mainstay_oci::Descriptor { platform: Some(platform), ..built.descriptor });
    }
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": mainstay_oci::media_type::OCI_INDEX, "manifests": entries}).to_string();
    let http = reqwest::Client::builder().tls_backend_preconfigured(tls_config()).build().unwrap();
    let put = http.put(format!("http://{}/v2/org/multi/manifests/all", server.host));
    let answer = put.header("content-type", mainstay_oci::media_type::OCI_INDEX).body(index.clone()).send().await.unwrap();
    assert_eq!(answer.status(), 201);

    let platform = Platform { os: "linux".to_owned(), architecture: "s390x".to_owned(), variant: None };
    let on_z = client(ClientConfig { platform, ..ClientConfig::default() });
    let (_to, to) = store();
    let pulled = on_z.pull(&server.reference("org/multi:all"), &to).await.unwrap();
    assert_eq!(pulled.digest, Digest::of(index.as_bytes()));
    assert_eq!(read_files(&Layer::of(&pulled, &to), &UnpackOptions::default()).unwrap()["arch"], b"s390x");
    let platform = Platform { os: "linux".to_owned(), architecture: "riscv64".to_owned(), variant: None };
    let elsewhere = client(ClientConfig { platform, ..ClientConfig::default() });
    let error = elsewhere.pull(&server.reference("org/multi:all"), &to).await.unwrap_err().to_string();
    assert!(error.ends_with("no image for platform linux/riscv64; the index offers [linux/arm64 linux/s390x]"), "{error}");
}

fn tls_config() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// The parts of the protocol that our own client does not use: chunks, mounts, ranges, pages, referrers, deletion.
#[tokio::test]
async fn the_registry_speaks_the_protocol() {
    let server = Running::start(Access::Open).await;
    let http = reqwest::Client::builder().tls_backend_preconfigured(tls_config()).build().unwrap();
    let base = format!("http://{}/v2", server.host);
    let digest = Digest::of(b"hello world");
    let started = http.post(format!("{base}/a/b/blobs/uploads/")).send().await.unwrap();
    let location = format!("http://{}{}", server.host, started.headers()["location"].to_str().unwrap());
    http.patch(&location).body("hello ").send().await.unwrap();
    let wrong = http.put(format!("{location}?digest=sha256:{}", "0".repeat(64))).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    let location = {
        let started = http.post(format!("{base}/a/b/blobs/uploads/")).send().await.unwrap();
        format!("http://{}{}", server.host, started.headers()["location"].to_str().unwrap())
    };
    http.patch(&location).body("hello ").send().await.unwrap();
    assert_eq!(http.put(format!("{location}?digest={digest}")).body("world").send().await.unwrap().status(), 201);
    let mounted = http.post(format!("{base}/c/blobs/uploads/?mount={digest}&from=a/b")).send().await.unwrap();
    assert_eq!(mounted.status(), 201);
    let part = http.get(format!("{base}/c/blobs/{digest}")).header("range", "bytes=6-").send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.text().await.unwrap()), (206, "world".to_owned()));
    let beyond = http.get(format!("{base}/c/blobs/{digest}")).header("range", "bytes=60-").send().await.unwrap();
    assert_eq!(beyond.status(), 416);

    let manifest = serde_json::json!({"schemaVersion": 2, "config": {"digest": digest, "mediaType": "text/x"}, "layers": [],
        "subject": {"digest": digest}, "artifactType": "example/sbom"});
    for tag in ["v1", "v2", "v3"] {
        assert_eq!(http.put(format!("{base}/c/manifests/{tag}")).body(manifest.to_string()).send().await.unwrap().status(), 201);
    }
    let tags = http.get(format!("{base}/c/tags/list?n=2")).send().await.unwrap();
    assert!(tags.headers()["link"].to_str().unwrap().contains("last=v2"));
    let document: serde_json::Value = serde_json::from_slice(&tags.bytes().await.unwrap()).unwrap();
    assert_eq!(document, serde_json::json!({"name": "c", "tags": ["v1", "v2"]}));
    let referrers = http.get(format!("{base}/c/referrers/{digest}?artifactType=example%2Fsbom")).send().await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&referrers.bytes().await.unwrap()).unwrap();
    assert_eq!(document["manifests"].as_array().unwrap().len(), 1);
    let lost = serde_json::json!({"schemaVersion": 2, "config": {"digest": Digest::of(b"lost")}, "layers": []}).to_string();
    assert_eq!(http.put(format!("{base}/c/manifests/x")).body(lost).send().await.unwrap().status(), 404);
    assert_eq!(http.delete(format!("{base}/c/manifests/v1")).send().await.unwrap().status(), 202);
    assert_eq!(http.get(format!("{base}/c/manifests/v1")).send().await.unwrap().status(), 404);
    assert_eq!(http.get(format!("{base}/UP/manifests/v1")).send().await.unwrap().status(), 400);
}

/// A registry that keeps its content in a directory finds it again.
#[tokio::test]
async fn registries_on_disk_stay() {
    let directory = tempfile::tempdir().unwrap();
    let options = || mainstay_oci::registry::Options { directory: Some(directory.path().to_owned()), ..Default::default() };
    let (_from, from) = store();
    let built = image(&from);
    for turn in 0..2 {
        let registry = Registry::new(options()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Reference::parse(&format!("{}/org/widget:v1", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(registry.serve(listener, std::future::pending()));
        let client = client(ClientConfig::default());
        if turn == 0 {
            client.push(&built, &from, &target).await.unwrap();
        }
        let (_to, to) = store();
        assert_eq!(client.pull(&target, &to).await.unwrap(), built);
    }
}

/// Debian's docker-registry as a second opinion on the client.
#[tokio::test]
async fn docker_registry_agrees() {
    let known = ["/usr/bin/docker-registry".to_owned()];
    let paths = std::env::var("PATH").unwrap_or_default();
    let candidates = paths.split(':').map(|directory| format!("{directory}/docker-registry")).chain(known);
    let Some(program) = candidates.into_iter().find(|path| std::path::Path::new(path).is_file()) else {
        eprintln!("skipped: docker-registry is not installed");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    // Bound without a listener, so that nobody else is given the port; the registry may listen beside it.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.set_reuseaddr(true).unwrap();
    held.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let port = held.local_addr().unwrap().port();
    let config = directory.path().join("config.yml");
    let text = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  delete:\n    enabled: true\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
        directory.path().join("data").display()
    );
    std::fs::write(&config, text).unwrap();
    let mut child = std::process::Command::new(program)
        .arg("serve")
        .arg(&config)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let outcome = second_opinion(port).await;
    child.kill().unwrap();
    child.wait().unwrap();
    outcome.unwrap();
}

async fn second_opinion(port: u16) -> Result<(), Error> {
    let address = format!("127.0.0.1:{port}");
    // The server says nothing when it is ready; a connection is the sign.
    let mut tries = 0;
    while tokio::net::TcpStream::connect(&address).await.is_err() && tries < 2400 {
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let client = client(ClientConfig::default());
    let (_from, from) = store();
    let built = image(&from);
    let target = Reference::parse(&format!("{address}/org/widget:v1"))?;
    assert_eq!(client.push(&built, &from, &target).await?, built.digest);
    assert_eq!(client.resolve(&target).await?.digest, built.digest);
    let (_to, to): (_, BlobStore) = store();
    assert_eq!(client.pull(&target, &to).await?, built);
    assert_eq!(client.tags(&target).await?, ["v1"]);
    // In pieces, mounted, several platforms as one, copied whole, and deleted.
    let pieces = Client::new(ClientConfig { chunk: 100, ..ClientConfig::default() })?;
    let large = mainstay_oci::ImageBuilder::new()
        .file("large", (0..2000_u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>())
        .compression(mainstay_oci::Compression::None);
    let build = |platform: &str| large.clone().platform(platform.parse()?).build(&from);
    let index = mainstay_oci::ImageIndex::build(vec![build("linux/amd64")?, build("linux/arm64")?], &from)?;
    let several = Reference::parse(&format!("{address}/org/several:v1"))?;
    assert_eq!(pieces.push_index(&index, &from, &several, &[]).await?, index.descriptor.digest);
    let (_survey, survey) = store();
    let tree = client.survey(&several, &survey).await?;
    let copy = Reference::parse(&format!("{address}/copies/several:v1"))?;
    assert!(client.put(&tree, &survey, &copy, std::slice::from_ref(&several)).await?);
    assert!(client.holds(&copy, &index.descriptor.digest).await? && !survey.has(&tree.blobs[0].digest), "blobs were mounted");
    let (_to, to): (_, BlobStore) = store();
    assert_eq!(client.for_platform("linux/arm64".parse()?).pull(&copy, &to).await?.digest, index.descriptor.digest);
    client.delete(&copy.at(index.descriptor.digest.clone())).await?;
    assert!(!client.holds(&copy, &index.descriptor.digest).await?);
    let missing = client.pull(&Reference::parse(&format!("{address}/org/other:v1"))?, &to).await;
    assert!(missing.is_err_and(|error| error.kind() == ErrorKind::NotFound));
    Ok(())
}
