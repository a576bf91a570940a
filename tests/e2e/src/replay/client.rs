//! The smallest client that playing needs: a kubeconfig's certificate, TLS, HTTP/1.1 by hand, impersonation.
//!
//! Nothing is done for the request that the scenario does not say: no redirects, no compression, no path that is tidied.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::json::Json;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(40);

/// The server under test and the identity that scenarios have unless they say otherwise.
pub struct Target {
    authority: String,
    host: ServerName<'static>,
    identified: Arc<ClientConfig>,
    anonymous: Arc<ClientConfig>,
    token: Option<HeaderValue>,
    /// Factor on the time that an `until` waits.
    pub patience: f64,
    /// Whether a new namespace gets its ServiceAccount and ConfigMap; until one did not.
    pub fills_namespaces: AtomicBool,
}

impl Target {
    /// Server and identity (a client certificate or a bearer token) of a kubeconfig with one cluster and one user.
    pub fn from_kubeconfig(path: &Path, patience: f64) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let config = mainstay_yaml::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let folder = path.parent().unwrap_or(Path::new("."));
        let pem = |from: &serde_json::Value, key: &str| {
            if let Some(data) = from[format!("{key}-data")].as_str() {
                return STANDARD.decode(data).with_context(|| format!("{}: {key}-data", path.display()));
            }
            let file = from[key].as_str().with_context(|| format!("{}: no {key}", path.display()))?;
            std::fs::read(folder.join(file)).with_context(|| format!("{}: {key} {file}", path.display()))
        };
        let server = cluster["server"].as_str().unwrap_or_default();
        let authority =
            server.strip_prefix("https://").with_context(|| format!("the server {server:?} is not https"))?.trim_end_matches('/');
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_owned();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem(cluster, "certificate-authority")?) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let begin = || anyhow::Ok(ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?);
        let token = user["token"].as_str().map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose()?;
        let identified = begin()?.with_root_certificates(roots.clone());
        let identified = if token.is_some() {
            identified.with_no_client_auth()
        } else {
            let chain = CertificateDer::pem_slice_iter(&pem(user, "client-certificate")?).collect::<Result<Vec<_>, _>>()?;
            identified.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&pem(user, "client-key")?)?)?
        };
        Ok(Self {
            authority: authority.to_owned(),
            host: ServerName::try_from(host)?,
            identified: Arc::new(identified),
            token,
            anonymous: Arc::new(begin()?.with_root_certificates(roots).with_no_client_auth()),
            patience,
            fills_namespaces: AtomicBool::new(true),
        })
    }

    async fn connect(&self, identified: bool) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let config = if identified { &self.identified } else { &self.anonymous };
        let stream = TlsConnector::from(config.clone()).connect(self.host.clone(), stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // How a connection ends shows in its requests.
        tokio::spawn(async { connection.await.ok() });
        Ok(sender)
    }

    fn request(&self, step: &Json) -> Result<Request<Full<Bytes>>> {
        let body = match (step.get("bodyText"), step.get("body")) {
            (Some(text), _) => text.as_str().context("bodyText is no text")?.to_owned(),
            (None, Some(body)) => body.to_string(),
            (None, None) => String::new(),
        };
        let mut path = escaped(step.get("path").and_then(Json::as_str).context("a step without a path")?, b"/%:@!$&'()*+,;=~-._");
        for (index, (key, value)) in step.get("query").map_or(&[][..], Json::members).iter().enumerate() {
            let value = escaped(&super::pointer::plain(value), b"-._~ ").replace(' ', "+");
            write!(path, "{}{}={value}", if index == 0 { '?' } else { '&' }, escaped(key, b"-._~"))?;
        }
        let method = step.get("method").and_then(Json::as_str).unwrap_or("GET");
        let mut request = Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body.clone())))?;
        *request.headers_mut() = headers(step)?;
        if let Some(token) = self.token.as_ref().filter(|_| !step.has("auth")) {
            request.headers_mut().insert("authorization", token.clone());
        }
        request.headers_mut().insert("host", HeaderValue::from_str(&self.authority)?);
        request.headers_mut().insert("content-length", HeaderValue::from(body.len()));
        Ok(request)
    }
}

