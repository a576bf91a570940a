//! The parts of one server.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::access::Gate;
use crate::admission::{Chain, Lookup};
use crate::aggregation::Aggregation;
use crate::containers::Containers;
use crate::flow::Flows;
use crate::inflight::InFlight;
use crate::metrics::Metrics;
use crate::object_store::ObjectStore;
use crate::remote::Remotes;
use crate::reported::ReportedVersion;
use crate::rest::ControlPlane;
use crate::server_lookup::ServerLookup;
use crate::services::Allocators;
use crate::{backup, cache_lag, discovery, health};

/// The parts of one server; requests hold them by `Arc`. No part knows this: each is made of the parts that it needs.
pub struct Api {
    /// The store, the watch cache, and the resources that are served.
    pub objects: Arc<ObjectStore>,
    /// Admission, in order.
    pub admission: Chain,
    /// The server as admission asks it.
    pub(crate) lookup: Arc<dyn Lookup>,
    /// API servers of others behind this one.
    pub(crate) aggregation: Arc<Aggregation>,
    /// Other processes: webhooks, converters, aggregated API servers.
    pub remotes: Arc<Remotes>,
    /// Requests in flight.
    pub inflight: Arc<InFlight>,
    /// Containers that are processes of this machine.
    pub(crate) containers: Option<Arc<dyn Containers>>,
    /// Metrics for `/metrics`.
    pub metrics: Metrics,
    /// Cancelled when the server ends.
    pub closing: CancellationToken,
    /// Documents that describe what is served.
    pub(crate) documents: discovery::Documents,
    /// Authentication and authorization.
    pub(crate) access: Arc<Gate>,
    pub(crate) readiness: health::Readiness,
    /// The pools of addresses and ports.
    pub(crate) services: Arc<Allocators>,
    pub(crate) cache_lag: cache_lag::CacheLag,
    pub(crate) backup: backup::Source,
    /// The components that run in this process beside the API.
    pub(crate) control_plane: ControlPlane,
    /// The facts that requests are classified by.
    pub(crate) flows: Arc<Flows>,
    /// The version of Kubernetes that is reported.
    pub(crate) reported: ReportedVersion,
    /// Pages of the rest of this process.
    pub(crate) pages: axum::Router,
}

impl Api {
    pub(crate) fn new(objects: Arc<ObjectStore>, access: Arc<Gate>, admission: Chain, remotes: Arc<Remotes>) -> Self {
        Self {
            lookup: Arc::new(ServerLookup { objects: objects.clone(), access: access.clone() }),
            objects,
            admission,
            access,
            remotes,
            aggregation: Arc::default(),
            inflight: Arc::default(),
            containers: None,
            metrics: Metrics::default(),
            closing: CancellationToken::new(),
            documents: discovery::Documents::default(),
            readiness: health::Readiness::default(),
            services: Arc::default(),
            cache_lag: cache_lag::CacheLag::default(),
            backup: backup::Source::default(),
            control_plane: ControlPlane::default(),
            flows: Arc::default(),
            reported: ReportedVersion::default(),
            pages: axum::Router::new(),
        }
    }
}
