//! Why a picture can not be drawn.

/// Why a picture can not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More than can be drawn in a way that anybody could read.
    #[error("panel {panel}: {what} number {count}, {limit} can be drawn; choose a part, for example one channel")]
    TooLarge {
        /// Name of the panel.
        panel: String,
        /// Nodes or edges.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An edge leads to a node or has a kind that the panel does not have.
    #[error("panel {panel}: edge {edge} refers to a node or kind that is not there")]
    UnknownEnd {
        /// Name of the panel.
        panel: String,
        /// Position of the edge.
        edge: usize,
    },
}
