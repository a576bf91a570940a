//! Questions to the metrics of a cluster (CVO-RISK-03, CVO-RISK-04), in Prometheus' HTTP API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};
use mainstay_golang::{quote, url};
use mainstay_oci::{Outbound, OutboundConfig, OutboundError};
use mainstay_update_graph::{EvaluationError, MatchingRule};
use serde::Deserialize;
use serde_json::Value;

/// The longest time for an answer.
const DEADLINE: Duration = Duration::from_secs(300);
/// The largest answer, in bytes; the only one that counts has a single sample.
const MAX_ANSWER: usize = 16 << 20;
/// The largest token or bundle of certificates, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Where metrics are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The server, without the path of the API; `None` if there is none.
    pub url: Option<String>,
    /// A file with certificate authorities besides the system's, as PEM.
    pub authorities: Option<PathBuf>,
    /// A file with a bearer token.
    pub token: Option<PathBuf>,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// The longest time for an answer.
    pub deadline: Duration,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            url: None,
            authorities: None,
            token: None,
            user_agent: concat!("mainstay/", env!("CARGO_PKG_VERSION")).to_owned(),
            deadline: DEADLINE,
        }
    }
}

/// The metrics of a cluster.
#[derive(Debug, Clone)]
pub struct Metrics(MetricsConfig);

