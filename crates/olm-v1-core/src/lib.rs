//! OLM v1 as decisions: pure functions of facts, without a client, a clock or a socket.
//!
//! ```text
//!   Snapshot ──► extension::plan ──┬── Need(facts)   fetched by whoever asks: a controller, a command, a rehearsal
//!                                  └── Ready(Plan) ──┬── preview   what people see before it happens
//!                                                    ├── explain   why it is refused, and what would help
//!                                                    ├── status    what the conditions say
//!                                                    └── steps     executed by the controller (`olm-v1`) as they are
//! ```
//!
//! `mainstay-olm-v1` observes, acts and wakes; whatever else shows or rehearses a change calls the same functions.

pub mod catalog;
pub mod cluster_operator;
pub mod extension;
pub mod gates;
pub mod text;
