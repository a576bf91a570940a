//! Scripts: how long each operator takes to update, and what goes wrong meanwhile.
//!
//! ```yaml
//! acceleration: 10          # durations are divided by it
//! defaults:
//!   duration: 20s
//! operators:
//!   etcd:
//!     duration: 1m
//!     degradedFor: 30s      # from the start of the update
//!     unavailableFor: 10s
//!     neverFinishes: true
//!     upgradeable: {reason: OldPeer, message: One peer is old.}
//!     conditions:
//!     - {type: Disabled, status: "True", reason: NoHardware, message: There is no hardware.}
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_api::cluster_operator::Problem;
use mainstay_api::condition::Status;
use mainstay_golang::{DurationError, parse_duration, quote};
use serde_json::{Map, Value};

/// The duration of an update where the script has none.
pub const DURATION: Duration = Duration::from_secs(20);

const MAX_BYTES: usize = 1 << 20;
const MAX_OPERATORS: usize = 1_000;
const MAX_CONDITIONS: usize = 32;
const MAX_NAME: usize = 253;
const MAX_REASON: usize = 1_024;
const MAX_MESSAGE: usize = 32_768;
const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3_600);
const MAX_ACCELERATION: f64 = 1_000_000.0;
const DEPTH: usize = 16;
const VALUES: usize = 100_000;
/// The conditions that the player itself sets.
const OWN: [&str; 4] = ["Available", "Progressing", "Degraded", "Upgradeable"];

/// The script of all operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    acceleration: Option<f64>,
    defaults: Part,
    operators: BTreeMap<String, Part>,
}

/// The part of one operator; what is `None` is that of the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    duration: Option<Duration>,
    degraded_for: Option<Duration>,
    unavailable_for: Option<Duration>,
    never_finishes: Option<bool>,
    not_upgradeable: Option<Problem>,
    conditions: Option<Vec<Extra>>,
}

/// A condition beside the usual ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Its type.
    pub kind: String,
    /// Its status.
    pub status: Status,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// The play of one operator. Durations are those of the clock: already accelerated.
#[derive(Clone, Debug, PartialEq)]
pub struct Play {
    /// The duration of an update.
    pub duration: Duration,
    /// The time from the start of an update during which the operator is degraded.
    pub degraded_for: Duration,
    /// The time from the start of an update during which the operator is unavailable.
    pub unavailable_for: Duration,
    /// True if an update goes on for ever.
    pub never_finishes: bool,
    /// The reason not to go to the next minor version.
    pub not_upgradeable: Option<Problem>,
    /// Further conditions.
    pub conditions: Vec<Extra>,
}

/// A script that is not accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptError {
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The problem.
    pub problem: ScriptProblem,
}

