//! Every cause in words: the problem, its reason, and the one next action. Parts that several themes share are here.

use mainstay_lifecycle::Reason as Lifecycle;
use mainstay_lifecycle::reason::Unhealthy;

use super::super::dependencies::Unsolved;
use super::super::facts::CertificateProblem;
use super::super::plan::{Plan, Reason, Verdict};
use super::conditions::Conditions;
use super::context::grants_missing;
use super::{
    Action, Explanation, Facts, State, account, attempt, chosen_bundle, content, extension_subject, installed, name, objects, refusal,
    rivals,
};

/// Warning of an advice to remove an extension: the guard of custom resources requires a choice, and the command does not make it.
pub(super) const REMOVED_CRDS: &str = "its CRDs go with it; where custom resources exist, add --keep-crds or --delete-crds";

/// Explanations with other versions.
pub(super) trait OrNearby {
    /// The explanation with the versions next to the refused one, before its own action.
    #[must_use]
    fn or_nearby(self, facts: &Facts) -> Self;
}

impl OrNearby for Explanation {
    fn or_nearby(mut self, facts: &Facts) -> Self {
        let said = self.next.take();
        let mut answer = objects::nearby(facts, self).first();
        match (&answer.next, said) {
            (None, said) => answer.next = said,
            (Some(_), Some(said)) => answer.alternatives.push(said),
            (Some(_), None) => {}
        }
        answer
    }
}

/// The explanation of a plan that does not reach the desired state; none if it does.
pub(super) fn refused(facts: &Facts, plan: &Plan) -> Option<Explanation> {
    Some(match &plan.verdict {
        Verdict::Reached => return None,
        Verdict::NoAccount { account, .. } => account::no_account(facts, account),
        Verdict::Unreadable(problem) => account::record(facts, problem),
        Verdict::Retrying(reason) | Verdict::Blocked(reason) => {
            let root = reason.root();
            specific(facts, plan, root).or_else(|| shared(facts, reason)).unwrap_or_else(|| attempt::tried(facts, &reason.to_string()))
        }
    })
}

/// The explanation of a reason that is about the extension's own change. Such a reason hides that the change waits for an approval.
pub(super) fn specific(facts: &Facts, plan: &Plan, reason: &Reason) -> Option<Explanation> {
    Some(match reason {
        Reason::Unresolved(refusal) => refusal::explain(facts, refusal),
        Reason::Pull { image, failure } => content::pull(facts, image, failure),
        Reason::Content(error) => content::content(facts, error, chosen_bundle(&facts.snapshot, plan).as_deref()),
        Reason::Lifecycle(Lifecycle::Permissions(report)) => {
            account::permissions(facts, report, grants_missing(&facts.snapshot, plan, report))
        }
        Reason::Lifecycle(Lifecycle::Owned(refusal)) => objects::owned(facts, refusal),
        Reason::Lifecycle(Lifecycle::UnsafeCrds(crds)) => objects::unsafe_crds(facts, crds),
        Reason::Lifecycle(Lifecycle::NotServed(target)) => objects::not_served(facts, target),
        Reason::Lifecycle(Lifecycle::Unreadable { object, problem }) => {
            held(facts, "unreadable-object", format!("{object} could not be read"))
                .because(first_line(&problem.to_string()).to_owned())
                .then(account::grant_permissions(facts, "If a permission is missing, grant the account what this package needs:"))
        }
        _ => return None,
    })
}

/// A change that cannot be applied: nothing is installed, or the installed revision is kept.
pub(super) fn held(facts: &Facts, situation: &'static str, summary: String) -> Explanation {
    let subject = extension_subject(name(&facts.snapshot.extension));
    let state = if installed(facts).is_some() { State::Held } else { State::NotInstalled };
    Explanation { waits_for: Some(waits_for(situation).to_owned()), ..Explanation::new(subject, situation, state, summary) }
}

