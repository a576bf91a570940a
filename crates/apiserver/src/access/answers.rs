//! Requests that only ask about identity and permissions, or for tokens: answered here, never stored.

use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use mainstay_kinds::Gvk;
use serde_json::Value;

use super::gate::Gate;
use super::reviews::{review_access, review_local_access, review_own_access, review_own_identity, review_own_rules, review_token};
use super::token_request::request_token;
use crate::error::Result;
use crate::request::options::WriteOptions;
use crate::request::{ApiRequest, negotiate};
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::{fields, strategy};

impl Gate {
    /// Pages of its own (`/.well-known/...`, `/openid/...`).
    pub(crate) fn page(&self, parts: &[&str]) -> Option<Answer> {
        let tokens = self.authenticator.tokens();
        let (content_type, document) = match parts {
            [".well-known", "openid-configuration"] => ("application/json", tokens.configuration()),
            ["openid", "v1", "jwks"] => ("application/jwk-set+json", tokens.jwks()),
            _ => return None,
        };
        let mut answer = Answer::bytes(StatusCode::OK, content_type, document.to_string());
        answer.headers.push((header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600")));
        Some(answer)
    }

    /// Creations that only answer: reviews. `None` for what is stored.
    pub(crate) async fn create(&self, request: &ApiRequest, served: &Served, body: &[u8]) -> Result<Option<Answer>> {
        if !matches!(&*served.facts.group, "authentication.k8s.io" | "authorization.k8s.io") {
            return Ok(None);
        }
        let review = read_review(request, served, body).await?;
        let policy = self.policy.snapshot();
        let now = Timestamp::now();
        let answer = match &*served.facts.kind {
            "SubjectAccessReview" => review_access(&*policy, &review)?,
            "LocalSubjectAccessReview" => review_local_access(&*policy, &request.info.namespace, &review)?,
            "SelfSubjectAccessReview" => review_own_access(&*policy, &request.user, &review)?,
            "SelfSubjectRulesReview" => review_own_rules(&*policy, &request.user, &review)?,
            "SelfSubjectReview" => review_own_identity(&request.user, &review, now)?,
            "TokenReview" => review_token(&self.authenticator, &review, now)?,
            _ => return Ok(None),
        };
        respond::object(request, served, StatusCode::CREATED, answer).map(Some)
    }

    /// Subresources that only answer: tokens. `None` for what is stored.
    pub(crate) fn subresource(&self, request: &ApiRequest, served: &Served, body: &[u8]) -> Result<Option<Answer>> {
        let info = &request.info;
        if (&*info.resource, &*info.subresource, &*info.verb) != ("serviceaccounts", "token", "create") {
            return Ok(None);
        }
        let options = WriteOptions::parse(&request.query, "CreateOptions", request.user_agent())?;
        let gvk = Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
        let decoded = negotiate::decode(&request.headers, body, &gvk.kind)?;
        let mut asked = strategy::decode(request, served, &gvk, decoded, options.field_validation)?;
        mainstay_kinds::default(&gvk, &mut asked);
        fields::posted(&gvk, &mut asked, &options.field_manager, &info.subresource);
        let (tokens, objects) = (self.authenticator.tokens(), self.authenticator.objects());
        let answer = request_token(tokens, objects, &info.namespace, &info.name, &asked, Timestamp::now())?;
        respond::object(request, served, StatusCode::CREATED, answer).map(Some)
    }
}

/// A review as the registry would store it: decoded, placed, defaulted, with its managed fields.
async fn read_review(request: &ApiRequest, served: &Served, body: &[u8]) -> Result<Value> {
    let options = WriteOptions::parse(&request.query, "CreateOptions", request.user_agent())?;
    let decoded = negotiate::decode(&request.headers, body, &served.facts.kind)?;
    let mut review = strategy::decode(request, served, &served.gvk(), decoded, options.field_validation)?;
    strategy::place(&request.info, served, &mut review)?;
    strategy::default(served, &mut review);
    fields::written(served, None, &mut review, &options.field_manager, None).await;
    Ok(review)
}
