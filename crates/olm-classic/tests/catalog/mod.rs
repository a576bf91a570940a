//! The catalog operator on the embedded API, with a registry.

mod bench;
mod plans;
mod sources;
mod subscriptions;
