//! Tests of the crate.
mod classic;
mod machine;
mod recorded;
mod release;
