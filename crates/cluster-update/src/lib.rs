//! A cluster's update as its administrator sees it and asks for it (CVO-CLI, CVO-CHAN, CVO-RCMD, CVO-RLBK, CVO-STAT).
//!
//! ```text
//!   ClusterVersion ──┬─ summary   what `oc adm upgrade` prints
//!                    ├─ recommend which releases it could go to (alerts, if they are checked before)
//!                    ├─ request   an update that is asked for: guards, target, the patch
//!                    ├─ channel   another channel: checks, the patch
//!                    └─ rollback  back to the release before: checks, the patch
//!   ClusterVersion, ClusterOperators, pools, nodes, alerts, time ── status::Status ── text
//!   ClusterVersion or ClusterOperator ── explain ── why it is as it is, and the one thing to do
//! ```
//!
//! Each is a pure function that gives a [`Screen`]: what to print and at most one patch of the ClusterVersion. Nothing here asks a cluster, so
//! that a terminal, a web console and a test see the same. The words are those of `oc` of January 2025, whose answers are recorded.

mod channel;
mod cluster_version;
pub mod explain;
mod guards;
mod install;
mod precheck;
mod pull_spec;
mod recommend;
mod request;
mod rollback;
mod screen;
pub mod status;
mod summary;
mod tabs;

pub use channel::{ChannelRefusal, channel};
pub use guards::{Guard, Guards};
pub use install::{InstallRefusal, Installation, install};
pub use precheck::{Check, NoAlerts, checks};
pub use pull_spec::{InvalidPullSpec, PullSpec};
pub use recommend::{RecommendRefusal, Shown, recommend};
pub use request::{Allowances, Asked, Refusal, Target, request};
pub use rollback::{RollbackRefusal, rollback};
pub use screen::Screen;
pub use summary::{Style, summary};
