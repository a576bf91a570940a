//! The listener of the package server, with a certificate that its APIService trusts.

use std::net::SocketAddr;

use mainstay_serve::{Certificates, ClientCertificates, Server, Tls};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::Error;
use crate::register::{NAMESPACE, SERVICE};

/// A bound listener, not yet serving.
pub struct Listener {
    server: Server,
    ca: Option<String>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Listener").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Listener {
    /// Binds an address with a certificate of its own; port 0 picks a free one. The CA lives as long as the process: nothing but the APIService
    /// trusts it, which is told of it at each start. So there must be one such process.
    ///
    /// # Errors
    /// The address is taken, or the certificate cannot be made.
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let (ca, chain, key) = certificate()?;
        let certificates = Certificates::from_pem(chain.as_bytes(), key.as_bytes())?;
        Self::with_certificates(address, &certificates, Some(ca)).await
    }

    /// Binds an address with certificates that others keep, for the names of the Service. `ca` is what the APIService is to trust, PEM; without
    /// it the `caBundle` is left to others.
    ///
    /// # Errors
    /// The address is taken.
    pub async fn with_certificates(address: SocketAddr, certificates: &Certificates, ca: Option<String>) -> Result<Self, Error> {
        let tls = Tls::new(certificates, ClientCertificates::Requested)?;
        Ok(Self { server: Server::bind(address).await?.tls(tls), ca })
    }

    /// Returns the bound address, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the server and the CA of its certificate, PEM.
    pub(crate) fn into_parts(self) -> (Server, Option<String>) {
        (self.server, self.ca)
    }
}

/// The CA's certificate, and the serving certificate with its key, all PEM.
fn certificate() -> Result<(String, String, String), rcgen::Error> {
    let mut of_ca = CertificateParams::new(Vec::new())?;
    of_ca.distinguished_name.push(DnType::CommonName, "package-server-ca");
    of_ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    of_ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_key = KeyPair::generate()?;
    let ca = of_ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(of_ca, ca_key);
    let service = format!("{SERVICE}.{NAMESPACE}.svc");
    let names = vec![service.clone(), format!("{service}.cluster.local"), SERVICE.to_owned(), "localhost".to_owned()];
    let mut of_server = CertificateParams::new(names)?;
    of_server.distinguished_name.push(DnType::CommonName, service);
    of_server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let chain = of_server.signed_by(&key, &issuer)?.pem();
    Ok((ca, chain, key.serialize_pem()))
}
