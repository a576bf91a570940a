//! Serving certificates of operators' endpoints: made, and read back from their Secrets (OLM0-WEBHOOK-05).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use mainstay_olm_classic_core::csv::Serving;
use mainstay_olm_classic_core::deployments::{Authority, CA_HASH};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The lifetime of certificates.
const LIFETIME: SignedDuration = SignedDuration::from_hours(730 * 24);
/// The time before its end at which a certificate is due.
const FRESH: SignedDuration = SignedDuration::from_hours(24);
/// The time by which the validity of certificates is backdated, because clocks differ.
const BACK: SignedDuration = SignedDuration::from_hours(1);
const ORGANIZATION: &str = "Red Hat, Inc.";
/// The longest common name (RFC 5280, ub-common-name).
const COMMON_NAME: usize = 64;
/// The key of the authority in the Secret.
const AUTHORITY: &str = "olmCAKey";

/// Why a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The library refuses.
    #[error("a serving certificate cannot be made")]
    Make(#[from] rcgen::Error),
    /// The time is outside of what a certificate can say.
    #[error("a serving certificate cannot be made at {0}")]
    Time(Timestamp),
}

/// A new authority, with its key for as long as it signs.
pub(super) struct Signer {
    pem: String,
    key: KeyPair,
    ends: Timestamp,
}

impl Signer {
    /// Makes an authority.
    pub fn create(now: Timestamp, random: u64) -> Result<Self, CertificateError> {
        let ends = now.checked_add(LIFETIME).map_err(|_| CertificateError::Time(now))?;
        // Serial numbers are positive, and fill their bytes.
        let serial = (random >> 1) | (1 << 62);
        let mut params = params(&format!("olm-selfsigned-{serial:x}"), serial, now, ends)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { pem, key, ends })
    }

    /// The authority as objects name it.
    pub fn authority(&self) -> Authority {
        authority(self.pem.as_bytes())
    }

    /// The time at which what it signs is due.
    pub fn rotates_at(&self) -> Timestamp {
        self.ends.checked_sub(FRESH).unwrap_or(self.ends)
    }

    /// The Secret with a certificate for the Service that its name tells.
    pub fn secret(&self, object: &Value, now: Timestamp) -> Result<Value, CertificateError> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let hosts = hosts(text("name").strip_suffix("-cert").unwrap_or_default(), text("namespace"));
        let digest = Sha256::digest(self.pem.as_bytes());
        let serial = digest.iter().take(7).fold(1_u64, |serial, byte| serial << 8 | u64::from(*byte)) ^ hash(&hosts[0]);
        let mut params = params(&hosts[0], (serial >> 1) | (1 << 62), now, self.ends)?;
        params.subject_alt_names = CertificateParams::new(hosts.to_vec())?.subject_alt_names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_ca_cert_pem(&self.pem, &self.key)?;
        let certificate = params.signed_by(&key, &issuer)?;
        let mut secret = object.clone();
        secret["apiVersion"] = json!("v1");
        secret["kind"] = json!("Secret");
        secret["data"] = json!({
            "tls.crt": STANDARD.encode(certificate.pem()),
            "tls.key": STANDARD.encode(key.serialize_pem()),
            AUTHORITY: STANDARD.encode(&self.pem),
        });
        Ok(secret)
    }
}

/// A number for a name, so that certificates of one authority have serial numbers of their own.
fn hash(name: &str) -> u64 {
    Sha256::digest(name.as_bytes()).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The names of a Service.
fn hosts(service: &str, namespace: &str) -> [String; 3] {
    let name = format!("{service}.{namespace}");
    [name.clone(), format!("{name}.svc"), format!("{name}.svc.cluster.local")]
}

fn authority(pem: &[u8]) -> Authority {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]].map(char::from);
    let hash = Sha256::digest(pem).iter().flat_map(|byte| digits(*byte)).collect();
    Authority { bundle: STANDARD.encode(pem), hash }
}

fn params(name: &str, serial: u64, now: Timestamp, until: Timestamp) -> Result<CertificateParams, CertificateError> {
    let date = |at: Timestamp| {
        let seconds = u64::try_from(at.as_second()).map_err(|_| CertificateError::Time(at))?;
        Ok::<_, CertificateError>(rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds))
    };
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, ORGANIZATION);
    if name.len() <= COMMON_NAME {
        subject.push(DnType::CommonName, name);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.not_before = date(now.checked_sub(BACK).map_err(|_| CertificateError::Time(now))?)?;
    params.not_after = date(until)?;
    params.serial_number = Some(SerialNumber::from(serial));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Reads a Secret; `None` if it holds no certificate and authority. A certificate that does not fit is due.
pub(super) fn read(secret: &Value, service: &str, namespace: &str) -> Option<Serving> {
    let data = |key: &str| STANDARD.decode(secret["data"][key].as_str()?).ok();
    let (authority_pem, certificate_pem) = (data(AUTHORITY)?, data("tls.crt")?);
    let first = |pem: &[u8]| Pem::iter_from_buffer(pem).next()?.ok();
    let (authority_der, certificate_der) = (first(&authority_pem)?, first(&certificate_pem)?);
    let (_, ca) = X509Certificate::from_der(&authority_der.contents).ok()?;
    let (_, own) = X509Certificate::from_der(&certificate_der.contents).ok()?;
    let names: Vec<String> = match own.subject_alternative_name() {
        Ok(Some(extension)) => {
            let names = extension.value.general_names.iter();
            names.filter_map(|name| if let GeneralName::DNSName(name) = name { Some((*name).to_owned()) } else { None }).collect()
        }
        _ => Vec::new(),
    };
    let fits = own.issuer() == ca.subject()
        && own.verify_signature(Some(ca.public_key())).is_ok()
        && hosts(service, namespace).iter().all(|host| names.contains(host));
    let end = own.validity().not_after.timestamp().min(ca.validity().not_after.timestamp());
    let ends = Timestamp::from_second(end).ok()?;
    Some(Serving {
        authority: authority(&authority_pem),
        told_hash: secret["metadata"]["annotations"][CA_HASH].as_str().unwrap_or_default().to_owned(),
        is_due: !fits,
        rotates_at: ends.checked_sub(FRESH).unwrap_or(ends),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM0-WEBHOOK-05: what is made reads back, fits its Service alone, and is due a day before its end.
    #[test]
    fn certificates() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let signer = Signer::create(now, 7).unwrap();
        let object = json!({"metadata": {"name": "a-service-cert", "namespace": "home",
            "annotations": {CA_HASH: signer.authority().hash}}, "type": "kubernetes.io/tls"});
        let secret = signer.secret(&object, now).unwrap();
        let serving = read(&secret, "a-service", "home").unwrap();
        assert_eq!((&serving.authority, &serving.told_hash), (&signer.authority(), &signer.authority().hash));
        assert_eq!((serving.is_due, serving.rotates_at.to_string()), (false, "2028-02-28T12:00:00Z".to_owned()));
        assert!(read(&secret, "b-service", "home").unwrap().is_due);
        let other = Signer::create(now, 8).unwrap().secret(&object, now).unwrap();
        let mut mixed = secret.clone();
        mixed["data"][AUTHORITY] = other["data"][AUTHORITY].clone();
        assert!(read(&mixed, "a-service", "home").unwrap().is_due, "another authority signed it");
        assert!(read(&json!({}), "a-service", "home").is_none());
    }
}
