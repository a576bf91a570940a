//! CustomResourceDefinitions come alive: names, conditions, served versions, the end of their instances (KAPI-CRD-01).

mod convert;
mod deletion;
mod establish;
pub mod openapi;
mod version;

pub use convert::{Converter, stored_version};
pub use deletion::mark_deleted;
pub use establish::Establisher;
pub use version::{CustomVersion, ScalePaths};
