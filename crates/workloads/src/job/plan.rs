//! What a Job does next: counts what ended, makes and deletes pods, ends (KAPI-WL-01).

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::object::{Object, Read as _, condition, parse_time, put, time};
use crate::pod;

/// Holds a pod until its end is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an indexed Job, as annotation and label.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The wait after the first failed pod; doubled with each further one.
const BACKOFF: i64 = 10;
const MOST_BACKOFF: i64 = 360;

/// What to do, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Pods that go.
    pub delete: Vec<Object>,
    /// Pods to be made, with their index where the Job is indexed.
    pub make: Vec<Option<i64>>,
    /// The status.
    pub status: Value,
    /// Pods whose end is counted in that status: they are let go.
    pub release: Vec<Object>,
    /// The Job's own time is over: it is deleted.
    pub expired: bool,
    /// When to look again.
    pub again: Option<Duration>,
}

struct Ended {
    succeeded: i64,
    failed: i64,
    indexes: BTreeSet<i64>,
    uncounted: Value,
    release: Vec<Object>,
}

/// Decides.
pub fn plan(job: &DynamicObject, pods: &[Object], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut conditions = job.at("/status/conditions").as_array().cloned().unwrap_or_default();
    let ended = count(job, pods);
    let over = ["Complete", "Failed"].iter().any(|kind| is_true(&conditions, kind));
    let active: Vec<&Object> = pods.iter().filter(|pod| pod::active(pod)).collect();
    let suspended = job.at("/spec/suspend") == &json!(true);
    let mut start = job.at("/status/startTime").clone();
    if over {
        plan.delete = active.iter().map(|pod| (*pod).clone()).collect();
        expire(job, &conditions, now, &mut plan);
    } else if let Some((kind, reason, message)) = verdict(job, &ended, now) {
        plan.delete = active.iter().map(|pod| (*pod).clone()).collect();
        let first = if kind == "Failed" { "FailureTarget" } else { "SuccessCriteriaMet" };
        set(&mut conditions, first, "True", reason, message, now);
        // The Job is over when all its pods are counted and gone.
        if active.is_empty() && ended.uncounted == json!({}) {
            set(&mut conditions, kind, "True", reason, message, now);
        }
    } else if suspended {
        plan.delete = active.iter().map(|pod| (*pod).clone()).collect();
        set(&mut conditions, "Suspended", "True", "JobSuspended", "Job suspended", now);
        start = Value::Null;
    } else {
        if condition(&json!(conditions), "Suspended").is_some() {
            set(&mut conditions, "Suspended", "False", "JobResumed", "Job resumed", now);
        }
        if start.is_null() {
            start = time(now);
        }
        balance(job, &active, &ended, pods, now, &mut plan);
    }
    let remaining = active.len() - plan.delete.len() + plan.make.len();
    let mut status = Map::new();
    if !conditions.is_empty() {
        status.insert("conditions".into(), json!(conditions));
    }
    if !start.is_null() {
        status.insert("startTime".into(), start);
    }
    if let Some(complete) = condition(&json!(conditions), "Complete").filter(|complete| complete["status"] == "True") {
        status.insert("completionTime".into(), complete["lastTransitionTime"].clone());
    }
    put(&mut status, "active", i64::try_from(remaining).unwrap_or_default());
    put(&mut status, "succeeded", ended.succeeded);
    put(&mut status, "failed", ended.failed);
    let terminating = pods.iter().filter(|pod| pod.deleting() && !pod::finished(pod)).count();
    status.insert("terminating".into(), json!(terminating));
    status.insert("uncountedTerminatedPods".into(), ended.uncounted);
    status.insert("ready".into(), json!(active.iter().filter(|pod| pod::ready(pod) && !plan.delete.contains(pod)).count()));
    if is_indexed(job) && !ended.indexes.is_empty() {
        status.insert("completedIndexes".into(), json!(ranges(&ended.indexes)));
    }
    plan.status = Value::Object(status);
    plan.release = ended.release;
    plan
}

fn is_indexed(job: &DynamicObject) -> bool {
    job.text("/spec/completionMode") == "Indexed"
}

