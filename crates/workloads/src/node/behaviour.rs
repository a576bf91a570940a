//! The behaviour of simulated pods, including everything that a script may change of it.
//!
//! A script is a list of faults, in the annotation [`FAULT`] of a pod (or of the template it is made from), or for all containers of
//! an image when the cluster is started: `crash-loop`, `slow-start=10s,never-ready`. In an annotation, a fault may be meant for one
//! container alone: `web:crash-loop`.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::Value;

use super::command::{Course, course};
use super::observed::Process;
use crate::object::{Read as _, items};

/// Why a text is no fault of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidImageFault(String);

/// The annotation of pods and nodes that scripts their faults.
pub const FAULT: &str = "mainstay.dev/fault";
/// The annotation of a chart's hooks and tests, which are waited for until they end.
const HOOK: &str = "helm.sh/hook";
/// The fault of a silent node. It reports neither its own state nor that of its pods, and does not stop them either.
pub const SILENT: &str = "silent";
/// The longest script that is read, in bytes.
const LONGEST: usize = 1_000;
/// The longest time that a script may set.
pub(super) const LATEST: Duration = Duration::from_secs(24 * 3_600);

/// A fault or a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The image cannot be pulled.
    ImagePull,
    /// An object that the container's configuration refers to is not found.
    ConfigError,
    /// The container exits with this code as soon as it runs, again and again.
    CrashLoop(i32),
    /// The container is killed for its memory as soon as it runs, again and again.
    OutOfMemory,
    /// The container runs and never becomes ready.
    NeverReady,
    /// The containers of the pod start after this delay.
    SlowStart(Duration),
    /// The containers of the pod take this long to stop when it is deleted, within its grace period.
    SlowStop(Duration),
    /// The container exits with this code.
    ExitCode(i32),
    /// The container exits this long after its start.
    RunFor(Duration),
}

/// The supported faults, for help texts and errors.
pub const FAULTS: &str = "image-pull, config-error, crash-loop[=CODE], oom, never-ready, slow-start=TIME, slow-stop=TIME, exit-code=CODE, \
                          run-for=TIME";

/// A fault that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no fault; there are {FAULTS}")]
pub struct UnknownFault {
    text: String,
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault { text: text.chars().take(100).collect() };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let code = |default: Option<i32>| match value {
            Some(value) => value.parse::<u8>().map(i32::from).map_err(|_| unknown()),
            None => default.ok_or_else(unknown),
        };
        let time = || value.and_then(duration).filter(|time| *time <= LATEST).ok_or_else(unknown);
        match (name, value) {
            ("image-pull", None) => Ok(Self::ImagePull),
            ("config-error", None) => Ok(Self::ConfigError),
            ("oom", None) => Ok(Self::OutOfMemory),
            ("never-ready", None) => Ok(Self::NeverReady),
            ("crash-loop", _) => code(Some(1)).map(Self::CrashLoop),
            ("exit-code", _) => code(None).map(Self::ExitCode),
            ("slow-start", _) => time().map(Self::SlowStart),
            ("slow-stop", _) => time().map(Self::SlowStop),
            ("run-for", _) => time().map(Self::RunFor),
            _ => Err(unknown()),
        }
    }
}

/// Parses `500ms`, `10s`, `2m`, `1h`.
pub fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3_600).map(Duration::from_secs),
        _ => None,
    }
}

/// Parses a list of faults, separated by commas.
fn faults(text: &str) -> Result<Vec<(Option<String>, Fault)>, UnknownFault> {
    if text.len() > LONGEST {
        return Err(UnknownFault { text: text.chars().take(100).collect() });
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| match part.split_once(':') {
            Some((container, fault)) => Ok((Some(container.to_owned()), fault.parse()?)),
            None => Ok((None, part.parse()?)),
        })
        .collect()
}

/// The faults of all containers of some images, as given when the cluster is started: `IMAGE=FAULT[,FAULT]`, where `*` in IMAGE matches
/// anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFault {
    image: String,
    faults: Vec<Fault>,
}

impl ImageFault {
    fn matches(&self, image: &str) -> bool {
        matches(&self.image, image)
    }
}

/// Returns true if a pattern, in which `*` stands for anything, matches an image.
pub(super) fn matches(pattern: &str, image: &str) -> bool {
    let mut parts = pattern.split('*');
    // A split always has a first part.
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = image.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl FromStr for ImageFault {
    type Err = InvalidImageFault;

    fn from_str(text: &str) -> Result<Self, InvalidImageFault> {
        // Neither an image's name nor its tag contains an equals sign.
        let (image, script) = text.split_once('=').ok_or_else(|| InvalidImageFault(format!("{text:?} is not IMAGE=FAULT")))?;
        let scripted = faults(script).map_err(|error| InvalidImageFault(error.to_string()))?;
        if image.is_empty() || scripted.is_empty() || scripted.iter().any(|(container, _)| container.is_some()) {
            return Err(InvalidImageFault(format!("{text:?} is not IMAGE=FAULT; faults are {FAULTS}")));
        }
        Ok(Self { image: image.to_owned(), faults: scripted.into_iter().map(|(_, fault)| fault).collect() })
    }
}

impl fmt::Display for ImageFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={:?}", self.image, self.faults)
    }
}

