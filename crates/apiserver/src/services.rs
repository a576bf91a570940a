//! The pools of cluster addresses and node ports (KAPI-REST-07).
//!
//! One server alone keeps in memory what is taken. Several on one store also claim each item there, see [`claims`].

mod allocation;
mod claims;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_kinds::{AllocationError, Allocator, allocate_service, released_by_service};
use mainstay_schema::field::Error as FieldError;
use mainstay_store::Store;
use serde_json::Value;

pub use allocation::Allocation;
use claims::Item;

use crate::error::ApiError;

/// 10.96.0.0/16.
const NETWORK: u32 = 0x0a60_0000;
const HOSTS: u32 = 1 << 16;
/// Addresses from here on are given out; those below are for Services that ask for them by name.
const DYNAMIC: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// The most items that are tried, if another server was quicker each time.
const ATTEMPTS: usize = 64;

/// Why a Service was not given what it needs.
pub enum Refused {
    /// It asks for what it cannot have, or nothing is left.
    Fields(Vec<FieldError>),
    /// The store failed.
    Store(ApiError),
}

/// The items that are taken. Filled from the stored Services at start.
#[derive(Default)]
pub struct Allocators {
    taken: Mutex<Taken>,
}

#[derive(Clone, Default)]
struct Taken {
    addresses: BTreeSet<u32>,
    ports: BTreeSet<u16>,
}

impl Allocators {
    /// Notes what a stored Service holds.
    pub fn note(&self, service: &Value) {
        let (addresses, ports) = released_by_service(service, None);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.addresses.extend(addresses.iter().filter_map(|address| address.parse::<Ipv4Addr>().ok()).map(u32::from));
        taken.ports.extend(ports);
    }

    /// Gives a Service its addresses and ports until it is stored; nothing is kept when that fails, or for a dry run.
    pub async fn allocate(
        self: &Arc<Self>,
        store: &Arc<dyn Store>,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Allocation, Refused> {
        // What other servers' Services hold counts for this allocation alone: that it is free again, nobody would tell later.
        let mut lost = Vec::new();
        for _ in 0..ATTEMPTS {
            let mut attempt = new.clone();
            self.pick(&mut attempt, old, &lost, dry_run).map_err(Refused::Fields)?;
            if dry_run {
                *new = attempt;
                return Ok(Allocation::default());
            }
            let mut allocation = Allocation::new(self, store, &attempt, old);
            let held = if store.shared() { allocation.claim(&attempt).await? } else { None };
            let Some(held) = held else {
                *new = attempt;
                return Ok(allocation);
            };
            allocation.give_back().await;
            lost.push(held);
        }
        Err(Refused::Store(ApiError::internal("addresses and ports are given out by other servers faster than by this one")))
    }

    /// Gives a Service what is free, without what is `lost`.
    fn pick(&self, new: &mut Value, old: Option<&Value>, lost: &[Item], dry_run: bool) -> Result<(), Vec<FieldError>> {
        if dry_run {
            return allocate_service(new, old, &mut Rehearsed);
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempt = taken.clone();
        let added: Vec<&Item> = lost.iter().filter(|item| attempt.add(item)).collect();
        allocate_service(new, old, &mut attempt)?;
        for item in added {
            attempt.remove(item);
        }
        *taken = attempt;
        Ok(())
    }

    /// Takes back what a stored Service held and, as `new`, does not.
    pub async fn release(&self, store: &dyn Store, old: &Value, new: Option<&Value>) {
        self.forget(old, new);
        if store.shared() {
            for item in Item::gained(old, new) {
                claims::release(store, &item, old).await;
            }
        }
    }

    /// No longer counts these.
    fn remove(&self, items: &[Item]) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for item in items {
            taken.remove(item);
        }
    }

    /// No longer counts what `old` held and `new` does not.
    pub fn forget(&self, old: &Value, new: Option<&Value>) {
        self.remove(&Item::gained(old, new));
    }
}

/// Runs a step to its end even where whoever asked for it is gone.
pub async fn to_the_end<T: Send + 'static>(step: impl Future<Output = Result<T, ApiError>> + Send + 'static) -> Result<T, ApiError> {
    match tokio::spawn(step).await {
        Ok(outcome) => outcome,
        Err(error) => Err(ApiError::internal(format!("a write ended abnormally: {error}"))),
    }
}

impl Taken {
    /// Returns whether it was free.
    fn add(&mut self, item: &Item) -> bool {
        match item {
            Item::Address(address) => address.parse::<Ipv4Addr>().is_ok_and(|address| self.addresses.insert(u32::from(address))),
            Item::Port(port) => self.ports.insert(*port),
        }
    }

    fn remove(&mut self, item: &Item) {
        match item {
            Item::Address(address) => {
                // The first address is that of the API: its Service comes back at once, and no other Service may be faster.
                if let Some(address) = address.parse::<Ipv4Addr>().ok().map(u32::from).filter(|address| *address != NETWORK + 1) {
                    self.addresses.remove(&address);
                }
            }
            Item::Port(port) => {
                self.ports.remove(port);
            }
        }
    }
}

/// The allocator of dry runs. As Kubernetes' own it does not look for what is free: another request may have it before the Service is made.
struct Rehearsed;

impl Allocator for Rehearsed {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
        wanted.map_or(Ok(Ipv4Addr::from(NETWORK)), in_network).map(|address| address.to_string())
    }

    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError> {
        wanted.map_or(Ok(*PORTS.start()), in_ports)
    }
}

/// An address that Services may have.
fn in_network(text: &str) -> Result<Ipv4Addr, AllocationError> {
    let found = text.parse::<Ipv4Addr>().ok();
    let inside = found.filter(|address| (NETWORK + 1..NETWORK + HOSTS - 1).contains(&u32::from(*address)));
    inside.ok_or_else(|| AllocationError::OutOfRange("10.96.0.0/16".into()))
}

/// A port that Services may have on nodes.
fn in_ports(port: u16) -> Result<u16, AllocationError> {
    let inside = PORTS.contains(&port).then_some(port);
    inside.ok_or_else(|| AllocationError::OutOfRange(format!("{}-{}", PORTS.start(), PORTS.end())))
}

impl Allocator for Taken {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
        let address = if let Some(text) = wanted {
            u32::from(in_network(text)?)
        } else {
            let start = rand::random_range(DYNAMIC..HOSTS - 1);
            (0..HOSTS - 1 - DYNAMIC)
                .map(|step| NETWORK + DYNAMIC + (start - DYNAMIC + step) % (HOSTS - 1 - DYNAMIC))
                .find(|address| !self.addresses.contains(address))
                .ok_or(AllocationError::Full)?
        };
        if self.addresses.insert(address) { Ok(Ipv4Addr::from(address).to_string()) } else { Err(AllocationError::Taken) }
    }

    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError> {
        let port = if let Some(port) = wanted {
            in_ports(port)?
        } else {
            let count = u32::from(PORTS.end() - PORTS.start()) + 1;
            let start = rand::random_range(0..count);
            (0..count)
                .map(|step| PORTS.start() + ((start + step) % count) as u16)
                .find(|port| !self.ports.contains(port))
                .ok_or(AllocationError::Full)?
        };
        if self.ports.insert(port) { Ok(port) } else { Err(AllocationError::Taken) }
    }
}
