//! Calls of other processes by the API server: webhooks, conversion webhooks and aggregated API servers (KAPI-ADM-01, KAPI-CRD-04,
//! KAPI-AGG-01, KAPI-WL-06).
//!
//! ```text
//!   ClientConfig ─ Target ──► resolve: --serve-local, else ready addresses of the Service ──► Address
//!                └ Trust  ──► tls: caBundle, or the machine's roots, or anything          ──► pooled client ──► answer, bounded
//! ```
//!
//! Simulated pods answer nothing, so calls of them fail here, and say how they would not.
//!
//! Nobody forwards cluster addresses on this machine, so a Service is its endpoints. Whatever goes wrong is a [`CallError`] in
//! kube-apiserver's words, since people search for those.

mod client;
mod error;
mod local;
mod resolve;
mod simulated;
mod target;
mod tls;

pub use client::{ANSWER_LIMIT, Remotes, Reply};
pub use error::{CallError, Failure};
pub use local::LocalService;
pub use resolve::{Address, Facts, ResolveError};
pub use target::{ClientConfig, Target, Trust};
pub use tls::Identity;
