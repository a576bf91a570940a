//! Ignition configs: reading, validation, translation, merging and writing as Ignition does it.
//!
//! ```text
//!   text ── node ── decode ──┬─ 3.x ── validate ── translate (to 3.4) ──┬── Config ── merge ── write
//!         (positions)        └─ 2.2 ── v2 (validate, translate) ────────┘        └─ older ── 3.1 to 3.3, 2.2
//! ```
//!
//! A config's fields are a table for each version of the specification (`schema/*.txt`), and one decoder, one merge and one writer work along
//! any of them. Rules of a field stand in `validate`, by the name of its type. Sentences about a config are upstream's to the letter, and name
//! line and column of the text as it was given.

pub mod butane;
mod config;
pub mod data;
pub mod data_url;
mod decode;
mod merge;
mod model;
mod node;
mod older;
pub mod report;
mod translate;
pub mod unit;
pub mod v2;
mod validate;
mod version;
mod write;

pub use config::{Config, ConfigError, Parsed, Problem, parse, validate};
pub use data::{Data, Struct};
pub use merge::merge;
pub use model::{Kind, Spec, Type};
pub use older::{Target, Unsupported, Untranslatable};
pub use report::Report;
pub use validate::clean_path;
pub use version::Version;

/// The largest text of a config that is read.
pub const MAX_TEXT: usize = 16 << 20;
