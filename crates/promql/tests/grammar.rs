//! The grammar, compared with a real Prometheus.

use mainstay_promql::{PromqlError, PromqlProblem, check_promql};
use mainstay_testing::prometheus::Prometheus;

use crate::encoded;

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

/// CVO-GD-06: of 3,000 random queries those are refused that the server refuses.
#[test]
fn random_queries() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = Prometheus::start(place.path(), "global: {}\n") else { return };
    let (mut queries, mut accepted, mut different) = (Queries(7), 0, Vec::new());
    for _ in 0..3000 {
        let query = queries.query();
        let said = server.get(&format!("/api/v1/format_query?query={}", encoded(&query)));
        let good = said.contains("\"status\":\"success\"");
        let ours: Result<(), PromqlError> = check_promql(&query);
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
