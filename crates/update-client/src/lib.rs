//! What a cluster asks to know its updates: its update service, and its metrics. What the answers mean is `update-graph`'s.
//!
//! ```text
//!   Query ── ask ── GET the graph ────────────> Retrieved        at most an hour, 32 MiB, two minutes of silence
//!   rule  ── Metrics ── GET /api/v1/query ────> match or not     at most five minutes, 16 MiB
//! ```
//!
//! Both servers may be slow and hostile. Retries, and the throttle of queries, are the caller's (`update_graph::RuleCache`).

mod metrics;
mod service;

pub use metrics::{Metrics, MetricsConfig, MetricsError};
pub use service::{ClusterProxy, LIMITS, Limits, ask, user_agent};