/// Why metrics do not say whether a rule matches.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// There is no server to ask.
    #[error("no metrics endpoint is configured")]
    NoEndpoint,
    /// The rule has no query.
    #[error("the 'promql' property is required for 'type: PromQL' conditions")]
    NoQuery,
    /// The query is empty.
    #[error("the 'promql.promql' query string must be non-empty for 'type: PromQL' conditions")]
    EmptyQuery,
    /// The server's URL cannot be read.
    #[error("creating PromQL client: {0}")]
    Url(#[from] url::InvalidUrl),
    /// A file of the configuration cannot be read.
    #[error("creating PromQL round-tripper: {path}: {error}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        error: std::io::Error,
    },
    /// A file of the configuration is too large.
    #[error("creating PromQL round-tripper: {path}: larger than {MAX_FILE} bytes", path = .0.display())]
    LargeFile(PathBuf),
    /// The token cannot be sent.
    #[error("creating PromQL round-tripper: the token cannot be a header: {0}")]
    Token(#[from] InvalidHeaderValue),
    /// The settings of TLS cannot be used.
    #[error("creating PromQL round-tripper: {0}")]
    Client(#[from] mainstay_oci::Error),
    /// No answer came, or it broke off.
    #[error("executing PromQL query: {0}")]
    Request(#[from] OutboundError),
    /// The server refused the query.
    #[error("executing PromQL query: {kind}: {message}")]
    Refused {
        /// Prometheus' type of the error.
        kind: String,
        /// Its message.
        message: String,
    },
    /// The answer is not of Prometheus' API.
    #[error("executing PromQL query: bad_response: {0}")]
    NoJson(#[from] serde_json::Error),
    /// The result is of a type that Prometheus does not have.
    #[error("executing PromQL query: unexpected value type {}", quote(.0))]
    UnknownType(String),
    /// The result is no vector.
    #[error("invalid PromQL result type is {0}, not vector")]
    Type(String),
    /// The result does not have one sample.
    #[error("invalid PromQL result length must be one, but is {0}")]
    Length(usize),
    /// The sample is no number.
    #[error("executing PromQL query: the sample {0} is no number")]
    Sample(String),
    /// The sample is neither 0 nor 1.
    #[error("invalid PromQL result (must be 0 or 1): {0}")]
    Value(String),
}

impl From<MetricsError> for EvaluationError {
    fn from(error: MetricsError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    status: String,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    data: Data,
}

#[derive(Default, Deserialize)]
struct Data {
    #[serde(default, rename = "resultType")]
    result_type: String,
    #[serde(default)]
    result: Value,
}

impl Metrics {
    /// The metrics of this configuration. Files are read at each question: tokens and certificates are renewed.
    pub fn new(config: MetricsConfig) -> Self {
        Self(config)
    }

    /// Asks whether a rule of type `PromQL` matches: one sample of 0 or 1.
    pub async fn matches(&self, rule: &MatchingRule) -> Result<bool, MetricsError> {
        let query = &rule.promql.as_ref().ok_or(MetricsError::NoQuery)?.promql;
        if query.is_empty() {
            return Err(MetricsError::EmptyQuery);
        }
        let place = self.0.url.as_deref().ok_or(MetricsError::NoEndpoint)?;
        let mut place = url::parse(place)?;
        place.path = format!("{}/api/v1/query", place.path.trim_end_matches('/'));
        // The time is the server's: a cluster whose time is accelerated would ask for a future without samples.
        place.query = url::encode_query(&[("query".to_owned(), vec![query.clone()])].into());
        let answer = self.client().await?.get(&place.to_string(), self.headers().await?).await?;
        let status = answer.status();
        judge(status, &answer.body(MAX_ANSWER).await?)
    }

    async fn client(&self) -> Result<Outbound, MetricsError> {
        let authorities = match &self.0.authorities {
            Some(path) => vec![(path.display().to_string(), read(path).await?)],
            None => Vec::new(),
        };
        let config = OutboundConfig {
            authorities,
            user_agent: self.0.user_agent.clone(),
            silence: self.0.deadline,
            deadline: self.0.deadline,
            ..OutboundConfig::default()
        };
        Ok(Outbound::new(&config)?)
    }

    async fn headers(&self) -> Result<HeaderMap, MetricsError> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        if let Some(path) = &self.0.token {
            let token = read(path).await?;
            let mut value = HeaderValue::from_bytes(&[b"Bearer ", token.trim_ascii()].concat())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, MetricsError> {
    let io = |error| MetricsError::File { path: path.to_owned(), error };
    if tokio::fs::metadata(path).await.map_err(io)?.len() > MAX_FILE {
        return Err(MetricsError::LargeFile(path.to_owned()));
    }
    tokio::fs::read(path).await.map_err(io)
}

/// Reads an answer as Prometheus' own client does.
fn judge(status: u16, body: &[u8]) -> Result<bool, MetricsError> {
    let refused = |kind: &str, message: String| Err(MetricsError::Refused { kind: kind.to_owned(), message });
    // These two carry an error of the API.
    let has_error = matches!(status, 400 | 422);
    match status {
        200..=299 | 400 | 422 => {}
        401..=499 => return refused("client_error", format!("client error: {status}")),
        500..=599 => return refused("server_error", format!("server error: {status}")),
        _ => return refused("bad_response", format!("bad response code {status}")),
    }
    let answer: Answer = serde_json::from_slice(body)?;
    for warning in &answer.warnings {
        tracing::warn!(warning, "metrics were asked");
    }
    if has_error == (answer.status == "success") {
        return refused("bad_response", "inconsistent body for response code".to_owned());
    }
    if answer.status != "success" {
        return refused(&answer.error_type, answer.error);
    }
    sample(&answer.data)
}

fn sample(data: &Data) -> Result<bool, MetricsError> {
    match data.result_type.as_str() {
        "vector" => {}
        other @ ("scalar" | "matrix") => return Err(MetricsError::Type(other.to_owned())),
        other => return Err(MetricsError::UnknownType(other.to_owned())),
    }
    let none = Vec::new();
    let [sample] = data.result.as_array().unwrap_or(&none).as_slice() else {
        return Err(MetricsError::Length(data.result.as_array().map_or(0, Vec::len)));
    };
    let value = &sample["value"][1];
    let text = value.as_str().ok_or_else(|| MetricsError::Sample(value.to_string()))?;
    // Rust and Go read the same numbers, and `NaN`, `+Inf` and `-Inf` besides.
    match text.parse::<f64>() {
        Ok(0.0) => Ok(false),
        Ok(1.0) => Ok(true),
        Ok(_) => Err(MetricsError::Value(text.to_owned())),
        Err(_) => Err(MetricsError::Sample(value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> String {
        judge(status, body.as_bytes()).map_or_else(|error| error.to_string(), |matches| matches.to_string())
    }

    fn vector(samples: &str) -> String {
        format!(r#"{{"status": "success", "data": {{"resultType": "vector", "result": [{samples}]}}}}"#)
    }

    /// CVO-RISK-03: one sample of 0 or 1; everything else is an error that says what came.
    #[test]
    fn results() {
        let sample = |value: &str| vector(&format!(r#"{{"metric": {{}}, "value": [1700000000.1, {value}]}}"#));
        for (body, expected) in [
            (sample("\"0\""), "false"),
            (sample("\"1\""), "true"),
            (sample("\"1.0\""), "true"),
            (sample("\"-0\""), "false"),
            (sample("\"0.5\""), "invalid PromQL result (must be 0 or 1): 0.5"),
            (sample("\"2\""), "invalid PromQL result (must be 0 or 1): 2"),
            (sample("\"NaN\""), "invalid PromQL result (must be 0 or 1): NaN"),
            (sample("\"+Inf\""), "invalid PromQL result (must be 0 or 1): +Inf"),
            (sample("1"), "executing PromQL query: the sample 1 is no number"),
            (sample("\"one\""), "executing PromQL query: the sample \"one\" is no number"),
            (vector(""), "invalid PromQL result length must be one, but is 0"),
            (vector("{}, {}"), "invalid PromQL result length must be one, but is 2"),
            (
                r#"{"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}"#.to_owned(),
                "invalid PromQL result type is scalar, not vector",
            ),
            (
                r#"{"status": "success", "data": {"resultType": "matrix", "result": []}}"#.to_owned(),
                "invalid PromQL result type is matrix, not vector",
            ),
            (
                r#"{"status": "success", "data": {"resultType": "string", "result": [1, "1"]}}"#.to_owned(),
                "executing PromQL query: unexpected value type \"string\"",
            ),
            (r#"{"status": "success"}"#.to_owned(), "executing PromQL query: unexpected value type \"\""),
        ] {
            assert_eq!(said(200, &body), expected, "{body}");
        }
    }

    /// CVO-RISK-04: what servers answer instead of a result.
    #[test]
    fn refusals() {
        let error = r#"{"status": "error", "errorType": "bad_data", "error": "1:1: parse error"}"#;
        for (status, body, expected) in [
            (400, error, "executing PromQL query: bad_data: 1:1: parse error"),
            (
                422,
                r#"{"status": "error", "errorType": "execution", "error": "too many samples"}"#,
                "executing PromQL query: execution: too many samples",
            ),
            (400, r#"{"status": "success"}"#, "executing PromQL query: bad_response: inconsistent body for response code"),
            (200, error, "executing PromQL query: bad_response: inconsistent body for response code"),
            (401, "", "executing PromQL query: client_error: client error: 401"),
            (503, "", "executing PromQL query: server_error: server error: 503"),
            (304, "", "executing PromQL query: bad_response: bad response code 304"),
            (200, "<html>", "executing PromQL query: bad_response: expected value at line 1 column 1"),
        ] {
            assert_eq!(said(status, body), expected);
        }
    }
}