fn is_true(conditions: &[Value], kind: &str) -> bool {
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Counts pods in two steps, so that a pod is counted once whatever happens between: first its uid is noted in the status, then it
/// is let go, then the note becomes part of the count.
fn count(job: &DynamicObject, pods: &[Object]) -> Ended {
    let noted = |kind: &str| -> Vec<String> {
        let list = job.at("/status/uncountedTerminatedPods")[kind].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    };
    let held = |pod: &Object| pod.metadata.finalizers.iter().flatten().any(|own| own == TRACKING);
    let suspended = job.at("/spec/suspend") == &json!(true);
    let mut uncounted = Map::new();
    let mut numbers = [0, 0];
    let mut release = Vec::new();
    for (position, kind) in ["succeeded", "failed"].into_iter().enumerate() {
        numbers[position] = job.at("/status")[kind].as_i64().unwrap_or_default();
        let mut open = Vec::new();
        for uid in noted(kind) {
            match pods.iter().find(|pod| pod.uid() == uid && held(pod)) {
                Some(pod) => {
                    release.push(pod.clone());
                    open.push(uid);
                }
                None => numbers[position] += 1,
            }
        }
        let known = open.clone();
        for pod in pods.iter().filter(|pod| held(pod) && !known.iter().any(|uid| uid == pod.uid())) {
            let phase = pod.text("/status/phase");
            let ends = match kind {
                "succeeded" => phase == "Succeeded",
                // A pod that is deleted before its end has failed.
                _ => phase == "Failed" || (pod.deleting() && phase != "Succeeded" && !suspended),
            };
            if kind == "failed" && suspended && pod.deleting() && !pod::finished(pod) {
                // Suspending a Job is no failure of its pods.
                release.push(pod.clone());
            }
            if ends {
                open.push(pod.uid().to_owned());
                release.push(pod.clone());
            }
        }
        if !open.is_empty() {
            uncounted.insert(kind.to_owned(), json!(open));
        }
    }
    let mut indexes = parse_ranges(job.text("/status/completedIndexes"));
    for pod in pods.iter().filter(|pod| pod.text("/status/phase") == "Succeeded") {
        indexes.extend(pod.annotation(INDEX).and_then(|index| index.parse::<i64>().ok()));
    }
    Ended { succeeded: numbers[0], failed: numbers[1], indexes, uncounted: Value::Object(uncounted), release }
}

fn verdict(job: &DynamicObject, ended: &Ended, now: Timestamp) -> Option<(&'static str, &'static str, &'static str)> {
    let open = |kind: &str| ended.uncounted[kind].as_array().map_or(0, |list| i64::try_from(list.len()).unwrap_or_default());
    if ended.failed + open("failed") > job.int("/spec/backoffLimit").unwrap_or(6) {
        return Some(("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let deadline = job.int("/spec/activeDeadlineSeconds").zip(parse_time(job.at("/status/startTime")));
    if let Some((seconds, start)) = deadline
        && now.duration_since(start).as_secs() >= seconds
    {
        return Some(("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let done = ended.succeeded + open("succeeded");
    let enough = match job.int("/spec/completions") {
        Some(_) if is_indexed(job) => ended.indexes.len() as i64 >= job.int("/spec/completions").unwrap_or(1),
        Some(completions) => done >= completions,
        // Without a number the first success decides, once nobody runs any more.
        None => done > 0,
    };
    enough.then_some(("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
}

fn balance(job: &DynamicObject, active: &[&Object], ended: &Ended, pods: &[Object], now: Timestamp, plan: &mut Plan) {
    let parallelism = job.int("/spec/parallelism").unwrap_or(1);
    let open = ended.uncounted["succeeded"].as_array().map_or(0, Vec::len) as i64;
    let wanted = match job.int("/spec/completions") {
        Some(completions) => parallelism.min(completions - ended.succeeded - open),
        None => parallelism,
    };
    let wanted = usize::try_from(wanted).unwrap_or_default();
    if let Some(seconds) = job.int("/spec/activeDeadlineSeconds") {
        let start = parse_time(job.at("/status/startTime")).unwrap_or(now);
        let left = seconds - now.duration_since(start).as_secs();
        plan.again = Some(Duration::from_secs(left.max(1).unsigned_abs()));
    }
    if active.len() > wanted {
        plan.delete = active.iter().skip(wanted).map(|pod| (*pod).clone()).collect();
        return;
    }
    if active.len() == wanted {
        return;
    }
    let failed = ended.failed + ended.uncounted["failed"].as_array().map_or(0, Vec::len) as i64;
    if let Some(left) = backoff(failed, pods, now) {
        plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
        return;
    }
    let missing = wanted - active.len();
    plan.make = if is_indexed(job) {
        let taken: BTreeSet<i64> = active.iter().filter_map(|pod| pod.annotation(INDEX)?.parse().ok()).collect();
        let all = 0..job.int("/spec/completions").unwrap_or(1);
        all.filter(|index| !taken.contains(index) && !ended.indexes.contains(index)).take(missing).map(Some).collect()
    } else {
        vec![None; missing]
    };
}

/// How long to wait after failures before the next pod.
fn backoff(failed: i64, pods: &[Object], now: Timestamp) -> Option<Duration> {
    let last = pods.iter().filter(|pod| pod.text("/status/phase") == "Failed").map(|pod| pod.created()).max()?;
    let doubled = BACKOFF << (failed - 1).clamp(0, 6);
    let until = last.saturating_add(SignedDuration::from_secs(doubled.min(MOST_BACKOFF))).ok()?;
    let left: Duration = until.duration_since(now).try_into().ok()?;
    (!left.is_zero()).then_some(left)
}

fn expire(job: &DynamicObject, conditions: &[Value], now: Timestamp, plan: &mut Plan) {
    let Some(ttl) = job.int("/spec/ttlSecondsAfterFinished") else { return };
    let finished = conditions.iter().find(|one| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True");
    let Some(finished) = finished.and_then(|finished| parse_time(&finished["lastTransitionTime"])) else { return };
    let left = ttl - now.duration_since(finished).as_secs();
    if left <= 0 {
        plan.expired = true;
    } else {
        plan.again = Some(Duration::from_secs(left.unsigned_abs()));
    }
}

fn set(conditions: &mut Vec<Value>, kind: &str, state: &str, reason: &str, message: &str, now: Timestamp) {
    if let Some(present) = conditions.iter_mut().find(|condition| condition["type"] == kind) {
        if present["status"] == state {
            return;
        }
        *present = json!({"type": kind, "status": state, "lastProbeTime": time(now), "lastTransitionTime": time(now), "reason": reason, "message": message});
        return;
    }
    conditions.push(json!({"type": kind, "status": state, "lastProbeTime": time(now), "lastTransitionTime": time(now), "reason": reason, "message": message}));
}

/// Indexes as `1,3-5`.
fn ranges(indexes: &BTreeSet<i64>) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

fn parse_ranges(text: &str) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            // The API admits no more indexes than this.
            indexes.extend(first..=last.min(first + 100_000));
        }
    }
    indexes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7,8"] {
            assert_eq!(ranges(&parse_ranges(text)), text);
        }
    }

    /// KAPI-WL-01: a pod's end is noted, then let go, then counted; then the Job is complete.
    #[test]
    fn ends_are_counted_once() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let job = |status: Value| -> DynamicObject {
            serde_json::from_value(
                json!({"metadata": {"name": "j", "uid": "j"}, "spec": {"completions": 1, "parallelism": 1}, "status": status}),
            )
            .unwrap()
        };
        let pod = |finalizers: Value| -> Object {
            let pod =
                json!({"metadata": {"name": "p", "uid": "p", "finalizers": finalizers}, "spec": {}, "status": {"phase": "Succeeded"}});
            std::sync::Arc::new(serde_json::from_value(pod).unwrap())
        };
        let first = plan(&job(json!({})), &[], now);
        assert_eq!((first.make.len(), &first.status["active"]), (1, &json!(1)));
        let held = [pod(json!([TRACKING]))];
        let noted = plan(&job(first.status), &held, now);
        assert_eq!((noted.release.len(), &noted.status["succeeded"]), (1, &Value::Null));
        assert_eq!(noted.status["conditions"][0]["type"], "SuccessCriteriaMet");
        assert_eq!(noted.status["conditions"][1], Value::Null);
        let counted = plan(&job(noted.status), &[pod(json!([]))], now);
        assert_eq!((&counted.status["succeeded"], &counted.status["conditions"][1]["type"]), (&json!(1), &json!("Complete")));
        let again = plan(&job(counted.status.clone()), &[pod(json!([]))], now);
        assert_eq!(again.status, counted.status);
    }
}
