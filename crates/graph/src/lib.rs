//! Layered drawings of directed graphs, for terminals and pages. Knows no subject: nodes have names and marks, edges have kinds.
//!
//! ```text
//!   Picture (panels of nodes and edges, as the caller gives them)
//!      |  order     the vertical order; edges that would go down are set aside
//!      |  rails     fans of edges with common ends become one line that many enter and leave
//!      |  layout    layers, crossings, coordinates, routes
//!      +--> text (rows, as `git log --graph`)     order, rails
//!      +--> svg                                   all of it
//!      +--> dot, mermaid, json                    the picture itself
//! ```
//!
//! Everything is deterministic: the same picture gives the same bytes.

mod dot;
mod error;
mod json;
mod lanes;
mod layout;

mod mermaid;
mod model;
mod order;
mod rails;
mod svg;
mod text;

pub use dot::dot;
pub use error::Error;
pub use json::json;
pub use layout::{Bend, Layout, Point, Rect, Route, Stroke, layout};
pub use mermaid::mermaid;
pub use model::{Edge, Kind, Line, Mark, Marks, Merge, Node, Panel, Picture, Tone};
pub use order::{Order, order};
pub use rails::{Rail, rails};
pub use svg::svg;
pub use text::{Charset, Colour, TextStyle, text};
