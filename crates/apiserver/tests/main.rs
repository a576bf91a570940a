//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod aggregation;
mod audit;
mod backpressure;
mod bodies;
mod common;
mod conversion;
mod custom;
mod dry_run;
#[path = "../../store/tests/common/etcd.rs"]
mod etcd_process;
mod own_pages;
mod pages;
mod paths;
#[path = "common/peer.rs"]
mod peer;
mod permissions;
mod policies;
mod protobuf;
mod quota;
mod races;
mod remote;
mod rest;
mod resume;
mod serve;
mod simulated;
mod versions;
mod watch;
mod webhooks;
mod websocket;
mod write;
