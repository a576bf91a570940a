//! A server that answers as it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone)]
pub enum Reply {
    Body(u16, String),
    /// So many mebibytes.
    Large(usize),
    /// No head at all.
    Silent,
    /// A head, a beginning, and then nothing.
    Stalls,
    /// One byte now and then, for ever.
    Drips,
    /// A head that promises more than comes.
    BreaksOff,
    Redirect(String),
    /// To itself.
    Loop,
}

#[derive(Clone)]
struct Told {
    reply: Reply,
    seen: Seen,
}

pub type Seen = Arc<Mutex<Vec<(Uri, HeaderMap)>>>;

/// Starts a server, and returns its URL and what it was asked.
pub async fn start(reply: Reply) -> (String, Seen) {
    let seen = Seen::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(answer).with_state(Told { reply, seen: seen.clone() });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, seen)
}

/// Fails when the head has left.
async fn broken() -> std::io::Result<&'static [u8]> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Err(std::io::ErrorKind::ConnectionReset.into())
}

async fn answer(State(told): State<Told>, request: Request) -> Response {
    told.seen.lock().unwrap().push((request.uri().clone(), request.headers().clone()));
    let streamed = |body: Body| Response::new(body);
    let pieces = |piece: &'static [u8]| stream::repeat(piece).map(Ok::<_, std::io::Error>);
    match told.reply {
        Reply::Body(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Reply::Large(mebibytes) => {
            streamed(Body::from_stream(stream::repeat(vec![b' '; 1 << 20]).take(mebibytes).map(Ok::<_, std::io::Error>)))
        }
        Reply::Silent => std::future::pending().await,
        Reply::Stalls => streamed(Body::from_stream(pieces(b"{").take(1).chain(stream::pending()))),
        Reply::Drips => streamed(Body::from_stream(pieces(b" ").then(|piece| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            piece
        }))),
        Reply::BreaksOff => Response::builder()
            .header("content-length", "100")
            .body(Body::from_stream(pieces(b"{").take(3).chain(stream::once(broken()))))
            .unwrap(),
        Reply::Redirect(to) => (StatusCode::FOUND, [("location", to)]).into_response(),
        Reply::Loop => (StatusCode::FOUND, [("location", request.uri().to_string())]).into_response(),
    }
}

/// Puts TLS before a server, for the name `localhost`; returns the URL and the certificate.
pub async fn with_tls(server: &str) -> (String, String) {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let tls = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let behind = server.trim_start_matches("http://").to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(behind).await.unwrap();
                // Either side may leave as it likes.
                copy_bidirectional(&mut stream, &mut server).await.ok();
            });
        }
    });
    (url, certificate.cert.pem())
}
