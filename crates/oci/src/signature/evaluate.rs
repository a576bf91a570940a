//! Evaluation of an image against a requirement.

use super::Rejection;
use super::identity::SignedIdentity;
use super::openpgp::{KeyExpiry, Keyring};
use super::payload::{Form, Payload};
use super::requirement::{Material, Requirement, SignedBy, SigstoreSigned, Trust};
use super::sigstore::Trusted;
use super::stored::Signature;
use crate::digest::Digest;
use crate::reference::Reference;

/// An image to be evaluated.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// The name that was requested, with a tag or a digest.
    pub intended: Reference,
    /// Its manifest.
    pub manifest: &'a [u8],
}

impl Requirement {
    /// Returns true if the requirement is about signatures.
    pub(crate) fn needs_signatures(&self) -> bool {
        matches!(self, Self::SignedBy(_) | Self::SigstoreSigned(_))
    }

    /// All keys and certificates that it names.
    fn materials(&self) -> Vec<&Material> {
        match self {
            Self::AcceptAnything | Self::Reject | Self::SignedBaseLayer => Vec::new(),
            Self::SignedBy(signed) => signed.keys.iter().collect(),
            Self::SigstoreSigned(signed) => match &signed.trust {
                Trust::Keys { keys, rekor } => keys.iter().chain(rekor).collect(),
                Trust::Fulcio { authorities, rekor, .. } => std::iter::once(authorities).chain(rekor).collect(),
                Trust::Pki { roots, intermediates, .. } => std::iter::once(roots).chain(intermediates).collect(),
            },
        }
    }
}

/// Checks that the image meets the requirement; the reason of a refusal is that of container tools. `now` is in seconds since 1970.
pub(crate) fn check(requirement: &Requirement, image: &Candidate<'_>, signatures: &[Signature], now: u64) -> Result<(), Rejection> {
    match requirement {
        Requirement::AcceptAnything => Ok(()),
        Requirement::Reject => Err(Rejection(format!("Running image docker://{} is rejected by policy.", image.intended))),
        Requirement::SignedBaseLayer => Err(Rejection("signedBaseLayer not implemented yet!".to_owned())),
        Requirement::SignedBy(signed) => check_simple(signed, image, signatures, now),
        Requirement::SigstoreSigned(signed) => check_sigstore(signed, image, signatures, now),
    }
}

/// Returns one digest of the requirements of images with this name, with all that they name in its current state; `None` if any image meets
/// them.
pub(crate) fn conditions(name: &Reference, requirements: &[Requirement]) -> Option<Digest> {
    if requirements.iter().all(|requirement| *requirement == Requirement::AcceptAnything) {
        return None;
    }
    let mut text = format!("{name}\n{requirements:?}\n");
    for material in requirements.iter().flat_map(Requirement::materials) {
        // A file that cannot be read now makes other conditions than its content.
        text.push_str(&material.read().map_or_else(|problem| problem.to_string(), |bytes| Digest::of(&bytes).to_string()));
        text.push('\n');
    }
    Some(Digest::of(text.as_bytes()))
}

fn check_simple(requirement: &SignedBy, image: &Candidate<'_>, signatures: &[Signature], now: u64) -> Result<(), Rejection> {
    let simple: Vec<&[u8]> = signatures
        .iter()
        .filter_map(|signature| match signature {
            Signature::Simple(message) => Some(message.as_slice()),
            _ => None,
        })
        .collect();
    if simple.is_empty() {
        return Err(Rejection(NONE.to_owned()));
    }
    if requirement.key_type != "GPGKeys" {
        return Err(Rejection(format!("Unimplemented \"keyType\" value \"{}\"", requirement.key_type)));
    }
    let mut keyring = Keyring::default();
    for material in &requirement.keys {
        keyring.add(&material.read()?)?;
    }
    if keyring.is_empty() {
        return Err(Rejection("No public keys imported".to_owned()));
    }
    one_of(simple.into_iter().map(|message| {
        let content = keyring.open(message, now, KeyExpiry::Now)?;
        accept(&Payload::parse(Form::Simple, &content)?, &requirement.identity, image)
    }))
}

