//! What the request pipeline asks of authentication and authorization.

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use mainstay_rbac::{Decision, UserInfo};

use crate::error::Result;
use crate::request::RequestInfo;
use crate::respond::Answer;
use crate::served::Served;
use crate::server::Context;

/// Authentication and authorization, as the pipeline uses them.
#[async_trait]
pub trait Access: Send + Sync + 'static {
    /// Who asks; 401 for bad credentials. Impersonation is applied here, too.
    async fn identify(&self, parts: &Parts) -> Result<Arc<UserInfo>>;

    /// Whether they may; 403 with the recorded words.
    async fn authorize(&self, user: &UserInfo, info: &RequestInfo) -> Result<()>;

    /// Whether somebody may, and why; for those who only ask.
    fn decide(&self, user: &UserInfo, info: &RequestInfo) -> Decision;

    /// Pages of its own (`/.well-known/...`, `/openid/...`).
    async fn page(&self, _context: &Context, _parts: &[&str]) -> Option<Result<Answer>> {
        None
    }

    /// Creations that only answer: reviews. `None` for what is stored.
    async fn create(&self, _context: &Context, _served: &Served, _body: &[u8]) -> Result<Option<Answer>> {
        Ok(None)
    }

    /// Subresources that only answer: tokens. `None` for what is stored.
    async fn subresource(&self, _context: &Context, _served: &Served, _body: &[u8]) -> Result<Option<Answer>> {
        Ok(None)
    }
}
