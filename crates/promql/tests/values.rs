//! Values of queries, compared with those of a real Prometheus that scraped the same samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, SystemTime};

use mainstay_promql::{Labels, NAME, Query, Sample, Samples};
use mainstay_testing::prometheus::Prometheus;
use serde_json::Value;

use crate::encoded;

/// The interval of scrapes and their number.
const STEP: i64 = 30_000;
const SCRAPES: i64 = 40;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

fn labels(name: &str, pairs: &[(&str, &str)]) -> Labels {
    let all = pairs.iter().copied().chain([(NAME, name)]);
    all.map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
}

/// Series as operators have them: conditions, counters that begin again, gauges with gaps, buckets.
fn series() -> Vec<Labels> {
    let mut all = Vec::new();
    for operator in ["etcd", "console", "version"] {
        all.push(labels("operator_up", &[("name", operator), ("job", "cvo"), ("reason", "AsExpected")]));
        for condition in ["Degraded", "Available"] {
            all.push(labels("operator_conditions", &[("name", operator), ("job", "cvo"), ("condition", condition), ("reason", "R")]));
        }
        all.push(labels("requests_total", &[("name", operator), ("code", "200")]));
        all.push(labels("requests_total", &[("name", operator), ("code", "500")]));
    }
    for zone in ["a", "b"] {
        all.push(labels("gauge", &[("zone", zone)]));
        all.push(labels("gauge", &[("zone", zone), ("name", "etcd")]));
        all.push(labels("odd", &[("zone", zone), ("name", "etcd")]));
        for limit in ["0.1", "1", "10", "+Inf"] {
            all.push(labels("seconds_bucket", &[("zone", zone), ("le", limit)]));
        }
    }
    all.push(labels("info", &[("name", "etcd"), ("version", "1.2")]));
    all.push(labels("info", &[("name", "console"), ("version", "1.3")]));
    all
}

/// The scrapes, oldest first.
fn scrapes(random: &mut Random, begin: i64) -> Vec<(i64, Vec<Sample>)> {
    let series = series();
    // Counters do not begin near 0: since version 3 a rate at the begin of a series is another.
    let mut values: Vec<f64> = series.iter().map(|_| 1000.0).collect();
    let mut scrapes = Vec::new();
    for scrape in 0..SCRAPES {
        let at = begin + scrape * STEP;
        let mut samples = Vec::new();
        for (labels, value) in series.iter().zip(&mut values) {
            let name = labels[NAME].as_str();
            let dice = random.below(100);
            *value = match name {
                "operator_up" | "operator_conditions" => f64::from(u8::from(dice < 60)),
                "requests_total" if dice < 5 => 0.0,
                "requests_total" => *value + f64::from(u32::try_from(dice % 7).unwrap()),
                "seconds_bucket" => *value + labels["le"].parse::<f64>().map_or(9.0, |limit| limit.min(50.0).ceil()),
                "info" => 1.0,
                "odd" if dice < 10 => f64::NAN,
                "odd" if dice < 20 => f64::INFINITY,
                _ => f64::from(u32::try_from(dice).unwrap()) - 40.0,
            };
            if name == "gauge" && random.below(4) == 0 {
                continue;
            }
            samples.push(Sample { labels: labels.clone(), value: *value });
        }
        scrapes.push((at, samples));
    }
    scrapes
}

/// The page that holds all samples with their times.
fn page(scrapes: &[(i64, Vec<Sample>)]) -> String {
    let mut by_series: BTreeMap<&Labels, Vec<(i64, f64)>> = BTreeMap::new();
    for (at, samples) in scrapes {
        for sample in samples {
            by_series.entry(&sample.labels).or_default().push((*at, sample.value));
        }
    }
    let mut page = String::new();
    for (labels, points) in by_series {
        let pairs: Vec<String> =
            labels.iter().filter(|(label, _)| *label != NAME).map(|(label, value)| format!("{label}={value:?}")).collect();
        for (at, value) in points {
            let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
            writeln!(page, "{}{{{}}} {value} {at}", labels[NAME], pairs.join(",")).unwrap();
        }
    }
    page
}

/// Serves a page until the test ends.
fn serve(page: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(page.as_bytes()));
        }
    });
    port
}

/// Queries of rules, every function that is evaluated among them.
struct Queries<'a>(&'a mut Random);

