//! The consequence of findings of the CRD upgrade safety check (OLM1-CRD-01, OLM1-CRD-07).
//!
//! ```text
//!   spec.install.preflight.crdUpgradeSafety.enforcement: None     nothing is compared
//!   annotation crd-upgrade-safety: Warn, or Warn:BUNDLE,BUNDLE    findings are warnings, and the change goes on
//!   otherwise                                                     findings stop the change
//! ```
//!
//! It is an annotation because upstream's definition of the field takes `None` and `Strict` alone.

use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_api::olm_v1::{ClusterExtension, Enforcement};
use mainstay_lifecycle::preflight::crds::CrdFindings;

/// The annotation's value for every bundle; with a colon and names behind it, for these bundles.
pub const WARN: &str = "Warn";

/// The consequence of findings for this bundle, and a warning about an annotation that does not count because its value is invalid.
pub fn crd_findings(extension: &ClusterExtension, bundle: &str) -> (CrdFindings, Option<String>) {
    let preflight = extension.spec.install.as_ref().and_then(|install| install.preflight.as_ref());
    if preflight.is_some_and(|preflight| preflight.crd_upgrade_safety.enforcement == Enforcement::None) {
        return (CrdFindings::Ignored, None);
    }
    let Some(value) = extension.metadata.annotations.as_ref().and_then(|all| all.get(CRD_UPGRADE_SAFETY)) else {
        return (CrdFindings::Refused, None);
    };
    match value.split_once(':') {
        None if value == WARN => (CrdFindings::Told, None),
        Some((WARN, bundles)) if bundles.split(',').any(|name| name.trim() == bundle) => (CrdFindings::Told, None),
        // Accepted for other bundles.
        Some((WARN, _)) => (CrdFindings::Refused, None),
        _ => {
            let problem = format!("annotation {CRD_UPGRADE_SAFETY}: expected {WARN} or {WARN}:BUNDLE, found {value:?}; CRDs are checked");
            (CrdFindings::Refused, Some(problem))
        }
    }
}
