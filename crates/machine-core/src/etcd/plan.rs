//! The next steps of quorum protection.

use std::collections::BTreeMap;

use super::{Facts, HOOK, Held, Member, has_hook, quorum};
use crate::control_plane::mapping::index_of;
use crate::machine::Machine;

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A machine gets the hook, or its hook gets the right owner.
    AddHook(String),
    /// A machine's hook is removed: it is being deleted and has no member.
    RemoveHook(String),
    /// A node's etcd becomes a member without a vote.
    AddLearner {
        /// The node.
        node: String,
        /// Its internal address.
        address: String,
    },
    /// A learner becomes a voter.
    Promote(String),
    /// A member is removed.
    Remove {
        /// The member.
        member: String,
        /// The machine that is being deleted; `None` if it has neither machine nor node.
        machine: Option<String>,
    },
}

/// The steps that can be done now, and what is not done yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps. At most one changes the membership.
    pub actions: Vec<Action>,
    /// Machines that are being deleted and still have a member, each with the reason.
    pub held: Vec<(String, Held)>,
}

/// Plans the steps.
pub fn plan(facts: &Facts) -> Plan {
    let mut plan = Plan { actions: hooks(facts), held: Vec::new() };
    let removal = removal(facts);
    let shrinking = || facts.stable.then(|| orphan(facts).or_else(|| learner_of_deleted(facts))).flatten();
    let change = || shrinking().or_else(|| removal.as_ref().ok().cloned().flatten()).or_else(|| growth(facts));
    // A membership without quorum cannot be changed.
    let change = has_quorum(facts).then(change).flatten();
    for machine in deleting(facts).filter(|machine| has_hook(machine)) {
        let Some(member) = member_of(facts, machine).filter(|member| !member.learner) else {
            if member_of(facts, machine).is_none() {
                plan.held.push((machine.name.clone(), Held::Gone));
            }
            continue;
        };
        let held = match (&removal, &change) {
            (_, Some(Action::Remove { member: removed, .. })) if *removed == member.name => continue,
            (Err(held), _) => held.clone(),
            (Ok(Some(Action::Remove { member, .. })), _) => Held::Behind(member.clone()),
            (Ok(_), _) => Held::NoReplacement { voters: voters(facts).count(), desired: facts.desired },
        };
        plan.held.push((machine.name.clone(), held));
    }
    plan.actions.extend(change);
    plan
}

fn voters(facts: &Facts) -> impl Iterator<Item = &Member> {
    facts.members.iter().filter(|member| !member.learner)
}

fn healthy(facts: &Facts) -> usize {
    voters(facts).filter(|member| member.healthy).count()
}

/// Returns whether the members can agree; the first member agrees alone.
fn has_quorum(facts: &Facts) -> bool {
    let voters = voters(facts).count();
    voters == 0 || healthy(facts) >= quorum(voters)
}

fn deleting(facts: &Facts) -> impl Iterator<Item = &Machine> {
    facts.machines.iter().filter(|machine| machine.deleting)
}

fn has_address(machine: &Machine, address: &str) -> bool {
    machine.addresses.iter().any(|known| known.kind == "InternalIP" && known.address == address)
}

fn member_of<'f>(facts: &'f Facts, machine: &Machine) -> Option<&'f Member> {
    facts.members.iter().find(|member| has_address(machine, &member.address))
}

fn machine_of<'f>(facts: &'f Facts, address: &str) -> Option<&'f Machine> {
    facts.machines.iter().find(|machine| has_address(machine, address))
}

/// Hooks that are to be added, repaired and removed (MACH-ETCD-02, MACH-ETCD-03).
fn hooks(facts: &Facts) -> Vec<Action> {
    let added = facts.machines.iter().filter(|machine| !machine.deleting && !has_hook(machine));
    let added = added.map(|machine| Action::AddHook(machine.name.clone()));
    let is_there = |machine: &&Machine| machine.hooks.pre_drain.iter().any(|hook| hook.name == HOOK);
    let removed = deleting(facts).filter(is_there).filter(|machine| member_of(facts, machine).is_none());
    added.chain(removed.map(|machine| Action::RemoveHook(machine.name.clone()))).collect()
}

