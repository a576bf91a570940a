//! Webhooks (KAPI-ADM-01): other processes that may change or refuse what is written.
//!
//! ```text
//!   configurations ── hook: matching, conditions, client ──┬─ mutating: one after the other, JSON patches, reinvocation
//!                                                          └─ validating: all at once
//!                      call: AdmissionReview there and back ┘
//! ```

mod call;
mod hook;
mod mutating;
mod validating;

pub use mutating::MutatingAdmissionWebhook;
pub use validating::ValidatingAdmissionWebhook;
