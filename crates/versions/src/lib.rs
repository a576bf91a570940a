//! Semantic versions, both range dialects, and Kubernetes' version order.
//!
//! There are two dialects because catalogs and ClusterExtensions differ: catalogs (skip ranges, dependencies) use [`CatalogRange`], the
//! `version` field of a ClusterExtension uses [`ExtensionRange`]. They differ in separators, in wildcards and above all in
//! pre-releases: the first compares them like any version, the second leaves them out unless the range asks for them.
//!
//! ```text
//!   Version ──┬── CatalogRange    ">=1.0.0 <2.0.0 || !=1.5.0"
//!             ├── ExtensionRange  "^1.2, !=1.2.5 || 2.x"
//!             └── kubernetes      v1 before v1beta2 before v1alpha1; 1.34 against minKubeVersion
//! ```

mod catalog;
mod extension;
mod kubernetes;
mod version;

pub use catalog::CatalogRange;
pub use extension::ExtensionRange;
pub use kubernetes::{KubernetesVersion, compare_api_versions};
pub use version::Version;

/// A version or a range that cannot be read. The texts are those of the programs from which people know these dialects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);
