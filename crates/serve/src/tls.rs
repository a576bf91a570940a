//! TLS settings: a serving certificate that can be replaced under open connections, and client certificates, verified or not.

mod authorities;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;

pub use authorities::Authorities;

/// The handling of client certificates.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// Not requested.
    Ignored,
    /// Requested but not required. An untrusted certificate is still accepted: the authenticator answers 401, which tells the client more than a
    /// broken handshake.
    Requested,
    /// Requested but not required. The handshake fails for a certificate that none of the authorities signed.
    Verified(Authorities),
}

/// The serving certificate and key. Clones share it, and a replacement applies from the next handshake on.
#[derive(Clone)]
pub struct Certificates(watch::Sender<Arc<CertifiedKey>>);

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Creates certificates from a PEM chain (leaf first) and its PEM key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        Ok(Self(watch::Sender::new(Arc::new(certified_key(chain, key)?))))
    }

    /// Creates certificates from files.
    pub fn from_files(chain: &Path, key: &Path) -> Result<Self, Error> {
        let (chain, key) = read_pair(chain, key)?;
        Self::from_pem(&chain, &key)
    }

    /// Replaces the chain and key. Open connections stay.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), Error> {
        self.0.send_replace(Arc::new(certified_key(chain, key)?));
        Ok(())
    }

    /// Returns the chain in use, leaf first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.0.borrow().cert.clone()
    }

    /// Reads the files every `interval` until cancelled, and uses the pair when it has changed. An unusable pair (half written, for example) is
    /// reported, and the old one stays. `on_read` is called after each read with its success.
    pub async fn follow_files(
        self,
        chain: std::path::PathBuf,
        key: std::path::PathBuf,
        interval: Duration,
        cancel: CancellationToken,
        on_read: impl Fn(bool),
    ) {
        let mut known = read_pair(&chain, &key).ok();
        let mut usable = true;
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match read_pair(&chain, &key) {
                Ok(pair) => {
                    if known.as_ref() != Some(&pair) {
                        let replaced = self.replace(&pair.0, &pair.1);
                        match &replaced {
                            Ok(()) => tracing::info!(file = %chain.display(), "serving certificate reloaded"),
                            Err(error) => tracing::warn!(file = %chain.display(), %error, "serving certificate not reloaded"),
                        }
                        usable = replaced.is_ok();
                        known = Some(pair);
                    }
                    on_read(usable);
                }
                Err(error) => {
                    tracing::warn!(%error, "serving certificate not reloaded");
                    on_read(false);
                }
            }
        }
    }
}

/// The TLS settings of one listener.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Creates settings with TLS 1.2 and 1.3, and HTTP/2 preferred over HTTP/1.1.
    pub fn new(certificates: &Certificates, clients: ClientCertificates) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(Error::Certificate)?;
        let resolver = Arc::new(Serving(certificates.0.subscribe()));
        let mut config = match clients {
            ClientCertificates::Ignored => builder.with_no_client_auth(),
            ClientCertificates::Requested => builder.with_client_cert_verifier(Arc::new(TakeAny { provider })),
            ClientCertificates::Verified(authorities) => builder.with_client_cert_verifier(authorities.verifier()),
        }
        .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    /// Returns the same settings without HTTP/2.
    pub(crate) fn without_http2(&self) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { config: Arc::new(config) }
    }
}

fn read_pair(chain: &Path, key: &Path) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let read = |path: &Path| std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source });
    Ok((read(chain)?, read(key)?))
}

fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, Error> {
    let chain = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Error::Pem { what: "certificate chain", detail: e.to_string() })?;
    if chain.is_empty() {
        return Err(Error::Pem { what: "certificate chain", detail: "it holds no certificate".to_owned() });
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| Error::Pem { what: "private key", detail: e.to_string() })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(Error::Certificate)
}

#[derive(Debug)]
struct Serving(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.borrow().clone())
    }
}

/// A verifier that requires only the proof of the client's key, and checks no issuer.
#[derive(Debug)]
struct TakeAny {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for TakeAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
