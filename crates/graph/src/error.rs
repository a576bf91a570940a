//! Errors of drawing a picture.

/// Reason why a picture cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More nodes or edges than a readable drawing can hold.
    #[error("panel {panel}: {what} number {count}, {limit} can be drawn; choose a part, for example one channel")]
    TooLarge {
        /// Name of the panel.
        panel: String,
        /// Nodes or edges.
        what: &'static str,
        /// Their number in the panel.
        count: usize,
        /// The most that can be drawn.
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
