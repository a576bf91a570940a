//! Tests of the crate.
mod classic;
mod recorded;
mod release;
