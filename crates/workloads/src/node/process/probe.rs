//! The probes of a container, and what their outcomes mean (KAPI-WL-07). All of it is pure: `check` asks the process.

use std::time::Duration;

use serde_json::Value;

use super::environment::Environment;
use super::error::ProcessError;

/// The question of a probe. Ports are on 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Run a command in the container's environment.
    Exec(Vec<String>),
    /// Ask by HTTP.
    Http {
        /// True for HTTPS; the certificate is not verified.
        tls: bool,
        /// The port.
        port: u16,
        /// Path and query.
        path: String,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// Open a connection.
    Tcp {
        /// The port.
        port: u16,
    },
    /// Ask the gRPC health service.
    Grpc {
        /// The port.
        port: u16,
        /// The service; empty for all.
        service: String,
    },
}

/// A probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The question.
    pub question: Question,
    /// The delay of the first one after the start.
    pub delay: Duration,
    /// The time between two.
    pub period: Duration,
    /// The time for an answer.
    pub timeout: Duration,
    /// The successes in a row that count as one.
    pub successes: u64,
    /// The failures in a row that count as one.
    pub failures: u64,
    /// The grace period if the probe ends the process, in place of the pod's.
    pub grace: Option<u64>,
}

impl Probe {
    /// Reads a probe of a container (`startupProbe`, `readinessProbe`, `livenessProbe`); `None` if it has none.
    ///
    /// # Errors
    /// Its port is not one of the container.
    pub fn of(container: &Value, name: &str, environment: &Environment) -> Result<Option<Self>, ProcessError> {
        let Some(probe) = container.get(name).filter(|probe| probe.is_object()) else { return Ok(None) };
        let port = |value: &Value| real_port(container, value, environment).map_err(|why| format!("{name}: {why}"));
        let number = |key: &str, default: u64| probe[key].as_u64().filter(|number| *number > 0).unwrap_or(default);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let question = if let Some(words) = probe.pointer("/exec/command").and_then(Value::as_array) {
            Question::Exec(words.iter().map(text).collect())
        } else if let Some(http) = probe.get("httpGet").filter(|http| http.is_object()) {
            let header = |one: &Value| (text(&one["name"]), text(&one["value"]));
            let mut headers: Vec<_> = http["httpHeaders"].as_array().into_iter().flatten().map(header).collect();
            if let Some(host) = http["host"].as_str().filter(|host| !host.is_empty())
                && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"))
            {
                headers.push(("Host".to_owned(), host.to_owned()));
            }
            let path = http["path"].as_str().filter(|path| !path.is_empty()).unwrap_or("/");
            let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
            Question::Http { tls: http["scheme"] == "HTTPS", port: port(&http["port"])?, path, headers }
        } else if let Some(tcp) = probe.get("tcpSocket").filter(|tcp| tcp.is_object()) {
            Question::Tcp { port: port(&tcp["port"])? }
        } else if let Some(grpc) = probe.get("grpc").filter(|grpc| grpc.is_object()) {
            Question::Grpc { port: port(&grpc["port"])?, service: text(&grpc["service"]) }
        } else {
            return Ok(None);
        };
        Ok(Some(Self {
            question,
            delay: Duration::from_secs(number("initialDelaySeconds", 0)),
            period: Duration::from_secs(number("periodSeconds", 10)),
            timeout: Duration::from_secs(number("timeoutSeconds", 1)),
            successes: number("successThreshold", 1),
            failures: number("failureThreshold", 3),
            grace: probe["terminationGracePeriodSeconds"].as_u64(),
        }))
    }
}

/// Returns the port on which a process listens for a port of its container: variable `PORT_<n>` if it is set, else the port itself.
fn real_port(container: &Value, port: &Value, environment: &Environment) -> Result<u16, ProcessError> {
    let valid = |number: u64| u16::try_from(number).ok().filter(|number| *number > 0);
    let declared = match port {
        Value::String(name) => {
            let named = container["ports"].as_array().into_iter().flatten().find(|port| port["name"] == *name);
            named.and_then(|port| port["containerPort"].as_u64()).or_else(|| name.parse().ok())
        }
        other => other.as_u64(),
    };
    let declared = declared.and_then(valid).ok_or_else(|| format!("port {port} is not one of the container"))?;
    match environment.get(&format!("PORT_{declared}")) {
        None => Ok(declared),
        Some(text) => {
            Ok(text.parse().ok().and_then(valid).ok_or_else(|| format!("variable PORT_{declared} is {text:?}, which is no port"))?)
        }
    }
}

