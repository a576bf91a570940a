//! Update graphs of packages: the updates between bundles, as data, and as upstream draws them.
//!
//! ```text
//!   EntryFacts   --> edge         the definition of an update edge, for all callers
//!   PackageFacts --> UpdateGraph  the channels of one package with all their edges, and the paths through them
//!                    --> picture  the drawing of it, by crate `graph`
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
pub use update::{ChannelGraph, GraphNode, Place, Start, StartState, TooLarge, UpdateEdge, UpdateGraph, UpdatePaths};
