//! Comparison of a signature's name with the requested image (`signedIdentity`).

use serde_json::value::RawValue;

use super::Malformed;
use super::strict::Object;
use crate::reference::Reference;

/// Comparison of the name in a signature. The image's name is the requested one, even if it came from a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignedIdentity {
    /// The same repository with the same tag; the repository alone for an image that was requested by digest.
    MatchRepoDigestOrExact,
    /// The same repository with the same tag or digest.
    MatchExact,
    /// The same repository.
    MatchRepository,
    /// This name and no other.
    ExactReference(Reference),
    /// This repository and no other.
    ExactRepository(Reference),
    /// Like the first, after a part of the name was replaced.
    RemapIdentity {
        /// Beginning of the image's name.
        prefix: String,
        /// Beginning of the name in the signature instead.
        signed_prefix: String,
    },
}

impl SignedIdentity {
    pub(super) fn read(raw: &RawValue) -> Result<Self, Malformed> {
        let mut object = Object::of(raw)?;
        let kind: String = object.require("type")?;
        let found = match kind.as_str() {
            "matchRepoDigestOrExact" => Self::MatchRepoDigestOrExact,
            "matchExact" => Self::MatchExact,
            "matchRepository" => Self::MatchRepository,
            "exactReference" => {
                let text: String = object.require("dockerReference")?;
                let reference = familiar("dockerReference", &text)?;
                if is_name_only(&reference) {
                    return Err(Malformed(format!("dockerReference \"{text}\" contains neither a tag nor digest")));
                }
                Self::ExactReference(reference)
            }
            "exactRepository" => Self::ExactRepository(familiar("dockerRepository", &object.require::<String>("dockerRepository")?)?),
            "remapIdentity" => {
                Self::RemapIdentity { prefix: prefix(object.require("prefix")?)?, signed_prefix: prefix(object.require("signedPrefix")?)? }
            }
            other => return Err(Malformed(format!("Unknown policy reference match type \"{other}\""))),
        };
        object.end()?;
        Ok(found)
    }

    /// Returns true if a signature for the name `signed` is good for the image.
    pub(super) fn accepts(&self, intended: &Reference, signed: &str) -> bool {
        let Ok(signed) = Reference::parse_familiar(signed) else { return false };
        match self {
            Self::MatchRepoDigestOrExact => matches_repo_digest_or_exact(intended, &signed),
            Self::MatchExact => !is_name_only(intended) && *intended == signed,
            Self::MatchRepository => intended.name() == signed.name(),
            Self::ExactReference(wanted) => *wanted == signed,
            Self::ExactRepository(wanted) => wanted.name() == signed.name(),
            Self::RemapIdentity { prefix, signed_prefix } => {
                remapped(intended, prefix, signed_prefix).is_some_and(|intended| matches_repo_digest_or_exact(&intended, &signed))
            }
        }
    }
}

fn matches_repo_digest_or_exact(intended: &Reference, signed: &Reference) -> bool {
    // The digest was compared already: the signature names that of the manifest.
    match (is_name_only(signed), intended.tag(), intended.digest()) {
        (false, Some(_), _) => intended == signed,
        (false, None, Some(_)) => intended.name() == signed.name(),
        _ => false,
    }
}

/// Returns the name with the prefix replaced; unchanged if it has another prefix.
fn remapped(intended: &Reference, prefix: &str, signed_prefix: &str) -> Option<Reference> {
    match intended.name().strip_prefix(prefix) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Reference::parse(&intended.to_string().replacen(prefix, signed_prefix, 1)).ok()
        }
        _ => Some(intended.clone()),
    }
}

fn is_name_only(reference: &Reference) -> bool {
    reference.tag().is_none() && reference.digest().is_none()
}

fn familiar(key: &str, text: &str) -> Result<Reference, Malformed> {
    Reference::parse_familiar(text).map_err(|error| Malformed(format!("Invalid format of {key} \"{text}\": {error}")))
}

