//! Which nodes go, and why the others stay (COP-CAS-04).
//!
//! ```text
//!   node of a set ── used below the threshold? ── no pod keeps it? ── each pod has another place? ──► unneeded, since when
//!   unneeded ── for long enough? ── no delay, nothing grows? ── above the least sizes? ──► removed: empty ones first, one drain at a time
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::group::{Group, GroupId, Machine};
use crate::grow::signed;
use crate::limits::Ledger;
use crate::memory::Memory;
use crate::node::Node;
use crate::plan::Snapshot;
use crate::pod::{Budget, Pod};
use crate::reason::{Blocking, Delay, Kept, Resource};
use crate::rehearsal::Rehearsal;
use crate::size::Size;

/// Most nodes of one pass.
const MOST: usize = 10;
/// The time that a node must have been not ready.
const UNREADY_TIME: Duration = Duration::from_secs(1_200);
const SYSTEM: &str = "kube-system";

/// A node that goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// The node.
    pub node: String,
    /// The set.
    pub group: GroupId,
    /// The machine.
    pub machine: String,
    /// The greatest requested share of the node.
    pub share: f64,
    /// The pods that move, as `namespace/name`.
    pub pods: Vec<String>,
}

/// The shrinkage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shrinkage {
    /// Nodes that go.
    pub removals: Vec<Removal>,
    /// Nodes of sets that stay.
    pub kept: BTreeMap<String, Kept>,
    /// Since when each node is unneeded.
    pub unneeded: BTreeMap<String, Timestamp>,
}

/// The facts before anything shrinks.
pub(crate) struct Known<'a> {
    pub snapshot: &'a Snapshot,
    pub memory: &'a Memory,
    /// Names of nodes that take pods.
    pub open: &'a [String],
    /// True if a set grows in this pass.
    pub is_growing: bool,
    /// Machines of each set that are removed for another reason in this pass.
    pub removed: BTreeMap<GroupId, usize>,
}

/// A node with its machine.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    node: &'a Node,
    group: &'a Group,
    machine: &'a Machine,
}

/// A node that is not needed.
struct Unneeded<'a> {
    candidate: Candidate<'a>,
    share: f64,
    pods: Vec<String>,
    is_empty: bool,
    since: Timestamp,
}

/// Decides what shrinks.
pub(crate) fn shrink<R: Rehearsal>(known: &Known<'_>, rehearsal: &mut R) -> Shrinkage {
    let snapshot = known.snapshot;
    let mut shrinkage = Shrinkage::default();
    let mut pods: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.priority >= snapshot.settings.priority_threshold) {
        if let Some(node) = pod.node.as_deref() {
            pods.entry(node).or_default().push(pod);
        }
    }
    let mut candidates = known.candidates();
    // Empty nodes first, which then take no pods of others; of these and of the rest those that are unneeded for long, so that the same ones stay so.
    let is_used = |node: &Node| pods.get(node.name.as_str()).is_some_and(|pods| pods.iter().any(|pod| !pod.is_daemon && !pod.is_mirror));
    let since = |node: &Node| known.memory.unneeded.get(&node.name).copied().unwrap_or(snapshot.now);
    candidates.sort_by_key(|one| (is_used(one.node), since(one.node), &one.node.name));
    let mut trial = Trial {
        snapshot,
        rehearsal,
        own: pods.clone(),
        pods,
        budgets: snapshot.budgets.iter().map(|budget| (budget, budget.allowed)).collect(),
        targets: known.open.iter().map(String::as_str).collect(),
    };
    let mut unneeded = Vec::new();
    for candidate in candidates {
        let name = candidate.node.name.as_str();
        match trial.look(candidate) {
            Err(kept) => {
                shrinkage.kept.insert(name.to_owned(), kept);
            }
            Ok((share, pods, is_empty)) => {
                let since = known.memory.unneeded.get(name).copied().unwrap_or(snapshot.now);
                shrinkage.unneeded.insert(name.to_owned(), since);
                unneeded.push(Unneeded { candidate, share, pods, is_empty, since });
            }
        }
    }
    unneeded.sort_by_key(|one| (!one.is_empty, one.since, &one.candidate.node.name));
    known.choose(unneeded, &mut shrinkage);
    shrinkage
}

