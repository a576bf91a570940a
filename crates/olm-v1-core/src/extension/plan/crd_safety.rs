//! What becomes of findings of the CRD upgrade safety check (OLM1-CRD-01, OLM1-CRD-07).
//!
//! ```text
//!   spec.install.preflight.crdUpgradeSafety.enforcement: None     nothing is compared
//!   annotation crd-upgrade-safety: Warn, or Warn:BUNDLE,BUNDLE    findings are told, and the change goes on
//!   otherwise                                                     findings stop the change
//! ```
//!
//! It is an annotation because upstream's definition of the field takes `None` and `Strict` alone.

use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_api::olm_v1::{ClusterExtension, Enforcement};
use mainstay_schema::upgrade;
use serde_json::Value;

use super::UnsafeCrd;

/// The annotation's value for every bundle; with a colon and names behind it, for these bundles.
pub const WARN: &str = "Warn";

/// What the API server itself refuses, whatever this check says.
const REFUSED_BY_SERVER: [&str; 2] = ["scope", "storedVersionRemoval"];

/// What becomes of the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdFindings {
    /// Nothing is compared.
    Ignored,
    /// They are told, and the change goes on.
    Told,
    /// They stop the change.
    Refused,
}

/// What becomes of findings when this bundle comes, and what is wrong with the annotation, if anything: then it does not count.
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

/// Compares a live CRD with the one that is to replace it, in upstream's words (OLM1-CRD-02, OLM1-CRD-03).
///
/// # Errors
/// Why the change is refused; what is only told is the answer.
pub(super) fn compared(findings: CrdFindings, live: &Value, wanted: &Value) -> Result<Option<String>, UnsafeCrd> {
    if findings == CrdFindings::Ignored {
        return Ok(None);
    }
    let Err(found) = upgrade::check(live, wanted) else { return Ok(None) };
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let hopeless = found.iter().any(|finding| REFUSED_BY_SERVER.contains(&finding.rule));
    if findings == CrdFindings::Told && !hopeless {
        return Ok(Some(format!("{}\nannotation {CRD_UPGRADE_SAFETY} lets it be changed", upgrade::message(name, &found))));
    }
    Err(UnsafeCrd { name: name.to_owned(), findings: found, accepted: findings == CrdFindings::Told })
}
