//! Whether what is proposed would be carried out (MS-EXPL-01): each remedy is applied to a copy of the snapshot, and the copy is planned.
//!
//! ```text
//!   Explanation ── proposals ──► remedies ── applied, planned by whoever has the facts ── judge ──► Outcome ── weighed ──► Explanation
//! ```

use super::super::plan::{Plan, Reason, Verdict};
use super::words::first_line;
use super::{Action, Explanation, Facts, Remedy, name, objects, overview, shell_word};

/// What came of planning a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It would be carried out, as far as can be told before.
    Doable,
    /// What is in the way would be gone, and something else would be in the way; what.
    Further(String),
    /// It would be refused; why.
    Refused(String),
    /// It could not be told; why.
    Unknown(String),
}

/// What a remedy comes to: `before` is the plan that it is to mend, `plan` that of the copy.
pub fn judge(remedy: &Remedy, before: &Plan, plan: &Plan) -> Outcome {
    match outcome(plan) {
        // Another version that is refused for another reason is no way out; one object less in the way is one.
        Outcome::Refused(why) if !remedy.chooses() && told(before) != told(plan) => Outcome::Further(why),
        other => other,
    }
}

/// The first line of what a plan says is in the way.
fn told(plan: &Plan) -> Option<String> {
    plan.verdict.reason().map(|reason| first_line(&reason.to_string()).to_owned())
}

/// What a plan comes to. What the installer may do is not judged: it counts as granted.
fn outcome(plan: &Plan) -> Outcome {
    let reason = match &plan.verdict {
        // A missing account stands in the way of everything, and is explained where it does.
        Verdict::Reached | Verdict::NoAccount { .. } => return Outcome::Doable,
        Verdict::Retrying(reason) | Verdict::Blocked(reason) => reason,
        Verdict::Unreadable(problem) => return Outcome::Unknown(format!("the install records cannot be read: {problem}")),
    };
    if plan.consent.meanwhile.is_some() {
        // It is done once it is approved, or others have done their part.
        return Outcome::Doable;
    }
    let told = || first_line(&reason.to_string()).to_owned();
    match reason.root() {
        Reason::UnsafeCrds(crds) => Outcome::Refused(format!("by the check of CRDs: {}", objects::findings(crds).join("; "))),
        Reason::Pull { failure, .. } => Outcome::Unknown(format!("its bundle cannot be pulled: {}", first_line(&failure.message))),
        Reason::Unreadable { object, problem } => Outcome::Unknown(format!("{object} could not be read: {}", first_line(problem))),
        Reason::Permissions(_) => Outcome::Doable,
        Reason::Unresolved(_) | Reason::Content(_) | Reason::Owned(_) | Reason::NotServed(_) => Outcome::Refused(told()),
        _ => Outcome::Unknown(told()),
    }
}

impl Explanation {
    /// What is proposed, each once.
    pub fn proposals(&self) -> Vec<Remedy> {
        let newer = self.newer.iter().filter_map(|newer| newer.action.as_ref());
        let mut all: Vec<Remedy> = Vec::new();
        for remedy in self.next.iter().chain(&self.alternatives).chain(newer).filter_map(|action| action.remedy.as_ref()) {
            if !all.contains(remedy) {
                all.push(remedy.clone());
            }
        }
        all
    }

    /// With what came of planning them. What would be refused is never the one thing to do, and says why; a guess that does not work is dropped.
    #[must_use]
    pub fn weighed(mut self, facts: &Facts, outcomes: &[(Remedy, Outcome)]) -> Self {
        let own = name(&facts.snapshot.extension);
        let newer = self.newer.iter_mut().filter_map(|newer| newer.action.as_mut());
        for action in self.next.iter_mut().chain(&mut self.alternatives).chain(newer) {
            action.weigh(own, outcomes);
        }
        let works = |action: &Action| action.remedy.is_some() && action.works();
        self.alternatives.retain(|action| !action.guess || works(action));
        let fails = |next: &Action| next.refused.is_some() || (next.guess && !next.works());
        if self.next.as_ref().is_some_and(fails) {
            let better = self.alternatives.iter().position(works).map(|at| self.alternatives.remove(at));
            // Where nothing that was guessed works, what else was said is said first.
            let guessed = self.next.as_ref().is_some_and(|next| next.guess);
            let said = |action: &Action| guessed && action.remedy.is_none();
            let better = better.or_else(|| self.alternatives.iter().position(said).map(|at| self.alternatives.remove(at)));
            let better = better.unwrap_or_else(|| match self.next.as_ref().and_then(|next| next.remedy.as_ref()) {
                Some(Remedy::Package(near)) => Action::new(format!("Did you mean {near}? See what is in its way:"))
                    .command(format!("mainstay explain package {}", shell_word(near))),
                _ => Action::new("What was tried leads only to versions that would be refused. Look at what there is:")
                    .command(overview(facts)),
            });
            self.alternatives.extend(self.next.replace(better).filter(|next| !next.guess));
        }
        self.alternatives.sort_by_key(|action| action.refused.is_some());
        self
    }
}

impl Action {
    /// Whether nothing speaks against it that was tried.
    pub fn works(&self) -> bool {
        self.refused.is_none() && self.not_checked.is_none()
    }

    fn weigh(&mut self, own: &str, outcomes: &[(Remedy, Outcome)]) {
        let Some(remedy) = &self.remedy else { return };
        if remedy.removes(own) {
            // There is nothing left that could be refused.
            return;
        }
        match outcomes.iter().find(|(planned, _)| planned == remedy).map(|(_, outcome)| outcome) {
            Some(Outcome::Refused(why)) => self.refused = Some(why.clone()),
            Some(Outcome::Unknown(why)) => self.not_checked = Some(why.clone()),
            Some(Outcome::Further(why)) => self.after = Some(why.clone()),
            Some(Outcome::Doable) => {}
            None => self.not_checked = Some("it was not tried".to_owned()),
        }
    }
}