impl Queries<'_> {
    fn one_of<'b>(&mut self, list: &[&'b str]) -> &'b str {
        self.0.one_of(list)
    }

    fn selector(&mut self) -> String {
        let name = self.one_of(&["odd", "absent_metric", "", "", "", "", ""]);
        if name.is_empty() { self.finite() } else { name.to_owned() }
    }

    fn finite(&mut self) -> String {
        let name = self.one_of(&["operator_up", "operator_conditions", "requests_total", "gauge", "info", "seconds_bucket"]);
        let matchers = self.one_of(&[
            "",
            "",
            "{name=\"etcd\"}",
            "{name!=\"etcd\"}",
            "{name=~\"etcd|console\"}",
            "{condition=\"Degraded\"}",
            "{zone!~\"a.*\"}",
            "{code=\"500\",name!=\"\"}",
        ]);
        format!("{name}{matchers}")
    }

    fn offset(&mut self) -> &'static str {
        self.one_of(&["", "", "", " offset 1m", " offset -45s", " offset 4m"])
    }

    fn matrix(&mut self, depth: usize) -> String {
        let range = self.one_of(&["90s", "2m", "5m", "10m"]);
        if depth > 0 && self.0.below(5) == 0 {
            let step = self.one_of(&[":1m", ":30s", ":45s"]);
            return format!("({})[{range}{step}]{}", self.vector(depth - 1), self.offset());
        }
        format!("{}[{range}]{}", self.selector(), self.offset())
    }

    fn labels(&mut self) -> &'static str {
        self.one_of(&["(name)", "(name, job)", "(zone)", "()", "(code)", "(name, reason)", "(version)"])
    }

    fn scalar(&mut self) -> &'static str {
        self.one_of(&["0", "1", "2", "0.5", "-3", "10", "1e3", "time()", "scalar(gauge{zone=\"a\",name=\"\"})", "pi()", "NaN", "Inf"])
    }

    fn vector(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.selector() + self.offset();
        }
        let depth = depth - 1;
        match self.0.below(14) {
            0 | 1 => {
                let name = self.one_of(&[
                    "rate",
                    "increase",
                    "delta",
                    "changes",
                    "resets",
                    "irate",
                    "idelta",
                    "deriv",
                    "avg_over_time",
                    "sum_over_time",
                    "min_over_time",
                    "max_over_time",
                    "count_over_time",
                    "last_over_time",
                    "present_over_time",
                    "stddev_over_time",
                    "stdvar_over_time",
                    "absent_over_time",
                ]);
                // Since version 3 the rate of what is below 0, or has gaps at its begin, is another.
                let matrix = if matches!(name, "rate" | "increase") {
                    format!("requests_total[{}]", self.one_of(&["2m", "5m", "10m"]))
                } else {
                    self.matrix(depth)
                };
                format!("{name}({matrix})")
            }
            2 => match self.0.below(2) {
                0 => format!("quantile_over_time({}, {})", self.one_of(&["0.5", "0.9", "0", "1", "2"]), self.matrix(depth)),
                // Since version 3 a sum over an infinite value is infinite.
                _ => format!("predict_linear({}[{}], {})", self.finite(), self.one_of(&["2m", "5m"]), self.one_of(&["60", "3600"])),
            },
            3..=5 => {
                let name = self.one_of(&["sum", "max", "min", "avg", "count", "group", "stddev", "stdvar"]);
                let how = self.one_of(&["by", "without"]);
                // Since version 3 the deviation of one infinite value is no number.
                let inner = if name.starts_with("std") { self.finite() } else { self.vector(depth) };
                match self.0.below(3) {
                    0 => format!("{name}({inner})"),
                    _ => format!("{name} {how} {} ({inner})", self.labels()),
                }
            }
            6 => match self.0.below(4) {
                0 => format!("quantile by (name) (0.7, {})", self.vector(depth)),
                // The label is every digit of a value.
                1 => format!("count_values(\"count\", {})", self.finite()),
                _ => format!("{} by (name) (100, {})", self.one_of(&["topk", "bottomk"]), self.vector(depth)),
            },
            7 => {
                let name = self.one_of(&["abs", "ceil", "floor", "round", "sgn", "sqrt", "exp", "ln", "absent", "timestamp", "sort"]);
                format!("{name}({})", self.vector(depth))
            }
            8 => match self.0.below(6) {
                // The date of no number is any.
                5 => {
                    let name =
                        self.one_of(&["hour", "minute", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year"]);
                    format!("{name}(timestamp({}) + 86400 * {})", self.finite(), self.one_of(&["1", "-700", "59.5", "14000"]))
                }
                0 => format!("clamp({}, -2, 5)", self.vector(depth)),
                1 => format!("clamp_min({}, {})", self.vector(depth), self.scalar()),
                2 => format!("label_replace({}, \"short\", \"$1\", \"name\", \"(.).*\")", self.vector(depth)),
                3 => format!("label_join({}, \"both\", \"-\", \"name\", \"zone\")", self.vector(depth)),
                _ => format!(
                    "histogram_quantile(0.9, {})",
                    self.one_of(&["seconds_bucket", "rate(seconds_bucket[5m])", "sum by (le) (seconds_bucket)"])
                ),
            },
            9 | 10 => {
                let operator = self.one_of(&["+", "-", "*", "/", "^", "==", "!=", ">", "<", ">=", "<= bool", "> bool", "atan2"]);
                match self.0.below(3) {
                    // What is left of a division has no last digits to lose, if nothing was computed before.
                    2 => format!("{} % 7", self.finite()),
                    0 => format!("({}) {operator} {}", self.vector(depth), self.scalar()),
                    _ => format!("{} {operator} ({})", self.scalar(), self.vector(depth)),
                }
            }
            11 => {
                let operator = self.one_of(&["and", "or", "unless"]);
                let how = self.one_of(&["", " on (name)", " ignoring (code, reason)", " on ()"]);
                format!("({}) {operator}{how} ({})", self.vector(depth), self.vector(depth))
            }
            12 => {
                let operator = self.one_of(&["+", "-", "*", "/", "==", ">", "!= bool"]);
                let how = self.one_of(&[
                    "",
                    " on (name)",
                    " ignoring (condition)",
                    " on (name) group_left ()",
                    " on (name) group_left (version)",
                    " on (name) group_right (version)",
                    " on (zone)",
                ]);
                format!("({}) {operator}{how} ({})", self.vector(depth), self.vector(depth))
            }
            _ => format!("-({})", self.vector(depth)),
        }
    }
}

