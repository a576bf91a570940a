//! The next work on an unpacking, and how far it is.

use jiff::{SignedDuration, Timestamp};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Step};
use serde_json::{Value, json};

use super::INCOMPLETE;
use super::objects::{Request, config_map, job, permission};
use crate::catalog_source::registry::Tools;

/// Failed Jobs of a bundle that are kept.
const KEPT: usize = 5;

/// The objects of an unpacking as they are.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// ConfigMap, Role, ServiceAccount and RoleBinding, those that exist.
    pub objects: &'a [Value],
    /// The Jobs of the bundle.
    pub jobs: &'a [Value],
    /// The pods of the Jobs.
    pub pods: &'a [Value],
}

/// Progress of an unpacking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Something has to be made first; its facts are asked for again.
    Begins,
    /// The Job is not over.
    Incomplete {
        /// Reason for waiting.
        message: String,
        /// True if that is no part of a start: an image cannot be pulled, for instance.
        failing: bool,
    },
    /// The Job has failed.
    Failed {
        /// The Job's reason.
        reason: String,
        /// The Job's message.
        message: String,
    },
    /// The ConfigMap is filled.
    Complete,
}

/// Decides what is done for an unpacking.
pub fn plan(request: &Request<'_>, tools: &Tools, facts: &Facts<'_>, now: Timestamp) -> (Vec<Step>, Progress) {
    let find = |wanted: &Value| facts.objects.iter().find(|live| live["kind"] == wanted["kind"]);
    let wanted = config_map(request);
    let Some(map) = find(&wanted) else { return (vec![Step::CreateOnce(wanted)], Progress::Begins) };
    let mut steps = Vec::new();
    for wanted in permission(request, map) {
        match (wanted["kind"].as_str(), find(&wanted)) {
            (_, None) => steps.push(Step::CreateOnce(wanted)),
            (Some("Role"), Some(role)) => steps.extend(permitted(role, &wanted)),
            (Some("RoleBinding"), Some(live))
                if !derives(&wanted["subjects"], &live["subjects"]) || wanted["roleRef"] != live["roleRef"] =>
            {
                steps.extend(delete(live));
                return (steps, Progress::Begins);
            }
            _ => {}
        }
    }
    let fresh = job(request, map, tools);
    let jobs = newest_first(facts.jobs);
    let Some(job) = jobs.first().copied() else {
        steps.push(Step::CreateOnce(fresh));
        return (steps, begun());
    };
    let failed = condition(job, "Failed");
    if let (Some(retry), Some(failed)) = (request.retry.filter(|retry| !retry.is_zero()), failed) {
        let since = time(&failed["lastTransitionTime"]).unwrap_or(now);
        if SignedDuration::try_from(retry).is_ok_and(|retry| now.duration_since(since) > retry) {
            steps.push(Step::Create(renamed(fresh)));
            return (steps, begun());
        }
        // The newest ones stay, and the oldest.
        let old = jobs.iter().skip(KEPT).take(jobs.len().saturating_sub(KEPT + 1).min(KEPT));
        steps.extend(old.filter_map(|job| delete(job)));
    }
    if !derives(&fresh["spec"], &job["spec"]) || !derives(&fresh["metadata"]["ownerReferences"], &job["metadata"]["ownerReferences"]) {
        steps.extend(delete(job));
        return (steps, Progress::Begins);
    }
    (steps, progress(job, failed, facts.pods))
}

fn progress(job: &Value, failed: Option<&Value>, pods: &[Value]) -> Progress {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(failed) = failed {
        return Progress::Failed { reason: text(&failed["reason"]), message: text(&failed["message"]) };
    }
    if condition(job, "Complete").is_some() {
        return Progress::Complete;
    }
    let of_job = pods.iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == job["metadata"]["name"]);
    let waits: Vec<(String, bool)> = of_job.filter(|pod| pod["status"]["phase"] == "Pending").flat_map(waiting).collect();
    if waits.is_empty() {
        return begun();
    }
    let told: Vec<&str> = waits.iter().map(|(told, _)| told.as_str()).collect();
    Progress::Incomplete { message: format!("{INCOMPLETE}: {}", told.join(" | ")), failing: waits.iter().any(|(_, failing)| *failing) }
}

fn begun() -> Progress {
    Progress::Incomplete { message: INCOMPLETE.to_owned(), failing: false }
}

/// Waits of the init containers of a pod, each with true if it is a failure.
fn waiting(pod: &Value) -> Vec<(String, bool)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let place = format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let statuses = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten().filter(|status| status["ready"] != true);
    let told = statuses.map(|status| {
        let head = format!("Unpack pod({place}) container({}) is pending", text(&status["name"]));
        match status["state"].get("waiting") {
            Some(waiting) => {
                let starts = matches!(waiting["reason"].as_str(), None | Some("PodInitializing" | "ContainerCreating"));
                (format!("{head}. Reason: {}, Message: {}", text(&waiting["reason"]), text(&waiting["message"])), !starts)
            }
            None => (head, false),
        }
    });
    told.collect()
}

/// Jobs in the order in which they count: those that have not failed, then by time.
fn newest_first(jobs: &[Value]) -> Vec<&Value> {
    let mut sorted: Vec<&Value> = jobs.iter().collect();
    let since = |job: &Value| condition(job, "Failed").map(|failed| time(&failed["lastTransitionTime"]));
    let made = |job: &Value| time(&job["metadata"]["creationTimestamp"]);
    sorted.sort_by(|one, other| match (since(one), since(other)) {
        (Some(one), Some(other)) => other.cmp(&one),
        (None, None) => made(other).cmp(&made(one)),
        (one, other) => one.is_some().cmp(&other.is_some()),
    });
    sorted
}

/// Adds the rule to a Role that lacks it.
fn permitted(role: &Value, wanted: &Value) -> Option<Step> {
    let rule = &wanted["rules"][0];
    let rules = role["rules"].as_array().cloned().unwrap_or_default();
    if rules.iter().any(|held| derives(rule, held)) {
        return None;
    }
    let all: Vec<Value> = rules.into_iter().chain([rule.clone()]).collect();
    Some(Step::Patch { object: ObjectRef::of(role).ok()?, subresource: String::new(), patch: Patch::Merge(json!({"rules": all})) })
}

/// A further Job of the same bundle.
fn renamed(mut job: Value) -> Value {
    if let Some(meta) = job["metadata"].as_object_mut()
        && let Some(name) = meta.remove("name")
    {
        meta.insert("generateName".to_owned(), name);
    }
    job
}

fn delete(object: &Value) -> Option<Step> {
    let place = ObjectRef::of(object).ok()?;
    Some(Step::Delete { object: place, expect: Expect::uid_of(object), propagation: Propagation::Background })
}

fn condition<'a>(job: &'a Value, kind: &str) -> Option<&'a Value> {
    job["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns true if everything that `wanted` sets is the same in `live`, which a server has completed.
fn derives(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(name, value)| live.get(name).map_or(is_empty(value), |live| derives(value, live)))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| derives(wanted, live))
        }
        (wanted, live) => wanted == live,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}