fn check_sigstore(requirement: &SigstoreSigned, image: &Candidate<'_>, signatures: &[Signature], now: u64) -> Result<(), Rejection> {
    let (mut found, mut simple, mut attachments) = (Vec::new(), 0, 0);
    for signature in signatures {
        match signature {
            Signature::Sigstore { payload, annotations } => found.push((payload, annotations)),
            Signature::Simple(_) => simple += 1,
            Signature::Attachment => attachments += 1,
        }
    }
    if found.is_empty() {
        return Err(match (simple, attachments) {
            (0, 0) => Rejection(NONE.to_owned()),
            _ => Rejection(format!("{NONE} ({simple} non-sigstore signatures, {attachments} sigstore non-signature attachments)")),
        });
    }
    let trusted = Trusted::read(requirement)?;
    one_of(found.into_iter().map(|(payload, annotations)| {
        let payload = trusted.open(payload, annotations, now)?;
        accept(&payload, &requirement.identity, image)
    }))
}

const NONE: &str = "A signature was required, but no signature exists";

/// Succeeds if one signature is good.
fn one_of(outcomes: impl Iterator<Item = Result<(), Rejection>>) -> Result<(), Rejection> {
    let mut reasons = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(reason),
        }
    }
    if let [only] = reasons.as_slice() {
        return Err(only.clone());
    }
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    Err(Rejection(format!("None of the signatures were accepted, reasons: {}", reasons.join("; "))))
}

/// Checks that the signed payload is about this image under this name.
fn accept(payload: &Payload, identity: &SignedIdentity, image: &Candidate<'_>) -> Result<(), Rejection> {
    if payload.digest.of_same_kind(image.manifest) != payload.digest {
        return Err(Rejection(format!("Signature for digest {} does not match", payload.digest)));
    }
    if !identity.accepts(&image.intended, &payload.reference) {
        return Err(Rejection(format!("Signature for identity \"{}\" is not accepted", payload.reference)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::signature::policy::Policy;

    /// OLM1-GEN-12: what was let in under one name, policy and key says nothing of another.
    #[test]
    fn conditions_differ_by_name_policy_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        let asked = |requirements: &str, name: &str| {
            let text = format!(r#"{{"default": {requirements}}}"#).replace("KEY", &key.display().to_string());
            let (policy, name) = (Policy::parse("policy.json", text.as_bytes()).unwrap(), Reference::parse(name).unwrap());
            conditions(&name, policy.requirements(&name))
        };
        let signed = r#"[{"type": "sigstoreSigned", "keyPath": "KEY"}]"#;
        assert_eq!(asked(r#"[{"type": "insecureAcceptAnything"}]"#, "q.example/a:1"), None);
        let mut found = vec![asked(signed, "q.example/a:1").unwrap()];
        std::fs::write(&key, "one").unwrap();
        found.push(asked(signed, "q.example/a:1").unwrap());
        assert_eq!(asked(signed, "q.example/a:1").unwrap(), found[1]);
        found.push(asked(signed, "q.example/a:2").unwrap());
        found.push(asked(r#"[{"type": "sigstoreSigned", "keyPath": "KEY", "rekorPublicKeyPath": "KEY"}]"#, "q.example/a:1").unwrap());
        found.push(asked(r#"[{"type": "insecureAcceptAnything"}, {"type": "reject"}]"#, "q.example/a:1").unwrap());
        std::fs::write(&key, "two").unwrap();
        found.push(asked(signed, "q.example/a:1").unwrap());
        let different: std::collections::BTreeSet<&Digest> = found.iter().collect();
        assert_eq!(different.len(), found.len());
    }
}
