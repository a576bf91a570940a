//! The catalog operator on the embedded API, with a registry.

mod bench;
mod plans;
mod pods;
mod sources;
mod subscriptions;
