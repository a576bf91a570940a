//! Decisions of the Machine API, pure functions of facts that callers hand in.
//!
//! ```text
//!   machine, node   what is read of the objects
//!   approval        which certificate requests of nodes are approved
//!   condition       conditions of machines, sets and health checks
//!   hooks           lifecycle hooks: their rules, and the conditions that they cause
//!   hook_owner      the protocol of their owners
//!   lifecycle       the life of one machine: the next step, and the status that tells of it
//!   cloud           provider specs of clouds, for rehearsals: size, place and names
//!   cluster_api     instances that Cluster API makes: what is written for one, and what is read of it
//!   node_link       which machine a node is, and what it gets from it
//!   set             MachineSets: which machines are theirs, which go first, their status
//!   health_check    MachineHealthChecks: who is unhealthy, whether remediation is allowed, and how it is done
//!   drain           which pods leave a node, and whether a machine may be drained now
//!   control_plane   ControlPlaneMachineSets: machines by index and failure domain, and which are replaced
//!   deletion        a deletion as it goes: its steps, and the hooks that hold it up
//!   etcd            quorum protection: hooks of machines of the control plane, and the members that go and come
//! ```
//!
//! A recorded answer of upstream's own code outranks the text of the specification. [`cases`] answers inputs in the form of those records.

pub mod approval;
pub mod cases;
pub mod cloud;
pub mod cluster_api;
pub mod condition;
pub mod control_plane;
pub mod deletion;
pub mod drain;
pub mod etcd;
pub mod event;
pub mod health_check;
pub mod hook_owner;
pub mod hooks;
pub mod lifecycle;
pub mod machine;
pub mod node;
pub mod node_link;
pub mod set;
