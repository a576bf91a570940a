//! The migration of an installed operator to OLM v1: whether it is possible, what becomes of each object, and the steps (MS-RB-03).
//!
//! ```text
//!   Facts ──► plan ──► obstacles: nothing is written
//!                └───► fates: adopted, replaced, created │ restarts │ notes
//!
//!   prepare: no clean-up, copies of the permissions ─► stop: Subscription, then CSV without its dependents
//!      ─► adopt: marks of OLM classic off, marks of the extension on ─► the extension is created, and installs ─► clear: what is left over
//! ```
//!
//! The CSV's own clean-up deletes its cluster roles. Copies of all permissions therefore hold until the extension has made its own: at no time
//! is the operator without them. Every step can be repeated, so that an interrupted migration is finished by the same steps.

mod obstacle;
mod steps;

use mainstay_objects::ObjectRef;
use serde::Serialize;
use serde_json::Value;

use crate::condition::upgradeable;
use crate::overview::{is_copy, place, text};
use crate::removal::needed_by;

pub use obstacle::Obstacle;
pub use steps::{COPY_LABEL, adopt, clear, copies, is_made_by_classic, prepare, reference, released, stop, unannotate};

/// The offer of OLM v1, as far as a migration asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The catalog.
    pub catalog: String,
    /// The bundle.
    pub bundle: String,
    /// Its version.
    pub version: String,
    /// The bundle's objects, rendered for the operator's namespace.
    pub objects: Vec<Value>,
    /// The bundle's required packages and APIs, in words.
    pub needs: Vec<String>,
}

/// The state of the cluster, as far as a migration concerns it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The Subscription.
    pub subscription: Option<&'a Value>,
    /// The CSV; none if the Subscription has installed nothing.
    pub csv: Option<&'a Value>,
    /// All CSVs of the cluster.
    pub csvs: &'a [Value],
    /// The InstallPlans of the namespace.
    pub plans: &'a [Value],
    /// The OperatorGroups of the namespace.
    pub groups: &'a [Value],
    /// The CSV's OperatorCondition.
    pub condition: Option<&'a Value>,
    /// The objects that the CSV owns.
    pub owned: &'a [Value],
    /// The live CRDs that the CSV owns.
    pub definitions: &'a [Value],
    /// Live objects that the bundle holds and that neither the CSV nor its Subscription brought.
    pub foreign: &'a [Value],
    /// The offer of OLM v1, or the reason why there is none.
    pub offer: Result<&'a Offer, &'a str>,
    /// The adopted objects as they would be once the extension has applied its own: answers of a dry run.
    pub applied: &'a [Value],
    /// True if the cluster's OLM v1 takes `deploymentConfig`.
    pub takes_config: bool,
    /// True if the cluster's OLM v1 installs an operator that watches one namespace.
    pub takes_watch: bool,
}

/// The future of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// Stays, with its uid, and becomes the extension's.
    Adopted,
    /// Made by the extension.
    Created,
    /// Stays without an owner: OLM classic did not make it, or custom resources depend on it.
    Kept,
    /// Deleted at the end; the extension has an object of another name in its place, or needs none.
    Removed,
}

/// An object and its future.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Future {
    /// The object.
    pub object: String,
    /// Its future.
    pub fate: Fate,
    /// The object's reference.
    #[serde(skip)]
    pub place: ObjectRef,
}

/// A migration as it is shown before.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The reasons why it is not done.
    pub obstacles: Vec<Obstacle>,
    /// The objects, in the order adopted, created, removed.
    pub objects: Vec<Future>,
    /// Deployments whose Pods are restarted, because OLM v1 renders them differently.
    pub restarts: Vec<String>,
    /// The only namespace that the operator watches; none if it watches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_namespace: Option<String>,
    /// True if the version stays pinned, because the Subscription asks for approvals.
    pub keeps_pin: bool,
    /// Further consequences.
    pub notes: Vec<String>,
}

