//! Update graphs against upstream's recorded answers, the specification's own words, and hostile input.
#![allow(clippy::needless_pass_by_value)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod building;
mod hostile;
mod recorded;
mod reference;
mod retrieval;
