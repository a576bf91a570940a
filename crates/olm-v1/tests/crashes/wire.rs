//! The wire between operator-controller and the API, with whatever can go wrong on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

/// What happens to the requests of operator-controller and of the accounts it acts as. Writes are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The process ends before this write is sent.
    KilledBefore(usize),
    /// The process ends after this write was done, before its answer is read.
    KilledAfter(usize),
    /// Some writes from this one on are answered so; of the odd ones nobody knows that they were done.
    Writes {
        at: usize,
        count: usize,
        answer: Answer,
    },
    /// Some reads from this one on are answered so.
    Reads {
        at: usize,
        count: usize,
        answer: Answer,
    },
    /// The first watches end after so many pieces; every third of them is told that its version is gone.
    Watches {
        count: usize,
        pieces: usize,
    },
    /// The first watches go silent after so many pieces, as on a connection that died without a word, until whoever reads them gives up.
    Silence {
        count: usize,
        pieces: usize,
    },
    /// Another leader takes over while this write is under way: it arrives after the other one is done, and all that follow it.
    Replaced {
        at: usize,
    },
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Conflict,
    TooMany,
    Internal,
    Timeout,
    /// The connection is cut: no answer that can be read.
    Cut,
    /// Nobody answers, ever.
    Never,
    /// The answer begins, and does not go on.
    Half,
}

impl Answer {
    pub const ALL: [Self; 7] = [Self::Conflict, Self::TooMany, Self::Internal, Self::Timeout, Self::Cut, Self::Never, Self::Half];

    /// Whether somebody who is answered so cannot know what was done.
    fn leaves_doubt(self) -> bool {
        !matches!(self, Self::Conflict | Self::TooMany)
    }

    async fn response(self) -> Response {
        let (code, reason) = match self {
            Self::Conflict => (StatusCode::CONFLICT, "Conflict"),
            Self::TooMany => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Cut => {
                let cut = futures::stream::iter([Err::<Vec<u8>, _>(std::io::Error::other("the connection was cut"))]);
                return Body::from_stream(cut).into_response();
            }
            Self::Never => std::future::pending().await,
            Self::Half => {
                let begins = futures::stream::iter([Ok::<_, std::convert::Infallible>(&b"{\"kind\":"[..])]);
                return Body::from_stream(begins.chain(futures::stream::pending())).into_response();
            }
        };
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(), "reason": reason,
            "message": "an injected failure", "details": {"retryAfterSeconds": 1}});
        let mut response = (code, axum::Json(status)).into_response();
        if self == Self::TooMany {
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from_static("1"));
        }
        response
    }
}

/// A faulty way to the API.
#[derive(Clone)]
pub struct Wire {
    fault: Fault,
    writes: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
    watches: Arc<AtomicUsize>,
    /// Told when the process is to end, or to be replaced.
    pub over: Arc<Notify>,
    late: Arc<Semaphore>,
}

impl Wire {
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            writes: Arc::default(),
            reads: Arc::default(),
            watches: Arc::default(),
            over: Arc::default(),
            late: Arc::new(Semaphore::new(0)),
        }
    }

    pub fn over(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), pass))
    }

    /// Lets the writes through that were held back.
    pub fn release(&self) {
        self.late.close();
    }
}

async fn pass(State(wire): State<Wire>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return read(&wire, request, next).await;
    }
    let number = wire.writes.fetch_add(1, Ordering::SeqCst);
    match wire.fault {
        Fault::KilledBefore(at) if number >= at => {
            wire.over.notify_one();
            std::future::pending().await
        }
        Fault::KilledAfter(at) if number >= at => {
            if number == at {
                next.run(request).await;
            }
            wire.over.notify_one();
            std::future::pending().await
        }
        Fault::Writes { at, count, answer } if (at..at + count).contains(&number) => {
            if number % 2 == 1 && answer.leaves_doubt() {
                next.run(request).await;
            }
            answer.response().await
        }
        Fault::Replaced { at } if number >= at => {
            wire.over.notify_one();
            // There are no permits: this ends when the writes are released.
            let _ = wire.late.acquire().await;
            next.run(request).await
        }
        _ => next.run(request).await,
    }
}

async fn read(wire: &Wire, request: Request, next: Next) -> Response {
    if request.uri().query().is_some_and(|query| query.contains("watch=")) {
        return watch(wire, request, next).await;
    }
    let number = wire.reads.fetch_add(1, Ordering::SeqCst);
    match wire.fault {
        Fault::Reads { at, count, answer } if (at..at + count).contains(&number) => answer.response().await,
        _ => next.run(request).await,
    }
}

/// How long whoever reads a watch takes until silence tells him that its connection is dead. `kube::runtime` takes five minutes.
const NOTICED: Duration = Duration::from_millis(400);

async fn watch(wire: &Wire, request: Request, next: Next) -> Response {
    let (Fault::Watches { count, pieces } | Fault::Silence { count, pieces }) = wire.fault else { return next.run(request).await };
    let number = wire.watches.fetch_add(1, Ordering::SeqCst);
    if number >= count {
        return next.run(request).await;
    }
    let silent = matches!(wire.fault, Fault::Silence { .. });
    if number % 3 == 2 && !silent {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "too old resource version: 1 (2)"});
        return (StatusCode::GONE, axum::Json(status)).into_response();
    }
    let (parts, body) = next.run(request).await.into_parts();
    let told = body.into_data_stream().take(pieces);
    if !silent {
        return Response::from_parts(parts, Body::from_stream(told));
    }
    let silence = futures::stream::once(tokio::time::sleep(NOTICED)).map(|()| Err(axum::Error::new("silence")));
    Response::from_parts(parts, Body::from_stream(told.chain(silence)))
}
