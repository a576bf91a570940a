//! Addresses and node ports where several API servers allocate from the same pools: each is a key of the store that only one Service
//! can create. In the memory of a server is no more than a guess at what is free.
//!
//! A claim whose Service was never written, or no longer holds what was claimed, is taken over once it is old: no server has to be
//! asked whether it still means it.

use bytes::Bytes;
use jiff::Timestamp;
use mainstay_kinds::released_by_service;
use mainstay_store::{Error, Expect, KeyValue, Revision, Store};
use serde_json::{Value, json};

use crate::entry::ROOT;
use crate::object::{self, meta};

/// Claims lie beside the resources, in keys that are no object's.
const CLAIMS: &str = "service-claims:";
/// The age in seconds at which another server may doubt a claim: longer than any request takes.
const DOUBT_AFTER: i64 = 120;

/// An item of the pools that a Service holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An address.
    Address(String),
    /// A node port.
    Port(u16),
}

impl Item {
    /// The items that `one` holds and `other` does not.
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

/// An item that is claimed.
#[derive(Debug)]
pub struct Claim {
    item: Item,
    /// The revision of the claim: a later one is another's.
    revision: Revision,
}

fn owner(service: &Value) -> String {
    format!("{}/{}", meta(service, "namespace"), meta(service, "name"))
}

/// Claims an item for a Service; `None` when another one holds it.
pub async fn claim(store: &dyn Store, item: &Item, service: &Value) -> Result<Option<Claim>, Error> {
    let claim = json!({"service": owner(service), "uid": meta(service, "uid"), "time": Timestamp::now().as_second()});
    let value = Bytes::from(claim.to_string());
    let claimed = |now: KeyValue| Some(Claim { item: item.clone(), revision: now.modified });
    let key = item.key();
    let found = match store.put(&key, value.clone(), Expect::Absent).await {
        Ok(now) => return Ok(claimed(now)),
        Err(Error::Conflict { found: Some(found), .. }) => found,
        Err(Error::Conflict { found: None, .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    if !is_void(store, item, &found).await? {
        return Ok(None);
    }
    match store.put(&key, value, Expect::Revision(found.modified)).await {
        Ok(now) => Ok(claimed(now)),
        Err(Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Returns whether nobody means a claim any more.
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

/// Gives claims back. One that cannot be given back is void, and is taken over when it is wanted.
pub async fn release_all(store: &dyn Store, claims: Vec<Claim>) {
    for Claim { item, revision } in claims {
        remove(store, &item, revision).await;
    }
}

/// Gives back what a stored Service had claimed, unless another one, or one of the same name that came after it, has claimed it since.
pub async fn release(store: &dyn Store, item: &Item, service: &Value) {
    match store.get(&item.key()).await {
        Ok((Some(found), _)) if is_of(&found, service) => remove(store, item, found.modified).await,
        Ok(_) => {}
        Err(error) => tracing::warn!(?item, %error, "a claim could not be given back"),
    }
}

fn is_of(found: &KeyValue, service: &Value) -> bool {
    let claim: Value = serde_json::from_slice(&found.value).unwrap_or_default();
    // Earlier versions did not write the uid.
    claim["service"] == owner(service) && claim.get("uid").is_none_or(|uid| uid == meta(service, "uid"))
}

async fn remove(store: &dyn Store, item: &Item, revision: Revision) {
    match store.delete(&item.key(), Expect::Revision(revision)).await {
        Ok(_) | Err(Error::Conflict { .. }) => {}
        Err(error) => tracing::warn!(?item, %error, "a claim could not be given back"),
    }
}
