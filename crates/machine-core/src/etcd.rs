//! Quorum protection: what the etcd operator does about machines of the control plane and the members that run on them (MACH-ETCD-01 to
//! MACH-ETCD-06).
//!
//! ```text
//!   members, machines ── plan ──► hooks added, repaired and removed
//!                            ├──► at most one change of the membership: a learner added, promoted, or a member removed
//!                            └──► why a member is not removed yet ([`Held`])
//! ```

pub mod model;
mod plan;

use std::fmt;

use crate::hooks::LifecycleHook;
use crate::machine::{Machine, ROLE_LABEL};

pub use plan::{Action, Plan, plan};

/// Name of the hook that keeps a machine until its member is removed.
pub const HOOK: &str = "EtcdQuorumOperator";
/// Owner of the hook.
pub const OWNER: &str = "clusteroperator/etcd";
/// The namespace of etcd, and of its guard pods.
pub const NAMESPACE: &str = "openshift-etcd";
/// Label of guard pods, which keep a node with a member from being drained.
pub const GUARD: (&str, &str) = ("app", "guard");

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The internal address of its node.
    pub address: String,
    /// True if it receives the database and has no vote.
    pub learner: bool,
    /// True if a learner has received the whole database.
    pub in_sync: bool,
    /// True if it answers.
    pub healthy: bool,
}

/// A node of the control plane whose etcd waits to be added to the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// Its internal address.
    pub address: String,
}

/// Everything that the rules look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The machines of the control plane.
    pub machines: Vec<Machine>,
    /// The members, voters and learners.
    pub members: Vec<Member>,
    /// Nodes whose etcd runs and is not ready, because it is no member.
    pub candidates: Vec<Candidate>,
    /// Addresses of the nodes of the control plane that exist.
    pub nodes: Vec<String>,
    /// Members that are wanted.
    pub desired: usize,
    /// False while the cluster is being installed, or a revision of static pods is rolled out: then nothing is removed.
    pub stable: bool,
}

/// Returns the members that must agree.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// Returns whether a machine is one that may have a member.
pub fn is_control_plane(machine: &Machine) -> bool {
    machine.labels.get(ROLE_LABEL).is_some_and(|role| role == "master")
}

/// Returns the hook as it is to be.
pub fn hook() -> LifecycleHook {
    LifecycleHook { name: HOOK.to_owned(), owner: OWNER.to_owned() }
}

/// Returns whether a machine carries the hook.
pub fn has_hook(machine: &Machine) -> bool {
    machine.hooks.pre_drain.contains(&hook())
}

/// Why the member of a machine that is being deleted stays for now (MACH-ETCD-05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The cluster is being installed, or static pods are rolled out.
    NotStable,
    /// All members are healthy, and there is no member more than wanted: the replacement is missing.
    NoReplacement {
        /// Voters.
        voters: usize,
        /// Members that are wanted.
        desired: usize,
    },
    /// There are fewer voters than wanted.
    TooFew {
        /// Voters.
        voters: usize,
        /// Members that are wanted.
        desired: usize,
    },
    /// Too few members are healthy.
    NoQuorum {
        /// Healthy voters.
        healthy: usize,
        /// Members that must agree.
        quorum: usize,
    },
    /// Members of these names are unhealthy, and their machines are not being deleted.
    Unhealthy(Vec<String>),
    /// The member of another machine goes first; one is removed at a time.
    Behind(String),
    /// The machine has no member any more.
    Gone,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStable => {
                f.write_str("the cluster is being installed, or static pods of etcd are rolled out: no member is removed meanwhile")
            }
            Self::NoReplacement { voters, desired } => {
                write!(f, "there are {voters} voters and {desired} are wanted: a replacement must become a voter first")
            }
            Self::TooFew { voters, desired } => write!(f, "there are {voters} voters and {desired} are wanted: none is removed"),
            Self::NoQuorum { healthy, quorum } => write!(f, "{healthy} voters are healthy and {quorum} are needed: none is removed"),
            Self::Unhealthy(members) => {
                write!(f, "members are unhealthy whose machines are not being deleted: {}; none is removed", members.join(", "))
            }
            Self::Behind(member) => write!(f, "member {member} is removed first: one at a time"),
            Self::Gone => f.write_str("its member is gone; the hook is removed next"),
        }
    }
}

impl Held {
    /// Returns the reason in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotStable => "NotStable",
            Self::NoReplacement { .. } => "NoReplacement",
            Self::TooFew { .. } => "TooFewMembers",
            Self::NoQuorum { .. } => "NoQuorum",
            Self::Unhealthy(_) => "UnhealthyMembers",
            Self::Behind(_) => "OneAtATime",
            Self::Gone => "MemberRemoved",
        }
    }
}
