//! The plan for a CronJob: a pure function of the CronJob, its Jobs and the time (KAPI-WL-01).

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use mainstay_kinds::schedule::Schedule;
use serde_json::{Map, Value, json};

use super::schedule;
use crate::events::Event;
use crate::object::{Object, Read as _, condition, controller_reference, items, parse_time, time};

/// The annotation with the time that a Job was created for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// The number of missed times above which a warning is given.
const MANY: usize = 100;
/// The delay after a due time, so that the clock has certainly passed it.
const AFTER: Duration = Duration::from_millis(100);

/// The plan for a CronJob, in the order of execution.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The events to record.
    pub events: Vec<Event>,
    /// The Jobs that are deleted.
    pub delete: Vec<Object>,
    /// The Job that is created.
    pub make: Option<Start>,
    /// The status, without the new Job.
    pub status: Value,
    /// The time until the next look.
    pub again: Option<Duration>,
}

/// A Job to create.
#[derive(Debug, PartialEq)]
pub struct Start {
    /// The Job.
    pub job: Value,
    /// The time that it is created for.
    pub at: Timestamp,
}

/// Returns the end of a Job: the type of its last condition.
fn ended(job: &DynamicObject) -> Option<&'static str> {
    let conditions = job.at("/status/conditions");
    ["Complete", "Failed"].into_iter().find(|kind| condition(conditions, kind).is_some_and(|one| one["status"] == "True"))
}

/// Decides the next changes.
pub fn plan(cron: &DynamicObject, jobs: &[Object], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    plan.trim_history(cron, jobs);
    let mut state = State::of(cron);
    state.follow(jobs, &mut plan.events);
    if !cron.deleting() {
        plan.schedule(cron, jobs, &mut state, now);
    }
    plan.status = state.status();
    plan
}

/// The state of a plan under construction.
struct State {
    active: Vec<Value>,
    last_schedule: Option<Timestamp>,
    last_success: Option<Timestamp>,
}

impl State {
    fn of(cron: &DynamicObject) -> Self {
        Self {
            active: items(cron, "/status/active").cloned().collect(),
            last_schedule: parse_time(cron.at("/status/lastScheduleTime")),
            last_success: parse_time(cron.at("/status/lastSuccessfulTime")),
        }
    }

    fn follow(&mut self, jobs: &[Object], events: &mut Vec<Event>) {
        for job in jobs {
            let position = self.active.iter().position(|active| active["uid"] == job.uid());
            let end = ended(job);
            match (position, end) {
                (None, None) => {
                    let message = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                    events.push(Event::warning("UnexpectedJob", message));
                }
                (Some(position), Some(end)) => {
                    self.active.remove(position);
                    events.push(Event::normal("SawCompletedJob", format!("Saw completed job: {}, condition: {end}", job.name())));
                }
                _ => {}
            }
            if end == Some("Complete") {
                self.last_success = self.last_success.max(parse_time(job.at("/status/completionTime")));
            }
        }
        self.active.retain(|active| {
            let there = jobs.iter().any(|job| active["uid"] == job.uid());
            if !there {
                let name = active["name"].as_str().unwrap_or_default();
                events.push(Event::normal("MissingJob", format!("Active job went missing: {name}")));
            }
            there
        });
    }

    fn status(self) -> Value {
        let mut status = Map::new();
        if !self.active.is_empty() {
            status.insert("active".into(), Value::Array(self.active));
        }
        for (name, at) in [("lastScheduleTime", self.last_schedule), ("lastSuccessfulTime", self.last_success)] {
            if let Some(at) = at {
                status.insert(name.into(), time(at));
            }
        }
        Value::Object(status)
    }
}

impl Plan {
    /// Deletes the oldest succeeded and the oldest failed Jobs beyond the limits.
    fn trim_history(&mut self, cron: &DynamicObject, jobs: &[Object]) {
        for (end, limit) in [("Complete", "/spec/successfulJobsHistoryLimit"), ("Failed", "/spec/failedJobsHistoryLimit")] {
            let Some(limit) = cron.int(limit).and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let mut over: Vec<&Object> = jobs.iter().filter(|job| ended(job) == Some(end) && !job.deleting()).collect();
            over.sort_by_key(|job| {
                let start = parse_time(job.at("/status/startTime"));
                (start.is_none(), start, job.name().to_owned())
            });
            self.delete.extend(over.iter().take(over.len().saturating_sub(limit)).map(|job| (*job).clone()));
        }
    }

