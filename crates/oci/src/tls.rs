//! How registries' certificates are trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

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
    roots.add_parsable_certificates(native.certs);
    for (name, pem) in authorities {
        let refuse = |problem: String| Error::Configuration { subject: name.clone(), problem };
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| refuse(format!("no PEM certificate: {error}")))?;
            roots.add(certificate).map_err(|error| refuse(format!("no certificate authority: {error}")))?;
        }
    }
    show(builder()?.with_root_certificates(roots), identity)
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