/// Plans a migration.
pub fn plan(facts: &Facts<'_>) -> Migration {
    let (watch_namespace, mut obstacles) = watched(facts);
    obstacles.extend(standing(facts));
    let mut objects = Vec::new();
    match facts.offer {
        Ok(offer) => {
            obstacles.extend(offered(facts, offer));
            objects = futures(facts, offer);
        }
        Err(problem) => obstacles.push(Obstacle::NotOffered(problem.to_owned())),
    }
    let restarts = restarts(facts);
    let keeps_pin = facts.subscription.is_some_and(|subscription| subscription["spec"]["installPlanApproval"] == "Manual");
    Migration { obstacles, objects, restarts, watch_namespace, keeps_pin, notes: notes(facts) }
}

/// The only namespace that the operator watches, from the status of its OperatorGroup.
fn watched(facts: &Facts<'_>) -> (Option<String>, Vec<Obstacle>) {
    let [group] = facts.groups else { return (None, vec![Obstacle::Groups(facts.groups.len())]) };
    let targets: Vec<String> = group["status"]["namespaces"].as_array().into_iter().flatten().map(text).collect();
    match targets.as_slice() {
        [all] if all.is_empty() => (None, Vec::new()),
        [one] if facts.takes_watch => (Some(one.clone()), Vec::new()),
        [one] => (Some(one.clone()), vec![Obstacle::Watch(one.clone())]),
        [] => (None, vec![Obstacle::NoTargets]),
        several => (None, vec![Obstacle::SeveralTargets(several.to_vec())]),
    }
}

/// Obstacles in the state of the installed operator.
fn standing(facts: &Facts<'_>) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let Some(subscription) = facts.subscription else { return vec![Obstacle::NoSubscription] };
    let Some(csv) = facts.csv else { return vec![Obstacle::NotInstalled] };
    let name = text(&csv["metadata"]["name"]);
    let phase = text(&csv["status"]["phase"]);
    if phase != "Succeeded" {
        found.push(Obstacle::Phase { csv: name.clone(), phase });
    }
    if let Err(reason) = upgradeable(facts.condition) {
        found.push(Obstacle::Condition { csv: name.clone(), reason: reason.to_string() });
    }
    found.extend(
        facts.plans.iter().filter(|plan| is_running(plan, subscription)).map(|plan| Obstacle::Plan(text(&plan["metadata"]["name"]))),
    );
    let required = |field: &str, what: &str| {
        let all = csv["spec"][field]["required"].as_array().into_iter().flatten();
        all.map(|api| format!("{what} {}", text(&api["name"]))).collect::<Vec<_>>()
    };
    let needs = [required("customresourcedefinitions", "CRD"), required("apiservicedefinitions", "API")].concat();
    if !needs.is_empty() {
        found.push(Obstacle::Needs(needs));
    }
    let rivals = needed_by(csv, facts.csvs);
    if !rivals.is_empty() {
        found.push(Obstacle::Rivals(rivals));
    }
    if csv["spec"]["apiservicedefinitions"]["owned"].as_array().is_some_and(|owned| !owned.is_empty()) {
        found.push(Obstacle::ApiServices);
    }
    if !subscription["spec"]["config"].is_null() && !facts.takes_config {
        found.push(Obstacle::Config);
    }
    found
}

