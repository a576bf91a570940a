//! ClusterCatalog: from an image reference to served content.
//!
//! The controller keeps a [`Shelf`] of what is served; the server of `mainstay_catalog_serve::content` reads it. Older content stays on the shelf until newer content is
//! complete, whatever goes wrong on the way (OLM1-CAT-08).

pub mod controller;
pub mod shelf;
pub mod webhook;
