//! Alerts about what this process measures, without Prometheus (COP-11, CVO-MET-03, OLM0-MET-04, COP-CRED-07).
//!
//! ```text
//!   metrics page -> exposition -> targets (job, namespace, up) -> Samples
//!   PrometheusRules -> rules ------------------------------------> state: pending, firing | not evaluated, and why
//! ```
//!
//! Everything is as Prometheus does it: the labels that a scrape adds, the names of labels that collide with them, the time for which an
//! expression must hold, the labels of an alert. Rules over metrics that are not measured here are listed as not evaluated. A restart
//! forgets for how long an alert has been pending.

mod exposition;
mod rules;
mod state;
mod targets;
mod template;

pub use exposition::{PageError, samples_of};
pub use rules::{Rule, RuleError, Rules, rules_of};
pub use state::{Alert, AlertState, Alerts, Report, Skipped};
pub use targets::Target;
