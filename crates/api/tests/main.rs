//! Tests of the crate.
mod classic;
mod machine;
mod machine_config;
mod recorded;
mod release;
