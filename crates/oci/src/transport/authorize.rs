//! Credentials for a registry: answers to its challenge, and the tokens of its token service.

use std::collections::HashMap;

use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use reqwest::Response;
use serde::Deserialize;

use super::answer::{Failed, Words, status_error};
use super::{Call, MAX_WORDS, Transport, address, is_loopback, lock, remember, within};
use crate::addresses;
use crate::auth::Credential;
use crate::error::Error;
use crate::hosts::Purpose;

/// The longest token, in bytes; it has to fit into the head of each request.
const MAX_TOKEN: usize = 16 << 10;

impl Transport {
    /// Returns the value of `Authorization` that the registry's challenge asks for; `None` when there is no credential.
    pub(super) async fn authorize(&self, call: &Call<'_>, response: &Response, scopes: &[String]) -> Result<Option<String>, Error> {
        let credential = self.credential(call).await?;
        let credential = credential.as_ref();
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut basic = false;
        for challenge in challenges {
            let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
            if scheme.eq_ignore_ascii_case("basic") {
                basic = true;
            } else if scheme.eq_ignore_ascii_case("bearer") {
                return self.token(call, &parameters_of(parameters), scopes, credential).await.map(Some);
            }
        }
        Ok(match credential {
            Some(Credential::Basic { user, password }) if basic => Some(basic_value(user, password)),
            _ => None,
        })
    }

    /// Returns the credential for the registry. Helpers are asked once for each.
    async fn credential(&self, call: &Call<'_>) -> Result<Option<Credential>, Error> {
        let key = (call.host.registry.to_owned(), call.repository.to_owned());
        let known = lock(&self.known).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.credentials.look_up(call.host.registry, call.repository).await?;
        remember(&self.known, key, found.clone());
        Ok(found)
    }

    async fn token(
        &self,
        call: &Call<'_>,
        parameters: &HashMap<String, String>,
        scopes: &[String],
        credential: Option<&Credential>,
    ) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        let refuse = |problem: String| Error::content(&call.subject, format!("registry {}: {problem}", call.host.registry));
        let realm = parameters.get("realm").ok_or_else(|| refuse("its token challenge names no realm".to_owned()))?;
        let mut realm = reqwest::Url::parse(realm).map_err(|error| refuse(format!("its token service {realm:?} is no URL: {error}")))?;
        let plain_allowed = call.host.insecure || realm.host_str().is_some_and(is_loopback);
        if realm.scheme() != "https" && !plain_allowed {
            return Err(refuse(format!("its token service {realm} is not HTTPS, so no credentials are sent there")));
        }
        let way = self.hosts.client(call.host, address(call.host.registry), Purpose::Reading).await?;
        addresses::check(&realm, way.class).map_err(|problem| Failed::Reach(problem).of(call))?;
        self.hosts.check_proxy(&realm)?;
        let client = way.client;
        let asked = realm.clone();
        let service = parameters.get("service").map_or("", String::as_str);
        let request = if let Some(Credential::Identity { token }) = credential {
            let mut form = reqwest::Url::parse("form:").map_err(|error| refuse(error.to_string()))?;
            form.query_pairs_mut()
                .append_pair("grant_type", "refresh_token")
                .append_pair("service", service)
                .append_pair("client_id", "mainstay")
                .append_pair("scope", &scopes.join(" "))
                .append_pair("refresh_token", token);
            let body = form.query().unwrap_or_default().to_owned();
            client.post(realm).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
        } else {
            realm.query_pairs_mut().append_pair("service", service);
            for scope in scopes {
                realm.query_pairs_mut().append_pair("scope", scope);
            }
            let request = client.get(realm);
            match credential {
                Some(Credential::Basic { user, password }) => request.header(AUTHORIZATION, basic_value(user, password)),
                _ => request,
            }
        };
        let response = within(self.pace.base, request).await.map_err(|error| error.of(call))?;
        if !response.status().is_success() {
            let words = if response.url().origin() == asked.origin() { Words::Quoted } else { Words::Unheard };
            return Err(self.refused(call, status_error(call, response, words, self.pace).await));
        }
        let bytes = self.body(&call.subject, call.host.registry, response, MAX_WORDS).await?;
        // The answer is not shown: its origin is unknown.
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|error| refuse(format!("its token service gave no token (line {}, column {})", error.line(), error.column())))?;
        let token = token.token.filter(|token| !token.is_empty()).or(token.access_token);
        let token = token.ok_or_else(|| refuse("its token service gave no token".to_owned()))?;
        if token.len() > MAX_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refuse(format!("its token service gave a token that is no text of at most {MAX_TOKEN} bytes")));
        }
        Ok(format!("Bearer {token}"))
    }
}

fn basic_value(user: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

/// Parses `key="value",key=value` as in `WWW-Authenticate`.
fn parameters_of(text: &str) -> HashMap<String, String> {
    let mut parameters = HashMap::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        parameters.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        rest = next.trim_start_matches([',', ' ']);
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-GEN-10: what a challenge says, quoted or not.
    #[test]
    fn challenges_are_read() {
        let parameters = parameters_of(r#"realm="https://auth.example.com/token?a=b",service=hub, scope="repository:a:pull,push""#);
        assert_eq!(parameters["realm"], "https://auth.example.com/token?a=b");
        assert_eq!(parameters["service"], "hub");
        assert_eq!(parameters["scope"], "repository:a:pull,push");
    }
}
