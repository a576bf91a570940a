//! Certificates of sigstore signatures: issued by Fulcio after a login, or by an authority of one's own.

use rustls_pki_types::{CertificateDer, DnsName, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

use super::Rejection;
use super::keys::PublicKey;

/// Signing of code, the one purpose that counts (1.3.6.1.5.5.7.3.3).
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];
/// Extension with the identity provider of the subject in Fulcio's certificates: plain bytes in the older form, a UTF8String in the newer one.
const ISSUER_V1: &str = "1.3.6.1.4.1.57264.1.1";
const ISSUER_V2: &str = "1.3.6.1.4.1.57264.1.8";
const MAX_CERTIFICATES: usize = 64;

/// The required subject of a certificate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Subject<'a> {
    pub email: Option<&'a str>,
    pub hostname: Option<&'a str>,
    /// The identity provider of the subject, in Fulcio's certificates.
    pub issuer: Option<&'a str>,
}

/// The certificates of a PEM text, at least one.
pub(super) fn read_all(what: &str, text: &[u8]) -> Result<Vec<Vec<u8>>, Rejection> {
    let found = read(text).map_err(|problem| Rejection(format!("error loading {what}: {problem}")))?;
    if found.is_empty() { Err(Rejection(format!("error loading {what}: there is no certificate"))) } else { Ok(found) }
}

/// The one certificate that comes with a signature.
pub(super) fn read_leaf(text: &str) -> Result<Vec<u8>, Rejection> {
    let mut found = read(text.as_bytes()).map_err(|problem| Rejection(format!("parsing leaf certificate: {problem}")))?;
    match (found.pop(), found.is_empty()) {
        (Some(leaf), true) => Ok(leaf),
        (None, _) => Err(Rejection("no certificate found in signature certificate data".to_owned())),
        (Some(_), false) => Err(Rejection("unexpected multiple certificates present in signature certificate data".to_owned())),
    }
}

/// The intermediate certificates that come with a signature, without the last one: that would be the root, which a signature cannot bring along.
pub(super) fn untrusted_chain(text: Option<&str>) -> Result<Vec<Vec<u8>>, Rejection> {
    let mut found =
        read(text.unwrap_or_default().as_bytes()).map_err(|problem| Rejection(format!("loading certificate chain: {problem}")))?;
    found.pop();
    Ok(found)
}

fn read(text: &[u8]) -> Result<Vec<Vec<u8>>, Rejection> {
    let mut found = Vec::new();
    for block in Pem::iter_from_buffer(text) {
        let block = block.map_err(|error| Rejection(error.to_string()))?;
        if block.label != "CERTIFICATE" {
            return Err(Rejection(format!("PEM block {} is no certificate", block.label)));
        }
        if found.len() == MAX_CERTIFICATES {
            return Err(Rejection(format!("more than {MAX_CERTIFICATES} certificates")));
        }
        found.push(block.contents);
    }
    Ok(found)
}

/// Checks that an authority issued the certificate, and that it is for the subject; returns its key. `time` is in seconds since 1970.
pub(super) fn verify(
    leaf: &[u8],
    between: &[Vec<u8>],
    authorities: &[Vec<u8>],
    subject: &Subject<'_>,
    time: u64,
) -> Result<PublicKey, Rejection> {
    let authorities = valid_at(authorities, time)?;
    let anchors: Vec<TrustAnchor<'_>> = authorities
        .iter()
        .map(|authority| anchor_from_trusted_cert(authority).map_err(|error| Rejection(format!("an authority cannot be used: {error}"))))
        .collect::<Result<_, _>>()?;
    let between: Vec<CertificateDer<'_>> = between.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let der = CertificateDer::from(leaf);
    let refuse = |error: webpki::Error| Rejection(format!("verifying leaf certificate failed: {error}"));
    let end = EndEntityCert::try_from(&der).map_err(refuse)?;
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(time));
    let usage = KeyUsage::required_if_present(CODE_SIGNING);
    end.verify_for_usage(algorithms, &anchors, &between, time, usage, None, None).map_err(refuse)?;

    let (_, facts) = X509Certificate::from_der(leaf).map_err(|error| Rejection(format!("parsing leaf certificate: {error}")))?;
    if let Some(wanted) = subject.issuer {
        let issuer = issuer(&facts)?;
        if issuer != wanted {
            return Err(Rejection(format!("Unexpected Fulcio OIDC issuer \"{issuer}\"")));
        }
    }
    if let Some(wanted) = subject.email {
        let found = emails(&facts);
        if !found.contains(&wanted) {
            return Err(Rejection(format!("Required email \"{wanted}\" not found (got {found:?})")));
        }
    }
    if let Some(wanted) = subject.hostname {
        let name = DnsName::try_from(wanted).map_err(|_| Rejection(format!("subjectHostname \"{wanted}\" is no host name")))?;
        end.verify_is_valid_for_subject_name(&ServerName::DnsName(name))
            .map_err(|error| Rejection(format!("Unexpected subject hostname: {error}")))?;
    }
    PublicKey::from_der(facts.public_key().raw)
}

/// Returns the authorities that are valid at the time: an expired authority is no anchor. webpki leaves this check to its caller.
fn valid_at(authorities: &[Vec<u8>], time: u64) -> Result<Vec<CertificateDer<'_>>, Rejection> {
    let time = i64::try_from(time)
        .ok()
        .and_then(|time| ASN1Time::from_timestamp(time).ok())
        .ok_or_else(|| Rejection("the time is none of a certificate".to_owned()))?;
    let mut valid = Vec::new();
    for der in authorities {
        let (_, facts) = X509Certificate::from_der(der).map_err(|error| Rejection(format!("an authority cannot be used: {error}")))?;
        if facts.validity().is_valid_at(time) {
            valid.push(CertificateDer::from(der.as_slice()));
        }
    }
    if valid.is_empty() {
        Err(Rejection("verifying leaf certificate failed: the authorities have expired or are not valid yet".to_owned()))
    } else {
        Ok(valid)
    }
}

fn emails<'a>(certificate: &'a X509Certificate<'_>) -> Vec<&'a str> {
    let names = certificate.extensions().iter().filter_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
        _ => None,
    });
    names
        .flatten()
        .filter_map(|name| match name {
            GeneralName::RFC822Name(email) => Some(*email),
            _ => None,
        })
        .collect()
}

/// Returns the identity provider of the subject; the two forms may not contradict each other.
fn issuer(certificate: &X509Certificate<'_>) -> Result<String, Rejection> {
    let mut found: Option<String> = None;
    for extension in certificate.extensions() {
        let oid = extension.oid.to_id_string();
        let value = if oid == ISSUER_V1 {
            String::from_utf8(extension.value.to_vec()).map_err(|_| Rejection("the OIDC issuer v1 extension is no text".to_owned()))?
        } else if oid == ISSUER_V2 {
            utf8_string(extension.value).ok_or_else(|| Rejection("invalid ASN.1 in OIDC issuer v2 extension".to_owned()))?
        } else {
            continue;
        };
        match &found {
            Some(other) if *other != value => {
                return Err(Rejection(format!("inconsistent OIDC issuer extension values: \"{other}\", \"{value}\"")));
            }
            _ => found = Some(value),
        }
    }
    found.ok_or_else(|| Rejection("Fulcio certificate is missing the issuer extension".to_owned()))
}

/// Reads a DER value of type UTF8String with nothing after it.
fn utf8_string(der: &[u8]) -> Option<String> {
    let (rest, text) = x509_parser::der_parser::der::parse_der_utf8string(der).ok()?;
    rest.is_empty().then(|| text.as_str().ok().map(str::to_owned))?
}
