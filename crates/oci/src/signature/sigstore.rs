//! `sigstoreSigned`: a payload signed by a key that the policy names, or by a subject that it names and an authority certified.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Rejection;
use super::certificate::{self, Subject};
use super::keys::{Kind, PublicKey};
use super::payload::{Form, Payload};
use super::rekor;
use super::requirement::{Material, SigstoreSigned, Trust};

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "dev.sigstore.cosign/bundle";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";

/// The trusted keys and authorities, with everything read.
pub(super) enum Trusted {
    Keys { keys: Vec<PublicKey>, rekor: Vec<PublicKey> },
    Fulcio { authorities: Vec<Vec<u8>>, issuer: String, email: String, rekor: Vec<PublicKey> },
    Pki { roots: Vec<Vec<u8>>, intermediates: Vec<Vec<u8>>, email: Option<String>, hostname: Option<String> },
}

impl Trusted {
    /// Reads the files that the requirement names.
    pub(super) fn read(requirement: &SigstoreSigned) -> Result<Self, Rejection> {
        Ok(match &requirement.trust {
            Trust::Keys { keys, rekor } => Self::Keys { keys: public_keys("public key", keys)?, rekor: log_keys(rekor)? },
            Trust::Fulcio { authorities, issuer, email, rekor } => Self::Fulcio {
                authorities: certificate::read_all("Fulcio CA certificates", &authorities.read()?)?,
                issuer: issuer.clone(),
                email: email.clone(),
                rekor: log_keys(rekor)?,
            },
            Trust::Pki { roots, intermediates, email, hostname } => Self::Pki {
                roots: certificate::read_all("PKI CA Roots certificates", &roots.read()?)?,
                intermediates: match intermediates {
                    Some(intermediates) => certificate::read_all("PKI CA intermediate certificates", &intermediates.read()?)?,
                    None => Vec::new(),
                },
                email: email.clone(),
                hostname: hostname.clone(),
            },
        })
    }

    /// Checks that the payload was signed by a trusted key; returns its content. `now` is in seconds since 1970.
    pub(super) fn open(&self, payload: &[u8], annotations: &BTreeMap<String, String>, now: u64) -> Result<Payload, Rejection> {
        let noted = |name: &str| annotations.get(name).map(String::as_str).ok_or_else(|| Rejection(format!("missing {name} annotation")));
        let signature = STANDARD.decode(noted(SIGNATURE)?).map_err(|error| Rejection(format!("base64 decoding: {error}")))?;
        let chain = annotations.get(CHAIN).map(String::as_str);
        let keys = match self {
            Self::Keys { keys, rekor } if rekor.is_empty() => keys.clone(),
            Self::Keys { keys, rekor } => {
                let bundle = noted(BUNDLE)?;
                vec![logged(keys, rekor, bundle, &signature, payload)?]
            }
            Self::Fulcio { authorities, issuer, email, rekor } => {
                let (bundle, leaf) = (noted(BUNDLE)?, certificate::read_leaf(noted(CERTIFICATE)?)?);
                let entry = rekor::Entry { key_or_certificate: &leaf, signature: &signature, payload };
                let time = rekor::check(rekor, bundle, &entry)?;
                let time = u64::try_from(time).map_err(|_| Rejection("the time in the Rekor SET is before 1970".to_owned()))?;
                let subject = Subject { email: Some(email), hostname: None, issuer: Some(issuer) };
                vec![certificate::verify(&leaf, &certificate::untrusted_chain(chain)?, authorities, &subject, time)?]
            }
            Self::Pki { roots, intermediates, email, hostname } => {
                let leaf = certificate::read_leaf(noted(CERTIFICATE)?)?;
                let mut between = intermediates.clone();
                between.extend(certificate::untrusted_chain(chain)?);
                let subject = Subject { email: email.as_deref(), hostname: hostname.as_deref(), issuer: None };
                vec![certificate::verify(&leaf, &between, roots, &subject, now)?]
            }
        };
        if !keys.iter().any(|key| key.verifies(payload, &signature)) {
            return Err(Rejection("cryptographic signature verification failed: invalid signature when validating the payload".to_owned()));
        }
        Payload::parse(Form::Sigstore, payload)
    }
}

/// Returns the key that the log's promise is about.
fn logged(keys: &[PublicKey], logs: &[PublicKey], bundle: &str, signature: &[u8], payload: &[u8]) -> Result<PublicKey, Rejection> {
    let mut failures = Vec::new();
    for key in keys {
        match rekor::check(logs, bundle, &rekor::Entry { key_or_certificate: key.der(), signature, payload }) {
            Ok(_) => return Ok(key.clone()),
            Err(problem) => failures.push(problem.to_string()),
        }
    }
    Err(Rejection(format!("No public key verified against the RekorSET: {}", failures.join(", "))))
}

fn public_keys(what: &str, materials: &[Material]) -> Result<Vec<PublicKey>, Rejection> {
    let read = |(at, material): (usize, &Material)| {
        PublicKey::from_pem(&material.read()?)
            .map_err(|problem| Rejection(format!("parsing {what} {}{}: {problem}", at + 1, material.place())))
    };
    materials.iter().enumerate().map(read).collect()
}

fn log_keys(materials: &[Material]) -> Result<Vec<PublicKey>, Rejection> {
    let keys = public_keys("Rekor public key", materials)?;
    match keys.iter().position(|key| key.kind() != Kind::Ecdsa) {
        Some(at) => Err(Rejection(format!("Rekor public key {} is not using ECDSA", at + 1))),
        None => Ok(keys),
    }
}

#[cfg(test)]
mod tests;
