//! Tests of the loop.
#![allow(clippy::needless_pass_by_value, reason = "json! makes values, and tests read better when they hand them on")]

mod embedded;
