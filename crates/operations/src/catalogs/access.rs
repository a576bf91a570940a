//! Access to the content that a catalog serves. From outside of a cluster its Service is reached only through the API.

use std::error::Error;
use std::time::Duration;

use futures::{AsyncReadExt as _, StreamExt as _};
use http::Uri;
use kube::Client;
use mainstay_diagnostics::Failure;
use mainstay_runtime::Cluster;

use crate::session::Session;

/// Size limit of a catalog that is fetched, in bytes.
const MAX_CONTENT: usize = 1 << 30;
/// Time limit for fetching a catalog.
const FETCH: Duration = Duration::from_secs(120);

/// Access to addresses of the cluster, as this session's user.
pub struct CatalogAccess {
    direct: reqwest::Client,
    api: Client,
}

impl CatalogAccess {
    /// Creates access with the kubeconfig's identity through the API, and with its certificate authorities everywhere else.
    pub fn new(session: &Session) -> Result<Self, Failure> {
        let mut builder = reqwest::Client::builder().timeout(FETCH);
        if let Cluster::Remote(config) = &session.cluster {
            for certificate in config.root_cert.iter().flatten() {
                let certificate = reqwest::Certificate::from_der(certificate).map_err(|error| Failure::failed("kubeconfig", &error))?;
                builder = builder.add_root_certificate(certificate);
            }
            if config.accept_invalid_certs {
                builder = builder.danger_accept_invalid_certs(true);
            }
        }
        let direct = builder.build().map_err(|error| Failure::failed("HTTP client", &error))?;
        Ok(Self { direct, api: session.client.clone() })
    }

    /// Fetches the content at an address.
    pub async fn fetch(&self, url: &str) -> Result<Vec<u8>, AccessError> {
        match url.parse().ok().as_ref().and_then(through_api) {
            Some(path) => {
                let answer = tokio::time::timeout(FETCH, self.through_api(&path)).await;
                answer.unwrap_or(Err(AccessError::TimedOut))
            }
            None => self.directly(url).await,
        }
    }

    async fn through_api(&self, path: &str) -> Result<Vec<u8>, AccessError> {
        let request = http::Request::get(path).body(Vec::new()).map_err(through)?;
        let answer = self.api.request_stream(request).await.map_err(through)?;
        let mut bytes = Vec::new();
        let limit = u64::try_from(MAX_CONTENT).unwrap_or(u64::MAX).saturating_add(1);
        std::pin::pin!(answer).take(limit).read_to_end(&mut bytes).await.map_err(through)?;
        if bytes.len() > MAX_CONTENT { Err(AccessError::TooLarge) } else { Ok(bytes) }
    }

    async fn directly(&self, url: &str) -> Result<Vec<u8>, AccessError> {
        let response = self.direct.get(url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            bytes.extend_from_slice(&chunk?);
            if bytes.len() > MAX_CONTENT {
                return Err(AccessError::TooLarge);
            }
        }
        Ok(bytes)
    }
}

/// The reason why an address was not read.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The API server did not lead to the address.
    #[error("through the API server")]
    ThroughApi(#[source] Box<dyn Error + Send + Sync>),
    /// The address did not answer a direct request.
    #[error(transparent)]
    Direct(#[from] reqwest::Error),
    /// The request took too long.
    #[error("not within {} seconds", FETCH.as_secs())]
    TimedOut,
    /// The content is larger than any catalog.
    #[error("more than {MAX_CONTENT} bytes")]
    TooLarge,
}

fn through(error: impl Error + Send + Sync + 'static) -> AccessError {
    AccessError::ThroughApi(Box::new(error))
}

/// Returns the path of the API that leads to a Service, if the address names one. Outside of the cluster such a name is not known, and its
/// certificate is not trusted.
fn through_api(url: &Uri) -> Option<String> {
    let (scheme, host) = (url.scheme_str()?, url.host()?);
    let mut labels = host.trim_end_matches('.').split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    if labels.next() != Some("svc") {
        return None;
    }
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some(format!("/api/v1/namespaces/{namespace}/services/{scheme}:{name}:{port}/proxy{}", url.path()))
}

#[cfg(test)]
mod tests {
    use super::{Uri, through_api};

    /// MS-CLI-05, OLM1-CAT-13: catalogs of a real cluster are reached through its API, those with an address for everybody directly.
    #[test]
    fn services_are_reached_through_the_api() {
        let way = |url: &'static str| through_api(&Uri::from_static(url));
        let proxied = |service: &str| Some(format!("/api/v1/namespaces/olmv1-system/services/{service}/proxy/catalogs/c/api/v1/all"));
        assert_eq!(way("https://catalogd-service.olmv1-system.svc/catalogs/c/api/v1/all"), proxied("https:catalogd-service:443"));
        assert_eq!(
            way("http://catalogd-service.olmv1-system.svc.cluster.local:8080/catalogs/c/api/v1/all"),
            proxied("http:catalogd-service:8080")
        );
        for direct in ["https://127.0.0.1:8443/catalogs/c", "https://catalogs.example.com/c", "https://svc/c", "https://a.b.svcs/c"] {
            assert_eq!(way(direct), None, "{direct}");
        }
    }
}
