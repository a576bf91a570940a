//! A node on its way to another configuration.

use super::{
    Action, DRAIN_ENDS, Disk, DiskError, Disruption, Facts, MachineConfig, Next, NodeEvent, OperatingSystem, Plan, Progress,
    SignedDuration, State, annotation, disruption, failed, failing, missing, reconcilable, simulated, state, step,
};

/// The time between two looks at policies that are not up to date.
const POLICIES: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn update(facts: &Facts<'_>, disk: &Disk, desired: &str) -> Plan {
    let Some(new) = facts.desired else { return failed(facts, &missing(desired), None) };
    let node = facts.node;
    if ![state::WORKING, state::DEGRADED, state::UNRECONCILABLE].iter().any(|state| node.is_in(state)) {
        let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
        plan.annotate(facts, annotation::STATE, state::WORKING);
        plan.progress.push(Progress::of(step::UPDATED, State::False, format!("Node {} needs an update", node.name)));
        return plan;
    }
    let old = &disk.config;
    if let Err(error) = reconcilable::check(old, new) {
        let text = format!("can't reconcile config {} with {}: {error}", old.name, new.name);
        let mut plan = failing(facts, state::UNRECONCILABLE, &text, Some(NodeEvent::FailedToReconcile(text.clone())));
        if !plan.is_idle() {
            let (old, new) = (&old.name, &new.name);
            let message =
                format!("Update Failed compatibility validation. MachineConfigs {old} and {new} are not compatible. Err: {error}");
            plan.progress.insert(0, Progress::of(step::PREPARED, State::Unknown, message));
        }
        return plan;
    }
    let Some(policies) = facts.policies else { return Plan { next: Next::After(POLICIES), ..Plan::default() } };
    let change = match disruption(old, new, policies, facts.registries) {
        Ok(change) => change,
        Err(error) => return failed(facts, &error.to_string(), None),
    };
    if let Some(text) = out_of_reach(facts, &change) {
        return failing(facts, state::UNRECONCILABLE, &text, Some(NodeEvent::FailedToReconcile(text.clone())));
    }
    let actions = if disk.force { vec![Action::Reboot] } else { change.actions.clone() };
    let drains = match &change.drain {
        Ok(drain) => drain.is_needed() || disk.force,
        Err(error) => return failed(facts, &error.to_string(), None),
    };
    match drained(facts, disk, new, drains, &actions) {
        Drained::Waits(plan) => *plan,
        Drained::Is(events) => match written(facts, disk, new, &change, actions) {
            Ok(mut plan) => {
                plan.events.splice(0..0, events);
                plan
            }
            Err(error) => failed(facts, &error.to_string(), None),
        },
    }
}

/// The parts of the operating system that differ, as annotations name them.
fn parts(change: &Disruption) -> Vec<&'static str> {
    let difference = &change.difference;
    let all = [
        (difference.os_update, "osImage"),
        (difference.kargs, "kernelArguments"),
        (difference.kernel_type, "kernelType"),
        (difference.extensions, "extensions"),
    ];
    all.into_iter().filter(|(differs, _)| *differs).map(|(_, part)| part).collect()
}

/// Why changes of the operating system cannot be applied on this host (MACH-NODE-12); none if there are none, or they are recorded.
fn out_of_reach(facts: &Facts<'_>, change: &Disruption) -> Option<String> {
    let parts = parts(change).join(", ");
    match facts.system {
        _ if parts.is_empty() => None,
        OperatingSystem::Recorded => None,
        OperatingSystem::Packages => Some(format!("this host has no image-based operating system: cannot apply {parts}")),
        OperatingSystem::NotDriven => {
            Some(format!("this version of the node agent calls neither rpm-ostree nor bootc: cannot apply {parts}"))
        }
    }
}

enum Drained {
    /// The node is not drained yet.
    Waits(Box<Plan>),
    /// It is drained, or need not be; with what is told about that.
    Is(Vec<NodeEvent>),
}

