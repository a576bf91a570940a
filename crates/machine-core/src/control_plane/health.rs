//! States of a control plane in which nothing is created or deleted (MACH-CPMS-04).

use std::collections::BTreeSet;
use std::fmt;

use super::members::Indexes;
use super::object::{ControlPlane, Strategy};

/// Why nothing is done; the message is upstream's `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Degradation {
    /// No machine serves. `everywhere` is true if every index has machines.
    NoReadyMachines {
        /// True if every index has machines.
        everywhere: bool,
    },
    /// Nodes of the control plane have no machine.
    UnmanagedNodes(Vec<String>),
    /// There are more indexes than machines are wanted; a person must say which one goes.
    ExcessIndexes(usize),
    /// An index has several machines that are as wanted, and only the user deletes.
    ExcessUpdatedReplicas {
        /// The index.
        index: i32,
        /// The number of machines too many.
        excess: usize,
    },
    /// Replacements of these names cannot be made.
    FailedReplacement(Vec<String>),
    /// Machines of these names are controlled by another owner.
    MachinesAlreadyOwned(Vec<String>),
    /// There is no such strategy here.
    InvalidStrategy(String),
}

impl Degradation {
    /// Returns the reason of condition Degraded.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoReadyMachines { .. } => "NoReadyMachines",
            Self::UnmanagedNodes(_) => "UnmanagedNodes",
            Self::ExcessIndexes(_) => "ExcessIndexes",
            Self::ExcessUpdatedReplicas { .. } => "ExcessUpdatedReplicas",
            Self::FailedReplacement(_) => "FailedReplacement",
            Self::MachinesAlreadyOwned(_) => "MachinesAlreadyOwned",
            Self::InvalidStrategy(_) => "InvalidStrategy",
        }
    }

    /// Returns whether condition Progressing says that the operator is degraded, instead of what would be to do.
    pub fn stops_progress(&self) -> bool {
        !matches!(self, Self::NoReadyMachines { everywhere: false } | Self::MachinesAlreadyOwned(_) | Self::InvalidStrategy(_))
    }
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReadyMachines { everywhere: true } => f.write_str("No ready control plane machines found"),
            Self::NoReadyMachines { everywhere: false } => Ok(()),
            Self::UnmanagedNodes(nodes) => write!(f, "Found {} unmanaged node(s)", nodes.len()),
            Self::ExcessIndexes(excess) => write!(f, "Observed {excess} index(es) in excess"),
            Self::ExcessUpdatedReplicas { index, excess } => {
                write!(f, "Observed {excess} updated machine(s) in excess for index {index}")
            }
            Self::FailedReplacement(machines) => write!(f, "Observed {} replacement machine(s) in error state", machines.len()),
            Self::MachinesAlreadyOwned(_) => f.write_str("Observed already owned machine(s) in target machines"),
            Self::InvalidStrategy(strategy) if strategy == "Recreate" => {
                f.write_str("invalid value for spec.strategy.type: update strategy \"Recreate\" is not supported")
            }
            Self::InvalidStrategy(strategy) => write!(f, "invalid value for spec.strategy.type: unknown update strategy: {strategy}"),
        }
    }
}

/// Checks a control plane. `nodes` are the names of the nodes of the control plane.
pub fn check(set: &ControlPlane, indexes: &Indexes, nodes: &[String]) -> Option<Degradation> {
    let all = || indexes.values().flatten();
    let nothing_serves = !all().any(|member| member.ready);
    if nothing_serves && indexes.values().all(|members| !members.is_empty()) {
        return Some(Degradation::NoReadyMachines { everywhere: true });
    }
    let known: BTreeSet<&str> = all().filter_map(|member| member.machine.node.as_deref()).collect();
    let unmanaged: Vec<String> = nodes.iter().filter(|node| !known.contains(node.as_str())).cloned().collect();
    if !unmanaged.is_empty() {
        return Some(Degradation::UnmanagedNodes(unmanaged));
    }
    let excess = indexes.len().saturating_sub(usize::try_from(set.replicas).unwrap_or_default());
    if excess > 0 {
        return Some(Degradation::ExcessIndexes(excess));
    }
    if set.strategy == Strategy::OnDelete {
        for (index, members) in indexes {
            let updated = members.iter().filter(|member| member.is_updated()).count();
            if updated > 1 {
                return Some(Degradation::ExcessUpdatedReplicas { index: *index, excess: updated - 1 });
            }
        }
    }
    let failed: Vec<String> = indexes
        .values()
        .filter(|members| members.iter().any(super::members::Member::needs_replacement))
        .flatten()
        .filter(|member| member.is_pending() && member.error.is_some())
        .map(|member| member.machine.name.clone())
        .collect();
    if !failed.is_empty() {
        return Some(Degradation::FailedReplacement(failed));
    }
    // Here an index has no machine at all, and the machines of the others do not serve.
    nothing_serves.then_some(Degradation::NoReadyMachines { everywhere: false })
}