/// A problem of a script.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScriptProblem {
    /// There is too much of something.
    #[error("{field}: more than {limit} {what}")]
    TooLarge {
        /// The field.
        field: String,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The text is no YAML.
    #[error("{}", .0.problem)]
    Yaml(mainstay_yaml::Error),
    /// A key stands there twice.
    #[error("key {0} stands there twice")]
    Duplicate(String),
    /// A key has no meaning.
    #[error("{field}: unknown; known are {}", .known.join(", "))]
    Unknown {
        /// The field.
        field: String,
        /// The known fields at this place.
        known: &'static [&'static str],
    },
    /// A field has a wrong type or value.
    #[error("{field}: expected {expected}")]
    Field {
        /// The field.
        field: String,
        /// The form that is expected.
        expected: &'static str,
    },
    /// A text is no duration.
    #[error("{field}: {source}")]
    Duration {
        /// The field.
        field: String,
        /// The problem.
        source: DurationError,
    },
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(out, "line {line}: {}", self.problem),
            None => write!(out, "{}", self.problem),
        }
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script. An empty text is the default script.
    ///
    /// # Errors
    /// The text is no YAML, has an unknown key or a wrong value, or is larger than the limits.
    pub fn read(text: &str) -> Result<Self, ScriptError> {
        let whole = || "the file".to_owned();
        if text.len() > MAX_BYTES {
            let problem = ScriptProblem::TooLarge { field: whole(), what: "bytes", limit: MAX_BYTES };
            return Err(ScriptError { line: None, problem });
        }
        let options = mainstay_yaml::Options { max_depth: DEPTH, max_nodes: VALUES, ..mainstay_yaml::Options::default() };
        let document = mainstay_yaml::parse_with(text, &options)
            .map_err(|error| ScriptError { line: Some(error.line), problem: ScriptProblem::Yaml(error) })?;
        if let Some(twice) = document.duplicates.first() {
            return Err(ScriptError { line: Some(twice.line), problem: ScriptProblem::Duplicate(twice.path.clone()) });
        }
        let reader = Reader { text };
        let members = match &document.value {
            Value::Null => return Ok(Self::default()),
            Value::Object(members) => members,
            _ => return Err(reader.wrong(&[], "a mapping")),
        };
        reader.check_keys(&[], members, &["acceleration", "defaults", "operators"])?;
        let acceleration = members.get("acceleration").map(|value| {
            let factor = value.as_f64().filter(|factor| *factor > 0.0 && *factor <= MAX_ACCELERATION);
            factor.ok_or_else(|| reader.wrong(&["acceleration"], "a number above 0, at most 1000000"))
        });
        let defaults = members.get("defaults").map(|part| reader.part(&["defaults"], part)).transpose()?.unwrap_or_default();
        let mut operators = BTreeMap::new();
        if let Some(value) = members.get("operators") {
            let listed = value.as_object().ok_or_else(|| reader.wrong(&["operators"], "a mapping of operators by name"))?;
            if listed.len() > MAX_OPERATORS {
                return Err(reader.too_large(&["operators"], "operators", MAX_OPERATORS));
            }
            for (name, part) in listed {
                if name.is_empty() || name.len() > MAX_NAME {
                    return Err(reader.wrong(&["operators", name], "a name of 1 to 253 bytes"));
                }
                operators.insert(name.clone(), reader.part(&["operators", name], part)?);
            }
        }
        Ok(Self { acceleration: acceleration.transpose()?, defaults, operators })
    }

    /// Returns the same script with this acceleration in place of its own.
    #[must_use]
    pub fn accelerated(self, factor: f64) -> Self {
        Self { acceleration: Some(factor), ..self }
    }

    /// Returns the names of the operators that the script has a part of.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.operators.keys().map(String::as_str)
    }

    /// Returns the play of an operator.
    pub fn play(&self, name: &str) -> Play {
        let (own, defaults) = (self.operators.get(name), &self.defaults);
        let factor = self.acceleration.filter(|factor| factor.is_finite() && *factor > 0.0).unwrap_or(1.0);
        let duration = |of: fn(&Part) -> Option<Duration>, otherwise: Duration| {
            let given = own.and_then(of).or_else(|| of(defaults)).unwrap_or(otherwise);
            Duration::try_from_secs_f64(given.as_secs_f64() / factor).unwrap_or(Duration::MAX)
        };
        Play {
            duration: duration(|part| part.duration, DURATION),
            degraded_for: duration(|part| part.degraded_for, Duration::ZERO),
            unavailable_for: duration(|part| part.unavailable_for, Duration::ZERO),
            never_finishes: own.and_then(|part| part.never_finishes).or(defaults.never_finishes).unwrap_or_default(),
            not_upgradeable: own.and_then(|part| part.not_upgradeable.clone()).or_else(|| defaults.not_upgradeable.clone()),
            conditions: own
                .and_then(|part| part.conditions.clone())
                .or_else(|| defaults.conditions.clone())
                .unwrap_or_else(|| usual_conditions(name)),
        }
    }
}

/// The further conditions of operators that report themselves as having nothing to do where this program runs (COP-01, COP-21).
fn usual_conditions(name: &str) -> Vec<Extra> {
    let (reason, message) = match name {
        "baremetal" => ("UnsupportedPlatform", "simulated: nothing to do on this platform"),
        "insights" => ("Disabled", "simulated: nothing is gathered, and nothing is sent anywhere"),
        _ => return Vec::new(),
    };
    let disabled = Extra { kind: "Disabled".to_owned(), status: Status::True, reason: reason.to_owned(), message: message.to_owned() };
    vec![disabled]
}