/// Tries to do without nodes, one after the other; what is moved stays moved, so that all of them can go.
struct Trial<'a, 'r, R> {
    snapshot: &'a Snapshot,
    rehearsal: &'r mut R,
    /// The pods of each node as they are, which its use is measured by.
    own: HashMap<&'a str, Vec<&'a Pod>>,
    /// The same after what was moved.
    pods: HashMap<&'a str, Vec<&'a Pod>>,
    budgets: Vec<(&'a Budget, i64)>,
    targets: BTreeSet<&'a str>,
}

impl<'a, R: Rehearsal> Trial<'a, '_, R> {
    /// Returns the requested share, the pods that move, and whether no pod is on the node; what is tried in vain is taken back.
    fn look(&mut self, candidate: Candidate<'a>) -> Result<(f64, Vec<String>, bool), Kept> {
        let (settings, now) = (&self.snapshot.settings, self.snapshot.now);
        let node = candidate.node;
        if candidate.machine.is_deleting || node.is_deleting {
            return Err(Kept::BeingDeleted);
        }
        if !settings.scale_down.is_enabled {
            return Err(Kept::Disabled);
        }
        if node.is_kept {
            return Err(Kept::Annotated);
        }
        let is_present = |pod: &&&Pod| !pod.is_overdue(now);
        let own = self.own.get(node.name.as_str()).into_iter().flatten();
        let own: Vec<&Pod> = own.filter(is_present).copied().collect();
        let (share, of) = requested(node, &own, settings.ignores_daemons);
        if share >= settings.scale_down.threshold {
            return Err(Kept::Used { share, of, threshold: settings.scale_down.threshold });
        }
        let on_it = self.pods.get(node.name.as_str()).into_iter().flatten();
        let present: Vec<&Pod> = on_it.filter(is_present).filter(|pod| !pod.is_daemon && !pod.is_mirror).copied().collect();
        let movable: Vec<&Pod> = present.iter().copied().filter(|pod| !pod.is_deleting).collect();
        if let Some((pod, why)) = movable.iter().find_map(|pod| Some((*pod, self.blocking(pod)?))) {
            return Err(Kept::BlockedBy { pod: pod.key(), why });
        }
        let before = self.budgets.clone();
        if let Some((pod, budget)) = self.charge(&movable) {
            self.budgets = before;
            return Err(Kept::BlockedBy { pod: pod.key(), why: Blocking::Budget(budget) });
        }
        self.targets.remove(node.name.as_str());
        match self.clear(node, &movable) {
            Ok(()) => Ok((share, movable.iter().map(|pod| pod.key()).collect(), present.is_empty())),
            Err(kept) => {
                self.budgets = before;
                if node.is_ready {
                    self.targets.insert(&node.name);
                }
                Err(kept)
            }
        }
    }

    /// Moves all pods of a node, or none.
    fn clear(&mut self, node: &'a Node, movable: &[&'a Pod]) -> Result<(), Kept> {
        for pod in movable {
            self.rehearsal.remove(&pod.uid);
        }
        let mut moved: Vec<(&'a Pod, String)> = Vec::new();
        for pod in movable {
            match self.rehearsal.place(&pod.uid, &mut self.targets.iter().copied()) {
                Ok(target) => moved.push((pod, target)),
                Err(why) => {
                    for (pod, _) in &moved {
                        self.rehearsal.remove(&pod.uid);
                    }
                    for pod in movable {
                        self.rehearsal.put(&pod.uid, &node.name);
                    }
                    return Err(Kept::NoPlace { pod: pod.key(), why });
                }
            }
        }
        self.pods.insert(&node.name, Vec::new());
        for (pod, target) in moved {
            if let Some(target) = self.targets.get(target.as_str()).copied() {
                self.pods.entry(target).or_default().push(pod);
            }
        }
        Ok(())
    }

    /// Why a pod keeps its node, but for budgets.
    fn blocking(&self, pod: &Pod) -> Option<Blocking> {
        if pod.safe_to_evict == Some(true) {
            return None;
        }
        if pod.controller.is_none() {
            return Some(Blocking::NotReplicated);
        }
        if pod.namespace == SYSTEM && !self.budgets.iter().any(|(budget, _)| budget.covers(pod)) {
            return Some(Blocking::SystemPod);
        }
        if pod.has_local_storage && self.snapshot.settings.keeps_local_storage {
            return Some(Blocking::LocalStorage);
        }
        (pod.safe_to_evict == Some(false)).then_some(Blocking::NotSafeToEvict)
    }

    /// Charges budgets with pods; the first pod and budget that do not allow it, if any.
    fn charge<'p>(&mut self, pods: &[&'p Pod]) -> Option<(&'p Pod, String)> {
        for pod in pods {
            for (budget, allowed) in self.budgets.iter_mut().filter(|(budget, _)| budget.covers(pod)) {
                *allowed -= 1;
                if *allowed < 0 {
                    return Some((pod, budget.name.clone()));
                }
            }
        }
        None
    }
}

