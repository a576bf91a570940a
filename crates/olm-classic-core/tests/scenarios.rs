//! Scenario tables of resolutions: a world in a few lines, and its answer.
//!
//! ```text
//!   group [fails-forward] [excludes-global]
//!   catalog NAME [in NAMESPACE] [priority N] [unreachable]
//!     PACKAGE CHANNEL[*] BUNDLE VERSION [replaces B] [skips B]... [range R] [gives KIND]... [needs KIND]... [needs-package P R]
//!             [needs-all P R KIND] [certified] [deprecated] [rule EXPRESSION : MESSAGE]          * marks the default channel
//!   csv NAME VERSION [package P] [gives KIND]... [needs KIND]... [replaces CSV] [phase PHASE]
//!   sub NAME PACKAGE CHANNEL CATALOG [NAMESPACE] [installed CSV] [starting CSV]          - is nothing
//! ```

use std::fmt::Write as _;

use mainstay_olm_classic_core::cases;
use serde_json::{Value, json};

/// OLM0-UPG-01, OLM0-UPG-02, OLM0-UPG-04, OLM0-UPG-05, OLM0-UPG-07, OLM0-UPG-08, OLM0-UPG-09, OLM0-UPG-12, OLM0-UPG-14, OLM0-UPG-15:
/// the update graph.
#[test]
fn graph() {
    table("graph", include_str!("scenarios/graph.txt"));
}

/// OLM0-RES-02, OLM0-RES-07, OLM0-RES-08, OLM0-RES-10, OLM0-RES-15, OLM0-RES-16, OLM0-RES-17, OLM0-RES-18, OLM0-RES-19, OLM0-RES-20,
/// OLM0-RES-21, OLM0-RES-26, OLM0-RES-27, OLM0-RES-31: dependencies, preferences, and the words for what cannot be.
#[test]
fn dependencies() {
    table("dependencies", include_str!("scenarios/dependencies.txt"));
}

fn table(name: &str, text: &str) {
    let mut different = String::new();
    let mut count = 0;
    for scenario in text.split("\n== ").map(|one| one.trim_start_matches("== ")) {
        let (title, rest) = scenario.split_once('\n').unwrap();
        let (world, expected) = rest.split_once("--\n").unwrap();
        let answer = told(&cases::resolution(&input(world)).unwrap()["resolve"]);
        count += 1;
        if answer.trim() != expected.trim() {
            writeln!(different, "== {title}\n{answer}").unwrap();
        }
    }
    assert!(count > 20 && different.is_empty(), "{name} has other answers:\n{different}");
}

