//! Trust in registries' certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};

use crate::error::Error;

/// A client certificate with its key, as PEM.
pub(crate) struct Identity {
    /// The name to use in errors.
    pub name: String,
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
}

/// Trusts the system's authorities and the given ones (PEM bundles with the name to use in errors).
pub(crate) fn verified(authorities: &[(String, Vec<u8>)], identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let native = rustls_native_certs::load_native_certs();
    for problem in &native.errors {
        tracing::debug!(%problem, "a certificate authority of the system cannot be read");
    }
    let mut listed = native.certs;
    for (name, pem) in authorities {
        let refuse = |problem: String| Error::Configuration { subject: name.clone(), problem };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| refuse(format!("no PEM certificate: {error}")))?;
            X509Certificate::from_der(&certificate).map_err(|error| refuse(format!("no certificate: {error}")))?;
            listed.push(certificate);
        }
    }
    let verifier = Arc::new(Trusted::new(provider(), listed));
    show(builder()?.dangerous().with_custom_certificate_verifier(verifier), identity)
}

/// Accepts any certificate; only for registries that are configured as insecure.
pub(crate) fn unverified(identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(AnyCertificate(provider()));
    show(builder()?.dangerous().with_custom_certificate_verifier(verifier), identity)
}

/// Adds the client's certificate, if there is one.
fn show(
    builder: rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>,
    identity: Option<Identity>,
) -> Result<ClientConfig, Error> {
    let Some(identity) = identity else { return Ok(builder.with_no_client_auth()) };
    let refuse = |problem: String| Error::Configuration { subject: identity.name.clone(), problem };
    let certificates = CertificateDer::pem_slice_iter(&identity.certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(format!("no PEM certificate: {error}")))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| refuse(format!("its key cannot be read: {error}")))?;
    builder.with_client_auth_cert(certificates, key).map_err(|error| refuse(format!("no client certificate: {error}")))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Error> {
    let refuse = |error: rustls::Error| Error::Configuration { subject: "TLS".to_owned(), problem: error.to_string() };
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(refuse)
}

/// Trust in certificates that the authorities signed, and in those listed among them, as in Go's `crypto/x509`. The certificate that
/// `openssl req -x509` makes for a registry is both authority and leaf, or says that it is no authority at all, and container tools accept it when
/// it lies in `certs.d`. webpki alone refuses the former, and lets certificates that are no authority, or no longer one, sign for others.
#[derive(Debug)]
struct Trusted {
    provider: Arc<CryptoProvider>,
    /// All of them, whatever they may sign.
    listed: Vec<CertificateDer<'static>>,
    /// Those that may sign for servers, with the time in which they may.
    authorities: Vec<(CertificateDer<'static>, std::ops::RangeInclusive<i64>)>,
    /// Verifier with all authorities, to be used while each of them is valid; and the time in which that holds.
    chains: Option<Arc<WebPkiServerVerifier>>,
    all_valid: std::ops::RangeInclusive<i64>,
}

impl Trusted {
    fn new(provider: Arc<CryptoProvider>, listed: Vec<CertificateDer<'static>>) -> Self {
        let mut authorities = Vec::new();
        for certificate in &listed {
            let Ok((_, facts)) = X509Certificate::from_der(certificate) else { continue };
            if may_sign(&facts) {
                let validity = facts.validity();
                authorities.push((certificate.clone(), validity.not_before.timestamp()..=validity.not_after.timestamp()));
            }
        }
        let begin = authorities.iter().map(|(_, valid)| *valid.start()).max().unwrap_or(i64::MIN);
        let end = authorities.iter().map(|(_, valid)| *valid.end()).min().unwrap_or(i64::MAX);
        let chains = chains(authorities.iter().map(|(authority, _)| authority), &provider);
        Self { provider, listed, authorities, chains, all_valid: begin..=end }
    }

    /// Returns the authorities that are valid at a time.
    fn valid(&self, now: i64) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities.iter().filter(move |(_, valid)| valid.contains(&now)).map(|(authority, _)| authority)
    }

