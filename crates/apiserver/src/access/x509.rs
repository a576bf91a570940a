//! Identities from client certificates.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_rbac::UserInfo;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::known::Known;
use super::pki::PkiError;

/// Why a client certificate is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidClientCertificate(String);

/// The extra fact that names the credential of a request.
pub(super) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The CAs whose client certificates are identities.
#[derive(Debug, Clone)]
pub struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
    known: Arc<Known<Certified>>,
}

/// The user of a verified chain, and the seconds of the epoch between which it is valid.
#[derive(Debug, Clone)]
struct Certified {
    user: UserInfo,
    from: i64,
    until: i64,
}

impl ClientAuthority {
    /// From a bundle of PEM certificates.
    pub fn from_pem(bundle: &str) -> Result<Self, PkiError> {
        let unusable = |detail: String| PkiError::Key { what: "client CA", detail };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            let certificate = certificate.map_err(|e| unusable(e.to_string()))?;
            roots.add(certificate).map_err(|e| unusable(e.to_string()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { verifier: verifier.map_err(|e| unusable(e.to_string()))?, known: Arc::default() })
    }

    /// The user behind a chain (leaf first): common name and organizations of a certificate that a CA of ours signed for clients and
    /// that is valid now. The text says why it is refused.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<UserInfo, InvalidClientCertificate> {
        let known = self.known.or_verify(chain.iter().map(|certificate| &**certificate), || self.verify(chain, now))?;
        if (known.from..=known.until).contains(&now.as_second()) {
            Ok(known.user)
        } else {
            Err(InvalidClientCertificate("the certificate is not valid now".to_owned()))
        }
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<Certified, InvalidClientCertificate> {
        let Some((leaf, intermediates)) = chain.split_first() else {
            return Err(InvalidClientCertificate("no certificate was shown".to_owned()));
        };
        let seconds = u64::try_from(now.as_second()).map_err(|e| InvalidClientCertificate(e.to_string()))?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier.verify_client_cert(leaf, intermediates, at).map_err(|e| InvalidClientCertificate(e.to_string()))?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|e| InvalidClientCertificate(e.to_string()))?;
        // The last common name wins where there are several, as in Go's parser.
        let name = parsed.subject().iter_common_name().last().and_then(|n| n.as_str().ok()).unwrap_or_default();
        if name.is_empty() {
            return Err(InvalidClientCertificate("the certificate has no common name".to_owned()));
        }
        let mut user = UserInfo { name: name.to_owned(), ..UserInfo::default() };
        user.groups = parsed.subject().iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, leaf);
        let hex: String = digest.as_ref().iter().flat_map(|b| [b >> 4, b & 15]).filter_map(|n| char::from_digit(n.into(), 16)).collect();
        user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")]);
        let (mut from, mut until) = (i64::MIN, i64::MAX);
        for certificate in chain {
            let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| InvalidClientCertificate(e.to_string()))?;
            from = from.max(parsed.validity().not_before.timestamp());
            until = until.min(parsed.validity().not_after.timestamp());
        }
        Ok(Certified { user, from, until })
    }
}
