//! Update graphs of packages: who updates whom, as data, and as upstream draws it.
//!
//! ```text
//!   EntryFacts   --> edge         when an entry updates a bundle, for everybody who asks
//!   PackageFacts --> UpdateGraph  the channels of one package with all their edges, and the ways through them
//!                    --> picture  what is drawn of it, by crate `graph`
//!   Catalog      --> mermaid      `opm alpha render-graph`, byte for byte
//! ```

mod edge;
mod mermaid;
mod picture;
mod update;

pub(crate) use edge::edges;
pub use edge::{EdgeKind, Updates};
pub use mermaid::{Drawing, Mermaid, MermaidError, V0Semantics, mermaid};
pub use picture::picture;
pub use update::{ChannelGraph, GraphNode, Place, Start, StartState, TooLarge, UpdateEdge, UpdateGraph, Ways};
