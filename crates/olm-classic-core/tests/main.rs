//! Decisions of OLM classic against upstream's recorded answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bundles;
mod components;
mod csv;
mod explain;
mod gitops;
mod hub;
mod migration;
mod publishing;
mod recorded;
mod registry;
mod scenarios;
mod subscription;
mod unhealthy;
mod unpack;
