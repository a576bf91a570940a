//! Access control, and the challenge that tells a client how to authenticate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Uri};

/// Access control of a registry.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Anonymous access.
    #[default]
    Open,
    /// Requests with this name and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// Requests with a token, which the registry's own `/token` issues for this name and password.
    Token {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
}

impl std::fmt::Debug for Access {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Open => "Open",
            Self::Basic { .. } => "Basic",
            Self::Token { .. } => "Token",
        })
    }
}

impl Access {
    /// Returns true if the request may pass.
    pub(super) fn allows(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::Open => true,
            Self::Basic { user, password } => given(headers) == Some(basic(user, password).as_str()),
            Self::Token { user, password } => given(headers) == Some(format!("Bearer {}", token(user, password)).as_str()),
        }
    }

    /// The value of `WWW-Authenticate`.
    pub(super) fn challenge(&self, headers: &HeaderMap) -> String {
        match self {
            Self::Open | Self::Basic { .. } => "Basic realm=\"registry\"".to_owned(),
            Self::Token { .. } => {
                let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
                format!("Bearer realm=\"http://{host}/token\",service=\"registry\"")
            }
        }
    }

    /// The token for a request to `/token`; `None` when the credentials are wrong.
    pub(super) fn issue(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let Self::Token { user, password } = self else { return None };
        // A client that logs in asks for no particular scope yet.
        let has_service = uri.query().is_some_and(|query| query.contains("service="));
        (has_service && given(headers) == Some(basic(user, password).as_str())).then(|| token(user, password))
    }
}

fn given(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A token that proves only that its bearer knew the password.
fn token(user: &str, password: &str) -> String {
    crate::Digest::of(format!("token for {user}:{password}").as_bytes()).hex().to_owned()
}
