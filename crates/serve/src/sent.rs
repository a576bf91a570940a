//! Answers in transit: sent in pieces, each of which counts as held until the connection has released it.
//!
//! HTTP/2 gives a client one window for each stream, and data that the client does not take stays here. The connection gets a piece only after it
//! took the preceding one. The piece's memory counts for the connection until it was sent or its stream was reset. So it is exactly known what a
//! connection holds and when it last took anything, whatever its protocol.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::places::{Place, Seat};

/// The largest piece, in bytes.
const PIECE: usize = 32 * 1024;
/// The cost of a piece beside its bytes: its stream and its request.
const OVERHEAD: usize = 2 * 1024;

/// The body of an answer in transit.
pub struct Sent {
    body: Body,
    rest: Bytes,
    active: Active,
}

/// A request that counts as active on its connection until this is dropped.
struct Active(Place);

impl Active {
    fn new(place: Place) -> Self {
        place.seat().enter();
        Self(place)
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.seat().leave();
    }
}

/// A request in progress, which becomes the body of its answer.
pub struct Answering(Active);

impl Answering {
    /// Begins a request on a connection.
    pub fn begin(place: Place) -> Self {
        Self(Active::new(place))
    }

    /// Returns the body of its answer.
    pub fn send(self, body: Body) -> Body {
        if body.is_end_stream() { body } else { Body::new(Sent { body, rest: Bytes::new(), active: self.0 }) }
    }
}

/// A piece of an answer that a connection holds.
struct Piece {
    bytes: Bytes,
    seat: Arc<Seat>,
}

impl Piece {
    fn of(bytes: Bytes, seat: &Arc<Seat>) -> Bytes {
        seat.hold(bytes.len() + OVERHEAD);
        Bytes::from_owner(Self { bytes, seat: seat.clone() })
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.seat.release(self.bytes.len() + OVERHEAD);
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(Piece::of(piece, this.active.0.seat())))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.rest.len() as u64;
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(left));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::places::Places;

    /// KAPI-SRV-06: what is not taken is known to the byte, goes out in pieces, and arrives whole.
    #[tokio::test]
    async fn pieces_are_counted_until_they_are_gone() {
        let places = Places::new(1, 1 << 20);
        let place = places.enter(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let text: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let mut body = Answering::begin(place.clone()).send(Body::from(text.clone()));
        assert_eq!(body.size_hint().exact(), Some(100_000));
        let (mut held, mut told) = (Vec::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            told.extend_from_slice(&piece);
            held.push(piece);
        }
        assert_eq!((told, held.len(), places.held()), (text, 4, 100_000 + 4 * OVERHEAD));
        held.pop();
        assert_eq!(places.held(), 98_304 + 3 * OVERHEAD);
        // Nothing that a client resets stays counted.
        drop((held, body));
        assert_eq!(places.held(), 0);
    }
}
