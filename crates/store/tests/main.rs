//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backup;
mod etcd;
#[path = "common/etcd.rs"]
mod etcd_process;
mod history;
#[path = "common/model.rs"]
mod model;
