//! What signed content says: which image it is about (CVO-SIG-04).

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::digest::ReleaseDigest;
use crate::info::Doc;

/// The objects of the content.
const OBJECTS: [&str; 5] = ["", "/critical", "/critical/image", "/critical/identity", "/optional"];
/// The type of a signature's content.
const KIND: &str = "atomic container signature";

/// Content that does not vouch for a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// It is not a signature's JSON, or has members that it must not have.
    #[error("the signature is not valid JSON: {0}")]
    Json(String),
    /// It is of another type.
    #[error("signature is not the correct type")]
    Kind,
    /// It does not name the image.
    #[error("signature must have an identity")]
    Identity,
    /// It is about another image.
    #[error("signature digest does not match")]
    Digest,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Claim {
    critical: Critical,
    #[serde(rename = "optional")]
    _optional: Notes,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Critical {
    r#type: String,
    image: Image,
    identity: Identity,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Notes {
    #[serde(rename = "creator")]
    _creator: String,
    #[serde(rename = "timestamp")]
    _timestamp: i64,
}

/// Returns the content that is to be signed for a release, as `oc adm release new --to-signature` writes it.
pub fn unsigned_claim(creator: &str, created: Timestamp, digest: &ReleaseDigest, reference: &str) -> String {
    let text = |text: &str| Doc::Plain(text.into());
    let object = |fields: Vec<(&str, Doc)>| Doc::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    let critical = object(vec![
        ("type", text(KIND)),
        ("image", object(vec![("docker-manifest-digest", text(digest.as_str()))])),
        ("identity", object(vec![("docker-reference", text(reference))])),
    ]);
    let optional = object(vec![("creator", text(creator)), ("timestamp", Doc::Plain(created.as_second().into()))]);
    object(vec![("critical", critical), ("optional", optional)]).to_text()
}

/// Checks that content, whose signature was verified, vouches for a release. Unknown members are refused wherever they stand: a newer format may
/// say with one of them that the claim is limited.
pub fn check_claim(content: &[u8], digest: &ReleaseDigest) -> Result<(), ClaimError> {
    let claim: Claim = serde_json::from_slice(content).map_err(|error| ClaimError::Json(error.to_string()))?;
    // A list would pass for an object with its members in order.
    let value: Value = serde_json::from_slice(content).map_err(|error| ClaimError::Json(error.to_string()))?;
    if let Some(place) = OBJECTS.iter().find(|place| value.pointer(place).is_some_and(|part| !part.is_object())) {
        return Err(ClaimError::Json(format!("{:?} is no object", place.rsplit('/').next().unwrap_or_default())));
    }
    if claim.critical.r#type != KIND {
        return Err(ClaimError::Kind);
    }
    if claim.critical.identity.reference.is_empty() {
        return Err(ClaimError::Identity);
    }
    if claim.critical.image.digest != digest.as_str() {
        return Err(ClaimError::Digest);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn check(claim: &Value) -> Result<(), ClaimError> {
        check_claim(claim.to_string().as_bytes(), &ReleaseDigest::parse("sha256:ab").unwrap())
    }

    fn good() -> Value {
        json!({
            "critical": {
                "type": "atomic container signature",
                "image": {"docker-manifest-digest": "sha256:ab"},
                "identity": {"docker-reference": "q.example/release:4.19"},
            },
            "optional": {"creator": "a", "timestamp": 1_700_000_000},
        })
    }

    /// CVO-SIG-04: each rule has its own error; members that are not known are refused wherever they stand.
    #[test]
    fn claims() {
        assert_eq!(check(&good()), Ok(()));
        assert_eq!(check(&json!({"critical": good()["critical"]})), Ok(()));
        for (place, value, expected) in [
            ("/critical/type", json!("cosign container image signature"), ClaimError::Kind),
            ("/critical/identity/docker-reference", json!(""), ClaimError::Identity),
            ("/critical/image/docker-manifest-digest", json!("sha256:AB"), ClaimError::Digest),
            ("/critical/image/docker-manifest-digest", json!("sha256:abc"), ClaimError::Digest),
        ] {
            let mut claim = good();
            *claim.pointer_mut(place).unwrap() = value;
            assert_eq!(check(&claim).unwrap_err(), expected);
        }
        for place in ["", "/critical", "/critical/image", "/critical/identity", "/optional"] {
            let mut claim = good();
            claim.pointer_mut(place).unwrap()["more"] = json!(1);
            let error = check(&claim).unwrap_err().to_string();
            assert!(error.starts_with("the signature is not valid JSON: unknown field `more`"), "{error}");
        }
        for (place, value) in [
            ("/optional/timestamp", json!("now")),
            ("/optional/timestamp", json!(1.5)),
            ("/optional/creator", json!(1)),
            ("/critical", json!([])),
        ] {
            let mut claim = good();
            *claim.pointer_mut(place).unwrap() = value;
            assert!(matches!(check(&claim), Err(ClaimError::Json(_))), "{claim}");
        }
        let digest = ReleaseDigest::parse("sha256:ab").unwrap();
        for text in ["", "{}", "null", "{\"critical\": {}, \"critical\": {}}", &format!("{} {}", good(), good())] {
            assert!(check_claim(text.as_bytes(), &digest).is_err(), "{text}");
        }
    }

    /// CVO-RELN-03, CVO-SIG-04: what is to be signed for a new release is what a verification takes.
    #[test]
    fn unsigned() {
        let digest = ReleaseDigest::parse("sha256:ab").unwrap();
        let text = unsigned_claim("mainstay/1", Timestamp::from_second(1_700_000_000).unwrap(), &digest, "q.test/release@sha256:ab");
        assert_eq!(check_claim(text.as_bytes(), &digest), Ok(()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["optional"], json!({"creator": "mainstay/1", "timestamp": 1_700_000_000}));
        assert!(text.starts_with("{\n  \"critical\": {\n    \"type\": \"atomic container signature\",\n    \"image\": {"), "{text}");
    }
}
