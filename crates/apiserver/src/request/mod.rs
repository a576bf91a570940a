//! A request as data: who asks for what, by which path, with which options, and in which form the answer is wanted.
//!
//! Nothing here knows a part of the server: what a handler needs of those is given to it beside the request.

mod info;
pub mod negotiate;
pub mod options;
mod query;

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Method, header};
use mainstay_rbac::UserInfo;

pub use info::RequestInfo;
use negotiate::Agreed;
pub use query::{Query, decode_path, encode_path, percent_decode};

/// The most warnings that an answer carries.
const WARNINGS: usize = 64;

/// The identity of requests from inside the process: the router trusts this request extension.
#[derive(Clone, Debug)]
pub struct TrustedIdentity(pub Arc<UserInfo>);

/// A request that was authenticated, authorized and negotiated.
pub struct ApiRequest {
    /// The parts of its path, and its verb.
    pub info: RequestInfo,
    /// Its method.
    pub method: Method,
    /// Its query.
    pub query: Query,
    /// Its headers.
    pub headers: HeaderMap,
    /// The user who asks.
    pub user: Arc<UserInfo>,
    /// The form of the answer.
    pub agreed: Agreed,
    warnings: Mutex<Vec<String>>,
}

impl ApiRequest {
    /// A request without warnings.
    pub fn new(info: RequestInfo, method: Method, query: Query, headers: HeaderMap, user: Arc<UserInfo>, agreed: Agreed) -> Self {
        Self { info, method, query, headers, user, agreed, warnings: Mutex::default() }
    }

    /// Adds a `Warning` header to the answer.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        if let Ok(mut warnings) = self.warnings.lock()
            && !warnings.contains(&text)
            && warnings.len() < WARNINGS
        {
            warnings.push(text);
        }
    }

    /// Takes the warnings, in their order.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The `User-Agent`.
    pub fn user_agent(&self) -> &str {
        negotiate::text(&self.headers, header::USER_AGENT)
    }
}
