//! The next step of a node.

use jiff::{SignedDuration, Timestamp};

use super::disk::{Disk, DiskError};
use super::event::NodeEvent;
use super::progress::{Progress, State, step};
use crate::disruption::{Disruption, RegistryDrain, disruption};
use crate::machine_config::MachineConfig;
use crate::policy::{Action, Policies, Verb};
use crate::pool::node::{Node, annotation, state};
use crate::reconcilable;

mod update;

/// The time after which a drain that did not end is a failure.
const DRAIN_ENDS: SignedDuration = SignedDuration::from_hours(1);
/// The time after which an uncordoning that did not end is a failure.
const UNCORDON_ENDS: SignedDuration = SignedDuration::from_mins(10);
/// The time after which a failed update is tried again.
const AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// The time after which a reboot that did not begin another system is a failure.
const REBOOT_ENDS: SignedDuration = SignedDuration::from_mins(30);
/// The longest reason in an annotation, in characters.
const REASON: usize = 2000;

/// Annotations of simulated nodes, which their kubelets follow.
pub mod simulated {
    /// The node reboots: it is not ready.
    pub const REBOOTING: &str = "mainstay.dev/rebooting";
    /// The identifier of the running system.
    pub const BOOT_ID: &str = "mainstay.dev/boot-id";
    /// The parts of a configuration that are recorded and have no effect.
    pub const RECORDED_ONLY: &str = "mainstay.dev/recorded-only";
}

/// The facts that a step depends on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The node.
    pub node: &'a Node,
    /// Its disk; none if nothing was ever written.
    pub disk: Option<&'a Disk>,
    /// The configuration that a new node of the pool gets.
    pub first: Option<&'a MachineConfig>,
    /// The configuration that the node has by its annotation.
    pub current: Option<&'a MachineConfig>,
    /// The configuration that it is asked for.
    pub desired: Option<&'a MachineConfig>,
    /// The cluster's policies; none while they are not up to date.
    pub policies: Option<&'a Policies>,
    /// The ConfigMap about registries.
    pub registries: RegistryDrain,
    /// The authority that the kubelet trusts, and the version of the ControllerConfig that it is from.
    pub authority: Option<(&'a str, &'a str)>,
    /// The time.
    pub now: Timestamp,
    /// The way in which the node reboots.
    pub reboot: Reboot,
    /// The operating system, as far as a MachineConfig can change it here.
    pub system: OperatingSystem,
    /// The identifier of the system: of the one that runs, or after a simulated reboot of the next one.
    pub next_boot_id: &'a str,
}

/// The way in which a node reboots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// It is simulated, and takes this time.
    Simulated(SignedDuration),
    /// It is real.
    Real {
        /// True if the system that runs is another one than before.
        is_over: bool,
    },
}

/// The fate of changes of the operating system: its image, kernel arguments, kernel type, extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatingSystem {
    /// They are recorded, and the node says so (MACH-REAL-02).
    Recorded,
    /// They cannot be applied: nothing here is made of an image.
    Packages,
    /// They are not applied: this program calls neither rpm-ostree nor bootc.
    NotDriven,
}

/// The time of the next look at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    #[default]
    OnChange,
    /// At once: the step is one of several.
    AtOnce,
    /// After this time, or when something changes.
    After(SignedDuration),
}

/// The next step of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The disk, if it changes.
    pub disk: Option<Disk>,
    /// The progress.
    pub progress: Vec<Progress>,
    /// Annotations that change; none removes one.
    pub annotations: Vec<(&'static str, Option<String>)>,
    /// The events.
    pub events: Vec<NodeEvent>,
    /// The next look.
    pub next: Next,
}

impl Plan {
    /// Returns whether nothing is written.
    pub fn is_idle(&self) -> bool {
        self.disk.is_none() && self.progress.is_empty() && self.annotations.is_empty() && self.events.is_empty()
    }

    fn annotate(&mut self, facts: &Facts<'_>, key: &'static str, value: &str) {
        if facts.node.annotation(key) != Some(value) {
            self.annotations.push((key, Some(value.to_owned())));
        }
    }

    /// Sets an annotation that only the kubelet of a simulated node looks at.
    fn simulate(&mut self, facts: &Facts<'_>, key: &'static str, value: &str) {
        if matches!(facts.reboot, Reboot::Simulated(_)) {
            self.annotate(facts, key, value);
        }
    }

    fn remove(&mut self, facts: &Facts<'_>, key: &'static str) {
        if facts.node.annotation(key).is_some() {
            self.annotations.push((key, None));
        }
    }
}

/// Plans the next step of a node.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let Some(disk) = facts.disk else { return first_boot(facts) };
    if let Some(since) = disk.rebooting_since {
        return booting(facts, disk, since);
    }
    if let Some(plan) = marks(facts, disk).or_else(|| authority(facts, disk)) {
        return plan;
    }
    if !disk.pending.is_empty() {
        return act(facts, disk);
    }
    if !disk.force {
        match disk.drift() {
            Ok(None) => {}
            Ok(Some(drift)) => {
                let text = format!("unexpected on-disk state validating against {}: {drift}", disk.config.name);
                return failed(facts, &text, Some(NodeEvent::Drift(text.clone())));
            }
            Err(error) => return failed(facts, &error.to_string(), None),
        }
    }
    let desired = facts.node.filled(annotation::DESIRED_CONFIG);
    match desired {
        Some(desired) if desired != disk.config.name || disk.force => update::update(facts, disk, desired),
        _ => complete(facts, disk),
    }
}

