//! A plan as people see it before it happens (MS-PLAN-01): a pure function of the facts of the plan and a few more.
//!
//! ```text
//!   Snapshot, Plan ──wanted──► instances of CRDs, sizes of images ──┐
//!   Snapshot, Plan ─────────────────────────────────────────────────┴─step──► Step ─► Preview (JSON, tables), ChangeSummary
//!   Snapshot, Plan ──advance──► the Snapshot after it, for the next step of the update path (OLM1-UPG-07)
//! ```
//!
//! Nothing is decided here: what is shown is what the plan says it does.

mod advance;
mod revisions;
mod summary;
mod warnings;

use std::borrow::Cow;
use std::collections::BTreeMap;

use mainstay_bundle::RenderError;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::approval::ApprovalReason;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::preflight::definition_goes;
use mainstay_lifecycle::preview::{
    Approval, Bundle, Change, Cluster, Comparison, CrdChange, Dependency, Image, ImageSize, Kind, KnownInstances, NOT_ASKED, Object,
    Problem, Served, Step, api_extensions, crds, delta, named, restarts, running, told,
};
use mainstay_lifecycle::revision::History;
use mainstay_lifecycle::{Live, Reason as Lifecycle, object};
use mainstay_objects::ObjectRef;
use mainstay_resolver::{RefusalKind, Resolution};
use serde_json::Value;

use super::dependencies::{following, satisfiable};
use super::explain::{chosen_bundle, made_by, providers, retired};
use super::facts::{Fact, Snapshot};
use super::owner;
use super::plan::{ContentError, Plan, Reason, Verdict, rendered};
use crate::cluster_operator::compat::Platform;

pub use advance::{advance, hypothetical, prepared};
pub use revisions::revisions;
pub use summary::summary;

/// Facts for people that the plan does not rest on.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// The custom resources of CRDs that change or are deleted, by the CRD's name; or the reason why they are unknown.
    pub instances: KnownInstances,
    /// Digests and sizes of images by their reference; or the reason why they are unknown.
    pub images: BTreeMap<String, Result<ImageSize, SharedError>>,
    /// The APIs that the server serves.
    pub served: Option<Served>,
    /// The server's version, `1.33.1`.
    pub server_version: Option<String>,
    /// The platform's version, if the cluster has one (OLM1-COMPAT-02).
    pub platform: Option<Platform>,
}

/// The facts that [`Extra`] should have for a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Live CRDs that are changed, deleted or in the way.
    pub crds: Vec<Value>,
    /// References of images.
    pub images: Vec<String>,
}

/// Returns the further facts that would make the preview complete.
pub fn wanted(snapshot: &Snapshot, plan: &Plan) -> Wanted {
    let looked = comparison(snapshot, plan);
    Wanted {
        crds: crds::concerned(&looked),
        images: images(snapshot, plan, &Extra::default()).into_iter().map(|image| image.reference).collect(),
    }
}

/// The effect of one plan.
pub fn step(snapshot: &Snapshot, plan: &Plan, extra: &Extra) -> Step {
    let looked = comparison(snapshot, plan);
    let (mut objects, mut crds) = (looked.objects(), crds::changes(&looked, &extra.instances));
    let (mut permissions_gained, mut permissions_lost) = (Vec::new(), Vec::new());
    if plan.action == Action::Report {
        // Nothing changes: only obstacles are shown.
        objects.retain(|object| object.change == Change::Conflicting);
        crds.retain(|crd| !crd.findings.is_empty());
    } else {
        (permissions_gained, permissions_lost) = delta(looked.before(), looked.wanted());
    }
    objects.splice(0..0, plan.namespace.as_ref().map(made));
    let problem = problem(snapshot, plan);
    let mut warnings = warnings::warnings(snapshot, plan, extra);
    warnings.retain(|warning| problem.as_ref().is_none_or(|problem| !problem.causes.contains(warning)));
    // If the custom resources were counted, their number says more than the planner's words.
    let counted: Vec<String> = crds.iter().filter(|crd| crd.existing.is_some()).map(|crd| definition_goes(&crd.name)).collect();
    warnings.retain(|warning| !counted.contains(warning));
    warnings.extend(crds.iter().flat_map(CrdChange::warnings));
    let cluster = Cluster { served: extra.served.as_ref(), version: extra.server_version.as_deref() };
    let told = told(looked.wanted(), looked.before(), cluster);
    let comes = matches!(plan.action, Action::Install | Action::Upgrade);
    warnings.extend(told.warnings);
    Step {
        kind: kind(&plan.action, &objects),
        bundle: plan.resolution.as_ref().map(bundle_of),
        from: snapshot.history.as_ref().ok().and_then(History::installed).map(|revision| Bundle::installed(&revision.record.bundle)),
        reasons: plan.resolution.as_ref().map(|resolution| resolution.reasons.clone()).unwrap_or_default(),
        problem,
        dependencies: dependencies(plan),
        approval: approval(plan),
        restarts: restarts(&objects),
        api_extensions: api_extensions(&objects),
        objects,
        custom_resource_definitions: crds,
        permissions_gained,
        permissions_lost,
        images: images(snapshot, plan, extra),
        not_served: if comes { told.not_served } else { Vec::new() },
        warnings,
        verification: Vec::new(),
    }
}

