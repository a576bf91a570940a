//! Requests that a front proxy sends on: whoever shows the front proxy's certificate is believed what the `X-Remote-*` headers say
//! (KAPI-AGG-01). The names are those that `extension-apiserver-authentication` tells others.

use http::HeaderMap;
use jiff::Timestamp;
use mainstay_rbac::UserInfo;
use rustls::pki_types::CertificateDer;

use super::pki::PkiError;
use super::x509::ClientAuthority;
use crate::request::percent_decode;

/// The common name of the front proxy's certificate.
const ALLOWED: &str = "front-proxy-client";
const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA: &str = "x-remote-extra-";

/// Knows the front proxy by the CA of its certificate, and by its name.
#[derive(Debug, Clone)]
pub struct FrontProxy {
    authority: ClientAuthority,
    /// The names of its certificate; any name if empty.
    allowed: Vec<String>,
}

impl FrontProxy {
    /// With the PEM certificate of that CA, and our own name.
    pub fn new(ca: &str) -> Result<Self, PkiError> {
        Ok(Self { authority: ClientAuthority::from_pem(ca)?, allowed: vec![ALLOWED.to_owned()] })
    }

    /// The same with other names: what `requestheader-allowed-names` of another API server says. Without names, every certificate of the CA
    /// is the front proxy's.
    #[must_use]
    pub fn allowing(self, names: Vec<String>) -> Self {
        Self { allowed: names, ..self }
    }

    /// The user that the front proxy names; `None` where it names none or where this is not the front proxy.
    pub fn identify(&self, certificates: &[CertificateDer<'_>], headers: &HeaderMap, now: Timestamp) -> Option<UserInfo> {
        let name = text(headers.get(USER)?)?;
        if certificates.is_empty() || name.is_empty() {
            return None;
        }
        match self.authority.identify(certificates, now) {
            Ok(proxy) if self.allowed.is_empty() || self.allowed.contains(&proxy.name) => {}
            Ok(proxy) => {
                tracing::debug!(name = proxy.name, "the front proxy's CA signed for somebody else");
                return None;
            }
            Err(why) => {
                tracing::debug!(%why, "this is not the front proxy");
                return None;
            }
        }
        let groups = headers.get_all(GROUP).iter().filter_map(text).collect();
        let mut user = UserInfo { name, uid: headers.get(UID).and_then(text).unwrap_or_default(), groups, ..UserInfo::default() };
        for (header, value) in headers {
            if let (Some(key), Some(value)) = (header.as_str().strip_prefix(EXTRA), text(value)) {
                user.extra.entry(percent_decode(key).to_lowercase()).or_default().push(value);
            }
        }
        Some(user)
    }
}

fn text(value: &http::HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}
