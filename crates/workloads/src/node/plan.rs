//! What a simulated kubelet does with a pod: a pure function of the pod, its behaviour and the time (KAPI-WL-03).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::behaviour::{Behaviour, Conduct};
use super::container::{Container, Look, Restarts};
use crate::events::Event;
use crate::object::{Read as _, condition, items, parse_time, time};
use crate::pod;

/// Where a pod lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address of its node.
    pub host_ip: String,
    /// Its own address.
    pub pod_ip: String,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Nothing, until the pod changes or, where there is one, the time has come.
    Rest(Option<Duration>),
    /// The pod has ended its time: it is deleted with a grace period of zero.
    Remove,
    /// The status is written, and the pod looked at again after a while if need be.
    Report(Value, Option<Duration>),
}

/// Decides.
pub fn plan(pod: &DynamicObject, place: &Place, behaviour: &Behaviour, now: Timestamp) -> Step {
    if pod.deleting() {
        return stop(pod, place, behaviour, now);
    }
    if pod::finished(pod) {
        return Step::Rest(None);
    }
    let begin = parse_time(pod.at("/status/startTime")).unwrap_or(now);
    let mut life = Life { pod, behaviour, now, again: None, init: Vec::new(), main: Vec::new(), initialized: false, failed: false };
    let due = later(begin, behaviour.start_delay);
    if now < due {
        life.waits(due.duration_since(now).try_into().unwrap_or_default());
    } else {
        life.runs();
    }
    let mut status = life.status(place, begin);
    if let Some(seconds) = pod.int("/spec/activeDeadlineSeconds") {
        let end = later(begin, Duration::from_secs(seconds.unsigned_abs()));
        if end <= now && status["phase"] != "Succeeded" && status["phase"] != "Failed" {
            life.stops();
            status = life.status(place, begin);
            status["phase"] = json!("Failed");
            status["reason"] = json!("DeadlineExceeded");
            status["message"] = json!("Pod was active on the node longer than the specified deadline");
        } else if end > now {
            life.look_after(end.duration_since(now).try_into().unwrap_or_default());
        }
    }
    if *pod.at("/status") == status { Step::Rest(life.again) } else { Step::Report(status, life.again) }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

/// A pod that is deleted stops within its grace period; one that a finalizer holds shows that it ended.
fn stop(pod: &DynamicObject, place: &Place, behaviour: &Behaviour, now: Timestamp) -> Step {
    let until = pod.metadata.deletion_timestamp.as_ref().map_or(now, |at| at.0);
    let grace = Duration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or_default().unsigned_abs());
    let asked = until.saturating_sub(SignedDuration::try_from(grace).unwrap_or(SignedDuration::ZERO)).unwrap_or(now);
    let stopped = later(asked, behaviour.stop_delay.min(grace));
    if stopped > now && !pod::finished(pod) {
        return Step::Rest(Some(stopped.duration_since(now).try_into().unwrap_or_default()));
    }
    let held = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    if !held || pod::finished(pod) {
        return Step::Remove;
    }
    let begin = parse_time(pod.at("/status/startTime")).unwrap_or(now);
    let mut life = Life { pod, behaviour, now, again: None, init: Vec::new(), main: Vec::new(), initialized: true, failed: false };
    life.stops();
    let mut status = life.status(place, begin);
    status["phase"] = json!("Failed");
    Step::Report(status, None)
}

/// The containers of a pod at one look.
struct Life<'a> {
    pod: &'a DynamicObject,
    behaviour: &'a Behaviour,
    now: Timestamp,
    again: Option<Duration>,
    init: Vec<Look>,
    main: Vec<Look>,
    initialized: bool,
    /// An init container failed for good.
    failed: bool,
}

/// A container whose script is not known runs on.
const PLAIN: Conduct = Conduct { stuck: None, ready: true, end: None };