fn headers(step: &Json) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    // The name of the client that recorded stands in managed fields.
    for (name, value) in [("user-agent", "kube-replay/1"), ("accept", "application/json"), ("content-type", "application/json")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(token) = step.get("auth").and_then(|auth| auth.get("token")).and_then(Json::as_str) {
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}"))?);
    }
    for (name, value) in step.get("headers").map_or(&[][..], Json::members) {
        headers.insert(HeaderName::try_from(name.as_str())?, HeaderValue::from_str(value.as_str().context("a header is no text")?)?);
    }
    let mut add = |name: &str, value: &Json| -> Result<()> {
        let value = value.as_str().with_context(|| format!("{name} is no text"))?;
        headers.append(HeaderName::try_from(name)?, HeaderValue::from_str(value)?);
        Ok(())
    };
    let Some(identity) = step.get("as") else { return Ok(headers) };
    for part in ["user", "uid"] {
        identity.get(part).map_or(Ok(()), |value| add(&format!("impersonate-{part}"), value))?;
    }
    for group in identity.get("groups").map_or(&[][..], Json::items) {
        add("impersonate-group", group)?;
    }
    for (key, values) in identity.get("extra").map_or(&[][..], Json::members) {
        for value in values.items() {
            add(&format!("impersonate-extra-{}", escaped(key, b"-._~").to_lowercase()), value)?;
        }
    }
    Ok(headers)
}

/// Percent-encoding of everything but letters, digits and these.
/// One hexadecimal digit.
fn hex(digit: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(digit)])
}

fn escaped(text: &str, safe: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || safe.contains(&byte) {
            escaped.push(byte as char);
        } else {
            escaped.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    escaped
}

/// The connections of one scenario: one with the target's identity, one for steps that bring their own or none.
pub struct Session<'a> {
    /// Whom it talks to.
    pub target: &'a Target,
    open: [Option<SendRequest<Full<Bytes>>>; 2],
}

/// Status, the headers that are compared, every header, and the body, parsed when it is JSON.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `content-type`, `retry-after` and the list of `warning`.
    pub headers: Json,
    /// For `save`.
    pub all: HeaderMap,
    /// The body.
    pub body: Json,
}

impl<'a> Session<'a> {
    /// No connection is open yet.
    pub fn new(target: &'a Target) -> Self {
        Self { target, open: [None, None] }
    }

    /// Sends the request of a step and reads the answer.
    pub async fn send(&mut self, step: &Json) -> Result<Answer> {
        let request = self.target.request(step)?;
        let identified = !step.has("auth");
        timeout(REQUEST, async {
            if let Some(mut sender) = self.open[usize::from(identified)].take() {
                // A connection that the server closed meanwhile is no answer of the server.
                if sender.ready().await.is_ok() {
                    match sender.send_request(request.clone()).await {
                        Ok(response) => return self.keep(identified, sender, response).await,
                        Err(error) if error.is_closed() || error.is_canceled() || error.is_incomplete_message() => {}
                        Err(error) => bail!(error),
                    }
                }
            }
            let mut sender = self.target.connect(identified).await?;
            let response = sender.send_request(request).await?;
            self.keep(identified, sender, response).await
        })
        .await
        .with_context(|| format!("no answer in {} s", REQUEST.as_secs()))?
    }

    async fn keep(&mut self, identified: bool, sender: SendRequest<Full<Bytes>>, response: Response<Incoming>) -> Result<Answer> {
        let answer = read(response).await?;
        self.open[usize::from(identified)] = Some(sender);
        Ok(answer)
    }

    /// Sends a request on a connection of its own; the unread response ends with the value beside it.
    pub async fn stream(&self, step: &Json) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>)> {
        let request = self.target.request(step)?;
        timeout(REQUEST, async {
            let mut sender = self.target.connect(!step.has("auth")).await?;
            Ok((sender.send_request(request).await?, sender))
        })
        .await
        .with_context(|| format!("no answer in {} s", REQUEST.as_secs()))?
    }

    /// A request that is no step of the scenario.
    pub async fn ask(&mut self, method: &str, path: &str, more: impl IntoIterator<Item = (&str, Json)>) -> Result<Answer> {
        let step = [("method", Json::from(method)), ("path", Json::from(path))].into_iter().chain(more);
        self.send(&Json::object(step)).await
    }
}

/// Reads an answer to its end.
pub async fn read(response: Response<Incoming>) -> Result<Answer> {
    let (parts, body) = response.into_parts();
    let raw = body.collect().await?.to_bytes();
    let raw = String::from_utf8_lossy(&raw);
    let last = |name: &str| parts.headers.get_all(name).iter().next_back().and_then(|value| value.to_str().ok());
    let mut headers: Vec<(&str, Json)> =
        ["content-type", "retry-after"].into_iter().filter_map(|name| last(name).map(|value| (name, value.into()))).collect();
    let warnings: Vec<Json> =
        parts.headers.get_all("warning").iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned().into()).collect();
    if !warnings.is_empty() {
        headers.push(("warning", Json::Array(warnings)));
    }
    // The index of /openapi/v3 calls itself text/plain.
    let says_json = last("content-type").unwrap_or_default().contains("json") || raw.starts_with('{');
    let parsed = says_json.then(|| serde_json::from_str(&raw).ok()).flatten();
    let body = parsed.unwrap_or_else(|| Json::String(raw.into_owned()));
    Ok(Answer { status: parts.status.as_u16(), headers: Json::object(headers), all: parts.headers, body })
}
