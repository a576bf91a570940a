//! A registry that misbehaves on request.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use mainstay_oci::Reference;
use mainstay_oci::registry::Registry;

/// What was asked, as `METHOD path range`.
type Log = Arc<Mutex<Vec<String>>>;
/// Answers instead of the registry, or changes what it answers; the number counts the requests that this fault looked at.
pub type Fault = Arc<dyn Fn(&Request) -> Option<Act> + Send + Sync>;

pub enum Act {
    /// This, without asking the registry.
    Answer(Response),
    /// What the registry answers, cut off after so many bytes.
    Cut(usize),
    /// The request reaches the registry without its `Range`.
    Forget,
}

#[derive(Clone)]
struct Front {
    log: Log,
    fault: Fault,
}

pub struct Faulty {
    pub host: String,
    log: Log,
}

impl Faulty {
    pub async fn start(fault: impl Fn(&Request) -> Option<Act> + Send + Sync + 'static) -> Self {
        let front = Front { log: Log::default(), fault: Arc::new(fault) };
        let log = front.log.clone();
        let router = Registry::in_memory().router().layer(axum::middleware::from_fn_with_state(front, handle));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { host, log }
    }

    pub fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.host)).unwrap()
    }

    /// What was asked with this method and of such a path, since the last time.
    pub fn asked(&self, method: &str, part: &str) -> Vec<String> {
        let all = std::mem::take(&mut *self.log.lock().unwrap());
        all.into_iter().filter(|line| line.starts_with(method) && line.contains(part)).collect()
    }
}

async fn handle(State(front): State<Front>, mut request: Request, next: Next) -> Response {
    let range = request.headers().get("range").map(|range| format!(" {}", range.to_str().unwrap())).unwrap_or_default();
    front.log.lock().unwrap().push(format!("{} {}{range}", request.method(), request.uri().path()));
    match (front.fault)(&request) {
        None => next.run(request).await,
        Some(Act::Answer(response)) => response,
        Some(Act::Forget) => {
            request.headers_mut().remove("range");
            next.run(request).await
        }
        Some(Act::Cut(length)) => {
            let (parts, body) = next.run(request).await.into_parts();
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let first = Ok(bytes.slice(..length.min(bytes.len())));
            // The pause lets the first part leave before the connection breaks.
            let rest = futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            let mut response =
                Response::from_parts(parts, Body::from_stream(futures::StreamExt::chain(futures::stream::iter([first]), rest)));
            response.headers_mut().insert("content-length", bytes.len().into());
            response
        }
    }
}

/// An answer of this status.
pub fn status(code: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Act {
    let builder = headers.iter().fold(Response::builder().status(code), |builder, (name, value)| builder.header(*name, *value));
    Act::Answer(builder.body(body.into()).unwrap())
}
