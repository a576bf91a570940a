//! InstallPlans: how one is made of a resolution, what is done with it next, and which are forgotten (OLM0-IP, OLM0-API-19 to OLM0-API-21).
//!
//! ```text
//!   resolved steps, unpacked bundles ── new ──► object and status
//!   object, OperatorGroups ── plan ──► wait | report | attach the account | execute
//!   each step ── step::object ──► what is written      CRDs ── crd::check ──► whether it may be
//!   outcome ── executed ──► status
//! ```

mod afterwards;
pub mod crd;
pub mod reference;
pub mod step;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_golang::json_reader::Unreadable;
use serde_json::{Value, json};

use crate::catalog_source::time;
use crate::properties;
use crate::resolve::BundleLookup;
use crate::steps::{self, BundleContent, Loaded, Step, StepError};

pub use afterwards::afterwards;

/// The longest list of InstallPlans of a namespace (OLM0-IP-16).
const KEPT: usize = 5;
/// The most that are forgotten at a time.
const SWEEP: usize = 5;

/// The content of a new InstallPlan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    /// The steps in the order of execution. The manifest of an unpacked bundle's step is a reference.
    pub steps: Vec<Step>,
    /// The bundles that were unpacked.
    pub lookups: Vec<BundleLookup>,
}

/// Why the content of a bundle is no plan.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Its manifests are no steps.
    #[error("failed to turn bundle into steps: {0}")]
    Steps(#[from] StepError),
    /// Its properties cannot be read.
    #[error("failed to load bundle properties: {0}")]
    Properties(#[from] Unreadable),
}

/// The steps of a bundle that was unpacked, with their manifests.
pub fn unpacked(namespace: &str, lookup: &BundleLookup, loaded: &Loaded) -> Result<Vec<Step>, ContentError> {
    let properties = properties::read(&lookup.properties)?;
    let content = BundleContent { name: &lookup.identifier, csv_json: &loaded.csv_json, objects: &loaded.objects, properties: &properties };
    Ok(steps::of_bundle(content, namespace, &lookup.replaces, &lookup.catalog)?)
}

impl Content {
    /// The CSVs that the plan installs.
    pub fn csvs(&self) -> Vec<&str> {
        self.steps.iter().filter(|step| step.kind == "ClusterServiceVersion").map(|step| step.name.as_str()).collect()
    }

    /// The status of a plan that was just made.
    pub fn status(&self, approved: bool) -> Value {
        let sources: BTreeSet<&str> = self.steps.iter().map(|step| step.catalog.name.as_str()).collect();
        let mut status = json!({
            "phase": if approved { "Installing" } else { "RequiresApproval" },
            "catalogSources": sources,
            "plan": self.steps.iter().map(step_value).collect::<Vec<_>>(),
        });
        if !self.lookups.is_empty() {
            status["bundleLookups"] = self.lookups.iter().map(lookup_value).collect();
        }
        status
    }
}

fn step_value(step: &Step) -> Value {
    let mut resource = json!({
        "group": step.group, "version": step.version, "kind": step.kind, "name": step.name,
        "sourceName": step.catalog.name, "sourceNamespace": step.catalog.namespace,
    });
    if !step.manifest.is_empty() {
        resource["manifest"] = json!(step.manifest);
    }
    json!({"resolving": step.resolving, "resource": resource, "status": steps::UNKNOWN})
}

fn lookup_value(lookup: &BundleLookup) -> Value {
    let mut value = json!({
        "path": lookup.path, "identifier": lookup.identifier, "replaces": lookup.replaces,
        "catalogSourceRef": {"namespace": lookup.catalog.namespace, "name": lookup.catalog.name},
    });
    if !lookup.properties.is_empty() {
        value["properties"] = json!(lookup.properties);
    }
    value
}

/// A new InstallPlan for the Subscriptions of a namespace (OLM0-IP-01, OLM0-IP-02).
pub fn new(namespace: &str, generation: i64, subscriptions: &[Value], content: &Content) -> Value {
    let manual = subscriptions.iter().any(|subscription| subscription["spec"]["installPlanApproval"] == "Manual");
    let owner = |subscription: &Value| {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": subscription["metadata"]["name"],
            "uid": subscription["metadata"]["uid"], "blockOwnerDeletion": false, "controller": false,
        })
    };
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {
            "generateName": "install-", "namespace": namespace,
            "ownerReferences": subscriptions.iter().map(owner).collect::<Vec<_>>(),
        },
        "spec": {
            "clusterServiceVersionNames": content.csvs(), "generation": generation,
            "approval": if manual { "Manual" } else { "Automatic" }, "approved": !manual,
        },
    })
}

