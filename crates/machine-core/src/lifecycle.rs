//! The life of one machine: its next step, and the status that tells of it (MACH-RUN-01, MACH-RUN-02, MACH-DEL-02 to MACH-DEL-08).
//!
//! ```text
//!   begin   ── before the provider is asked: validate, finalizer, deletion, or ask whether the instance exists
//!   next    ── with its answer: make it, follow it, or give it up
//!   after   ── which phase an instance that exists leads to
//!   status  ── the status, with conditions and times
//! ```

pub mod status;
pub mod step;

pub use status::{Failure, Instance, StatusChange, status};
pub use step::{Begin, Deletion, Next, REQUEUE, after, begin, next};

/// The finalizer of machines (MACH-API-08).
pub const FINALIZER: &str = "machine.machine.openshift.io";
/// Annotation that shows the state of the instance.
pub const INSTANCE_STATE: &str = "machine.openshift.io/instance-state";
/// The state of an instance of which nothing is known any more.
pub const UNKNOWN_STATE: &str = "Unknown";
/// Label that shows the size of the instance.
pub const INSTANCE_TYPE_LABEL: &str = "machine.openshift.io/instance-type";
/// Label that shows the region of the instance.
pub const REGION_LABEL: &str = "machine.openshift.io/region";
/// Label that shows the zone of the instance.
pub const ZONE_LABEL: &str = "machine.openshift.io/zone";

/// Condition that says whether the instance exists.
pub const INSTANCE_EXISTS: &str = "InstanceExists";
/// Condition that says whether the provider could make the instance.
pub const MACHINE_CREATION: &str = "MachineCreation";
/// The message about an instance that is lost.
pub const LOST: &str = "can't find created instance";
