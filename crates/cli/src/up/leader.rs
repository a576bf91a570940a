//! Which of several servers runs the components: the holder of a Lease, as with kube-controller-manager (`--leader-elect`).
//!
//! ```text
//!   look at the Lease ─ ours, nobody's or run out ─► take it ─ components run ─ renew ─ lost ─► components end
//!         ▲                                                                                  │
//!         └──────────────── wait ◄─────────────────── another's ◄────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;

/// Where the Lease lies.
const NAMESPACE: &str = "kube-system";
/// The Lease.
const NAME: &str = "mainstay-components";
/// How long a Lease counts that nobody renews.
const LEASE: Duration = Duration::from_secs(15);
/// How long a holder may fail to renew before it stops.
const RENEW: Duration = Duration::from_secs(10);
/// Between looks.
const RETRY: Duration = Duration::from_secs(2);

/// A server that wants to run the components.
pub struct Candidate {
    leases: Api<Lease>,
    identity: String,
    observed: Option<Observed>,
}

/// A Lease as it was seen first in this version, by this machine's clock: those of others may differ.
struct Observed {
    version: String,
    at: Instant,
}

/// What to do about a Lease.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Take,
    Renew,
    Wait,
}

fn decide(spec: &LeaseSpec, identity: &str, unchanged: Duration) -> Turn {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let lasts = spec.lease_duration_seconds.map_or(LEASE, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs().into()));
    match holder {
        _ if holder == identity => Turn::Renew,
        "" => Turn::Take,
        _ if unchanged >= lasts => Turn::Take,
        _ => Turn::Wait,
    }
}

impl Candidate {
    /// A candidate with a name of its own.
    pub fn new(client: kube::Client) -> Self {
        let host = mainstay_apiserver::access::pki::host_name().unwrap_or_else(|| "mainstay".to_owned());
        // As client-go does it: two processes of one host differ, and so do two lives of one process.
        let identity = format!("{host}_{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
        Self { leases: Api::namespaced(client, NAMESPACE), identity, observed: None }
    }

    /// Waits until this server holds the Lease; false when told to end before.
    pub async fn elected(&mut self, stop: &CancellationToken) -> bool {
        loop {
            match self.turn().await {
                Ok(true) => {
                    tracing::info!(identity = self.identity, "this server runs the components");
                    return true;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the Lease of the components can not be looked at"),
            }
            if stopped(stop, RETRY).await {
                return false;
            }
        }
    }

    /// Renews the Lease until it is lost or the end is asked for.
    pub async fn hold(&mut self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        while !stopped(stop, RETRY).await {
            match tokio::time::timeout(RENEW.saturating_sub(renewed.elapsed()), self.turn()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => {
                    tracing::warn!("another server runs the components now");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "the Lease of the components can not be renewed"),
                Err(_) => {}
            }
            if renewed.elapsed() >= RENEW {
                tracing::error!("the Lease of the components was not renewed in time");
                return;
            }
        }
    }

    /// Lets another server take over at once.
    pub async fn resign(&self) {
        let outcome = async {
            let Some(mut lease) = self.leases.get_opt(NAME).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                spec.lease_duration_seconds = Some(1);
                self.leases.replace(NAME, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        if let Err(error) = outcome.await {
            tracing::warn!(%error, "the Lease of the components was not given back; it runs out by itself");
        }
    }

    /// Looks at the Lease and takes or renews it; whether it is ours.
    async fn turn(&mut self) -> Result<bool, kube::Error> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            lease.spec = Some(self.spec(&LeaseSpec::default()));
            return ours(self.leases.create(&PostParams::default(), &lease).await);
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|observed| observed.version != version) {
            self.observed = Some(Observed { version, at: Instant::now() });
        }
        let unchanged = self.observed.as_ref().map_or(Duration::ZERO, |observed| observed.at.elapsed());
        let spec = lease.spec.take().unwrap_or_default();
        if decide(&spec, &self.identity, unchanged) == Turn::Wait {
            return Ok(false);
        }
        lease.spec = Some(self.spec(&spec));
        ours(self.leases.replace(NAME, &PostParams::default(), &lease).await)
    }

    fn spec(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(jiff::Timestamp::now());
        let renewal = before.holder_identity.as_deref() == Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(LEASE.as_secs() as i32),
            acquire_time: if renewal { before.acquire_time.clone() } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(!renewal && before.holder_identity.is_some())),
            ..LeaseSpec::default()
        }
    }
}

/// A write that somebody else was quicker with makes the Lease theirs.
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

    /// KAPI-STORE-03: who may take the Lease of the components.
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
            assert_eq!(decide(&held(holder), "me", Duration::from_secs(unchanged)), wanted, "{holder} {unchanged}");
        }
    }
}
