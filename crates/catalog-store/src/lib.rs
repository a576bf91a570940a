//! Catalogs on disk by the digest of their image, mapped into memory.
//!
//! ```text
//!   <root>/sha256-<hex>/all.jsonl     content as it is served (OLM1-CAT-07)
//!                       index         of the content, built again when damaged
//!                       entry.json    digest and length of the content
//!   <root>/.new-<pid>-<n>/            being written; renamed when complete, removed at the next start
//! ```
//!
//! Content never changes once it has its name, so a map of it stays valid; removing an entry does not affect maps that are in use. The store
//! owns everything inside its root and touches nothing beside it (OLM1-GEN-09).

mod bundle;
mod digest;
mod directory;
mod error;
mod folder;
mod map;
mod sources;
mod store;

pub use bundle::{bundle_files, whole_bundle};
pub use digest::{Counted, digest};
pub use directory::DirectorySource;
pub use error::StoreError;
pub use folder::{Folder, FolderError, FolderLimits, Found, Links};
pub use map::Map;
pub use sources::{SourceContents, SourceName};
pub use store::{CatalogDigest, CatalogStore, Sizes, StoredCatalog};
