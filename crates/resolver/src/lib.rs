//! The choice of a bundle and its reasons: update graphs, constraints, explanations.
//!
//! [`resolve`] is a pure function of a [`Request`] and the candidate catalogs (OLM1-SEL-01). It gives exactly one bundle with the reasons
//! for it, or a [`Refusal`] in upstream's words with the offers of each catalog and hints that were tried before they are given.
//!
//! ```text
//!   Request --+                    +--> Resolution  bundle, catalog, deprecations, reasons
//!             +-- select -- filter -- pick --+
//!   Catalogs -+   SEL-02    UPG-05    SEL-06 +--> Refusal     text, per-catalog facts, verified hints
//! ```
//!
//! [`joint::solve`] does the same for many extensions at once, whose bundles may need each other. [`why_not_newer`] explains what holds a
//! healthy extension back. [`ordered::solve`] is the search by preference on which OLM classic's resolver rests.

// The language of the test universes names this crate as an outside user does.
#[cfg(test)]
extern crate self as mainstay_resolver;

mod edges;
mod effort;
mod hints;
pub mod joint;
mod obstacles;
pub mod ordered;
mod refusal;
mod request;
mod resolve;

pub use edges::{Edge, EdgeKind};
pub use hints::{Change, Hint};
pub use obstacles::{Obstacle, ObstacleKind, why_not_newer};
pub use refusal::{CatalogReport, Refusal, RefusalKind};
pub use request::{CandidateCatalog, CatalogState, InstalledBundle, ModelSource, PackageSource, Request, UpgradeConstraintPolicy};
pub use resolve::{Choice, DeprecationMessages, Resolution, resolve};