/// Returns the greatest requested share of a node: of its GPUs if it has any, else of processors and memory.
pub(crate) fn requested(node: &Node, pods: &[&Pod], ignores_daemons: bool) -> (f64, Resource) {
    let (mut used, mut has) = (Size::default(), node.size);
    for pod in pods {
        if ignores_daemons && (pod.is_daemon || pod.is_mirror) {
            has -= pod.size;
        } else {
            used += pod.size;
        }
    }
    // Of a node that says nothing about itself, nothing is known to be free.
    let share = |used: i128, has: i128| if has > 0 { used as f64 / has as f64 } else { 1.0 };
    if has.gpus > 0 {
        return (share(used.gpus, has.gpus), Resource::Gpu(node.gpu_type().unwrap_or("gpu").to_owned()));
    }
    let (cpu, memory) = (share(used.cpu, has.cpu), share(used.memory, has.memory));
    if cpu >= memory { (cpu, Resource::Cpu) } else { (memory, Resource::Memory) }
}

impl<'a> Known<'a> {
    fn candidates(&self) -> Vec<Candidate<'a>> {
        let nodes: HashMap<&str, &'a Node> = self.snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let of = |group: &'a Group| group.machines.iter().map(move |machine| (group, machine));
        let with_node =
            |(group, machine): (&'a Group, &'a Machine)| Some(Candidate { node: *nodes.get(machine.node.as_deref()?)?, group, machine });
        self.snapshot.groups.iter().flat_map(of).filter_map(with_node).collect()
    }

    /// The delay that holds now, the longest.
    fn delay(&self) -> Option<(Delay, Timestamp)> {
        let settings = &self.snapshot.settings.scale_down;
        let all = [
            (Delay::AfterAdd, self.memory.added, settings.delay_after_add),
            (Delay::AfterDelete, self.memory.deleted, settings.delay_after_delete),
            (Delay::AfterFailure, self.memory.failed, settings.delay_after_failure),
        ];
        let end = |(delay, last, length): (Delay, Option<Timestamp>, Duration)| {
            Some((delay, last?.saturating_add(signed(length)).unwrap_or(Timestamp::MAX)))
        };
        all.into_iter().filter_map(end).filter(|(_, until)| self.snapshot.now < *until).max_by_key(|(_, until)| *until)
    }

    /// The node that is being drained.
    fn draining(&self) -> Option<String> {
        let is_moving = |node: &str| {
            let stays =
                |pod: &&Pod| pod.node.as_deref() == Some(node) && !pod.is_daemon && !pod.is_mirror && !pod.is_overdue(self.snapshot.now);
            self.snapshot.pods.iter().any(|pod| stays(&pod))
        };
        let machines = self.snapshot.groups.iter().flat_map(|group| &group.machines).filter(|machine| machine.is_deleting);
        machines.filter_map(|machine| machine.node.clone()).find(|node| is_moving(node))
    }

    /// Removes those of the unneeded nodes that may go now.
    fn choose(&self, unneeded: Vec<Unneeded<'a>>, shrinkage: &mut Shrinkage) {
        let snapshot = self.snapshot;
        let delay = self.delay();
        let mut draining = self.draining();
        let mut removed = self.removed.clone();
        let staying = snapshot.nodes.iter().filter(|node| !node.is_deleting);
        let mut ledger = Ledger::of(&snapshot.settings.limits, staying, std::iter::empty());
        for one in unneeded {
            let Candidate { node, group, machine } = one.candidate;
            let gone = removed.get(&group.id).copied().unwrap_or_default();
            let settings = &snapshot.settings.scale_down;
            let (wanted, since) = match (node.is_ready, node.since) {
                (false, Some(unready)) => (UNREADY_TIME, one.since.max(unready)),
                _ => (settings.unneeded_time, one.since),
            };
            let is_due = since.saturating_add(signed(wanted)).is_ok_and(|end| end <= snapshot.now);
            let held = if !is_due {
                Some(Kept::NotLongEnough { since, wanted })
            } else if self.is_growing {
                Some(Kept::Growing)
            } else if let Some((delay, until)) = delay {
                Some(Kept::Delayed { delay, until })
            } else if group.replicas.saturating_sub(gone) <= group.min {
                Some(Kept::MinSize { min: group.min })
            } else if let Some(resource) = ledger.missed_without(node) {
                Some(Kept::MinResource(resource))
            } else if shrinkage.removals.len() >= MOST {
                Some(Kept::Pass)
            } else {
                draining.clone().filter(|_| !one.is_empty).map(|node| Kept::Draining { node })
            };
            if let Some(kept) = held {
                shrinkage.kept.insert(node.name.clone(), kept);
                continue;
            }
            ledger.give(node);
            *removed.entry(group.id.clone()).or_default() += 1;
            if !one.is_empty {
                draining = Some(node.name.clone());
            }
            shrinkage.removals.push(Removal {
                node: node.name.clone(),
                group: group.id.clone(),
                machine: machine.name.clone(),
                share: one.share,
                pods: one.pods,
            });
        }
    }
}
