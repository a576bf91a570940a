//! ClusterCatalog: from an image reference to served content.
//!
//! The controller keeps the served catalogs in a [`ServedCatalogs`]; the server of `mainstay_catalog_serve::content` reads it. Older content is served until
//! newer content is complete, whatever fails on the way (OLM1-CAT-08).

pub mod controller;
pub mod served;
pub mod webhook;
