//! The Job that unpacks the image of a bundle into a ConfigMap, and what it needs, as OLM v0.42 makes them (OLM0-CAT-30 to OLM0-CAT-32).
//!
//! ```text
//!   CatalogSource, image ── plan ──► ConfigMap ──► Role, ServiceAccount, RoleBinding, Job ──► Progress
//!   the files of the bundle ── content::fill ──► ConfigMap ── content::load ──► the bundle
//! ```

pub mod content;
mod objects;
mod plan;

pub use objects::{Request, config_map};
pub use plan::{Facts, Progress, plan};

/// The label with the name of the ConfigMap that a Job fills.
pub const LABEL: &str = "operatorframework.io/bundle-unpack-ref";
/// The init container with the image of the bundle.
pub const PULL: &str = "pull";
/// The container that fills the ConfigMap.
pub const EXTRACT: &str = "extract";
/// The message of a bundle whose Job is not over.
pub const INCOMPLETE: &str = "unpack job not completed";
