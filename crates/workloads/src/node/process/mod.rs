//! Containers of simulated nodes that are real processes of this machine, because a program stands for their image (KAPI-WL-07).
//!
//! ```text
//!   observe (what runs) ─► node::plan, look ─► Orders ─► Machine::carry_out ─► run ─► launch ─► supervise ─► the program
//!                                                  facts: sources ─► environment, volumes ─► directory
//! ```
//! Nothing is isolated: a process has the file system, the network and the user of this program.

mod check;
mod directory;
pub mod environment;
pub mod error;
pub mod fields;
mod launch;
pub mod log;
mod look;
pub mod mapping;
mod prepare;
pub mod probe;
mod run;
pub mod sources;
pub mod supervise;
pub mod volumes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Env, Key, Queue};
use serde_json::Value;
use tokio::sync::mpsc;

use self::directory::Directory;
use self::fields::Addresses;
pub use self::launch::SUPERVISE;
use self::mapping::RunImage;
use self::prepare::Prepared;
use self::run::{Message, Stop, Told};
use super::behaviour::{Behaviour, Conduct};
pub use super::observed::{Exit, Orders, Process, Run, Start};
use crate::api::Api;
use crate::events::{Event, Events};
use crate::object::{Object, Read as _, items};
use crate::world::KUBELET;

/// The annotation of pods that run as processes: the process ID, or `CONTAINER=ID,...` of several.
pub const PROCESS: &str = "mainstay.dev/process";
/// The most processes that run at a time.
const MOST: usize = 256;
/// The grace period of a process whose pod sets none.
const GRACE: Duration = Duration::from_secs(30);

/// The settings of processes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of the pods' directories.
    pub directory: PathBuf,
    /// The programs by image; the first one that matches stands.
    pub mappings: Vec<RunImage>,
    /// This program, which supervises others when its first word is [`SUPERVISE`].
    pub supervisor: PathBuf,
}

/// The address of the API, as processes reach it.
#[derive(Clone, Debug)]
pub struct Reached {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The CA's certificate, PEM.
    pub ca_pem: Vec<u8>,
}

/// The processes of this machine's pods. Clones share them.
#[derive(Clone)]
pub struct Machine(Arc<Inner>);

struct Inner {
    settings: Settings,
    reached: Mutex<Option<Reached>>,
    pods: Mutex<BTreeMap<String, Resident>>,
}

/// The parts of the cluster that the processes of one run of the nodes belong to.
#[derive(Clone)]
pub(super) struct Links {
    pub api: Api,
    pub events: Events,
    pub served: mainstay_runtime::Served,
    pub queue: Queue<Key>,
    pub env: Env,
}

/// A pod that has, or had, processes.
struct Resident {
    key: Key,
    containers: HashMap<String, Held>,
    tokens: prepare::Kept,
    /// True if the pod is gone: it is forgotten, with its directory, when its last process has ended.
    gone: bool,
}

struct Held {
    process: Process,
    stop: Option<mpsc::UnboundedSender<Stop>>,
}

