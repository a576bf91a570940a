//! Verification of the other end as Go's `crypto/tls` does it, with its words.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::target::Trust;

/// Why there are no TLS settings for a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

/// A client certificate and its key, both PEM: how the server shows who it is.
#[derive(Clone)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// TLS settings for one kind of target; the text says why there are none.
pub fn settings(trust: &Trust, identity: Option<&Identity>, protocols: &[&[u8]]) -> Result<Arc<rustls::ClientConfig>, InvalidSettings> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(trust, &provider)?);
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| InvalidSettings(e.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|e| InvalidSettings(e.to_string()))?;
            builder
                .with_client_auth_cert(chain.map_err(|e| InvalidSettings(e.to_string()))?, key)
                .map_err(|e| InvalidSettings(e.to_string()))?
        }
    };
    config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Checks a server's certificate against a bundle. Like Go, and unlike webpki alone, it takes a certificate that stands in the
/// bundle itself: self-signed certificates of webhooks under development are both authority and leaf.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    chains: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<CertificateDer<'static>>,
    anyone: bool,
}

impl Verifier {
    fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self, InvalidSettings> {
        let (roots, listed) = match trust {
            Trust::Any => (None, Vec::new()),
            Trust::System => (Some(system_roots()), Vec::new()),
            Trust::Bundle(pem) => {
                let listed: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
                if listed.is_empty() {
                    return Err(InvalidSettings("unable to load root certificates: unable to parse bytes as PEM block".to_owned()));
                }
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(listed.iter().cloned());
                (Some(Arc::new(roots)), listed)
            }
        };
        let chains = match roots {
            Some(roots) if !roots.is_empty() => Some(
                WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                    .build()
                    .map_err(|error| InvalidSettings(error.to_string()))?,
            ),
            _ => None,
        };
        Ok(Self { provider: provider.clone(), chains, listed, anyone: *trust == Trust::Any })
    }

    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.listed.contains(leaf) {
            in_time(leaf, now)?;
            return verify_server_name(&ParsedCertificate::try_from(leaf)?, name);
        }
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        self.chains.as_ref().ok_or(unknown)?.verify_server_cert(leaf, intermediates, name, &[], now).map(|_| ())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.anyone {
            return Ok(ServerCertVerified::assertion());
        }
        self.check(leaf, intermediates, name, now).map(|()| ServerCertVerified::assertion()).map_err(|error| match error {
            rustls::Error::InvalidCertificate(why) => {
                let words = Words(format!("tls: failed to verify certificate: x509: {}", certificate_words(&why, leaf, name)));
                rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(words))))
            }
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The authorities of this machine, read once.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    };
    ROOTS.get_or_init(read).clone()
}

fn in_time(leaf: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let bad = |why| rustls::Error::InvalidCertificate(why);
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| bad(CertificateError::BadEncoding))?;
    let at = |time: i64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(u64::try_from(time).unwrap_or_default()));
    let (not_before, not_after) = (at(parsed.validity().not_before.timestamp()), at(parsed.validity().not_after.timestamp()));
    if now < not_before {
        return Err(bad(CertificateError::NotValidYetContext { time: now, not_before }));
    }
    if now > not_after {
        return Err(bad(CertificateError::ExpiredContext { time: now, not_after }));
    }
    Ok(())
}

/// Go's words, carried through rustls.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Words(String);

fn certificate_words(why: &CertificateError, leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> String {
    let time = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
    };
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "certificate signed by unknown authority".to_owned(),
        CertificateError::ExpiredContext { time: now, not_after } => {
            format!("certificate has expired or is not yet valid: current time {} is after {}", time(now), time(not_after))
        }
        CertificateError::Expired | CertificateError::NotValidYet => "certificate has expired or is not yet valid".to_owned(),
        CertificateError::NotValidYetContext { time: now, not_before } => {
            format!("certificate has expired or is not yet valid: current time {} is before {}", time(now), time(not_before))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => wrong_name(leaf, name),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        CertificateError::BadEncoding => "malformed certificate".to_owned(),
        other => other.to_string(),
    }
}

fn wrong_name(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> String {
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    let mut common_name = false;
    if let Ok((_, parsed)) = X509Certificate::from_der(leaf) {
        common_name = parsed.subject().iter_common_name().next().and_then(|one| one.as_str().ok()).is_some_and(|one| one.contains('.'));
        let alternatives = parsed.subject_alternative_name().ok().flatten();
        for one in alternatives.iter().flat_map(|alternatives| &alternatives.value.general_names) {
            match one {
                GeneralName::DNSName(name) => names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(ip(bytes)),
                _ => {}
            }
        }
    }
    match name {
        ServerName::IpAddress(wanted) => {
            let wanted = std::net::IpAddr::from(*wanted);
            if addresses.is_empty() {
                return format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs");
            }
            format!("certificate is valid for {}, not {wanted}", addresses.join(", "))
        }
        wanted => {
            let wanted = wanted.to_str();
            if names.is_empty() && addresses.is_empty() && common_name {
                return "certificate relies on legacy Common Name field, use SANs instead".to_owned();
            }
            if names.is_empty() {
                return format!("certificate is not valid for any names, but wanted to match {wanted}");
            }
            format!("certificate is valid for {}, not {wanted}", names.join(", "))
        }
    }
}

fn ip(bytes: &[u8]) -> Option<String> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
        _ => None,
    }
}

/// Go's words for a handshake that failed.
pub fn handshake_words(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(words))) => words.to_string(),
        Some(rustls::Error::InvalidCertificate(why)) => format!("tls: failed to verify certificate: x509: {why}"),
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {}", alert_words(*alert)),
        Some(rustls::Error::InvalidMessage(_)) => "tls: first record does not look like a TLS handshake".to_owned(),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None if error.kind() == std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
        None => error.to_string(),
    }
}

fn alert_words(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::BadCertificate => "bad certificate".to_owned(),
        AlertDescription::UnknownCA => "unknown certificate authority".to_owned(),
        AlertDescription::CertificateRequired => "certificate required".to_owned(),
        AlertDescription::HandshakeFailure => "handshake failure".to_owned(),
        AlertDescription::ProtocolVersion => "protocol version not supported".to_owned(),
        AlertDescription::InternalError => "internal error".to_owned(),
        AlertDescription::UnrecognisedName => "unrecognized name".to_owned(),
        AlertDescription::AccessDenied => "access denied".to_owned(),
        AlertDescription::NoApplicationProtocol => "no application protocol".to_owned(),
        other => format!("{other:?}"),
    }
}