impl<'a> Life<'a> {
    fn look_after(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |again| again.min(wait)));
    }

    fn policy(&self) -> Restarts {
        Restarts::of(self.pod.text("/spec/restartPolicy"))
    }

    fn container(&self, spec: &'a Value, list: &str, restarts: Restarts) -> Container<'a> {
        let before = items(self.pod, list).find(|status| status["name"] == spec["name"]).unwrap_or(&Value::Null);
        let conduct = self.behaviour.containers.get(spec["name"].as_str().unwrap_or_default()).unwrap_or(&PLAIN);
        Container { pod: self.pod, spec, before, conduct, restarts, now: self.now }
    }

    fn init_containers(&self) -> Vec<(Container<'a>, bool)> {
        let of = |spec: &'a Value| {
            let sidecar = spec["restartPolicy"] == "Always";
            // Init containers are started again after failures unless the pod's containers never are.
            let restarts = match self.policy() {
                _ if sidecar => Restarts::Always,
                Restarts::Never => Restarts::Never,
                _ => Restarts::OnFailure,
            };
            (self.container(spec, "/status/initContainerStatuses", restarts), sidecar)
        };
        items(self.pod, "/spec/initContainers").map(of).collect()
    }

    fn containers(&self) -> Vec<Container<'a>> {
        items(self.pod, "/spec/containers").map(|spec| self.container(spec, "/status/containerStatuses", self.policy())).collect()
    }

    /// Nothing has started yet.
    fn waits(&mut self, left: Duration) {
        self.again = Some(left);
        let init = self.init_containers();
        let reason = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        self.initialized = init.is_empty();
        self.init = init.iter().map(|(container, _)| container.waits("PodInitializing")).collect();
        self.main = self.containers().iter().map(|container| container.waits(reason)).collect();
    }

    /// One init container after the other, then all containers beside each other.
    fn runs(&mut self) {
        let mut open = true;
        for (container, sidecar) in self.init_containers() {
            if !open {
                self.init.push(container.waits("PodInitializing"));
                continue;
            }
            let look = container.runs();
            let ended = look.ended(container.restarts);
            open = if sidecar { look.running() } else { ended == Some(0) };
            self.failed |= !sidecar && ended.is_some_and(|code| code != 0);
            if let Some(again) = look.again {
                self.look_after(again);
            }
            self.init.push(look);
        }
        self.initialized = open;
        for container in self.containers() {
            let look = if open { container.runs() } else { container.waits("PodInitializing") };
            if let Some(again) = look.again {
                self.look_after(again);
            }
            self.main.push(look);
        }
        // Sidecars run as long as there is somebody beside whom.
        if self.failed || self.ended() {
            for (position, (container, _)) in self.init_containers().into_iter().enumerate() {
                if self.init[position].running() {
                    let status = Container { before: &self.init[position].status.clone(), ..container }.stops();
                    self.init[position] = Look { status, again: None };
                }
            }
        }
    }

    fn stops(&mut self) {
        let stopped = |container: &Container<'_>| Look { status: container.stops(), again: None };
        self.init = self.init_containers().iter().map(|(container, _)| stopped(container)).collect();
        self.main = self.containers().iter().map(stopped).collect();
        self.again = None;
    }

    fn ended(&self) -> bool {
        self.initialized && !self.main.is_empty() && self.main.iter().all(|look| look.ended(self.policy()).is_some())
    }

    fn phase(&self) -> &'static str {
        if self.failed {
            return "Failed";
        }
        if self.ended() {
            let well = self.main.iter().all(|look| look.ended(self.policy()) == Some(0));
            return if well { "Succeeded" } else { "Failed" };
        }
        let never_ran = |look: &Look| look.status["state"]["waiting"].is_object() && look.status.pointer("/lastState/terminated").is_none();
        if !self.initialized || self.main.iter().any(never_ran) { "Pending" } else { "Running" }
    }

    fn status(&self, place: &Place, started: Timestamp) -> Value {
        let mut status = self.pod.at("/status").as_object().cloned().unwrap_or_default();
        let phase = self.phase();
        status.insert("phase".into(), json!(phase));
        status.insert("startTime".into(), time(started));
        status.insert("hostIP".into(), json!(place.host_ip));
        status.insert("hostIPs".into(), json!([{"ip": place.host_ip}]));
        status.remove("nominatedNodeName");
        let host = self.pod.at("/spec/hostNetwork") == &Value::Bool(true);
        if host || self.created() {
            let own = if host { &place.host_ip } else { &place.pod_ip };
            status.insert("podIP".into(), json!(own));
            status.insert("podIPs".into(), json!([{"ip": own}]));
        }
        if let Some(generation) = self.pod.metadata.generation {
            status.insert("observedGeneration".into(), json!(generation));
        }
        status.insert("conditions".into(), self.conditions(phase));
        let list = |looks: &[Look]| looks.iter().map(|look| look.status.clone()).collect::<Vec<_>>();
        if !self.init.is_empty() {
            status.insert("initContainerStatuses".into(), Value::Array(list(&self.init)));
        }
        status.insert("containerStatuses".into(), Value::Array(list(&self.main)));
        Value::Object(status)
    }

    /// Whether the pod's sandbox is there: something has started, or tried to.
    fn created(&self) -> bool {
        let tried = |look: &Look| {
            let reason = look.status.pointer("/state/waiting/reason").and_then(Value::as_str);
            !matches!(reason, Some("ContainerCreating" | "PodInitializing"))
        };
        self.init.iter().chain(&self.main).any(tried)
    }

    fn conditions(&self, phase: &str) -> Value {
        let over = matches!(phase, "Succeeded" | "Failed");
        let done = (phase == "Succeeded").then_some("PodCompleted").or((phase == "Failed").then_some("PodFailed"));
        let unready = |looks: &[Look]| -> Vec<String> {
            let names = looks
                .iter()
                .filter(|look| look.status["ready"] != true)
                .map(|look| look.status["name"].as_str().unwrap_or_default().to_owned());
            names.collect()
        };
        let (incomplete, unready) = (unready(&self.init), unready(&self.main));
        let sidecars: Vec<&str> = items(self.pod, "/spec/initContainers")
            .filter(|spec| spec["restartPolicy"] == "Always")
            .filter_map(|spec| spec["name"].as_str())
            .collect();
        let lame = incomplete.iter().any(|name| sidecars.contains(&name.as_str()));
        let ready = !over && self.initialized && unready.is_empty() && !lame;
        let list = |names: &[String]| names.join(" ");
        let initialized = match (self.initialized, phase) {
            (true, _) => (true, "", String::new()),
            (false, _) => (false, "ContainersNotInitialized", format!("containers with incomplete status: [{}]", list(&incomplete))),
        };
        let containers = match done {
            Some(reason) => (false, reason, String::new()),
            None if ready => (true, "", String::new()),
            None => (false, "ContainersNotReady", format!("containers with unready status: [{}]", list(&unready))),
        };
        let gate = self.closed_gate().filter(|_| ready);
        let whole = match gate {
            Some(message) => (false, "ReadinessGatesNotReady", message),
            None => containers.clone(),
        };
        let all = [
            ("PodReadyToStartContainers", (self.created() && !over, "", String::new())),
            ("Initialized", initialized),
            ("Ready", whole),
            ("ContainersReady", containers),
            ("PodScheduled", (true, "", String::new())),
        ];
        let before = self.pod.at("/status/conditions");
        let mut conditions: Vec<Value> =
            all.iter().map(|(kind, (state, reason, message))| self.condition(kind, *state, reason, message)).collect();
        // Conditions of others (readiness gates, disruption) stay.
        let own = |kind: &Value| all.iter().any(|(name, _)| kind == name);
        conditions.extend(before.as_array().into_iter().flatten().filter(|condition| !own(&condition["type"])).cloned());
        Value::Array(conditions)
    }

    fn condition(&self, kind: &str, state: bool, reason: &str, message: &str) -> Value {
        let state = if state { "True" } else { "False" };
        let present = condition(self.pod.at("/status/conditions"), kind).filter(|present| present["status"] == state);
        let since = present.map(|present| present["lastTransitionTime"].clone()).filter(|since| !since.is_null());
        let mut next = Map::new();
        next.insert("type".into(), json!(kind));
        if let Some(generation) = self.pod.metadata.generation {
            next.insert("observedGeneration".into(), json!(generation));
        }
        next.insert("status".into(), json!(state));
        next.insert("lastProbeTime".into(), Value::Null);
        next.insert("lastTransitionTime".into(), since.unwrap_or_else(|| time(self.now)));
        for (name, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                next.insert(name.into(), json!(text));
            }
        }
        Value::Object(next)
    }

    /// What a readiness gate waits for.
    fn closed_gate(&self) -> Option<String> {
        let conditions = self.pod.at("/status/conditions");
        items(self.pod, "/spec/readinessGates").find_map(|gate| {
            let kind = gate["conditionType"].as_str().unwrap_or_default();
            match condition(conditions, kind) {
                None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
                Some(open) if open["status"] == "True" => None,
                Some(_) => Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but False")),
            }
        })
    }
}