fn drained(facts: &Facts<'_>, disk: &Disk, new: &MachineConfig, drains: bool, actions: &[Action]) -> Drained {
    let node = facts.node;
    if !drains {
        return Drained::Is(Vec::new());
    }
    if node.annotation(annotation::TOPOLOGY) == Some("SingleReplica") {
        return Drained::Is(vec![NodeEvent::NoDrain]);
    }
    let wanted = format!("drain-{}", new.name);
    if node.annotation(annotation::LAST_APPLIED_DRAIN) == Some(&wanted) {
        return Drained::Is(Vec::new());
    }
    let mut plan = Plan::default();
    if node.annotation(annotation::DESIRED_DRAIN) != Some(&wanted) {
        let shown: Vec<String> = actions.iter().map(ToString::to_string).collect();
        let message = format!("Update Compatible. Post Cfg Actions: [{}] Drain Required: true", shown.join(" "));
        plan.progress.push(Progress::of(step::PREPARED, State::True, message));
        plan.annotate(facts, annotation::DESIRED_DRAIN, &wanted);
        plan.events = vec![NodeEvent::Cordon, NodeEvent::Drain];
        plan.disk = Some(Disk { asked: Some(facts.now), ..disk.clone() });
        plan.next = Next::After(DRAIN_ENDS);
        return Drained::Waits(Box::new(plan));
    }
    let lasted = disk.asked.map_or(SignedDuration::ZERO, |asked| facts.now.duration_since(asked));
    if lasted < DRAIN_ENDS {
        plan.next = Next::After(DRAIN_ENDS - lasted);
        return Drained::Waits(Box::new(plan));
    }
    let name = &node.name;
    let text = format!("failed to drain node: {name} after 1 hour. Please see machine-config-controller logs for more information");
    let mut plan = failed(facts, &text, Some(NodeEvent::FailedToDrain(text.clone())));
    // The drain goes on, and so does the wait for it.
    plan.disk = Some(Disk { asked: Some(facts.now), ..disk.clone() });
    plan.next = Next::After(DRAIN_ENDS);
    Drained::Waits(Box::new(plan))
}

/// Writes the new configuration; the actions follow.
fn written(facts: &Facts<'_>, disk: &Disk, new: &MachineConfig, change: &Disruption, actions: Vec<Action>) -> Result<Plan, DiskError> {
    let mut plan = Plan { next: Next::AtOnce, ..Plan::default() };
    let mut next = disk.clone();
    next.write(new)?;
    next.pending = actions;
    next.force = false;
    next.asked = None;
    plan.disk = Some(next);
    let difference = &change.difference;
    let or_not = |needed: bool| if needed { "" } else { "not" };
    let (os, keys) = (or_not(difference.os_update || difference.extensions || difference.kernel_type), or_not(difference.passwd));
    let (parent, part) = (
        "Updated the Files and OS on disk as a part of the in progress phase".to_owned(),
        format!("Applied files and new OS config to node. OS did {os} need an update. SSH Keys did {keys} need an update"),
    );
    plan.progress.push(Progress::part((step::EXECUTED, State::True, parent), (step::FILES_AND_OS, State::True, part)));
    if difference.os_update || difference.extensions || difference.kernel_type {
        plan.events.push(NodeEvent::Upgrade(new.spec.os_image_url.clone()));
    }
    let changes = difference.os_changes();
    if !changes.is_empty() {
        plan.events.push(NodeEvent::OsUpdateStarted(changes));
        plan.events.push(NodeEvent::OsUpdateStaged);
    }
    let needs_reboot = change.effects.iter().filter(|effect| effect.actions.contains(&Action::Reboot));
    let mut by: Vec<String> = needs_reboot.map(|effect| effect.subject.to_string()).collect();
    if disk.force {
        by.push("file /run/machine-config-daemon-force".to_owned());
    }
    if !by.is_empty() {
        plan.events.push(NodeEvent::RebootRequired { config: new.name.clone(), by });
    }
    let mut all: Vec<&str> = facts.node.filled(simulated::RECORDED_ONLY).into_iter().flat_map(|known| known.split(',')).collect();
    all.extend(parts(change));
    all.sort_unstable();
    all.dedup();
    if !all.is_empty() {
        plan.annotate(facts, simulated::RECORDED_ONLY, &all.join(","));
    }
    Ok(plan)
}
