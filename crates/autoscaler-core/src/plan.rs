//! One pass of the autoscaler over one look at the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::backoff::Backoff;
use crate::expander::Priorities;
use crate::group::{Group, GroupId, Machine};
use crate::grow::{self, Growth, grow, signed};
use crate::memory::Memory;
use crate::node::Node;
use crate::pod::{Budget, Pod};
use crate::rehearsal::Rehearsal;
use crate::settings::Settings;
use crate::shrink::{self, Shrinkage, shrink};

/// Nodes that may be not ready, however few there are.
const UNREADY: usize = 3;
/// The share of nodes that may be not ready, in percent.
const UNREADY_PERCENT: usize = 45;

/// One look at the cluster.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time.
    pub now: Timestamp,
    /// The settings.
    pub settings: Settings,
    /// The sets with bounds, by name.
    pub groups: Vec<Group>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All pods that have not ended.
    pub pods: Vec<Pod>,
    /// All budgets.
    pub budgets: Vec<Budget>,
    /// The priorities of sets, if an expander asks for them and they can be read.
    pub priorities: Option<Priorities>,
}

/// The health of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// True if too many nodes of the cluster are not ready.
    pub is_cluster_unhealthy: bool,
    /// Sets with too many nodes that are not ready.
    pub unhealthy: BTreeSet<GroupId>,
    /// Nodes that are not ready and should be.
    pub unready: BTreeSet<String>,
}

/// A machine that never became a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMachine {
    /// Its set.
    pub group: GroupId,
    /// Its name.
    pub machine: String,
    /// True if it took too long; false if it failed by itself.
    pub is_late: bool,
    /// True if it is removed: its set stays above its least size.
    pub is_removed: bool,
    /// True if this is the first pass that sees it.
    pub is_new: bool,
}

/// The plan of one pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The health of nodes.
    pub health: Health,
    /// Machines that never became nodes.
    pub failed: Vec<FailedMachine>,
    /// The growth.
    pub growth: Growth,
    /// The shrinkage.
    pub shrinkage: Shrinkage,
    /// Machines of each set that are becoming nodes.
    pub upcoming: BTreeMap<GroupId, usize>,
    /// Machines that bear the mark of a removal which did not happen, and which does not happen now.
    pub unmark: Vec<(GroupId, String)>,
    pub(crate) unneeded: BTreeMap<String, Timestamp>,
    pub(crate) backoffs: BTreeMap<GroupId, Backoff>,
    pub(crate) counted: BTreeSet<String>,
}

impl Plan {
    /// Returns the end of a set's time out.
    pub fn backoff(&self, group: &GroupId, now: Timestamp) -> Option<Timestamp> {
        self.backoffs.get(group).filter(|backoff| backoff.lasts(now)).map(|backoff| backoff.until)
    }
}

/// Returns when a machine should be a node.
fn due(machine: &Machine, settings: &Settings) -> Option<Timestamp> {
    machine.created?.checked_add(signed(settings.provision_time)).ok()
}

fn is_late(machine: &Machine, snapshot: &Snapshot) -> bool {
    due(machine, &snapshot.settings).is_some_and(|due| due <= snapshot.now)
}

/// Plans a pass. `rehearsal` is the cluster of the snapshot; `pick` chooses one of a number of equals.
pub fn plan<R: Rehearsal>(snapshot: &Snapshot, memory: &Memory, mut rehearsal: R, pick: &mut dyn FnMut(usize) -> usize) -> Plan {
    let mut plan = Plan { health: health(snapshot), backoffs: memory.backoffs.clone(), ..Plan::default() };
    let mut imagined = BTreeMap::new();
    let mut removed = BTreeMap::new();
    for group in &snapshot.groups {
        failures(snapshot, memory, group, &mut plan);
        removed.insert(group.id.clone(), plan.failed.iter().filter(|failed| failed.group == group.id && failed.is_removed).count());
        let is_failed = |machine: &&Machine| machine.is_failed || is_late(machine, snapshot);
        let missing = group.replicas.saturating_sub(group.members().count());
        let without = group.members().filter(|machine| machine.node.is_none()).filter(|machine| !is_failed(machine)).count();
        let is_starting = |machine: &&Machine| {
            let node = machine.node.as_deref().and_then(|name| snapshot.nodes.iter().find(|node| node.name == name));
            node.is_some_and(|node| !node.is_ready && !plan.health.unready.contains(&node.name))
        };
        let starting = group.members().filter(is_starting).count();
        plan.upcoming.insert(group.id.clone(), missing + without);
        imagined.insert(group.id.clone(), missing + without + starting);
    }
    let open = open(snapshot);
    let known = grow::Known {
        snapshot,
        health: &plan.health,
        backoffs: &plan.backoffs,
        upcoming: &plan.upcoming,
        imagined: &imagined,
        open: &open,
    };
    plan.growth = grow(&known, &mut rehearsal, pick);
    let known = shrink::Known { snapshot, memory, open: &open, is_growing: !plan.growth.resizes.is_empty(), removed };
    plan.shrinkage = shrink(&known, &mut rehearsal);
    if plan.health.is_cluster_unhealthy {
        plan.shrinkage.removals.clear();
    }
    plan.unneeded.clone_from(&plan.shrinkage.unneeded);
    plan.unmark = leftovers(snapshot, &plan);
    plan
}