/// Returns true if the InstallPlan is approved and still works for the Subscription.
fn is_running(plan: &Value, subscription: &Value) -> bool {
    let works = matches!(plan["status"]["phase"].as_str(), Some("Planning" | "Installing"));
    let mut owners = plan["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    works && owners.any(|owner| owner["uid"] == subscription["metadata"]["uid"])
}

/// Obstacles in the bundle of OLM v1.
fn offered(facts: &Facts<'_>, offer: &Offer) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if let Some(csv) = facts.csv
        && csv["metadata"]["name"] != offer.bundle.as_str()
    {
        found.push(Obstacle::OtherBundle { installed: text(&csv["metadata"]["name"]), offered: offer.bundle.clone() });
    }
    if !facts.foreign.is_empty() {
        found.push(Obstacle::Foreign(facts.foreign.iter().map(|object| steps::reference(object).to_string()).collect()));
    }
    if !offer.needs.is_empty() {
        found.push(Obstacle::Needs(offer.needs.clone()));
    }
    found
}

/// The future of each object.
fn futures(facts: &Facts<'_>, offer: &Offer) -> Vec<Future> {
    let rendered: Vec<ObjectRef> = offer.objects.iter().map(steps::reference).collect();
    let live = || facts.owned.iter().chain(facts.definitions);
    let mut all: Vec<Future> = Vec::new();
    for place in live().map(steps::reference).chain(rendered.iter().cloned()) {
        let found = live().find(|object| steps::reference(object).same(&place));
        let fate = match (found, rendered.iter().any(|other| other.same(&place))) {
            (Some(_), true) => Fate::Adopted,
            (Some(object), false) if steps::is_made_by_classic(object) => Fate::Removed,
            (Some(_), false) => Fate::Kept,
            (None, _) => Fate::Created,
        };
        if !all.iter().any(|known| known.place.same(&place)) {
            all.push(Future { object: place.to_string(), fate, place });
        }
    }
    all.sort_by(|one, other| (one.fate, &one.object).cmp(&(other.fate, &other.object)));
    all
}

/// Deployments whose Pods' template changes when the extension applies its own.
fn restarts(facts: &Facts<'_>) -> Vec<String> {
    let deployments = facts.owned.iter().filter(|object| object["kind"] == "Deployment");
    let changed = deployments.filter(|live| {
        let place = steps::reference(live);
        let after = facts.applied.iter().find(|after| steps::reference(after).same(&place));
        after.is_some_and(|after| after["spec"]["template"] != live["spec"]["template"])
    });
    changed.map(|live| steps::reference(live).to_string()).collect()
}

fn notes(facts: &Facts<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(csv) = facts.csv else { return notes };
    let (namespace, name) = place(csv);
    if csv["spec"]["cleanup"]["enabled"] == true {
        notes.push("the CSV asks for clean-up, which would delete custom resources: it is switched off first".to_owned());
    }
    let kinds = |kind: &str| facts.owned.iter().any(|object| object["kind"] == kind);
    if kinds("ValidatingWebhookConfiguration") || kinds("MutatingWebhookConfiguration") {
        notes.push("admission webhooks are not called between the removal of the CSV and the extension's own webhooks".to_owned());
    }
    if facts.definitions.iter().any(|definition| definition["spec"]["conversion"]["strategy"] == "Webhook") {
        notes.push("the conversion webhook gets a new certificate: conversions fail while the operator restarts".to_owned());
    }
    if facts.condition.is_some_and(|condition| condition["spec"]["conditions"].as_array().is_some_and(|all| !all.is_empty())) {
        notes.push(format!("OperatorCondition {namespace}/{name} stays, because the operator writes to it; OLM v1 does not read it"));
    }
    if facts.csvs.iter().any(|other| is_copy(other) && other["metadata"]["name"] == *name) {
        notes.push("copies of the CSV in other namespaces are deleted".to_owned());
    }
    let waiting = facts
        .plans
        .iter()
        .find(|plan| plan["status"]["phase"] == "RequiresApproval" && facts.subscription.is_some_and(|one| owns(one, plan)));
    if let Some(plan) = waiting {
        notes.push(format!("InstallPlan {} waits for an approval, and goes with the Subscription", text(&plan["metadata"]["name"])));
    }
    if facts.applied.is_empty() && facts.offer.is_ok() {
        notes.push("whether Pods are restarted is not known: a dry run was not possible".to_owned());
    }
    notes.push("the OperatorGroup stays; nothing of OLM v1 needs it".to_owned());
    notes
}

fn owns(subscription: &Value, plan: &Value) -> bool {
    let mut owners = plan["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["uid"] == subscription["metadata"]["uid"])
}