    fn schedule(&mut self, cron: &DynamicObject, jobs: &[Object], state: &mut State, now: Timestamp) {
        let named = cron.text("/spec/timeZone");
        let zone = if named.is_empty() { Ok(TimeZone::UTC) } else { TimeZone::get(named) };
        let Ok(zone) = zone else {
            let message = format!("invalid timeZone: {named:?}: unknown time zone {named}");
            return self.events.push(Event::warning("UnknownTimeZone", message));
        };
        if cron.at("/spec/suspend") == &json!(true) {
            return;
        }
        let text = cron.text("/spec/schedule");
        let schedule = match Schedule::parse(text) {
            Ok(schedule) => schedule,
            Err(problem) => {
                return self.events.push(Event::warning("UnparseableSchedule", format!("unparseable schedule: {text:?} : {problem}")));
            }
        };
        let due = self.due(cron, &schedule, &zone, state.last_schedule, now);
        self.again = Self::wait(&schedule, &zone, due.unwrap_or(now), now);
        let Some(at) = due else { return };
        if let Some(deadline) = cron.int("/spec/startingDeadlineSeconds")
            && now.duration_since(at).as_secs() > deadline
        {
            return self.events.push(Event::warning("MissSchedule", format!("Missed scheduled time to start a job: {}", rfc1123(at))));
        }
        let start = start(cron, &zone, at);
        let name = &start.job["metadata"]["name"];
        if state.last_schedule == Some(at) || state.active.iter().any(|active| active["name"] == *name) {
            return;
        }
        match cron.text("/spec/concurrencyPolicy") {
            "Forbid" if !state.active.is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                return self.events.push(Event::normal("JobAlreadyActive", message));
            }
            "Replace" => {
                let running = jobs.iter().filter(|job| state.active.iter().any(|active| active["uid"] == job.uid()));
                self.delete.extend(running.cloned());
                state.active.clear();
            }
            _ => {}
        }
        self.make = Some(start);
    }

    /// Returns the latest due time since the last one that was followed; earlier missed times are skipped.
    fn due(
        &mut self,
        cron: &DynamicObject,
        schedule: &Schedule,
        zone: &TimeZone,
        last: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut after = last.unwrap_or_else(|| cron.created());
        let deadline = cron.int("/spec/startingDeadlineSeconds");
        if let Some(earliest) = deadline.and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok()) {
            after = after.max(earliest);
        }
        let (due, many) = schedule::last(schedule, zone, after, now, MANY)?;
        if many && deadline.is_none() {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.events.push(Event::warning("TooManyMissedTimes", message));
        }
        Some(due)
    }

    fn wait(schedule: &Schedule, zone: &TimeZone, after: Timestamp, now: Timestamp) -> Option<Duration> {
        let next = schedule::next(schedule, zone, after)?;
        let left: Duration = next.duration_since(now).try_into().unwrap_or_default();
        Some(left + AFTER)
    }
}

fn start(cron: &DynamicObject, zone: &TimeZone, at: Timestamp) -> Start {
    let template = cron.at("/spec/jobTemplate");
    let mut metadata = json!({
        "name": format!("{}-{}", cron.name(), at.as_second() / 60),
        "namespace": cron.namespace(),
        "annotations": template["metadata"]["annotations"].as_object().cloned().unwrap_or_default(),
        "ownerReferences": [controller_reference("batch/v1", "CronJob", cron)],
    });
    if template["metadata"]["labels"].is_object() {
        metadata["labels"] = template["metadata"]["labels"].clone();
    }
    let local = at.to_zoned(zone.clone());
    let written = if zone == &TimeZone::UTC { local.strftime("%Y-%m-%dT%H:%M:%SZ") } else { local.strftime("%Y-%m-%dT%H:%M:%S%:z") };
    metadata["annotations"][SCHEDULED] = json!(written.to_string());
    Start { job: json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}), at }
}

