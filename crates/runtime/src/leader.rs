//! Leader election by a Lease, as in controller-runtime (`--leader-elect`).
//!
//! ```text
//!   look at the Lease ─ ours, nobody's or run out ─► take it ─ work ─ renew ─ lost ─► work ends
//!         ▲                                                                              │
//!         └──────────────── wait ◄─────────────── another's ◄────────────────────────────┘
//! ```
//!
//! A holder that cannot renew stops before the Lease expires, so that two processes never work at a time. What it still does while it stops writes
//! nothing, because a [`Gate`] checks the Lease at each write.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::gate::{Gate, Moment, Slot};
use crate::metrics::leads;

/// The longest time to release a Lease at the end; otherwise it expires by itself.
const RESIGN: Duration = Duration::from_secs(5);

/// The time limits of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The time after which a Lease expires unless it is renewed.
    pub lease: Duration,
    /// The time for which a holder may fail to renew before it stops.
    pub renew: Duration,
    /// The pause between attempts.
    pub retry: Duration,
}

impl Times {
    /// Checks that these times keep two processes from working at a time. The errors are in client-go's words.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.lease.as_secs() < 1 {
            return Err("leaseDuration must be at least one second");
        }
        if self.lease <= self.renew {
            return Err("leaseDuration must be greater than renewDeadline");
        }
        // client-go looks again after up to 1.2 times the period.
        if self.renew <= self.retry.mul_f64(1.2) {
            return Err("renewDeadline must be greater than retryPeriod*JitterFactor");
        }
        if self.retry.is_zero() {
            return Err("retryPeriod must be greater than zero");
        }
        Ok(())
    }
}

/// A process that wants to lead.
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    observed: Option<Observed>,
    slot: Option<Slot>,
}

/// The Lease in the version last seen, and the time at which this machine first saw it: other machines' clocks may differ.
struct Observed {
    version: String,
    at: Instant,
}

/// The action that a Lease requires.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Take,
    Renew,
    Wait,
}

fn decide(spec: &LeaseSpec, identity: &str, unchanged: Duration, default: Duration) -> Turn {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let lasts = spec.lease_duration_seconds.map_or(default, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs().into()));
    match holder {
        _ if holder == identity => Turn::Renew,
        "" => Turn::Take,
        _ if unchanged >= lasts => Turn::Take,
        _ => Turn::Wait,
    }
}

