//! The resources that limits and utilisation are about.

use std::ops::{AddAssign, SubAssign};

use mainstay_kinds::resource_list::ResourceList;

/// The resources of GPUs.
const GPUS: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];

/// Resources of a node, or those that a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Processors, in thousandths.
    pub cpu: i128,
    /// Memory, in bytes.
    pub memory: i128,
    /// GPUs.
    pub gpus: i128,
}

impl Size {
    /// Reads a list of resources.
    pub fn of(list: &ResourceList) -> Self {
        let milli = |name: &str| list.get(name).map_or(0, mainstay_kinds::quantity::Quantity::to_milli);
        Self { cpu: milli("cpu"), memory: milli("memory") / 1000, gpus: GPUS.iter().map(|name| milli(name) / 1000).sum() }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.gpus += other.gpus;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.cpu -= other.cpu;
        self.memory -= other.memory;
        self.gpus -= other.gpus;
    }
}