/// An answer in lines.
fn told(answer: &Value) -> String {
    let Some(install) = answer["install"].as_array() else { return answer["error"].as_str().unwrap().to_owned() };
    if install.is_empty() {
        return "nothing".to_owned();
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = install.iter().map(|one| {
        let mut line = format!("install {} {} {}", text(&one["bundle"]), text(&one["channel"]), text(&one["catalog"]["name"]));
        for (word, field) in [("replaces", "replaces"), ("starting", "startingCSV")] {
            if one[field] != "" {
                write!(line, " {word} {}", text(&one[field])).unwrap();
            }
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

const WORDS: [&str; 18] = [
    "in",
    "priority",
    "unreachable",
    "replaces",
    "skips",
    "range",
    "gives",
    "needs",
    "needs-package",
    "needs-all",
    "certified",
    "deprecated",
    "rule",
    "package",
    "phase",
    "installed",
    "starting",
    "fails-forward",
];

/// A line: what stands first, and what follows each word.
struct Line<'a> {
    first: Vec<&'a str>,
    rest: Vec<(&'a str, String)>,
}

impl<'a> Line<'a> {
    fn read(text: &'a str) -> Self {
        // A rule may hold any word, and is the last.
        let (text, rule) = text.split_once(" rule ").map_or((text, None), |(text, rule)| (text, Some(rule)));
        let (mut first, mut rest): (Vec<&str>, Vec<(&str, String)>) = (Vec::new(), Vec::new());
        for word in text.split_whitespace() {
            if WORDS.contains(&word) || word == "excludes-global" {
                rest.push((word, String::new()));
            } else if let Some((_, value)) = rest.last_mut() {
                let blank = if value.is_empty() { "" } else { " " };
                write!(value, "{blank}{word}").unwrap();
            } else {
                first.push(word);
            }
        }
        rest.extend(rule.map(|rule| ("rule", rule.to_owned())));
        Self { first, rest }
    }

    fn all(&self, word: &'a str) -> impl Iterator<Item = &str> {
        self.rest.iter().filter(move |(own, _)| *own == word).map(|(_, value)| value.as_str())
    }

    fn get(&self, word: &'a str) -> Option<&str> {
        self.all(word).next()
    }

    fn has(&self, word: &'a str) -> bool {
        self.get(word).is_some()
    }

    fn at(&self, place: usize) -> &str {
        self.first.get(place).copied().filter(|word| *word != "-").unwrap_or_default()
    }
}

fn gvk(kind: &str) -> Value {
    json!({"group": "example.com", "version": "v1", "kind": kind})
}

fn property(kind: &str, value: &Value) -> Value {
    json!({"type": kind, "value": value.to_string()})
}

/// The properties of a bundle or a CSV.
fn properties(line: &Line<'_>, package: &str, version: &str) -> Vec<Value> {
    let mut properties = vec![property("olm.package", &json!({"packageName": package, "version": version}))];
    properties.extend(line.all("gives").map(|kind| property("olm.gvk", &gvk(kind))));
    properties.extend(line.all("needs").map(|kind| property("olm.gvk.required", &gvk(kind))));
    for needed in line.all("needs-package") {
        let (package, range) = needed.split_once(' ').unwrap();
        properties.push(property("olm.package.required", &json!({"packageName": package, "versionRange": range})));
    }
    for needed in line.all("needs-all") {
        let (package, rest) = needed.split_once(' ').unwrap();
        let (range, kind) = rest.rsplit_once(' ').unwrap();
        let both = json!([{"package": {"packageName": package, "versionRange": range}}, {"gvk": gvk(kind)}]);
        properties.push(property("olm.constraint", &json!({"failureMessage": "both of one", "all": {"constraints": both}})));
    }
    if line.has("certified") {
        properties.push(property("certified", &json!({})));
    }
    if line.has("deprecated") {
        properties.push(property("olm.deprecated", &json!({})));
    }
    if let Some((rule, message)) = line.get("rule").and_then(|rule| rule.rsplit_once(" : ")) {
        properties.push(property("olm.constraint", &json!({"failureMessage": message, "cel": {"rule": rule}})));
    }
    properties
}

/// The world in the form of the records.
pub fn input(world: &str) -> Value {
    let mut group = json!({"name": "og"});
    let (mut catalogs, mut csvs, mut subscriptions): (Vec<Value>, Vec<Value>, Vec<Value>) = Default::default();
    for text in world.lines().filter(|line| !line.is_empty()) {
        if let Some(text) = text.strip_prefix("  ") {
            let line = Line::read(text);
            let (channel, default) = line.at(1).strip_suffix('*').map_or((line.at(1), false), |channel| (channel, true));
            let bundle = json!({
                "package": line.at(0), "channel": channel, "defaultChannel": default, "name": line.at(2), "version": line.at(3),
                "replaces": line.get("replaces").unwrap_or_default(), "skips": line.all("skips").collect::<Vec<_>>(),
                "skipRange": line.get("range").unwrap_or_default(), "bundlePath": format!("registry/{}", line.at(2)),
                "properties": properties(&line, line.at(0), line.at(3)),
            });
            catalogs.last_mut().unwrap()["bundles"].as_array_mut().unwrap().push(bundle);
            continue;
        }
        let line = Line::read(text);
        match line.at(0) {
            "group" => {
                if line.has("fails-forward") {
                    group["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
                }
                if line.has("excludes-global") {
                    group["excludeGlobalAnnotation"] = json!("true");
                }
            }
            "catalog" => catalogs.push(json!({
                "name": line.at(1), "namespace": line.get("in").unwrap_or("ns"), "bundles": [], "noClient": line.has("unreachable"),
                "priority": line.get("priority").map_or(0, |number| number.parse::<i64>().unwrap()),
            })),
            "csv" => {
                let listed = properties(&line, line.get("package").unwrap_or_default(), line.at(2));
                let written = listed.iter().map(
                    |one| json!({"type": one["type"], "value": serde_json::from_str::<Value>(one["value"].as_str().unwrap()).unwrap()}),
                );
                csvs.push(json!({
                    "name": line.at(1), "namespace": "ns", "version": line.at(2), "replaces": line.get("replaces").unwrap_or_default(),
                    "phase": line.get("phase").unwrap_or("Succeeded"),
                    "propertiesAnnotation": json!({"properties": written.collect::<Vec<_>>()}).to_string(),
                }));
            }
            "sub" => {
                let source = line.at(4);
                let namespace = match line.at(5) {
                    "" if source.is_empty() => "",
                    "" => "ns",
                    namespace => namespace,
                };
                subscriptions.push(json!({
                    "name": line.at(1), "package": line.at(2), "channel": line.at(3), "catalogSource": source,
                    "catalogSourceNamespace": namespace, "startingCSV": line.get("starting").unwrap_or_default(),
                    "installedCSV": line.get("installed").unwrap_or_default(), "currentCSV": line.get("installed").unwrap_or_default(),
                }));
            }
            other => panic!("{other:?} begins no line"),
        }
    }
    json!({
        "namespace": "ns", "globalNamespace": "global", "operatorGroups": [group], "catalogs": catalogs, "csvs": csvs,
        "subscriptions": subscriptions,
    })
}