/// The outcomes of a probe so far.
#[derive(Clone, Copy, Debug)]
pub struct Outcomes {
    counts: bool,
    last: Option<bool>,
    row: u64,
}

impl Outcomes {
    /// Begins with this verdict.
    pub fn new(counts: bool) -> Self {
        Self { counts, last: None, row: 0 }
    }

    /// Takes an outcome, and returns the verdict when it was reached again by enough outcomes in a row.
    pub fn note(&mut self, success: bool, probe: &Probe) -> Option<bool> {
        self.row = if self.last == Some(success) { self.row + 1 } else { 1 };
        self.last = Some(success);
        let enough = if success { probe.successes } else { probe.failures };
        if self.row < enough {
            return None;
        }
        self.counts = success;
        Some(success)
    }

    /// Returns the verdict.
    pub fn verdict(&self) -> bool {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use serde_json::json;

    use super::*;

    /// KAPI-WL-07: probes ask on 127.0.0.1, at the port that the container declares or that `PORT_<n>` names.
    #[test]
    fn probes_are_read() {
        let mut environment = Environment::default();
        environment.set("PORT_9090", "19090".to_owned());
        environment.set("PORT_7", "x".to_owned());
        let container = |probe: Value| json!({"ports": [{"name": "web", "containerPort": 8080}], "livenessProbe": probe});
        let read =
            |probe: Value| Probe::of(&container(probe), "livenessProbe", &environment).map(|probe| probe.map(|probe| probe.question));
        let http = |tls, port, path: &str, headers: &[(&str, &str)]| Question::Http {
            tls,
            port,
            path: path.to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        for (probe, expected) in [
            (json!({"httpGet": {"port": "web", "path": "healthz"}}), http(false, 8080, "/healthz", &[])),
            (
                json!({"httpGet": {"port": 9090, "scheme": "HTTPS", "host": "a.b", "httpHeaders": [{"name": "X", "value": "1"}]}}),
                http(true, 19090, "/", &[("X", "1"), ("Host", "a.b")]),
            ),
            (json!({"tcpSocket": {"port": "81"}}), Question::Tcp { port: 81 }),
            (json!({"grpc": {"port": 9090, "service": "s"}}), Question::Grpc { port: 19090, service: "s".to_owned() }),
            (json!({"exec": {"command": ["test", "-f", "x"]}}), Question::Exec(["test", "-f", "x"].map(str::to_owned).to_vec())),
        ] {
            assert_eq!(read(probe.clone()).unwrap(), Some(expected), "{probe}");
        }
        assert_eq!(read(json!({})).unwrap(), None);
        assert_eq!(Probe::of(&json!({}), "startupProbe", &environment).unwrap(), None);
        for (probe, why) in [
            (json!({"tcpSocket": {"port": "none"}}), "livenessProbe: port \"none\" is not one of the container"),
            (json!({"tcpSocket": {"port": 70000}}), "livenessProbe: port 70000 is not one of the container"),
            (json!({"tcpSocket": {"port": 7}}), "livenessProbe: variable PORT_7 is \"x\", which is no port"),
        ] {
            assert_eq!(read(probe).unwrap_err().to_string(), why);
        }
        let times = Probe::of(
            &container(json!({"exec": {"command": ["a"]}, "periodSeconds": 0, "failureThreshold": 5, "terminationGracePeriodSeconds": 4})),
            "livenessProbe",
            &environment,
        );
        let times = times.unwrap().unwrap();
        assert_eq!(
            (times.period, times.timeout, times.failures, times.grace),
            (Duration::from_secs(10), Duration::from_secs(1), 5, Some(4))
        );
    }

    /// KAPI-WL-07: a verdict needs as many outcomes in a row as the thresholds say.
    #[test]
    fn outcomes_are_counted() {
        let container = json!({"readinessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}});
        let probe = Probe::of(&container, "readinessProbe", &Environment::default()).unwrap().unwrap();
        let mut outcomes = Outcomes::new(false);
        let told: Vec<bool> = [true, false, true, true, false, false, true, false, false, false]
            .into_iter()
            .map(|outcome| {
                outcomes.note(outcome, &probe);
                outcomes.verdict()
            })
            .collect();
        assert_eq!(told, [false, false, false, true, true, true, true, true, true, false]);
    }
}
