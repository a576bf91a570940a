//! The tests of this crate from outside, as one program: linking is what costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod curators;
mod filter;
mod graphs;
mod index;
mod opm_answers;
mod real_catalogs;
mod streams;
mod templates;