impl Machine {
    /// Makes a machine that runs nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(Inner { settings, reached: Mutex::default(), pods: Mutex::default() }))
    }

    /// Tells the address of the API.
    pub fn reach(&self, reached: Reached) {
        *self.0.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
    }

    /// Returns the program that stands for an image.
    pub fn program(&self, image: &str) -> Option<&RunImage> {
        self.0.settings.mappings.iter().find(|mapping| mapping.matches(image))
    }

    /// Opens the log of a container; `None` if it is not a process, or has no log.
    pub fn log(&self, uid: &str, container: &str, previous: bool, query: log::Query) -> Option<log::Reader> {
        let plain = |text: &str| !text.is_empty() && !text.contains(['/', '\0']) && !text.starts_with('.');
        if !plain(uid) || !plain(container) {
            return None;
        }
        log::Reader::open(&self.directory(uid).logs(container), previous, query)
    }

    /// Returns the process of a container while it runs.
    pub fn running(&self, uid: &str, container: &str) -> Option<u32> {
        match self.pods().get(uid)?.containers.get(container)?.process {
            Process::Running { ref run, .. } => Some(run.pid),
            _ => None,
        }
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Resident>> {
        self.0.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self, uid: &str) -> Directory {
        Directory::of(&self.0.settings.directory, uid)
    }

    /// Adds what runs to the behaviour of a pod.
    pub(super) fn observe(&self, pod: &DynamicObject, behaviour: &mut Behaviour) {
        let pods = self.pods();
        let known = pods.get(pod.uid());
        for container in items(pod, "/spec/initContainers").chain(items(pod, "/spec/containers")) {
            let (name, image) = (text(&container["name"]), text(&container["image"]));
            if self.program(image).is_none() {
                continue;
            }
            let process = known.and_then(|pod| pod.containers.get(name)).map_or(Process::Absent, |held| held.process.clone());
            let conduct = behaviour.containers.entry(name.to_owned());
            let conduct = conduct.or_insert(Conduct::RUNS);
            conduct.process = Some(process);
        }
    }

    /// Does what a plan orders; true if something was started, or was tried to.
    pub(super) async fn carry_out(&self, links: &Links, pod: &Object, orders: &Orders, addresses: &Addresses) -> bool {
        let grace = pod.metadata.deletion_grace_period_seconds.or_else(|| pod.int("/spec/terminationGracePeriodSeconds"));
        let grace = grace.map_or(GRACE, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs()));
        if orders.stop_all {
            self.stop(pod.uid(), None, grace);
        }
        for name in &orders.stop {
            self.stop(pod.uid(), Some(name), grace);
        }
        if orders.start.is_empty() {
            return false;
        }
        let prepared = self.prepare(links, pod, addresses).await;
        for (name, start) in &orders.start {
            let outcome = match &prepared {
                Ok(prepared) => self.start(links, pod, name, start, prepared, addresses).await,
                Err(why) => Err(("CreateContainerConfigError", why.to_string())),
            };
            if let Err((reason, message)) = outcome {
                let process = Process::Blocked { reason, message, since: links.env.now() };
                self.put(pod, name, Held { process, stop: None });
            }
        }
        true
    }

    fn put(&self, pod: &DynamicObject, container: &str, held: Held) {
        let mut pods = self.pods();
        let resident = pods.entry(pod.uid().to_owned()).or_insert_with(|| Resident::of(pod));
        resident.containers.insert(container.to_owned(), held);
    }

    async fn start(
        &self,
        links: &Links,
        pod: &Object,
        name: &str,
        start: &Start,
        prepared: &Prepared,
        addresses: &Addresses,
    ) -> Result<(), (&'static str, String)> {
        if self.count() >= MOST {
            return Err(("CreateContainerError", format!("{MOST} processes run already, which is the limit")));
        }
        let ready = self.container(links, pod, name, prepared, addresses).await?;
        let logs = self.directory(pod.uid()).logs(name);
        let writer = log::Writer::begin(&logs, start.attempt);
        let writer = Arc::new(writer.map_err(|error| ("CreateContainerError", format!("its log cannot be written: {error}")))?);
        let running = ready.launch.start().await.map_err(|why| ("RunContainerError", why.to_string()))?;
        let since = links.env.now();
        let run = Run {
            id: format!("process://{}-{}", running.pid, since.as_second()),
            pid: running.pid,
            attempt: start.attempt,
            since,
            last: start.last.clone(),
        };
        let (started, is_ready) = (ready.probes.startup.is_none(), ready.probes.readiness.is_none());
        let (stop, stops) = mpsc::unbounded_channel();
        self.put(pod, name, Held { process: Process::Running { run: run.clone(), started, ready: is_ready }, stop: Some(stop) });
        let attended = Attended { machine: self.clone(), links: links.clone(), pod: pod.clone(), container: name.to_owned(), run };
        tokio::spawn(attended.attend(ready, running, stops, writer, logs));
        Ok(())
    }

    fn count(&self) -> usize {
        let alive = |held: &&Held| matches!(held.process, Process::Running { .. });
        self.pods().values().map(|pod| pod.containers.values().filter(alive).count()).sum()
    }

    /// Asks the processes of a pod, or one of them, to end.
    fn stop(&self, uid: &str, container: Option<&str>, grace: Duration) {
        let pods = self.pods();
        let Some(resident) = pods.get(uid) else { return };
        for (_, held) in resident.containers.iter().filter(|(name, _)| container.is_none_or(|one| one == *name)) {
            if let Some(stop) = &held.stop {
                // It may have ended this moment.
                let _ = stop.send(Stop(grace));
            }
        }
    }

    /// Forgets a pod that has gone: its processes are killed, its directory is removed.
    pub(super) fn forget(&self, uid: &str) {
        self.stop(uid, None, Duration::ZERO);
        if let Some(resident) = self.pods().get_mut(uid) {
            resident.gone = true;
        }
        self.bury(uid);
    }

    /// Removes what is left of a pod that has gone, when none of its processes runs.
    fn bury(&self, uid: &str) {
        let mut pods = self.pods();
        if pods.get(uid).is_some_and(|resident| resident.gone && !resident.is_alive()) {
            pods.remove(uid);
            drop(pods);
            self.directory(uid).remove();
        }
    }

    /// Forgets the pods of a name but the one that there is now.
    pub(super) fn keep(&self, key: &Key, present: Option<&str>) {
        let gone: Vec<String> = self
            .pods()
            .iter()
            .filter(|(uid, pod)| pod.key == *key && !pod.gone && Some(uid.as_str()) != present)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in &gone {
            self.forget(uid);
        }
    }

    /// Removes the directories of pods that have gone while this program did not run.
    pub(super) fn sweep(&self, pods: &[Object]) {
        let known: BTreeSet<String> = pods.iter().map(|pod| pod.uid().to_owned()).collect();
        directory::sweep(&self.0.settings.directory, &known);
    }

    /// Returns the annotation of a pod that says which processes it has.
    pub(super) fn shown(&self, uid: &str) -> Option<String> {
        let pods = self.pods();
        let containers = &pods.get(uid)?.containers;
        let mut running: Vec<(&str, u32)> = containers
            .iter()
            .filter_map(|(name, held)| match &held.process {
                Process::Running { run, .. } => Some((name.as_str(), run.pid)),
                _ => None,
            })
            .collect();
        running.sort_unstable();
        match running.as_slice() {
            [] => None,
            [(_, pid)] => Some(pid.to_string()),
            many => Some(many.iter().map(|(name, pid)| format!("{name}={pid}")).collect::<Vec<_>>().join(",")),
        }
    }

    /// Returns the pods that have running processes.
    pub(super) fn residents(&self) -> Vec<(String, Key)> {
        self.pods().iter().filter(|(_, pod)| pod.is_alive()).map(|(uid, pod)| (uid.clone(), pod.key.clone())).collect()
    }

    /// Ends all processes: they are asked, and killed when the grace period is over. Nothing is known of them any more afterwards.
    pub(super) async fn end(&self, grace: Duration) {
        for (uid, _) in self.residents() {
            self.stop(&uid, None, grace);
        }
        let end = tokio::time::Instant::now() + grace + Duration::from_millis(200);
        while self.count() > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.pods().clear();
    }

    fn reached(&self) -> Option<Reached> {
        self.0.reached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn base(&self) -> &Path {
        &self.0.settings.directory
    }
}