/// The generation of an InstallPlan.
pub fn generation(plan: &Value) -> i64 {
    plan["spec"]["generation"].as_i64().unwrap_or_default()
}

/// Returns whether an InstallPlan is at its end.
pub fn is_done(plan: &Value) -> bool {
    matches!(plan["status"]["phase"].as_str(), Some("Complete" | "Failed"))
}

/// Returns whether an InstallPlan has content.
pub fn has_content(plan: &Value) -> bool {
    ["plan", "bundleLookups"].into_iter().any(|field| plan["status"][field].as_array().is_some_and(|list| !list.is_empty()))
}

/// Returns whether the controller made a plan: the plans of people have no Subscription among their owners (OLM0-IP-19).
pub fn is_generated(plan: &Value) -> bool {
    let owners = plan["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["kind"] == "Subscription")
}

/// Returns whether the controller was stopped while it made a plan. The content is written last, after the Subscriptions refer to the plan, so that
/// nothing is installed that no Subscription knows of.
pub fn is_unfinished(plan: &Value) -> bool {
    is_generated(plan) && !has_content(plan) && plan["status"]["phase"].as_str().unwrap_or_default().is_empty()
}

/// Returns whether a person wrote the plan and it has no content yet.
pub fn is_request(plan: &Value) -> bool {
    let phase = plan["status"]["phase"].as_str().unwrap_or_default();
    !is_generated(plan) && (phase.is_empty() || phase == "Planning")
}

/// The status of a written plan whose bundles are being unpacked; `problem` says what went wrong so far.
pub fn planning(lookups: &[BundleLookup], problem: Option<&str>, now: Timestamp) -> Value {
    let message = problem.unwrap_or("unpack job not completed");
    let pending = json!([{
        "type": "BundleLookupPending", "status": "True", "reason": "JobIncomplete", "message": message,
        "lastTransitionTime": time(now), "lastUpdateTime": time(now),
    }]);
    let lookup = |lookup: &BundleLookup| {
        let mut value = lookup_value(lookup);
        value["conditions"] = pending.clone();
        value
    };
    json!({"phase": "Planning", "catalogSources": [], "bundleLookups": lookups.iter().map(lookup).collect::<Vec<_>>()})
}

/// The status of a written plan that cannot be resolved.
pub fn refused(reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "phase": "Failed", "catalogSources": [], "message": message,
        "conditions": [{
            "type": "Resolved", "status": "False", "reason": reason, "message": message, "lastUpdateTime": time(now),
            "lastTransitionTime": time(now),
        }],
    })
}

/// The account of an OperatorGroup, or why it is not known which (OLM0-IP-09).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// No group manages a namespace.
    #[error("no operator group found that is managing this namespace")]
    NoGroup,
    /// Several groups do.
    #[error("more than one operator group(s) are managing this namespace count={0}")]
    Several(usize),
    /// The account does not exist.
    #[error("please make sure the service account exists. sa={account} operatorgroup={group}")]
    Missing {
        /// The account.
        account: String,
        /// The group, `namespace/name`.
        group: String,
    },
}

/// The account with which a namespace's plans are executed, as a reference; none for OLM's own.
pub fn account(groups: &[Value]) -> Result<Option<Value>, AccountError> {
    let managing = groups.iter().filter(|group| group["status"]["namespaces"].as_array().is_some_and(|all| !all.is_empty()));
    let managing: Vec<&Value> = managing.collect();
    let group = match managing.as_slice() {
        [] => return Err(AccountError::NoGroup),
        [group] => *group,
        several => return Err(AccountError::Several(several.len())),
    };
    let text = |field: &str| group["metadata"][field].as_str().unwrap_or_default();
    match group["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty()) {
        None => Ok(None),
        Some(name) if group["status"]["serviceAccountRef"]["name"] == *name => Ok(Some(group["status"]["serviceAccountRef"].clone())),
        Some(name) => Err(AccountError::Missing { account: name.to_owned(), group: format!("{}/{}", text("namespace"), text("name")) }),
    }
}

/// The next work on an InstallPlan.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// It waits for a change.
    Wait,
    /// Its status is written; `again` asks for another look without a change.
    Report {
        /// The status.
        status: Value,
        /// True if the cause may go away without a change of the plan.
        again: bool,
    },
    /// Its steps are executed, after this status is written if it differs.
    Execute(Value),
}

