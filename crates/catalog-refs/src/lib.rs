//! Catalogs and bundles from any reference: a directory, a file, an image, an index database.
//!
//! ```text
//!   text ── open ──┬─ directory ── manifests/ and metadata/? ── bundle ─────────┐
//!                  │                otherwise ───────────────── catalog files ──┤
//!                  ├─ file ─────── SQLite? ──────────────────── database ───────┼── Opened { kind, content }
//!                  │                archive of an image? ─┐                      │      .catalog()  the typed model
//!                  │                otherwise ── catalog  │                      │      .source()   files for the loader
//!                  └─ image, layout ──────────────────────┴─ kind by its labels ─┘
//! ```
//!
//! `opm` knows five of these kinds, and defines for each command the kinds that it takes; [`Access::accept`] does so here. The kind of an
//! image is told by its labels, tested in upstream's order: database, catalog, bundle (CATLG-32, OLM1-BUILD-03).
//!
//! This crate opens, and judges nothing: its callers check the content.

mod access;
mod bundle;
mod error;
pub mod file_type;
mod image;
mod image_template;
mod kind;
mod migrate;
mod open;

pub use access::{Access, Names};
pub use bundle::{BundleFiles, bundle_directory};
pub use error::{BoxError, Error};
pub use image::pull_files;
pub use image_template::{ImageTemplate, InvalidTemplate};
pub use kind::{Content, Kind, Place};
pub use migrate::{Level, UnknownLevel, embedded_csv, migrate};
pub use open::{Opened, Payload, looks_like_a_path, open, open_bundle, open_image};

/// Label of an image that holds an index database; its value is the file.
pub const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
/// Label of an image that holds a file-based catalog; its value is the folder.
pub const CATALOG_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// Label of a bundle's image; its value is the package.
pub const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";