/// A node without disk: one that joins, or one whose disk is not known and is taken to be as its annotation says.
fn first_boot(facts: &Facts<'_>) -> Plan {
    let joins = facts.node.filled(annotation::CURRENT_CONFIG).is_none();
    let config = match (joins, facts.current) {
        (true, _) => facts.first,
        (false, None) => {
            let name = facts.node.annotation(annotation::CURRENT_CONFIG).unwrap_or_default();
            return failed(facts, &missing(name), None);
        }
        (false, current) => current,
    };
    let Some(config) = config else { return Plan::default() };
    let mut disk = match Disk::of(config, facts.next_boot_id) {
        Ok(disk) => disk,
        Err(error) => return failed(facts, &error.to_string(), None),
    };
    let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
    if let Some((digest, version)) = facts.authority {
        disk.kubelet_ca = Some(digest.to_owned());
        plan.annotate(facts, annotation::CONTROLLER_CONFIG, version);
    }
    plan.simulate(facts, simulated::BOOT_ID, &disk.boot_id);
    if joins {
        for key in [annotation::CURRENT_CONFIG, annotation::DESIRED_CONFIG] {
            plan.annotate(facts, key, &config.name);
        }
        plan.annotate(facts, annotation::STATE, state::DONE);
        plan.annotate(facts, annotation::REASON, "");
        plan.progress.push(Progress::of(step::UPDATED, State::True, format!("Node {} Updated", facts.node.name)));
    }
    plan.disk = Some(disk);
    plan
}

/// A node that reboots, or that is up again.
fn booting(facts: &Facts<'_>, disk: &Disk, since: Timestamp) -> Plan {
    let lasted = facts.now.duration_since(since);
    let mut plan = Plan::default();
    let ends = match facts.reboot {
        Reboot::Simulated(takes) => takes,
        Reboot::Real { is_over: true } => SignedDuration::ZERO,
        Reboot::Real { is_over: false } => REBOOT_ENDS,
    };
    // A clock that was set back must not keep a node down.
    if lasted < ends && lasted >= SignedDuration::ZERO {
        plan.annotate(facts, annotation::POST_ACTION, state::REBOOTING);
        plan.simulate(facts, simulated::REBOOTING, "true");
        plan.next = Next::After(ends - lasted);
        return plan;
    }
    if facts.reboot == (Reboot::Real { is_over: false }) {
        return failed(facts, "the node did not reboot within 30 minutes: its boot ID is the same", None);
    }
    let boot_id = facts.next_boot_id.to_owned();
    plan.progress.push(Progress::of(step::REBOOTED, State::True, "Node has rebooted"));
    plan.simulate(facts, simulated::BOOT_ID, &boot_id);
    plan.remove(facts, simulated::REBOOTING);
    plan.annotate(facts, annotation::POST_ACTION, "");
    plan.disk = Some(Disk { boot_id, rebooting_since: None, ..disk.clone() });
    plan.next = Next::AtOnce;
    plan
}

/// Takes back the marks of a reboot whose writes were cut off.
fn marks(facts: &Facts<'_>, disk: &Disk) -> Option<Plan> {
    let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
    plan.simulate(facts, simulated::BOOT_ID, &disk.boot_id);
    plan.remove(facts, simulated::REBOOTING);
    if facts.node.annotation(annotation::POST_ACTION) == Some(state::REBOOTING) {
        plan.annotate(facts, annotation::POST_ACTION, "");
    }
    (!plan.is_idle()).then_some(plan)
}

/// Writes the authority that the kubelet trusts, also where the pool is paused (MACH-DISR-01, MACH-PAUSE-06).
fn authority(facts: &Facts<'_>, disk: &Disk) -> Option<Plan> {
    let (digest, version) = facts.authority?;
    if disk.kubelet_ca.as_deref() == Some(digest) {
        return None;
    }
    let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
    plan.disk = Some(Disk { kubelet_ca: Some(digest.to_owned()), ..disk.clone() });
    plan.annotate(facts, annotation::CONTROLLER_CONFIG, version);
    Some(plan)
}

/// Does what the last write needs.
fn act(facts: &Facts<'_>, disk: &Disk) -> Plan {
    let config = &disk.config.name;
    let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
    let mut next = Disk { pending: Vec::new(), ..disk.clone() };
    if disk.pending.contains(&Action::Reboot) {
        next.rebooting_since = Some(facts.now);
        plan.progress.push(Progress::of(step::REBOOTED, State::Unknown, "Upgrade requires a reboot."));
        plan.events.push(NodeEvent::Reboot(config.clone()));
        plan.annotate(facts, annotation::POST_ACTION, state::REBOOTING);
        plan.simulate(facts, simulated::REBOOTING, "true");
    } else {
        plan.events = disk.pending.iter().filter_map(NodeEvent::of).collect();
        plan.progress = plan.events.iter().map(post_action).collect();
    }
    plan.disk = Some(next);
    plan
}

