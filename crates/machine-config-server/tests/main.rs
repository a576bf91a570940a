//! The config server over a real listener, before an embedded cluster.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod serving;