/// Returns an identity for this run of the process. As in client-go, two processes of one host differ, and so do two runs of one process.
pub fn identity(host: &str) -> String {
    format!("{host}_{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
}

impl Candidate {
    /// Creates a candidate for a Lease.
    pub fn new(client: kube::Client, namespace: &str, name: &str, identity: &str, times: Times) -> Self {
        leads(name, false);
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            times,
            observed: None,
            slot: None,
        }
    }

    /// Returns the same candidate, whose Lease the gate requires.
    #[must_use]
    pub fn guarding(self, gate: &Gate) -> Self {
        Self { slot: Some(gate.slot()), ..self }
    }

    /// Watches the Lease without taking it until `turn` is cancelled, so that the time since its last renewal is known by then. Returns false if
    /// `stop` is cancelled before.
    async fn follow(&mut self, turn: &CancellationToken, stop: &CancellationToken) -> bool {
        let (renew, retry) = (self.times.renew, self.times.retry);
        loop {
            let look = async {
                match tokio::time::timeout(renew, self.look()).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "the Lease cannot be looked at"),
                    Err(_) => tracing::debug!("the server does not answer about the Lease"),
                }
                tokio::time::sleep(retry).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return false,
                () = turn.cancelled() => return true,
                () = look => {}
            }
        }
    }

    /// Waits until this process holds the Lease. Returns false if `stop` is cancelled before.
    pub async fn elected(&mut self, stop: &CancellationToken) -> bool {
        loop {
            let turn = tokio::select! {
                () = stop.cancelled() => return false,
                turn = tokio::time::timeout(self.times.renew, self.turn()) => turn,
            };
            match turn {
                Ok(Ok(true)) => {
                    tracing::info!(lease = self.name, identity = self.identity, "elected");
                    leads(&self.name, true);
                    return true;
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the Lease cannot be looked at"),
                Err(_) => tracing::warn!(lease = self.name, "the server does not answer about the Lease"),
            }
            if stopped(stop, self.times.retry).await {
                return false;
            }
        }
    }

    /// Renews the Lease until it is lost or `stop` is cancelled.
    pub async fn hold(&mut self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        while !stopped(stop, self.times.retry).await {
            match tokio::time::timeout(self.times.renew.saturating_sub(renewed.elapsed()), self.turn()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => {
                    tracing::warn!(lease = self.name, "another process holds the Lease now");
                    self.lost();
                    return;
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the Lease cannot be renewed"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.times.renew {
                tracing::error!(lease = self.name, "the Lease was not renewed in time");
                self.lost();
                return;
            }
        }
    }

    /// Closes the gate: no further writes.
    fn lost(&self) {
        leads(&self.name, false);
        if let Some(slot) = &self.slot {
            slot.lost();
        }
    }

    /// Releases the Lease so that another process can take over at once.
    pub async fn resign(&self) {
        self.lost();
        let outcome = async {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match tokio::time::timeout(RESIGN, outcome).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "the Lease was not given back; it runs out by itself"),
            Err(_) => tracing::warn!(lease = self.name, "the Lease was not given back in time; it runs out by itself"),
        }
    }

    /// Reads the Lease and records since when it has had this version.
    async fn look(&mut self) -> Result<Option<Lease>, kube::Error> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else { return Ok(None) };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|observed| observed.version != version) {
            self.observed = Some(Observed { version, at: Instant::now() });
        }
        Ok(Some(lease))
    }

    /// Reads the Lease and takes or renews it. Returns true if this process holds it.
    async fn turn(&mut self) -> Result<bool, kube::Error> {
        let found = self.look().await?;
        // Other processes count from when they see this write, which is later.
        let sent = Moment::now();
        let outcome = self.take(found).await;
        match (&outcome, &self.slot) {
            (Ok(true), Some(slot)) => slot.renewed(sent, self.times.renew, self.times.lease),
            (Ok(false), Some(slot)) => slot.lost(),
            _ => {}
        }
        outcome
    }

    async fn take(&self, found: Option<Lease>) -> Result<bool, kube::Error> {
        let Some(mut lease) = found else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(self.name.clone());
            lease.spec = Some(self.spec(&LeaseSpec::default()));
            return ours(self.leases.create(&PostParams::default(), &lease).await);
        };
        let unchanged = self.observed.as_ref().map_or(Duration::ZERO, |observed| observed.at.elapsed());
        let spec = lease.spec.take().unwrap_or_default();
        if decide(&spec, &self.identity, unchanged, self.times.lease) == Turn::Wait {
            return Ok(false);
        }
        lease.spec = Some(self.spec(&spec));
        ours(self.leases.replace(&self.name, &PostParams::default(), &lease).await)
    }

    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        let renewal = before.holder_identity.as_deref() == Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.times.lease.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: if renewal { before.acquire_time.clone() } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(!renewal && before.holder_identity.is_some())),
            ..LeaseSpec::default()
        }
    }
}

/// The result of [`lead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The work was stopped as requested.
    Stopped,
    /// The work finished by itself.
    Finished,
    /// A Lease was lost and the work has ended.
    Lost {
        /// True if the work did not stop in time and was aborted.
        cut: bool,
    },
}

