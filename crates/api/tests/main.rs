//! Tests of the crate.
mod classic;
mod recorded;
