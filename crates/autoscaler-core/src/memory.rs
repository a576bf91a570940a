//! The memory between two passes. It is lost at a restart, which costs waiting time alone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::backoff::Backoff;
use crate::group::GroupId;
use crate::plan::Plan;

/// The memory between two passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when each node is unneeded.
    pub(crate) unneeded: BTreeMap<String, Timestamp>,
    /// The last time that a set grew.
    pub(crate) added: Option<Timestamp>,
    /// The last time that a node was removed.
    pub(crate) deleted: Option<Timestamp>,
    /// The last time that a removal failed.
    pub(crate) failed: Option<Timestamp>,
    /// Sets that are left out.
    pub(crate) backoffs: BTreeMap<GroupId, Backoff>,
    /// Machines whose failure is counted, as `namespace/name`.
    pub(crate) counted: BTreeSet<String>,
}

impl Memory {
    /// Takes over what a pass found.
    pub fn learn(&mut self, plan: &Plan) {
        self.unneeded.clone_from(&plan.unneeded);
        self.backoffs.clone_from(&plan.backoffs);
        self.counted.clone_from(&plan.counted);
    }

    /// Notes that a set grew.
    pub fn grew(&mut self, now: Timestamp) {
        self.added = Some(now);
    }

    /// Notes that a node was removed.
    pub fn removed(&mut self, node: &str, now: Timestamp) {
        self.unneeded.remove(node);
        self.deleted = Some(now);
    }

    /// Notes that a removal failed.
    pub fn removal_failed(&mut self, now: Timestamp) {
        self.failed = Some(now);
    }

    /// Notes that a set could not be given more machines: it is left out for a time.
    pub fn growth_failed(&mut self, group: &GroupId, now: Timestamp) {
        let last = self.backoffs.get(group).copied();
        self.backoffs.insert(group.clone(), Backoff::after(last, now));
    }
}
