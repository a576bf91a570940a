//! Proposals and the outcomes of trying them (MS-EXPL-01): each remedy is applied to a copy of the facts, and the copy is planned.
//!
//! ```text
//!   Explanation ── proposals ──► remedies ── tried by the caller, who has the facts ──► Outcome ── weighed ──► Explanation
//! ```

use super::{Action, Explanation};

/// The result of trying a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change would be carried out, as far as can be checked in advance.
    Works,
    /// The obstacle would be gone, and this other one would follow.
    Further(String),
    /// The change would be refused, for this reason.
    Refused(String),
    /// The outcome is unknown, for this reason.
    Unknown(String),
}

impl<R: Clone + PartialEq> Explanation<R> {
    /// Returns the proposed remedies, each once.
    pub fn proposals(&self) -> Vec<R> {
        let newer = self.newer.iter().filter_map(|newer| newer.action.as_ref());
        let mut all: Vec<R> = Vec::new();
        for remedy in self.next.iter().chain(&self.alternatives).chain(newer).filter_map(|action| action.remedy.as_ref()) {
            if !all.contains(remedy) {
                all.push(remedy.clone());
            }
        }
        all
    }

    /// Returns the explanation with the outcomes of its proposals. A refused proposal is never the next action, and gets the reason; a guess that
    /// does not work is dropped. `final_one` recognizes remedies after which nothing is left to refuse; `otherwise` makes the next action if
    /// nothing works.
    #[must_use]
    pub fn weighed(
        mut self,
        outcomes: &[(R, Outcome)],
        final_one: impl Fn(&R) -> bool,
        otherwise: impl FnOnce(Option<&R>) -> Action<R>,
    ) -> Self {
        let newer = self.newer.iter_mut().filter_map(|newer| newer.action.as_mut());
        for action in self.next.iter_mut().chain(&mut self.alternatives).chain(newer) {
            action.weigh(outcomes, &final_one);
        }
        let works = |action: &Action<R>| action.remedy.is_some() && action.works();
        self.alternatives.retain(|action| !action.guess || works(action));
        let fails = |next: &Action<R>| next.refused.is_some() || (next.guess && !next.works());
        if self.next.as_ref().is_some_and(fails) {
            let better = self.alternatives.iter().position(works).map(|at| self.alternatives.remove(at));
            // If no guess works, actions that were not guessed come first.
            let guessed = self.next.as_ref().is_some_and(|next| next.guess);
            let said = |action: &Action<R>| guessed && action.remedy.is_none();
            let better = better.or_else(|| self.alternatives.iter().position(said).map(|at| self.alternatives.remove(at)));
            let better = better.unwrap_or_else(|| otherwise(self.next.as_ref().and_then(|next| next.remedy.as_ref())));
            self.alternatives.extend(self.next.replace(better).filter(|next| !next.guess));
        }
        self.alternatives.sort_by_key(|action| action.refused.is_some());
        self
    }
}

impl<R: PartialEq> Action<R> {
    /// Returns true if no trial spoke against the action.
    pub fn works(&self) -> bool {
        self.refused.is_none() && self.not_checked.is_none()
    }

    fn weigh(&mut self, outcomes: &[(R, Outcome)], final_one: impl Fn(&R) -> bool) {
        let Some(remedy) = self.remedy.as_ref().filter(|remedy| !final_one(remedy)) else { return };
        match outcomes.iter().find(|(planned, _)| planned == remedy).map(|(_, outcome)| outcome) {
            Some(Outcome::Refused(why)) => self.refused = Some(why.clone()),
            Some(Outcome::Unknown(why)) => self.not_checked = Some(why.clone()),
            Some(Outcome::Further(why)) => self.after = Some(why.clone()),
            Some(Outcome::Works) => {}
            None => self.not_checked = Some("it was not tried".to_owned()),
        }
    }
}
