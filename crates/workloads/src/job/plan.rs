//! The plan for a Job: it counts the pods that ended, creates and deletes pods, and finishes the Job (KAPI-WL-01).
//!
//! ```text
//!   pods ──► counted ──► target (failed, enough) ──► pods go, then the last condition
//!                   └──► balance ──► pods made, pods deleted
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::policy::{self, Meaning, parse_ranges, ranges};
use crate::object::{Object, Read as _, condition, items, parse_time, put, time};
use crate::pod;
use crate::replicaset::plan::{BURST, first_to_go};

/// The finalizer that holds a pod until its end is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an indexed Job, as annotation and label.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Seconds to wait after the first failed pod; doubled with each further one.
const BACKOFF: i64 = 10;
const MOST_BACKOFF: i64 = 600;

/// The plan for a Job, in the order of execution.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The pods that are deleted.
    pub delete: Vec<Object>,
    /// The pods that are created.
    pub make: Vec<Made>,
    /// The status.
    pub status: Value,
    /// The pods whose end is counted in that status, and which are released.
    pub release: Vec<Object>,
    /// True if the Job's own time to live is over, and it is deleted.
    pub expired: bool,
    /// The time until the next look.
    pub again: Option<Duration>,
}

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Its index, if the Job is indexed.
    pub index: Option<i64>,
    /// The earlier failures of that index, if they are counted by index.
    pub failures: Option<i64>,
}

/// The intended end of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    failed: bool,
    reason: String,
    message: String,
}