/// The conduct of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conduct {
    /// The reason why it does not start at all, and a message.
    pub stuck: Option<(&'static str, String)>,
    /// True if it is ready while it runs.
    pub ready: bool,
    /// Its own exit, if it exits by itself.
    pub end: Option<End>,
    /// Its process, if the container is real.
    pub process: Option<Process>,
    /// The wait for its image, while that is really pulled.
    pub wait: Option<Wait>,
    /// The sentence about an image that was really pulled.
    pub pulled: Option<String>,
    /// The ID of such an image.
    pub image_id: Option<String>,
    /// The reason of its exit, if it is not simulated.
    pub told: Option<String>,
}

impl Conduct {
    /// A container that keeps running.
    pub const RUNS: Self =
        Self { stuck: None, ready: true, end: None, wait: None, pulled: None, image_id: None, told: None, process: None };
}

/// The wait of a container for its image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason; empty while the container is made for the first time.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The time until another look.
    pub again: Duration,
}

impl Wait {
    /// The first pull of an image.
    pub fn begins() -> Self {
        Self { reason: "", message: String::new(), again: LATEST }
    }
}

/// The exit of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit code.
    pub code: i32,
    /// `Completed`, `Error` or `OOMKilled`.
    pub reason: &'static str,
    /// The time after its start.
    pub after: Duration,
}

impl End {
    /// An error at once.
    pub const ERROR: Self = Self { code: 1, reason: "Error", after: Duration::ZERO };

    fn code(code: i32) -> Self {
        Self { code, reason: if code == 0 { "Completed" } else { "Error" }, after: Duration::ZERO }
    }
}

/// The behaviour of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The delay of its containers' start after binding.
    pub start_delay: Duration,
    /// The time that its containers take to stop when the pod is deleted.
    pub stop_delay: Duration,
    /// The conduct of each container, by name.
    pub containers: HashMap<String, Conduct>,
    /// The problem with the pod's script.
    pub problem: Option<UnknownFault>,
}

impl Behaviour {
    /// Returns true if a real process of the pod runs.
    pub fn alive(&self) -> bool {
        self.containers.values().any(|conduct| matches!(conduct.process, Some(Process::Running { .. })))
    }
}

/// The settings for all pods.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The time that a pod takes to start.
    pub start_delay: Duration,
    /// The faults by image.
    pub faults: Vec<ImageFault>,
}

impl Behaviour {
    /// Returns the behaviour of a pod: containers that always restart keep running; the others end as their words say, those of Jobs in any
    /// case. `absent` returns the reason why an image cannot be pulled.
    pub fn of(pod: &DynamicObject, script: &Script, absent: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut own = Self { start_delay: script.start_delay, stop_delay: Duration::ZERO, containers: HashMap::new(), problem: None };
        let scripted = match pod.annotation(FAULT).map(faults).transpose() {
            Ok(scripted) => scripted.unwrap_or_default(),
            Err(problem) => {
                own.problem = Some(problem);
                Vec::new()
            }
        };
        // A Job and a hook of a chart are there to end.
        let of_job = pod.annotation(HOOK).is_some()
            || pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.kind == "Job");
        let always = matches!(pod.text("/spec/restartPolicy"), "" | "Always");
        for (list, runs_on) in [("/spec/initContainers", false), ("/spec/containers", always)] {
            for container in items(pod, list) {
                let name = container["name"].as_str().unwrap_or_default();
                let image = container["image"].as_str().unwrap_or_default();
                let may_run_on = list == "/spec/containers" && !of_job;
                let end = if runs_on || container["restartPolicy"] == "Always" { None } else { end(course(container), may_run_on) };
                let mut conduct = Conduct { end, ..Conduct::RUNS };
                if let Some(why) = absent(image) {
                    conduct.stuck = Some(("ErrImagePull", why));
                }
                let by_image = script.faults.iter().filter(|fault| fault.matches(image)).flat_map(|fault| &fault.faults);
                let meant = |target: &Option<String>| match target {
                    Some(target) => target == name,
                    // A fault without a container's name is for the main containers.
                    None => list == "/spec/containers",
                };
                let by_pod = scripted.iter().filter(|(target, _)| meant(target)).map(|(_, fault)| fault);
                let mut run_for = None;
                for fault in by_image.chain(by_pod) {
                    own.apply(fault, &mut conduct, &mut run_for, container);
                }
                if let Some(after) = run_for {
                    conduct.end = Some(End { after, ..conduct.end.unwrap_or(End::code(0)) });
                }
                own.containers.insert(name.to_owned(), conduct);
            }
        }
        own
    }

    fn apply(&mut self, fault: &Fault, conduct: &mut Conduct, run_for: &mut Option<Duration>, container: &Value) {
        let image = container["image"].as_str().unwrap_or_default();
        match fault {
            Fault::ImagePull => {
                let why = format!("rpc error: code = NotFound desc = failed to pull and unpack image {image:?}: {image}: not found");
                conduct.stuck = Some(("ErrImagePull", why));
            }
            Fault::ConfigError => {
                conduct.stuck = Some(("CreateContainerConfigError", "configmap \"simulated-fault\" not found".to_owned()));
            }
            Fault::CrashLoop(code) | Fault::ExitCode(code) => conduct.end = Some(End::code(*code)),
            Fault::OutOfMemory => conduct.end = Some(End { code: 137, reason: "OOMKilled", after: Duration::ZERO }),
            Fault::NeverReady => conduct.ready = false,
            Fault::SlowStart(delay) => self.start_delay = self.start_delay.max(*delay),
            Fault::SlowStop(delay) => self.stop_delay = self.stop_delay.max(*delay),
            Fault::RunFor(time) => *run_for = Some(*time),
        }
    }
}

