//! The plan of a simulated kubelet for a pod: a pure function of the pod, its behaviour and the time (KAPI-WL-03).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::addresses::on_host;
use super::behaviour::{Behaviour, Conduct};
use super::container::{Container, Look, Restarts};
use super::observed::{Orders, Process};
use crate::events::Event;
use crate::object::{Read as _, condition, items, parse_time, time};
use crate::pod;

/// The state of a node's kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    /// It runs the pods of the node.
    Working,
    /// It does nothing and reports nothing.
    Silent,
}

/// The interval at which a pod without an address is checked again.
const ADDRESS: Duration = Duration::from_secs(10);

/// The place of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The state of the node's kubelet.
    pub kubelet: Kubelet,
    /// The address of its node.
    pub host_ip: String,
    /// The pod's own address; `None` if it needs none, or its node has none left.
    pub pod_ip: Option<String>,
}

impl Place {
    /// Returns true if a pod cannot start for lack of an address.
    pub fn refuses(&self, pod: &DynamicObject) -> bool {
        let begun = pod::finished(pod) || pod.deleting() || !pod.text("/status/podIP").is_empty();
        self.pod_ip.is_none() && !on_host(pod) && !begun
    }
}

/// The next step for a pod.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// No step until the pod changes or, if given, the time has passed.
    Rest(Option<Duration>),
    /// The grace period is over: the pod is deleted with a grace period of zero.
    Remove,
    /// The status is written, and the pod is checked again after the time, if given.
    Report(Value, Option<Duration>),
}

/// The next step for a pod, and what its real processes are to do.
#[derive(Debug, PartialEq)]
pub struct Plan {
    /// The next step.
    pub step: Step,
    /// The work for the runner of processes.
    pub orders: Orders,
}

/// Decides the next step.
pub fn plan(pod: &DynamicObject, place: &Place, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let all = Orders { stop_all: true, ..Orders::default() };
    if place.kubelet == Kubelet::Silent {
        return Plan { step: Step::Rest(None), orders: Orders::default() };
    }
    // The runner wakes the pod when its processes have ended.
    let ends = pod.deleting() || pod::finished(pod) || expires(pod, now).is_some_and(|end| end <= now);
    if ends && behaviour.alive() {
        return Plan { step: Step::Rest(None), orders: all };
    }
    if pod.deleting() {
        return Plan { step: stop(pod, place, behaviour, now), orders: all };
    }
    if pod::finished(pod) {
        return Plan { step: Step::Rest(None), orders: all };
    }
    go_on(pod, place, behaviour, now)
}

/// Returns the end of the time that a pod may be active.
fn expires(pod: &DynamicObject, now: Timestamp) -> Option<Timestamp> {
    let seconds = pod.int("/spec/activeDeadlineSeconds")?;
    let begin = parse_time(pod.at("/status/startTime")).unwrap_or(now);
    Some(later(begin, Duration::from_secs(seconds.unsigned_abs())))
}

fn go_on(pod: &DynamicObject, place: &Place, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let begin = parse_time(pod.at("/status/startTime")).unwrap_or(now);
    let mut life = Life::new(pod, behaviour, now);
    let due = later(begin, behaviour.start_delay);
    if now < due {
        life.waits(due.duration_since(now).try_into().unwrap_or_default());
    } else if place.refuses(pod) {
        life.waits(ADDRESS);
    } else {
        life.runs();
    }
    let mut status = life.status(place, begin);
    if let Some(end) = expires(pod, now) {
        if end <= now && status["phase"] != "Succeeded" && status["phase"] != "Failed" {
            life.stops();
            life.orders = Orders::default();
            status = life.status(place, begin);
            status["phase"] = json!("Failed");
            status["reason"] = json!("DeadlineExceeded");
            status["message"] = json!("Pod was active on the node longer than the specified deadline");
        } else if end > now {
            life.look_after(end.duration_since(now).try_into().unwrap_or_default());
        }
    }
    let step = if *pod.at("/status") == status { Step::Rest(life.again) } else { Step::Report(status, life.again) };
    Plan { step, orders: life.orders }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

/// Stops a deleted pod within its grace period; one that a finalizer holds shows that it has ended.
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
    let mut life = Life { initialized: true, ..Life::new(pod, behaviour, now) };
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
    /// True if an init container has failed for good.
    failed: bool,
    /// True if the process of a sidecar still runs that is to stop.
    lingers: bool,
    orders: Orders,
}

/// The conduct of a container without a script: it keeps running.
const PLAIN: Conduct = Conduct::RUNS;

impl<'a> Life<'a> {
    fn new(pod: &'a DynamicObject, behaviour: &'a Behaviour, now: Timestamp) -> Self {
        Self {
            pod,
            behaviour,
            now,
            again: None,
            init: Vec::new(),
            main: Vec::new(),
            initialized: false,
            failed: false,
            lingers: false,
            orders: Orders::default(),
        }
    }

