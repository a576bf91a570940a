//! What curators ask of catalogs: differences, findings, ways, searches, checks of a change.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod answers;
mod builders;
mod differences;
mod findings;
mod published;
