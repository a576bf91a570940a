//! Who may come in, and how a client learns how to show it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Uri};

/// Who may use a registry.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    #[default]
    Open,
    /// Who sends this name and password with each request.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// Who gets a token for this name and password from the registry's own `/token`.
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
    /// Whether the request may pass.
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

    /// The token for a request to `/token`; nothing when the credentials are wrong.
    pub(super) fn issue(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let Self::Token { user, password } = self else { return None };
        // Who logs in asks for nothing in particular yet.
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

/// A token that says nothing but that its bearer knew the password.
fn token(user: &str, password: &str) -> String {
    crate::Digest::of(format!("token for {user}:{password}").as_bytes()).hex().to_owned()
}
