//! The catalog operator on the embedded API, with a registry.

pub mod bench;
mod plans;
mod pods;
mod scopes;
mod sources;
mod subscriptions;
