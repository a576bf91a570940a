//! Authorities that client certificates are checked against, which can be replaced under open connections.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The authorities. Clones share them, and a replacement applies from the next handshake on.
#[derive(Clone)]
pub struct Authorities(watch::Sender<Arc<dyn ClientCertVerifier>>);

impl std::fmt::Debug for Authorities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorities").finish_non_exhaustive()
    }
}

impl Authorities {
    /// Reads authorities from PEM certificates.
    pub fn from_pem(bundle: &[u8]) -> Result<Self, Error> {
        Ok(Self(watch::Sender::new(verifier(bundle)?)))
    }

    /// Reads authorities from a file.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        Self::from_pem(&read(path)?)
    }

    /// Reads the file every `interval` until cancelled, and uses its authorities when they have changed; an unusable file is reported, and the
    /// former authorities stay.
    pub async fn follow_file(self, path: PathBuf, interval: Duration, cancel: CancellationToken) {
        let mut known = read(&path).ok();
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let read = read(&path);
            if matches!((&read, &known), (Ok(bundle), Some(known)) if bundle == known) {
                continue;
            }
            match read.and_then(|bundle| verifier(&bundle).map(|verifier| (bundle, verifier))) {
                Ok((bundle, verifier)) => {
                    self.0.send_replace(verifier);
                    known = Some(bundle);
                    tracing::info!(file = %path.display(), "authorities of clients reloaded");
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "authorities of clients not reloaded"),
            }
        }
    }

    /// A verifier of client certificates: none is required, and one that is presented must be of these authorities.
    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Following(self.0.subscribe()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn verifier(bundle: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let unusable = |detail: String| Error::Pem { what: "bundle of authorities", detail };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(Error::Certificate)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()));
    verifier.allow_unauthenticated().build().map_err(|error| unusable(error.to_string()))
}

/// The verifier of the authorities that are in use.
#[derive(Debug)]
struct Following(watch::Receiver<Arc<dyn ClientCertVerifier>>);

impl Following {
    fn now(&self) -> Arc<dyn ClientCertVerifier> {
        self.0.borrow().clone()
    }
}

impl ClientCertVerifier for Following {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Names of authorities that are replaced would mislead a client that chooses by them.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.now().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.now().verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.now().verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.now().supported_verify_schemes()
    }
}
