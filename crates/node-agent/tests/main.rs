//! MachineConfigs on real trees: what is written, what is taken back, and what a kill at any step leaves behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)]

mod cut_off;
mod hostile;
mod support;
mod units;
mod written;