    /// Returns true if a valid authority signed the certificate itself.
    fn signed(&self, leaf: &X509Certificate<'_>, now: i64) -> bool {
        self.valid(now).any(|authority| {
            let Ok((_, facts)) = X509Certificate::from_der(authority) else { return false };
            let Ok(issuer) = webpki::EndEntityCert::try_from(authority) else { return false };
            let (signed, signature) = (leaf.tbs_certificate.as_ref(), &leaf.signature_value.data);
            let algorithms = self.provider.signature_verification_algorithms.all;
            facts.subject().as_raw() == leaf.issuer().as_raw()
                && algorithms.iter().any(|algorithm| issuer.verify_signature(*algorithm, signed, signature).is_ok())
        })
    }
}

/// Returns a verifier of certificates that these authorities signed; `None` if there are none: a machine without any authority trusts nothing.
fn chains<'a>(
    authorities: impl Iterator<Item = &'a CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.cloned());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()
}

/// Returns true if a certificate may sign those of servers: it says that it is an authority, and not for other purposes alone.
fn may_sign(facts: &X509Certificate<'_>) -> bool {
    let is_authority = match facts.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        // Versions before 3 have no such extension.
        Ok(None) => facts.version() != X509Version::V3,
        Err(_) => false,
    };
    let signs = facts.key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()));
    is_authority && signs && is_for_servers(facts)
}

fn is_for_servers(facts: &X509Certificate<'_>) -> bool {
    facts.extended_key_usage().is_ok_and(|usage| usage.is_none_or(|usage| usage.value.server_auth || usage.value.any))
}

/// Extensions that are checked, here or elsewhere. Any other that is marked as critical makes a certificate unusable.
const KNOWN: [&str; 9] =
    ["2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.30", "2.5.29.32", "2.5.29.35", "2.5.29.37", "1.3.6.1.5.5.7.1.1"];

/// Checks the time, purpose and name of a certificate that needs no chain.
fn check_alone(leaf: &CertificateDer<'_>, facts: &X509Certificate<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let bad = rustls::Error::InvalidCertificate;
    in_time(facts, now).map_err(bad)?;
    if !is_for_servers(facts) {
        return Err(bad(CertificateError::InvalidPurpose));
    }
    if facts.extensions().iter().any(|extension| extension.critical && !KNOWN.contains(&extension.oid.to_id_string().as_str())) {
        return Err(bad(CertificateError::UnhandledCriticalExtension));
    }
    verify_server_name(&ParsedCertificate::try_from(leaf)?, name)
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let bad = rustls::Error::InvalidCertificate;
        let (_, facts) = X509Certificate::from_der(leaf).map_err(|_| bad(CertificateError::BadEncoding))?;
        let time = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if self.listed.contains(leaf) || (facts.is_ca() && self.signed(&facts, time)) {
            check_alone(leaf, &facts, name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let some = if self.all_valid.contains(&time) { None } else { chains(self.valid(time), &self.provider) };
        let chains = if self.all_valid.contains(&time) { self.chains.as_ref() } else { some.as_ref() };
        match chains {
            Some(chains) if !facts.is_ca() => chains.verify_server_cert(leaf, intermediates, name, ocsp, now),
            _ => Err(bad(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn in_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let at = |time: i64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(time).unwrap_or_default()));
    let validity = certificate.validity();
    let (not_before, not_after) = (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    Ok(())
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// OLM1-GEN-06: certificates of servers by what is given as authority, as Go's `crypto/x509` takes them: name of the case, authority, leaf,
    /// verdict for `reg.example` on 2026-06-01. Asked of Go 1.26.
    #[test]
    fn the_same_certificates_as_in_go() {
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_780_272_000));
        let name = ServerName::try_from("reg.example").unwrap();
        for line in include_str!("../tests/data/server_certificates.tsv").lines() {
            let [case, root, leaf, verdict] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let read = |text: &str| CertificateDer::from(STANDARD.decode(text).unwrap());
            let verifier = Trusted::new(provider(), vec![read(root)]);
            let found = verifier.verify_server_cert(&read(leaf), &[], &name, &[], now);
            // rustls takes no wildcard for all names right below a top-level name, and nobody issues such.
            let expected = verdict == "yes" && case != "own: a wildcard";
            assert_eq!(found.is_ok(), expected, "{case}: {:?}", found.err());
        }
    }
}
