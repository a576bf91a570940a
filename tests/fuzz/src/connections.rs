//! Connections by what happens to them: they come, say a part of something, idle, end in halves or at once, claim a name, and are swept,
//! in any order, on a listener that has few places.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::Path;
use axum::routing::get;
use axum::{Extension, Router};
use futures::FutureExt as _;
use mainstay_serve::fuzz::Listener;
use mainstay_serve::{Certificates, ClientCertificates, Limits, Place, Tls};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::choices::Choices;

/// Places of the listener.
const PLACES: usize = 4;
/// What happens, at the most.
const MOST_STEPS: usize = 150;
/// How long connections may take to end after their clients did. It takes milliseconds; a machine may be busy.
const ENDS: Duration = Duration::from_secs(60);

/// A pair of a certificate and its key, made once.
static PAIR: LazyLock<Option<(String, String)>> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).ok()?;
    Some((made.cert.pem(), made.signing_key.serialize_pem()))
});

/// What a client of TLS says first.
static HELLO: LazyLock<Vec<u8>> = LazyLock::new(|| hello().unwrap_or_default());

fn hello() -> Option<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    let config = config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let mut client = rustls::ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").ok()?).ok()?;
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).ok()?;
    Some(bytes)
}

/// No more connections are open than there are places; somebody new always has one, unless all are reserved, and is answered; and when all
/// clients are gone, no place is taken and no byte held.
pub(crate) fn connections(data: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(live(data));
}

async fn live(data: &[u8]) {
    let mut choices = Choices(data);
    let encrypted = choices.number() % 3 == 1;
    let tls = PAIR.as_ref().filter(|_| encrypted).and_then(|(chain, key)| {
        let certificates = Certificates::from_pem(chain.as_bytes(), key.as_bytes()).ok()?;
        Tls::new(&certificates, ClientCertificates::Requested).ok()
    });
    let encrypted = tls.is_some();
    let overdue = CancellationToken::new();
    let listener = Listener::new(router(overdue.clone()), tls, Limits { connections: PLACES, ..Limits::default() });
    let (mut clients, mut served): (Vec<DuplexStream>, JoinSet<()>) = (Vec::new(), JoinSet::new());
    for _ in 0..MOST_STEPS {
        let Some(what) = choices.next() else { break };
        match what % 12 {
            0..=2 => {
                if let Some(client) = connect(&listener, &mut served, choices.number()) {
                    clients.push(client);
                }
            }
            3..=6 => say(&mut clients, &mut choices),
            7 => take(&mut clients, &mut choices),
            8 => {
                if let Some(client) = chosen(&mut clients, &mut choices) {
                    let _ = client.shutdown().now_or_never();
                }
            }
            9 => {
                if !clients.is_empty() {
                    clients.swap_remove(choices.number() % clients.len());
                }
            }
            10 => listener.sweep(choices.of(&[Duration::ZERO, Duration::from_secs(60)])),
            _ => pass(choices.number() % 50).await,
        }
        assert!(listener.open() <= PLACES, "{} connections in {PLACES} places", listener.open());
    }
    if !encrypted {
        match connect(&listener, &mut served, 0) {
            Some(client) => is_answered(client).await,
            None => assert_eq!((listener.open(), listener.reserved()), (PLACES, PLACES), "somebody new has no place"),
        }
    }
    drop(clients);
    // Whatever a client does, a request ends by its own deadline.
    overdue.cancel();
    let ended = async {
        while let Some(ended) = served.join_next().await {
            if let Err(error) = ended {
                panic!("a connection ended abnormally: {error}");
            }
        }
    };
    assert!(tokio::time::timeout(ENDS, ended).await.is_ok(), "connections of clients that are gone do not end");
    assert!(is_empty(&listener).await, "{} connections and {} bytes that nobody has any more", listener.open(), listener.held());
}

