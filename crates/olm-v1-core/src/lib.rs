//! OLM v1 as decisions: pure functions of facts, without a client, a clock or a socket.
//!
//! ```text
//!   Snapshot ──► extension::plan ──┬── Need(facts)   fetched by the caller: a controller, a command, a rehearsal
//!                                  └── Ready(Plan) ──┬── preview   the change as people see it beforehand
//!                                                    ├── explain   the reason of a refusal, and its remedies
//!                                                    ├── status    the conditions
//!                                                    └── steps     executed by the controller (`olm-v1`) as they are
//! ```
//!
//! `mainstay-olm-v1` observes, acts and wakes. Everything else that shows or rehearses a change calls the same functions.

pub mod catalog;
pub mod cluster_operator;
pub mod extension;
pub mod gates;
pub mod text;
