//! The parts that every controller of the catalog operator uses.

use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::{Recorder, Writer};
use mainstay_catalog_store::CatalogStore;
use mainstay_olm_classic_core::resolve::{Isolation, UnhealthyCatalogs};
use mainstay_runtime::{Accounts, Env, Kinds};

use super::caches::Caches;
use super::contents::Contents;
use super::images::Images;
use super::metrics::Metrics;
use super::serving::CatalogServing;

pub use mainstay_olm_classic_core::catalog_source::registry::FIELD_MANAGER;

/// The parts that every controller of the catalog operator uses.
pub(crate) struct Parts {
    pub writer: Writer,
    pub recorder: Recorder,
    pub accounts: Accounts,
    pub kinds: Kinds,
    pub env: Env,
    pub global_namespace: String,
    pub images: Images,
    pub store: Arc<CatalogStore>,
    pub contents: Contents,
    pub caches: Caches,
    pub retry_for: Duration,
    pub unpack_timeout: Duration,
    pub isolation: Isolation,
    pub unhealthy_catalogs: UnhealthyCatalogs,
    pub metrics: Metrics,
    pub serving: CatalogServing,
}
