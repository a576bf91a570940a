//! Addresses and node ports where several API servers allocate from the same pools: each is a key of the store that only one Service
//! can create. In the memory of a server is no more than a guess at what is free.
//!
//! A claim whose Service was never written, or no longer holds what was claimed, is taken over once it is old: no server has to be
//! asked whether it still means it.

use bytes::Bytes;
use jiff::Timestamp;
use mainstay_kinds::released_by_service;
use mainstay_store::{Error, Expect, KeyValue, Store};
use serde_json::{Value, json};

use crate::cache::ROOT;
use crate::object::{self, meta};

/// Claims lie beside the resources, in keys that are no object's.
const CLAIMS: &str = "service-claims:";
/// How old a claim must be before somebody else may doubt it: longer than any request takes.
const DOUBT_AFTER: i64 = 120;

/// What of the pools a Service holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An address.
    Address(String),
    /// A node port.
    Port(u16),
}

impl Item {
    /// What `one` holds and `other` does not.
    pub fn gained(one: &Value, other: Option<&Value>) -> Vec<Self> {
        let (addresses, ports) = released_by_service(one, other);
        addresses.into_iter().map(Self::Address).chain(ports.into_iter().map(Self::Port)).collect()
    }

    fn key(&self) -> String {
        match self {
            Self::Address(address) => format!("{ROOT}{CLAIMS}address:{address}"),
            Self::Port(port) => format!("{ROOT}{CLAIMS}port:{port}"),
        }
    }
}

/// Claims an item for a Service; false when another one holds it.
pub async fn claim(store: &dyn Store, item: &Item, service: &Value) -> Result<bool, Error> {
    let owner = format!("{}/{}", meta(service, "namespace"), meta(service, "name"));
    let value = Bytes::from(json!({"service": owner, "time": Timestamp::now().as_second()}).to_string());
    let key = item.key();
    let found = match store.put(&key, value.clone(), Expect::Absent).await {
        Ok(_) => return Ok(true),
        Err(Error::Conflict { found: Some(found), .. }) => found,
        Err(Error::Conflict { found: None, .. }) => return Ok(false),
        Err(other) => return Err(other),
    };
    if !is_void(store, item, &found).await? {
        return Ok(false);
    }
    match store.put(&key, value, Expect::Revision(found.modified)).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Whether nobody means a claim any more.
async fn is_void(store: &dyn Store, item: &Item, found: &KeyValue) -> Result<bool, Error> {
    let claim: Value = serde_json::from_slice(&found.value).unwrap_or_default();
    let age = Timestamp::now().as_second().saturating_sub(claim["time"].as_i64().unwrap_or_default());
    if age < DOUBT_AFTER {
        return Ok(false);
    }
    let owner = claim["service"].as_str().unwrap_or_default();
    let (service, _) = store.get(&format!("{ROOT}core/services/{owner}")).await?;
    let holds = service
        .and_then(|service| object::decode(&service.value, service.modified).ok())
        .is_some_and(|service| Item::gained(&service, None).contains(item));
    Ok(!holds)
}

/// Gives claims back. One that can not be given back is void, and somebody takes it over when it is wanted.
pub async fn release_all(store: &dyn Store, items: Vec<Item>) {
    for item in items {
        match store.delete(&item.key(), Expect::Any).await {
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => tracing::warn!(?item, %error, "a claim could not be given back"),
        }
    }
}