fn rfc1123(at: Timestamp) -> String {
    at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::sync::Arc;

    use super::*;

    const NOW: &str = "2026-01-01T10:00:30Z";

    fn cron(spec: Value, status: Value) -> DynamicObject {
        let mut whole = json!({"schedule": "*/5 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {"spec": {"template": {}}}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": "c", "namespace": "n", "uid": "c", "creationTimestamp": "2026-01-01T09:57:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": whole, "status": status})).unwrap()
    }

    fn job(name: &str, end: Option<&str>) -> Object {
        let mut status = json!({"startTime": format!("2026-01-01T09:0{}:00Z", name.len())});
        if let Some(end) = end {
            status["conditions"] = json!([{"type": end, "status": "True"}]);
            status["completionTime"] = json!("2026-01-01T09:59:00Z");
        }
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap())
    }

    fn decide(cron: &DynamicObject, jobs: &[Object]) -> Plan {
        plan(cron, jobs, NOW.parse().unwrap())
    }

    fn made(plan: &Plan) -> Option<&str> {
        plan.make.as_ref().and_then(|start| start.job["metadata"]["name"].as_str())
    }

    fn reasons(plan: &Plan) -> Vec<&str> {
        plan.events.iter().map(|event| event.reason).collect()
    }

    /// KAPI-WL-01: when a Job is made, and when not.
    #[test]
    fn jobs_are_made_when_due() {
        let active = json!({"active": [{"name": "old", "uid": "old"}]});
        let old = [job("old", None)];
        let cases: [(&str, Value, Value, &[Object], Option<&str>, &[&str]); 11] = [
            ("due", json!({}), json!({}), &[], Some("c-29454360"), &[]),
            ("done already", json!({}), json!({"lastScheduleTime": "2026-01-01T10:00:00Z"}), &[], None, &[]),
            ("missed ones are one", json!({}), json!({"lastScheduleTime": "2026-01-01T08:00:00Z"}), &[], Some("c-29454360"), &[]),
            (
                "missed long",
                json!({}),
                json!({"lastScheduleTime": "2025-12-01T08:00:00Z"}),
                &[],
                Some("c-29454360"),
                &["TooManyMissedTimes"],
            ),
            ("too late", json!({"startingDeadlineSeconds": 20}), json!({}), &[], None, &[]),
            ("in time", json!({"startingDeadlineSeconds": 40}), json!({}), &[], Some("c-29454360"), &[]),
            ("suspended", json!({"suspend": true}), json!({}), &[], None, &[]),
            ("not yet", json!({"schedule": "0 11 * * *"}), json!({}), &[], None, &[]),
            ("forbidden", json!({"concurrencyPolicy": "Forbid"}), active.clone(), &old, None, &["JobAlreadyActive"]),
            ("zone", json!({"schedule": "0 11 * * *", "timeZone": "Europe/Berlin"}), json!({}), &[], Some("c-29454360"), &[]),
            ("no zone", json!({"timeZone": "Mars/Base"}), json!({}), &[], None, &["UnknownTimeZone"]),
        ];
        for (name, spec, status, jobs, expected, told) in cases {
            let plan = decide(&cron(spec, status), jobs);
            assert_eq!((made(&plan), reasons(&plan)), (expected, told.to_vec()), "{name}");
        }
        let replaced = decide(&cron(json!({"concurrencyPolicy": "Replace"}), active), &old);
        assert_eq!((made(&replaced), replaced.delete.as_slice(), &replaced.status), (Some("c-29454360"), &old[..], &json!({})));
        let waits = decide(&cron(json!({}), json!({"lastScheduleTime": "2026-01-01T10:00:00Z"})), &[]).again;
        assert_eq!(waits, Some(Duration::from_millis(270_100)));
    }

    /// KAPI-WL-01: what became of Jobs is told, counted and trimmed.
    #[test]
    fn jobs_are_followed() {
        let jobs = [job("a", Some("Complete")), job("bb", Some("Complete")), job("ccc", Some("Failed")), job("dddd", None)];
        let status =
            json!({"active": [{"name": "a", "uid": "a"}, {"name": "lost", "uid": "lost"}], "lastScheduleTime": "2026-01-01T10:00:00Z"});
        let plan = decide(&cron(json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}), status), &jobs);
        assert_eq!(reasons(&plan), ["SawCompletedJob", "UnexpectedJob", "MissingJob"]);
        let gone: Vec<&str> = plan.delete.iter().map(|job| job.name()).collect();
        assert_eq!(gone, ["a", "ccc"]);
        assert_eq!(plan.status, json!({"lastScheduleTime": "2026-01-01T10:00:00Z", "lastSuccessfulTime": "2026-01-01T09:59:00Z"}));
    }

    /// A Job is told the time it is for, in the zone of its CronJob.
    #[test]
    fn the_scheduled_time_is_annotated() {
        let annotation = |spec: Value| {
            let plan = decide(&cron(spec, json!({})), &[]);
            plan.make.unwrap().job["metadata"]["annotations"][SCHEDULED].clone()
        };
        assert_eq!(annotation(json!({})), "2026-01-01T10:00:00Z");
        assert_eq!(annotation(json!({"timeZone": "Asia/Kathmandu"})), "2026-01-01T15:45:00+05:45");
    }
}