/// Machines that were marked, of sets that were not made smaller: the autoscaler ended between the two, or the node is needed again.
fn leftovers(snapshot: &Snapshot, plan: &Plan) -> Vec<(GroupId, String)> {
    let is_going = |group: &GroupId, machine: &str| {
        let removed = plan.shrinkage.removals.iter().any(|removal| removal.group == *group && removal.machine == machine);
        removed || plan.failed.iter().any(|failed| failed.is_removed && failed.group == *group && failed.machine == machine)
    };
    let settled = snapshot.groups.iter().filter(|group| group.members().count() <= group.replicas);
    let marked = settled.flat_map(|group| group.members().filter(|machine| machine.is_marked).map(move |machine| (group, machine)));
    marked
        .filter(|(group, machine)| !is_going(&group.id, &machine.name))
        .map(|(group, machine)| (group.id.clone(), machine.name.clone()))
        .collect()
}

/// Names of the nodes that take pods: those that are ready and stay.
fn open(snapshot: &Snapshot) -> Vec<String> {
    let going: BTreeSet<&str> = snapshot
        .groups
        .iter()
        .flat_map(|group| &group.machines)
        .filter(|machine| machine.is_deleting)
        .filter_map(|machine| machine.node.as_deref())
        .collect();
    let is_open = |node: &&Node| node.is_ready && !node.is_deleting && !going.contains(node.name.as_str());
    snapshot.nodes.iter().filter(is_open).map(|node| node.name.clone()).collect()
}

/// Finds the machines of a set that never became nodes, and leaves the set out for a time.
fn failures(snapshot: &Snapshot, memory: &Memory, group: &Group, plan: &mut Plan) {
    let mut left = group.replicas;
    let mut has_new = false;
    for machine in group.members().filter(|machine| machine.node.is_none()) {
        let is_late = is_late(machine, snapshot);
        if !is_late && !machine.is_failed {
            continue;
        }
        let key = format!("{}/{}", group.id.namespace, machine.name);
        let is_new = !memory.counted.contains(&key);
        has_new |= is_new;
        plan.counted.insert(key);
        let is_removed = left > group.min;
        left -= usize::from(is_removed);
        plan.failed.push(FailedMachine {
            group: group.id.clone(),
            machine: machine.name.clone(),
            is_late: is_late && !machine.is_failed,
            is_removed,
            is_new,
        });
    }
    if has_new {
        let last = plan.backoffs.get(&group.id).copied();
        plan.backoffs.insert(group.id.clone(), Backoff::after(last, snapshot.now));
    }
}

fn health(snapshot: &Snapshot) -> Health {
    let mut health = Health::default();
    let is_starting = |node: &Node| {
        let machines = snapshot.groups.iter().flat_map(|group| &group.machines);
        machines.filter(|machine| machine.node.as_deref() == Some(&node.name)).any(|machine| !is_late(machine, snapshot))
    };
    let staying: Vec<&Node> = snapshot.nodes.iter().filter(|node| !node.is_deleting).collect();
    for node in staying.iter().filter(|node| !node.is_ready && !is_starting(node)) {
        health.unready.insert(node.name.clone());
    }
    let is_bad = |unready: usize, all: usize| unready > UNREADY && unready * 100 > all * UNREADY_PERCENT;
    health.is_cluster_unhealthy = is_bad(health.unready.len(), staying.len());
    for group in &snapshot.groups {
        let nodes: Vec<&str> = group.members().filter_map(|machine| machine.node.as_deref()).collect();
        if is_bad(nodes.iter().filter(|node| health.unready.contains(**node)).count(), nodes.len()) {
            health.unhealthy.insert(group.id.clone());
        }
    }
    health
}
