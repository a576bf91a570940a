//! The wishes of a CatalogSource, the time at which its content is loaded again, and its status (OLM0-API-12, OLM0-API-13, OLM0-CAT).
//!
//! ```text
//!   spec ── request ──► image | address | ConfigMap, or what is wrong with it
//!     │ annotation ── template::image ──► spec.image
//!   request, what is held, the time ── plan ──► load | keep until
//!   outcome ── status ──► connectionState, registryService, reason, conditions
//! ```

pub mod config_map;
pub mod pod_config;
pub mod registry;
pub mod template;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_golang::{duration_text, parse_duration};
use serde_json::{Value, json};

/// The port of the registry API.
pub const PORT: u16 = 50051;
/// The interval of polling if the given one cannot be read (OLM0-CAT-23).
const DEFAULT_POLL: Duration = Duration::from_secs(15 * 60);
/// The shortest interval of polling: a registry is asked no more often, also where an object says so.
const SHORTEST_POLL: Duration = Duration::from_secs(10);

/// A spec that cannot be served (OLM0-CAT-04).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A gRPC source without image and address.
    #[error("image and address unset: at least one must be set for sourcetype: grpc")]
    NoImage,
    /// A ConfigMap source without name.
    #[error("configmap name unset: must be set for sourcetype: {0}")]
    NoConfigMap(String),
    /// Another type.
    #[error("unknown sourcetype: {0}")]
    UnknownType(String),
}

/// Where the content of a source comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An image, pulled with the credentials of these Secrets of the source's namespace.
    Image {
        /// The reference.
        reference: String,
        /// The Secrets.
        secrets: Vec<String>,
    },
    /// A registry server.
    Address(String),
    /// A ConfigMap of the source's namespace.
    ConfigMap(String),
}

impl Request {
    /// Reads the spec of a source.
    pub fn of(source: &Value) -> Result<Self, SpecError> {
        let spec = &source["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        match text("sourceType").as_str() {
            kind @ ("internal" | "configmap") => match text("configMap") {
                name if name.is_empty() => Err(SpecError::NoConfigMap(kind.to_owned())),
                name => Ok(Self::ConfigMap(name)),
            },
            "grpc" => match (text("image"), text("address")) {
                (image, address) if image.is_empty() && address.is_empty() => Err(SpecError::NoImage),
                (image, address) if image.is_empty() => Ok(Self::Address(address)),
                (reference, _) => {
                    let secrets = spec["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str);
                    Ok(Self::Image { reference, secrets: secrets.map(str::to_owned).collect() })
                }
            },
            other => Err(SpecError::UnknownType(other.to_owned())),
        }
    }

    /// The address at which the source says that it is served (OLM0-CAT-16).
    pub fn address(&self, namespace: &str, name: &str) -> String {
        match self {
            Self::Address(address) => address.clone(),
            Self::Image { .. } | Self::ConfigMap(_) => format!("{}.{namespace}.svc:{PORT}", service_name(name)),
        }
    }
}

/// The Service of a source.
pub fn service_name(source: &str) -> String {
    source.replace('.', "-")
}

/// The polling of a source's image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Polling {
    /// The interval; none if the image is not polled.
    pub every: Option<Duration>,
    /// The problem of the given interval (OLM0-CAT-23).
    pub problem: Option<String>,
}

impl Polling {
    /// Reads the update strategy of a source.
    pub fn of(source: &Value) -> Self {
        let Some(poll) = source.pointer("/spec/updateStrategy/registryPoll").filter(|poll| poll.is_object()) else {
            return Self::default();
        };
        let given = poll["interval"].as_str().unwrap_or_default();
        match parse_duration(given) {
            Ok(every) => Self { every: Some(every.max(SHORTEST_POLL)), problem: None },
            Err(error) => {
                let default = duration_text(DEFAULT_POLL);
                let problem = format!(
                    "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of {default} instead. Error: {error}"
                );
                Self { every: Some(DEFAULT_POLL), problem: Some(problem) }
            }
        }
    }
}

/// The content that is held for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The request that it answers.
    pub request: Request,
    /// The uid of the source; another object of the same name is another source.
    pub uid: String,
    /// The time of the last look at the registry.
    pub polled: Timestamp,
}

/// The next work on the content of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// It is loaded, for a reason that logs show.
    Load(&'static str),
    /// It is kept, for ever or for this time.
    Keep(Option<Duration>),
}

