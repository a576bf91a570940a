//! Authentication: by a client certificate, by a bearer token, or as anonymous (KAPI-AUTH-01).
//!
//! A credential that is shown and does not hold is a 401. It never makes an anonymous request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use mainstay_rbac::UserInfo;
use rustls::pki_types::CertificateDer;

use super::front_proxy::FrontProxy;
use super::impersonate::complete_groups;
use super::static_tokens::StaticTokens;
use super::tokens::InvalidToken;
use super::tokens::{TokenObjects, Tokens};
use super::x509::ClientAuthority;
use crate::error::ApiError;

/// The paths that a request without credentials may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// Health and version paths; anything else is a 401.
    #[default]
    HealthOnly,
    /// These, and the keys of the issuer of tokens, as far as the policy gives them to `system:unauthenticated`: clouds read them.
    IssuerKeys,
    /// Everything that the policy gives to `system:unauthenticated`.
    Everything,
}

/// The credentials of a request.
#[derive(Debug, Clone, Copy)]
pub struct Credentials<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The URL path.
    pub path: &'a str,
    /// The client certificates of the connection, leaf first.
    pub certificates: &'a [CertificateDer<'static>],
}

/// Tells who asks.
pub struct Authenticator {
    authority: ClientAuthority,
    front_proxy: Option<FrontProxy>,
    tokens: Arc<Tokens>,
    objects: Arc<dyn TokenObjects>,
    fixed: StaticTokens,
    internal: RwLock<HashMap<String, UserInfo>>,
    anonymous: AnonymousAccess,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("anonymous", &self.anonymous).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// With certificates of this CA and tokens of this issuer; anonymous for health and version only.
    pub fn new(authority: ClientAuthority, tokens: Arc<Tokens>, objects: Arc<dyn TokenObjects>) -> Self {
        Self {
            authority,
            front_proxy: None,
            tokens,
            objects,
            fixed: StaticTokens::default(),
            internal: RwLock::default(),
            anonymous: AnonymousAccess::default(),
        }
    }

    /// Believes this front proxy what it says of its requests.
    #[must_use]
    pub fn front_proxy(mut self, front_proxy: FrontProxy) -> Self {
        self.front_proxy = Some(front_proxy);
        self
    }

    /// Adds the tokens of a file.
    #[must_use]
    pub fn static_tokens(mut self, tokens: StaticTokens) -> Self {
        self.fixed = tokens;
        self
    }

    /// Says what requests without credentials may ask for.
    #[must_use]
    pub fn anonymous(mut self, access: AnonymousAccess) -> Self {
        self.anonymous = access;
        self
    }

    /// A fresh token for a client inside this process that connects over the listener; it dies with the process.
    pub fn issue_internal(&self, user: UserInfo) -> String {
        let token = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>());
        self.internal.write().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), user);
        token
    }

    /// The signer and verifier of ServiceAccount tokens.
    pub fn tokens(&self) -> &Arc<Tokens> {
        &self.tokens
    }

    /// The live objects that tokens are bound to.
    pub fn objects(&self) -> &dyn TokenObjects {
        &*self.objects
    }

    /// The user behind a request, or a 401.
    pub fn authenticate(&self, request: &Credentials<'_>, now: Timestamp) -> Result<UserInfo, ApiError> {
        let mut refused = false;
        if let Some(user) = self.front_proxy.as_ref().and_then(|proxy| proxy.identify(request.certificates, request.headers, now)) {
            return Ok(completed(user));
        }
        if !request.certificates.is_empty() {
            match self.authority.identify(request.certificates, now) {
                Ok(user) => return Ok(completed(user)),
                Err(why) => {
                    tracing::debug!(%why, "client certificate refused");
                    refused = true;
                }
            }
        }
        let header = request.headers.get(header::AUTHORIZATION).map(|value| bearer(value.as_bytes()).ok_or("it is no bearer token"));
        let header = header.map(|found| found.map(str::to_owned));
        for shown in header.into_iter().chain(crate::websocket::token(request.headers)) {
            match shown.map_err(|why| InvalidToken(why.to_owned())).and_then(|token| self.token_user(&token, &[], now)) {
                Ok((user, _)) => return Ok(user),
                Err(why) => {
                    tracing::debug!(%why, "bearer token refused");
                    refused = true;
                }
            }
        }
        if refused || !self.anonymous_may_ask(request.path) {
            return Err(unauthorized());
        }
        Ok(UserInfo::anonymous())
    }

    /// The user of a bearer token and the audiences it is good for (ours where none are given); the text says why it is refused.
    pub fn token_user(&self, token: &str, audiences: &[String], now: Timestamp) -> Result<(UserInfo, Vec<String>), InvalidToken> {
        let ours = self.tokens.audiences();
        let implicit = || -> Result<Vec<String>, InvalidToken> {
            if audiences.is_empty() {
                return Ok(ours.to_vec());
            }
            let common: Vec<String> = audiences.iter().filter(|a| ours.contains(a)).cloned().collect();
            if common.is_empty() {
                Err(InvalidToken("invalid bearer token: it is not meant for these audiences".to_owned()))
            } else {
                Ok(common)
            }
        };
        let internal = self.internal.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned();
        if let Some(user) = internal.or_else(|| self.fixed.find(token).cloned()) {
            return Ok((completed(user), implicit()?));
        }
        if !self.tokens.claims_to_be_ours(token) {
            return Err(InvalidToken("invalid bearer token".to_owned()));
        }
        let (user, audiences) = self.tokens.identify(token, audiences, &*self.objects, now)?;
        Ok((completed(user), audiences))
    }

    fn anonymous_may_ask(&self, path: &str) -> bool {
        let is_of_issuer = matches!(path, "/.well-known/openid-configuration" | "/openid/v1/jwks");
        self.anonymous == AnonymousAccess::Everything
            || (self.anonymous == AnonymousAccess::IssuerKeys && is_of_issuer)
            || ["/healthz", "/livez", "/readyz", "/version"]
                .iter()
                .any(|open| path.strip_prefix(open).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

/// The 401 of a bad or missing credential.
pub fn unauthorized() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
}

fn completed(mut user: UserInfo) -> UserInfo {
    complete_groups(&mut user);
    user
}

fn bearer(value: &[u8]) -> Option<&str> {
    let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
