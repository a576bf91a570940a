//! The pools of cluster addresses and node ports (KAPI-REST-07).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};

use mainstay_kinds::{AllocationError, Allocator, allocate_service, released_by_service};
use mainstay_schema::field::Error as FieldError;
use serde_json::Value;

/// 10.96.0.0/16.
const NETWORK: u32 = 0x0a60_0000;
const HOSTS: u32 = 1 << 16;
/// Addresses from here on are given out; those below are for wishes.
const DYNAMIC: u32 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// What is taken. Filled from the stored Services at start.
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

    /// Gives a Service its addresses and ports; nothing is kept when that fails, or for a dry run.
    pub fn allocate(&self, new: &mut Value, old: Option<&Value>, dry_run: bool) -> Result<(), Vec<FieldError>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut attempt = taken.clone();
        allocate_service(new, old, &mut attempt)?;
        if !dry_run {
            *taken = attempt;
        }
        Ok(())
    }

    /// Takes back what `old` held and `new` does not.
    pub fn release(&self, old: &Value, new: Option<&Value>) {
        let (addresses, ports) = released_by_service(old, new);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses.iter().filter_map(|address| address.parse::<Ipv4Addr>().ok()) {
            taken.addresses.remove(&u32::from(address));
        }
        for port in ports {
            taken.ports.remove(&port);
        }
    }
}

impl Allocator for Taken {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
        let address = if let Some(text) = wanted {
            let outside = || AllocationError::OutOfRange("10.96.0.0/16".into());
            let address = u32::from(text.parse::<Ipv4Addr>().map_err(|_| outside())?);
            if address <= NETWORK || address >= NETWORK + HOSTS - 1 {
                return Err(outside());
            }
            address
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
        let port = match wanted {
            Some(port) if !PORTS.contains(&port) => {
                return Err(AllocationError::OutOfRange(format!("{}-{}", PORTS.start(), PORTS.end())));
            }
            Some(port) => port,
            None => {
                let count = u32::from(PORTS.end() - PORTS.start()) + 1;
                let start = rand::random_range(0..count);
                (0..count)
                    .map(|step| PORTS.start() + ((start + step) % count) as u16)
                    .find(|port| !self.ports.contains(port))
                    .ok_or(AllocationError::Full)?
            }
        };
        if self.ports.insert(port) { Ok(port) } else { Err(AllocationError::Taken) }
    }
}