/// Decides whether the content of a source is loaded.
pub fn plan(source: &Value, request: &Request, held: Option<&Held>, now: Timestamp) -> Plan {
    let Some(held) = held else { return Plan::Load("it was not loaded yet") };
    if held.uid != source["metadata"]["uid"].as_str().unwrap_or_default() {
        return Plan::Load("it is another object of the same name");
    }
    if held.request != *request {
        return Plan::Load("its spec has changed");
    }
    if !matches!(request, Request::Image { .. }) {
        return Plan::Keep(None);
    }
    let Some(every) = Polling::of(source).every else { return Plan::Keep(None) };
    let due = SignedDuration::try_from(every).ok().and_then(|every| held.polled.checked_add(every).ok()).unwrap_or(Timestamp::MAX);
    if due <= now {
        return Plan::Load("the poll interval has passed");
    }
    if held.polled > now {
        return Plan::Load("it was polled by a clock that was set back since");
    }
    Plan::Keep(Some(Duration::try_from(due.duration_since(now)).unwrap_or_default()))
}

/// The state of the connection to a source (OLM0-CAT-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The content is being loaded.
    Connecting,
    /// The content can be used.
    Ready,
    /// Loading failed and is tried again.
    TransientFailure,
}

impl Connection {
    /// The name in `lastObservedState`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "CONNECTING",
            Self::Ready => "READY",
            Self::TransientFailure => "TRANSIENT_FAILURE",
        }
    }
}