fn router(overdue: CancellationToken) -> Router {
    Router::new()
        .route("/", get(|| async { "small" }))
        .route("/large", get(|| async { vec![b'x'; 200_000] }))
        .route("/never", get(move || async move { overdue.cancelled().await }))
        .route(
            "/as/{name}",
            get(|Path(name): Path<String>, Extension(place): Extension<Place>| async move {
                place.claim(&name.as_str().into(), name == "admin");
                "known"
            }),
        )
        .route(
            "/end/{way}",
            get(|Path(way): Path<String>, Extension(place): Extension<Place>| async move {
                if way == "cut" {
                    place.cut();
                } else {
                    place.close();
                }
                "going"
            }),
        )
}

/// Whether everything is given back, as soon as the tasks of single requests have ended.
pub(crate) async fn is_empty(listener: &Listener) -> bool {
    let empties = async {
        while (listener.open(), listener.held()) != (0, 0) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(ENDS, empties).await.is_ok()
}

/// A connection from one of a few addresses.
fn connect(listener: &Listener, served: &mut JoinSet<()>, from: usize) -> Option<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(8 << 10);
    let remote = IpAddr::V4(Ipv4Addr::new(127, 0, 0, (from % 3) as u8 + 1));
    served.spawn(listener.connect(theirs, remote)?);
    Some(ours)
}

fn chosen<'c>(clients: &'c mut [DuplexStream], choices: &mut Choices<'_>) -> Option<&'c mut DuplexStream> {
    let at = choices.number().checked_rem(clients.len())?;
    clients.get_mut(at)
}

/// A client says something, or a part of it.
fn say(clients: &mut [DuplexStream], choices: &mut Choices<'_>) {
    let Some(client) = chosen(clients, choices) else { return };
    let texts: [&[u8]; 20] = [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /never HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /as/admin HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /as/a HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /as/b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"GET /end/cut HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /end/close HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n01234",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n01234\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nffffffffffffffffff\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\r\n",
        b"0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\x04\0\0\0\0\0",
        b"\0\0\x08\x06\0\0\0\0\0pingpong",
        b"\x16\x03\x01\x40\0\x01\0\0\0",
        &HELLO,
    ];
    let text = choices.of(&texts);
    let end = if choices.number().is_multiple_of(3) { choices.number() % (text.len() + 1) } else { text.len() };
    // Where nobody reads there is no room: the client does not wait for it.
    let _ = client.write_all(&text[..end]).now_or_never();
}

/// A client reads what there is.
fn take(clients: &mut [DuplexStream], choices: &mut Choices<'_>) {
    let Some(client) = chosen(clients, choices) else { return };
    let mut scratch = vec![0; choices.number() * 64 + 1];
    let _ = client.read(&mut scratch).now_or_never();
}

/// The listener goes on for a while.
async fn pass(steps: usize) {
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
}

async fn is_answered(mut client: DuplexStream) {
    let asks = async {
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.map(|_| answer)
    };
    match tokio::time::timeout(ENDS, asks).await {
        Ok(Ok(answer)) => assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer)),
        other => panic!("somebody new is not answered: {other:?}"),
    }
}

pub(crate) fn connection_seeds() -> Vec<Vec<u8>> {
    vec![
        // Five come to four places, each says something.
        vec![0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 3, 0, 0, 1, 3, 1, 4, 1, 11, 30, 3, 2, 1, 1, 11, 30, 7, 2, 50],
        // All places become reserved.
        vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 3, 1, 3, 1, 3, 1, 3, 2, 3, 1, 3, 3, 3, 1, 11, 40, 0, 1, 10, 0],
        // Large answers that nobody reads, and sweeps.
        vec![0, 0, 0, 3, 0, 1, 1, 11, 40, 10, 0, 11, 20, 10, 1, 8, 0, 9, 0],
        // Handshakes that are begun.
        vec![1, 0, 0, 3, 0, 19, 0, 100, 11, 10, 0, 1, 3, 1, 19, 1, 11, 20, 3, 1, 18, 1, 11, 20, 8, 0],
        // HTTP/2 on a plain connection, and what has an end of its own.
        vec![0, 0, 0, 3, 0, 15, 1, 3, 0, 16, 1, 3, 0, 17, 1, 11, 20, 7, 0, 9, 0, 1, 3, 1, 6, 1, 3, 1, 7, 1, 11, 30],
    ]
}
