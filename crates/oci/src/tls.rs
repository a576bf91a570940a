//! How registries' certificates are trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::error::Error;

/// A client certificate with its key, as PEM.
pub(crate) struct Identity {
    /// The name to use in errors.
    pub name: String,
    pub certificates: Vec<u8>,
    pub key: Vec<u8>,
}

/// The system's authorities and the given ones (PEM bundles with the name to use in errors).
pub(crate) fn verified(authorities: &[(String, Vec<u8>)], identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for problem in &native.errors {
        tracing::debug!(%problem, "a certificate authority of the system cannot be read");
    }
    let mut listed = native.certs.clone();
    roots.add_parsable_certificates(native.certs);
    for (name, pem) in authorities {
        let refuse = |problem: String| Error::Configuration { subject: name.clone(), problem };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| refuse(format!("no PEM certificate: {error}")))?;
            roots.add(certificate.clone()).map_err(|error| refuse(format!("no certificate authority: {error}")))?;
            listed.push(certificate);
        }
    }
    // A machine without any authority trusts nobody, which is an answer too.
    let refuse = |problem: String| Error::Configuration { subject: "certificate authorities".to_owned(), problem };
    let build = |roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    let chains = (!roots.is_empty()).then(|| build(roots)).transpose().map_err(|error| refuse(error.to_string()))?;
    let verifier = Arc::new(Trusted { provider: provider(), chains, listed });
    show(builder()?.dangerous().with_custom_certificate_verifier(verifier), identity)
}

/// Any certificate counts; only for registries that are configured as insecure.
pub(crate) fn unverified(identity: Option<Identity>) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(AnyCertificate(provider()));
    show(builder()?.dangerous().with_custom_certificate_verifier(verifier), identity)
}

/// How the client shows who it is.
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

/// What the authorities signed, and what is listed among them itself: `openssl req -x509` marks the certificate that it makes for a
/// registry as one of an authority, and container tools take it when it lies in `certs.d`. webpki alone refuses such a leaf.
#[derive(Debug)]
struct Trusted {
    provider: Arc<CryptoProvider>,
    chains: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
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
        if self.listed.contains(leaf) {
            in_time(&facts, now).map_err(bad)?;
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.chains {
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
