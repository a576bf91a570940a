//! Listeners over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use mainstay_serve::{Authorities, Certificates, ClientCertificates, Connection, Ended, Limits, Server, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

struct Pair {
    cert: String,
    key: String,
}

fn self_signed(name: &str) -> Pair {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    Pair { cert: made.cert.pem(), key: made.signing_key.serialize_pem() }
}

fn router() -> Router {
    Router::new()
        .route("/who", get(|Extension(c): Extension<Connection>| async move { format!("{} {}", c.encrypted, c.certificates.len()) }))
        .route(
            "/slow",
            get(|| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                "late"
            }),
        )
        .route(
            "/endless",
            get(|| async {
                let pieces = futures::stream::repeat_with(|| Ok::<_, std::convert::Infallible>(vec![0_u8; 4096]));
                axum::body::Body::from_stream(pieces)
            }),
        )
        .route("/never", get(std::future::pending::<&'static str>))
}

fn client(roots: &[&Pair], identity: Option<&Pair>) -> TlsConnector {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(CertificateDer::from_pem_slice(root.cert.as_bytes()).unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    TlsConnector::from(Arc::new(config))
}

async fn ask<S: AsyncReadExt + AsyncWriteExt + Unpin>(mut stream: S, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that closes without a TLS goodbye is an error here, after the answer was read.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap().rsplit("\r\n\r\n").next().unwrap().to_owned()
}

/// KAPI-SRV-02, KAPI-AUTH-01: HTTPS on a picked port; a certificate that nobody trusts reaches the authenticator.
#[tokio::test]
async fn https_with_client_certificates_and_replacement() {
    let (first, second, stranger) = (self_signed("localhost"), self_signed("localhost"), self_signed("stranger"));
    let certificates = Certificates::from_pem(first.cert.as_bytes(), first.key.as_bytes()).unwrap();
    let tls = Tls::new(&certificates, ClientCertificates::Requested).unwrap();
    let server = Server::bind(ANY_PORT).await.unwrap().tls(tls);
    let address = server.address();
    assert_ne!(address.port(), 0);
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(router(), stop.clone()));

    let connect = async |connector: TlsConnector| {
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
    };
    assert_eq!(ask(connect(client(&[&first], None)).await.unwrap(), "/who").await, "true 0");
    assert_eq!(ask(connect(client(&[&first], Some(&stranger))).await.unwrap(), "/who").await, "true 1");

    certificates.replace(second.cert.as_bytes(), second.key.as_bytes()).unwrap();
    assert!(connect(client(&[&first], None)).await.is_err());
    assert_eq!(ask(connect(client(&[&second], None)).await.unwrap(), "/who").await, "true 0");
    assert!(certificates.replace(b"nonsense", second.key.as_bytes()).is_err());
    assert!(certificates.replace(first.cert.as_bytes(), second.key.as_bytes()).is_err());

    stop.cancel();
    assert_eq!(running.await.unwrap(), Ended::Drained);
}

/// OLM0-MET-03: a client certificate that none of the authorities signed ends the handshake; none is required; authorities can be replaced.
#[tokio::test]
async fn client_certificates_of_authorities() {
    let (serving, known, other) = (self_signed("localhost"), self_signed("known"), self_signed("other"));
    let folder = std::env::temp_dir().join(format!("mainstay-authorities-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("ca.crt");
    std::fs::write(&file, &known.cert).unwrap();
    let authorities = Authorities::from_file(&file).unwrap();
    let certificates = Certificates::from_pem(serving.cert.as_bytes(), serving.key.as_bytes()).unwrap();
    let tls = Tls::new(&certificates, ClientCertificates::Verified(authorities.clone())).unwrap();
    let server = Server::bind(ANY_PORT).await.unwrap().tls(tls).without_http2();
    let (address, stop) = (server.address(), CancellationToken::new());
    let running = tokio::spawn(server.run(router(), stop.clone()));
    let following = tokio::spawn(authorities.follow_file(file.clone(), Duration::from_millis(5), stop.clone()));
    let answer = async |identity: Option<&Pair>| {
        let stream = TcpStream::connect(address).await.unwrap();
        // With TLS 1.3 the client learns of a refusal when it reads.
        match client(&[&serving], identity).connect(ServerName::try_from("localhost").unwrap(), stream).await {
            Ok(stream) => ask(stream, "/who").await,
            Err(_) => String::new(),
        }
    };
    assert_eq!(answer(None).await, "true 0");
    assert_eq!(answer(Some(&known)).await, "true 1");
    assert_eq!(answer(Some(&other)).await, "");
    std::fs::write(&file, &other.cert).unwrap();
    let replaced = tokio::time::timeout(Duration::from_secs(20), async { while answer(Some(&other)).await != "true 1" {} }).await;
    replaced.unwrap();
    assert_eq!(answer(Some(&known)).await, "");
    for unusable in ["", "nonsense"] {
        assert!(Authorities::from_pem(unusable.as_bytes()).is_err());
    }
    stop.cancel();
    following.await.unwrap();
    assert_eq!(running.await.unwrap(), Ended::Drained);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// KAPI-SRV-04: requests in flight are finished, new connections are refused, what never ends is cut.
#[tokio::test]
async fn drains_and_cuts() {
    let server = Server::bind(ANY_PORT).await.unwrap();
    let address = server.address();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(router(), stop.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // The answer to another request shows that the listener has taken the first connection.
    assert_eq!(ask(TcpStream::connect(address).await.unwrap(), "/who").await, "false 0");
    stop.cancel();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("late"), "{answer}");
    assert_eq!(running.await.unwrap(), Ended::Drained);
    assert!(TcpStream::connect(address).await.is_err());

    let limits = Limits { drain: Duration::from_millis(20), ..Limits::default() };
    let server = Server::bind(ANY_PORT).await.unwrap().limits(limits);
    let address = server.address();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(router(), stop.clone()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(ask(TcpStream::connect(address).await.unwrap(), "/who").await, "false 0");
    stop.cancel();
    assert_eq!(running.await.unwrap(), Ended::Cut(1));
}

/// KAPI-SRV-02: an address in use is named.
#[tokio::test]
async fn address_in_use() {
    let first = Server::bind(ANY_PORT).await.unwrap();
    let error = Server::bind(first.address()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {}", first.address()));
}

/// KAPI-SRV-06: a head that never ends, one without end and an answer that nobody reads cost a connection no longer than the limits.
#[tokio::test]
async fn slow_and_endless_clients_are_let_go_of() {
    let short = Duration::from_millis(50);
    let limits = Limits { header_read: short, write_stall: short, buffer_bytes: 16 * 1024, ..Limits::default() };
    let server = Server::bind(ANY_PORT).await.unwrap().limits(limits);
    let address = server.address();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(router(), stop.clone()));
    let mut dawdler = TcpStream::connect(address).await.unwrap();
    dawdler.write_all(b"GET /who HTTP/1.1\r\nhost: x\r\nx-slow: ").await.unwrap();
    let mut said = Vec::new();
    // It is let go of, with or without a word.
    let _ = dawdler.read_to_end(&mut said).await;
    let mut endless = TcpStream::connect(address).await.unwrap();
    let mut head = b"GET /who HTTP/1.1\r\nhost: x\r\nx-long: ".to_vec();
    head.extend(vec![b'a'; 64 * 1024]);
    endless.write_all(&head).await.unwrap();
    let mut answer = Vec::new();
    // The connection may be reset, since more was sent than was read.
    let _ = endless.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    let mut deaf = TcpStream::connect(address).await.unwrap();
    deaf.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(ask(TcpStream::connect(address).await.unwrap(), "/who").await, "false 0");
    stop.cancel();
    // Nobody reads from the deaf one, and it is gone all the same.
    assert_eq!(running.await.unwrap(), Ended::Drained);
    drop(deaf);
}

/// KAPI-SRV-06: when all places are taken, somebody new gets that of a stranger who does nothing.
#[tokio::test]
async fn a_full_listener_has_room() {
    let server = Server::bind(ANY_PORT).await.unwrap().limits(Limits { connections: 3, ..Limits::default() });
    let address = server.address();
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(router(), stop.clone()));
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(ask(TcpStream::connect(address).await.unwrap(), "/who").await, "false 0");
    let mut nothing = Vec::new();
    let _ = idle[0].read_to_end(&mut nothing).await;
    assert!(nothing.is_empty(), "the first one was closed");
    stop.cancel();
    running.await.unwrap();
}

/// OLM1-GEN-05: a listener without HTTP/2 offers HTTP/1.1 alone, and speaks TLS 1.2 and newer.
#[tokio::test]
async fn without_http2() {
    let pair = self_signed("localhost");
    let certificates = Certificates::from_pem(pair.cert.as_bytes(), pair.key.as_bytes()).unwrap();
    let stop = CancellationToken::new();
    for (http2, agreed) in [(true, b"h2".as_slice()), (false, b"http/1.1".as_slice())] {
        let server = Server::bind(ANY_PORT).await.unwrap().tls(Tls::new(&certificates, ClientCertificates::Ignored).unwrap());
        let server = if http2 { server } else { server.without_http2() };
        let address = server.address();
        tokio::spawn(server.run(router(), stop.clone()));
        let mut store = RootCertStore::empty();
        store.add(CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(agreed));
        assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    }
    stop.cancel();
}

/// A `ClientHello` of TLS up to this version, which a server of TLS 1.2 can otherwise agree to.
fn hello(version: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.push(0);
    // Suites: TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA of the old versions, and with AES_128_GCM_SHA256 that of TLS 1.2.
    body.extend([0, 4, 0xc0, 0x09, 0xc0, 0x2b]);
    body.extend([1, 0]);
    // Extensions: ecdsa_secp256r1_sha256, secp256r1, uncompressed points.
    body.extend([0, 22]);
    body.extend([0, 13, 0, 4, 0, 2, 4, 3]);
    body.extend([0, 10, 0, 4, 0, 2, 0, 23]);
    body.extend([0, 11, 0, 2, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

/// OLM1-GEN-05: who speaks at most TLS 1.1 is told that the version is too old; without encryption there is no answer, but with a
/// certificate only. The certificate is read again when its files change.
#[tokio::test]
async fn old_and_plain_clients_are_refused_and_files_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let put = |pair: &Pair| {
        std::fs::write(&chain, &pair.cert).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
    };
    let (first, second) = (self_signed("localhost"), self_signed("localhost"));
    put(&first);
    let certificates = Certificates::from_files(&chain, &key).unwrap();
    let stop = CancellationToken::new();
    let failed = Arc::new(AtomicU64::new(0));
    let count = failed.clone();
    let on_read = move |succeeded: bool| {
        count.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
    };
    tokio::spawn(certificates.clone().follow_files(chain.clone(), key.clone(), Duration::from_millis(5), stop.clone(), on_read));
    let server = Server::bind(ANY_PORT).await.unwrap().tls(Tls::new(&certificates, ClientCertificates::Ignored).unwrap());
    let address = server.address();
    tokio::spawn(server.run(router(), stop.clone()));

    // A fatal alert: protocol_version; or a ServerHello.
    for (version, record, said) in [([3, 1], 21, Some([2, 70])), ([3, 2], 21, Some([2, 70])), ([3, 3], 22, None)] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&hello(version)).await.unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[0], record, "{version:?}: {answer:?}");
        assert!(said.is_none_or(|said| answer[5..] == said), "{version:?}: {answer:?}");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /who HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The connection may be reset, since not all that was sent was read.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");

    let shown = async |root: &Pair| {
        let stream = TcpStream::connect(address).await.unwrap();
        client(&[root], None).connect(ServerName::try_from("localhost").unwrap(), stream).await.is_ok()
    };
    assert!(shown(&first).await && !shown(&second).await);
    put(&second);
    while !shown(&second).await {
        tokio::task::yield_now().await;
    }
    assert!(!shown(&first).await, "the one before is not shown any more");
    // Half a pair is not taken: what was read before stays, and each reading counts as failed.
    std::fs::write(&key, "half").unwrap();
    let before = failed.load(Ordering::Relaxed);
    while failed.load(Ordering::Relaxed) < before + 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(shown(&second).await);
    stop.cancel();
}
