//! Objects on the cluster that are in the way: of others, of a kind that is not there, CRDs that would lose data.

use mainstay_apply::{NotOurs, ObjectRef};
use mainstay_schema::upgrade::UpgradeFinding;
use serde_json::json;

use super::super::object;
use super::cause::providers;
use super::retired::retired;
use super::words::held;
use super::{Action, Explanation, Facts, installed, listed, name, package, patch};

/// OLM1-OWN-04.
pub(super) fn owned(facts: &Facts, refusal: &NotOurs) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, target) = (name(extension), &*refusal.object);
    let namespaced = if target.namespace.is_empty() { String::new() } else { format!(" --namespace {}", target.namespace) };
    let resource = resource(target);
    match &refusal.owner {
        Some((kind, owner)) if kind == "ClusterExtension" && owner == name => {
            held(facts, "object-owned", format!("{target} belongs to an earlier extension of the same name that is still being removed"))
                .then(Action::new("Wait until it is gone; it goes on by itself."))
        }
        Some((kind, owner)) if kind == "ClusterExtension" => {
            let answer = held(facts, "object-owned", format!("{target} belongs to clusterextension {owner}"));
            let answer = answer.because("two extensions cannot share an object, and a CRD can be installed once on a cluster");
            match installed(facts) {
                None => answer
                    .then(
                        Action::new(format!("Keep one of the two. {owner} has it, so remove {name}:"))
                            .command(format!("mainstay uninstall {name}")),
                    )
                    .or(Action::new(format!("Keep {name} instead: remove {owner}"))
                        .command(format!("mainstay uninstall {owner}"))
                        .warns("CRDs of the removed extension go with all their custom resources")),
                Some((_, version)) => answer
                    .then(
                        Action::new("Stay with the present version, which does without the object:")
                            .command(patch(name, &json!({"version": version}))),
                    )
                    .or(Action::new(format!("Remove {owner}"))
                        .command(format!("mainstay uninstall {owner}"))
                        .warns("CRDs of the removed extension go with all their custom resources")),
            }
        }
        Some((kind, owner)) => held(facts, "object-owned", format!("{target} belongs to {kind} {owner}"))
            .because("what has an owner is not taken over")
            .then(Action::new(format!("Remove {kind} {owner}, if {name} is to take its place; otherwise remove {name}.")))
            .or(Action::new("See who made it:").command(format!("kubectl get {resource} {}{namespaced} -o yaml", target.name))),
        None => {
            let owner = object::owner(extension);
            let labels: Vec<String> = owner.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            held(facts, "object-unowned", format!("{target} exists already, and belongs to nobody"))
                .because("an object that somebody else made is not taken over without being told to")
                .then(
                    Action::new("Hand the object over to the extension:")
                        .command(format!("kubectl label {resource} {}{namespaced} {}", target.name, labels.join(" ")))
                        .warns("it is changed to what the package holds, and goes when the extension is removed"),
                )
                .or(Action::new("Or delete it, if nobody needs it")
                    .command(format!("kubectl delete {resource} {}{namespaced}", target.name))
                    .warns(if target.kind == "CustomResourceDefinition" {
                        "all its custom resources go with it"
                    } else {
                        "what it holds is lost"
                    }))
        }
    }
}

/// What kubectl calls the kind.
fn resource(target: &ObjectRef) -> String {
    let kind = target.kind.to_lowercase();
    match target.group() {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

/// OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-07.
pub(super) fn unsafe_crds(facts: &Facts, crds: &[(String, Vec<UpgradeFinding>)]) -> Explanation {
    let name = name(&facts.snapshot.extension);
    let names = listed(crds.iter().map(|(name, _)| name.as_str()), 3);
    let mut answer =
        held(facts, "crd-unsafe", format!("the new version would change the CRD {names} in a way that may break existing objects"));
    answer.why.extend(findings(crds));
    let answer = match (installed(facts), &facts.plan) {
        (Some((_, version)), _) => answer.then(
            Action::new(format!("Stay with {version} until a version comes that keeps what exists:"))
                .command(patch(name, &json!({"version": version}))),
        ),
        (None, Ok(plan)) => {
            let version = plan.resolution.as_ref().map(|resolution| resolution.choice.version.clone()).unwrap_or_default();
            answer.then(
                Action::new("The CRD is left from an earlier install. Ask for a version that fits it, for example one below this one:")
                    .command(patch(name, &json!({"version": format!("<{version}")}))),
            )
        }
        (None, Err(_)) => answer,
    };
    let off = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    answer.or(Action::new("Change the CRD all the same: switch the check off for this extension")
        .command(format!("kubectl patch clusterextension {name} --type merge -p '{off}'"))
        .warns("objects that exist may become invalid, and what they hold in removed fields is lost"))
}

/// Every finding; each CRD is named where there are several.
pub(super) fn findings(crds: &[(String, Vec<UpgradeFinding>)]) -> Vec<String> {
    let line = |crd: &String, finding| {
        let prefix = if crds.len() > 1 { format!("{crd}: ") } else { String::new() };
        format!("{prefix}{}", finding_in_words(finding))
    };
    crds.iter().flat_map(|(crd, findings)| findings.iter().map(move |finding| line(crd, finding))).collect()
}

/// A finding, with the check that made it.
fn finding_in_words(finding: &UpgradeFinding) -> String {
    let place = match (&finding.version, finding.path.trim_start_matches(['^', '.'])) {
        (Some(version), "") => format!("{version}: "),
        (Some(version), path) => format!("{version} {path}: "),
        (None, _) => String::new(),
    };
    format!("{place}{} (check {})", finding.message, finding.rule)
}

pub(super) fn not_served(facts: &Facts, target: &ObjectRef) -> Explanation {
    let answer = held(
        facts,
        "kind-not-served",
        format!("it brings the {} {}, and this cluster has no {} {}", target.kind, target.name, target.api_version, target.kind),
    );
    if let Some(release) = retired(target) {
        return answer
            .because(format!(
                "Kubernetes {release} removed {} of {}; nothing that can be installed brings it back",
                target.kind, target.api_version
            ))
            .then(
                Action::new("This version is for older clusters. Look for one that does without, and ask for it:")
                    .command(format!("mainstay graph {}", package(&facts.snapshot.extension))),
            );
    }
    let answer = answer.because("the kind belongs to another operator, or to another version of Kubernetes");
    match providers(&facts.snapshot.catalogs, target).first() {
        Some((package, catalog)) => answer.then(
            Action::new(format!("Install {package} of catalog {catalog}, which brings {}; then it goes on by itself.", target.kind))
                .command(format!("mainstay install {package} --catalog {catalog}")),
        ),
        None => answer.then(
            Action::new(format!("No catalog of this cluster brings {}: add one that does. These are there:", target.kind))
                .command("mainstay catalog list"),
        ),
    }
}