impl Target {
    fn failed(reason: &str, message: &str) -> Self {
        Self { failed: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn enough(reason: &str, message: &str) -> Self {
        Self { failed: false, reason: reason.to_owned(), message: message.to_owned() }
    }
}

struct Ended {
    succeeded: i64,
    failed: i64,
    indexes: BTreeSet<i64>,
    failed_indexes: BTreeSet<i64>,
    uncounted: Map<String, Value>,
    release: Vec<Object>,
}

impl Ended {
    fn open(&self, kind: &str) -> i64 {
        self.uncounted.get(kind).and_then(Value::as_array).map_or(0, |list| i64::try_from(list.len()).unwrap_or_default())
    }
}

/// Decides the next changes.
pub fn plan(job: &DynamicObject, pods: &[Object], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut conditions = job.at("/status/conditions").as_array().cloned().unwrap_or_default();
    let ended = count(job, pods);
    let over = ["Complete", "Failed"].iter().any(|kind| is_true(&conditions, kind));
    let active: Vec<&Object> = pods.iter().filter(|pod| pod::active(pod)).collect();
    let terminating = pods.iter().filter(|pod| pod.deleting() && !pod::finished(pod)).count();
    let suspended = job.at("/spec/suspend") == &json!(true);
    let mut start = job.at("/status/startTime").clone();
    let all = || active.iter().map(|pod| (*pod).clone()).collect::<Vec<_>>();
    if over {
        plan.delete = all();
        expire(job, &conditions, now, &mut plan);
    } else if let Some(target) = target(job, &conditions, pods, &active, &ended, now) {
        plan.delete = all();
        let (first, last) = if target.failed { ("FailureTarget", "Failed") } else { ("SuccessCriteriaMet", "Complete") };
        set(&mut conditions, first, "True", &target.reason, &target.message, now);
        // The Job is over when all its pods are counted and gone.
        if active.is_empty() && terminating == 0 && ended.uncounted.is_empty() {
            set(&mut conditions, last, "True", &target.reason, &target.message, now);
            expire(job, &conditions, now, &mut plan);
            plan.expired = false;
        }
    } else if suspended {
        plan.delete = all();
        set(&mut conditions, "Suspended", "True", "JobSuspended", "Job suspended", now);
        start = Value::Null;
    } else {
        if condition(&json!(conditions), "Suspended").is_some() {
            set(&mut conditions, "Suspended", "False", "JobResumed", "Job resumed", now);
        }
        if start.is_null() {
            start = time(now);
        }
        balance(job, &active, &ended, pods, terminating, now, &mut plan);
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
    let going = plan.delete.iter().filter(|pod| !pod.text("/spec/nodeName").is_empty()).count();
    status.insert("terminating".into(), json!(terminating + if over { 0 } else { going }));
    let goes = uids(&plan.delete);
    status.insert("ready".into(), json!(active.iter().filter(|pod| pod::ready(pod) && !goes.contains(pod.uid())).count()));
    if is_indexed(job) && !ended.indexes.is_empty() {
        status.insert("completedIndexes".into(), json!(ranges(&ended.indexes)));
    }
    if per_index(job).is_some() {
        status.insert("failedIndexes".into(), json!(ranges(&ended.failed_indexes)));
    }
    status.insert("uncountedTerminatedPods".into(), Value::Object(ended.uncounted));
    plan.status = Value::Object(status);
    plan.release = ended.release;
    plan
}

fn uids(pods: &[Object]) -> HashSet<&str> {
    pods.iter().map(|pod| pod.uid()).collect()
}

fn is_indexed(job: &DynamicObject) -> bool {
    job.text("/spec/completionMode") == "Indexed"
}

fn per_index(job: &DynamicObject) -> Option<i64> {
    job.int("/spec/backoffLimitPerIndex").filter(|_| is_indexed(job))
}

/// Returns true if only pods that have ended are replaced and count as failed; otherwise pods that are being deleted are and do, too.
fn only_ended(job: &DynamicObject) -> bool {
    job.text("/spec/podReplacementPolicy") == "Failed" || job.at("/spec/podFailurePolicy").is_object()
}

fn is_true(conditions: &[Value], kind: &str) -> bool {
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn failed_pod(job: &DynamicObject, pod: &DynamicObject) -> bool {
    match pod.text("/status/phase") {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.deleting() && !only_ended(job),
    }
}

/// Counts pods in steps, so that each is counted once despite interruptions: first its uid is noted in the status, then it is released,
/// then the note becomes part of the count.
fn count(job: &DynamicObject, pods: &[Object]) -> Ended {
    let noted = |kind: &str| -> Vec<String> {
        let list = job.at("/status/uncountedTerminatedPods")[kind].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    };
    let held = |pod: &&Object| pod.metadata.finalizers.iter().flatten().any(|own| own == TRACKING);
    let held: HashMap<&str, &Object> = pods.iter().filter(held).map(|pod| (pod.uid(), pod)).collect();
    let suspended = job.at("/spec/suspend") == &json!(true);
    let completions = job.int("/spec/completions").unwrap_or_default();
    let relevant = |pod: &Object| !is_indexed(job) || policy::index(pod).is_some_and(|index| index < completions);
    let mut uncounted = Map::new();
    let mut numbers = [0, 0];
    let mut release = Vec::new();
    for (position, kind) in ["succeeded", "failed"].into_iter().enumerate() {
        numbers[position] = job.at("/status")[kind].as_i64().unwrap_or_default();
        let mut open = Vec::new();
        for uid in noted(kind) {
            match held.get(uid.as_str()) {
                Some(pod) => {
                    release.push(Object::clone(pod));
                    open.push(uid);
                }
                None => numbers[position] += 1,
            }
        }
        let known: HashSet<String> = open.iter().cloned().collect();
        for pod in pods.iter().filter(|pod| held.contains_key(pod.uid()) && !known.contains(pod.uid())) {
            let ends = match kind {
                "succeeded" => pod.text("/status/phase") == "Succeeded",
                _ => failed_pod(job, pod) && (pod::finished(pod) || !suspended),
            };
            if kind == "failed" && suspended && pod.deleting() && !pod::finished(pod) {
                // The suspension of a Job is not a failure of its pods.
                release.push(pod.clone());
            }
            if ends {
                release.push(pod.clone());
                let counts = kind == "succeeded" || policy::meaning(job, pod) != Meaning::Ignore;
                if counts && (kind == "failed" || relevant(pod)) {
                    open.push(pod.uid().to_owned());
                }
            }
        }
        if !open.is_empty() {
            uncounted.insert(kind.to_owned(), json!(open));
        }
    }
    let mut indexes = parse_ranges(job.text("/status/completedIndexes"));
    indexes.extend(pods.iter().filter(|pod| pod.text("/status/phase") == "Succeeded").filter_map(|pod| policy::index(pod)));
    indexes.retain(|index| *index < completions);
    if is_indexed(job) {
        // An index counts once, however many pods it had.
        numbers[0] = i64::try_from(indexes.len()).unwrap_or_default();
    }
    let mut failed_indexes = BTreeSet::new();
    if let Some(limit) = per_index(job) {
        failed_indexes = parse_ranges(job.text("/status/failedIndexes"));
        let failures = policy::failures(job, pods.iter().filter(|pod| failed_pod(job, pod)));
        failed_indexes.extend(failures.iter().filter(|(_, failed)| failed.times > limit || failed.for_good).map(|(index, _)| *index));
        failed_indexes.retain(|index| *index < completions && !indexes.contains(index));
    }
    Ended { succeeded: numbers[0], failed: numbers[1], indexes, failed_indexes, uncounted, release }
}

fn target(job: &DynamicObject, conditions: &[Value], pods: &[Object], active: &[&Object], ended: &Ended, now: Timestamp) -> Option<Target> {
    // An earlier decision is final.
    for (kind, failed) in [("FailureTarget", true), ("SuccessCriteriaMet", false)] {
        if let Some(present) = conditions.iter().find(|one| one["type"] == kind && one["status"] == "True") {
            let text = |name: &str| present[name].as_str().unwrap_or_default().to_owned();
            return Some(Target { failed, reason: text("reason"), message: text("message") });
        }
    }
    let said = pods.iter().filter(|pod| failed_pod(job, pod)).find_map(|pod| match policy::meaning(job, pod) {
        Meaning::FailJob(message) => Some(message),
        _ => None,
    });
    if let Some(message) = said {
        return Some(Target::failed("PodFailurePolicy", &message));
    }
    let limit = job.int("/spec/backoffLimit").unwrap_or(6);
    if ended.failed + ended.open("failed") > limit || restarted_too_often(job, active, limit) {
        return Some(Target::failed("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let deadline = job.int("/spec/activeDeadlineSeconds").zip(parse_time(job.at("/status/startTime")));
    if let Some((seconds, start)) = deadline
        && now.duration_since(start).as_secs() >= seconds
    {
        return Some(Target::failed("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let completions = job.int("/spec/completions");
    if per_index(job).is_some() {
        let failed = i64::try_from(ended.failed_indexes.len()).unwrap_or_default();
        if job.int("/spec/maxFailedIndexes").is_some_and(|most| failed > most) {
            return Some(Target::failed("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"));
        }
        if failed > 0 && failed + ended.succeeded >= completions.unwrap_or(1) {
            return Some(Target::failed("FailedIndexes", "Job has failed indexes"));
        }
    }
    if is_indexed(job)
        && let Some(position) = policy::success(job, &ended.indexes)
    {
        return Some(Target::enough("SuccessPolicy", &format!("Matched rules at index {position}")));
    }
    let done = if is_indexed(job) { ended.succeeded } else { ended.succeeded + ended.open("succeeded") };
    let enough = match completions {
        Some(completions) => done >= completions,
        // Without `completions`, the first success decides, once no pod is active.
        None => done > 0 && active.is_empty(),
    };
    enough.then(|| Target::enough("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// Returns true if restarts exceed the limit: restarts of containers within their pods count against it as well.
fn restarted_too_often(job: &DynamicObject, active: &[&Object], limit: i64) -> bool {
    if job.text("/spec/template/spec/restartPolicy") != "OnFailure" {
        return false;
    }
    let statuses = active.iter().flat_map(|pod| items(pod, "/status/initContainerStatuses").chain(items(pod, "/status/containerStatuses")));
    let restarts: i64 = statuses.filter_map(|status| status["restartCount"].as_i64()).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn balance(job: &DynamicObject, active: &[&Object], ended: &Ended, pods: &[Object], terminating: usize, now: Timestamp, plan: &mut Plan) {
    let parallelism = job.int("/spec/parallelism").unwrap_or(1);
    let done = if is_indexed(job) { ended.succeeded } else { ended.succeeded + ended.open("succeeded") };
    let wanted = match job.int("/spec/completions") {
        Some(completions) => parallelism.min(completions - done - i64::try_from(ended.failed_indexes.len()).unwrap_or_default()),
        // Once one pod has succeeded, the running ones finish and no more are created.
        None if done > 0 => parallelism.min(i64::try_from(active.len()).unwrap_or_default()),
        None => parallelism,
    };
    let wanted = usize::try_from(wanted).unwrap_or_default();
    if let Some(seconds) = job.int("/spec/activeDeadlineSeconds") {
        let start = parse_time(job.at("/status/startTime")).unwrap_or(now);
        let left = seconds - now.duration_since(start).as_secs();
        plan.again = Some(Duration::from_secs(left.max(1).unsigned_abs()));
    }
    plan.delete = needless(job, active, ended);
    let goes = uids(&plan.delete);
    let kept: Vec<&Object> = active.iter().filter(|pod| !goes.contains(pod.uid())).copied().collect();
    if kept.len() > wanted {
        let mut ranked: Vec<Object> = kept.iter().map(|pod| (*pod).clone()).collect();
        first_to_go(&mut ranked, &|_| 0, now);
        plan.delete.extend(ranked.into_iter().take((kept.len() - wanted).min(BURST)));
        return;
    }
    // Terminating pods may have to be gone first.
    let going = if only_ended(job) { terminating } else { 0 };
    let missing = wanted.saturating_sub(kept.len() + going).min(BURST);
    if missing == 0 {
        return;
    }
    let failed: Vec<&Object> = pods.iter().filter(|pod| failed_pod(job, pod)).collect();
    let mut wait = |left: Duration| plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
    if !is_indexed(job) {
        match backoff(consecutive(pods, &failed), failed.iter().filter_map(|pod| finished_at(pod)).max(), now) {
            Some(left) => wait(left),
            None => plan.make = vec![Made::default(); missing],
        }
        return;
    }
    let whole = backoff(consecutive(pods, &failed), failed.iter().filter_map(|pod| finished_at(pod)).max(), now);
    if let Some(left) = whole.filter(|_| per_index(job).is_none()) {
        return wait(left);
    }
    let blocking = |pod: &&Object| pod::active(pod) || (only_ended(job) && !pod::finished(pod));
    let taken: BTreeSet<i64> = pods.iter().filter(blocking).filter_map(|pod| policy::index(pod)).collect();
    let open = (0..job.int("/spec/completions").unwrap_or(1))
        .filter(|index| !taken.contains(index) && !ended.indexes.contains(index) && !ended.failed_indexes.contains(index));
    let by_index = match per_index(job) {
        Some(_) => policy::failures(job, failed.iter().copied()),
        None => BTreeMap::new(),
    };
    let mut last: HashMap<i64, Timestamp> = HashMap::new();
    for pod in &failed {
        if let (Some(index), Some(at)) = (policy::index(pod), finished_at(pod)) {
            last.entry(index).and_modify(|latest| *latest = at.max(*latest)).or_insert(at);
        }
    }
    let mut make = Vec::new();
    for index in open {
        if make.len() == missing {
            break;
        }
        let mut made = Made { index: Some(index), failures: None };
        if per_index(job).is_some() {
            let failures = by_index.get(&index).map_or(0, |failed| failed.times);
            if let Some(left) = backoff(failures, last.get(&index).copied(), now) {
                wait(left);
                continue;
            }
            made.failures = Some(failures);
        }
        make.push(made);
    }
    plan.make = make;
}

/// Returns the pods of indexes that are done, given up, no longer requested, or duplicated.
fn needless(job: &DynamicObject, active: &[&Object], ended: &Ended) -> Vec<Object> {
    if !is_indexed(job) {
        return Vec::new();
    }
    let completions = job.int("/spec/completions").unwrap_or(1);
    let mut seen = BTreeSet::new();
    let mut needless = Vec::new();
    for pod in active {
        let useful = policy::index(pod).is_some_and(|index| {
            index < completions && !ended.indexes.contains(&index) && !ended.failed_indexes.contains(&index) && seen.insert(index)
        });
        if !useful {
            needless.push((*pod).clone());
        }
    }
    needless
}

/// Returns the number of failures since the last success.
fn consecutive(pods: &[Object], failed: &[&Object]) -> i64 {
    let success = pods.iter().filter(|pod| pod.text("/status/phase") == "Succeeded").filter_map(|pod| finished_at(pod)).max();
    i64::try_from(failed.iter().filter(|pod| finished_at(pod) > success).count()).unwrap_or_default()
}

/// Returns the end of a pod: the end of the last of its containers, or the closest known time.
fn finished_at(pod: &DynamicObject) -> Option<Timestamp> {
    let ends = items(pod, "/status/containerStatuses").filter_map(|status| parse_time(status.pointer("/state/terminated/finishedAt")?));
    let unready = || condition(pod.at("/status/conditions"), "Ready").and_then(|ready| parse_time(&ready["lastTransitionTime"]));
    ends.max().or_else(unready).or_else(|| pod.metadata.deletion_timestamp.as_ref().map(|at| at.0)).or_else(|| Some(pod.created()))
}

/// Returns the time to wait after failures before the next pod.
fn backoff(failures: i64, last: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    if failures <= 0 {
        return None;
    }
    let doubled = BACKOFF << (failures - 1).clamp(0, 6);
    let until = last?.saturating_add(SignedDuration::from_secs(doubled.min(MOST_BACKOFF))).ok()?;
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
    let next = json!({
        "type": kind, "status": state, "lastProbeTime": time(now), "lastTransitionTime": time(now), "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(present) if present["status"] == state => {}
        Some(present) => *present = next,
        None => conditions.push(next),
    }
}

#[cfg(test)]
mod tests;
