//! The question to the update service (CVO-USC-02, CVO-USC-03, CVO-USC-07).

use std::time::Duration;

use http::header::{ACCEPT, HeaderMap, HeaderValue};
use mainstay_golang::http_proxy::Proxies;
use mainstay_oci::{Outbound, OutboundConfig, OutboundError, Pace};
use mainstay_update_graph::{MAX_GRAPH_BYTES, Query, RetrievalError, Retrieved, retrieve, status_text};

/// The time that a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// Between two pieces of an answer.
    pub silence: Duration,
    /// In all.
    pub total: Duration,
}

/// The limits of upstream, and an end for servers that fall silent.
pub const LIMITS: Limits = Limits { connect: Duration::from_secs(30), silence: Duration::from_secs(120), total: Duration::from_secs(3600) };

/// How requests leave the cluster, as its Proxy's status has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterProxy<'a> {
    /// `httpProxy`.
    pub http: &'a str,
    /// `httpsProxy`.
    pub https: &'a str,
    /// `noProxy`.
    pub none: &'a str,
    /// The certificates of `ca-bundle.crt`, as PEM; empty if there are none.
    pub authorities: &'a str,
}

/// The header `User-Agent` of the operator of a release.
pub fn user_agent(version: &str) -> String {
    format!("ClusterVersionOperator/{version}")
}

impl ClusterProxy<'_> {
    /// The settings of requests that leave through it.
    pub fn outbound(&self, user_agent: &str, limits: Limits) -> OutboundConfig {
        let trusted = Some(self.authorities).filter(|pem| !pem.is_empty());
        OutboundConfig {
            authorities: trusted
                .map(|pem| ("the trusted CA bundle of the cluster".to_owned(), pem.as_bytes().to_vec()))
                .into_iter()
                .collect(),
            proxies: Proxies::new(self.http, self.https, self.none, false),
            user_agent: user_agent.to_owned(),
            connect_timeout: limits.connect,
            silence: limits.silence,
            deadline: limits.total,
            pace: Pace::default(),
        }
    }
}

/// Asks the update service, and reads its answer.
pub async fn ask(query: &Query, outbound: &OutboundConfig) -> Result<Retrieved, RetrievalError> {
    let request = query.request()?;
    let client = Outbound::new(outbound).map_err(|error| RetrievalError::RemoteFailed(error.to_string()))?;
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(mainstay_update_graph::ACCEPT))]);
    let answer = client.get(&request.url, headers).await.map_err(|error| match error {
        OutboundError::NoRequest { .. } => RetrievalError::InvalidRequest(error.to_string()),
        error => RetrievalError::RemoteFailed(error.to_string()),
    })?;
    let status = status_text(answer.status());
    if answer.status() != 200 {
        return Err(RetrievalError::UnexpectedStatus(status));
    }
    let failed = |error: &dyn std::fmt::Display| RetrievalError::ResponseFailed(error.to_string());
    let body = answer.body(MAX_GRAPH_BYTES).await.map_err(|error| failed(&error))?;
    // A large graph takes its time; other work goes on meanwhile.
    let query = query.clone();
    let read = tokio::task::spawn_blocking(move || retrieve(&query, &request.version, &status, &body)).await;
    read.map_err(|error| failed(&error))?
}