fn post_action(event: &NodeEvent) -> Progress {
    let mut progress = Progress::of(
        step::POST_ACTION,
        State::True,
        match event {
            NodeEvent::SkipReboot => "Changes do not require a reboot".to_owned(),
            NodeEvent::Reloaded(service) => format!("Node has reloaded service {service}"),
            other => other.to_string(),
        },
    );
    if *event == NodeEvent::SkipReboot {
        "None".clone_into(&mut progress.parent.reason);
    }
    progress
}

/// A node that has what it is asked for: it is uncordoned, then done.
fn complete(facts: &Facts<'_>, disk: &Disk) -> Plan {
    let config = &disk.config.name;
    let node = facts.node;
    let reason = node.annotation(annotation::REASON).unwrap_or_default();
    if node.is_in(state::DONE) && node.annotation(annotation::CURRENT_CONFIG) == Some(config) && reason.is_empty() {
        return Plan::default();
    }
    let mut plan = Plan::default();
    let uncordon = format!("uncordon-{config}");
    if node.annotation(annotation::DESIRED_DRAIN) != Some(&uncordon) {
        let message = format!("In desired config {config}. Resumed normal operations. Applying proper annotations.");
        plan.progress.push(Progress::of(step::RESUMED, State::True, message));
        plan.annotate(facts, annotation::DESIRED_DRAIN, &uncordon);
        plan.disk = Some(Disk { asked: Some(facts.now), ..disk.clone() });
        plan.next = Next::AtOnce;
        return plan;
    }
    if node.annotation(annotation::LAST_APPLIED_DRAIN) != Some(&uncordon) {
        let lasted = disk.asked.map_or(SignedDuration::ZERO, |asked| facts.now.duration_since(asked));
        if lasted < UNCORDON_ENDS {
            return Plan { next: Next::After(UNCORDON_ENDS - lasted), ..plan };
        }
        let name = &node.name;
        let text =
            format!("failed to uncordon node: {name} after 10 minutes. Please see machine-config-controller logs for more information");
        return failed(facts, &text, Some(NodeEvent::FailedToUncordon(text.clone())));
    }
    plan.events.push(NodeEvent::Uncordon(config.clone()));
    plan.events.push(NodeEvent::Done { node: node.name.clone(), config: config.clone() });
    plan.progress.push(Progress::of(step::DEGRADED, State::False, format!("Node {} upgrade succeeded", node.name)));
    plan.progress.push(Progress::of(step::UPDATED, State::True, format!("Node {} Updated", node.name)));
    plan.annotate(facts, annotation::STATE, state::DONE);
    plan.annotate(facts, annotation::CURRENT_CONFIG, config);
    plan.annotate(facts, annotation::REASON, "");
    if disk.asked.is_some() {
        plan.disk = Some(Disk { asked: None, ..disk.clone() });
    }
    plan
}

/// Plans what a node says whose action after the files were written failed; the action is tried again.
pub fn action_failed(facts: &Facts<'_>, action: &Action, problem: &str) -> Plan {
    let Some((verb, service)) = action.told_as() else { return failed(facts, problem, None) };
    let text = match verb {
        Verb::Reload => format!("could not apply update: reloading {service} configuration failed. Error: {problem}"),
        Verb::Restart => format!("could not apply update: restarting {service} service failed. Error: {problem}"),
    };
    failed(facts, &text, Some(NodeEvent::FailedAction { verb, service: service.to_owned(), problem: problem.to_owned() }))
}

/// Plans what a node says whose files could not be written.
pub fn write_failed(facts: &Facts<'_>, problem: &str) -> Plan {
    failed(facts, problem, None)
}

/// A node whose update fails: it says why, and tries again.
fn failed(facts: &Facts<'_>, text: &str, event: Option<NodeEvent>) -> Plan {
    failing(facts, state::DEGRADED, text, event)
}

fn failing(facts: &Facts<'_>, state: &str, text: &str, event: Option<NodeEvent>) -> Plan {
    let mut plan = Plan { next: Next::After(AGAIN), ..Plan::default() };
    let reason: String = text.chars().take(REASON).collect();
    let is_known = facts.node.is_in(state) && facts.node.annotation(annotation::REASON) == Some(&reason);
    if is_known {
        return plan;
    }
    plan.progress.push(Progress::of(step::DEGRADED, State::True, format!("Node {} upgrade failure. {text}", facts.node.name)));
    plan.annotate(facts, annotation::STATE, state);
    plan.annotate(facts, annotation::REASON, &reason);
    plan.events.extend(event);
    plan
}

fn missing(config: &str) -> String {
    format!("missing MachineConfig {config}\nmachineconfig.machineconfiguration.openshift.io {config:?} not found")
}
