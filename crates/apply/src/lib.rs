//! The only writer that loops use: executes a change as one identity.
