//! The status player: it plays the ClusterOperators of a release that no other part reports (COP-G-09).
//!
//! ```text
//!            versions differ             duration over                next step
//!   steady ──────────────────► updating ───────────────► at the version ────────► steady
//!          Progressing=True              versions, Available=True,       Progressing=False
//!                                        Degraded=False
//! ```
//!
//! `script` says how long each operator takes and what goes wrong meanwhile, `status` is the state machine; both are pure. `run` watches
//! and writes.

mod run;
pub mod script;
pub mod status;

pub use run::{Config, run};
pub use script::{Play, Script, ScriptError, ScriptProblem};
pub use status::{NO_OPERAND, Next, Reporter, SIMULATED, has_versions, is_marked, next_status, reporter};
