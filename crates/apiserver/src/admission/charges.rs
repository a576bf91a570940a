//! Charges of quotas for one write.

use std::sync::{Mutex, PoisonError};

use mainstay_kinds::quota::Charge;

/// The charges of quotas for a write.
#[derive(Default)]
pub struct Charges(Mutex<Vec<Charge>>);

impl Charges {
    /// Takes them all.
    pub(super) fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds some.
    pub(super) fn keep(&self, charges: Vec<Charge>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(charges);
    }
}
