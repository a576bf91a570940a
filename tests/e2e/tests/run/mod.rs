//! `mainstay run` and `mainstay deploy`: the controllers as processes of their own, with the permissions that they are deployed with.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod certificates;
mod classic;
mod cluster_version;
mod cluster_version_process;
mod deploy;
mod leaders;
mod platform;
mod proxy;
mod removal;
mod settings;
mod webhook;
mod world;
