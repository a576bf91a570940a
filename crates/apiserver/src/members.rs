//! The servers that answer for the Service `kubernetes`, if several share a store: each renews a key of its own, and one that stops
//! renewing is left out of the endpoints soon, as kube-apiserver does it with its leases.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_store::{Expect, Range, Revision};
use tokio_util::sync::CancellationToken;

use crate::bootstrap::{self, Endpoint, Parts};
use crate::entry::ROOT;
use crate::error::{Result, store_error};
use crate::object_store::retry_on_conflict;

/// Keys of servers; no object has such a key.
const MEMBERS: &str = "api-server:";
/// The time after which a server renews its key.
const RENEW: Duration = Duration::from_secs(10);
/// The time that a key may stay as it is.
const PATIENCE: Duration = Duration::from_secs(35);
/// The time that a server that ends takes to say so.
const FAREWELL: Duration = Duration::from_secs(1);

/// The servers that this one has seen.
#[derive(Default)]
pub struct Members {
    /// The time at which a key was seen first in this revision, by this machine's clock.
    seen: HashMap<String, (Revision, Instant)>,
}

impl Members {
    /// Renews this server's key, and brings the endpoints to what is alive.
    pub async fn renew(&mut self, parts: &Parts, own: &Endpoint) -> Result<()> {
        parts.objects.store.put(&key(own), Bytes::new(), Expect::Any).await.map_err(store_error)?;
        self.publish(parts).await
    }

    async fn publish(&mut self, parts: &Parts) -> Result<()> {
        let range = Range { prefix: format!("{ROOT}{MEMBERS}"), ..Range::default() };
        let listing = parts.objects.store.list(range).await.map_err(store_error)?;
        let found: Vec<(String, Revision)> = listing.items.into_iter().map(|item| (item.key, item.modified)).collect();
        let gone = self.look(&found, Instant::now());
        for (key, revision) in &gone {
            // Another server may be quicker, or the member may be back.
            if let Err(error) = parts.objects.store.delete(key, Expect::Revision(*revision)).await {
                tracing::debug!(key, %error, "the key of a server that is gone stays");
            }
        }
        let alive: BTreeSet<Endpoint> = found.iter().filter(|one| !gone.contains(one)).filter_map(|(key, _)| endpoint(key)).collect();
        retry_on_conflict(|| bootstrap::endpoints(parts, &alive)).await
    }

    /// The keys that were not renewed for too long.
    fn look(&mut self, found: &[(String, Revision)], now: Instant) -> Vec<(String, Revision)> {
        self.seen.retain(|key, _| found.iter().any(|(one, _)| one == key));
        let mut gone = Vec::new();
        for (key, revision) in found {
            let seen = self.seen.entry(key.clone()).or_insert((*revision, now));
            if seen.0 != *revision {
                *seen = (*revision, now);
            }
            if now.duration_since(seen.1) >= PATIENCE {
                gone.push((key.clone(), *revision));
            }
        }
        gone
    }
}

/// Renews until the server ends.
pub async fn run(parts: Parts, own: Endpoint, mut members: Members, closing: CancellationToken) {
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(RENEW) => {}
        }
        if let Err(error) = members.renew(&parts, &own).await {
            tracing::warn!(%error, "the endpoints of the API could not be kept");
        }
    }
}

/// Leaves the endpoints, so that clients do not look for this server any more.
pub async fn leave(parts: &Parts, own: &Endpoint) {
    let farewell = async {
        parts.objects.store.delete(&key(own), Expect::Any).await.map_err(store_error)?;
        Members::default().publish(parts).await
    };
    match tokio::time::timeout(FAREWELL, farewell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "this server stays among the endpoints of the API for a while"),
        Err(_) => tracing::warn!("this server stays among the endpoints of the API for a while: the store does not answer"),
    }
}

fn key(endpoint: &Endpoint) -> String {
    format!("{ROOT}{MEMBERS}{}:{}", endpoint.port, endpoint.address)
}

fn endpoint(key: &str) -> Option<Endpoint> {
    let (port, address) = key.strip_prefix(ROOT)?.strip_prefix(MEMBERS)?.split_once(':')?;
    Some(Endpoint { address: address.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-STORE-03: a server is gone when its key was not renewed for long, however clocks differ.
    #[test]
    fn who_is_gone() {
        let mut members = Members::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let keys = |one, other| [("a".to_owned(), one), ("b".to_owned(), other)];
        assert!(members.look(&keys(5, 6), at(0)).is_empty());
        assert!(members.look(&keys(7, 6), at(34)).is_empty());
        assert_eq!(members.look(&keys(8, 6), at(35)), [("b".to_owned(), 6)]);
        assert!(members.look(&keys(8, 9), at(36)).is_empty(), "one that is back counts again");
        assert_eq!(members.look(&keys(8, 9), at(80)).len(), 2);
    }

    /// KAPI-STORE-03: keys tell endpoints.
    #[test]
    fn keys_and_endpoints() {
        for (address, port) in [("127.0.0.1", 6443), ("2001:db8::1", 443)] {
            let one = Endpoint { address: address.to_owned(), port };
            assert_eq!(endpoint(&key(&one)), Some(one));
        }
        assert_eq!(endpoint("/registry/core/pods/a"), None);
    }
}
