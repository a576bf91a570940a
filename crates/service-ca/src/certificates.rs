//! Certificates: the CA, the certificates that it signs, and the parser of both. Times are parameters; only keys and serial numbers are random.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SerialNumber,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::Error;

/// Why a text holds no certificates that could be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCertificates(String);

/// The most certificates of a bundle or chain; a text with more is not read.
pub const MOST: usize = 16;
/// The time by which the validity of certificates is backdated, because clocks differ.
const BACK: SignedDuration = SignedDuration::from_hours(1);
/// The longest common name (RFC 5280, ub-common-name).
const COMMON_NAME: usize = 64;

/// A certificate as DER, with its parsed fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    /// The common name of its subject; may be empty.
    pub common_name: String,
    /// The start of its validity.
    pub from: Timestamp,
    /// The end of its validity.
    pub until: Timestamp,
    /// Its DNS names.
    pub names: BTreeSet<String>,
    public_key: Vec<u8>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Certificate").field("common_name", &self.common_name).field("until", &self.until).finish_non_exhaustive()
    }
}

/// A certificate and its private key.
pub struct Issued {
    /// The certificate.
    pub certificate: Certificate,
    /// Its private key, as PEM.
    pub key: String,
}

/// The CA that signs, and the certificates that are trusted besides it.
#[derive(Clone)]
pub struct Authority {
    /// Its certificate.
    pub certificate: Certificate,
    key: String,
    /// Its certificate as signed by the previous CA, for clients that trust only that one.
    pub intermediate: Option<Certificate>,
    /// The trusted certificates, the CA itself first.
    pub bundle: Vec<Certificate>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").field("certificate", &self.certificate).field("bundle", &self.bundle).finish_non_exhaustive()
    }
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate && self.intermediate == other.intermediate && self.bundle == other.bundle
    }
}

impl Certificate {
    /// Reads all certificates of a PEM text. More than [`MOST`] are an error.
    pub fn read_all(pem: &[u8]) -> Result<Vec<Self>, InvalidCertificates> {
        let mut all = Vec::new();
        for each in Pem::iter_from_buffer(pem) {
            let each = each.map_err(|error| InvalidCertificates(format!("it is no PEM: {error}")))?;
            if each.label != "CERTIFICATE" {
                return Err(InvalidCertificates(format!("it holds a {}", each.label)));
            }
            if all.len() == MOST {
                return Err(InvalidCertificates(format!("it holds more than {MOST} certificates")));
            }
            all.push(Self::from_der(each.contents)?);
        }
        Ok(all)
    }

    fn from_der(der: Vec<u8>) -> Result<Self, InvalidCertificates> {
        let (rest, parsed) =
            X509Certificate::from_der(&der).map_err(|error| InvalidCertificates(format!("a certificate cannot be read: {error}")))?;
        if !rest.is_empty() {
            return Err(InvalidCertificates("a certificate is followed by something else".to_owned()));
        }
        let time = |seconds| Timestamp::from_second(seconds).map_err(|error| InvalidCertificates(error.to_string()));
        let common_name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned();
        let (from, until) = (time(parsed.validity().not_before.timestamp())?, time(parsed.validity().not_after.timestamp())?);
        let names = match parsed.subject_alternative_name() {
            Ok(Some(extension)) => extension.value.general_names.iter().filter_map(dns_name).collect(),
            Ok(None) => BTreeSet::new(),
            Err(error) => return Err(InvalidCertificates(format!("the names of a certificate cannot be read: {error}"))),
        };
        let public_key = parsed.public_key().subject_public_key.data.to_vec();
        Ok(Self { der, common_name, from, until, names, public_key })
    }

    /// Returns the certificate as PEM.
    pub fn pem(&self) -> String {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(&self.der);
        let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            // Base64 is ASCII, so every byte is a boundary.
            let (line, after) = rest.split_at(rest.len().min(64));
            pem.push_str(line);
            pem.push('\n');
            rest = after;
        }
        pem + "-----END CERTIFICATE-----\n"
    }

    /// Returns true if `issuer` signed this certificate.
    pub fn is_signed_by(&self, issuer: &Self) -> bool {
        let (Ok((_, own)), Ok((_, issuer))) = (X509Certificate::from_der(&self.der), X509Certificate::from_der(&issuer.der)) else {
            return false;
        };
        own.issuer() == issuer.subject() && own.verify_signature(Some(issuer.public_key())).is_ok()
    }

    /// Returns true if this PEM text is the private key of this certificate.
    pub fn has_key(&self, key: &str) -> bool {
        KeyPair::from_pem(key).is_ok_and(|pair| pair.public_key_raw() == self.public_key)
    }

    /// Returns true if this is the certificate of a CA.
    fn is_ca(&self) -> bool {
        let parsed = X509Certificate::from_der(&self.der);
        parsed.is_ok_and(|(_, parsed)| parsed.is_ca())
    }
}

fn dns_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Returns certificates as PEM, one after the other.
pub fn pem(certificates: &[Certificate]) -> String {
    certificates.iter().map(Certificate::pem).collect()
}

impl Authority {
    /// Makes a new CA that has no predecessor.
    pub fn create(now: Timestamp, until: Timestamp) -> Result<Self, Error> {
        let subject = name(now);
        let key = key(&subject)?;
        let params = ca_params(&subject, now, until)?;
        let certificate = params.self_signed(&key).map_err(making(&subject))?;
        let certificate = own(&subject, certificate.der().to_vec())?;
        Ok(Self { bundle: vec![certificate.clone()], certificate, key: key.serialize_pem(), intermediate: None })
    }

