//! The gate in front of every request: authentication, impersonation and authorization in one place.

use std::sync::Arc;

use http::request::Parts;
use jiff::Timestamp;
use mainstay_rbac::{Decision, UserInfo};
use mainstay_serve::Connection;

use super::authn::{Authenticator, Credentials};
use super::authz::{attributes, require};
use super::impersonate::impersonate;
use super::jws::SigningKey;
use super::live::CachedObjects;
use super::pki::PkiError;
use super::policy::Policy;
use super::tokens::Tokens;
use super::x509::ClientAuthority;
use crate::cache::Cache;
use crate::error::Result;
use crate::request::{RequestInfo, TrustedIdentity};

/// An [`Authenticator`] and a [`Policy`] as the request pipeline uses them.
#[derive(Debug)]
pub struct Gate {
    /// Authentication.
    pub authenticator: Authenticator,
    /// The policy that decides.
    pub policy: Arc<Policy>,
}

impl Gate {
    /// A gate over the watch cache: certificates of this CA, tokens of this key and of this issuer, or of the usual one. The policy begins with what the cache shows;
    /// [`Policy::observe`] keeps it so.
    pub fn over(cache: &Arc<Cache>, client_ca: &str, signing_key: SigningKey, issuer: Option<String>) -> Result<Self, PkiError> {
        let policy = Arc::new(Policy::default());
        policy.fill(cache);
        let objects = Arc::new(CachedObjects(cache.clone()));
        let tokens = Tokens::new(signing_key);
        let tokens = match issuer {
            Some(issuer) => tokens.issued_by(issuer),
            None => tokens,
        };
        let authenticator = Authenticator::new(ClientAuthority::from_pem(client_ca)?, Arc::new(tokens), objects);
        Ok(Self { authenticator, policy })
    }
}

impl Gate {
    /// The user who sends a request; 401 for bad credentials. Impersonation is applied here, too.
    pub fn identify(&self, parts: &Parts) -> Result<Arc<UserInfo>> {
        let requestor = if let Some(identity) = parts.extensions.get::<TrustedIdentity>() {
            identity.0.clone()
        } else {
            let certificates = parts.extensions.get::<Connection>().map(|c| c.certificates.clone()).unwrap_or_default();
            let request = Credentials { headers: &parts.headers, path: parts.uri.path(), certificates: &certificates };
            Arc::new(self.authenticator.authenticate(&request, Timestamp::now())?)
        };
        Ok(impersonate(&*self.policy.snapshot(), &requestor, &parts.headers)?.map_or(requestor, Arc::new))
    }

    /// Refuses what the user may not do: 403 with the recorded words.
    pub fn authorize(&self, user: &UserInfo, info: &RequestInfo) -> Result<()> {
        require(&*self.policy.snapshot(), &attributes(user, info))
    }

    /// The decision whether a user may, and the reason; for those who only ask.
    pub fn decide(&self, user: &UserInfo, info: &RequestInfo) -> Decision {
        self.policy.decide(&attributes(user, info))
    }
}
