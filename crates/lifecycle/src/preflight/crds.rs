//! CRDs that would change: the upgrade safety check (OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-03).

use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_schema::upgrade;
use serde_json::Value;

use crate::reason::UnsafeCrd;

/// Rules whose violation the API server itself refuses, whatever this check says.
const REFUSED_BY_SERVER: [&str; 2] = ["scope", "storedVersionRemoval"];

/// The consequence of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdFindings {
    /// Nothing is compared.
    Ignored,
    /// They are told, and the change goes on.
    Told,
    /// They stop the change.
    Refused,
}

/// Compares a live CRD with the one that is to replace it, in upstream's words (OLM1-CRD-02, OLM1-CRD-03).
///
/// # Errors
/// Why the change is refused; what is only told is the answer.
pub fn compared(findings: CrdFindings, live: &Value, wanted: &Value) -> Result<Option<String>, UnsafeCrd> {
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
