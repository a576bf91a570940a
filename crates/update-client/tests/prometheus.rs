//! A real Prometheus.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mainstay_oci::{Outbound, OutboundConfig};
use mainstay_update_client::{Metrics, MetricsConfig};
use mainstay_update_graph::{MatchingRule, PromqlProblem, check_promql};

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

/// Random texts of the grammar, and such with a fault.
struct Queries(u64);

impl Queries {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn many(&mut self, most: usize, mut one: impl FnMut(&mut Self) -> String) -> String {
        (0..self.below(most + 1)).map(|_| one(self)).collect::<Vec<_>>().join(",")
    }

    fn labels(&mut self) -> String {
        let list = self.many(2, |queries| queries.one_of(&["a", "b", "by", "on", "le", "_x1", "sum"]).to_owned());
        format!("({list})")
    }

    fn matchers(&mut self) -> String {
        let list = self.many(2, |queries| {
            let name = queries.one_of(&["a", "b", "__name__", "le", "by", "offset"]);
            let operator = queries.one_of(&["=", "!=", "=~", "!~"]);
            let value = queries.one_of(&["\"x\"", "\"\"", "'y.*'", "`z|`", "\"a\\\\.b\"", "\"[\"", "\".+\"", "\"\\x41\\u00e4\\101\\n\""]);
            format!("{name}{operator}{value}")
        });
        format!("{{{list}}}")
    }

    fn selector(&mut self) -> String {
        let name = self.one_of(&["up", "a:b", "x_total", "sum", "", "rate", "start", "inf_x", "group_left1"]);
        let matchers = if self.below(2) == 0 || name.is_empty() { self.matchers() } else { String::new() };
        format!("{name}{matchers}")
    }

    fn duration(&mut self) -> &'static str {
        self.one_of(&["5m", "1h30m", "1d", "90s", "1y2w", "100ms", "5", "m5", "30m1h", "0s"])
    }

    fn matrix(&mut self, depth: usize) -> String {
        let (range, step) = (self.duration(), self.one_of(&["", "", ":", ":1m"]));
        let inner = if step.is_empty() { self.selector() } else { self.operand(depth) };
        format!("{inner}[{range}{step}]{}", self.suffix())
    }

    fn suffix(&mut self) -> String {
        match self.below(10) {
            0 => format!(" offset {}", self.duration()),
            1 => format!(" offset -{}", self.duration()),
            2 => " @ 1700000000.5".to_owned(),
            3 => format!(" @ {}()", self.one_of(&["start", "end", "now"])),
            _ => String::new(),
        }
    }

    fn operand(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        match if depth == 0 { self.below(3) } else { self.below(10) } {
            0 | 1 => self.selector() + &self.suffix(),
            2 => self.one_of(&["1", ".5", "1e3", "0x1F", "Inf", "-NaN", "1.", "1e", "\"text\"", "08", "+1"]).to_owned(),
            3 => format!("({})", self.expression(depth)),
            4 => {
                let name = self.one_of(&["sum", "max", "count", "topk", "quantile", "count_values", "group", "stddev", "SUM"]);
                let first = match name {
                    "topk" | "quantile" => self.one_of(&["2,", "0.5,", "up,", ""]),
                    "count_values" => self.one_of(&["\"v\",", "1,"]),
                    _ => self.one_of(&["", "", "", "1,"]),
                };
                let how = self.one_of(&["by", "without"]);
                let body = format!("({first}{})", self.expression(depth));
                match self.below(3) {
                    0 => format!("{name} {how} {}{body}", self.labels()),
                    1 => format!("{name}{body} {how} {}", self.labels()),
                    _ => format!("{name}{body}"),
                }
            }
            5 | 6 => {
                let name = self.one_of(&["rate", "increase", "max_over_time", "absent_over_time", "changes"]);
                format!("{name}({})", self.matrix(depth))
            }
            7 => {
                let name =
                    self.one_of(&["abs", "absent", "vector", "scalar", "time", "round", "hour", "timestamp", "clamp_max", "nothing"]);
                let arguments = self.many(2, |queries| queries.expression(depth));
                format!("{name}({arguments})")
            }
            8 => format!("label_replace({},\"a\",\"b\",\"c\",{})", self.expression(depth), self.one_of(&["\"d\"", "up", "'.*'"])),
            _ => format!("{}{}", self.one_of(&["-", "+"]), self.operand(depth)),
        }
    }

    fn expression(&mut self, depth: usize) -> String {
        let mut text = self.operand(depth);
        while self.below(3) == 0 {
            let operator = self
                .one_of(&["+", "-", "*", "/", "%", "^", "==", "!=", ">", "<=", "> bool", "and", "or", "unless", "atan2", "+ bool", "AND"]);
            let how = match self.below(6) {
                0 => format!(" {} {}", self.one_of(&["on", "ignoring"]), self.labels()),
                1 => format!(
                    " on {} {} {}",
                    self.labels(),
                    self.one_of(&["group_left", "group_right"]),
                    self.one_of(&["", "()", "(a)", "(z)"])
                ),
                _ => String::new(),
            };
            text = format!("{text} {operator}{how} {}", self.operand(depth));
        }
        text
    }

    /// A text, in a third of the cases with a character less, or one twice.
    fn query(&mut self) -> String {
        let mut text = self.expression(4);
        let at = self.below(text.len() * 3);
        if at < text.len() && text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
            let found = text.remove(at);
            if self.below(2) == 0 {
                text.insert_str(at, &format!("{found}{found}"));
            }
        }
        text
    }
}

/// CVO-GD-06: of 3,000 random queries the linter refuses those that the server refuses, and says the same line.
#[tokio::test]
async fn random_queries() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = Prometheus::start(place.path()) else { return };
    assert_eq!(server.said("vector(1)").await, "true");
    let client =
        Outbound::new(&OutboundConfig { proxies: mainstay_golang::http_proxy::Proxies::default(), ..OutboundConfig::default() }).unwrap();
    let (mut queries, mut accepted, mut different) = (Queries(7), 0, Vec::new());
    for _ in 0..3000 {
        let query = queries.query();
        let encoded = mainstay_golang::url::encode_query(&[("query".to_owned(), vec![query.clone()])].into());
        let answer = client.get(&format!("{}/api/v1/format_query?{encoded}", server.url), axum::http::HeaderMap::new()).await.unwrap();
        let good = answer.status() == 200;
        let said = String::from_utf8(answer.body(1 << 20).await.unwrap()).unwrap();
        let ours = check_promql(&query);
        // The server knows no rule, whose result has to be a vector.
        let accepts = match &ours {
            Ok(()) => true,
            Err(error) => matches!(&error.problem, PromqlProblem::Type { place, .. } if place == "the result"),
        };
        accepted += usize::from(good);
        if accepts != good {
            different.push(format!("{query}\n  server: {said}\n  ours: {ours:?}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} differences ({accepted} accepted):\n{}",
        different.len(),
        different[..different.len().min(25)].join("\n")
    );
    assert!((500..2500).contains(&accepted), "{accepted}");
}