    /// Makes the CA that follows this one. Trust goes both ways until this one ends: the bundle holds the new CA, the new one as signed by
    /// this one, this one as signed by the new one, and the certificates that were trusted before and are still valid.
    pub fn rotate(&self, now: Timestamp, until: Timestamp) -> Result<Self, Error> {
        let mut new = Self::create(now, until)?;
        let subject = new.certificate.common_name.clone();
        let (new_key, old_key) = (read_key(&new.key)?, read_key(&self.key)?);
        let ends = self.certificate.until.min(until);
        let cross = |subject: &str, key: &KeyPair, signer: &Self, signing: &KeyPair| {
            let issuer = Issuer::from_ca_cert_pem(&signer.certificate.pem(), signing).map_err(making(subject))?;
            let signed = ca_params(subject, now, ends)?.signed_by(key, &issuer).map_err(making(subject))?;
            own(subject, signed.der().to_vec())
        };
        let new_by_old = cross(&subject, &new_key, self, &old_key)?;
        let old_by_new = cross(&self.certificate.common_name, &old_key, &new, &new_key)?;
        new.bundle.extend([new_by_old.clone(), old_by_new]);
        new.bundle.extend(self.bundle.iter().filter(|each| each.until > now).cloned());
        new.bundle.truncate(MOST);
        new.intermediate = Some(new_by_old);
        Ok(new)
    }

    /// Reads a CA from its stored parts.
    pub fn read(certificate: &[u8], key: &str, intermediate: Option<&[u8]>, bundle: Option<&[u8]>) -> Result<Self, Error> {
        let broken = |problem: String| Error::Authority { problem };
        let unreadable = |error: InvalidCertificates| broken(error.to_string());
        let one = |pem: &[u8]| match Certificate::read_all(pem).map_err(unreadable)?.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(broken(format!("one certificate is expected where there are {}", other.len()))),
        };
        let certificate = one(certificate)?;
        if !certificate.is_ca() {
            return Err(broken("its certificate is no CA's".to_owned()));
        }
        if !certificate.has_key(key) {
            return Err(broken("key and certificate do not belong together".to_owned()));
        }
        let intermediate = intermediate.map(one).transpose()?;
        let mut bundle = bundle.map(Certificate::read_all).transpose().map_err(unreadable)?.unwrap_or_default();
        if !bundle.contains(&certificate) {
            bundle.insert(0, certificate.clone());
            bundle.truncate(MOST);
        }
        Ok(Self { certificate, key: key.to_owned(), intermediate, bundle })
    }

    /// Returns the same CA without expired certificates; `None` if none has expired.
    #[must_use]
    pub fn without_ended(&self, now: Timestamp) -> Option<Self> {
        let lives = |each: &Certificate| each.until > now;
        let next = Self {
            intermediate: self.intermediate.clone().filter(lives),
            bundle: self.bundle.iter().filter(|each| lives(each) || **each == self.certificate).cloned().collect(),
            ..self.clone()
        };
        (next != *self).then_some(next)
    }

    /// Returns the private key, as PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the certificates that follow a certificate signed by this CA.
    pub fn chain(&self) -> Vec<Certificate> {
        std::iter::once(self.certificate.clone()).chain(self.intermediate.clone()).collect()
    }

    /// Returns the trusted certificates as PEM.
    pub fn bundle_pem(&self) -> String {
        pem(&self.bundle)
    }

    /// Issues a serving certificate for these names, with a key of its own.
    pub fn issue(&self, names: &BTreeSet<String>, common_name: &str, now: Timestamp, until: Timestamp) -> Result<Issued, Error> {
        let signing = read_key(&self.key)?;
        let issuer = Issuer::from_ca_cert_pem(&self.certificate.pem(), &signing).map_err(making(common_name))?;
        let key = key(common_name)?;
        let named = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>()).map_err(making(common_name))?;
        let mut params = params(common_name, now, until)?;
        params.subject_alt_names = named.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer).map_err(making(common_name))?;
        Ok(Issued { certificate: own(common_name, certificate.der().to_vec())?, key: key.serialize_pem() })
    }
}

/// Returns the name of a CA, unique by the second in which it is made.
fn name(now: Timestamp) -> String {
    format!("openshift-service-serving-signer@{}", now.as_second())
}

fn making(subject: &str) -> impl Fn(rcgen::Error) -> Error {
    move |source| Error::Make { subject: subject.to_owned(), source }
}

fn key(subject: &str) -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(making(subject))
}

fn read_key(pem: &str) -> Result<KeyPair, Error> {
    KeyPair::from_pem(pem).map_err(|error| Error::Authority { problem: error.to_string() })
}

/// Parses a certificate that was just made.
fn own(subject: &str, der: Vec<u8>) -> Result<Certificate, Error> {
    Certificate::from_der(der).map_err(|problem| Error::Authority { problem: format!("{subject}: {problem}") })
}

fn ca_params(subject: &str, now: Timestamp, until: Timestamp) -> Result<CertificateParams, Error> {
    let mut params = params(subject, now, until)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn params(subject: &str, now: Timestamp, until: Timestamp) -> Result<CertificateParams, Error> {
    let mut name = DistinguishedName::new();
    if subject.len() <= COMMON_NAME {
        name.push(DnType::CommonName, subject);
    }
    let far = || Error::Time { subject: subject.to_owned() };
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let date = |at: Timestamp| {
        let seconds = u64::try_from(at.as_second()).map_err(|_| far())?;
        // Years have four digits in certificates and in timestamps.
        Ok::<_, Error>(epoch + std::time::Duration::from_secs(seconds))
    };
    let mut serial = uuid::Uuid::new_v4().into_bytes();
    // The first byte is positive and not zero, so that the encoding is never shortened.
    serial[0] = serial[0] & 0x7f | 0x40;
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = date(now.checked_sub(BACK).map_err(|_| far())?)?;
    params.not_after = date(until)?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