/// Checks a host, or a host with the beginning of a path.
fn prefix(text: String) -> Result<String, Malformed> {
    let probe = if text.contains('/') { text.clone() } else { format!("{text}/a") };
    let sound = Reference::parse(&probe).is_ok_and(|reference| is_name_only(&reference));
    if sound { Ok(text) } else { Err(Malformed(format!("prefix \"{text}\" is not valid"))) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn identity(text: &str) -> Result<SignedIdentity, Malformed> {
        SignedIdentity::read(&RawValue::from_string(text.to_owned()).unwrap())
    }

    /// OLM1-GEN-12: which names in a signature are good for which images.
    #[test]
    fn names() {
        let default = r#"{"type": "matchRepoDigestOrExact"}"#;
        let exact = r#"{"type": "matchExact"}"#;
        let repository = r#"{"type": "matchRepository"}"#;
        let this = r#"{"type": "exactReference", "dockerReference": "vendor.example/a:1"}"#;
        let there = r#"{"type": "exactRepository", "dockerRepository": "vendor.example/a"}"#;
        let remap = r#"{"type": "remapIdentity", "prefix": "m.example/vendor", "signedPrefix": "vendor.example"}"#;
        let by_digest = format!("q.example/a@{DIGEST}");
        let other_digest = format!("q.example/a@{}", DIGEST.replace("e3b0", "0000"));
        for (policy, intended, signed, good) in [
            (default, "q.example/a:1", "q.example/a:1", true),
            (default, "q.example/a:1", "q.example/a:2", false),
            (default, "q.example/a:1", "q.example/a", false),
            (default, "q.example/a:1", by_digest.as_str(), false),
            (default, by_digest.as_str(), "q.example/a:7", true),
            (default, by_digest.as_str(), other_digest.as_str(), true),
            (default, by_digest.as_str(), "q.example/a", false),
            (default, by_digest.as_str(), "q.example/b:7", false),
            (default, "docker.io/library/busybox:1", "busybox:1", true),
            (exact, "q.example/a:1", "q.example/a:1", true),
            (exact, by_digest.as_str(), "q.example/a:1", false),
            (exact, by_digest.as_str(), by_digest.as_str(), true),
            (repository, "q.example/a:1", "q.example/a:2", true),
            (repository, "q.example/a:1", "q.example/a", true),
            (repository, "q.example/a:1", "q.example/b:1", false),
            (repository, "q.example/a:1", "no reference", false),
            (this, "q.example/a:1", "vendor.example/a:1", true),
            (this, "q.example/a:1", "q.example/a:1", false),
            (there, "q.example/a:1", "vendor.example/a:9", true),
            (there, "q.example/a:1", "vendor.example/b:9", false),
            (remap, "m.example/vendor/a:1", "vendor.example/a:1", true),
            (remap, "m.example/vendor/a:1", "m.example/vendor/a:1", false),
            (remap, "m.example/vendors/a:1", "vendor.example/a:1", false),
            (remap, "m.example/vendors/a:1", "m.example/vendors/a:1", true),
        ] {
            let accepted = identity(policy).unwrap().accepts(&Reference::parse(intended).unwrap(), signed);
            assert_eq!(accepted, good, "{policy}: {signed} for {intended}");
        }
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        for (text, problem) in [
            (r#"{"type": "any"}"#, "Unknown policy reference match type \"any\""),
            (r#"{"type": "matchExact", "prefix": "a"}"#, "Unknown key \"prefix\""),
            (r#"{"type": "exactReference", "dockerReference": "a.example/b"}"#, "contains neither a tag nor digest"),
            (r#"{"type": "exactRepository", "dockerRepository": "A B"}"#, "Invalid format of dockerRepository \"A B\""),
            (r#"{"type": "remapIdentity", "prefix": "a.example:x", "signedPrefix": "b"}"#, "prefix \"a.example:x\" is not valid"),
            (r#"{"type": "remapIdentity", "prefix": "a.example"}"#, "Key \"signedPrefix\" missing"),
        ] {
            let error = identity(text).unwrap_err();
            assert!(error.to_string().contains(problem), "{text}: {error}");
        }
    }
}
