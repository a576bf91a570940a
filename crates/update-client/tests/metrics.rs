//! Metrics that answer, and those that do not.

use std::time::Duration;

use mainstay_update_client::{Metrics, MetricsConfig};
use mainstay_update_graph::{EvaluationError, MatchingRule};

use crate::server::{Reply, start, with_tls};

const ONE: &str =
    r#"{"status": "success", "warnings": ["x"], "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "1"]}]}}"#;

fn config(url: &str) -> MetricsConfig {
    MetricsConfig { url: Some(url.to_owned()), deadline: Duration::from_secs(2), ..MetricsConfig::default() }
}

async fn said(config: MetricsConfig, query: &str) -> String {
    let answer = Metrics::new(config).matches(&MatchingRule::query(query)).await;
    answer.map_or_else(|error| EvaluationError::from(error).to_string(), |matches| matches.to_string())
}

/// CVO-RISK-03, CVO-RISK-04: the question, its token, which is read anew each time, and the authority of the server.
#[tokio::test]
async fn a_question() {
    let (plain, seen) = start(Reply::Body(200, ONE.to_owned())).await;
    let (url, pem) = with_tls(&plain).await;
    let place = tempfile::tempdir().unwrap();
    let (token, authorities) = (place.path().join("token"), place.path().join("ca.crt"));
    std::fs::write(&token, "first\n").unwrap();
    std::fs::write(&authorities, pem).unwrap();
    let config = MetricsConfig { token: Some(token.clone()), authorities: Some(authorities), ..config(&format!("{url}/prefix/")) };
    assert_eq!(said(config.clone(), "max(a{b=\"c d\"}) > bool 0").await, "true");
    std::fs::write(&token, "second").unwrap();
    assert_eq!(said(config.clone(), "up").await, "true");
    let asked: Vec<(String, String)> = {
        let seen = seen.lock().unwrap();
        seen.iter().map(|(uri, headers)| (uri.to_string(), headers["authorization"].to_str().unwrap().to_owned())).collect()
    };
    assert_eq!(
        asked,
        [
            ("/prefix/api/v1/query?query=max%28a%7Bb%3D%22c+d%22%7D%29+%3E+bool+0".to_owned(), "Bearer first".to_owned()),
            ("/prefix/api/v1/query?query=up".to_owned(), "Bearer second".to_owned()),
        ]
    );
    std::fs::remove_file(&token).unwrap();
    assert!(said(config.clone(), "up").await.starts_with("creating PromQL round-tripper: "));
    let distrusted = said(MetricsConfig { token: None, authorities: None, ..config }, "up").await;
    assert!(
        distrusted.starts_with("executing PromQL query: Get \"https://localhost:") && distrusted.contains("certificate"),
        "{distrusted}"
    );
}

/// CVO-RISK-03, CVO-RISK-04: without an endpoint, and with servers that are of no use, every rule has its error.
#[tokio::test]
async fn no_answer() {
    assert_eq!(said(MetricsConfig::default(), "up").await, "no metrics endpoint is configured");
    assert_eq!(said(config("http://a"), "").await, "the 'promql.promql' query string must be non-empty for 'type: PromQL' conditions");
    assert!(said(config("http://a b"), "up").await.starts_with("creating PromQL client: parse \"http://a b\": "));
    let always = Metrics::new(config("http://a")).matches(&MatchingRule::always()).await.unwrap_err();
    assert_eq!(always.to_string(), "the 'promql' property is required for 'type: PromQL' conditions");
    for (reply, expected) in [
        (Reply::Body(503, String::new()), "executing PromQL query: server_error: server error: 503"),
        (Reply::Large(20), "executing PromQL query: the answer is longer than 16777216 bytes"),
        (Reply::Drips, "executing PromQL query: the answer is given up: its time has run out"),
        (Reply::Body(200, "garbage".to_owned()), "executing PromQL query: bad_response: expected value at line 1 column 1"),
    ] {
        let (url, _) = start(reply).await;
        assert_eq!(said(config(&url), "up").await, expected);
    }
    for reply in [Reply::Silent, Reply::Loop] {
        let (url, _) = start(reply).await;
        let error = said(config(&url), "up").await;
        assert!(error.starts_with(&format!("executing PromQL query: Get \"{url}/api/v1/query?query=up\": ")), "{error}");
    }
}
