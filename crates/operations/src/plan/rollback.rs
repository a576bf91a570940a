//! A plan of a rollback: the verdict, and the pinned version.

use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::Problem;
use mainstay_lifecycle::rollback::Class;

use super::{Planned, Planner, patch_step, read};
use crate::change::{Change, Destination};
use crate::rollback::{self, RollbackVerdict};

impl Planner<'_, '_> {
    pub(super) async fn rollback(&mut self, change: &Change, name: &str, to: &Destination, force: bool) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let extension = read(&live)?;
        let verdict = rollback::verdict(self.view.session, &extension, to, self.progress).await?;
        let (patch, afterwards) = rollback::patches(&extension, &verdict)?;
        let mut planned = self.patched(change, live, patch, None).await?;
        if let Some(step) = planned.preview.steps.first_mut() {
            if let Some(problem) = problem(&verdict, force) {
                // What the cluster would answer comes second: the verdict says why, and what would be lost.
                step.problem = Some(problem);
                planned.preview.applicable = false;
            } else if verdict.verdict.verdict == Class::Unsafe {
                step.warnings.extend(verdict.verdict.risks.iter().map(ToString::to_string));
            }
        }
        if let Some(patch) = afterwards {
            planned.choices.push("the preflight of CRDs is off for this change, and on again when the bundle is installed".to_owned());
            planned.afterwards.push(patch_step(name, patch));
        }
        planned.rollback = Some(verdict);
        Ok(planned)
    }
}

/// Returns the reason why a rollback is not applied. An unsafe one is applied only with `force`.
fn problem(verdict: &RollbackVerdict, force: bool) -> Option<Problem> {
    let RollbackVerdict { from, to, verdict, .. } = verdict;
    let (message, hints) = match verdict.verdict {
        Class::Impossible => (format!("{from} cannot be rolled back to {to}"), Vec::new()),
        Class::Unsafe if !force => {
            let hint = "--force applies it all the same; back up the objects named above first".to_owned();
            (format!("rolling back from {from} to {to} is unsafe"), vec![hint])
        }
        Class::Safe | Class::Unsafe => return None,
    };
    Some(Problem { message, causes: verdict.risks.iter().map(ToString::to_string).collect(), hints, ..Problem::default() })
}
