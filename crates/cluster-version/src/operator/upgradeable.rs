//! Condition Upgradeable, kept by itself (CVO-SYNC-10).

use std::sync::PoisonError;
use std::time::Duration;

use mainstay_cluster_version_core::upgradeable::{self, Operators};
use mainstay_runtime::Outcome;

use super::state::{Operator, Part};
use crate::Error;

impl Operator {
    /// Evaluates Upgradeable, not too often (CVO-UPG-01).
    pub(super) fn evaluate_upgradeable(&self) -> Result<Outcome, Error> {
        if !self.observed.is_ready_for_upgradeable() {
            return Ok(Outcome::After(Duration::from_millis(100)));
        }
        let Some((_, cluster_version)) = self.observed.cluster_version()? else { return Ok(Outcome::Done) };
        self.note_conditions()?;
        let now = self.env.now();
        let interval = self.config.pace.shortened(upgradeable::interval(&cluster_version.status.conditions, now));
        let evaluated = self.state().evaluated;
        if let Some(left) = evaluated.and_then(|at| interval.checked_sub(now.duration_since(at).unsigned_abs())) {
            return Ok(Outcome::After(left));
        }
        let operators = self.observed.cluster_operators()?;
        let deletions = self.shared.deletions.lock().unwrap_or_else(PoisonError::into_inner).in_progress();
        let facts = upgradeable::Facts {
            cluster_version: upgradeable::Found::ClusterVersion(&cluster_version),
            gates: &self.observed.gates(),
            acks: &self.observed.written(upgradeable::ADMIN_ACKS),
            operators: operators.as_deref().map_or(Operators::NotServed, Operators::List),
            deletions: &deletions,
        };
        let conditions = upgradeable::conditions_of(&upgradeable::obstacles(&facts), self.env.now_seconds());
        let mut state = self.state();
        state.evaluated = Some(now);
        if state.upgradeable != conditions {
            state.upgradeable = conditions;
            drop(state);
            self.queue.add(Part::Sync);
        }
        Ok(Outcome::Done)
    }
}
