//! Which set grows, by how much, and why the others do not (COP-CAS-03).
//!
//! ```text
//!   pods without a node ── fit on nodes that are there or on their way? ── they wait
//!        └─ rest ── each set: new nodes, one by one, until all pods that fit have one ──► options ── expander ──► one
//!                                                                                            balance over sets alike ──► sizes
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;

use crate::backoff::Backoff;
use crate::balance::distribute;
use crate::expander::{GrowthOption, choose};
use crate::group::{Group, GroupId};
use crate::limits::Ledger;
use crate::plan::{Health, Snapshot};
use crate::pod::Pod;
use crate::reason::{GroupVerdict, PodVerdict, Refusal, Resize};
use crate::rehearsal::Rehearsal;
use crate::size::Size;
use crate::template::{are_alike, named};

/// Most nodes that one pass asks for.
const MOST: usize = 1_000;

/// The growth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// Sets with other sizes.
    pub resizes: Vec<Resize>,
    /// The verdict on each pod that the scheduler found no node for, by UID.
    pub pods: BTreeMap<String, PodVerdict>,
    /// The verdict on each set.
    pub groups: BTreeMap<GroupId, GroupVerdict>,
}

/// The facts before anything grows.
pub(crate) struct Known<'a> {
    pub snapshot: &'a Snapshot,
    pub health: &'a Health,
    pub backoffs: &'a BTreeMap<GroupId, Backoff>,
    /// Machines of each set that are becoming nodes.
    pub upcoming: &'a BTreeMap<GroupId, usize>,
    /// The same, with nodes that are starting.
    pub imagined: &'a BTreeMap<GroupId, usize>,
    /// Names of nodes that take pods.
    pub open: &'a [String],
}

