//! The `mainstay` program.
fn main() {}
