//! The shared parts of programs on a terminal: output, failures, progress, cluster selection, and access to registries.
//!
//! A program on a terminal (`mainstay`, `opm`) reads its own arguments and calls libraries. All its output passes here, so that no command
//! can forget to escape the text of others ([`screen`]), and every failure looks the same ([`errors`]).
//!
//! ```text
//!   errors, output, progress ──► printable ──► screen ──► stdout, stderr
//!   cluster ── registration, kubeconfig ──► Session of operations        images, bundles, catalogs ──► registries, files
//! ```

pub mod built;
pub mod bundles;
pub mod catalogs;
pub mod cluster;
pub mod errors;
pub mod images;
pub mod output;
pub mod printable;
pub mod private;
pub mod progress;
pub mod registration;
pub mod runtime;
pub mod screen;