/// The awaited event, by situation.
fn waits_for(situation: &str) -> &'static str {
    match situation {
        "unknown-package" | "no-catalog" => "a catalog that has the package",
        "unknown-version" => "a version that matches",
        "unknown-channel" => "a channel of this name",
        "no-update-edge" => "an update in the catalogs",
        "catalog-not-serving" => "the catalog",
        "dependency" | "dependencies" => "what it needs",
        "account-missing" | "no-account-named" => "the account",
        "rights-missing" => "the permissions",
        "account-not-lent" => "the permission to act as the account",
        "role-missing" => "the role",
        "package-wanted-twice" => "the other extension to go",
        "object-owned" | "object-unowned" => "the object to be free",
        "crd-unsafe" => "a version that keeps what exists",
        "image-unavailable" => "the image",
        "kind-not-served" => "the kind",
        "namespace-missing" => "the namespace",
        "approval" => "an approval",
        "quota" => "room in the quota",
        "admission" => "the rule to allow it",
        "webhook-unreachable" | "webhook-simulated" => "the webhook",
        "rolled-back" => "another version, or another request",
        "server-slow" | "failed" | "unreadable-object" | "cleared" => "the next attempt, which is made by itself",
        _ => "a change of the extension",
    }
}

/// The explanation of a reason that involves other extensions or earlier versions.
fn shared(facts: &Facts, reason: &Reason) -> Option<Explanation> {
    match reason.root() {
        Reason::Waits(waits) => Some(
            held(facts, "dependencies", format!("it needs {}", waits.needs()))
                .then(Action::new("See how the other extension progresses; this one goes on by itself after it:").command("mainstay list")),
        ),
        Reason::RollingBack { .. }
        | Reason::Lifecycle(
            Lifecycle::RolledBack(_) | Lifecycle::NoEarlierRevision(_) | Lifecycle::Unhealthy(Unhealthy { earlier: Some(_), .. }),
        ) => {
            let mut answer =
                held(facts, "rolled-back", format!("the newest version did not become healthy, and {}", way_back(reason.root())));
            answer.why.extend(lines(reason));
            let name = name(&facts.snapshot.extension);
            Some(
                answer.then(
                    Action::new("See what happened; the version is tried again when the extension is changed, or a newer one comes:")
                        .command(format!("mainstay history {name}")),
                ),
            )
        }
        Reason::Unsolved(unsolved) => unsolved_together(facts, reason, unsolved),
        _ => None,
    }
}

/// The state of the rollback from a version that did not become healthy.
fn way_back(reason: &Reason) -> &'static str {
    match reason {
        Reason::Lifecycle(Lifecycle::Unhealthy(_)) => "it is not safe to roll it back",
        Reason::RollingBack { .. } => "the way back is blocked",
        Reason::Lifecycle(Lifecycle::NoEarlierRevision(_)) => "there is no earlier revision to go back to",
        _ => "was rolled back",
    }
}

/// The explanation for extensions that are resolved together and contradict each other.
fn unsolved_together(facts: &Facts, reason: &Reason, unsolved: &Unsolved) -> Option<Explanation> {
    let Unsolved::Conflict(conflict) = unsolved else { return None };
    let mut advice = conflict.hints.iter().map(|hint| Action::new(format!("This would work: {hint}")));
    if reason.wants_taken_package()
        && let Some(answer) = rivals::explain(facts)
    {
        return Some(advice.fold(answer, Explanation::or));
    }
    let next = advice.next()?;
    let mut answer = held(facts, "dependencies", "there is no set of versions that fits together".to_owned());
    answer.why.extend(lines(reason));
    answer.next = Some(next);
    answer.alternatives.extend(advice);
    Some(answer)
}

