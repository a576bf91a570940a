//! What stands for the operators of a cluster whose operands are outside this program (COP-G-09, COP-G-10).
//!
//! ```text
//!   manifests of the release, script ─► player::status ─► status of the ClusterOperators that no other part reports
//! ```
//!
//! What is played is marked: the annotation [`player::SIMULATED`], and a word in each message.

mod error;
mod manifests;
pub mod player;

pub use error::Error;
pub use manifests::{ACCOUNT, NAMESPACE, manifests};
