//! Resolution of one namespace: its Subscriptions and CSVs against the catalogs that it sees (OLM0-RES).
//!
//! ```text
//!   Snapshot ── variables ──> resolver::ordered ──> Resolved (new bundles) ── steps ──> lookups, steps, updated Subscriptions
//!                  │
//!                  └── entries: catalogs and installed CSVs; predicates: what a bundle requires
//! ```
//!
//! [`resolve`] gives the bundles to install, [`resolve_steps`] the content of the InstallPlan. Both are upstream's `Resolve` and
//! `ResolveSteps`: the same answers, the same sentences. Where upstream's answer depends on the order of a Go map, ours follows names.

mod channel;
mod components;
mod entry;
mod error;
mod existing;
mod finder;
mod outcome;
mod predicate;
mod requested;
mod snapshot;
mod step;
mod unhealthy;
mod variables;

pub use components::{Component, resolve_components};
pub use entry::{Content, Deprecations, Entry, Inline, RegistryBundle, SkippedBundle};
pub use error::{CatalogFailure, Problem, ResolveError};
pub use outcome::{Isolation, Outcome, Part, Refusal, decide};
pub use requested::{NotOffered, requested};
pub use snapshot::{Catalog, Csv, EXCLUDE_GLOBAL, OperatorGroup, Snapshot, Subscription};
pub use step::{BundleLookup, ResolvedSteps, UpdatedSubscription, resolve_steps};
pub use unhealthy::{UnhealthyCatalogs, decide_isolated};
pub use variables::{Resolved, resolve};
