//! Requests to a registry: which scheme, which credentials, and what a failure was.
//!
//! HTTPS comes first. Plain HTTP follows only for loopback hosts and for registries configured as insecure (OLM1-GEN-14). A registry that
//! asks for a token gets one from its token service; tokens are kept by registry and scope.

use std::collections::HashMap;
use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Body, Response, Url};
use serde::Deserialize;

use crate::addresses::{self, OutOfReach};
use crate::auth::{Credential, Credentials};
use crate::client::ClientConfig;
use crate::error::{Error, ErrorKind, quoted};
use crate::hosts::{Hosts, Purpose, Way};
use crate::pace::{Meter, Pace, Slow};

/// Lists of tags are small.
pub(crate) const MAX_SMALL_BODY: usize = 1 << 20;
/// Error documents are smaller, and so are the answers of token services.
const MAX_WORDS: usize = 64 << 10;
/// A token has to fit into the head of each request.
const MAX_TOKEN: usize = 16 << 10;
/// Repositories whose tokens and credentials are remembered.
const MAX_KNOWN: usize = 4096;
/// Uploads may be so much slower than downloads: whoever pushes waits for themselves.
const UPLOADS: u64 = 4;

pub(crate) struct Transport {
    hosts: Hosts,
    pace: Pace,
    credentials: Credentials,
    /// What was found of them, by host and repository.
    known: Mutex<HashMap<(String, String), Option<Credential>>>,
    /// The scheme that worked for a host, where plain HTTP is allowed and where not.
    schemes: Mutex<HashMap<(String, bool), &'static str>>,
    /// The value of `Authorization` by host and scope.
    granted: Mutex<HashMap<(String, String), String>>,
}

/// A registry, and how it may be talked to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host<'a> {
    pub registry: &'a str,
    pub insecure: bool,
}

/// One request.
pub(crate) struct Call<'a> {
    pub host: Host<'a>,
    pub method: Method,
    /// Path and query, or a whole URL that the registry gave.
    pub target: &'a str,
    pub headers: HeaderMap,
    pub body: Payload<'a>,
    /// The repository, and what is done to it; what tokens are asked for.
    pub repository: &'a str,
    pub actions: Actions,
    /// Another repository that has to be read for this.
    pub mounts: Option<&'a str>,
    /// What errors are about.
    pub subject: String,
}

/// What a token has to allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actions {
    Pull,
    Push,
    Delete,
}

impl Actions {
    fn scope(self, repository: &str) -> String {
        let actions = match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
            Self::Delete => "pull,delete",
        };
        format!("repository:{repository}:{actions}")
    }
}

