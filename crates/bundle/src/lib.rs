//! registry+v1 bundles: parse, validate, render, derive least permissions.
//!
//! A bundle is one version of one operator as files. This crate takes the files as bytes, from any source, and answers as
//! upstream's programs do: the objects to apply (OLM v1's renderer), the catalog entry (`opm render`), and the problems of the bundle.
//!
//! ```text
//!   files ── Bundle::read ──┬─ check ─────────── findings, in upstream's order and words
//!                           ├─ render ────────── objects ── permissions::derive ── permissions::manifests
//!                           └─ catalog_blob ──── olm.bundle for a catalog
//!         └── Manifests::read ── validators::run ── findings of upstream's validators, with file, line, rule and fix
//! ```
//!
//! Pure: no cluster, no clock, no file system.

pub mod audit;
mod bundle;
mod catalog;
mod check;
mod config;
pub mod configmap;
mod csv;
pub mod diff;
mod error;
pub mod generate;
pub mod go;
mod images;
pub mod kinds;
pub mod labels;
pub mod permissions;
mod read;
mod render;
pub mod validators;
mod words;

pub use bundle::{Bundle, Facts, Property};
pub use catalog::Content;
pub use check::dns1123_label;
pub use config::{Config, ConfigError, DeploymentConfig};
pub use csv::{ApiService, CrdDescription, Csv, Deployment, InstallMode, Permissions, RelatedImage, WebhookDefinition, WebhookKind};
pub use diff::{Change, Diff, diff};
pub use error::{ReadError, RenderError};
pub use images::{ImageUse, Named};
pub use read::{InvalidDocument, Limits};
pub use render::{CertificateProvider, RenderOptions, render};
