//! Pods whose containers are processes of an imagined machine, moment by moment.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tables of cases")]
use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use proptest::prelude::*;

use super::super::super::behaviour::{Behaviour, Conduct, Script};
use super::super::super::plan::{Kubelet, Place, Plan, Step, plan};
use super::*;

const START: &str = "2026-01-01T10:00:00Z";

/// A pod on a machine that does what it is told at once.
struct Imagined {
    pod: Value,
    now: Timestamp,
    processes: BTreeMap<String, Process>,
    started: Vec<String>,
    gone: bool,
}

impl Imagined {
    fn of(spec: Value) -> Self {
        let mut whole = json!({"restartPolicy": "Always", "containers": [{"name": "main", "image": "app:1"}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": whole});
        Self { pod, now: START.parse().unwrap(), processes: BTreeMap::new(), started: Vec::new(), gone: false }
    }

    fn names(&self) -> Vec<String> {
        let lists = ["initContainers", "containers"];
        lists
            .iter()
            .flat_map(|list| self.pod["spec"][*list].as_array().into_iter().flatten())
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn planned(&self) -> Plan {
        let pod: DynamicObject = serde_json::from_value(self.pod.clone()).unwrap();
        let mut behaviour = Behaviour::of(&pod, &Script::default(), &|_| None);
        for name in self.names() {
            let process = self.processes.get(&name).cloned().unwrap_or(Process::Absent);
            behaviour.containers.insert(name, Conduct { process: Some(process), ..Conduct::RUNS });
        }
        let place = Place { kubelet: Kubelet::Working, host_ip: "172.31.0.2".into(), pod_ip: Some("10.244.0.1".into()) };
        plan(&pod, &place, &behaviour, self.now)
    }

    /// Plans and acts until nothing is left to do at this moment.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            let Plan { step, orders } = self.planned();
            let mut acted = false;
            for (name, start) in orders.start {
                let id = format!("process://{name}-{}-{}", start.attempt, self.started.len());
                self.started.push(format!("{name}#{}", start.attempt));
                let run = Run { id, pid: 7, attempt: start.attempt, since: self.now, last: start.last };
                self.processes.insert(name, Process::Running { run, started: true, ready: true });
                acted = true;
            }
            for name in self.names() {
                if (orders.stop_all || orders.stop.contains(&name)) && matches!(self.processes.get(&name), Some(Process::Running { .. })) {
                    self.ends(&name, 143);
                    acted = true;
                }
            }
            match step {
                Step::Report(status, _) if !acted => {
                    self.pod["status"] = status;
                    acted = true;
                }
                Step::Remove if !acted => self.gone = true,
                _ => {}
            }
            if !acted || self.gone {
                return self;
            }
        }
        panic!("it never settles: {:#}", self.pod["status"]);
    }

    fn ends(&mut self, name: &str, code: i32) -> &mut Self {
        let exit = Exit { code, message: "told".into(), at: self.now };
        if let Some(Process::Running { run, .. }) = self.processes.get(name).cloned() {
            self.processes.insert(name.to_owned(), Process::Ended { run, exit });
        }
        self
    }

    fn pass(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self.settle()
    }

    fn status(&self, name: &str) -> &Value {
        let lists = ["initContainerStatuses", "containerStatuses"];
        lists.iter().flat_map(|list| self.pod["status"][*list].as_array().into_iter().flatten()).find(|one| one["name"] == name).unwrap()
    }

    fn phase(&self) -> &str {
        self.pod["status"]["phase"].as_str().unwrap()
    }

    fn alive(&self) -> usize {
        self.processes.values().filter(|process| matches!(process, Process::Running { .. })).count()
    }
}

/// KAPI-WL-07: a process that ends restarts at once, then with back-off, and at once again after it has run long; its exit stays visible.
#[test]
fn processes_restart() {
    let mut pod = Imagined::of(json!({}));
    pod.settle();
    assert_eq!((pod.phase(), &pod.status("main")["ready"]), ("Running", &json!(true)));
    assert!(pod.status("main")["containerID"].as_str().unwrap().starts_with("process://main-0"));
    pod.ends("main", 3).settle();
    assert_eq!(pod.started, ["main#0", "main#1"]);
    let last = &pod.status("main")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["reason"], &last["message"]), (&json!(3), &json!("Error"), &json!("told")));
    pod.ends("main", 3).settle();
    assert_eq!((pod.started.len(), pod.status("main")["state"]["waiting"]["reason"].as_str()), (2, Some("CrashLoopBackOff")));
    pod.pass(9);
    assert_eq!(pod.started.len(), 2);
    pod.pass(1);
    assert_eq!((pod.started.last().map(String::as_str), &pod.status("main")["restartCount"]), (Some("main#2"), &json!(2)));
    pod.pass(700).ends("main", 0).settle();
    assert_eq!(pod.started.last().map(String::as_str), Some("main#3"), "it ran long");
}

