//! A plan of a rollback: the verdict, and the pinned version.

use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::Problem;
use mainstay_lifecycle::rollback::Class;
use serde_json::json;

use super::{Planned, Planner, read};
use crate::change::Change;
use crate::rollback::{self, Destination};

impl Planner<'_, '_> {
    pub(super) async fn rollback(&mut self, change: &Change, name: &str, to: Option<u32>, force: bool) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let typed = read(&live)?;
        let to = to.map_or(Destination::Previous, Destination::Revision);
        let verdict = rollback::plan(self.view.session, &typed, &to, self.progress).await?.verdict;
        let mut patch = json!({"spec": {"source": {"catalog": {"version": verdict.version, "upgradeConstraintPolicy": "SelfCertified"}}}});
        if !verdict.verdict.preflight.is_empty() {
            patch["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        }
        let mut planned = self.patched(change, live, patch, None).await?;
        let step = planned.preview.steps.first_mut();
        if let Some(step) = step.filter(|step| step.problem.is_none()) {
            let lines: Vec<String> = verdict.verdict.risks.iter().map(ToString::to_string).collect();
            let message = match verdict.verdict.verdict {
                Class::Safe => String::new(),
                Class::Unsafe if force => {
                    step.warnings.extend(lines.iter().cloned());
                    String::new()
                }
                Class::Unsafe => format!("rolling back from {} to {} is unsafe", verdict.from, verdict.to),
                Class::Impossible => format!("{} cannot be rolled back to {}", verdict.from, verdict.to),
            };
            if !message.is_empty() {
                let hints =
                    if verdict.verdict.verdict == Class::Unsafe { vec!["--force plans it all the same".to_owned()] } else { Vec::new() };
                step.problem = Some(Problem { message, causes: lines, hints, ..Problem::default() });
                planned.preview.applicable = false;
            }
        }
        planned.rollback = Some(verdict);
        Ok(planned)
    }
}
