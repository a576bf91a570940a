//! The registries that nodes may pull from: registries.conf, policy.json and the registries that are searched, made from Image configuration and
//! mirror rules (MACH-MC-06, MACH-DISR-02).
//!
//! ```text
//!   rules      ── Image configuration, ICSP, IDMS, ITMS
//!   scope      ── registries, namespaces, wildcards: which lies inside which
//!   validate   ── what rules may say
//!   payload    ── the release's own repository is never blocked without a mirror
//!   mirrors    ── rules of one source become one list
//!   conf       ── registries.conf: read, edited, written
//!   policy     ── policy.json, edited
//!   files      ── all of it
//! ```

pub mod conf;
mod edit;
pub mod files;
mod mirrors;
pub mod payload;
pub mod policy;
mod reference;
pub mod rules;
pub mod scope;
pub mod validate;
