//! Pods whose plans are carried out, second by second.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
use super::super::behaviour::{FAULT, Script};
use super::*;

const START: &str = "2026-01-01T10:00:00Z";

struct Simulation {
    pod: Value,
    now: Timestamp,
    script: Script,
    place: Place,
    events: Vec<Event>,
}

impl Simulation {
    fn of(spec: Value, fault: &str) -> Self {
        let mut whole = json!({"restartPolicy": "Always", "containers": [{"name": "main", "image": "app:1", "command": ["work"]}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let metadata = json!({"name": "p", "namespace": "n", "uid": "u", "annotations": {FAULT: fault}});
        Self {
            pod: json!({"metadata": metadata, "spec": whole}),
            now: START.parse().unwrap(),
            script: Script::default(),
            place: Place { kubelet: Kubelet::Working, host_ip: "172.31.0.2".into(), pod_ip: Some("10.244.0.1".into()) },
            events: Vec::new(),
        }
    }

    /// Lets so many seconds pass, doing what is asked when it is asked.
    fn pass(&mut self, seconds: i64) -> &mut Self {
        let end = self.now + SignedDuration::from_secs(seconds);
        loop {
            let pod: DynamicObject = serde_json::from_value(self.pod.clone()).unwrap();
            let behaviour = Behaviour::of(&pod, &self.script, &|_| None);
            let again = match plan(&pod, &self.place, &behaviour, self.now).step {
                Step::Report(status, again) => {
                    self.events.extend(told(&pod, &status, &behaviour));
                    self.pod["status"] = status;
                    again
                }
                Step::Rest(again) => again,
                Step::Remove => {
                    self.pod["gone"] = json!(true);
                    None
                }
            };
            let Some(next) = again.map(|again| later(self.now, again)).filter(|next| *next <= end) else {
                self.now = end;
                return self;
            };
            self.now = next.max(self.now + SignedDuration::from_millis(1));
        }
    }

    fn phase(&self) -> &str {
        self.pod["status"]["phase"].as_str().unwrap()
    }

    fn waits(&self) -> &str {
        self.pod.pointer("/status/containerStatuses/0/state/waiting/reason").and_then(Value::as_str).unwrap_or_default()
    }

    fn restarts(&self) -> i64 {
        self.pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap()
    }

    fn condition(&self, kind: &str) -> &str {
        condition(&self.pod["status"]["conditions"], kind).and_then(|one| one["status"].as_str()).unwrap_or_default()
    }

    fn told(&self, reason: &str) -> usize {
        self.events.iter().filter(|event| event.reason == reason).count()
    }
}

/// KAPI-WL-03: pods run, wait, end and fail as their script and restart policy say.
#[test]
fn pods_live() {
    let job = |policy: &str| json!({"restartPolicy": policy});
    let never = |container: Value| json!({"restartPolicy": "Never", "containers": [container]});
    let cases: [(&str, Value, &str, i64, &str, &str, i64); 16] = [
        ("runs at once", json!({}), "", 0, "Running", "", 0),
        ("late", json!({}), "slow-start=10s", 9, "Pending", "ContainerCreating", 0),
        ("late but there", json!({}), "slow-start=10s", 10, "Running", "", 0),
        ("job", job("Never"), "", 0, "Succeeded", "", 0),
        ("job that takes long", job("Never"), "run-for=5s", 4, "Running", "", 0),
        ("job that is done", job("Never"), "run-for=5s", 5, "Succeeded", "", 0),
        ("job that fails", job("Never"), "exit-code=3", 0, "Failed", "", 0),
        ("server that is not restarted", never(json!({"name": "main", "image": "app:1"})), "", 60, "Running", "", 0),
        ("its words say when", never(json!({"name": "main", "image": "sh:1", "command": ["sleep", "5"]})), "", 4, "Running", "", 0),
        ("its words say how", never(json!({"name": "main", "image": "sh:1", "command": ["sh", "-c", "exit 3"]})), "", 0, "Failed", "", 0),
        ("job that tries again", job("OnFailure"), "exit-code=3", 0, "Running", "CrashLoopBackOff", 1),
        ("no image", json!({}), "image-pull", 0, "Pending", "ErrImagePull", 0),
        ("still no image", json!({}), "image-pull", 30, "Pending", "ImagePullBackOff", 0),
        ("crashes", json!({}), "crash-loop", 0, "Running", "CrashLoopBackOff", 1),
        // After 10, 20 and 40 seconds more.
        ("crashes on", json!({}), "crash-loop", 75, "Running", "CrashLoopBackOff", 4),
        ("too long", json!({"activeDeadlineSeconds": 5}), "", 6, "Failed", "", 0),
    ];
    for (name, spec, fault, seconds, phase, waits, restarts) in cases {
        let mut simulation = Simulation::of(spec, fault);
        simulation.pass(seconds);
        assert_eq!((simulation.phase(), simulation.waits(), simulation.restarts()), (phase, waits, restarts), "{name}");
        // Nothing is written twice.
        let before = simulation.pod.clone();
        simulation.pass(0);
        assert_eq!(simulation.pod, before, "{name}");
    }
}

/// KAPI-WL-03: init containers in order, sidecars beside, and what their failures mean.
#[test]
fn init_containers_come_first() {
    let init = json!([
        {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}, {"name": "setup", "image": "setup:1"},
    ]);
    let spec = json!({"initContainers": init});
    let mut well = Simulation::of(spec.clone(), "");
    well.pass(0);
    assert_eq!(well.phase(), "Running");
    assert_eq!(well.pod["status"]["initContainerStatuses"][0]["state"]["running"]["startedAt"], START);
    assert_eq!(well.pod["status"]["initContainerStatuses"][1]["state"]["terminated"]["exitCode"], 0);
    assert_eq!((well.condition("Initialized"), well.condition("Ready")), ("True", "True"));
    let mut slow = Simulation::of(spec.clone(), "setup:run-for=5s");
    slow.pass(4);
    assert_eq!((slow.phase(), slow.waits(), slow.condition("Initialized")), ("Pending", "PodInitializing", "False"));
    slow.pass(1);
    assert_eq!(slow.phase(), "Running");
    let mut job = Simulation::of(json!({"initContainers": init, "restartPolicy": "Never"}), "");
    job.pass(0);
    assert_eq!(job.phase(), "Succeeded");
    assert_eq!(job.pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    let mut fails = Simulation::of(json!({"initContainers": init, "restartPolicy": "Never"}), "setup:exit-code=2");
    fails.pass(0);
    assert_eq!(fails.phase(), "Failed");
    let mut again = Simulation::of(spec, "setup:exit-code=2");
    again.pass(15);
    assert_eq!(again.phase(), "Pending");
    assert_eq!(again.pod["status"]["initContainerStatuses"][1]["restartCount"], 2);
}

/// KAPI-WL-03: readiness is withheld by scripts and by gates.
#[test]
fn readiness_is_withheld() {
    let mut never = Simulation::of(json!({}), "never-ready");
    never.pass(60);
    assert_eq!((never.phase(), never.condition("Ready"), never.told("Unhealthy")), ("Running", "False", 1));
    let mut gated = Simulation::of(json!({"readinessGates": [{"conditionType": "example.com/x"}]}), "");
    gated.pass(0);
    assert_eq!((gated.condition("ContainersReady"), gated.condition("Ready")), ("True", "False"));
    gated.pod["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "example.com/x", "status": "True"}));
    assert_eq!(gated.pass(0).condition("Ready"), "True");
}

/// KAPI-WL-03: deletion is graceful, and seen by whoever holds the pod.
#[test]
fn pods_stop() {
    let delete = |simulation: &mut Simulation, finalizers: Value| {
        simulation.pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T10:00:30Z");
        simulation.pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        simulation.pod["metadata"]["finalizers"] = finalizers;
    };
    let mut slow = Simulation::of(json!({}), "slow-stop=20s");
    slow.pass(0);
    delete(&mut slow, json!([]));
    assert_eq!(slow.pass(19).pod["gone"], Value::Null);
    assert_eq!(slow.pass(1).pod["gone"], true);
    let mut held = Simulation::of(json!({}), "");
    held.pass(0);
    delete(&mut held, json!(["example.com/x"]));
    held.pass(0);
    assert_eq!((held.phase(), &held.pod["gone"]), ("Failed", &Value::Null));
    assert_eq!(held.pass(0).pod["gone"], true);
}

/// KAPI-WL-03: nobody touches the pods of a silent node, whoever marks or deletes them, until it is heard of again.
#[test]
fn silence_leaves_pods_alone() {
    let mut lost = Simulation::of(json!({}), "");
    lost.pass(0);
    lost.place.kubelet = Kubelet::Silent;
    let ready = |pod: &mut Value| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.iter_mut().find(|one| one["type"] == "Ready").unwrap()["status"] = json!("False");
    };
    ready(&mut lost.pod);
    assert_eq!(lost.pass(60).condition("Ready"), "False");
    lost.place.kubelet = Kubelet::Working;
    assert_eq!(lost.pass(0).condition("Ready"), "True");
    lost.place.kubelet = Kubelet::Silent;
    lost.pod["metadata"]["deletionTimestamp"] = json!(lost.now.to_string());
    lost.pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    assert_eq!(lost.pass(600).pod["gone"], Value::Null);
    lost.place.kubelet = Kubelet::Working;
    assert_eq!(lost.pass(0).pod["gone"], true);
}

/// KAPI-WL-03: a pod without an address waits for one; one that runs already, and one on its node's network, do not.
#[test]
fn pods_wait_for_an_address() {
    let mut full = Simulation::of(json!({}), "");
    full.place.pod_ip = None;
    full.pass(30);
    assert_eq!((full.phase(), full.waits(), &full.pod["status"]["podIP"]), ("Pending", "ContainerCreating", &Value::Null));
    full.place.pod_ip = Some("10.244.0.7".into());
    full.pass(10);
    assert_eq!((full.phase(), &full.pod["status"]["podIP"]), ("Running", &json!("10.244.0.7")));
    full.place.pod_ip = None;
    full.pass(10);
    assert_eq!((full.phase(), &full.pod["status"]["podIP"]), ("Running", &json!("10.244.0.7")));
    let mut host = Simulation::of(json!({"hostNetwork": true}), "");
    host.place.pod_ip = None;
    host.pass(0);
    assert_eq!((host.phase(), &host.pod["status"]["podIP"]), ("Running", &json!("172.31.0.2")));
}

#[test]
fn events_are_kubelets() {
    let mut plain = Simulation::of(json!({}), "");
    plain.pass(60);
    assert_eq!(plain.events.iter().map(|event| event.reason).collect::<Vec<_>>(), ["Pulled", "Created", "Started"]);
    let mut pull = Simulation::of(json!({}), "image-pull");
    pull.pass(60);
    assert_eq!(pull.events.iter().map(|event| event.reason).collect::<Vec<_>>(), ["Pulling", "Failed", "Failed", "BackOff", "Failed"]);
    let mut crash = Simulation::of(json!({}), "oom");
    crash.pass(15);
    assert_eq!(crash.told("BackOff"), 2);
    assert_eq!(crash.pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"], "OOMKilled");
}
