//! The outcome of each proposal (MS-EXPL-01): the remedy is applied to a copy of the snapshot, and the copy is planned.

use mainstay_lifecycle::Reason as Lifecycle;
use mainstay_lifecycle::explanation::Outcome;

use super::super::plan::{Plan, Reason, Verdict};
use super::words::first_line;
use super::{Action, Explanation, Facts, Remedy, name, objects, overview, shell_word};

/// The outcome of a remedy: `before` is the plan that it is to mend, `plan` that of the copy.
pub fn judge(remedy: &Remedy, before: &Plan, plan: &Plan) -> Outcome {
    match outcome(plan) {
        // Another version that is refused for another reason is no remedy; one obstacle less is one.
        Outcome::Refused(why) if !remedy.chooses() && told(before) != told(plan) => Outcome::Further(why),
        other => other,
    }
}

/// The first line of a plan's obstacle.
fn told(plan: &Plan) -> Option<String> {
    plan.verdict.reason().map(|reason| first_line(&reason.to_string()).to_owned())
}

/// The outcome of a plan. Permissions of the installer are not judged: they count as granted.
fn outcome(plan: &Plan) -> Outcome {
    let reason = match &plan.verdict {
        // A missing account is an obstacle to everything, and has its own explanation.
        Verdict::Reached | Verdict::NoAccount { .. } => return Outcome::Works,
        Verdict::Retrying(reason) | Verdict::Blocked(reason) => reason,
        Verdict::Unreadable(problem) => return Outcome::Unknown(format!("the install records cannot be read: {problem}")),
    };
    if plan.consent.meanwhile.is_some() {
        // It is applied after an approval, or after other extensions have done their part.
        return Outcome::Works;
    }
    let told = || first_line(&reason.to_string()).to_owned();
    match reason.root() {
        Reason::Lifecycle(Lifecycle::UnsafeCrds(crds)) => {
            Outcome::Refused(format!("by the check of CRDs: {}", objects::findings(crds).join("; ")))
        }
        Reason::Pull { failure, .. } => Outcome::Unknown(format!("its bundle cannot be pulled: {}", first_line(&failure.message))),
        Reason::Lifecycle(Lifecycle::Unreadable { object, problem }) => {
            Outcome::Unknown(format!("{object} could not be read: {}", first_line(&problem.to_string())))
        }
        Reason::Lifecycle(Lifecycle::Permissions(_)) => Outcome::Works,
        Reason::Unresolved(_) | Reason::Content(_) | Reason::Lifecycle(Lifecycle::Owned(_) | Lifecycle::NotServed(_)) => {
            Outcome::Refused(told())
        }
        _ => Outcome::Unknown(told()),
    }
}

/// The explanation with the outcomes of its proposals.
#[must_use]
pub fn weighed(answer: Explanation, facts: &Facts, outcomes: &[(Remedy, Outcome)]) -> Explanation {
    let own = name(&facts.snapshot.extension);
    answer.weighed(
        outcomes,
        |remedy| remedy.removes(own),
        |failed| match failed {
            Some(Remedy::Package(near)) => Action::new(format!("Did you mean {near}? See what is in its way:"))
                .command(format!("mainstay explain package {}", shell_word(near))),
            _ => {
                Action::new("What was tried leads only to versions that would be refused. Look at what there is:").command(overview(facts))
            }
        },
    )
}
