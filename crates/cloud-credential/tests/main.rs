//! Tests of the loop.
mod embedded;
