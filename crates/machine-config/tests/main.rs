//! The Machine Config Operator against the real API, as its own account with exactly the permissions of its manifests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent;
mod disruptions;
mod rollout;