/// Decides what is done with an InstallPlan.
pub fn plan(object: &Value, groups: &[Value], now: Timestamp) -> Plan {
    if !has_content(object) || is_done(object) {
        return Plan::Wait;
    }
    let mut status = object["status"].clone();
    match account(groups) {
        Err(error) => {
            let message = format!("attenuated service account query failed - {error}");
            let told = installed(&status).is_some_and(|condition| {
                condition["status"] == "False" && condition["reason"] == "InstallCheckFailed" && condition["message"] == *message
            });
            if !told {
                set_installed(&mut status, "False", "InstallCheckFailed", &message, now);
            }
            return Plan::Report { status, again: true };
        }
        Ok(account) => {
            if installed(&status).is_some_and(|condition| condition["reason"] == "InstallCheckFailed") {
                remove_installed(&mut status);
            }
            if let Some(account) = account.filter(|account| status["attenuatedServiceAccountRef"] != *account) {
                status["attenuatedServiceAccountRef"] = account;
            }
        }
    }
    match status["phase"].as_str() {
        Some("RequiresApproval") if object["spec"]["approved"] == true => {
            status["phase"] = json!("Installing");
            remove(&mut status, "message");
            started(&mut status, now);
            Plan::Execute(status)
        }
        Some("Installing") => {
            started(&mut status, now);
            Plan::Execute(status)
        }
        _ => report(object, status),
    }
}

/// A change of the status, if it is one.
fn report(object: &Value, status: Value) -> Plan {
    if object["status"] == status { Plan::Wait } else { Plan::Report { status, again: false } }
}

fn started(status: &mut Value, now: Timestamp) {
    if !status["startTime"].is_string() {
        status["startTime"] = json!(time(now));
    }
}

/// Why the execution of a plan stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The sentence.
    pub message: String,
    /// True if no other try can succeed.
    pub terminal: bool,
}

/// The status after an execution. It is over if every step is done; a failure is tried again until the time is up (OLM0-IP-10, OLM0-IP-11).
pub fn executed(mut status: Value, failure: Option<&Failure>, retry_for: Duration, now: Timestamp) -> Value {
    let Some(failure) = failure else {
        let done = |step: &Value| matches!(step["status"].as_str(), Some("Created" | "Present"));
        if status["plan"].as_array().into_iter().flatten().all(done) {
            set_installed(&mut status, "True", "", "", now);
            status["phase"] = json!("Complete");
            remove(&mut status, "message");
        }
        return status;
    };
    set_installed(&mut status, "False", "InstallComponentFailed", &failure.message, now);
    let start = status["startTime"].as_str().and_then(|start| start.parse::<Timestamp>().ok()).unwrap_or(now);
    let over = SignedDuration::try_from(retry_for).is_ok_and(|retry_for| now.duration_since(start) >= retry_for);
    if failure.terminal || over {
        status["phase"] = json!("Failed");
        status["message"] = json!(failure.message);
    } else {
        status["message"] = json!(format!("retrying execution due to error: {}", failure.message));
    }
    status
}

/// The status of a failed plan that is tried once more, since the permissions of its account changed; none if it is not such a plan.
pub fn retried(plan: &Value, now: Timestamp) -> Option<Value> {
    let status = &plan["status"];
    if status["phase"] != "Failed" || !status["attenuatedServiceAccountRef"].is_object() {
        return None;
    }
    let mut next = status.clone();
    next["phase"] = json!("Installing");
    // Otherwise the time for retries would be up before the first.
    next["startTime"] = json!(time(now));
    Some(next)
}

/// The plans that are forgotten, of all of a namespace (OLM0-IP-16): the oldest generations first, those of one generation by age and name.
pub fn collect(plans: &[Value]) -> Vec<&str> {
    let mut oldest: Vec<&Value> = plans.iter().collect();
    let text = |plan: &Value, field: &str| plan["metadata"][field].as_str().unwrap_or_default().to_owned();
    oldest.sort_by_key(|plan| (generation(plan), text(plan, "creationTimestamp"), text(plan, "name")));
    let excess = plans.len().saturating_sub(KEPT).min(SWEEP);
    oldest.into_iter().take(excess).filter_map(|plan| plan["metadata"]["name"].as_str()).collect()
}

fn installed(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Installed")
}

fn remove_installed(status: &mut Value) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "Installed");
        if conditions.is_empty() {
            remove(status, "conditions");
        }
    }
}

/// Sets the condition `Installed`; its time of transition changes with its status only.
fn set_installed(status: &mut Value, value: &str, reason: &str, message: &str, now: Timestamp) {
    let mut next = json!({"type": "Installed", "status": value, "lastUpdateTime": time(now), "lastTransitionTime": time(now)});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            next[field] = json!(text);
        }
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == "Installed") {
        None => conditions.push(next),
        Some(present) if ["status", "reason", "message"].into_iter().all(|field| present[field] == next[field]) => {}
        Some(present) => {
            if present["status"] == next["status"] {
                next["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            *present = next;
        }
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
