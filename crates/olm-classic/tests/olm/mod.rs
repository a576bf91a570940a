//! The OLM operator against the real API, with simulated nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bundles;
mod copies;
mod fresh;
mod groups;
mod installs;
mod members;
mod operators;
mod phases;
mod removal;
mod reports;
mod scale;
mod upgrades;
mod webhooks;
