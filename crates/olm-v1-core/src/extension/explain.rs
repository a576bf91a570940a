//! The state of an extension with its reason, the event that it waits for, and the one next action (MS-EXPL-02, MS-EXPL-04).
//!
//! ```text
//!   plan ───────── reason ────┐ (the check that refused, and its subject)
//!   live objects, pods ───────┼─ explain ── Explanation ──┬─ text   for people
//!   conditions, events ───────┤                           └─ serde  for programs
//!   catalogs ─────── newer ───┘ (the reason why there is no newer version)
//! ```
//!
//! Everything here is a pure function of facts. The plan is the controller's own ([`super::plan`]), made again from the objects that the user
//! can read, so that nothing depends on a condition's text, which may have been cut (MS-EXPL-06).

mod account;
mod attempt;
mod catalog;
mod conditions;
mod content;
mod context;
mod health;
mod newer;
mod objects;
mod package;
mod proposals;
mod refusal;
mod remedy;
mod removal;
mod retired;
mod rivals;
mod words;

use jiff::Timestamp;
use mainstay_api::lifecycle::ChangePlan;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::explanation;
use mainstay_resolver::{CandidateCatalog, CatalogState};

use super::facts::Snapshot;
use super::plan::{Plan, Verdict};
use super::request::candidates;
use super::webhooks::Simulation;
use crate::cluster_operator::compat::Platform;
use conditions::Conditions;

pub use catalog::{CatalogFacts, explain_catalog};
pub use context::{chosen_bundle, providers};
pub use health::{Observed, pod_problem};
pub use mainstay_lifecycle::explanation::{Destination, Evidence, Outcome, State, ago};
pub use objects::{Maker, made_by};
pub use package::{PackageFacts, Trial, explain_package};
pub use proposals::{judge, weighed};
pub use remedy::{Remedy, Untried, shell_word};
pub(super) use retired::retired;

/// An explanation whose remedies change a ClusterExtension or what it depends on.
pub type Explanation = explanation::Explanation<Remedy>;
/// An action with a remedy that can be tried.
pub type Action = explanation::Action<Remedy>;
/// A newer version, with the change that allows the upgrade to it.
pub type Newer = explanation::Newer<Remedy>;

/// The facts that an explanation of an extension rests on.
pub struct Facts {
    /// The extension, the catalogs, the records, and every fact that the plan needed.
    pub snapshot: Snapshot,
    /// The plan for it, or the reason why it could not be made.
    pub plan: Result<Plan, SharedError>,
    /// The live objects of the installed revision.
    pub objects: Vec<Observed>,
    /// Events about the extension, oldest first.
    pub events: Vec<EventFact>,
    /// The catalogs' objects.
    pub catalogs: Vec<ClusterCatalog>,
    /// Changes of this extension that were held for approval.
    pub change_plans: Vec<ChangePlan>,
    /// True if the extension's namespace exists; none if that is unknown.
    pub namespace_exists: Option<bool>,
    /// True if operator-controller can act as the extension's account; none if that is unknown.
    pub may_act: Option<bool>,
    /// The platform's version, if the cluster has one (OLM1-COMPAT-02).
    pub platform: Option<Platform>,
    /// The cluster's simulated nodes, if known.
    pub simulation: Option<Simulation>,
    /// The present time.
    pub now: Timestamp,
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the event")]
pub struct EventFact {
    pub warning: bool,
    pub reason: String,
    pub note: String,
    /// The time of its first report.
    pub since: Option<Timestamp>,
    /// The time of its last report.
    pub at: Option<Timestamp>,
}

/// Explains an extension.
pub fn explain(facts: &Facts) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let conditions = Conditions::of(extension);
    let mut answer = situation(facts, &conditions);
    answer.since = answer.since.or_else(|| reported(facts, &conditions)).or_else(|| conditions.since());
    answer.installed = installed(facts);
    answer.evidence.extend(conditions.evidence());
    answer.evidence.extend(events(&facts.events));
    answer
}

/// Explains a refused plan, and the remedies; none if the plan is not refused.
pub fn explain_refusal(facts: &Facts) -> Option<Explanation> {
    words::refused(facts, facts.plan.as_ref().ok()?)
}

/// The time since which the present problem is reported. A condition's time changes only with its status, not with its message.
fn reported(facts: &Facts, conditions: &Conditions<'_>) -> Option<Timestamp> {
    let problem = words::first_line(conditions.problem()?);
    let same = facts.events.iter().filter(|event| words::first_line(&event.note) == problem);
    same.filter_map(|event| event.since).max().filter(|since| Some(*since) > conditions.since())
}

