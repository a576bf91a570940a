//! Jobs that are carried out step by step, and tables of their ends.
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
        let mut whole = json!({"completions": 1, "parallelism": 1, "backoffLimit": 6, "template": {"spec": {"restartPolicy": "Never"}}});
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
            let idle = plan.delete.is_empty() && plan.make.is_empty() && plan.release.is_empty() && *self.job.at("/status") == plan.status;
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
            let over = condition(self.job.at("/status/conditions"), "Complete").or(condition(self.job.at("/status/conditions"), "Failed"));
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
