//! Release payloads: what a release image holds for a cluster, which of it belongs to this cluster, and in which order it is applied.
//!
//! ```text
//!   Files (two folders, read by the caller) ── Payload::load ──┬─ metadata     release-metadata, image-references
//!                                                              └─ Manifest ─── include: Filter ──> included, or an Exclusion
//!   included manifests ── tasks ── TaskGraph::new(mode)   runlevels in sequence, components in parallel, Jobs as barriers
//!   ClusterVersion's spec.capabilities ── Capabilities    known, enabled, implicitly enabled
//!   images, operators' files ── compose ──> Files of a new release
//!   an image's digest ── signature: Verification ──> verified, or why not
//! ```
//!
//! One filter serves the Cluster Version Operator, `release extract --included` and rehearsals (CVO-INC-06). Everything is a pure function;
//! the names of annotations and the sentences are those of OpenShift 4.19.

mod bootstrap;
mod capability;
pub mod cases;
pub mod commits;
pub mod compose;
pub mod extract;
mod file_name;
mod files;
mod graph;
mod image;
mod include;
pub mod info;
mod manifest;
mod metadata;
pub mod mirror;
mod operators;
mod payload;
pub mod signature;
mod template;
pub mod tools;

pub use bootstrap::Bootstrap;
pub use capability::{Baseline, Capabilities, KNOWN, UnknownBaseline, implied, named as named_capabilities};
pub use file_name::{FileName, Level};
pub use files::{Files, FilesError, Folder};
pub use graph::{Cut, Mode, Node, Reconcile, Task, TaskGraph};
pub use image::{Blob, ReleaseImage};
pub use include::{Exclusion, FeatureSet, Filter, Gates, Override};
pub use manifest::{Manifest, ManifestError, ManifestId, parse};
pub use metadata::{Architecture, ImageReference, ImageReferences, Metadata, MetadataError};
pub use operators::{Class, PlatformOperator, platform_operator, platform_operators};
pub use payload::{Duplicate, Load, LoadError, Payload, Problem, fingerprint};
pub use template::{TemplateError, TemplateProblem, Values};
