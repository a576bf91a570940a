//! Objects on the cluster that are obstacles: objects of other owners, objects of a kind that is not served, CRDs that would lose data.

use std::fmt;

use mainstay_lifecycle::Live;
use mainstay_lifecycle::reason::UnsafeCrd;
use mainstay_lifecycle::revision::History;
use mainstay_objects::{NotOurs, ObjectRef};
use mainstay_resolver::{CatalogState, Request, resolve};
use mainstay_schema::upgrade::UpgradeFinding;
use mainstay_versions::Version;
use serde_json::{Value, json};

use super::super::request::candidates;
use super::super::request::request;
use super::context::providers;
use super::remedy::ByRemedy as _;
use super::remedy::resource;
use super::retired::retired;
use super::words::{OrNearby as _, REMOVED_CRDS, held};
use super::{Action, Destination, Explanation, Facts, Remedy, installed, listed, name, overview, package, shell_word};

/// The explanation of an object that another owner manages (OLM1-OWN-04).
pub(super) fn owned(facts: &Facts, refusal: &NotOurs) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, target) = (name(extension), &*refusal.object);
    let namespaced = if target.namespace.is_empty() { String::new() } else { format!(" --namespace {}", shell_word(&target.namespace)) };
    let look = || {
        let command = format!("kubectl get {} {}{namespaced} -o yaml", resource(target), shell_word(&target.name));
        Action::new("See who made it:").command(command)
    };
    match &refusal.owner {
        Some((kind, owner)) if kind == "ClusterExtension" && owner == name => {
            held(facts, "object-owned", format!("{target} is managed by an earlier extension of the same name that is still being removed"))
                .then(Action::new("Wait until it is gone; it goes on by itself."))
        }
        Some((kind, owner)) if kind == "ClusterExtension" => {
            let answer = held(facts, "object-owned", format!("{target} is managed by clusterextension {owner}"));
            let answer = answer.because("two extensions cannot share an object, and a CRD can be installed once on a cluster");
            let others = Action::new(format!("Keep {name} instead: remove {owner}"))
                .by(extension, Remedy::Uninstall(owner.clone()))
                .warns(REMOVED_CRDS);
            match installed(facts) {
                None => answer
                    .then(
                        Action::new(format!("Keep one of the two. {owner} has it, so remove {name}:"))
                            .by(extension, Remedy::Uninstall(name.to_owned())),
                    )
                    .or(others),
                Some((_, version)) => nearby(facts, answer)
                    .or(Action::new(format!("Stay with {version}, which does without the object:"))
                        .by(extension, Remedy::Request(json!({"version": version}))))
                    .or(Action { text: format!("Remove {owner}"), ..others })
                    .first(),
            }
        }
        Some((kind, owner)) => held(facts, "object-owned", format!("{target} is managed by {kind} {owner}"))
            .because("what has an owner is not taken over")
            .then(Action::new(format!("Remove {kind} {owner}, if {name} is to take its place; otherwise remove {name}.")))
            .or(look()),
        None => {
            let live = match facts.snapshot.known.live.get(target) {
                Some(Live::Present(live)) => made_by(live),
                _ => None,
            };
            let whose = live.as_ref().map_or_else(|| "is not managed by any extension".to_owned(), |maker| format!("was made by {maker}"));
            let answer = held(facts, "object-unowned", format!("{target} exists already, and {whose}"))
                .because("an object that was made otherwise is not taken over without being told to");
            let hand_over = Action::new("Hand the object over to the extension:")
                .by(extension, Remedy::HandOver(target.clone()))
                .warns("it is changed to what the package holds, and goes when the extension is removed");
            let delete = |text: &str| {
                Action::new(text).by(extension, Remedy::Delete(target.clone())).warns(if target.kind == "CustomResourceDefinition" {
                    "all its custom resources go with it"
                } else {
                    "what it holds is lost"
                })
            };
            match live {
                // A maker that goes on managing it would change it back.
                Some(maker) if maker.goes_on() => answer
                    .then(Action::new(format!(
                        "{maker} goes on managing it: remove that first, if {name} is to take its place; otherwise remove {name}."
                    )))
                    .or(look())
                    .or(hand_over),
                _ => answer.then(hand_over).or(delete("Delete it, if it is not needed:")),
            }
        }
    }
}

/// The maker of an object that no extension manages, from the object itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A release of Helm: namespace and name.
    Helm(String, String),
    /// A ClusterServiceVersion of OLM classic: namespace and name.
    Classic(String, String),
    /// A field manager.
    Manager(String),
}

impl Maker {
    /// Returns true if it writes the object again.
    fn goes_on(&self) -> bool {
        !matches!(self, Self::Manager(_))
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Helm(namespace, name) => write!(f, "Helm's release {name} in namespace {namespace}"),
            Self::Classic(namespace, name) => write!(f, "OLM classic for ClusterServiceVersion {name} in namespace {namespace}"),
            Self::Manager(name) => f.write_str(name),
        }
    }
}

