//! Structural schemas: one model for the built-in kinds and for custom resources.
//!
//! ```text
//!   OpenAPI facts ──┐                 ┌── validate (types, formats, limits, unions)
//!                   ├── Schema ───────┼── prune / default
//!   CRD schema   ───┘                 ├── compare (CRD upgrade safety)
//!                                     └── OpenAPI documents
//! ```
//!
//! `model` holds the tree and its reader; each other module is one question asked of it.

pub mod coerce;
pub mod crd;
pub mod default;
pub mod field;
pub mod format;
pub mod metadata;
mod model;
pub mod names;
pub mod openapi;
pub mod pattern;
pub mod prune;
pub mod quantity;
pub mod upgrade;
pub mod validate;

pub use model::{Additional, Definitions, ListType, MapType, ReadError, Schema, SchemaRef, Type, ValidationRule};