/// Works while every Lease is held. Leases are taken one after the other, in the given order, since processes with different orders would wait for
/// each other for ever. All Leases are watched from the beginning, so that those of a dead process are taken over together. A lost Lease cancels the
/// work's token; work that does not stop in time is aborted before another process could begin. Leases are released after the work has ended.
pub async fn lead<W: Future<Output = ()>>(
    candidates: Vec<Candidate>,
    stop: &CancellationToken,
    work: impl FnOnce(CancellationToken) -> W,
) -> Ended {
    // The time left of a Lease after its holder noticed a failed renewal, with a margin.
    let spare = candidates.iter().map(|candidate| candidate.times.lease.saturating_sub(candidate.times.renew)).min();
    let patience = spare.map_or(Duration::MAX, |spare| spare.mul_f64(0.8));
    let (lost, release) = (CancellationToken::new(), CancellationToken::new());
    // The wait for the other Leases ends when one is lost.
    let waiting = stop.child_token();
    let mut before: Option<CancellationToken> = None;
    let (tell, mut elected) = tokio::sync::mpsc::channel(candidates.len().max(1));
    let mut missing = candidates.len();
    let mut keeping = JoinSet::new();
    for mut candidate in candidates {
        let (waiting, lost, release, tell) = (waiting.clone(), lost.clone(), release.clone(), tell.clone());
        let held = CancellationToken::new();
        let turn = before.replace(held.clone());
        keeping.spawn(async move {
            if let Some(turn) = turn
                && !candidate.follow(&turn, &waiting).await
            {
                return;
            }
            if !candidate.elected(&waiting).await {
                return;
            }
            held.cancel();
            // The receiver is gone if the stop was requested meanwhile.
            let _ = tell.send(()).await;
            candidate.hold(&release).await;
            if !release.is_cancelled() {
                lost.cancel();
                release.cancelled().await;
            }
            candidate.resign().await;
        });
    }
    let working = CancellationToken::new();
    let ended = loop {
        if missing == 0 {
            let mut work = std::pin::pin!(work(working.clone()));
            break tokio::select! {
                () = &mut work => Ended::Finished,
                () = lost.cancelled() => {
                    working.cancel();
                    let cut = tokio::time::timeout(patience, work).await.is_err();
                    Ended::Lost { cut }
                }
                () = stop.cancelled() => {
                    working.cancel();
                    tokio::select! {
                        () = work => Ended::Stopped,
                        () = lost.cancelled() => Ended::Lost { cut: true },
                    }
                }
            };
        }
        tokio::select! {
            _ = elected.recv() => missing -= 1,
            () = lost.cancelled() => break Ended::Lost { cut: false },
            () = stop.cancelled() => break Ended::Stopped,
        }
    };
    waiting.cancel();
    release.cancel();
    while let Some(kept) = keeping.join_next().await {
        if let Err(error) = kept {
            tracing::error!(%error, "the keeper of a Lease ended abnormally");
        }
    }
    ended
}

/// Returns false after a conflict: another process was faster and holds the Lease.
fn ours(written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

async fn stopped(stop: &CancellationToken, wait: Duration) -> bool {
    tokio::select! {
        () = stop.cancelled() => true,
        () = tokio::time::sleep(wait) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-STORE-03: who may take a Lease.
    #[test]
    fn turns() {
        let held = |holder: &str| LeaseSpec {
            holder_identity: Some(holder.to_owned()).filter(|holder| !holder.is_empty()),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        let cases =
            [("me", 0, Turn::Renew), ("me", 100, Turn::Renew), ("", 0, Turn::Take), ("other", 14, Turn::Wait), ("other", 15, Turn::Take)];
        for (holder, unchanged, wanted) in cases {
            let unchanged = Duration::from_secs(unchanged);
            assert_eq!(decide(&held(holder), "me", unchanged, Duration::from_secs(15)), wanted, "{holder} {unchanged:?}");
        }
    }

    /// OLM1-GEN-09: the times of upstream are in order; such that let two work at a time are refused in client-go's words.
    #[test]
    fn times() {
        let times = |lease, renew, retry| {
            let seconds = Duration::from_secs;
            Times { lease: seconds(lease), renew: seconds(renew), retry: seconds(retry) }.check()
        };
        assert_eq!(times(137, 107, 26), Ok(()));
        assert_eq!(times(107, 107, 26), Err("leaseDuration must be greater than renewDeadline"));
        assert_eq!(times(137, 26, 26), Err("renewDeadline must be greater than retryPeriod*JitterFactor"));
        assert_eq!(times(137, 107, 0), Err("retryPeriod must be greater than zero"));
        assert_eq!(times(0, 0, 0), Err("leaseDuration must be at least one second"));
    }
}
