//! The client of load and of recorded histories: one keep-alive HTTP/1.1 connection over TLS, as little besides as possible, so that the server is measured.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A plain request to the loopback; status line, headers and body as they come.
pub fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Where an API server is and who asks.
#[derive(Clone)]
pub struct Target {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
    connector: TlsConnector,
}

impl Target {
    /// From a kubeconfig's current context: a client certificate or a bearer token.
    pub fn read(kubeconfig: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(kubeconfig).with_context(|| format!("{} cannot be read", kubeconfig.display()))?;
        let config = mainstay_yaml::parse(&text).map_err(|error| anyhow!("{}: {error}", kubeconfig.display()))?;
        let folder = kubeconfig.parent().unwrap_or(Path::new("."));
        let context = named(&config["contexts"], config["current-context"].as_str().unwrap_or_default(), "context")?;
        let cluster = named(&config["clusters"], context["cluster"].as_str().unwrap_or_default(), "cluster")?;
        let user = named(&config["users"], context["user"].as_str().unwrap_or_default(), "user")?;
        let server = cluster["server"].as_str().unwrap_or_default();
        let uri: http::Uri = server.parse().with_context(|| format!("server {server:?}"))?;
        if uri.scheme_str() != Some("https") {
            bail!("server {server:?}: the load speaks https only");
        }
        let pem = |of: &Value, name: &str| -> anyhow::Result<Option<Vec<u8>>> {
            if let Some(data) = of[format!("{name}-data")].as_str() {
                return Ok(Some(BASE64.decode(data).with_context(|| format!("{name}-data"))?));
            }
            of[name].as_str().map(|file| fs::read(folder.join(file)).with_context(|| format!("{name} {file}"))).transpose()
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem(cluster, "certificate-authority")?.context("the cluster names no CA")?) {
            roots.add(certificate?)?;
        }
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let tls = match (pem(user, "client-certificate")?, pem(user, "client-key")?) {
            (Some(certificate), Some(key)) => {
                let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
            _ => builder.with_no_client_auth(),
        };
        let authorization = user["token"].as_str().map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose()?;
        Ok(Self {
            host: uri.host().context("the server has no host")?.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(443),
            authorization,
            connector: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Opens a connection.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(ServerName::try_from(self.host.clone())?, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // When it ends with an error, the request on it fails and says so.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection {
            sender,
            host: HeaderValue::from_str(&format!("{}:{}", self.host, self.port))?,
            authorization: self.authorization.clone(),
        })
    }
}

fn named<'a>(list: &'a Value, name: &str, member: &str) -> anyhow::Result<&'a Value> {
    let mut items = list.as_array().into_iter().flatten();
    items.find(|item| item["name"] == name).map(|item| &item[member]).with_context(|| format!("kubeconfig: no {member} {name:?}"))
}

/// One connection; requests on it go one after the other.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl Connection {
    /// Sends a request and reads the whole answer.
    pub async fn ask(&mut self, method: &str, path: &str, content_type: &'static str, body: Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(method, path, content_type, body).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request that must succeed.
    pub async fn must(&mut self, method: &str, path: &str, content_type: &'static str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, answer) = self.ask(method, path, content_type, body).await?;
        if !status.is_success() {
            bail!("{method} {path}: {status} {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    /// Sends a request that must succeed; the answer as JSON.
    pub async fn json(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        Ok(serde_json::from_slice(&self.must(method, path, JSON, body).await?)?)
    }

    /// Opens a stream: the body is not read.
    pub async fn stream(&mut self, path: &str) -> anyhow::Result<Incoming> {
        let response = self.send("GET", path, JSON, Bytes::new()).await?;
        if !response.status().is_success() {
            bail!("GET {path}: {}", response.status());
        }
        Ok(response.into_body())
    }

    async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, JSON)
            .header(header::USER_AGENT, "mainstay-bench");
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }
}

/// The media type of most bodies.
pub const JSON: &str = "application/json";
/// That of server-side apply.
pub const APPLY: &str = "application/apply-patch+yaml";