/// An unhealthy member that has neither machine nor node.
fn orphan(facts: &Facts) -> Option<Action> {
    let is_one =
        |member: &&Member| !member.healthy && machine_of(facts, &member.address).is_none() && !facts.nodes.contains(&member.address);
    let found = facts.members.iter().find(is_one)?;
    Some(Action::Remove { member: found.name.clone(), machine: None })
}

/// A learner whose machine is being deleted: it goes whether there is a replacement or not.
fn learner_of_deleted(facts: &Facts) -> Option<Action> {
    let machine = deleting(facts)
        .filter(|machine| has_hook(machine))
        .find(|machine| member_of(facts, machine).is_some_and(|member| member.learner))?;
    let member = member_of(facts, machine)?;
    Some(Action::Remove { member: member.name.clone(), machine: Some(machine.name.clone()) })
}

/// The voter that goes now; why none does, if machines with voters are being deleted.
fn removal(facts: &Facts) -> Result<Option<Action>, Held> {
    let of_voter = |machine: &&Machine| has_hook(machine) && voters(facts).any(|member| has_address(machine, &member.address));
    let mut leaving: Vec<&Machine> = deleting(facts).filter(of_voter).collect();
    if leaving.is_empty() {
        return Ok(None);
    }
    if !facts.stable {
        return Err(Held::NotStable);
    }
    let (count, desired) = (voters(facts).count(), facts.desired);
    if count < desired {
        return Err(Held::TooFew { voters: count, desired });
    }
    let healthy = healthy(facts);
    // Upstream asks for the quorum of the wanted number; etcd itself can remove no member without that of the present one.
    let needed = quorum(desired).max(quorum(count));
    if healthy < needed {
        return Err(Held::NoQuorum { healthy, quorum: needed });
    }
    let unhealthy: Vec<&Member> = facts.members.iter().filter(|member| !member.healthy).collect();
    let is_unhealthy = |machine: &&Machine| unhealthy.iter().any(|member| has_address(machine, &member.address));
    if !unhealthy.is_empty() && !leaving.iter().any(is_unhealthy) {
        return Err(Held::Unhealthy(unhealthy.iter().map(|member| member.name.clone()).collect()));
    }
    if unhealthy.iter().all(|member| member.learner) && healthy <= desired {
        return Err(Held::NoReplacement { voters: count, desired });
    }
    // An unhealthy member first, then one whose place has another voter.
    let places = places(facts);
    let place = |machine: &Machine| places.get(&index_of(&machine.name)).copied().unwrap_or_default();
    leaving.sort_by_key(|machine| (!is_unhealthy(machine), std::cmp::Reverse(place(machine))));
    let machine = leaving.first().copied();
    Ok(machine.and_then(|machine| {
        let member = member_of(facts, machine)?;
        // With one member unhealthy a healthy one stays until the membership is whole again.
        let is_safe = !member.healthy || count > desired;
        is_safe.then(|| Action::Remove { member: member.name.clone(), machine: Some(machine.name.clone()) })
    }))
}

/// The number of voters by index of their machines.
fn places(facts: &Facts) -> BTreeMap<Option<i32>, usize> {
    let mut places = BTreeMap::new();
    for member in voters(facts) {
        if let Some(machine) = machine_of(facts, &member.address) {
            *places.entry(index_of(&machine.name)).or_default() += 1;
        }
    }
    places
}

/// The membership grows while all are healthy: a learner that has everything becomes a voter, else the next one is added (MACH-ETCD-04).
fn growth(facts: &Facts) -> Option<Action> {
    if facts.members.iter().any(|member| !member.healthy) {
        return None;
    }
    let stays = |address: &str| machine_of(facts, address).is_some_and(|machine| !machine.deleting && has_hook(machine));
    let learners = || facts.members.iter().filter(|member| member.learner);
    if let Some(ready) = learners().find(|learner| learner.in_sync && stays(&learner.address)) {
        return Some(Action::Promote(ready.name.clone()));
    }
    // Two that start at once would each be unknown to the other.
    if learners().next().is_some() {
        return None;
    }
    let is_new = |candidate: &&super::Candidate| facts.members.iter().all(|member| member.address != candidate.address);
    let found = facts.candidates.iter().filter(is_new).find(|candidate| stays(&candidate.address))?;
    Some(Action::AddLearner { node: found.node.clone(), address: found.address.clone() })
}
