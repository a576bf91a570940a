//! A real Prometheus.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mainstay_update_client::{Metrics, MetricsConfig};
use mainstay_update_graph::{MatchingRule, check_promql};

struct Prometheus {
    child: Child,
    url: String,
}

impl Prometheus {
    /// Starts the program of `make setup`, else of the path; says so visibly if there is none.
    fn start(folder: &Path) -> Option<Self> {
        let program = program()?;
        std::fs::write(folder.join("prometheus.yml"), "global: {}\n").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        Some(Self { child, url: format!("http://127.0.0.1:{port}") })
    }

    /// What it says of a query, once it is there.
    async fn said(&self, query: &str) -> String {
        let config = MetricsConfig { url: Some(self.url.clone()), ..MetricsConfig::default() };
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
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn program() -> Option<PathBuf> {
    let cached =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(".cache/bin/prometheus")).find(|path| path.exists());
    let found = cached.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("prometheus")).find(|candidate| candidate.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "prometheus is missing; run scripts/setup");
        eprintln!("skipped: prometheus is not installed; scripts/setup gets it");
    }
    found
}

/// CVO-RISK-03, CVO-RISK-04: queries of every outcome. CVO-GD-06: the linter refuses those that the server refuses, those whose result can be
/// no vector, and no others.
#[tokio::test]
async fn real_answers() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = Prometheus::start(place.path()) else { return };
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
        assert_eq!(server.said(query).await, expected, "{query}");
        let refused =
            ["invalid PromQL result type", "executing PromQL query: unexpected value type"].iter().any(|start| expected.starts_with(start));
        assert_eq!(check_promql(query).is_err(), refused, "{query}");
    }
    for query in ["max(", "a{b=1}", "sum by a (b)", "rate(a)", "a > bool b or", "a{b=~\"(\"}", "nofunction(a)"] {
        let error = server.said(query).await;
        assert!(error.starts_with("executing PromQL query: bad_data: "), "{query}: {error}");
        assert!(check_promql(query).is_err(), "{query}: the server says {error}");
    }
}
