//! Addresses and ports of the cluster, given to Services before they are stored and taken back from what they were (KAPI-REST-07).

use serde_json::Value;

use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::meta;
use crate::served::Served;
use crate::services::{Allocation, Refused};
use crate::strategy::allocates;

/// After validation, before a new object is stored: addresses and ports.
pub async fn before_create(api: &Api, served: &Served, value: &mut Value, dry_run: bool) -> Result<Allocation> {
    if !allocates(served) {
        return Ok(Allocation::default());
    }
    let allocation = api.services.allocate(&api.objects.store, value, None, dry_run).await;
    allocation.map_err(|refused| not_given(served, value, refused))
}

/// After preparation, before a changed object is validated.
pub async fn before_update(api: &Api, served: &Served, new: &mut Value, old: &Value, dry_run: bool) -> Result<Allocation> {
    if !allocates(served) {
        return Ok(Allocation::default());
    }
    let allocation = api.services.allocate(&api.objects.store, new, Some(old), dry_run).await;
    allocation.map_err(|refused| not_given(served, old, refused))
}

fn not_given(served: &Served, value: &Value, refused: Refused) -> ApiError {
    match refused {
        Refused::Fields(errors) => ApiError::invalid_fields(&served.facts.group, &served.facts.kind, meta(value, "name"), &errors),
        Refused::Store(error) => error,
    }
}

/// Gives back what a stored object held and no longer holds.
pub async fn release(api: &Api, served: &Served, old: &Value, new: Option<&Value>) {
    if allocates(served) {
        api.services.release(&*api.objects.store, old, new).await;
    }
}
