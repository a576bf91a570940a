//! Quorum protection of etcd.

use mainstay_machine_core::etcd::{self, Action, Candidate, Facts, HOOK, Held, Member, OWNER, Plan, plan, quorum};
use mainstay_machine_core::hooks::{LifecycleHook, LifecycleHooks};
use mainstay_machine_core::machine::{Address, Machine, ROLE_LABEL};
use proptest::prelude::*;
use serde_json::json;

fn machine(number: usize, index: usize) -> Machine {
    let hooks = LifecycleHooks { pre_drain: vec![etcd::hook()], pre_terminate: Vec::new() };
    Machine {
        name: format!("m{number}-{index}"),
        labels: [(ROLE_LABEL.to_owned(), "master".to_owned())].into(),
        addresses: vec![Address::new("InternalIP", address(number))],
        hooks,
        ..Machine::default()
    }
}

fn address(number: usize) -> String {
    format!("10.0.0.{number}")
}

fn voter(number: usize) -> Member {
    Member { name: format!("n{number}"), address: address(number), learner: false, in_sync: true, healthy: true }
}

/// Three machines with voters.
fn three() -> Facts {
    Facts {
        machines: (0..3).map(|number| machine(number, number)).collect(),
        members: (0..3).map(voter).collect(),
        nodes: (0..3).map(address).collect(),
        candidates: Vec::new(),
        desired: 3,
        stable: true,
    }
}

/// MACH-ETCD-01, MACH-ETCD-02: each machine gets the hook, one of another owner is repaired, and a machine that is being deleted gets none.
#[test]
fn hooks_are_added_and_repaired() {
    let mut facts = three();
    facts.machines[0].hooks = LifecycleHooks::default();
    facts.machines[1].hooks.pre_drain = vec![LifecycleHook { name: HOOK.to_owned(), owner: "somebody".to_owned() }];
    assert_eq!(plan(&facts).actions, [Action::AddHook("m0-0".to_owned()), Action::AddHook("m1-1".to_owned())]);
    facts.machines.iter_mut().for_each(|machine| machine.deleting = true);
    assert!(plan(&facts).actions.iter().all(|action| !matches!(action, Action::AddHook(_))));
    assert_eq!(etcd::hook().owner, OWNER);
}

/// MACH-ETCD-03, MACH-ETCD-04, MACH-ETCD-05, MACH-TRB-04: the timeline of a replaced machine, step by step.
#[test]
fn timeline_of_a_replacement() {
    let mut facts = three();
    facts.machines[0].deleting = true;
    let waits = plan(&facts);
    assert_eq!((waits.actions.len(), &waits.held[0].1), (0, &Held::NoReplacement { voters: 3, desired: 3 }));
    assert_eq!(waits.held[0].1.to_string(), "there are 3 voters and 3 are wanted: a replacement must become a voter first");
    // Its node has joined; without the hook it is not added.
    let mut new = machine(3, 0);
    new.hooks = LifecycleHooks::default();
    facts.machines.push(new);
    facts.candidates.push(Candidate { node: "n3".to_owned(), address: address(3) });
    assert_eq!(plan(&facts).actions, [Action::AddHook("m3-0".to_owned())]);
    facts.machines[3] = machine(3, 0);
    assert_eq!(plan(&facts).actions, [Action::AddLearner { node: "n3".to_owned(), address: address(3) }]);
    facts.candidates.clear();
    facts.members.push(Member { learner: true, in_sync: false, ..voter(3) });
    assert!(plan(&facts).actions.is_empty(), "the database is on its way");
    facts.members[3].in_sync = true;
    assert_eq!(plan(&facts).actions, [Action::Promote("n3".to_owned())]);
    facts.members[3].learner = false;
    let removed = Action::Remove { member: "n0".to_owned(), machine: Some("m0-0".to_owned()) };
    assert_eq!(plan(&facts), Plan { actions: vec![removed], held: Vec::new() });
    facts.members.remove(0);
    let gone = plan(&facts);
    assert_eq!(gone.actions, [Action::RemoveHook("m0-0".to_owned())]);
    assert_eq!(gone.held[0].1, Held::Gone);
}