/// KAPI-WL-07: restart policies, init containers and sidecars hold for processes; a finished pod has none left.
#[test]
fn pods_of_processes_finish() {
    for (policy, code, phase, runs) in
        [("Never", 0, "Succeeded", 1), ("Never", 5, "Failed", 1), ("OnFailure", 0, "Succeeded", 1), ("OnFailure", 5, "Running", 2)]
    {
        let mut pod = Imagined::of(json!({"restartPolicy": policy}));
        pod.settle().ends("main", code).settle();
        assert_eq!((pod.phase(), pod.started.len()), (phase, runs), "{policy} {code}");
    }
    let mut pod = Imagined::of(
        json!({"restartPolicy": "Never", "initContainers": [{"name": "first", "image": "i:1"}, {"name": "side", "image": "s:1", "restartPolicy": "Always"}]}),
    );
    pod.settle();
    assert_eq!(pod.started, ["first#0"]);
    pod.ends("first", 0).settle();
    assert_eq!(pod.started, ["first#0", "side#0", "main#0"]);
    pod.ends("main", 0).settle();
    assert_eq!((pod.phase(), pod.alive()), ("Succeeded", 0), "the sidecar was stopped");
    assert_eq!(pod.status("side")["state"]["terminated"]["exitCode"], 143);
    let mut late = Imagined::of(json!({"activeDeadlineSeconds": 5}));
    late.settle().pass(5);
    assert_eq!((late.phase(), late.alive(), &late.pod["status"]["reason"]), ("Failed", 0, &json!("DeadlineExceeded")));
}

/// KAPI-WL-07: after a restart of the program a process is started again, and its end before is shown as unseen; a finished one stays.
#[test]
fn processes_come_back() {
    let mut pod = Imagined::of(json!({}));
    pod.settle();
    pod.processes.clear();
    pod.pass(60);
    assert_eq!((pod.started.len(), &pod.status("main")["restartCount"]), (2, &json!(1)));
    assert_eq!(pod.status("main")["lastState"]["terminated"]["reason"], "Unknown");
    let mut done = Imagined::of(json!({"restartPolicy": "Never"}));
    done.settle().ends("main", 0).settle();
    done.processes.clear();
    done.pass(60);
    assert_eq!((done.started.len(), done.phase()), (1, "Succeeded"));
}

/// KAPI-WL-07: a process that cannot start waits with its reason, and is tried again after a while.
#[test]
fn blocked_processes_try_again() {
    let mut pod = Imagined::of(json!({}));
    let blocked = Process::Blocked { reason: "CreateContainerConfigError", message: "secret \"s\" not found".into(), since: pod.now };
    pod.processes.insert("main".into(), blocked);
    pod.settle();
    let waiting = &pod.status("main")["state"]["waiting"];
    assert_eq!((&waiting["reason"], &waiting["message"]), (&json!("CreateContainerConfigError"), &json!("secret \"s\" not found")));
    assert_eq!((pod.started.len(), pod.phase()), (0, "Pending"));
    pod.pass(10);
    assert_eq!((pod.started.as_slice(), pod.phase()), (&["main#0".to_owned()][..], "Running"));
}

proptest! {
    /// KAPI-WL-07: random ends of a pod's processes and restarts of this program: the pod settles, attempts never go back, and a
    /// deleted pod is gone when no process is left, not before.
    #[test]
    fn pods_of_processes_settle(policy in 0..3_usize, steps in prop::collection::vec((0..4_u8, 0..3_usize, 0..40_i64), 0..30)) {
        let policy = ["Always", "OnFailure", "Never"][policy];
        let mut pod = Imagined::of(json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}], "initContainers": [{"name": "i", "image": "i:1"}]}));
        pod.settle();
        let mut highest = 0;
        for (what, which, seconds) in steps {
            let name = ["a", "b", "i"][which];
            match what {
                0 => { pod.ends(name, 0); }
                1 => { pod.ends(name, 1); }
                2 => pod.processes.clear(),
                _ => {}
            }
            pod.pass(seconds);
            let attempts: i64 = pod.pod["status"]["containerStatuses"].as_array().into_iter().flatten().map(|one| one["restartCount"].as_i64().unwrap()).sum();
            prop_assert!(attempts >= highest);
            highest = attempts;
            if matches!(pod.phase(), "Succeeded" | "Failed") {
                prop_assert_eq!(pod.alive(), 0);
            }
        }
        pod.pod["metadata"]["deletionTimestamp"] = json!(pod.now.to_string());
        pod.pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if pod.alive() > 0 {
            let Plan { step, orders } = pod.planned();
            prop_assert_eq!((step, orders.stop_all), (Step::Rest(None), true));
        }
        pod.settle();
        prop_assert!(pod.gone && pod.alive() == 0);
    }
}
