//! What a Job does next: counts what ended, makes and deletes pods, ends (KAPI-WL-01).
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

/// Holds a pod until its end is counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an indexed Job, as annotation and label.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The wait after the first failed pod; doubled with each further one.
const BACKOFF: i64 = 10;
const MOST_BACKOFF: i64 = 600;
/// What to do, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Pods that go.
    pub delete: Vec<Object>,
    /// Pods to be made.
    pub make: Vec<Made>,
    /// The status.
    pub status: Value,
    /// Pods whose end is counted in that status: they are let go.
    pub release: Vec<Object>,
    /// The Job's own time is over: it is deleted.
    pub expired: bool,
    /// When to look again.
    pub again: Option<Duration>,
}

/// A pod to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Its index, where the Job is indexed.
    pub index: Option<i64>,
    /// How often that index failed before, where it is counted by index.
    pub failures: Option<i64>,
}

/// How a Job is to end.
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

/// Decides.
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

/// Whether only pods that have ended are replaced, and count as failed; else those that are being deleted do, too.
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

/// Counts pods in two steps, so that a pod is counted once whatever happens between: first its uid is noted in the status, then it
/// is let go, then the note becomes part of the count.
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
                // Suspending a Job is no failure of its pods.
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
    // What was decided once stays.
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
        // Without a number the first success decides, once nobody runs any more.
        None => done > 0 && active.is_empty(),
    };
    enough.then(|| Target::enough("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// Containers that are started again in their pods count against the limit as well.
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
        // Once one succeeded, those that run finish and no more are made.
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
    // Those that are still going may have to be gone first.
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

/// Pods of indexes that are done, given up, not asked for any more, or there twice.
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

/// Failures since the last success.
fn consecutive(pods: &[Object], failed: &[&Object]) -> i64 {
    let success = pods.iter().filter(|pod| pod.text("/status/phase") == "Succeeded").filter_map(|pod| finished_at(pod)).max();
    i64::try_from(failed.iter().filter(|pod| finished_at(pod) > success).count()).unwrap_or_default()
}

/// When a pod ended: the end of the last of its containers, or else what comes nearest.
fn finished_at(pod: &DynamicObject) -> Option<Timestamp> {
    let ends = items(pod, "/status/containerStatuses").filter_map(|status| parse_time(status.pointer("/state/terminated/finishedAt")?));
    let unready = || condition(pod.at("/status/conditions"), "Ready").and_then(|ready| parse_time(&ready["lastTransitionTime"]));
    ends.max().or_else(unready).or_else(|| pod.metadata.deletion_timestamp.as_ref().map(|at| at.0)).or_else(|| Some(pod.created()))
}

/// How long to wait after failures before the next pod.
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::body;
    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";

    /// A Job whose plans are carried out, with pods that end as they are told.
    struct Simulation {
        job: DynamicObject,
        pods: Vec<Value>,
        now: Timestamp,
        made: usize,
    }

    impl Simulation {
        fn of(spec: Value) -> Self {
            let mut whole =
                json!({"completions": 1, "parallelism": 1, "backoffLimit": 6, "template": {"spec": {"restartPolicy": "Never"}}});
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let job = serde_json::from_value(json!({"metadata": {"name": "j", "namespace": "n", "uid": "j"}, "spec": whole})).unwrap();
            Self { job, pods: Vec::new(), now: START.parse().unwrap(), made: 0 }
        }

        fn objects(&self) -> Vec<Object> {
            self.pods.iter().map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap())).collect()
        }

        /// Carries out plans until nothing is to be done now.
        fn settle(&mut self) -> Plan {
            for _ in 0..50 {
                let plan = plan(&self.job, &self.objects(), self.now);
                let idle =
                    plan.delete.is_empty() && plan.make.is_empty() && plan.release.is_empty() && *self.job.at("/status") == plan.status;
                for gone in &plan.delete {
                    let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["uid"] == gone.uid()).unwrap();
                    pod["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
                    pod["status"]["phase"] = json!("Failed");
                }
                for made in &plan.make {
                    self.made += 1;
                    let mut pod = body(&self.job, *made);
                    let name = format!("p{}", self.made);
                    pod["metadata"]["name"] = json!(name);
                    pod["metadata"]["uid"] = json!(name);
                    pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                    pod["status"] = json!({"phase": "Running"});
                    self.pods.push(pod);
                }
                self.job.data["status"] = plan.status.clone();
                for released in &plan.release {
                    let pod = self.pods.iter_mut().find(|pod| pod["metadata"]["uid"] == released.uid()).unwrap();
                    pod["metadata"]["finalizers"] = json!([]);
                }
                self.pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null() || pod["metadata"]["finalizers"] != json!([]));
                if idle {
                    return plan;
                }
            }
            unreachable!("a Job never comes to rest: {}", self.job.data)
        }

        fn running(&self) -> Vec<usize> {
            (0..self.pods.len()).filter(|at| self.pods[*at]["status"]["phase"] == "Running").collect()
        }

        fn end(&mut self, at: usize, code: i64) {
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            let finished = json!({"exitCode": code, "finishedAt": self.now.to_string()});
            self.pods[at]["status"] = json!({"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": finished}}]});
        }

        /// Ends all that run, waiting out every back-off, until the Job is over.
        fn run(&mut self, code: impl Fn(&Value) -> i64) -> String {
            for _ in 0..60 {
                let plan = self.settle();
                let over =
                    condition(self.job.at("/status/conditions"), "Complete").or(condition(self.job.at("/status/conditions"), "Failed"));
                if let Some(over) = over {
                    return over["reason"].as_str().unwrap().to_owned();
                }
                let running = self.running();
                if running.is_empty() {
                    // Something is waited for.
                    self.now += SignedDuration::try_from(plan.again.unwrap()).unwrap();
                }
                for at in running {
                    let code = code(&self.pods[at]);
                    self.end(at, code);
                }
            }
            unreachable!("a Job never ends: {}", self.job.data)
        }

        fn status(&self, name: &str) -> Value {
            self.job.at("/status")[name].clone()
        }
    }

    fn index_of(pod: &Value) -> i64 {
        pod["metadata"]["annotations"][INDEX].as_str().unwrap().parse().unwrap()
    }

    type Code = fn(&Value) -> i64;

    /// KAPI-WL-01: how Jobs end, and what their status counts then.
    #[test]
    fn jobs_end() {
        let indexed = |more: Value| {
            let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let fail_job = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]});
        let ignore = json!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}}]});
        let cases: [(&str, Value, Code, &str, Value, Value); 11] = [
            ("one", json!({}), |_| 0, "CompletionsReached", json!(1), Value::Null),
            ("many", json!({"completions": 7, "parallelism": 3}), |_| 0, "CompletionsReached", json!(7), Value::Null),
            ("queue", json!({"completions": null, "parallelism": 3}), |_| 0, "CompletionsReached", json!(3), Value::Null),
            ("never well", json!({"backoffLimit": 2}), |_| 1, "BackoffLimitExceeded", Value::Null, json!(3)),
            ("indexed", indexed(json!({})), |_| 0, "CompletionsReached", json!(4), Value::Null),
            ("failure policy", json!({"podFailurePolicy": fail_job}), |_| 3, "PodFailurePolicy", Value::Null, json!(1)),
            (
                "an index fails",
                indexed(json!({"backoffLimitPerIndex": 1})),
                |pod| i64::from(index_of(pod) == 1),
                "FailedIndexes",
                json!(3),
                json!(2),
            ),
            (
                "too many indexes fail",
                indexed(json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1})),
                |_| 1,
                "MaxFailedIndexesExceeded",
                Value::Null,
                json!(2),
            ),
            (
                "an index fails at once",
                indexed(json!({"backoffLimitPerIndex": 3, "podFailurePolicy": ignore})),
                |pod| 3 * i64::from(index_of(pod) == 2),
                "FailedIndexes",
                json!(3),
                json!(1),
            ),
            (
                "enough succeed",
                indexed(json!({"successPolicy": {"rules": [{"succeededCount": 2}]}})),
                |_| 0,
                "SuccessPolicy",
                json!(2),
                Value::Null,
            ),
            (
                "the leader succeeds",
                indexed(json!({"parallelism": 4, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}})),
                |pod| i64::from(index_of(pod) != 0),
                "SuccessPolicy",
                json!(1),
                json!(3),
            ),
        ];
        for (name, spec, code, reason, succeeded, failed) in cases {
            let mut job = Simulation::of(spec);
            assert_eq!(job.run(code), reason, "{name}");
            assert_eq!((job.status("succeeded"), job.status("failed")), (succeeded, failed), "{name}");
            assert_eq!((job.status("active"), job.status("uncountedTerminatedPods")), (Value::Null, json!({})), "{name}");
            let before = job.job.data.clone();
            job.settle();
            assert_eq!(job.job.data, before, "{name}");
        }
    }

    /// KAPI-WL-01: conditions come in order: first the decision, then, when all is counted, the end.
    #[test]
    fn conditions_come_in_order() {
        let mut job = Simulation::of(json!({}));
        job.settle();
        job.end(0, 0);
        let noted = plan(&job.job, &job.objects(), job.now);
        assert_eq!(
            (noted.release.len(), &noted.status["succeeded"], &noted.status["conditions"][0]["type"]),
            (1, &Value::Null, &json!("SuccessCriteriaMet"))
        );
        assert_eq!(noted.status["conditions"][1], Value::Null);
        job.settle();
        assert_eq!(job.status("conditions")[1]["type"], "Complete");
        assert_eq!(job.status("completionTime"), START);
    }

    /// KAPI-WL-01: a suspended Job has no pods and no start; resumed it begins anew.
    #[test]
    fn jobs_are_suspended() {
        let mut job = Simulation::of(json!({"parallelism": 2, "completions": 2}));
        job.settle();
        assert_eq!(job.status("active"), 2);
        job.job.data["spec"]["suspend"] = json!(true);
        job.settle();
        assert_eq!((job.status("active"), job.status("startTime"), job.pods.len()), (Value::Null, Value::Null, 0));
        assert_eq!(job.status("conditions")[0]["reason"], "JobSuspended");
        job.job.data["spec"]["suspend"] = json!(false);
        job.settle();
        assert_eq!((job.status("active"), job.status("conditions")[0]["reason"].clone()), (json!(2), json!("JobResumed")));
    }

    /// KAPI-WL-01: what has ended long enough is deleted; a Job that takes too long fails.
    #[test]
    fn time_runs_out() {
        let mut job = Simulation::of(json!({"ttlSecondsAfterFinished": 60}));
        job.run(|_| 0);
        assert_eq!((job.settle().expired, job.settle().again), (false, Some(Duration::from_secs(60))));
        job.now += SignedDuration::from_secs(60);
        assert!(plan(&job.job, &job.objects(), job.now).expired);
        let mut slow = Simulation::of(json!({"activeDeadlineSeconds": 30}));
        slow.settle();
        slow.now += SignedDuration::from_secs(30);
        slow.settle();
        assert_eq!(condition(&slow.status("conditions"), "Failed").unwrap()["reason"], "DeadlineExceeded");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// KAPI-WL-01: whatever ends when, never more pods run than wanted, and every end is counted once.
        #[test]
        fn ends_are_counted_once(completions in 1..8_i64, parallelism in 1..5_i64, indexed: bool, ends in prop::collection::vec((0..8_usize, 0..4_i64), 1..40)) {
            let mode = if indexed { "Indexed" } else { "NonIndexed" };
            let mut job = Simulation::of(json!({"completions": completions, "parallelism": parallelism, "completionMode": mode, "backoffLimit": 1000}));
            let (mut succeeded, mut failed) = (0, 0);
            for (which, code) in ends {
                job.settle();
                let running = job.running();
                prop_assert!(running.len() as i64 <= parallelism.min(completions - succeeded));
                if running.is_empty() {
                    job.now += SignedDuration::from_secs(MOST_BACKOFF);
                    continue;
                }
                job.end(running[which % running.len()], i64::from(code == 0));
                if code == 0 { failed += 1 } else { succeeded += 1 }
            }
            job.settle();
            let number = |name: &str| job.status(name).as_i64().unwrap_or_default();
            prop_assert_eq!((number("succeeded"), number("failed")), (succeeded, failed));
            let complete = condition(&job.status("conditions"), "Complete").is_some();
            prop_assert_eq!(complete, succeeded == completions);
        }
    }
}