fn lines(reason: &Reason) -> Vec<String> {
    reason.to_string().lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The explanation while the controller has not observed the newest generation.
pub(super) fn being_looked_at(facts: &Facts) -> Explanation {
    let mut answer = held(facts, "working", "a change is on its way".to_owned());
    answer.state = State::Working;
    answer.waits_for = Some("the controller, which has not looked at the newest change yet".to_owned());
    answer.then(Action::new("This takes a second or two. If it stays so, see whether the controller runs:").command("mainstay status"))
}

/// The explanation from the conditions alone, if the facts could not be read.
pub(super) fn only_conditions(facts: &Facts, conditions: &Conditions<'_>, problem: &str) -> Explanation {
    let mut answer = match conditions.problem() {
        Some(text) => attempt::tried(facts, text),
        None => Explanation::new(
            extension_subject(name(&facts.snapshot.extension)),
            "not-checked",
            State::Healthy,
            "its conditions report no problem",
        ),
    };
    answer.notes.push(format!("what it waits for could not be looked at more closely: {problem}"));
    answer
}

/// The first line that is not empty.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// The remedy for a certificate that is not accepted. Trust in its authority helps only if the certificate is untrusted.
pub(super) fn certificate(registry: &str, problem: CertificateProblem) -> Action {
    Action::new(match problem {
        CertificateProblem::Expired => {
            format!("The certificate of {registry} has expired: it has to be renewed there. It is tried again by itself.")
        }
        CertificateProblem::NotYetValid => {
            format!("The certificate of {registry} is not valid yet: compare the clocks of the registry and of the controller's node.")
        }
        CertificateProblem::OtherName => {
            format!("The certificate of {registry} is for another name: reach the registry by a name that its certificate has.")
        }
        CertificateProblem::Untrusted => {
            format!("The certificate of {registry} is not trusted: give the controller the authority that signed it.")
        }
    })
}

/// The text with RFC 3339 times in place of the seconds that rustls writes, `1700000000 (UNIX)`.
pub(super) fn dated(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((part, after)) = rest.split_once(" (UNIX)") {
        rest = after;
        let number = part.len() - part.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, seconds) = part.split_at(number);
        out.push_str(before);
        match seconds.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
            Some(time) => out.push_str(&time.to_string()),
            None => out.extend([seconds, " (UNIX)"]),
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-02, MS-RB-01: a version that stays is not said to have been rolled back.
    #[test]
    fn a_way_back_is_said_as_far_as_it_went() {
        let unhealthy = Reason::Lifecycle(Lifecycle::Unhealthy(Unhealthy { failed: "x did not become healthy".to_owned(), earlier: None }));
        assert_eq!(way_back(&unhealthy), "it is not safe to roll it back");
        let blocked = Reason::RollingBack { bundle: "x".to_owned(), reason: Box::new(Reason::NoSource) };
        assert_eq!(way_back(&blocked), "the way back is blocked");
    }

    /// MS-EXPL-02: times are RFC 3339, and what is no time stays as it is.
    #[test]
    fn times_of_certificates_are_dates() {
        let told = "certificate expired: verification time 1700000300 (UNIX), but certificate is not valid after 1600000000 (UNIX) (100 seconds ago)";
        assert_eq!(
            dated(told),
            "certificate expired: verification time 2023-11-14T22:18:20Z, but certificate is not valid after 2020-09-13T12:26:40Z (100 seconds ago)"
        );
        assert_eq!(dated("no time (UNIX) at all"), "no time (UNIX) at all");
    }

    /// MS-EXPL-02: trust mends a certificate that nothing vouches for, and no other.
    #[test]
    fn trust_is_no_advice_against_an_expired_certificate() {
        for (problem, says) in [
            (CertificateProblem::Expired, "renewed"),
            (CertificateProblem::NotYetValid, "clocks"),
            (CertificateProblem::OtherName, "another name"),
            (CertificateProblem::Untrusted, "authority"),
        ] {
            assert!(certificate("registry.example.com", problem).text.contains(says), "{problem:?}");
        }
    }
}
