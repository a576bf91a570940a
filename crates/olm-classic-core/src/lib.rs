//! OLM classic's decisions (`docs/spec/olm-classic.md`), as functions of facts. No client and no runtime.
//!
//! ```text
//!   subscriptions, CSVs, catalogs ── resolve ──> new bundles ── steps ──> install plan
//!   bundle ── steps, permissions, deployments ──> objects      overrides: a Subscription's config on a Deployment
//!   OperatorHub, release ── hub ──> default catalogs
//!   operator groups ── groups ──> intersections, provided APIs      rules: does an account hold a permission
//! ```
//!
//! A recorded answer of upstream's own code outranks the text of the specification, so the order of guesses, the words of errors and the bytes that
//! are hashed follow upstream. [`cases`] reads and answers inputs in the form of those records.

pub mod accounts;
pub mod alerts;
pub mod api;
pub mod cases;
pub mod catalog_source;
pub mod category;
pub mod cluster_operators;
pub mod condition;
pub mod copies;
pub mod csv;
pub mod deployments;
pub mod explain;
pub mod fresh;
pub mod groups;
mod hash;
pub mod hub;
pub mod install_modes;
pub mod install_plan;
pub mod migration;
pub mod operator;
pub mod operator_group;
pub mod overrides;
pub mod overview;
pub mod owner;
pub mod package;
pub mod permissions;
pub mod platform;
pub mod properties;
pub mod removal;
pub mod request;
pub mod resolve;
pub mod rules;
pub mod source;
pub mod steps;
pub mod subscription;
pub mod token_auth;
pub mod unpack;
