//! CustomResourceDefinitions come alive: names, conditions, served versions, the end of their instances (KAPI-CRD-01).

mod establish;
mod version;

pub use establish::{Establisher, mark_deleted};
pub use version::{CustomVersion, ScalePaths};
