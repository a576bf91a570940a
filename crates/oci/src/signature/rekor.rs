//! Promises of a transparency log that it holds a signature: a signed entry timestamp, made beforehand and kept with the signature, so the log
//! need not be asked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use x509_parser::pem::parse_x509_pem;

use super::Rejection;
use super::keys::PublicKey;
use super::strict::Object;
use crate::digest::Digest;

/// The largest number that JSON carries exactly.
const MAX_EXACT: i64 = 1 << 53;

/// The entry that the log must hold.
pub(super) struct Entry<'a> {
    /// The key or certificate, as DER.
    pub key_or_certificate: &'a [u8],
    /// The signature's bytes.
    pub signature: &'a [u8],
    /// The signed payload.
    pub payload: &'a [u8],
}

/// Checks that one of the logs promised to hold the entry; returns the time of its entry, in seconds since 1970.
pub(super) fn check(logs: &[PublicKey], bundle: &str, entry: &Entry<'_>) -> Result<i64, Rejection> {
    let mut whole = Object::parse(bundle.as_bytes())?;
    let signature: String = whole.require("SignedEntryTimestamp")?;
    let signature = STANDARD.decode(signature).map_err(|error| Rejection(format!("SignedEntryTimestamp: {error}")))?;
    let payload = LogPayload::read(&whole.require::<Box<RawValue>>("Payload")?)?;
    whole.end()?;
    let canonical = payload.canonical()?;
    if !logs.iter().any(|key| key.verifies(canonical.as_bytes(), &signature)) {
        return Err(Rejection("cryptographic signature verification of Rekor SET failed".to_owned()));
    }
    compare(&payload.body, entry)?;
    Ok(payload.integrated_time)
}

struct LogPayload {
    body: String,
    integrated_time: i64,
    log_index: i64,
    log_id: String,
}

impl LogPayload {
    fn read(raw: &RawValue) -> Result<Self, Rejection> {
        let mut object = Object::of(raw)?;
        let payload = Self {
            body: object.require("body")?,
            integrated_time: object.require("integratedTime")?,
            log_index: object.require("logIndex")?,
            log_id: object.require("logID")?,
        };
        object.end()?;
        Ok(payload)
    }

    /// Returns the one form of the payload that is signed (RFC 8785): sorted keys, no blanks.
    fn canonical(&self) -> Result<String, Rejection> {
        let number = |name: &str, value: i64| {
            if value.abs() > MAX_EXACT { Err(Rejection(format!("canonicalizing Rekor SET JSON: {name} is too large"))) } else { Ok(value) }
        };
        let text = |value: &str| serde_json::to_string(value).map_err(|error| Rejection(format!("canonicalizing Rekor SET JSON: {error}")));
        Ok(format!(
            r#"{{"body":{},"integratedTime":{},"logID":{},"logIndex":{}}}"#,
            text(&self.body)?,
            number("integratedTime", self.integrated_time)?,
            text(&self.log_id)?,
            number("logIndex", self.log_index)?
        ))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    kind: String,
    api_version: String,
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    signature: RecordedSignature,
    data: RecordedData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedSignature {
    content: String,
    public_key: Content,
}

#[derive(Deserialize)]
struct Content {
    content: String,
}

#[derive(Deserialize)]
struct RecordedData {
    hash: Hash,
}

#[derive(Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

/// Checks that the log's record is about this signature.
fn compare(body: &str, entry: &Entry<'_>) -> Result<(), Rejection> {
    let decode = |what: &str, text: &str| {
        STANDARD.decode(text).map_err(|error| Rejection(format!("decoding {what} of a Rekor SET payload: {error}")))
    };
    let record: Record = serde_json::from_slice(&decode("the body", body)?)
        .map_err(|error| Rejection(format!("decoding the body of a Rekor SET payload: {error}")))?;
    if record.kind != "hashedrekord" {
        return Err(Rejection(format!("unsupported Rekor SET Payload kind \"{}\"", record.kind)));
    }
    if record.api_version != "0.0.1" {
        return Err(Rejection(format!("unsupported Rekor SET Payload hashedrekord version \"{}\"", record.api_version)));
    }
    let pem = decode("publicKey", &record.spec.signature.public_key.content)?;
    let (rest, block) = parse_x509_pem(&pem).map_err(|_| Rejection("publicKey in Rekor SET is not in PEM format".to_owned()))?;
    if !rest.trim_ascii().is_empty() {
        return Err(Rejection("publicKey in Rekor SET has trailing data".to_owned()));
    }
    if block.contents != entry.key_or_certificate {
        return Err(Rejection("publicKey in Rekor SET does not match".to_owned()));
    }
    if decode("signature", &record.spec.signature.content)? != entry.signature {
        return Err(Rejection("signature in Rekor SET does not match".to_owned()));
    }
    let hash = &record.spec.data.hash;
    if hash.algorithm != "sha256" {
        return Err(Rejection(format!("Unexpected \"data.hash.algorithm\" value \"{}\"", hash.algorithm)));
    }
    if !hash.value.eq_ignore_ascii_case(Digest::of(entry.payload).hex()) {
        return Err(Rejection("payload in Rekor SET does not match".to_owned()));
    }
    Ok(())
}