/// A body that can be sent again after the registry asked for credentials.
pub(crate) enum Payload<'a> {
    None,
    Bytes(&'a [u8]),
    File { path: &'a std::path::Path, offset: u64, length: u64 },
}

impl<'a> Call<'a> {
    /// The same, which also takes blobs from another repository.
    pub(crate) fn mounting(self, repository: &'a str) -> Self {
        Self { mounts: Some(repository), ..self }
    }

    /// What the token has to allow.
    fn scopes(&self) -> Vec<String> {
        // Without a repository it is only asked who comes.
        if self.repository.is_empty() {
            return Vec::new();
        }
        let own = self.actions.scope(self.repository);
        let other = self.mounts.map(|repository| Actions::Pull.scope(repository));
        std::iter::once(own).chain(other).collect()
    }
}

impl Transport {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, Error> {
        Ok(Self {
            hosts: Hosts::new(config)?,
            pace: config.pace,
            credentials: config.credentials.clone(),
            known: Mutex::default(),
            schemes: Mutex::default(),
            granted: Mutex::default(),
        })
    }

    /// Sends the request, with credentials when the registry wants them, and turns an error status into an error.
    pub(crate) async fn send(&self, call: &Call<'_>) -> Result<Response, Error> {
        let scopes = call.scopes();
        let key = (call.host.registry.to_owned(), scopes.join(" "));
        let known = lock(&self.granted).get(&key).cloned();
        let mut response = self.attempt(call, known.as_deref()).await?;
        // Where a redirect led to somebody else, that one's challenge is not answered with the registry's credentials.
        if response.status() == StatusCode::UNAUTHORIZED
            && self.is_own(call, response.url())
            && let Some(value) = self.authorize(call, &response, &scopes).await?
        {
            remember(&self.granted, key, value.clone());
            response = self.attempt(call, Some(&value)).await?;
        }
        // A redirect that was not followed means that what was sent arrived nowhere.
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.status_error(call, response).await)
    }

    /// Reads from an address outside of any registry, without credentials; nothing where the answer is that there is nothing.
    pub(crate) async fn get(&self, url: &Url, subject: &str) -> Result<Option<Response>, Error> {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let registry = format!("{}{port}", url.host_str().unwrap_or_default());
        let call = Call {
            host: Host { registry: &registry, insecure: false },
            method: Method::GET,
            target: url.as_str(),
            headers: HeaderMap::new(),
            body: Payload::None,
            repository: "",
            actions: Actions::Pull,
            mounts: None,
            subject: subject.to_owned(),
        };
        let way = self.hosts.client(call.host, address(call.host.registry), Purpose::Reading).await?;
        let response = self.once(&way, &call, call.target, None).await.map_err(|error| error.of(&call))?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response)),
            _ => Err(status_error(&call, response, Words::Unheard, self.pace).await),
        }
    }

    /// The registry's answer as an error, which says whose credentials it did not take.
    async fn status_error(&self, call: &Call<'_>, response: Response) -> Error {
        // Only the registry itself is quoted, not whom it leads to.
        let words = if self.is_own(call, response.url()) { Words::Quoted } else { Words::Unheard };
        self.refused(call, status_error(call, response, words, self.pace).await)
    }

    fn refused(&self, call: &Call<'_>, mut error: Error) -> Error {
        if let Error::Status { status: 401, refused, .. } = &mut error {
            let key = (call.host.registry.to_owned(), call.repository.to_owned());
            *refused = match lock(&self.known).get(&key) {
                Some(Some(Credential::Basic { user, .. })) => Some(format!("the credentials of user {user}")),
                Some(Some(Credential::Identity { .. })) => Some("the identity token".to_owned()),
                Some(None) | None => None,
            };
        }
        error
    }

    /// One try without regard to the answer's status.
    async fn attempt(&self, call: &Call<'_>, authorization: Option<&str>) -> Result<Response, Error> {
        let way = self.hosts.client(call.host, address(call.host.registry), Purpose::of(&call.method)).await?;
        if let Ok(url) = Url::parse(call.target) {
            if url.scheme() != "https" && !call.host.insecure && !is_loopback(call.host.registry) {
                return Err(Error::content(&call.subject, format!("registry {} gives an address that is not HTTPS", call.host.registry)));
            }
            let authorization = authorization.filter(|_| self.is_own(call, &url));
            return self.once(&way, call, call.target, authorization).await.map_err(|error| error.of(call));
        }
        let host = address(call.host.registry);
        let url = |scheme: &str| format!("{scheme}://{host}{}", call.target);
        let known = lock(&self.schemes).get(&scheme_key(call.host)).copied();
        if let Some(scheme) = known {
            return self.once(&way, call, &url(scheme), authorization).await.map_err(|error| error.of(call));
        }
        let (scheme, response) = match self.once(&way, call, &url("https"), authorization).await {
            Ok(response) => ("https", response),
            // A server whose certificate is not trusted does speak TLS on this port, so HTTP would only hide the reason.
            Err(first) if first.is_distrust() => return Err(first.of(call)),
            // A registry that cannot be connected to at all gets the same chance, since a TLS failure is not always told apart.
            Err(first) if (call.host.insecure || is_loopback(call.host.registry)) && first.is_connect() => {
                match self.once(&way, call, &url("http"), authorization).await {
                    Ok(response) => ("http", response),
                    Err(second) if second.is_connect() => return Err(first.of(call)),
                    Err(second) => return Err(second.of(call)),
                }
            }
            Err(error) => return Err(error.of(call)),
        };
        lock(&self.schemes).insert(scheme_key(call.host), scheme);
        Ok(response)
    }

    /// Whether that is the registry itself, as it was reached before; only there its credentials belong.
    fn is_own(&self, call: &Call<'_>, url: &Url) -> bool {
        let scheme = lock(&self.schemes).get(&scheme_key(call.host)).copied().unwrap_or("https");
        Url::parse(&format!("{scheme}://{}", address(call.host.registry))).is_ok_and(|own| own.origin() == url.origin())
    }

    async fn once(&self, way: &Way, call: &Call<'_>, url: &str, authorization: Option<&str>) -> Result<Response, Failed> {
        if let Ok(url) = Url::parse(url) {
            addresses::check(&url, way.class).map_err(Failed::Reach)?;
            self.hosts.check_proxy(&url).map_err(Failed::Proxy)?;
        }
        let mut request = way.client.request(call.method.clone(), url).headers(call.headers.clone());
        let sent = match call.body {
            Payload::None => 0,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::File { length, .. } => length,
        };
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request = match call.body {
            Payload::None => request,
            Payload::Bytes(bytes) => request.body(bytes.to_vec()),
            Payload::File { path, offset, length } => match part_of(path, offset, length).await {
                Ok(part) => request.body(Body::wrap_stream(tokio_util::io::ReaderStream::with_capacity(part, 128 << 10))),
                // A body that fails at once becomes an error of this very request.
                Err(error) => request.body(Body::wrap_stream(futures::stream::once(async { Err::<Vec<u8>, _>(error) }))),
            },
        };
        within(self.pace.transfer(sent.saturating_mul(UPLOADS)), request).await
    }

    /// The value of `Authorization` that the registry's challenge asks for; nothing when we have nothing to show.
    async fn authorize(&self, call: &Call<'_>, response: &Response, scopes: &[String]) -> Result<Option<String>, Error> {
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

    /// Who we are at the registry. Helpers are asked once for each.
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
        // What came instead is not shown: nobody knows who answered.
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|error| refuse(format!("its token service gave no token (line {}, column {})", error.line(), error.column())))?;
        let token = token.token.filter(|token| !token.is_empty()).or(token.access_token);
        let token = token.ok_or_else(|| refuse("its token service gave no token".to_owned()))?;
        if token.len() > MAX_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refuse(format!("its token service gave a token that is no text of at most {MAX_TOKEN} bytes")));
        }
        Ok(format!("Bearer {token}"))
    }

    /// A body of `limit` bytes at most, at the pace that is asked for.
    pub(crate) async fn body(&self, subject: &str, registry: &str, response: Response, limit: usize) -> Result<Vec<u8>, Error> {
        let connection = |kind, problem: String| Error::connection(subject, registry, kind, &problem);
        body(response, limit, self.pace).await.map_err(|problem| match problem {
            Unread::Long => Error::content(subject, format!("registry {registry}: the answer is longer than {limit} bytes")),
            Unread::Slow(slow) => connection(ErrorKind::Timeout, format!("the answer is given up: {slow}")),
            Unread::Broken(error) => {
                let kind = if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Interrupted };
                connection(kind, format!("the answer broke off: {}", chain(&error)))
            }
        })
    }
}

