//! The policy about signatures of the container tools (`policy.json`), as far as it can be kept without checking signatures: what it lets in
//! unsigned is pulled, what it refuses or wants signed is not (OLM1-GEN-12).

use std::collections::BTreeMap;

use mainstay_oci::{Error, Reference};
use serde::Deserialize;

/// A policy.
#[derive(Debug, Deserialize)]
pub struct Policy {
    default: Vec<Requirement>,
    #[serde(default)]
    transports: BTreeMap<String, BTreeMap<String, Vec<Requirement>>>,
    #[serde(skip)]
    subject: String,
}

#[derive(Debug, Deserialize)]
struct Requirement {
    #[serde(rename = "type")]
    kind: String,
}

impl Policy {
    /// Reads a `policy.json`; `subject` names it in errors.
    pub fn parse(subject: &str, text: &[u8]) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Configuration { subject: subject.to_owned(), problem };
        let policy: Self = serde_json::from_slice(text).map_err(|error| refuse(format!("no policy about signatures: {error}")))?;
        Ok(Self { subject: subject.to_owned(), ..policy })
    }

    /// Refuses what the policy does not let in without a signature.
    pub fn permit(&self, reference: &Reference) -> Result<(), Error> {
        let refuse = |problem: String| Error::Configuration { subject: self.subject.clone(), problem };
        let requirements = self.requirements(reference);
        if requirements.is_empty() {
            return Err(refuse(format!("there are no requirements for image {reference}")));
        }
        for Requirement { kind } in requirements {
            match kind.as_str() {
                "insecureAcceptAnything" => {}
                "reject" => return Err(refuse(format!("running image {reference} is rejected by policy"))),
                "signedBy" | "sigstoreSigned" => {
                    return Err(refuse(format!("image {reference} needs a signature ({kind}), which this program cannot check")));
                }
                other => return Err(refuse(format!("unknown policy requirement type {other:?}"))),
            }
        }
        Ok(())
    }

    /// Those of the narrowest scope: the image itself, its repository and what is above it, wildcards of its host, the transport, the default.
    fn requirements(&self, reference: &Reference) -> &[Requirement] {
        let Some(scopes) = self.transports.get("docker") else { return &self.default };
        let mut scope = format!("{}/{}", reference.registry(), reference.repository());
        let exact = reference.to_string();
        if let Some(found) = scopes.get(&exact) {
            return found;
        }
        loop {
            if let Some(found) = scopes.get(&scope) {
                return found;
            }
            match scope.rfind('/') {
                Some(at) => scope.truncate(at),
                None => break,
            }
        }
        let mut host = scope.split(':').next().unwrap_or_default();
        while let Some((_, parent)) = host.split_once('.') {
            if let Some(found) = scopes.get(&format!("*.{parent}")) {
                return found;
            }
            host = parent;
        }
        scopes.get("").unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM1-GEN-12: the narrowest scope of a policy decides, and what needs a signature is refused rather than let in.
    #[test]
    fn the_narrowest_scope_decides() {
        let text = br#"{"default": [{"type": "reject"}], "transports": {"docker": {
            "quay.example": [{"type": "insecureAcceptAnything"}],
            "quay.example/signed": [{"type": "signedBy", "keyType": "GPGKeys"}],
            "*.wild.example": [{"type": "insecureAcceptAnything"}]}}}"#;
        let policy = Policy::parse("policy.json", text).unwrap();
        let says = |reference: &str| policy.permit(&Reference::parse(reference).unwrap()).map_err(|error| error.to_string());
        assert_eq!(says("quay.example/open/a:1"), Ok(()));
        assert_eq!(says("a.b.wild.example:5000/a:1"), Ok(()));
        assert!(says("quay.example/signed/a:1").unwrap_err().contains("needs a signature (signedBy)"));
        assert!(says("other.example/a:1").unwrap_err().contains("is rejected by policy"));
        assert!(Policy::parse("policy.json", b"{}").unwrap_err().to_string().contains("policy"));
        let odd = Policy::parse("policy.json", br#"{"default": [{"type": "maybe"}]}"#).unwrap();
        assert!(odd.permit(&Reference::parse("a.example/a:1").unwrap()).is_err());
    }
}
