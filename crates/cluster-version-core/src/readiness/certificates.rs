//! Certificates that end soon.

use jiff::{SignedDuration, Timestamp};

use super::facts::{Facts, Read, known};
use super::finding::{Check, Finding, Level};

/// The time before its end from which a certificate is told of (MS-READY-03).
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A certificate that is presented or trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The object that holds it: `secret shop/web-tls`, `validatingwebhookconfiguration guard`.
    pub object: String,
    /// Its end.
    pub not_after: Timestamp,
    /// The program that renews it, if the object names one.
    pub renewed_by: Option<String>,
}

/// Certificates that have ended, or end within 30 days.
pub(super) fn ending(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let finding = |one: &CertificateFacts| {
        let left = one.not_after.duration_since(facts.now);
        if left > SOON {
            return None;
        }
        let has_ended = left <= SignedDuration::ZERO;
        let evidence = if has_ended {
            format!("its certificate ended at {}", one.not_after)
        } else {
            format!("its certificate ends at {}, in {} days", one.not_after, left.as_hours() / 24)
        };
        let (level, action) = match &one.renewed_by {
            Some(program) if has_ended => (Level::Risk, format!("find out why {program} has not renewed it")),
            Some(program) => (Level::Note, format!("nothing, if {program} renews it in time")),
            None => (Level::Risk, "renew it before the update".to_owned()),
        };
        Some(Finding::new(Check::Certificates, level, &*one.object, evidence, action))
    };
    Ok(known(&facts.certificates)?.iter().filter_map(finding).collect())
}
