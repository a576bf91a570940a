//! A real Prometheus.

use std::time::{Duration, Instant};

use mainstay_promql::check_promql;
use mainstay_testing::prometheus::Prometheus;
use mainstay_update_client::{Metrics, MetricsConfig};
use mainstay_update_graph::MatchingRule;

/// The answer to a query, once the server has started.
async fn said(server: &Prometheus, query: &str) -> String {
    let config = MetricsConfig { url: Some(server.url()), ..MetricsConfig::default() };
    let begun = Instant::now();
    loop {
        match Metrics::new(config.clone()).matches(&MatchingRule::query(query)).await {
            Ok(matches) => return matches.to_string(),
            Err(error) => {
                let error = error.to_string();
                let starts = error.contains("Get \"") || error.contains("server error: 503");
                if !starts || begun.elapsed() > Duration::from_secs(60) {
                    return error;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// CVO-RISK-03, CVO-RISK-04: queries of every outcome. CVO-GD-06: the linter refuses those that the server refuses, those whose result can be
/// no vector, and no others.
#[tokio::test]
async fn real_answers() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = Prometheus::start(place.path(), "global: {}\n") else { return };
    let two = "label_replace(vector(1), \"a\", \"b\", \"\", \"\") or vector(1)";
    for (query, expected) in [
        ("vector(1)", "true"),
        ("vector(0)", "false"),
        ("absent(nobody_knows)", "true"),
        ("max(absent(x) * 3) > bool 5", "false"),
        ("group(up) or 0 * group(vector(7))", "false"),
        ("vector(0.5)", "invalid PromQL result (must be 0 or 1): 0.5"),
        ("vector(1) / 0", "invalid PromQL result (must be 0 or 1): +Inf"),
        ("nobody_knows", "invalid PromQL result length must be one, but is 0"),
        (two, "invalid PromQL result length must be one, but is 2"),
        ("1", "invalid PromQL result type is scalar, not vector"),
        ("up[5m]", "invalid PromQL result type is matrix, not vector"),
        ("\"text\"", "executing PromQL query: unexpected value type \"string\""),
    ] {
        assert_eq!(said(&server, query).await, expected, "{query}");
        let refused =
            ["invalid PromQL result type", "executing PromQL query: unexpected value type"].iter().any(|start| expected.starts_with(start));
        assert_eq!(check_promql(query).is_err(), refused, "{query}");
    }
    for query in ["max(", "a{b=1}", "sum by a (b)", "rate(a)", "a > bool b or", "a{b=~\"(\"}", "nofunction(a)"] {
        let error = said(&server, query).await;
        assert!(error.starts_with("executing PromQL query: bad_data: "), "{query}: {error}");
        assert!(check_promql(query).is_err(), "{query}: the server says {error}");
    }
}