/// The end of the work on a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Its spec cannot be served.
    Invalid(&'a SpecError),
    /// Its ConfigMap cannot be used.
    ConfigMap(&'a str),
    /// It is connected to, or not.
    Connected {
        /// The state.
        state: Connection,
        /// Why it is not ready.
        problem: Option<&'a str>,
        /// True if the registry was asked just now.
        polled: bool,
        /// Name, namespace, uid and version of the ConfigMap that was read.
        config_map: Option<Value>,
    },
}

/// The status of a source after an outcome. Times change only with what they are about.
pub fn status(source: &Value, request: Option<&Request>, outcome: &Outcome<'_>, now: Timestamp) -> Value {
    let mut status = source.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    let error = |status: &mut Value, reason: &str, message: &str| {
        status["reason"] = json!(reason);
        status["message"] = json!(message);
    };
    if status["reason"] == "SpecInvalidError" && !matches!(outcome, Outcome::Invalid(_)) {
        // A source that can be served begins with nothing but its conditions.
        status = json!({"conditions": status["conditions"]});
    }
    for field in ["reason", "message"] {
        remove(&mut status, field);
    }
    match outcome {
        Outcome::Invalid(problem) => error(&mut status, "SpecInvalidError", &problem.to_string()),
        Outcome::ConfigMap(problem) => error(&mut status, "ConfigMapError", problem),
        Outcome::Connected { state, problem, polled, config_map } => {
            if let Some(problem) = Polling::of(source).problem {
                error(&mut status, "InvalidIntervalError", &problem);
            }
            if let Some(problem) = problem {
                error(&mut status, "RegistryServerError", problem);
            }
            if let Some(request) = request {
                connected(&mut status, source, request, *state, now);
            }
            if let Some(config_map) = config_map {
                let held = &status["configMapReference"];
                let same = ["uid", "resourceVersion"].into_iter().all(|field| held[field] == config_map[field]);
                if !same {
                    status["configMapReference"] = config_map.clone();
                    status["configMapReference"]["lastUpdateTime"] = json!(time(now));
                }
            }
            if *polled && Polling::of(source).every.is_some() {
                status["latestImageRegistryPoll"] = json!(time(now));
            }
        }
    }
    if status["conditions"].as_array().is_none_or(Vec::is_empty) {
        remove(&mut status, "conditions");
    }
    status
}

/// Sets the connection and the registry service of a source.
fn connected(status: &mut Value, source: &Value, request: &Request, state: Connection, now: Timestamp) {
    let text = |field: &str| source["metadata"][field].as_str().unwrap_or_default();
    let address = request.address(text("namespace"), text("name"));
    let held = &status["connectionState"];
    if held["address"] != address || held["lastObservedState"] != state.name() {
        status["connectionState"] = json!({"address": address, "lastConnect": time(now), "lastObservedState": state.name()});
    }
    let mut service = json!({"protocol": "grpc"});
    if !matches!(request, Request::Address(_)) {
        service["serviceName"] = json!(service_name(text("name")));
        service["serviceNamespace"] = json!(text("namespace"));
        service["port"] = json!(PORT.to_string());
    }
    let same = status["registryService"].as_object().is_some_and(|held| {
        let mut held = held.clone();
        held.remove("createdAt");
        Value::Object(held) == service
    });
    if !same {
        service["createdAt"] = json!(time(now));
        status["registryService"] = service;
    }
}

/// Returns whether the content of a source can be used, as its status says.
pub fn is_ready(source: &Value) -> bool {
    source["status"]["reason"] != "SpecInvalidError" && source["status"]["connectionState"]["lastObservedState"] == Connection::Ready.name()
}

/// A time as Kubernetes writes it.
pub(crate) fn time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

    use super::*;

    fn source(spec: Value) -> Value {
        json!({"metadata": {"name": "team.catalog", "namespace": "market", "uid": "1"}, "spec": spec})
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    /// OLM0-CAT-04: the three problems of a spec, in upstream's words.
    #[test]
    fn specs_that_cannot_be_served() {
        for (spec, problem) in [
            (json!({"sourceType": "grpc"}), "image and address unset: at least one must be set for sourcetype: grpc"),
            (json!({"sourceType": "internal"}), "configmap name unset: must be set for sourcetype: internal"),
            (json!({"sourceType": "configmap"}), "configmap name unset: must be set for sourcetype: configmap"),
            (json!({"sourceType": "git"}), "unknown sourcetype: git"),
        ] {
            let source = source(spec);
            let error = Request::of(&source).unwrap_err();
            assert_eq!(error.to_string(), problem);
            let status = status(&source, None, &Outcome::Invalid(&error), now());
            assert_eq!(status, json!({"reason": "SpecInvalidError", "message": problem}));
        }
        let both = source(json!({"sourceType": "grpc", "image": "r/c:v1", "address": "a:1", "secrets": ["s"]}));
        assert_eq!(Request::of(&both), Ok(Request::Image { reference: "r/c:v1".to_owned(), secrets: vec!["s".to_owned()] }));
    }

    /// OLM0-CAT-16, OLM0-CAT-18, OLM0-API-13: a source on its way to READY, and the times that stay.
    #[test]
    fn the_status_follows_the_connection() {
        let mut source = source(json!({"sourceType": "grpc", "image": "r/c:v1", "updateStrategy": {"registryPoll": {"interval": "30m"}}}));
        let request = Request::of(&source).unwrap();
        let mut step = |state, problem: Option<&str>, polled, minutes| {
            let outcome = Outcome::Connected { state, problem, polled, config_map: None };
            let at = now() + SignedDuration::from_mins(minutes);
            source["status"] = status(&source, Some(&request), &outcome, at);
            (source["status"].clone(), is_ready(&source))
        };
        let (first, ready) = step(Connection::Connecting, None, false, 0);
        assert_eq!(first["connectionState"]["address"], "team-catalog.market.svc:50051");
        assert!(!ready);
        let (failed, ready) = step(Connection::TransientFailure, Some("unauthorized"), false, 1);
        assert_eq!((&failed["reason"], &failed["message"]), (&json!("RegistryServerError"), &json!("unauthorized")));
        assert!(!ready);
        let (last, ready) = step(Connection::Ready, None, true, 2);
        assert!(ready);
        assert_eq!(
            last,
            json!({
                "connectionState": {"address": "team-catalog.market.svc:50051", "lastConnect": "2026-01-01T00:02:00Z", "lastObservedState": "READY"},
                "registryService": {"protocol": "grpc", "serviceName": "team-catalog", "serviceNamespace": "market", "port": "50051",
                    "createdAt": "2026-01-01T00:00:00Z"},
                "latestImageRegistryPoll": "2026-01-01T00:02:00Z",
            })
        );
        let (again, _) = step(Connection::Ready, None, false, 9);
        assert_eq!(again, last, "nothing is new");
    }

    /// OLM0-CAT-22, OLM0-CAT-23, OLM0-CAT-24: when an image is looked at again.
    #[test]
    fn images_are_polled_when_asked_for() {
        let held = |request: &Request, minutes| Held {
            request: request.clone(),
            uid: "1".into(),
            polled: now() - SignedDuration::from_mins(minutes),
        };
        let image = |poll: Value| source(json!({"sourceType": "grpc", "image": "r/c:v1", "updateStrategy": poll}));
        let polled = image(json!({"registryPoll": {"interval": "30m"}}));
        let request = Request::of(&polled).unwrap();
        assert_eq!(plan(&polled, &request, None, now()), Plan::Load("it was not loaded yet"));
        assert_eq!(plan(&polled, &request, Some(&held(&request, 10)), now()), Plan::Keep(Some(Duration::from_secs(1200))));
        assert_eq!(plan(&polled, &request, Some(&held(&request, 30)), now()), Plan::Load("the poll interval has passed"));
        let never = image(Value::Null);
        assert_eq!(plan(&never, &request, Some(&held(&request, 9_999)), now()), Plan::Keep(None));
        let odd = image(json!({"registryPoll": {"interval": "soon"}}));
        assert_eq!(plan(&odd, &request, Some(&held(&request, 10)), now()), Plan::Keep(Some(Duration::from_secs(300))));
        let outcome = Outcome::Connected { state: Connection::Ready, problem: None, polled: true, config_map: None };
        let status = status(&odd, Some(&request), &outcome, now());
        assert_eq!(status["reason"], "InvalidIntervalError");
        assert_eq!(
            status["message"],
            "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: time: invalid duration \"soon\""
        );
    }
}
