//! The removal of an extension, and the obstacle to it.

use mainstay_api::lifecycle::ON_DELETE;

use super::super::plan::{FINALIZERS, stays};
use super::conditions::Conditions;
use super::{Action, Evidence, Explanation, Facts, State, extension_subject, listed, name};

pub(super) fn explain(facts: &Facts) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let name = name(extension);
    let finalizers = extension.metadata.finalizers.as_deref().unwrap_or_default();
    let (own, foreign): (Vec<&str>, Vec<&str>) = finalizers.iter().map(String::as_str).partition(|each| FINALIZERS.contains(each));
    let leaving: Vec<String> = facts
        .objects
        .iter()
        .filter(|observed| observed.live.as_ref().is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null()))
        .map(|observed| observed.target.to_string())
        .collect();
    let mut answer = Explanation::new(extension_subject(name), "removing", State::Removing, "it is being removed");
    answer.since = extension.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    answer.evidence.extend(finalizers.iter().map(|each| Evidence { what: "finalizer".to_owned(), says: each.clone(), at: None }));
    if !foreign.is_empty() && own.is_empty() {
        answer.situation = "removal-stuck";
        answer.waits_for = Some(format!("the owner of the finalizer {}", listed(foreign.iter().copied(), 3)));
        return answer.because("mainstay has done its part; this finalizer is not its own, and only its owner knows what it is for").then(
            Action::new("See to it that its owner runs and finishes. Only if it is gone for good, remove the finalizer:")
                .command(format!("kubectl patch clusterextension {name} --type merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"))
                .warns("whatever the finalizer was to clean up stays behind"),
        );
    }
    if !own.is_empty() && stays(extension) != Ok(None) {
        return staying(facts, answer);
    }
    if !own.is_empty() {
        answer.waits_for = Some("the controller, to clean up".to_owned());
        return answer.then(
            Action::new("This takes a second. If it stays so, the controller does not run; see what does:").command("mainstay status"),
        );
    }
    if !leaving.is_empty() {
        answer.waits_for = Some(listed(leaving.iter().map(String::as_str), 3));
    }
    answer.then(Action::new("Wait; the garbage collector removes its objects."))
}

/// The explanation if objects are to be kept, and are not released yet.
fn staying(facts: &Facts, mut answer: Explanation) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let name = name(extension);
    answer.situation = "removal-keeps";
    let off = Action::new("Or let everything go with the extension:")
        .command(format!("kubectl annotate clusterextension {name} {ON_DELETE}-"))
        .warns("its CRDs are deleted, and with them all custom resources");
    if let Err(invalid) = stays(extension) {
        answer.waits_for = Some("a user who says which objects are to be kept".to_owned());
        return answer
            .because(invalid.to_string())
            .then(
                Action::new("Say that everything is to stay, or OrphanCRDs instead:")
                    .command(format!("kubectl annotate clusterextension {name} {ON_DELETE}=Orphan --overwrite")),
            )
            .or(off);
    }
    answer.waits_for = Some("the controller, to release the objects that are to be kept".to_owned());
    match Conditions::of(extension).problem() {
        Some(problem) => answer
            .because(problem.to_owned())
            .then(
                Action::new("The account needs to be there, and to be allowed to patch what it installed; see what it lacks:")
                    .command(format!("mainstay rbac {name} | kubectl apply --server-side -f -")),
            )
            .or(off),
        None => answer.then(
            Action::new("This takes a moment. If it stays so, the controller does not run; see what does:").command("mainstay status"),
        ),
    }
}
