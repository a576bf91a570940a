//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bundles;
mod classic;
mod cluster;
mod common;
mod curators;
mod dependencies;
mod glossary;
mod graph;
mod index;
mod mirror;
mod offline;
mod opm;
mod places;
mod poisoned;
mod poisoned_cluster;
mod recorded;
mod registries;
mod release_mirror;
mod release_new;
mod release_tools;
mod releases;
mod validate;