/// Reads values, and knows where they stand.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn part(&self, path: &[&str], value: &Value) -> Result<Part, ScriptError> {
        const KEYS: &[&str] = &["duration", "degradedFor", "unavailableFor", "neverFinishes", "upgradeable", "conditions"];
        let members = match value {
            Value::Null => return Ok(Part::default()),
            Value::Object(members) => members,
            _ => return Err(self.wrong(path, "a mapping")),
        };
        self.check_keys(path, members, KEYS)?;
        let at = |key: &'static str| [path, &[key]].concat();
        let duration = |key: &'static str| members.get(key).map(|value| self.duration(&at(key), value)).transpose();
        let never_finishes = members.get("neverFinishes").map(|value| {
            let truth = value.as_bool();
            truth.ok_or_else(|| self.wrong(&at("neverFinishes"), "true or false"))
        });
        Ok(Part {
            duration: duration("duration")?,
            degraded_for: duration("degradedFor")?,
            unavailable_for: duration("unavailableFor")?,
            never_finishes: never_finishes.transpose()?,
            not_upgradeable: members.get("upgradeable").map(|value| self.not_upgradeable(&at("upgradeable"), value)).transpose()?,
            conditions: members.get("conditions").map(|value| self.conditions(&at("conditions"), value)).transpose()?,
        })
    }

    fn not_upgradeable(&self, path: &[&str], value: &Value) -> Result<Problem, ScriptError> {
        let members = value.as_object().ok_or_else(|| self.wrong(path, "a mapping with reason and message"))?;
        self.check_keys(path, members, &["reason", "message"])?;
        Ok(Problem::new(self.reason(path, members)?, self.message(path, members)?))
    }

    fn conditions(&self, path: &[&str], value: &Value) -> Result<Vec<Extra>, ScriptError> {
        let list = value.as_array().ok_or_else(|| self.wrong(path, "a list of conditions"))?;
        if list.len() > MAX_CONDITIONS {
            return Err(self.too_large(path, "conditions", MAX_CONDITIONS));
        }
        let condition = |value: &Value| {
            let members = value.as_object().ok_or_else(|| self.wrong(path, "a list of conditions"))?;
            self.check_keys(path, members, &["type", "status", "reason", "message"])?;
            let kind = members.get("type").and_then(Value::as_str).filter(|kind| is_word(kind) && !OWN.contains(kind));
            let at = |key: &'static str| [path, &[key]].concat();
            let kind = kind.ok_or_else(|| self.wrong(&at("type"), "a type in CamelCase that the player does not set itself"))?;
            let status = match members.get("status").and_then(Value::as_str) {
                Some("True") => Status::True,
                Some("False") => Status::False,
                Some("Unknown") => Status::Unknown,
                _ => return Err(self.wrong(&at("status"), "\"True\", \"False\" or \"Unknown\" as text")),
            };
            Ok(Extra { kind: kind.to_owned(), status, reason: self.reason(path, members)?, message: self.message(path, members)? })
        };
        list.iter().map(condition).collect()
    }

    fn reason(&self, path: &[&str], members: &Map<String, Value>) -> Result<String, ScriptError> {
        let reason = members.get("reason").and_then(Value::as_str).filter(|reason| is_word(reason));
        reason.map(str::to_owned).ok_or_else(|| self.wrong(&[path, &["reason"]].concat(), "a reason in CamelCase"))
    }

    fn message(&self, path: &[&str], members: &Map<String, Value>) -> Result<String, ScriptError> {
        let message = members.get("message").and_then(Value::as_str).filter(|message| message.len() <= MAX_MESSAGE);
        message.map(str::to_owned).ok_or_else(|| self.wrong(&[path, &["message"]].concat(), "a text of at most 32768 bytes"))
    }

    fn duration(&self, path: &[&str], value: &Value) -> Result<Duration, ScriptError> {
        let text = value.as_str().ok_or_else(|| self.wrong(path, "a duration such as 1m30s"))?;
        let duration = parse_duration(text)
            .map_err(|source| ScriptError { line: self.line(path), problem: ScriptProblem::Duration { field: shown(path), source } })?;
        if duration > MAX_DURATION { Err(self.wrong(path, "a duration of at most 720h")) } else { Ok(duration) }
    }

    fn check_keys(&self, path: &[&str], members: &Map<String, Value>, known: &'static [&'static str]) -> Result<(), ScriptError> {
        let Some(key) = members.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let path = [path, &[key.as_str()]].concat();
        Err(ScriptError { line: self.line(&path), problem: ScriptProblem::Unknown { field: shown(&path), known } })
    }

    fn wrong(&self, path: &[&str], expected: &'static str) -> ScriptError {
        ScriptError { line: self.line(path), problem: ScriptProblem::Field { field: shown(path), expected } }
    }

    fn too_large(&self, path: &[&str], what: &'static str, limit: usize) -> ScriptError {
        ScriptError { line: self.line(path), problem: ScriptProblem::TooLarge { field: shown(path), what, limit } }
    }

    /// The line of a field, or of the nearest field above it whose line can be told.
    fn line(&self, path: &[&str]) -> Option<usize> {
        let (mut found, mut next) = (None, 0);
        for key in path {
            let is_key = |line: &str| {
                let line = line.trim_start().trim_start_matches("- ").trim_start_matches('{');
                let quoted = [format!("\"{key}\""), format!("'{key}'")];
                let rest = quoted.iter().find_map(|quoted| line.strip_prefix(quoted.as_str())).or_else(|| line.strip_prefix(key));
                rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
            };
            let Some(at) = self.text.lines().skip(next).position(is_key) else { break };
            found = Some(next + at + 1);
            next += at + 1;
        }
        found
    }
}

