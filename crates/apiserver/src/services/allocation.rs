//! The addresses and ports of a Service that is not stored yet.

use std::sync::Arc;

use http::StatusCode;
use mainstay_store::Store;
use serde_json::Value;

use super::claims::{self, Claim, Item};
use super::{Allocators, Refused};
use crate::error::ApiError;

/// Addresses and ports that a Service was given and that nobody has stored yet. They are free again when this is dropped: whoever
/// asked for them may go away at any time.
#[derive(Default)]
#[must_use = "what is dropped is given back"]
pub struct Allocation(Option<Allocated>);

struct Allocated {
    allocators: Arc<Allocators>,
    store: Arc<dyn Store>,
    items: Vec<Item>,
    claims: Vec<Claim>,
}

impl Allocation {
    /// The items that `service` has and `old` has not, as they were picked.
    pub(super) fn new(allocators: &Arc<Allocators>, store: &Arc<dyn Store>, service: &Value, old: Option<&Value>) -> Self {
        let items = Item::gained(service, old);
        if items.is_empty() {
            return Self::default();
        }
        Self(Some(Allocated { allocators: allocators.clone(), store: store.clone(), items, claims: Vec::new() }))
    }

    /// Claims all of it; the item that another one holds, if any.
    pub(super) async fn claim(&mut self, service: &Value) -> Result<Option<Item>, Refused> {
        let Some(held) = &mut self.0 else { return Ok(None) };
        for item in &held.items {
            match claims::claim(&*held.store, item, service).await {
                Ok(Some(claim)) => held.claims.push(claim),
                Ok(None) => return Ok(Some(item.clone())),
                Err(error) => return Err(Refused::Store(crate::error::store_error(error))),
            }
        }
        Ok(None)
    }

    /// Ends it, as the write of the Service did.
    pub async fn settle(mut self, failed: Option<&ApiError>) {
        match failed {
            // The Service holds it now.
            None => self.0 = None,
            // The write may have happened. Then the claims are the Service's, and else nobody's: in time, others find that out.
            Some(error) if error.code == StatusCode::INTERNAL_SERVER_ERROR => {
                if let Some(held) = &mut self.0 {
                    held.claims.clear();
                }
            }
            Some(_) => self.give_back().await,
        }
    }

    /// Gives it back, and returns when others can have it.
    pub async fn give_back(mut self) {
        if let Some(held) = &mut self.0 {
            let claims = std::mem::take(&mut held.claims);
            claims::release_all(&*held.store, claims).await;
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(Allocated { allocators, store, items, claims }) = self.0.take() else { return };
        allocators.remove(&items);
        // Without a runtime the server ends. What stays claimed then is void.
        if let (false, Ok(runtime)) = (claims.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { claims::release_all(&*store, claims).await });
        }
    }
}