/// Returns the exit of a container that is not started again for ever. One that has to end before others come, or a Job is done, is taken to do so.
fn end(course: Course, may_run_on: bool) -> Option<End> {
    match course {
        Course::RunsOn if may_run_on => None,
        Course::Ends { code, after } => Some(End { after, ..End::code(code) }),
        Course::RunsOn | Course::Unknown => Some(End::code(0)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_read() {
        for (text, expected) in [
            ("image-pull", Some(Fault::ImagePull)),
            ("crash-loop", Some(Fault::CrashLoop(1))),
            ("crash-loop=42", Some(Fault::CrashLoop(42))),
            ("slow-start=1500ms", Some(Fault::SlowStart(Duration::from_millis(1_500)))),
            ("run-for=2m", Some(Fault::RunFor(Duration::from_secs(120)))),
            ("exit-code", None),
            ("exit-code=256", None),
            ("slow-start", None),
            ("slow-start=10", None),
            ("slow-start=25h", None),
            ("never-ready=1", None),
            ("explode", None),
        ] {
            assert_eq!(text.parse::<Fault>().ok(), expected, "{text}");
        }
        assert!("explode".parse::<Fault>().unwrap_err().to_string().starts_with("\"explode\" is no fault; there are image-pull,"));
    }

    #[test]
    fn images_are_matched() {
        for (pattern, image, expected) in [
            ("app:1", "app:1", true),
            ("app:1", "app:10", false),
            ("*/app:*", "registry.example.com/app:2", true),
            ("*/app:*", "registry.example.com/apps:2", false),
            ("*:2", "a:2", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
        ] {
            let fault: ImageFault = format!("{pattern}=never-ready").parse().unwrap();
            assert_eq!(fault.matches(image), expected, "{pattern} {image}");
        }
        for bad in ["app", "=oom", "app:1=", "app:1=web:oom", "app:1=none"] {
            assert!(bad.parse::<ImageFault>().is_err(), "{bad}");
        }
    }

    /// KAPI-WL-03: faults by image and by annotation meet the containers they are meant for.
    #[test]
    fn scripts_change_containers() {
        let script = Script { start_delay: Duration::from_secs(1), faults: vec!["*:2=never-ready".parse().unwrap()] };
        let pod = |script: &str| -> DynamicObject {
            let containers = json!([{"name": "web", "image": "web:2"}, {"name": "log", "image": "log:1"}]);
            let init = json!([{"name": "setup", "image": "setup:1"}, {"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}]);
            serde_json::from_value(json!({"metadata": {"name": "p", "annotations": {FAULT: script}}, "spec": {"containers": containers, "initContainers": init}}))
                .unwrap()
        };
        let of = |text: &str| Behaviour::of(&pod(text), &script, &|image| (image == "log:1").then(|| "absent".to_owned()));
        let plain = of("");
        assert_eq!((plain.containers["web"].ready, plain.containers["log"].ready), (false, true));
        assert_eq!(plain.containers["log"].stuck, Some(("ErrImagePull", "absent".to_owned())));
        assert_eq!(
            (plain.containers["setup"].end, plain.containers["mesh"].end, plain.containers["web"].end),
            (Some(End::code(0)), None, None)
        );
        let scripted = of("setup:exit-code=3, slow-start=5s, web:run-for=7s");
        assert_eq!(scripted.start_delay, Duration::from_secs(5));
        assert_eq!(scripted.containers["setup"].end, Some(End::code(3)));
        assert_eq!(scripted.containers["web"].end, Some(End { after: Duration::from_secs(7), ..End::code(0) }));
        assert!(of("explode").problem.is_some());
    }
}