/// Decides what grows. Afterwards the rehearsal holds the pods that wait for nodes on these.
pub(crate) fn grow<R: Rehearsal>(known: &Known<'_>, rehearsal: &mut R, pick: &mut dyn FnMut(usize) -> usize) -> Growth {
    let mut growth = Growth::default();
    let (snapshot, groups) = (known.snapshot, &known.snapshot.groups);
    let waiting = known.waiting(&mut growth.pods);
    let mut imagined = Vec::new();
    for group in groups {
        let Ok(template) = &group.template else { continue };
        for number in 0..known.imagined.get(&group.id).copied().unwrap_or_default() {
            let node = named(template, &group.id, number);
            imagined.push(node["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            rehearsal.add_node(&node);
        }
    }
    let mut rest = Vec::new();
    let mut full: BTreeSet<&str> = BTreeSet::new();
    for pod in waiting {
        let is_known = pod.alike.as_deref().is_some_and(|alike| full.contains(alike));
        let mut among = known.open.iter().chain(&imagined).map(String::as_str);
        let node = if is_known { None } else { rehearsal.place(&pod.uid, &mut among).ok() };
        if let Some(node) = node {
            growth.pods.insert(pod.uid.clone(), PodVerdict::Awaits { node });
        } else {
            full.extend(pod.alike.as_deref());
            rest.push(pod);
        }
    }
    let ledger = known.ledger();
    if known.health.is_cluster_unhealthy {
        growth.groups = groups.iter().map(|group| (group.id.clone(), GroupVerdict::ClusterUnhealthy)).collect();
        growth.pods.extend(rest.iter().map(|pod| (pod.uid.clone(), PodVerdict::Later)));
        return growth;
    }
    if rest.is_empty() {
        known.idle(&mut growth);
        if snapshot.settings.enforces_min {
            grow_to_min(known, ledger, &mut growth);
        }
        return growth;
    }
    let mut options = Vec::new();
    let mut refusals: BTreeMap<&str, BTreeMap<GroupId, Refusal>> = rest.iter().map(|pod| (&*pod.uid, BTreeMap::new())).collect();
    for group in groups {
        let estimate = match known.obstacle(group, &ledger) {
            Some(refusal) => Estimate { refused: rest.iter().map(|pod| (&*pod.uid, refusal.clone())).collect(), ..Estimate::default() },
            None => estimate(group, known.capacity(group), &rest, ledger.clone(), rehearsal.fork()),
        };
        for (pod, refusal) in &estimate.refused {
            if let Some(all) = refusals.get_mut(pod) {
                all.insert(group.id.clone(), refusal.clone());
            }
        }
        if estimate.nodes > 0 {
            options.push(estimate.option(group, &rest));
        } else if let Some(refusal) = estimate.commonest() {
            growth.groups.insert(group.id.clone(), GroupVerdict::Refused { refusal, pods: rest.len() });
        }
    }
    let Some((chosen, by)) = choose(&snapshot.settings.expanders, &options, snapshot.priorities.as_ref(), pick) else {
        growth.pods.extend(refusals.into_iter().map(|(pod, all)| (pod.to_owned(), PodVerdict::Refused(all))));
        return growth;
    };
    let option = &options[chosen];
    growth.resizes = known.sizes(option, &options, ledger);
    let pods = option.pods.len();
    for other in &options {
        let verdict = match growth.resizes.iter().find(|resize| resize.group == other.group.id) {
            Some(resize) => GroupVerdict::Grows { resize: resize.clone(), pods },
            None => GroupVerdict::NotChosen { chosen: option.group.id.clone(), by },
        };
        growth.groups.insert(other.group.id.clone(), verdict);
    }
    for pod in rest {
        let verdict = if option.pods.contains(&pod.uid) { PodVerdict::Triggered } else { PodVerdict::Later };
        growth.pods.insert(pod.uid.clone(), verdict);
    }
    growth
}

impl<'a> Known<'a> {
    /// The pods that something might grow for, the most important and largest first; the others get their verdicts.
    fn waiting(&self, verdicts: &mut BTreeMap<String, PodVerdict>) -> Vec<&'a Pod> {
        let settings = &self.snapshot.settings;
        let delay = signed(settings.pod_delay);
        let mut waiting = Vec::new();
        for pod in &self.snapshot.pods {
            if !pod.is_unschedulable || pod.node.is_some() || pod.is_deleting || pod.is_daemon {
                continue;
            }
            let is_young = pod.created.is_some_and(|created| created.saturating_add(delay).is_ok_and(|end| self.snapshot.now < end));
            if pod.priority < settings.priority_threshold {
                verdicts.insert(pod.uid.clone(), PodVerdict::Expendable);
            } else if is_young {
                verdicts.insert(pod.uid.clone(), PodVerdict::TooYoung);
            } else {
                waiting.push(pod);
            }
        }
        waiting.sort_by_key(|pod| (Reverse(pod.priority), Reverse(pod.size.cpu), Reverse(pod.size.memory), &pod.namespace, &pod.name));
        waiting
    }

    fn ledger(&self) -> Ledger<'a> {
        let snapshot = self.snapshot;
        let upcoming = self.upcoming;
        let of = move |group: &'a Group| (group, upcoming.get(&group.id).copied().unwrap_or_default());
        Ledger::of(&snapshot.settings.limits, snapshot.nodes.iter().filter(|node| !node.is_deleting), snapshot.groups.iter().map(of))
    }

    /// The obstacle that keeps a set from getting even one node, for any pods.
    fn obstacle(&self, group: &Group, ledger: &Ledger<'_>) -> Option<Refusal> {
        if let Some(backoff) = self.backoffs.get(&group.id).filter(|backoff| backoff.lasts(self.snapshot.now)) {
            return Some(Refusal::Backoff { until: backoff.until });
        }
        if self.health.unhealthy.contains(&group.id) {
            return Some(Refusal::NotReady);
        }
        if let Err(error) = &group.template {
            return Some(Refusal::Template(error.clone()));
        }
        if self.capacity(group) == 0 || group.replicas >= group.max {
            return Some(Refusal::MaxSize);
        }
        if ledger.is_full() {
            return Some(Refusal::MaxNodes);
        }
        let exceeded = ledger.exceeded_by(group.size, group.gpu_type());
        (!exceeded.is_empty()).then_some(Refusal::Limits(exceeded))
    }

    /// The sets that are alike and may grow, itself first.
    fn alike<'g>(&'g self, group: &'g Group) -> Vec<&'g Group> {
        let mut all = vec![group];
        if self.snapshot.settings.balances
            && let Ok(template) = &group.template
        {
            let ignored = &self.snapshot.settings.ignored_labels;
            let is_alike = |other: &&Group| {
                other.id != group.id
                    && !self.health.unhealthy.contains(&other.id)
                    && !self.backoffs.get(&other.id).is_some_and(|backoff| backoff.lasts(self.snapshot.now))
                    && other.template.as_ref().is_ok_and(|other| are_alike(template, other, ignored))
            };
            all.extend(self.snapshot.groups.iter().filter(is_alike));
        }
        all
    }

    /// The number of nodes that a set, and those alike, may still get.
    fn capacity(&self, group: &Group) -> usize {
        self.alike(group).iter().map(|group| group.max.saturating_sub(group.replicas)).sum::<usize>().min(MOST)
    }

    /// The sizes by which the chosen option is met.
    fn sizes(&self, option: &GrowthOption<'_>, options: &[GrowthOption<'_>], mut ledger: Ledger<'_>) -> Vec<Resize> {
        let pods: BTreeSet<&String> = option.pods.iter().collect();
        let takes_all =
            |group: &&Group| options.iter().any(|other| other.group.id == group.id && pods.iter().all(|pod| other.pods.contains(*pod)));
        let groups: Vec<&Group> = self.alike(option.group).into_iter().filter(takes_all).collect();
        distribute(&groups, option.nodes, &mut ledger)
    }

    /// The verdicts when no pod needs more.
    fn idle(&self, growth: &mut Growth) {
        for group in &self.snapshot.groups {
            let nodes = self.imagined.get(&group.id).copied().unwrap_or_default();
            let prefix = format!("{}/", group.id);
            let is_for = |verdict: &&PodVerdict| matches!(verdict, PodVerdict::Awaits { node } if node.starts_with(&prefix));
            let pods = growth.pods.values().filter(is_for).count();
            let verdict = if nodes > 0 && pods > 0 { GroupVerdict::Upcoming { nodes, pods } } else { GroupVerdict::NotNeeded };
            growth.groups.insert(group.id.clone(), verdict);
        }
    }
}

