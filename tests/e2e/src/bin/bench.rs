//! Measures speed and size.
fn main() {}