/// What there is to tell of a pod that came from one status to the next.
pub fn told(pod: &DynamicObject, after: &Value) -> Vec<Event> {
    let mut events = Vec::new();
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in after[list].as_array().into_iter().flatten() {
            let before = pod.at("/status")[list].as_array().into_iter().flatten().find(|before| before["name"] == status["name"]);
            tell_container(pod, before.unwrap_or(&Value::Null), status, &mut events);
        }
    }
    events
}

fn tell_container(pod: &DynamicObject, before: &Value, after: &Value, events: &mut Vec<Event>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, image) = (text(&after["name"]), text(&after["image"]));
    let started = |status: &Value| {
        let over = status.pointer("/state/terminated").is_some() || status.pointer("/state/running").is_some();
        (over || status.pointer("/lastState/terminated").is_some()).then(|| status["restartCount"].as_i64().unwrap_or_default())
    };
    if started(after) > started(before) {
        events.push(Event::normal("Pulled", format!("Container image {image:?} already present on machine")));
        events.push(Event::normal("Created", format!("Created container: {name}")));
        events.push(Event::normal("Started", format!("Started container {name}")));
    }
    let running = |status: &Value| status.pointer("/state/running").is_some();
    if running(after) && after["ready"] == false && !running(before) {
        events.push(Event::warning("Unhealthy", "Readiness probe failed: simulated"));
    }
    let reason = |status: &Value| status.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = text(&after["state"]["waiting"]["message"]);
    let (was, is) = (reason(before), reason(after));
    match is.as_str() {
        "ErrImagePull" if was != is => {
            events.push(Event::normal("Pulling", format!("Pulling image {image:?}")));
            events.push(Event::warning("Failed", format!("Failed to pull image {image:?}: {message}")));
            events.push(Event::warning("Failed", "Error: ErrImagePull"));
        }
        "ImagePullBackOff" if was != is => {
            events.push(Event::normal("BackOff", format!("Back-off pulling image {image:?}")));
            events.push(Event::warning("Failed", "Error: ImagePullBackOff"));
        }
        "CrashLoopBackOff" if was != is || before["restartCount"] != after["restartCount"] => {
            let pod = format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid());
            events.push(Event::warning("BackOff", format!("Back-off restarting failed container {name} in pod {pod}")));
        }
        "CreateContainerConfigError" if was != is => events.push(Event::warning("Failed", format!("Error: {message}"))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use super::super::behaviour::{FAULT, Script};
    use super::*;

    const START: &str = "2026-01-01T10:00:00Z";

    struct Simulation {
        pod: Value,
        now: Timestamp,
        script: Script,
        events: Vec<Event>,
    }

    impl Simulation {
        fn of(spec: Value, fault: &str) -> Self {
            let mut whole = json!({"restartPolicy": "Always", "containers": [{"name": "main", "image": "app:1"}]});
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let metadata = json!({"name": "p", "namespace": "n", "uid": "u", "annotations": {FAULT: fault}});
            Self {
                pod: json!({"metadata": metadata, "spec": whole}),
                now: START.parse().unwrap(),
                script: Script::default(),
                events: Vec::new(),
            }
        }

        /// Lets so many seconds pass, doing what is asked when it is asked.
        fn pass(&mut self, seconds: i64) -> &mut Self {
            let end = self.now + SignedDuration::from_secs(seconds);
            loop {
                let pod: DynamicObject = serde_json::from_value(self.pod.clone()).unwrap();
                let behaviour = Behaviour::of(&pod, &self.script, &|_| None);
                let place = Place { host_ip: "172.31.0.2".into(), pod_ip: "10.244.0.1".into() };
                let again = match plan(&pod, &place, &behaviour, self.now) {
                    Step::Report(status, again) => {
                        self.events.extend(told(&pod, &status));
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
        let cases: [(&str, Value, &str, i64, &str, &str, i64); 13] = [
            ("runs at once", json!({}), "", 0, "Running", "", 0),
            ("late", json!({}), "slow-start=10s", 9, "Pending", "ContainerCreating", 0),
            ("late but there", json!({}), "slow-start=10s", 10, "Running", "", 0),
            ("job", job("Never"), "", 0, "Succeeded", "", 0),
            ("job that takes long", job("Never"), "run-for=5s", 4, "Running", "", 0),
            ("job that is done", job("Never"), "run-for=5s", 5, "Succeeded", "", 0),
            ("job that fails", job("Never"), "exit-code=3", 0, "Failed", "", 0),
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
}