/// Sends a request, and waits for the head of its answer.
async fn within(allowed: Duration, request: reqwest::RequestBuilder) -> Result<Response, Failed> {
    match tokio::time::timeout(allowed, request.send()).await {
        Ok(answer) => answer.map_err(Failed::Sent),
        Err(_) => Err(Failed::Slow(Slow::Deadline(allowed))),
    }
}

/// Why a request got no answer.
enum Failed {
    Sent(reqwest::Error),
    Slow(Slow),
    Reach(OutOfReach),
    Proxy(Error),
}

impl Failed {
    /// Nobody was there, or it was nobody who speaks the protocol.
    fn is_connect(&self) -> bool {
        matches!(self, Self::Sent(error) if error.is_connect() && cause::<OutOfReach>(error).is_none())
    }

    /// A certificate was shown, and is not trusted.
    fn is_distrust(&self) -> bool {
        matches!(self, Self::Sent(error) if matches!(cause(error), Some(rustls::Error::InvalidCertificate(_))))
    }

    fn of(self, call: &Call<'_>) -> Error {
        let connection = |kind, problem: &str| Error::connection(&call.subject, call.host.registry, kind, problem);
        match self {
            Self::Sent(error) => {
                if let Some(refused) = cause::<OutOfReach>(&error) {
                    return Self::Reach(refused.clone()).of(call);
                }
                let kind = if error.is_timeout() {
                    ErrorKind::Timeout
                } else if cause::<rustls::Error>(&error).is_some() {
                    ErrorKind::Tls
                } else if error.is_connect() || error.is_redirect() {
                    ErrorKind::Unreachable
                } else {
                    ErrorKind::Interrupted
                };
                connection(kind, &chain(&error))
            }
            Self::Slow(slow) => connection(ErrorKind::Timeout, &format!("no answer came: {slow}")),
            Self::Reach(problem) => Error::content(&call.subject, format!("registry {}: {problem}", call.host.registry)),
            Self::Proxy(error) => error,
        }
    }
}

