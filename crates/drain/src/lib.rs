//! Drains of nodes (MACH-DRAIN-01 to MACH-DRAIN-08): the one engine for machines, node configuration and `mainstay adm drain`.
//!
//! ```text
//!   Drain { client, node, options }
//!     ├── look(now)  ──► Fates     which pods leave, which stay, which forbid the drain: by the rules of `machine_core::drain::filter`
//!     ├── evict(pod) ──► Attempt   one request to the Eviction API (or a deletion), and what it met
//!     └── pass(now)  ──► Progress  one round: look, evict everything that may be evicted now, say what remains and why
//!   cordon(client, node, bool) ──► true if the node was changed
//! ```
//!
//! Nothing here waits, retries or keeps state between calls: a caller calls [`Drain::pass`] again after [`EVICTION_RETRY`] or when a pod of
//! the node changed, until it answers [`Progress::Done`]. The cluster holds all state, so a killed caller continues where it was.
//! A node is never uncordoned by a drain (MACH-DRAIN-06); cordon it before the first pass.
//!
//! ```no_run
//! # async fn example(client: kube::Client, now: jiff::Timestamp) -> Result<(), mainstay_drain::DrainError> {
//! use mainstay_drain::{Drain, Options, Progress, cordon};
//! cordon(&client, "worker-1", true).await?;
//! match Drain::new(client, "worker-1", Options::default()).pass(now).await? {
//!     Progress::Done => {}
//!     Progress::Waiting { remaining } => remaining.iter().for_each(|(pod, why)| println!("{pod}: {why}")),
//! }
//! # Ok(())
//! # }
//! ```

mod budgets;
mod cordon;
mod error;
mod evict;
mod pass;
mod pods;
mod report;

use std::time::Duration;

pub use budgets::Budget;
pub use cordon::cordon;
pub use error::DrainError;
pub use evict::Attempt;
pub use mainstay_machine_core::drain::filter::{Fates, Obstacle, Pod, Settings, Warning};
pub use pass::{Drain, Look, Progress};
pub use pods::{Found, PodRef};
pub use report::{Why, sentence, told};

/// The wait after an eviction that a budget forbade, as upstream waits.
pub const EVICTION_RETRY: Duration = Duration::from_secs(5);

/// The means by which pods leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The Eviction API, which honours disruption budgets.
    #[default]
    Evict,
    /// Deletion, which does not.
    Delete,
}

/// The manner of a drain. The default is that of machines and node configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which pods may go.
    pub settings: Settings,
    /// The grace period of evicted pods in seconds; `None` for their own.
    pub grace_period: Option<i64>,
    /// A label selector in its text form; only the pods that it selects are looked at.
    pub pod_selector: Option<String>,
    /// The means.
    pub method: Method,
    /// The server is asked and changes nothing.
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { settings: Settings::MACHINE, grace_period: None, pod_selector: None, method: Method::Evict, dry_run: false }
    }
}
