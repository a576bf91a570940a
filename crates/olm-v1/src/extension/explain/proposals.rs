//! Whether what is proposed would be carried out (MS-EXPL-01): the resolution of each proposal was tried when it was found, which says
//! nothing about the content of the bundle that it leads to.
//!
//! ```text
//!   Explanation ── proposals ──► wishes ── planned by whoever has the facts ── judge ──► Outcome ── weighed ──► Explanation
//! ```

use serde_json::Value;

use super::super::facts::Snapshot;
use super::super::plan::{Plan, Verdict};
use super::words::first_line;
use super::{Action, Cause, Explanation, Facts, objects, package};

/// What came of planning a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It would be carried out, as far as can be told before.
    Doable,
    /// It would be refused; why.
    Refused(String),
    /// It could not be told; why.
    Unknown(String),
}

/// What the plan for a proposed wish comes to. What the installer may do is not judged: an upgrade grants what is missing.
pub fn judge(snapshot: &Snapshot, plan: &Plan) -> Outcome {
    let text = match &plan.verdict {
        // A missing account stands in the way of everything, and is explained where it does.
        Verdict::Reached | Verdict::NoAccount { .. } => return Outcome::Doable,
        Verdict::Retrying(text) | Verdict::Blocked(text) => first_line(text),
        Verdict::Unreadable(problem) => return Outcome::Unknown(format!("the install records cannot be read: {problem}")),
    };
    if plan.consent.meanwhile.is_some() {
        // It is done once it is approved, or others have done their part.
        return Outcome::Doable;
    }
    match Cause::of(snapshot, plan) {
        Cause::Crds(crds) => Outcome::Refused(format!("by the check of CRDs: {}", objects::findings(&crds).join("; "))),
        Cause::Pull { failure, .. } => Outcome::Unknown(format!("its bundle cannot be pulled: {}", first_line(&failure.message))),
        Cause::Unreadable(target, problem) => Outcome::Unknown(format!("{target} could not be read: {}", first_line(&problem))),
        Cause::Rights { .. } | Cause::Account(_) => Outcome::Doable,
        Cause::Record(_) | Cause::Other(_) => Outcome::Unknown(text.to_owned()),
        Cause::Refused(_) | Cause::Content { .. } | Cause::Owned(_) | Cause::NotServed(_) => Outcome::Refused(text.to_owned()),
    }
}

impl Explanation {
    /// The wishes that are proposed, each once: changes of `spec.source.catalog`.
    pub fn proposals(&self) -> Vec<Value> {
        let newer = self.newer.iter().filter_map(|newer| newer.action.as_ref());
        let mut wishes: Vec<Value> = Vec::new();
        for wish in self.next.iter().chain(&self.alternatives).chain(newer).filter_map(|action| action.wish.as_ref()) {
            if !wishes.contains(wish) {
                wishes.push(wish.clone());
            }
        }
        wishes
    }

    /// With what came of planning them. What would be refused is never the one thing to do, and says why.
    #[must_use]
    pub fn weighed(mut self, facts: &Facts, outcomes: &[(Value, Outcome)]) -> Self {
        let newer = self.newer.iter_mut().filter_map(|newer| newer.action.as_mut());
        for action in self.next.iter_mut().chain(&mut self.alternatives).chain(newer) {
            action.weigh(outcomes);
        }
        let works = |action: &Action| action.wish.is_some() && action.refused.is_none();
        if self.next.as_ref().is_some_and(|next| next.refused.is_some()) {
            let better = self.alternatives.iter().position(works).map(|at| self.alternatives.remove(at));
            let better = better.unwrap_or_else(|| {
                Action::new("What was tried leads only to versions that would be refused. Look at what there is:")
                    .command(format!("mainstay graph {}", package(&facts.snapshot.extension)))
            });
            self.alternatives.extend(self.next.replace(better));
        }
        self.alternatives.sort_by_key(|action| action.refused.is_some());
        self
    }
}

impl Action {
    fn weigh(&mut self, outcomes: &[(Value, Outcome)]) {
        let Some(wish) = &self.wish else { return };
        match outcomes.iter().find(|(planned, _)| planned == wish).map(|(_, outcome)| outcome) {
            Some(Outcome::Refused(why)) => self.refused = Some(why.clone()),
            Some(Outcome::Unknown(why)) => self.not_checked = Some(why.clone()),
            Some(Outcome::Doable) | None => {}
        }
    }
}