/// MACH-ETCD-05: the reasons why nothing is removed, and what is removed although there is no replacement.
#[test]
fn what_is_removed_and_what_is_not() {
    let held = |facts: &Facts| {
        let planned = plan(facts);
        assert!(!planned.actions.iter().any(|action| matches!(action, Action::Remove { .. })), "{planned:?}");
        planned.held[0].1.clone()
    };
    let mut facts = three();
    facts.machines[0].deleting = true;
    facts.machines.push(machine(3, 0));
    facts.members.push(voter(3));
    facts.stable = false;
    assert_eq!(held(&facts), Held::NotStable);
    facts.stable = true;
    facts.members[1].healthy = false;
    assert_eq!(held(&facts), Held::Unhealthy(vec!["n1".to_owned()]));
    facts.members[2].healthy = false;
    assert_eq!(held(&facts), Held::NoQuorum { healthy: 2, quorum: 3 });
    facts.members.truncate(2);
    facts.members[1].healthy = true;
    assert_eq!(held(&facts), Held::TooFew { voters: 2, desired: 3 });
    // One that is unhealthy and being deleted goes first, with three members, too.
    let mut facts = three();
    facts.machines[0].deleting = true;
    facts.members[0].healthy = false;
    assert_eq!(plan(&facts).actions, [Action::Remove { member: "n0".to_owned(), machine: Some("m0-0".to_owned()) }]);
    // Of several, one whose place has another voter.
    let mut facts = three();
    facts.machines[0].deleting = true;
    facts.machines[1].deleting = true;
    facts.machines.push(machine(3, 1));
    facts.members.push(voter(3));
    let planned = plan(&facts);
    assert_eq!(planned.actions, [Action::Remove { member: "n1".to_owned(), machine: Some("m1-1".to_owned()) }]);
    assert_eq!(planned.held, [("m0-0".to_owned(), Held::Behind("n1".to_owned()))]);
    // A learner of a machine that is being deleted goes at once; a member without machine and node goes if it is unhealthy.
    let mut facts = three();
    facts.machines.push(Machine { deleting: true, ..machine(3, 0) });
    facts.members.push(Member { learner: true, in_sync: false, ..voter(3) });
    assert_eq!(plan(&facts).actions, [Action::Remove { member: "n3".to_owned(), machine: Some("m3-0".to_owned()) }]);
    facts.machines.pop();
    facts.members[3] = Member { healthy: false, ..voter(3) };
    assert_eq!(plan(&facts).actions, [Action::Remove { member: "n3".to_owned(), machine: None }]);
    facts.nodes.push(address(3));
    assert!(plan(&facts).actions.is_empty());
}

/// MACH-ETCD-07: members are objects: a fault or a node that is not ready makes one unhealthy, the database takes its time.
#[test]
fn members_as_objects() {
    let node = |status: &str| {
        json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/master": ""}},
               "status": {"conditions": [{"type": "Ready", "status": status}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}})
    };
    let mut member = etcd::model::member("n", "10.0.0.1", true);
    member["metadata"]["creationTimestamp"] = json!("2026-03-10T12:00:00Z");
    member["spec"]["transfer"] = json!("5s");
    let at = |second: i64| {
        jiff::Timestamp::from_second("2026-03-10T12:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second() + second).unwrap()
    };
    let of = |member: &serde_json::Value, status: &str, second: i64| etcd::model::status(member, &[node(status)], at(second));
    assert_eq!(of(&member, "True", 2), (json!({"healthy": true, "inSync": false}), Some(std::time::Duration::from_secs(3))));
    assert_eq!(of(&member, "False", 9), (json!({"healthy": false, "inSync": false}), None));
    assert_eq!(of(&member, "True", 5), (json!({"healthy": true, "inSync": true}), None));
    member["spec"]["fault"] = json!("unhealthy");
    assert_eq!(of(&member, "True", 9).0["healthy"], false);
    let facts = etcd::model::facts(&[], &[node("True")], &[], None);
    assert_eq!((facts.candidates.len(), facts.desired), (1, 1));
    let facts = etcd::model::facts(&[], &[node("True")], &[member], Some(&json!({"spec": {"replicas": 5}})));
    assert_eq!((facts.candidates.len(), facts.desired, facts.members[0].learner), (0, 5, true));
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Deleted(usize),
    Fails(usize),
    Recovers(usize),
    /// Another machine comes up.
    Joins,
    Synced,
    /// A machine without hook and member goes with its node.
    Gone,
    Unstable(bool),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = (0_usize..8, 0_usize..8).prop_map(|(sort, which)| match sort {
        0 => Happening::Deleted(which),
        1 => Happening::Fails(which),
        2 | 3 => Happening::Recovers(which),
        4 => Happening::Joins,
        5 => Happening::Synced,
        6 => Happening::Gone,
        _ => Happening::Unstable(which == 0),
    });
    proptest::collection::vec(one, 0..60)
}

struct Play {
    facts: Facts,
    made: usize,
    /// Machines that there may be.
    most: usize,
}