/// The server's answer: values by labels, none for an error.
fn answered(said: &str) -> Option<Vec<(Labels, f64)>> {
    let answer: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"));
    if answer["status"] != "success" {
        return None;
    }
    let number = |pair: &Value| pair[1].as_str().unwrap().parse::<f64>().unwrap();
    let result = &answer["data"]["result"];
    if answer["data"]["resultType"] == "scalar" {
        return Some(vec![(Labels::new(), number(result))]);
    }
    let of = |one: &Value| (serde_json::from_value(one["metric"].clone()).unwrap(), number(&one["value"]));
    Some(result.as_array().unwrap().iter().map(of).collect())
}

fn sorted(mut values: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    values.sort_by(|a, b| a.0.cmp(&b.0));
    values
}

fn are_equal(ours: &[(Labels, f64)], theirs: &[(Labels, f64)]) -> bool {
    let near =
        |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3);
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.0 == b.0 && near(a.1, b.1))
}

/// COP-11: of 2,000 random queries every one has the values that a real Prometheus gives it, or fails on both.
#[test]
fn random_values() {
    let mut random = Random(std::env::var("PROMQL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11));
    let now = i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    // Steps of subqueries are multiples of their length: the same ones in each run, and never the time of a sample, which since version 3 is
    // outside of a range that begins with it.
    let begin = (now - SCRAPES * STEP) / 180_000 * 180_000 + 7_000;
    let scrapes = scrapes(&mut random, begin);
    let port = serve(page(&scrapes));
    let place = tempfile::tempdir().unwrap();
    let configuration = format!(
        "scrape_configs:\n- job_name: samples\n  scrape_interval: 1s\n  honor_labels: true\n  static_configs:\n  - targets: ['127.0.0.1:{port}']\n    labels: {{job: dropped}}\n  metric_relabel_configs:\n  - {{action: labeldrop, regex: instance}}\n  - {{action: replace, source_labels: [job], regex: dropped, target_label: job, replacement: ''}}\n"
    );
    let Some(server) = Prometheus::start(place.path(), &configuration) else { return };
    let mut samples = Samples::new(i64::MAX / 2, 10_000);
    // Of samples with times the server does not know when their series are gone.
    for (at, values) in &scrapes {
        samples.insert(*at, values.iter().cloned()).unwrap();
    }
    let last = begin + (SCRAPES - 1) * STEP;
    while !server.get(&format!("/api/v1/query?query=info&time={}", last / 1000 + 1)).contains("1.3") {
        std::thread::sleep(Duration::from_millis(100));
    }
    let (mut different, mut failed, mut empty) = (Vec::new(), 0, 0);
    for _ in 0..2000 {
        // Between two samples: whether a range has its left end is another thing in another version of the server.
        let at = begin + 12_345 + i64::try_from(random.below(400)).unwrap() * 2_900;
        let text = Queries(&mut random).vector(3);
        let said = server.get(&format!("/api/v1/query?query={}&time={}.{:03}", encoded(&text), at / 1000, at % 1000));
        let theirs = answered(&said).map(sorted);
        let query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(query.unsupported(), None, "{text}");
        let ours = query.evaluate(&samples, at);
        let values = ours.as_ref().ok().map(|all| sorted(all.iter().map(|one| (one.labels.clone(), one.value)).collect()));
        let equal = match (&values, &theirs) {
            (Some(ours), Some(theirs)) => are_equal(ours, theirs),
            (None, None) => true,
            _ => false,
        };
        failed += usize::from(theirs.is_none());
        empty += usize::from(theirs.as_ref().is_some_and(Vec::is_empty));
        if !equal {
            different.push(format!("{text} at {at}\n  server: {said}\n  ours: {ours:?}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} differences ({failed} fail, {empty} are empty):\n{}",
        different.len(),
        different[..different.len().min(12)].join("\n")
    );
    assert!(failed < 800 && empty < 900, "{failed} fail, {empty} are empty");
}
