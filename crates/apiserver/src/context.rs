//! One request on its way: its data, the server that answers it, and the allocation that it is worked on with.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::upgrade::OnUpgrade;
use mainstay_serve::Place;

use crate::api::Api;
use crate::error::Result;
use crate::inflight::{self, Allocation};
use crate::request::ApiRequest;

/// A request with the server that answers it. Only handlers take both; whatever needs less is given less.
pub struct Context {
    /// The request.
    pub request: ApiRequest,
    /// The server.
    pub api: Arc<Api>,
    /// The share of the server that the request holds.
    pub allocation: Allocation,
    upgrade: Mutex<Option<Upgrade>>,
}

/// A connection that can change its protocol.
pub struct Upgrade {
    /// The connection, once the answer that says so was sent.
    pub connection: OnUpgrade,
    /// The connection's place among those of the listener, which it keeps.
    pub place: Option<Place>,
}

impl Context {
    /// A request, and its connection if that can change its protocol.
    pub fn new(request: ApiRequest, api: Arc<Api>, allocation: Allocation, upgrade: Option<Upgrade>) -> Self {
        Self { request, api, allocation, upgrade: Mutex::new(upgrade) }
    }

    /// The connection under the request, if it can change its protocol; once.
    pub fn upgrade(&self) -> Option<Upgrade> {
        let upgrade = self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
        upgrade.iter().filter_map(|upgrade| upgrade.place.as_ref()).for_each(Place::upgraded);
        upgrade
    }

    /// Room for an answer of about so many bytes; what is large is made beside the async workers.
    pub async fn room(&self, bytes: usize) -> Result<()> {
        if bytes > inflight::SMALL {
            self.api.inflight.room(&self.allocation.work, &self.allocation.caller, bytes).await?;
            self.allocation.long().await;
        }
        Ok(())
    }
}
