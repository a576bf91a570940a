//! Ignition and Butane configs from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod butane;
mod hostile;
mod properties;
