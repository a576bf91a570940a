//! The two sorts of events.

/// The sort of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Something that should happen.
    Normal,
    /// Something that needs attention.
    Warning,
}

impl EventKind {
    /// Returns the value of an event's `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