fn kind(action: &Action, objects: &[Object]) -> Kind {
    match action {
        Action::Install => Kind::Install,
        Action::Upgrade => Kind::Upgrade,
        Action::Reassert if objects.iter().any(|object| object.change.is_one()) => Kind::Repair,
        Action::Reassert | Action::AddFinalizers(_) => Kind::Nothing,
        Action::Finalize(_) => Kind::Uninstall,
        Action::Report => Kind::Refused,
    }
}

fn dependencies(plan: &Plan) -> Vec<Dependency> {
    plan.consent.additional.iter().map(|one| Dependency { bundle: Bundle::named(&one.bundle), because: one.because.clone() }).collect()
}

fn approval(plan: &Plan) -> Option<Approval> {
    let gate = plan.consent.gate.as_ref().filter(|gate| !gate.open)?;
    Some(Approval {
        change_plan: gate.kept.then(|| gate.name.clone()),
        reasons: gate.reasons.iter().map(ToString::to_string).collect(),
        for_dependencies: gate.reasons.iter().all(|reason| matches!(reason, ApprovalReason::Installs(_))),
    })
}

/// The reason why the plan cannot be applied; each hint of a resolution was tried (MS-EXPL-01).
fn problem(snapshot: &Snapshot, plan: &Plan) -> Option<Problem> {
    if plan.consent.meanwhile.is_some() {
        // It is applied after an approval, or after other extensions have done their part. That is no problem, and is said among the warnings.
        return None;
    }
    let message = match &plan.verdict {
        Verdict::Reached => return None,
        Verdict::Retrying(reason) | Verdict::Blocked(reason) => reason.to_string(),
        Verdict::Unreadable(message) => format!("the install records cannot be read: {message}"),
        Verdict::NoAccount { account, namespace } if account.is_empty() => {
            format!("the extension names no service account to install with in namespace {namespace:?}")
        }
        Verdict::NoAccount { account, namespace } => format!("service account {account:?} does not exist in namespace {namespace:?}"),
    };
    let mut problem = Problem { message, ..Problem::default() };
    let Some(reason) = plan.verdict.reason() else { return Some(problem) };
    match reason.root() {
        Reason::Unresolved(refusal) => {
            problem.causes = refusal.catalogs.iter().map(ToString::to_string).collect();
            problem.hints = refusal.hints.iter().map(ToString::to_string).collect();
            if let RefusalKind::UnsupportedDependency { .. } = refusal.kind {
                problem.causes.clone_from(&plan.warnings);
                // A policy helps only if the catalogs have what is missing.
                if satisfiable(snapshot).is_ok() {
                    let package = package(snapshot);
                    problem.hints.push(format!(
                        "a LifecyclePolicy with resolveDependencies: Plan for package {package} makes what is missing part of the plan"
                    ));
                    problem.hints.push(following(package));
                }
            }
            problem.unknown_package =
                matches!(refusal.kind, RefusalKind::NoSingleBundle { .. }) && refusal.catalogs.iter().all(|report| !report.package_found);
        }
        Reason::Lifecycle(Lifecycle::Owned(refusal)) => {
            let maker = match snapshot.known.live.get(&*refusal.object) {
                Some(Live::Present(live)) => made_by(live),
                _ => None,
            };
            problem.causes.push(match (&refusal.owner, maker) {
                (Some((kind, name)), _) => format!("{} is managed by {kind} {name}", refusal.object),
                (None, Some(maker)) => format!("{} was made by {maker}, and is not managed by any extension", refusal.object),
                (None, None) => format!("{} is not managed by any extension", refusal.object),
            });
        }
        Reason::Lifecycle(Lifecycle::NotServed(target)) => match retired(target) {
            Some(release) => {
                let ObjectRef { api_version, kind, .. } = target;
                problem
                    .causes
                    .push(format!("Kubernetes {release} removed {kind} of {api_version}; nothing that can be installed brings it back"));
                problem.hints.push(format!("mainstay graph {} shows the other versions", package(snapshot)));
            }
            None => match providers(&snapshot.catalogs, target).first() {
                Some((package, catalog)) => problem.hints.push(format!(
                    "mainstay install {package} --catalog {catalog} brings {} of {}, which is needed first",
                    target.kind, target.api_version
                )),
                None => problem.causes.push(format!("no catalog of the cluster brings {} of {}", target.kind, target.api_version)),
            },
        },
        Reason::Lifecycle(Lifecycle::UnsafeCrds(_)) => {
            let name = snapshot.extension.metadata.name.as_deref().unwrap_or_default();
            if snapshot.history.as_ref().is_ok_and(|history| history.installed().is_some()) {
                problem.hints.push(format!(
                    "mainstay upgrade {name} --crd-safety warn goes on all the same: its plan names the custom resources that would lose data \
                     or become invalid, and it asks first"
                ));
            }
        }
        Reason::Content(ContentError::Render(RenderError::TargetNamespaces { .. })) => {
            let bundle = chosen_bundle(snapshot, plan);
            problem.hints.extend(bundle.and_then(|bundle| watching(&bundle, &snapshot.extension.spec.namespace)));
        }
        _ => {}
    }
    Some(problem)
}

