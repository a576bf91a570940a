//! The content of a signature: the manifest it is about, and the name it is for.

use serde_json::value::RawValue;

use super::Rejection;
use super::strict::Object;
use crate::digest::Digest;

/// The kind of signature that the payload belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenPGP.
    Simple,
    /// Sigstore.
    Sigstore,
}

/// A signed payload. It may be read only after the signature was verified.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// The digest of the manifest.
    pub digest: Digest,
    /// The image's name.
    pub reference: String,
}

impl Payload {
    /// Parses the payload; unexpected content is refused.
    pub(super) fn parse(form: Form, text: &[u8]) -> Result<Self, Rejection> {
        let mut whole = Object::parse(text)?;
        let critical: Box<RawValue> = whole.require("critical")?;
        let optional: Box<RawValue> = whole.require("optional")?;
        whole.end()?;
        // cosign writes null if there are no notes.
        if form == Form::Simple || optional.get() != "null" {
            check_notes(&optional)?;
        }
        let mut critical = Object::of(&critical)?;
        let kind: String = critical.require("type")?;
        let expected = match form {
            Form::Simple => "atomic container signature",
            Form::Sigstore => "cosign container image signature",
        };
        if kind != expected {
            return Err(Rejection(format!("Unrecognized signature type {kind}")));
        }
        let mut image = critical.require::<Object>("image")?;
        let mut identity = critical.require::<Object>("identity")?;
        critical.end()?;
        let digest: String = image.require("docker-manifest-digest")?;
        image.end()?;
        let reference = identity.require("docker-reference")?;
        identity.end()?;
        let digest = digest.parse().map_err(|error| Rejection(format!("invalid docker-manifest-digest value \"{digest}\": {error}")))?;
        Ok(Self { digest, reference })
    }
}

/// Checks the creator and the time; more may be noted.
fn check_notes(optional: &RawValue) -> Result<(), Rejection> {
    let mut notes = Object::of(optional)?;
    notes.take::<String>("creator")?;
    if let Some(timestamp) = notes.take::<f64>("timestamp")?
        && timestamp.fract() != 0.0
    {
        return Err(Rejection("Field optional.timestamp is not an integer".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn text(kind: &str, optional: &str) -> String {
        format!(
            r#"{{"critical": {{"type": "{kind}", "image": {{"docker-manifest-digest": "{DIGEST}"}},
                "identity": {{"docker-reference": "q.example/a:1"}}}}, "optional": {optional}}}"#
        )
    }

    #[test]
    fn payloads_are_read_strictly() {
        let (simple, sigstore) = ("atomic container signature", "cosign container image signature");
        let read = |form, kind: &str, optional: &str| Payload::parse(form, text(kind, optional).as_bytes());
        let good = Payload { digest: DIGEST.parse().unwrap(), reference: "q.example/a:1".to_owned() };
        assert_eq!(read(Form::Simple, simple, r#"{"creator": "a", "timestamp": 1700000000, "more": []}"#).unwrap(), good);
        assert_eq!(read(Form::Sigstore, sigstore, "null").unwrap(), good);
        assert!(read(Form::Simple, simple, "null").is_err());
        assert_eq!(read(Form::Simple, sigstore, "{}").unwrap_err().to_string(), format!("Unrecognized signature type {sigstore}"));
        assert_eq!(
            read(Form::Sigstore, sigstore, r#"{"timestamp": 1.5}"#).unwrap_err().to_string(),
            "Field optional.timestamp is not an integer"
        );
        let other = text(sigstore, "{}").replace("\"image\"", "\"more\": 1, \"image\"");
        assert_eq!(Payload::parse(Form::Sigstore, other.as_bytes()).unwrap_err().to_string(), "Unknown key \"more\"");
        let other = text(sigstore, "{}").replace("sha256:e3", "md5:e3");
        assert!(Payload::parse(Form::Sigstore, other.as_bytes()).unwrap_err().to_string().contains("unsupported digest algorithm"));
    }
}
