//! Drains: which pods leave a node, and whether a machine's node may be drained now (MACH-DRAIN-01, MACH-DRAIN-04, MACH-DRAIN-05).

pub mod filter;
pub mod verdict;