fn package(snapshot: &Snapshot) -> &str {
    snapshot.extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name)
}

/// The install modes that a bundle supports, if it does not support the requested one.
fn watching(bundle: &mainstay_bundle::Bundle, own: &str) -> Option<String> {
    let modes = [
        ("OwnNamespace", format!("--watch-namespace {own} lets it watch its own namespace")),
        ("SingleNamespace", format!("--watch-namespace NAMESPACE lets it watch one namespace other than {own}")),
        ("AllNamespaces", "without --watch-namespace it watches all namespaces".to_owned()),
    ];
    modes.into_iter().find(|(mode, _)| bundle.csv.supports(mode)).map(|(_, hint)| hint)
}

/// The bundle's image, and those that its Deployments run; each is pulled unless it is on the machine already.
fn images(snapshot: &Snapshot, plan: &Plan, extra: &Extra) -> Vec<Image> {
    if !matches!(plan.action, Action::Install | Action::Upgrade) {
        return Vec::new();
    }
    let looked = comparison(snapshot, plan);
    let before = running(looked.before());
    let mut images: Vec<(String, String)> = Vec::new();
    if let Some(resolution) = &plan.resolution {
        images.push((resolution.choice.image.clone(), "the bundle".to_owned()));
    }
    images.extend(running(looked.wanted()).into_iter().filter(|one| !before.contains(one)));
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for (reference, place) in images {
        if !all.contains_key(&reference) {
            order.push(reference.clone());
        }
        all.entry(reference).or_default().push(place);
    }
    let image = |reference: String| {
        let (size, unknown) = match extra.images.get(&reference) {
            Some(Ok(size)) => (Some(size.clone()), None),
            Some(Err(problem)) => (None, Some(problem.to_string())),
            None => (None, Some(NOT_ASKED.to_owned())),
        };
        Image { used_by: all.remove(&reference).unwrap_or_default(), size, size_unknown: unknown, reference }
    };
    order.into_iter().map(image).collect()
}

/// Live objects of a refused plan that it did not get to check. With them the preview shows every obstacle.
pub fn unlooked(snapshot: &Snapshot, plan: &Plan) -> Vec<Fact> {
    let looked = comparison(snapshot, plan);
    let targets = looked.wanted().iter().map(object::place).chain(looked.gone());
    targets.filter(|target| looked.live(target).is_none()).map(Fact::Live).collect()
}

/// The plan compared with what was applied and what is live.
fn comparison<'a>(snapshot: &'a Snapshot, plan: &'a Plan) -> Comparison<'a> {
    let wanted = match &plan.record {
        Some(record) => Cow::Borrowed(record.objects.as_slice()),
        None => Cow::Owned(intended(snapshot, plan)),
    };
    Comparison {
        wanted,
        history: snapshot.history.as_ref().ok(),
        live: &snapshot.known.live,
        steps: &plan.steps,
        owner: owner(&snapshot.extension),
    }
}

/// The objects of a bundle that was refused after it was read.
fn intended(snapshot: &Snapshot, plan: &Plan) -> Vec<Value> {
    let bundle = chosen_bundle(snapshot, plan);
    // A bundle that cannot be rendered was refused for that reason, and the problem says so.
    bundle.and_then(|bundle| rendered(snapshot, &bundle).ok()).unwrap_or_default()
}

/// The bundle that a resolution chose, for the document.
fn bundle_of(resolution: &Resolution) -> Bundle {
    let choice = &resolution.choice;
    Bundle {
        package: choice.package.clone(),
        name: choice.bundle.clone(),
        version: choice.version.clone(),
        image: choice.image.clone(),
        catalog: choice.catalog.clone(),
    }
}

/// The namespace that the controller creates.
fn made(namespace: &Value) -> Object {
    let entries = |what: &str| {
        let all = namespace["metadata"][what].as_object().into_iter().flatten();
        all.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>()
    };
    let labels = entries("labels");
    let labels = if labels.is_empty() { String::new() } else { format!(", labelled {}", labels.join(", ")) };
    let note = format!("made by operator-controller{labels}; it stays when the extension is removed");
    Object { change: Change::Created, note, ..named(&object::place(namespace)) }
}
