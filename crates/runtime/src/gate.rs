//! The gate before writes: no write without a Lease that is known to be held (OLM1-GEN-09).
//!
//! ```text
//!   Candidate ── renewed, at the time at which the request was sent ──► Gate ◄── every request that changes something ── Cluster
//!             └─ lost, given back ────────────────────────────────────►
//! ```
//!
//! A process that was suspended, or cut off from the API, does not know how much time has passed when it continues, and its work is told to stop only
//! a while later. So the gate checks the clocks at the moment of each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use axum::http::{Method, Request, Response};
use futures::future::BoxFuture;
use kube::client::Body as KubeBody;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// The gate between a process and its writes. Every Lease that the process needs must be held; without Leases the gate is open. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Mutex<Vec<Option<LastHeld>>>>);

/// The last time at which the Lease was known to be held. A monotonic clock and the system clock, which continues during sleep, measure it.
#[derive(Clone, Copy, Debug)]
struct LastHeld {
    sent: Moment,
    renew: Duration,
    lease: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// Returns the elapsed time, the longer one if the clocks differ.
    fn ago(&self) -> Duration {
        let wall = SystemTime::now().duration_since(self.wall).unwrap_or_default();
        self.steady.elapsed().max(wall)
    }
}

/// The place of one Lease at a gate.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    gate: Gate,
    index: usize,
}

impl Slot {
    /// Records a renewal of the Lease by a request that was sent at `sent`.
    pub(crate) fn renewed(&self, sent: Moment, renew: Duration, lease: Duration) {
        self.set(Some(LastHeld { sent, renew, lease }));
    }

    /// Records that the Lease is lost, or is about to be released.
    pub(crate) fn lost(&self) {
        self.set(None);
    }

    fn set(&self, held: Option<LastHeld>) {
        if let Some(slot) = self.gate.slots().get_mut(self.index) {
            *slot = held;
        }
    }
}

impl Gate {
    fn slots(&self) -> MutexGuard<'_, Vec<Option<LastHeld>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a further Lease that has to be held.
    pub(crate) fn slot(&self) -> Slot {
        let mut slots = self.slots();
        slots.push(None);
        Slot { gate: self.clone(), index: slots.len() - 1 }
    }

    /// Returns true if a write may begin now.
    pub fn is_open(&self) -> bool {
        self.slots().iter().all(|slot| slot.is_some_and(|held| held.sent.ago() < held.renew))
    }

    /// Returns the time limit of a write that begins now: until the first Lease expires. `None` if nothing limits it. Fails unless every Lease is
    /// known to be held.
    fn pass(&self) -> Result<Option<Duration>, NotLeading> {
        let slots = self.slots();
        let mut left: Option<Duration> = None;
        for slot in slots.iter() {
            let held = slot.filter(|held| held.sent.ago() < held.renew).ok_or(NotLeading)?;
            let rest = held.lease.saturating_sub(held.sent.ago());
            left = Some(left.map_or(rest, |left| left.min(rest)));
        }
        Ok(left)
    }
}

/// A refused write: another process may hold the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is written: this process is not known to hold its Lease now")]
pub struct NotLeading;

impl NotLeading {
    /// Returns true if a request was not sent for this reason.
    pub fn is_behind(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// A service whose changing requests need an open gate.
#[derive(Clone)]
pub(crate) struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Gated<S> {
    pub(crate) fn new(inner: S, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

impl<S, B> Service<Request<KubeBody>> for Gated<S>
where
    S: Service<Request<KubeBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        let left = match self.gate.pass() {
            Ok(left) => left,
            Err(refusal) => return Box::pin(async move { Err(refusal.into()) }),
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            match left {
                // A request without an answer when the Lease expires is given up together with its connection.
                Some(left) => tokio::time::timeout(left, answer).await.map_err(|_| NotLeading)?.map_err(Into::into),
                None => answer.await.map_err(Into::into),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RENEW: Duration = Duration::from_secs(10);
    const LEASE: Duration = Duration::from_secs(15);

    /// OLM1-GEN-09: writes pass while every Lease was renewed lately, counted from when the renewal was sent.
    #[tokio::test(start_paused = true)]
    async fn open_while_every_lease_is_held() {
        let gate = Gate::default();
        assert!(gate.is_open(), "without leader election nothing stands in the way");
        let (one, two) = (gate.slot(), gate.slot());
        assert!(!gate.is_open());
        let sent = Moment::now();
        one.renewed(sent, RENEW, LEASE);
        assert!(!gate.is_open(), "one of two");
        two.renewed(sent, RENEW, LEASE);
        assert!(gate.is_open());
        tokio::time::advance(RENEW / 2).await;
        assert!(gate.pass().is_ok_and(|left| left.is_some_and(|left| left <= LEASE.checked_sub(RENEW / 2).unwrap())));
        two.renewed(Moment::now(), RENEW, LEASE);
        tokio::time::advance(RENEW / 2).await;
        assert!(!gate.is_open(), "one of two was not renewed");
        one.renewed(Moment::now(), RENEW, LEASE);
        assert!(gate.is_open());
        two.lost();
        assert_eq!(gate.pass(), Err(NotLeading));
    }
}
