//! The numbers that the operator counts itself (CVO-MET-02).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// Counters of one operator.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    payload_errors: Mutex<BTreeMap<String, u64>>,
    retrieved_at: Mutex<Option<Timestamp>>,
}

impl Metrics {
    /// Counts a failed attempt at a manifest of a version.
    pub fn payload_error(&self, version: &str) {
        *self.payload_errors.lock().unwrap_or_else(PoisonError::into_inner).entry(version.to_owned()).or_default() += 1;
    }

    /// Notes the time of a retrieval that succeeded.
    pub fn retrieved<T, E>(&self, outcome: &Result<T, E>, now: Timestamp) {
        if outcome.is_ok() {
            *self.retrieved_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
    }
}
