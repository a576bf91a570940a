//! New releases: which images they name, and the files that are made of the manifests of their operators (CVO-RELN-01 to CVO-RELN-03).
//!
//! ```text
//!   image-references, ImageStream, NAME=IMAGE ── Inputs ── looked_at(labels, time) ──┐
//!   /manifests of images, folders ── Operator ───────────────────────────────────────┴─ prune, compose ── Files
//! ```
//!
//! The same inputs give the same bytes: tags and files are sorted, and the only time is that of the newest input.

mod description;
mod error;
mod inputs;
mod mapping;
mod payload;
mod rewrite;
mod stream;

pub use description::Description;
pub use error::{ComposeError, ManifestProblem, ReferencesProblem};
pub use inputs::{Inputs, is_operator};
pub use mapping::{Mapping, MappingError, Mappings};
pub use payload::{Composed, Operator, Rules, check_component_versions, compose, prune};
pub use rewrite::RewriteError;
pub use stream::{ReferenceMode, StreamError};
