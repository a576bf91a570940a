//! File-based catalogs: model, loader, validation, index, queries.
//!
//! ```text
//!   Source (paths, bytes)
//!      | load::load            one blob at a time, canonical JSON, file and line known
//!      +--> Catalog            the typed model          --> validate, render, author
//!      +--> JSON lines + Index compact, opened in place --> queries, PackageFacts (for the resolver)
//! ```
//!
//! Nothing here opens a file or pulls an image: bytes come in through [`Source`], and go out through the caller's writers.

pub mod author;
mod blob;
mod blob_text;
pub mod ci;
pub mod compose;
mod decode;
pub mod did_you_mean;
pub mod diff;
mod error;
mod facts;
pub mod filter;
pub mod graph;
mod index;
mod json;
mod level;
pub mod lint;
mod load;
mod model;
mod ordered;
pub mod parts;
mod pieces;
pub mod properties;
mod pullspec;
pub mod query;
pub mod reach;
mod render;
pub mod search;
mod source;
pub mod template;
mod validate;
pub mod why;

pub use blob::{Blob, Limits};
pub use decode::Shape;
pub use error::{IndexError, LoadError, SourceError};
pub use facts::{BundleFacts, CONTENT_TYPES, ChannelFacts, EntryFacts, PackageFacts, PropertyFacts};
pub use index::{Api, BundleView, ChannelView, EntryView, Index, IndexBuilder, MetaQuery, PackageView};
pub use level::Level;
pub use load::{load, store};
pub use model::{
    Bundle, BundleName, Catalog, Channel, ChannelName, Deprecation, Deprecations, Entry, Icon, Meta, Package, PackageName, Property,
    Reference, RelatedImage, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};
pub use pullspec::{InvalidPullSpec, check_pull_spec};
pub use render::{Format, Part, RenderError, render, render_parts};
pub use source::{INDEX_IGNORE, MemorySource, Source, SourceFile, visible_files};
pub use validate::{
    BlobName, Extent, Finding, Invalid, Place, Rule, Scope, Validation, validate, validate_all, validate_model, validate_source,
};
