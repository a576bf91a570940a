//! The newest revision's health, and the rollback from it (MS-RB-01).

use mainstay_lifecycle::Reason as Lifecycle;
use mainstay_lifecycle::change::{self, Action, Change};
use mainstay_lifecycle::health_gate::{HealthGate, HealthLimit, Situation};
use mainstay_lifecycle::revision::{History, RolledBack};

use super::{Plan, Planner, Reason, Stop, Verdict};

impl Planner<'_> {
    /// The facts that the verdict about the newest revision's health rests on.
    pub(super) fn situation<'a>(&'a self, history: &'a History, limit: Option<&'a HealthLimit>) -> Situation<'a> {
        let known = &self.snapshot.known;
        Situation {
            history,
            limit,
            generation: self.snapshot.extension.metadata.generation.unwrap_or_default(),
            to_try_again: "spec.source.catalog or the annotation",
            now: known.now,
            live: &known.live,
            instances: &known.instances,
        }
    }

    /// The plan that rolls back.
    pub(super) fn back(&self, history: &History, back: RolledBack) -> Result<Plan, Stop> {
        let begun = history.latest().filter(|latest| latest.notes.rolled_back.as_ref() == Some(&back));
        let Some(earlier) = begun.or_else(|| history.before(back.from)) else {
            return Err(self.stop(Verdict::Blocked(Lifecycle::NoEarlierRevision(Box::new(back)).into())));
        };
        let record = earlier.record.clone();
        let prefixed = |stop: Stop| match stop {
            Stop::Plan(mut plan) => {
                if let Verdict::Retrying(reason) = plan.verdict {
                    plan.verdict = Verdict::Retrying(Reason::RollingBack { bundle: record.bundle.name.clone(), reason: Box::new(reason) });
                }
                Stop::Plan(plan)
            }
            need @ Stop::Need(_) => need,
        };
        self.permitted(&record.objects).map_err(prefixed)?;
        let gone = change::vanished(history, &record);
        let live = self.live(&record, &gone)?;
        // The verdict has checked the CRDs already, together with what is stored.
        let warnings = self.checked(&Action::Reassert, history, &record, live).map_err(prefixed)?;
        let at_gate = change::stands_at_gate(history, &record);
        let (action, owner) = (Action::Upgrade, self.owner());
        let steps = change::steps(&Change {
            action: &action,
            objects: &record.objects.iter().collect::<Vec<_>>(),
            gone: &gone,
            live,
            owner: &owner,
            at_gate,
        });
        let verdict = Verdict::Blocked(Lifecycle::RolledBack(Box::new(back.clone())).into());
        let gate = HealthGate { rolled_back: Some(back), ..HealthGate::default() };
        Ok(Plan { action, steps, record: Some(record), warnings, gate, ..self.report(verdict) })
    }
}