/// The maker of an object, from its annotations, else from its first field manager.
pub fn made_by(live: &Value) -> Option<Maker> {
    let annotations = || live.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let annotation = |name: &str| annotations().find(|(key, _)| *key == name).and_then(|(_, value)| value.as_str());
    if let Some((namespace, name)) = annotation("meta.helm.sh/release-namespace").zip(annotation("meta.helm.sh/release-name")) {
        return Some(Maker::Helm(namespace.to_owned(), name.to_owned()));
    }
    let alongside = |(key, value): (&String, &Value)| {
        let (namespace, name) = value.as_str().filter(|_| key.starts_with("operatorframework.io/installed-alongside-"))?.split_once('/')?;
        Some(Maker::Classic(namespace.to_owned(), name.to_owned()))
    };
    if let Some(maker) = annotations().find_map(alongside) {
        return Some(maker);
    }
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let mut managers = managers.filter_map(|entry| entry["manager"].as_str());
    // The API server writes the status of CRDs.
    managers.find(|name| !name.is_empty() && *name != "kube-apiserver").map(|name| Maker::Manager(name.to_owned()))
}

/// Maximum number of versions that are tried.
const TRIED: usize = 4;

/// The explanation with the versions next to the refused one, each named only if it works: older ones first, as they are nearer to the
/// installed version.
pub(super) fn nearby(facts: &Facts, answer: Explanation) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let package = package(extension);
    let chosen = facts.plan.as_ref().ok().and_then(|plan| plan.resolution.as_ref()).map(|found| found.choice.version.clone());
    let installed = facts.snapshot.history.as_ref().ok().and_then(History::installed);
    let Some((chosen, request)) = chosen.zip(request(extension, installed)) else { return answer };
    let catalogs = candidates(&facts.snapshot.catalogs);
    let mut versions: Vec<(Version, String)> = Vec::new();
    for catalog in &catalogs {
        let CatalogState::Content(source) = catalog.state else { continue };
        let Some(found) = source.package(package) else { continue };
        let texts = found.bundles.iter().filter_map(|bundle| bundle.version);
        versions.extend(texts.filter_map(|text| Some((Version::parse(text).ok()?, text.to_owned()))));
    }
    versions.sort();
    versions.dedup();
    let Ok(limit) = Version::parse(&chosen) else { return answer };
    let (below, above): (Vec<_>, Vec<_>) =
        versions.into_iter().filter(|(version, _)| *version != limit).partition(|(version, _)| *version < limit);
    let order = below.into_iter().rev().chain(above);
    let had = installed.map(|revision| revision.record.bundle.version.as_str());
    let reached = order.map(|(_, text)| text).filter(|text| Some(text.as_str()) != had).filter(|text| {
        resolve(&Request { version: Some(text.clone()), ..request.clone() }, &catalogs).is_ok_and(|found| found.choice.version == *text)
    });
    reached.take(TRIED).fold(answer, |answer, version| {
        let leads_to = Destination { package: package.to_owned(), version: version.clone() };
        let action = Action::new(format!("Ask for version {version}; that leads to {leads_to}:"));
        let action = action.by(extension, Remedy::Request(json!({"version": version}))).if_it_works();
        answer.or(Action { leads_to: Some(leads_to), ..action })
    })
}

/// Refused changes of CRDs (OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-07).
pub(super) fn unsafe_crds(facts: &Facts, crds: &[UnsafeCrd]) -> Explanation {
    let names = listed(crds.iter().map(|crd| crd.name.as_str()), 3);
    let mut answer =
        held(facts, "crd-unsafe", format!("the new version would change the CRD {names} in a way that may break existing objects"));
    answer.why.extend(findings(crds));
    let extension = &*facts.snapshot.extension;
    let answer = nearby(facts, answer);
    let answer = match installed(facts) {
        Some((_, version)) => answer.or(Action::new(format!("Stay with {version} until a version comes that keeps what exists:"))
            .by(extension, Remedy::Request(json!({"version": version})))),
        None => answer.because("the CRD is left from an earlier install"),
    };
    answer
        .or(Action::new("Change the CRD all the same, and be told what is unsafe about it:")
            .by(extension, Remedy::AcceptedCrds)
            .warns("objects that exist may become invalid, and what they hold in removed fields is lost"))
        .first()
}

/// All findings; each names its CRD if there are several.
pub(super) fn findings(crds: &[UnsafeCrd]) -> Vec<String> {
    let line = |crd: &String, finding| {
        let prefix = if crds.len() > 1 { format!("{crd}: ") } else { String::new() };
        format!("{prefix}{}", finding_in_words(finding))
    };
    crds.iter().flat_map(|crd| crd.findings.iter().map(move |finding| line(&crd.name, finding))).collect()
}

/// The text of a finding, with the check that made it.
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
                Action::new("This version is for older clusters. Look for one that does without, and ask for it:").command(overview(facts)),
            )
            .or_nearby(facts);
    }
    let answer = answer.because("the kind is part of another operator, or of another version of Kubernetes");
    match providers(&facts.snapshot.catalogs, target).first() {
        Some((package, catalog)) => answer.then(
            Action::new(format!("Install {package} of catalog {catalog}, which brings {}; then it goes on by itself.", target.kind)).by(
                &facts.snapshot.extension,
                Remedy::Install { package: (*package).to_owned(), catalog: (*catalog).to_owned(), brings: target.clone() },
            ),
        ),
        None => answer.then(
            Action::new(format!("No catalog of this cluster brings {}: add one that does. These are there:", target.kind))
                .command("mainstay catalog list"),
        ),
    }
}
