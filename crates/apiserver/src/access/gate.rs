//! The gate in front of every request: authentication, impersonation and authorization in one place, and the requests that only ask
//! about these.

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use mainstay_kinds::Gvk;
use mainstay_rbac::{Decision, UserInfo};
use mainstay_serve::Connection;
use serde_json::Value;

use super::authn::{Authenticator, Credentials};
use super::authz::{attributes, require};
use super::impersonate::impersonate;
use super::jws::SigningKey;
use super::live::CachedObjects;
use super::pki::PkiError;
use super::policy::Policy;
use super::reviews::{review_access, review_local_access, review_own_access, review_own_identity, review_own_rules, review_token};
use super::token_request::request_token;
use super::tokens::Tokens;
use super::x509::ClientAuthority;
use crate::access_seam::Access;
use crate::api::TrustedIdentity;
use crate::cache::Cache;
use crate::error::Result;
use crate::options::WriteOptions;
use crate::request::RequestInfo;
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::server::Context;
use crate::{fields, negotiate, strategy};

/// An [`Authenticator`] and a [`Policy`] as the request pipeline uses them.
#[derive(Debug)]
pub struct Gate {
    /// Who asks.
    pub authenticator: Authenticator,
    /// Whether they may.
    pub policy: Arc<Policy>,
}

impl Gate {
    /// A gate over the watch cache: certificates of this CA, tokens of this key. The policy begins with what the cache shows;
    /// [`Policy::observe`] keeps it so.
    pub fn over(cache: &Arc<Cache>, client_ca: &str, signing_key: SigningKey) -> Result<Self, PkiError> {
        let policy = Arc::new(Policy::default());
        policy.fill(cache);
        let objects = Arc::new(CachedObjects(cache.clone()));
        let authenticator = Authenticator::new(ClientAuthority::from_pem(client_ca)?, Arc::new(Tokens::new(signing_key)), objects);
        Ok(Self { authenticator, policy })
    }
}

#[async_trait]
impl Access for Gate {
    async fn identify(&self, parts: &Parts) -> Result<Arc<UserInfo>> {
        let requestor = if let Some(identity) = parts.extensions.get::<TrustedIdentity>() {
            identity.0.clone()
        } else {
            let certificates = parts.extensions.get::<Connection>().map(|c| c.certificates.clone()).unwrap_or_default();
            let request = Credentials { headers: &parts.headers, path: parts.uri.path(), certificates: &certificates };
            Arc::new(self.authenticator.authenticate(&request, Timestamp::now())?)
        };
        Ok(impersonate(&*self.policy.snapshot(), &requestor, &parts.headers)?.map_or(requestor, Arc::new))
    }

    async fn authorize(&self, user: &UserInfo, info: &RequestInfo) -> Result<()> {
        require(&*self.policy.snapshot(), &attributes(user, info))
    }

    fn decide(&self, user: &UserInfo, info: &RequestInfo) -> Decision {
        self.policy.decide(&attributes(user, info))
    }

    async fn page(&self, _context: &Context, parts: &[&str]) -> Option<Result<Answer>> {
        let tokens = self.authenticator.tokens();
        let (content_type, document) = match parts {
            [".well-known", "openid-configuration"] => ("application/json", tokens.configuration()),
            ["openid", "v1", "jwks"] => ("application/jwk-set+json", tokens.jwks()),
            _ => return None,
        };
        let mut answer = Answer::bytes(StatusCode::OK, content_type, document.to_string());
        answer.headers.push((header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600")));
        Some(Ok(answer))
    }

    async fn create(&self, context: &Context, served: &Served, body: &[u8]) -> Result<Option<Answer>> {
        if !matches!(&*served.facts.group, "authentication.k8s.io" | "authorization.k8s.io") {
            return Ok(None);
        }
        let review = read_review(context, served, body).await?;
        let policy = self.policy.snapshot();
        let now = Timestamp::now();
        let answer = match &*served.facts.kind {
            "SubjectAccessReview" => review_access(&*policy, &review)?,
            "LocalSubjectAccessReview" => review_local_access(&*policy, &context.info.namespace, &review)?,
            "SelfSubjectAccessReview" => review_own_access(&*policy, &context.user, &review)?,
            "SelfSubjectRulesReview" => review_own_rules(&*policy, &context.user, &review)?,
            "SelfSubjectReview" => review_own_identity(&context.user, &review, now)?,
            "TokenReview" => review_token(&self.authenticator, &review, now)?,
            _ => return Ok(None),
        };
        respond::object(context, served, StatusCode::CREATED, answer).map(Some)
    }

    async fn subresource(&self, context: &Context, served: &Served, body: &[u8]) -> Result<Option<Answer>> {
        let info = &context.info;
        if (&*info.resource, &*info.subresource, &*info.verb) != ("serviceaccounts", "token", "create") {
            return Ok(None);
        }
        let options = WriteOptions::parse(&context.query, "CreateOptions", context.user_agent())?;
        let gvk = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
        let decoded = negotiate::decode(&context.headers, body, &gvk.kind)?;
        let request = strategy::decode(context, served, &gvk, decoded, options.field_validation)?;
        let (tokens, objects) = (self.authenticator.tokens(), self.authenticator.objects());
        let answer = request_token(tokens, objects, &info.namespace, &info.name, &request, Timestamp::now())?;
        Ok(Some(respond::plain(context, StatusCode::CREATED, &answer)))
    }
}

/// A review as the registry would store it: decoded, placed, defaulted, with its managed fields.
async fn read_review(context: &Context, served: &Served, body: &[u8]) -> Result<Value> {
    let options = WriteOptions::parse(&context.query, "CreateOptions", context.user_agent())?;
    let decoded = negotiate::decode(&context.headers, body, &served.facts.kind)?;
    let mut review = strategy::decode(context, served, &served.gvk(), decoded, options.field_validation)?;
    crate::rest::place(context, served, &mut review)?;
    strategy::default(served, &mut review);
    fields::written(served, None, &mut review, &options.field_manager, None).await;
    Ok(review)
}