impl Play {
    fn happens(&mut self, happening: Happening) {
        let facts = &mut self.facts;
        match happening {
            Happening::Deleted(which) => {
                let count = facts.machines.len();
                facts.machines[which % count].deleting = true;
            }
            Happening::Fails(which) | Happening::Recovers(which) => {
                let count = facts.members.len();
                facts.members[which % count].healthy = matches!(happening, Happening::Recovers(_));
            }
            Happening::Joins if facts.machines.len() < self.most => {
                let number = self.made;
                self.made += 1;
                facts.machines.push(machine(number, number % 3));
                facts.nodes.push(address(number));
                facts.candidates.push(Candidate { node: format!("n{number}"), address: address(number) });
            }
            Happening::Joins => {}
            Happening::Synced => facts.members.iter_mut().for_each(|member| member.in_sync |= member.healthy),
            Happening::Gone => {
                let goes = |machine: &Machine| machine.deleting && !etcd::has_hook(machine);
                if facts.machines.len() > 1
                    && let Some(at) = facts.machines.iter().position(goes)
                {
                    let gone = facts.machines.remove(at);
                    facts.nodes.retain(|node| *node != gone.addresses[0].address);
                }
            }
            Happening::Unstable(is) => facts.stable = !is,
        }
    }

    /// Healthy voters, and voters.
    fn votes(&self) -> (usize, usize) {
        let voters: Vec<&Member> = self.facts.members.iter().filter(|member| !member.learner).collect();
        (voters.iter().filter(|member| member.healthy).count(), voters.len())
    }

    fn reconcile(&mut self) -> Result<(), TestCaseError> {
        let planned = plan(&self.facts);
        let changes = planned.actions.iter().filter(|action| !matches!(action, Action::AddHook(_) | Action::RemoveHook(_)));
        prop_assert!(changes.count() <= 1, "one change at a time: {planned:?}");
        for action in planned.actions {
            let (healthy, voters) = self.votes();
            let facts = &mut self.facts;
            match &action {
                Action::AddHook(name) => {
                    facts.machines.iter_mut().find(|machine| machine.name == *name).unwrap().hooks.pre_drain = vec![etcd::hook()];
                }
                Action::RemoveHook(name) => {
                    let machine = facts.machines.iter_mut().find(|machine| machine.name == *name).unwrap();
                    prop_assert!(machine.deleting);
                    prop_assert!(!facts.members.iter().any(|member| member.address == machine.addresses[0].address), "{action:?}");
                    machine.hooks.pre_drain.clear();
                }
                Action::AddLearner { node, address } => {
                    facts.candidates.retain(|candidate| candidate.node != *node);
                    facts.members.push(Member {
                        name: node.clone(),
                        address: address.clone(),
                        learner: true,
                        in_sync: false,
                        healthy: true,
                    });
                }
                Action::Promote(name) => {
                    let member = facts.members.iter_mut().find(|member| member.name == *name).unwrap();
                    prop_assert!(member.learner && member.in_sync && member.healthy);
                    member.learner = false;
                }
                Action::Remove { member, machine } => {
                    let removed = facts.members.iter().find(|known| known.name == *member).unwrap().clone();
                    if let Some(machine) = machine {
                        prop_assert!(facts.machines.iter().any(|known| known.name == *machine && known.deleting), "{action:?}");
                    }
                    prop_assert!(removed.learner || !removed.healthy || voters > facts.desired, "too few are left: {action:?}");
                    facts.members.retain(|known| known.name != *member);
                }
            }
            let (healthy_then, voters_then) = self.votes();
            if healthy >= quorum(voters) {
                prop_assert!(
                    healthy_then >= quorum(voters_then),
                    "{action:?}: {healthy} of {voters}, then {healthy_then} of {voters_then}"
                );
            } else {
                prop_assert_eq!(voters_then, voters, "a membership without quorum cannot be changed: {:?}", action);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// MACH-ETCD-08: for every interleaving of deletions, failures and recoveries of three or five members, healthy voters never fall under the quorum
    /// by an action of ours; a hook goes only after its member, and once things go well every deletion ends.
    #[test]
    fn quorum_is_kept(happenings in happenings(), five in any::<bool>()) {
        let count = if five { 5 } else { 3 };
        let mut play = Play {
            facts: Facts {
                machines: (0..count).map(|number| machine(number, number)).collect(),
                members: (0..count).map(voter).collect(),
                nodes: (0..count).map(address).collect(),
                desired: count,
                stable: true,
                ..Facts::default()
            },
            made: count,
            most: 8,
        };
        for happening in happenings {
            play.happens(happening);
            play.reconcile()?;
        }
        play.facts.stable = true;
        play.most = 16;
        for _ in 0..60 {
            play.facts.members.iter_mut().for_each(|member| (member.healthy, member.in_sync) = (true, true));
            // Nodes of members that are gone do not answer.
            let nodes = play.facts.nodes.clone();
            play.facts.members.iter_mut().for_each(|member| member.healthy = nodes.contains(&member.address));
            let staying = play.facts.machines.iter().filter(|machine| !machine.deleting).count();
            if staying < count {
                play.happens(Happening::Joins);
            }
            play.reconcile()?;
            play.happens(Happening::Gone);
        }
        let left: Vec<&str> = play.facts.machines.iter().filter(|machine| machine.deleting).map(|machine| &*machine.name).collect();
        prop_assert!(left.is_empty() || play.facts.machines.len() == 1, "{left:?} of {:?}", plan(&play.facts));
    }
}