/// Sets below their least size grow to it, as far as the limits of the cluster allow.
fn grow_to_min(known: &Known<'_>, mut ledger: Ledger<'_>, growth: &mut Growth) {
    for group in known.snapshot.groups.iter().filter(|group| group.replicas < group.min) {
        if let Some(refusal) = known.obstacle(group, &ledger) {
            growth.groups.insert(group.id.clone(), GroupVerdict::Refused { refusal, pods: 0 });
            continue;
        }
        for resize in distribute(&[group], group.min - group.replicas, &mut ledger) {
            growth.groups.insert(group.id.clone(), GroupVerdict::GrowsToMin(resize.clone()));
            growth.resizes.push(resize);
        }
    }
}

/// The effect of new nodes of a set on pods.
#[derive(Default)]
struct Estimate<'p> {
    nodes: usize,
    placed: Vec<String>,
    refused: Vec<(&'p str, Refusal)>,
}

impl Estimate<'_> {
    fn option<'g>(self, group: &'g Group, pods: &[&Pod]) -> GrowthOption<'g> {
        let mut requested = Size::default();
        for pod in pods.iter().filter(|pod| self.placed.contains(&pod.uid)) {
            requested += pod.size;
        }
        GrowthOption { group, nodes: self.nodes, pods: self.placed, requested }
    }

    fn commonest(&self) -> Option<Refusal> {
        let count = |refusal: &Refusal| self.refused.iter().filter(|(_, other)| other == refusal).count();
        self.refused.iter().map(|(_, refusal)| refusal).max_by_key(|refusal| count(refusal)).cloned()
    }
}

/// Adds nodes one by one, each when a pod fits on none of those before.
fn estimate<'p, R: Rehearsal>(group: &Group, capacity: usize, pods: &[&'p Pod], mut ledger: Ledger<'_>, mut rehearsal: R) -> Estimate<'p> {
    let mut estimate = Estimate::default();
    let Ok(template) = &group.template else { return estimate };
    let mut nodes: Vec<(String, bool)> = Vec::new();
    // Of pods that are alike: from which node on there may be room, and why none ever has.
    let mut from: BTreeMap<&str, usize> = BTreeMap::new();
    let mut never: BTreeMap<&str, Refusal> = BTreeMap::new();
    for pod in pods {
        let alike = pod.alike.as_deref();
        if let Some(refusal) = alike.and_then(|alike| never.get(alike)) {
            estimate.refused.push((&pod.uid, refusal.clone()));
            continue;
        }
        let first = alike.and_then(|alike| from.get(alike)).copied().unwrap_or_default();
        let mut placed = rehearsal.place(&pod.uid, &mut nodes[first..].iter().map(|(name, _)| name.as_str()));
        let has_empty = nodes.last().is_some_and(|(_, is_used)| !is_used);
        if placed.is_err() && !has_empty {
            if nodes.len() >= capacity || !ledger.take(group) {
                let refusal = match ledger.exceeded_by(group.size, group.gpu_type()) {
                    _ if nodes.len() >= capacity => Refusal::MaxSize,
                    _ if ledger.is_full() => Refusal::MaxNodes,
                    exceeded => Refusal::Limits(exceeded),
                };
                estimate.refused.push((&pod.uid, refusal));
                continue;
            }
            let node = named(template, &group.id, 1_000_000 + nodes.len());
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            rehearsal.add_node(&node);
            placed = rehearsal.place(&pod.uid, &mut std::iter::once(name.as_str()));
            nodes.push((name, false));
        }
        match placed {
            Ok(name) => {
                let index = nodes.iter().position(|(known, _)| *known == name).unwrap_or_default();
                if let Some(node) = nodes.get_mut(index) {
                    node.1 = true;
                }
                from.extend(alike.map(|alike| (alike, index)));
                estimate.placed.push(pod.uid.clone());
            }
            Err(reasons) => {
                let refusal = Refusal::Unfit(reasons);
                never.extend(alike.map(|alike| (alike, refusal.clone())));
                estimate.refused.push((&pod.uid, refusal));
            }
        }
    }
    estimate.nodes = nodes.iter().filter(|(_, is_used)| *is_used).count();
    estimate
}

pub(crate) fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