/// Docker Hub's registry has another name than its images.
fn address(registry: &str) -> &str {
    if registry == "docker.io" { "registry-1.docker.io" } else { registry }
}

fn scheme_key(host: Host<'_>) -> (String, bool) {
    (host.registry.to_owned(), host.insecure)
}

async fn part_of(path: &std::path::Path, offset: u64, length: u64) -> std::io::Result<tokio::io::Take<tokio::fs::File>> {
    use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(std::io::SeekFrom::Start(offset)).await?;
    Ok(file.take(length))
}

fn basic_value(user: &str, password: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

/// `key="value",key=value` as in `WWW-Authenticate`.
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

/// 127.0.0.0/8, `localhost` and `::1`, with any port.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.rsplit_once(':').map_or(registry, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The cause of that type, wherever it stands in the chain.
fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an I/O error is its content's source, so the content itself has to be asked for.
    let content = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    content.and_then(|content| cause(content)).or_else(|| cause(error.source()?))
}

/// Whether a URL leads to the same host, by the same scheme and port.
pub(crate) fn same_origin(target: &str, own: &Url) -> bool {
    Url::parse(target).is_ok_and(|target| target.origin() == own.origin())
}

/// The causes of an error in one line, without the URL, which may hold a signature.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = inner.source();
    }
    if parts.is_empty() { error.to_string() } else { parts.join(": ") }
}

/// Whether the words of an answer are shown to people.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Quoted,
    /// They are somebody else's than the registry's.
    Unheard,
}

async fn status_error(call: &Call<'_>, response: Response, heard: Words, pace: Pace) -> Error {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        errors: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let bytes = if heard == Words::Quoted { body(response, MAX_WORDS, pace).await.unwrap_or_default() } else { Vec::new() };
    let entries = serde_json::from_slice::<Answer>(&bytes).map(|answer| answer.errors).unwrap_or_default();
    let words = |entry: Entry| if entry.message.is_empty() { entry.code } else { format!("{} ({})", entry.message, entry.code) };
    let message = entries.into_iter().take(MAX_ENTRIES).map(words).collect::<Vec<_>>().join("; ");
    let message = quoted(&message);
    Error::Status { subject: call.subject.clone(), registry: call.host.registry.to_owned(), status, message, retry_after, refused: None }
}

/// A registry that wants more is believed no more.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Errors of one answer that are shown.
const MAX_ENTRIES: usize = 8;

/// `Retry-After`, as seconds or as a moment.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LONGEST_WAIT));
    }
    let moment = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(moment.duration_since(jiff::Timestamp::now())).unwrap_or_default().min(LONGEST_WAIT))
}

/// Why a body was not read to its end.
enum Unread {
    Long,
    Slow(Slow),
    Broken(reqwest::Error),
}

/// A body of `limit` bytes at most, at that pace.
async fn body(mut response: Response, limit: usize, pace: Pace) -> Result<Vec<u8>, Unread> {
    let mut meter = Meter::new(pace, limit as u64);
    let mut bytes = Vec::new();
    while let Some(chunk) = meter.wait(response.chunk()).await.map_err(Unread::Slow)?.map_err(Unread::Broken)? {
        if bytes.len() + chunk.len() > limit {
            return Err(Unread::Long);
        }
        bytes.extend_from_slice(&chunk);
        meter.came(chunk.len() as u64).map_err(Unread::Slow)?;
    }
    Ok(bytes)
}

/// Remembers a bounded number; whatever is forgotten is asked for again.
fn remember<T>(known: &Mutex<HashMap<(String, String), T>>, key: (String, String), value: T) {
    let mut known = lock(known);
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert(key, value);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are whole after every insertion, so a panic elsewhere leaves them usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-GEN-14: which hosts are loopback.
    #[test]
    fn loopback_hosts() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:80", "127.9.9.9", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(registry), "{registry}");
        }
        for registry in ["localhost.example.com", "10.0.0.1:5000", "example.com", "128.0.0.1", "[::2]:80"] {
            assert!(!is_loopback(registry), "{registry}");
        }
    }

    #[test]
    fn challenges_are_read() {
        let parameters = parameters_of(r#"realm="https://auth.example.com/token?a=b",service=hub, scope="repository:a:pull,push""#);
        assert_eq!(parameters["realm"], "https://auth.example.com/token?a=b");
        assert_eq!(parameters["service"], "hub");
        assert_eq!(parameters["scope"], "repository:a:pull,push");
    }
}
