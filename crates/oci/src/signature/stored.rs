//! Signatures as they are stored: simple signing (OpenPGP), and sigstore's payload with annotations.

use std::collections::BTreeMap;

use super::Rejection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// The media type of a sigstore signature among attachments.
pub(crate) const SIGSTORE_SIGNATURE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// A signature that is still unverified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signature {
    /// An OpenPGP message.
    Simple(Vec<u8>),
    /// A payload that is signed in its annotations.
    Sigstore {
        /// The payload's bytes.
        payload: Vec<u8>,
        /// The signature over it, and its proofs.
        annotations: BTreeMap<String, String>,
    },
    /// Other content beside the image, such as an attestation.
    Attachment,
}

impl Signature {
    /// Makes a signature from a part of sigstore's attachments.
    pub(crate) fn attached(media_type: &str, payload: Vec<u8>, annotations: BTreeMap<String, String>) -> Self {
        if media_type == SIGSTORE_SIGNATURE { Self::Sigstore { payload, annotations } } else { Self::Attachment }
    }

    /// Reads a file of a lookaside store.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Rejection> {
        let Some(first) = bytes.first() else { return Err(Rejection("empty signature blob".to_owned())) };
        match first {
            0x00 => {
                let text = &bytes[1..];
                let end = text
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .ok_or_else(|| Rejection("invalid signature format, missing newline".to_owned()))?;
                match &text[..end] {
                    b"simple-signing" => Ok(Self::Simple(text[end + 1..].to_vec())),
                    b"sigstore-json" => Self::parse_sigstore(&text[end + 1..]),
                    other => Err(Rejection(format!("unrecognized signature format {:?}", String::from_utf8_lossy(other)))),
                }
            }
            // OpenPGP packets, old or new form: compressed data, one-pass signature, signature.
            0xA0..=0xA3 | 0xC8 | 0x90..=0x93 | 0xC4 | 0x88..=0x8B | 0xC2 => Ok(Self::Simple(bytes.to_vec())),
            other => Err(Rejection(format!("unrecognized signature format, starting with binary {other:#x}"))),
        }
    }

    fn parse_sigstore(text: &[u8]) -> Result<Self, Rejection> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored {
            mime_type: String,
            payload: String,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        let stored: Stored = serde_json::from_slice(text).map_err(|error| Rejection(error.to_string()))?;
        let payload = STANDARD.decode(stored.payload).map_err(|error| Rejection(format!("payload: {error}")))?;
        Ok(Self::attached(&stored.mime_type, payload, stored.annotations))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn forms_are_told_apart() {
        assert_eq!(Signature::parse(&[0xA3, 1]).unwrap(), Signature::Simple(vec![0xA3, 1]));
        assert_eq!(Signature::parse(b"\0simple-signing\nabc").unwrap(), Signature::Simple(b"abc".to_vec()));
        let stored = b"\0sigstore-json\n{\"mimeType\": \"application/vnd.dev.cosign.simplesigning.v1+json\", \"payload\": \"YQ==\", \
            \"annotations\": {\"k\": \"v\"}}";
        let annotations = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        assert_eq!(Signature::parse(stored).unwrap(), Signature::Sigstore { payload: b"a".to_vec(), annotations });
        let error = |bytes: &[u8]| Signature::parse(bytes).unwrap_err().to_string();
        assert_eq!(error(b""), "empty signature blob");
        assert_eq!(error(b"<html>"), "unrecognized signature format, starting with binary 0x3c");
        assert_eq!(error(b"\0other\n"), "unrecognized signature format \"other\"");
        assert_eq!(error(b"\0sigstore-json"), "invalid signature format, missing newline");
    }
}
