//! Index databases (SQLite), the older form of catalogs: read them into the catalog model, and write what `opm index` and
//! `opm registry` write.
//!
//! ```text
//!   file ── IndexDatabase::open ── schema is checked, an older one migrated in a private copy
//!                │
//!              Tables  (plain rows) ── listing (one bundle a channel: replaces, skips) ── Catalog
//!
//!   file ── Editor::open ── a copy beside the file ── add, remove, prune, deprecate ── commit (rename) | dropped: nothing changed
//! ```
//!
//! A file that is read is never changed. An edit applies as a whole or not at all.

mod addition;
mod connect;
mod convert;
mod edit;
mod error;
mod limits;
mod listing;
mod manifest;
mod migrations;
mod open;
mod schema;
mod tables;

pub use addition::Addition;
pub use edit::{AddOptions, Editor, Mode, OnError, PackageRemoval, UnknownMode};
pub use error::Error;
pub use limits::Limits;
pub use migrations::LATEST;
pub use open::IndexDatabase;
