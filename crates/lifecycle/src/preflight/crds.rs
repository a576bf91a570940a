//! CRDs that would change: the upgrade safety check (OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-03).

use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_schema::upgrade;
use serde_json::Value;

use crate::reason::UnsafeCrd;

/// Rules whose violation the API server refuses itself, regardless of this check.
const REFUSED_BY_SERVER: [&str; 2] = ["scope", "storedVersionRemoval"];

/// The consequence of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdFindings {
    /// The CRDs are not compared.
    Ignored,
    /// The findings are reported, and the change goes on.
    Told,
    /// The findings stop the change.
    Refused,
}

/// Compares a live CRD with its replacement, in upstream's words (OLM1-CRD-02, OLM1-CRD-03). Returns findings that are only reported.
///
/// # Errors
/// The CRD with the findings because of which the change is refused.
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