/// The first situation that applies, in the order in which one hides the next.
fn situation(facts: &Facts, conditions: &Conditions<'_>) -> Explanation {
    let extension = &*facts.snapshot.extension;
    if extension.metadata.deletion_timestamp.is_some() {
        return removal::explain(facts);
    }
    if conditions.is_empty() {
        return not_seen(facts);
    }
    let plan = match &facts.plan {
        Ok(plan) => plan,
        Err(problem) => return words::only_conditions(facts, conditions, &problem.to_string()),
    };
    if facts.may_act == Some(false) && !matches!(plan.verdict, Verdict::NoAccount { .. }) {
        return account::not_lent(facts);
    }
    if let Some(answer) = plan.verdict.reason().and_then(|reason| words::specific(facts, plan, reason.root())) {
        return answer;
    }
    if matches!(plan.verdict, Verdict::Reached | Verdict::Retrying(_) | Verdict::Blocked(_))
        && let Some(answer) = held_for_approval(facts, plan)
    {
        return answer;
    }
    if let Some(answer) = words::refused(facts, plan) {
        return answer;
    }
    if let Some(problem) = conditions.problem() {
        return if conditions.is_current() { attempt::tried(facts, problem) } else { words::being_looked_at(facts) };
    }
    if !conditions.is_current() {
        return words::being_looked_at(facts);
    }
    health::explain(facts)
}

fn not_seen(facts: &Facts) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let name = name(extension);
    Explanation {
        waits_for: Some("the controller, which has not looked at it yet".to_owned()),
        since: extension.metadata.creation_timestamp.as_ref().map(|time| time.0),
        next: Some(
            Action::new("This takes a second. If it stays so, nothing on this cluster looks after extensions; see what runs:")
                .command("mainstay status")
                .command("kubectl get leases --all-namespaces"),
        ),
        ..Explanation::new(extension_subject(name), "not-looked-at", State::NotInstalled, "no controller has looked at it yet")
    }
}

/// The change that waits for an approval: from the plan itself, or from a kept ChangePlan.
fn held_for_approval(facts: &Facts, plan: &Plan) -> Option<Explanation> {
    let kept = pending(facts);
    let since = kept.and_then(|change| change.metadata.creation_timestamp.as_ref()).map(|time| time.0);
    if let Some(gate) = plan.consent.gate.as_ref().filter(|gate| !gate.open) {
        let mut answer = attempt::approval(facts, &gate.name, &gate.spec, since);
        answer.why.splice(0..0, gate.reasons.iter().map(ToString::to_string));
        return Some(answer);
    }
    let change = kept?;
    Some(attempt::approval(facts, change.metadata.name.as_deref().unwrap_or_default(), &change.spec, since))
}

/// The kept change that waits for an approval.
fn pending(facts: &Facts) -> Option<&ChangePlan> {
    let uid = facts.snapshot.extension.metadata.uid.as_deref().unwrap_or_default();
    let waits = |plan: &&ChangePlan| {
        use mainstay_api::lifecycle::ChangePlanPhase;
        plan.spec.subject.uid == uid
            && plan.spec.approved_digest.is_none()
            && plan.status.as_ref().is_none_or(|status| status.phase == ChangePlanPhase::Pending)
    };
    facts.change_plans.iter().rev().find(waits)
}

/// Name and version of the installed bundle.
fn installed(facts: &Facts) -> Option<(String, String)> {
    let history = facts.snapshot.history.as_ref().ok()?;
    let bundle = &history.installed()?.record.bundle;
    Some((bundle.name.clone(), bundle.version.clone()))
}

fn name(extension: &ClusterExtension) -> &str {
    extension.metadata.name.as_deref().unwrap_or_default()
}

fn package(extension: &ClusterExtension) -> &str {
    extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name)
}

/// The command that shows the versions of the package, or the catalogs if no available catalog has the package.
fn overview(facts: &Facts) -> String {
    let package = package(&facts.snapshot.extension);
    let has = |catalog: &CandidateCatalog<'_>| match catalog.state {
        CatalogState::Content(source) => source.package(package).is_some(),
        _ => false,
    };
    if candidates(&facts.snapshot.catalogs).iter().any(has) {
        format!("mainstay graph {}", shell_word(package))
    } else {
        "mainstay catalog list".to_owned()
    }
}

fn extension_subject(name: &str) -> String {
    format!("clusterextension {name}")
}

/// Maximum number of events that are shown: the newest, each once.
const EVENTS: usize = 5;

fn events(events: &[EventFact]) -> Vec<Evidence> {
    let mut newest: Vec<&EventFact> = Vec::new();
    for event in events.iter().rev() {
        if newest.len() < EVENTS && !newest.iter().any(|seen| seen.reason == event.reason && seen.note == event.note) {
            newest.push(event);
        }
    }
    let evidence = |event: &EventFact| Evidence {
        what: format!("event {}", event.reason),
        says: words::first_line(&event.note).to_owned(),
        at: event.at,
    };
    newest.into_iter().rev().map(evidence).collect()
}

/// Names in a sentence: `a, b and 3 more`.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    if names.len() > most { format!("{shown} and {} more", names.len() - most) } else { shown }
}