impl Resident {
    fn of(pod: &DynamicObject) -> Self {
        Self { key: Key::of(pod), containers: HashMap::new(), tokens: prepare::Kept::default(), gone: false }
    }

    fn is_alive(&self) -> bool {
        self.containers.values().any(|held| matches!(held.process, Process::Running { .. }))
    }
}

/// A run, while it is attended.
struct Attended {
    machine: Machine,
    links: Links,
    pod: Object,
    container: String,
    run: Run,
}

impl Attended {
    async fn attend(
        self,
        ready: prepare::Ready,
        running: launch::Supervised,
        stops: mpsc::UnboundedReceiver<Stop>,
        log: Arc<log::Writer>,
        logs: PathBuf,
    ) {
        let this = Arc::new(self);
        let probing = tokio::spawn(run::probe(ready.probes, ready.launch, this.clone()));
        let message: Message = ready.message;
        let exit = run::attend(running, stops, (log, &logs), &message, &this.links.env).await;
        probing.abort();
        let ended = Process::Ended { run: this.run.clone(), exit };
        this.update(|held| *held = Held { process: ended, stop: None });
        this.machine.bury(this.pod.uid());
    }

    /// Changes what is known of the run, unless another one has taken its place.
    fn update(&self, change: impl FnOnce(&mut Held)) {
        {
            let mut pods = self.machine.pods();
            let held = pods.get_mut(self.pod.uid()).and_then(|pod| pod.containers.get_mut(&self.container));
            let Some(held) = held.filter(|held| matches!(&held.process, Process::Running { run, .. } if run.id == self.run.id)) else {
                return;
            };
            change(held);
        }
        self.links.queue.add(Key::of(&self.pod));
    }
}

impl Told for Attended {
    fn state(&self, started: bool, ready: bool) {
        let process = Process::Running { run: self.run.clone(), started, ready };
        self.update(|held| held.process = process);
    }

    fn event(&self, event: Event) {
        let message = event.message.replacen("Container failed", &format!("Container {} failed", self.container), 1);
        self.links.events.tell(KUBELET, &self.links.served, &self.pod, Event { message, ..event });
    }

    fn stop(&self, grace: Option<Duration>) {
        let pods = || {
            self.pod.int("/spec/terminationGracePeriodSeconds").map_or(GRACE, |seconds| Duration::from_secs(seconds.max(0).unsigned_abs()))
        };
        self.machine.stop(self.pod.uid(), Some(&self.container), grace.unwrap_or_else(pods));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
