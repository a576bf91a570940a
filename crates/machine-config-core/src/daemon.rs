//! The Machine Config Daemon: what a node does next on its way to the configuration that it is asked for (MACH-NODE-01 to MACH-NODE-08).
//!
//! ```text
//!   node, disk, configs, policies ── plan ──► the next step: a new content of the disk, annotations, events, progress
//!   config ── disk ──► what a node has on disk by it, and what drifted
//!   progress ──► conditions of the MachineConfigNode
//! ```
//!
//! A step is carried out in this order: disk, progress, annotations, events. The disk is the truth about a node, so a daemon that is stopped
//! between two writes goes on from what is there. Simulated daemons and those of real directory trees ask the same `plan`.

pub mod disk;
pub mod event;
pub mod plan;
pub mod progress;

pub use disk::Disk;
pub use event::NodeEvent;
pub use plan::{Facts, Next, OperatingSystem, Plan, Reboot, action_failed, plan, write_failed};
pub use progress::Progress;
