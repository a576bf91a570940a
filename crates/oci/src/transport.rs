//! Requests to a registry: scheme, credentials, and the classification of failures.
//!
//! HTTPS comes first. Plain HTTP follows only for loopback hosts and for registries configured as insecure (OLM1-GEN-14). A registry that
//! asks for a token gets one from its token service; tokens are kept by registry and scope.

mod answer;
mod authorize;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode};
use reqwest::{Body, Response, Url};

use answer::{Failed, Words, status_error};
pub(crate) use answer::{Unread, body, chain};

use crate::addresses;
use crate::auth::{Credential, Credentials};
use crate::client::ClientConfig;
use crate::error::{Error, ErrorKind};
use crate::hosts::{HostClient, HostSettings, Hosts, Purpose};
use crate::pace::{Pace, Slow};

/// The largest list of tags or similar answer, in bytes.
pub(crate) const MAX_SMALL_BODY: usize = 1 << 20;
/// The largest error document or answer of a token service, in bytes.
const MAX_WORDS: usize = 64 << 10;
/// Repositories whose tokens and credentials are remembered.
const MAX_KNOWN: usize = 4096;
/// Factor by which uploads may be slower than downloads: slow uploads cost only the time of the user who pushes.
const UPLOADS: u64 = 4;

pub(crate) struct Transport {
    hosts: Hosts,
    pace: Pace,
    credentials: Credentials,
    /// Credentials found so far, by host and repository.
    known: Mutex<HashMap<(String, String), Option<Credential>>>,
    /// The scheme that worked for a host; the flag is true if plain HTTP is allowed.
    schemes: Mutex<HashMap<(String, bool), &'static str>>,
    /// The value of `Authorization` by host and scope.
    granted: Mutex<HashMap<(String, String), String>>,
}

/// A registry, and the settings for connecting to it.
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
    /// The repository that tokens are asked for.
    pub repository: &'a str,
    pub actions: Actions,
    /// Another repository that has to be readable for this request.
    pub mounts: Option<&'a str>,
    /// Subject of errors.
    pub subject: String,
}

/// The permissions of a token.
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
    /// Does the same, and also takes blobs from another repository.
    pub(crate) fn mounting(self, repository: &'a str) -> Self {
        Self { mounts: Some(repository), ..self }
    }

    /// Returns the scopes that the token needs.
    fn scopes(&self) -> Vec<String> {
        // Without a repository only the identity is checked.
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
            hosts: Hosts::new(HostSettings::of_registries(config))?,
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
        // If a redirect led to another host, the challenge of that host is not answered with the registry's credentials.
        if response.status() == StatusCode::UNAUTHORIZED
            && self.is_own(call, response.url())
            && let Some(value) = self.authorize(call, &response, &scopes).await?
        {
            remember(&self.granted, key, value.clone());
            response = self.attempt(call, Some(&value)).await?;
        }
        // A redirect that was not followed means that the request's content arrived nowhere.
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.status_error(call, response).await)
    }

    /// Reads from an address outside of any registry, without credentials; `None` if the answer is that there is nothing.
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
        let host_client = self.hosts.client(call.host, address(call.host.registry), Purpose::Reading).await?;
        let response = self.once(&host_client, &call, call.target, None).await.map_err(|error| error.of(&call))?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(response)),
            _ => Err(status_error(&call, response, Words::Unheard, self.pace).await),
        }
    }

    /// Turns the registry's answer into an error, which names the credentials that were not accepted.
    async fn status_error(&self, call: &Call<'_>, response: Response) -> Error {
        // Only the registry itself is quoted, not a host that it redirects to.
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

    /// Makes one attempt, whatever the answer's status is.
    async fn attempt(&self, call: &Call<'_>, authorization: Option<&str>) -> Result<Response, Error> {
        let host_client = self.hosts.client(call.host, address(call.host.registry), Purpose::of(&call.method)).await?;
        if let Ok(url) = Url::parse(call.target) {
            if url.scheme() != "https" && !call.host.insecure && !is_loopback(call.host.registry) {
                return Err(Error::content(&call.subject, format!("registry {} gives an address that is not HTTPS", call.host.registry)));
            }
            let authorization = authorization.filter(|_| self.is_own(call, &url));
            return self.once(&host_client, call, call.target, authorization).await.map_err(|error| error.of(call));
        }
        let host = address(call.host.registry);
        let url = |scheme: &str| format!("{scheme}://{host}{}", call.target);
        let known = lock(&self.schemes).get(&scheme_key(call.host)).copied();
        if let Some(scheme) = known {
            return self.once(&host_client, call, &url(scheme), authorization).await.map_err(|error| error.of(call));
        }
        let (scheme, response) = match self.once(&host_client, call, &url("https"), authorization).await {
            Ok(response) => ("https", response),
            // A server whose certificate is not trusted does speak TLS on this port, so HTTP would only hide the reason.
            Err(first) if first.is_distrust() => return Err(first.of(call)),
            // A registry that cannot be connected to at all gets the same fallback, since a TLS failure cannot always be told apart.
            Err(first) if (call.host.insecure || is_loopback(call.host.registry)) && first.is_connect() => {
                match self.once(&host_client, call, &url("http"), authorization).await {
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

    /// Returns true if the URL belongs to the registry itself, as it was reached before; its credentials are sent only there.
    fn is_own(&self, call: &Call<'_>, url: &Url) -> bool {
        let scheme = lock(&self.schemes).get(&scheme_key(call.host)).copied().unwrap_or("https");
        Url::parse(&format!("{scheme}://{}", address(call.host.registry))).is_ok_and(|own| own.origin() == url.origin())
    }

    async fn once(&self, host_client: &HostClient, call: &Call<'_>, url: &str, authorization: Option<&str>) -> Result<Response, Failed> {
        if let Ok(url) = Url::parse(url) {
            addresses::check(&url, host_client.class).map_err(Failed::Reach)?;
            self.hosts.check_proxy(&url).map_err(Failed::Proxy)?;
        }
        let mut request = host_client.client.request(call.method.clone(), url).headers(call.headers.clone());
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
                // A body that fails at once becomes an error of this request.
                Err(error) => request.body(Body::wrap_stream(futures::stream::once(async { Err::<Vec<u8>, _>(error) }))),
            },
        };
        within(self.pace.transfer(sent.saturating_mul(UPLOADS)), request).await
    }

    /// Reads a body of at most `limit` bytes, at the required pace.
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

/// Returns the address of a registry; Docker Hub's registry has another name than its images.
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

/// Returns true for 127.0.0.0/8, `localhost` and `::1`, with any port.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.rsplit_once(':').map_or(registry, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns true if a URL leads to the same host, by the same scheme and port.
pub(crate) fn same_origin(target: &str, own: &Url) -> bool {
    Url::parse(target).is_ok_and(|target| target.origin() == own.origin())
}

/// Adds an entry to a bounded map; forgotten entries are asked for again.
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
}