/// Returns true for a type or reason: a letter, then letters, digits and `_`.
fn is_word(text: &str) -> bool {
    text.len() <= MAX_REASON
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn shown(path: &[&str]) -> String {
    let plain = |key: &str| key.bytes().all(|byte| byte.is_ascii_graphic());
    let keys: Vec<String> = path.iter().map(|key| if plain(key) { (*key).to_owned() } else { quote(key) }).collect();
    if keys.is_empty() { "the file".to_owned() } else { format!("field {}", keys.join(".")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// COP-G-09, COP-01, COP-21: a script has defaults and parts by operator, and one factor for all durations.
    #[test]
    fn plays() {
        let text = "\
acceleration: 10
defaults:
  duration: 1m
  degradedFor: 10s
operators:
  etcd:
    duration: 2m
    unavailableFor: 5s
    upgradeable: {reason: OldPeer, message: One peer is old.}
  baremetal:
    neverFinishes: true
    conditions:
    - {type: Disabled, status: \"True\", reason: UnsupportedPlatform, message: No hardware.}
  dns:
";
        let script = Script::read(text).unwrap();
        assert_eq!(script.names().collect::<Vec<_>>(), ["baremetal", "dns", "etcd"]);
        let etcd = script.play("etcd");
        assert_eq!((etcd.duration, etcd.degraded_for), (Duration::from_secs(12), Duration::from_secs(1)));
        assert_eq!(etcd.unavailable_for, Duration::from_millis(500));
        assert_eq!(etcd.not_upgradeable, Some(Problem::new("OldPeer", "One peer is old.")));
        let other = script.play("other");
        assert_eq!((other.duration, other.never_finishes, other.not_upgradeable), (Duration::from_secs(6), false, None));
        let baremetal = script.play("baremetal");
        assert!(baremetal.never_finishes);
        assert_eq!((baremetal.conditions[0].kind.as_str(), baremetal.conditions[0].status), ("Disabled", Status::True));
        assert_eq!(script.accelerated(1.0).play("etcd").duration, Duration::from_secs(120));
        assert_eq!(Script::read("").unwrap().play("x").duration, DURATION);
        let usual = |name: &str| Script::default().play(name).conditions.into_iter().map(|extra| extra.reason).collect::<Vec<_>>();
        assert_eq!(
            (usual("baremetal"), usual("insights"), usual("dns")),
            (vec!["UnsupportedPlatform".into()], vec!["Disabled".into()], vec![])
        );
    }

    /// COP-G-09: what a script may not hold, with line and field.
    #[test]
    fn refused_scripts() {
        for (text, words) in [
            ("- 1", "the file: expected a mapping"),
            ("a: [", "line "),
            ("operators:\n  etcd:\n    duration: 1m\n    duration: 2m\n", "line 4: key operators.etcd.duration stands there twice"),
            ("speed: 1", "line 1: field speed: unknown; known are acceleration, defaults, operators"),
            ("acceleration: 0", "line 1: field acceleration: expected a number above 0, at most 1000000"),
            ("acceleration: .inf", "line 1: .inf has no JSON value"),
            ("acceleration: 1e9", "line 1: field acceleration: expected a number above 0, at most 1000000"),
            ("operators: [a]", "line 1: field operators: expected a mapping of operators by name"),
            (
                "operators:\n  dns:\n    duration: 1m\n  etcd:\n    duration: long\n",
                "line 5: field operators.etcd.duration: time: invalid duration \"long\"",
            ),
            ("defaults:\n  duration: 5", "line 2: field defaults.duration: expected a duration such as 1m30s"),
            ("defaults:\n  duration: 1000h", "line 2: field defaults.duration: expected a duration of at most 720h"),
            ("defaults:\n\n  neverFinishes: maybe", "line 3: field defaults.neverFinishes: expected true or false"),
            ("operators: {etcd: {durations: 1s}}", "line 1: field operators.etcd.durations: unknown; known are duration,"),
            (
                "operators:\n  etcd:\n    upgradeable: {message: m}\n",
                "line 3: field operators.etcd.upgradeable.reason: expected a reason in CamelCase",
            ),
            (
                "operators:\n  etcd:\n    conditions:\n    - type: Degraded\n",
                "line 4: field operators.etcd.conditions.type: expected a type in CamelCase that the player does not set itself",
            ),
            (
                "defaults:\n  conditions:\n  - type: Disabled\n    status: true\n",
                "line 4: field defaults.conditions.status: expected \"True\", \"False\" or \"Unknown\" as text",
            ),
        ] {
            let found = Script::read(text).unwrap_err().to_string();
            assert!(found.starts_with(words), "{text}: {found}");
        }
        let many: Vec<String> = (0..=MAX_OPERATORS).map(|n| format!("  o{n}: {{}}\n")).collect();
        let found = Script::read(&format!("operators:\n{}", many.concat())).unwrap_err().to_string();
        assert_eq!(found, "line 1: field operators: more than 1000 operators");
        assert_eq!(Script::read(&" ".repeat(MAX_BYTES + 1)).unwrap_err().to_string(), "the file: more than 1048576 bytes");
    }
}