    /// Takes the start of a process that a look asks for.
    fn order(&mut self, container: &Container<'_>, look: &mut Look) {
        if let Some(start) = look.start.take() {
            self.orders.start.push((container.spec["name"].as_str().unwrap_or_default().to_owned(), start));
        }
    }

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
            // Init containers restart after failures, unless the pod's containers never restart.
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

    /// Keeps all containers waiting, because nothing has started yet.
    fn waits(&mut self, left: Duration) {
        self.again = Some(left);
        let init = self.init_containers();
        let reason = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        self.initialized = init.is_empty();
        self.init = init.iter().map(|(container, _)| container.waits("PodInitializing")).collect();
        self.main = self.containers().iter().map(|container| container.waits(reason)).collect();
    }

    /// Runs the init containers one after the other, then all containers side by side.
    fn runs(&mut self) {
        let mut open = true;
        for (container, sidecar) in self.init_containers() {
            if !open {
                self.init.push(container.waits("PodInitializing"));
                continue;
            }
            let mut look = container.runs();
            self.order(&container, &mut look);
            let ended = look.ended(container.restarts);
            // The containers go on while a sidecar that has ended starts again.
            let began = look.running() || matches!(container.conduct.process, Some(Process::Ended { .. }));
            open = if sidecar { began } else { ended == Some(0) };
            self.failed |= !sidecar && ended.is_some_and(|code| code != 0);
            if let Some(again) = look.again {
                self.look_after(again);
            }
            self.init.push(look);
        }
        self.initialized = open;
        for container in self.containers() {
            let mut look = if open { container.runs() } else { container.waits("PodInitializing") };
            self.order(&container, &mut look);
            if let Some(again) = look.again {
                self.look_after(again);
            }
            self.main.push(look);
        }
        // Sidecars stop once an init container has failed for good, or the main containers have ended.
        if self.failed || self.ended() {
            let init = self.init_containers();
            for (position, (container, _)) in init.into_iter().enumerate() {
                let name = container.spec["name"].as_str().unwrap_or_default();
                self.orders.start.retain(|(started, _)| started != name);
                if matches!(container.conduct.process, Some(Process::Running { .. })) {
                    self.orders.stop.push(name.to_owned());
                    self.lingers = true;
                } else if self.init[position].running() {
                    let status = Container { before: &self.init[position].status.clone(), ..container }.stops();
                    self.init[position] = Look::rest(status, None);
                }
            }
        }
    }

    fn stops(&mut self) {
        let stopped = |container: &Container<'_>| Look::rest(container.stops(), None);
        self.init = self.init_containers().iter().map(|(container, _)| stopped(container)).collect();
        self.main = self.containers().iter().map(stopped).collect();
        self.again = None;
    }

    fn ended(&self) -> bool {
        self.initialized && !self.main.is_empty() && self.main.iter().all(|look| look.ended(self.policy()).is_some())
    }

    fn phase(&self) -> &'static str {
        if self.lingers {
            return "Running";
        }
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
        let own = if on_host(self.pod) { Some(&place.host_ip) } else { place.pod_ip.as_ref().filter(|_| self.created()) };
        if let Some(own) = own {
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

    /// Returns true if the pod's sandbox exists: a container has started, or tried to.
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
        // Conditions of other controllers (readiness gates, disruption) stay.
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

    /// Returns the message about the first closed readiness gate.
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

/// Returns the events of a pod's change from one status to the next.
pub fn told(pod: &DynamicObject, after: &Value, behaviour: &Behaviour) -> Vec<Event> {
    let mut events = Vec::new();
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in after[list].as_array().into_iter().flatten() {
            let before = pod.at("/status")[list].as_array().into_iter().flatten().find(|before| before["name"] == status["name"]);
            let conduct = behaviour.containers.get(status["name"].as_str().unwrap_or_default());
            let pulled = conduct.and_then(|conduct| conduct.pulled.as_deref());
            tell_container(pod, (before.unwrap_or(&Value::Null), status), pulled, &mut events);
        }
    }
    events
}

fn tell_container(pod: &DynamicObject, (before, after): (&Value, &Value), pulled: Option<&str>, events: &mut Vec<Event>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, image) = (text(&after["name"]), text(&after["image"]));
    let started = |status: &Value| {
        let over = status.pointer("/state/terminated").is_some() || status.pointer("/state/running").is_some();
        (over || status.pointer("/lastState/terminated").is_some()).then(|| status["restartCount"].as_i64().unwrap_or_default())
    };
    if started(after) > started(before) {
        if let Some(pulled) = pulled.filter(|_| started(before).is_none()) {
            events.push(Event::normal("Pulling", format!("Pulling image {image:?}")));
            events.push(Event::normal("Pulled", pulled));
        } else {
            events.push(Event::normal("Pulled", format!("Container image {image:?} already present on machine")));
        }
        events.push(Event::normal("Created", format!("Created container: {name}")));
        events.push(Event::normal("Started", format!("Started container {name}")));
    }
    let running = |status: &Value| status.pointer("/state/running").is_some();
    let simulated = after["containerID"].as_str().is_some_and(|id| id.starts_with("simulated:"));
    if simulated && running(after) && after["ready"] == false && !running(before) {
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
mod tests;
