//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod building;
mod common;
mod faults;
mod hostile_layers;
mod hostile_registries;
mod redirects;
mod registries;
mod sharing;
mod signatures;
mod unpacking;
