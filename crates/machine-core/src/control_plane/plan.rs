//! The next steps of a control plane: which machines are made and deleted, and what is waited for (MACH-CPMS-03).
//!
//! Indexes are looked at in ascending order. Never are there more than one machine above the wanted number by our doing, and the last machine of
//! an index that serves and stays is never deleted. In this upstream is less strict: it counts a machine that the user is deleting as the
//! replacement of another.

use std::fmt;
use std::time::Duration;

use super::members::{Indexes, Member};
use super::object::{ControlPlane, Strategy};

/// Machines above the wanted number while one is replaced.
const MOST_SURGE: i64 = 1;
/// The wait until a node is looked at again that is not ready yet.
const AGAIN: Duration = Duration::from_secs(5);

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A machine is made for this index.
    Create(i32),
    /// A machine is deleted.
    Delete {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// The reason.
        why: Removal,
    },
}

/// Why a machine is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Its replacement serves.
    Replaced,
    /// It is outdated and does not serve; another machine of its index is there.
    Outdated,
    /// Its index has another machine that serves and is as wanted.
    Excess,
}

/// A thing that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The only machine of its index becomes ready.
    Ready(String),
    /// A replacement becomes ready.
    Replacement {
        /// The machine that is replaced.
        machine: String,
        /// The replacement.
        by: String,
    },
    /// A machine that is being deleted is gone.
    Removed(String),
    /// Another replacement is finished, so that the next machine can be made.
    Surge {
        /// The index that is next.
        index: i32,
    },
    /// The user deletes an outdated machine.
    User {
        /// The machine.
        machine: String,
        /// The differences to the template.
        differences: Vec<String>,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(machine) => write!(f, "machine {machine} is to become ready"),
            Self::Replacement { machine, by } => write!(f, "machine {by}, which replaces {machine}, is to become ready"),
            Self::Removed(machine) => write!(f, "machine {machine} is being deleted"),
            Self::Surge { index } => write!(f, "index {index} is next: one machine is replaced at a time"),
            Self::User { machine, differences } => {
                write!(f, "machine {machine} is outdated, and is replaced when it is deleted: {}", differences.join("; "))
            }
        }
    }
}

/// The steps that can be done now, in order, and what is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
    /// The thing that is waited for.
    pub waits: Vec<Wait>,
    /// The time after which to look again, because what is waited for may change without a word.
    pub again: Option<Duration>,
}

/// Plans the steps. The control plane is active and not degraded.
pub fn plan(set: &ControlPlane, indexes: &Indexes) -> Plan {
    let mut plan = Plan::default();
    let machines = indexes.values().map(Vec::len).sum::<usize>();
    let mut surge = i64::try_from(machines).unwrap_or(i64::MAX) - i64::from(set.replicas);
    for (index, members) in indexes {
        match set.strategy {
            Strategy::RollingUpdate => {
                plan.steps.extend(deletion(members));
                waits(members, &mut plan);
                if lacks(members) {
                    if surge < MOST_SURGE {
                        surge += 1;
                        plan.steps.push(Step::Create(*index));
                    } else {
                        plan.waits.push(Wait::Surge { index: *index });
                    }
                }
            }
            Strategy::OnDelete => {
                waits(members, &mut plan);
                match members.as_slice() {
                    [] => plan.steps.push(Step::Create(*index)),
                    [one] if one.machine.deleting => plan.steps.push(Step::Create(*index)),
                    [one] if one.needs_update() => {
                        plan.waits.push(Wait::User { machine: one.machine.name.clone(), differences: one.differences.clone() });
                    }
                    _ => {}
                }
            }
            Strategy::Unsupported(_) => {}
        }
    }
    plan
}

/// The machine of an index that is to go now.
fn deletion(members: &[Member]) -> Option<Step> {
    if members.len() < 2 {
        return None;
    }
    let staying: Vec<&Member> = members.iter().filter(|member| member.stays()).collect();
    let (member, why) = if let [_, _, ..] = staying.as_slice() {
        (*staying.iter().min_by_key(|member| member.machine.created)?, Removal::Excess)
    } else if let Some(idle) = members.iter().find(|member| member.needs_replacement() && !member.ready) {
        (idle, Removal::Outdated)
    } else if staying.is_empty() {
        return None;
    } else {
        (members.iter().find(|member| member.needs_replacement())?, Removal::Replaced)
    };
    let machine = &member.machine;
    (!machine.deleting).then(|| Step::Delete { name: machine.name.clone(), uid: machine.uid.clone(), why })
}

/// Returns whether a machine is to be made for an index.
fn lacks(members: &[Member]) -> bool {
    let has_replacement = members.iter().any(|member| member.stays() || member.is_pending());
    members.is_empty() || (members.iter().any(Member::needs_replacement) && !has_replacement)
}

/// Notes what an index waits for.
fn waits(members: &[Member], plan: &mut Plan) {
    let name = |member: &Member| member.machine.name.clone();
    let deleting = members.iter().find(|member| member.machine.deleting);
    if let Some(pending) = members.iter().find(|member| member.is_pending()) {
        if let Some(outdated) = members.iter().find(|member| member.needs_replacement()) {
            plan.waits.push(Wait::Replacement { machine: name(outdated), by: name(pending) });
            plan.again = Some(AGAIN);
        } else if !members.iter().any(|member| member.ready) {
            plan.waits.push(Wait::Ready(name(pending)));
            plan.again = Some(AGAIN);
        }
    }
    if let Some(deleting) = deleting.filter(|_| members.iter().any(Member::stays)) {
        plan.waits.push(Wait::Removed(name(deleting)));
    }
}
