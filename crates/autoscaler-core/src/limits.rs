//! The limits of the whole cluster: what may still be added, and what may be taken away.

use std::collections::BTreeMap;

use crate::group::Group;
use crate::node::Node;
use crate::reason::Resource;
use crate::settings::{Range, ResourceLimits};
use crate::size::Size;

/// The cluster's resources, against its limits.
#[derive(Clone, Debug)]
pub struct Ledger<'a> {
    limits: &'a ResourceLimits,
    nodes: usize,
    size: Size,
    gpus: BTreeMap<String, i128>,
}

impl<'a> Ledger<'a> {
    /// Counts nodes that are not about to go, and machines that are becoming nodes.
    pub fn of<'n>(
        limits: &'a ResourceLimits,
        nodes: impl Iterator<Item = &'n Node>,
        upcoming: impl Iterator<Item = (&'n Group, usize)>,
    ) -> Self {
        let mut ledger = Self { limits, nodes: 0, size: Size::default(), gpus: BTreeMap::new() };
        for node in nodes {
            ledger.add(node.size, node.gpu_type());
        }
        for (group, count) in upcoming {
            for _ in 0..count {
                ledger.add(group.size, group.gpu_type());
            }
        }
        ledger
    }

    fn add(&mut self, size: Size, gpu: Option<&str>) {
        self.nodes += 1;
        self.size += size;
        if let Some(kind) = gpu {
            *self.gpus.entry(kind.to_owned()).or_default() += size.gpus;
        }
    }

    /// Returns whether the cluster has its greatest number of nodes.
    pub fn is_full(&self) -> bool {
        self.limits.max_nodes.is_some_and(|most| self.nodes >= most)
    }

    fn range(&self, resource: &Resource) -> Option<Range> {
        match resource {
            Resource::Cpu => Some(self.limits.cores),
            Resource::Memory => Some(self.limits.memory),
            Resource::Gpu(kind) => self.limits.gpus.iter().find(|(known, _)| known == kind).map(|(_, range)| *range),
        }
    }

    /// The amounts of a node, with what the cluster has of each.
    fn amounts(&self, size: Size, gpu: Option<&str>) -> Vec<(Resource, i128, i128)> {
        let mut all = vec![(Resource::Cpu, size.cpu, self.size.cpu), (Resource::Memory, size.memory, self.size.memory)];
        if let Some(kind) = gpu {
            all.push((Resource::Gpu(kind.to_owned()), size.gpus, self.gpus.get(kind).copied().unwrap_or_default()));
        }
        all
    }

    /// Returns the resources of which another such node would be too much.
    pub fn exceeded_by(&self, size: Size, gpu: Option<&str>) -> Vec<Resource> {
        let is_exceeded = |(resource, more, has): &(Resource, i128, i128)| self.range(resource).is_some_and(|range| has + more > range.max);
        self.amounts(size, gpu).into_iter().filter(is_exceeded).map(|(resource, ..)| resource).collect()
    }

    /// Adds another node of a set, if every limit allows it.
    pub fn take(&mut self, group: &Group) -> bool {
        let allowed = !self.is_full() && self.exceeded_by(group.size, group.gpu_type()).is_empty();
        if allowed {
            self.add(group.size, group.gpu_type());
        }
        allowed
    }

    /// Returns the resource of which too little would remain without a node.
    pub fn missed_without(&self, node: &Node) -> Option<Resource> {
        let is_missed =
            |(resource, less, has): &(Resource, i128, i128)| self.range(resource).is_some_and(|range| *less > 0 && has - less < range.min);
        self.amounts(node.size, node.gpu_type()).into_iter().find(is_missed).map(|(resource, ..)| resource)
    }

    /// Takes a node away.
    pub fn give(&mut self, node: &Node) {
        self.nodes = self.nodes.saturating_sub(1);
        self.size -= node.size;
        if let Some(kind) = node.gpu_type() {
            *self.gpus.entry(kind.to_owned()).or_default() -= node.size.gpus;
        }
    }
}
