//! The configuration of an extension (`spec.config.inline`): the namespace to watch, and changes to the operator's Deployments.
//!
//! Fields, merge rules and texts are those of upstream's operator-controller, which took the rules over from OLM classic's Subscription:
//!
//! ```text
//!   env, volumes, volumeMounts   by name; the configuration wins
//!   envFrom, tolerations         added, unless an equal one is there
//!   resources, nodeSelector      replaced as a whole
//!   affinity                     each of its three parts replaced; an empty part, or an empty whole, erases
//!   annotations                  added to the Deployment and its pods; what is there wins
//! ```

use serde_json::{Map, Value, json};

use crate::csv::Csv;
use crate::go;

/// The properties of `deploymentConfig` with their types in JSON.
const DEPLOYMENT: [(&str, &str); 9] = [
    ("affinity", "object"),
    ("annotations", "object"),
    ("env", "array"),
    ("envFrom", "array"),
    ("nodeSelector", "object"),
    ("resources", "object"),
    ("tolerations", "array"),
    ("volumeMounts", "array"),
    ("volumes", "array"),
];
/// The members that each item of these lists must have.
const REQUIRED: [(&str, &[&str]); 3] = [("env", &["name"]), ("volumes", &["name"]), ("volumeMounts", &["mountPath", "name"])];
/// The parts of an affinity, with the lists that give them a meaning.
const AFFINITIES: [&str; 3] = ["nodeAffinity", "podAffinity", "podAntiAffinity"];

/// A configuration that does not fit the bundle. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid ClusterExtension configuration: invalid configuration: {problem}")]
pub struct ConfigError {
    problem: String,
}

/// A configuration that fits the bundle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// The only namespace that the operator watches.
    pub watch_namespace: Option<String>,
    /// Changes to the operator's Deployments.
    pub deployment: Option<DeploymentConfig>,
}

/// Changes to every Deployment of a bundle, in the form in which Go's types are written.
#[derive(Debug, Clone, PartialEq)]
pub struct DeploymentConfig {
    fields: Map<String, Value>,
}

impl Config {
    /// Reads `spec.config.inline` for this bundle; an error lists all faults at once. `deployment` says whether `deploymentConfig` is a known
    /// field.
    pub fn read(inline: &Value, csv: &Csv, deployment: bool) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut config = Self::default();
        let Some(given) = inline.as_object() else {
            return Err(ConfigError { problem: format!("invalid type: got {}, want object", json_type(inline)) });
        };
        let watches = csv.supports("OwnNamespace") || csv.supports("SingleNamespace");
        for (key, value) in given {
            match (key.as_str(), value) {
                ("watchNamespace", Value::Null) if watches && csv.supports("AllNamespaces") => {}
                ("watchNamespace", Value::String(namespace)) if watches => config.watch_namespace = Some(namespace.clone()),
                ("watchNamespace", _) if watches => problems.push("invalid value for field \"watchNamespace\"".to_owned()),
                ("deploymentConfig", Value::Object(fields)) if deployment => match DeploymentConfig::read(fields) {
                    Ok(deployment) => config.deployment = Some(deployment),
                    Err(found) => problems.extend(found),
                },
                ("deploymentConfig", value) if deployment => problems.push(mistyped(key, value, "object")),
                _ => problems.push(format!("unknown field {key:?}")),
            }
        }
        match problems.as_slice() {
            [] => Ok(config),
            [problem] => Err(ConfigError { problem: problem.clone() }),
            _ => Err(ConfigError { problem: format!("multiple errors found:\n  - {}", problems.join("\n  - ")) }),
        }
    }
}

impl DeploymentConfig {
    fn read(given: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let path = |key: &str| format!("deploymentConfig.{key}");
        let mut problems = Vec::new();
        for (key, value) in given {
            match DEPLOYMENT.iter().find(|(name, _)| name == key) {
                None => problems.push(format!("unknown field {key:?}")),
                Some((_, wanted)) if json_type(value) != *wanted => problems.push(mistyped(&path(key), value, wanted)),
                Some(_) => {}
            }
        }
        for (list, names) in REQUIRED {
            for item in given.get(list).and_then(Value::as_array).into_iter().flatten() {
                let missing = names.iter().filter(|name| item.get(name).is_none_or(Value::is_null));
                problems.extend(missing.map(|name| format!("required field {name:?} is missing")));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        // Read in its place in a Deployment, so that Go's own types apply.
        let field = |key: &str| given.get(key).cloned().unwrap_or(Value::Null);
        let container = json!({"name": "", "env": field("env"), "envFrom": field("envFrom"), "volumeMounts": field("volumeMounts"),
            "resources": field("resources")});
        let spec = json!({"template": {"metadata": {"annotations": field("annotations")}, "spec": {"containers": [container],
            "volumes": field("volumes"), "tolerations": field("tolerations"), "nodeSelector": field("nodeSelector"),
            "affinity": field("affinity")}}});
        let typed = go::conform("DeploymentSpec", &spec).map_err(|mismatch| {
            let inner = ["template.spec.containers[0].", "template.spec.", "template.metadata."];
            let place = inner.iter().find_map(|prefix| mismatch.path.strip_prefix(prefix)).unwrap_or(&mismatch.path);
            vec![format!("invalid type for field {:?}: expected {}, found {}", path(place), mismatch.expected, mismatch.found)]
        })?;
        let pod = &typed["template"]["spec"];
        let mut fields = Map::new();
        for key in given.keys() {
            let value = match key.as_str() {
                "env" | "envFrom" | "volumeMounts" | "resources" => &pod["containers"][0][key.as_str()],
                "annotations" => &typed["template"]["metadata"]["annotations"],
                _ => &pod[key.as_str()],
            };
            fields.insert(key.clone(), value.clone());
        }
        Ok(Self { fields })
    }

    /// Changes a Deployment as configured.
    pub fn apply(&self, deployment: &mut Value) {
        let field = |key: &str| self.fields.get(key);
        let pod = &mut deployment["spec"]["template"]["spec"];
        for container in pod.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
            by_name(container, "env", field("env"));
            added(container, "envFrom", field("envFrom"));
            by_name(container, "volumeMounts", field("volumeMounts"));
            if let Some(resources) = field("resources") {
                container["resources"] = resources.clone();
            }
        }
        by_name(pod, "volumes", field("volumes"));
        added(pod, "tolerations", field("tolerations"));
        if let Some(selector) = field("nodeSelector") {
            pod["nodeSelector"] = selector.clone();
        }
        if let Some(affinity) = field("affinity") {
            affine(pod, affinity);
        }
        if let Some(Value::Object(annotations)) = field("annotations") {
            annotate(&mut deployment["metadata"], annotations);
            annotate(&mut deployment["spec"]["template"]["metadata"], annotations);
        }
    }
}

/// Adds items to a list, in place of those with the same name.
fn by_name(holder: &mut Value, key: &str, given: Option<&Value>) {
    let Some(given) = given.and_then(Value::as_array).filter(|given| !given.is_empty()) else { return };
    let mut items = list(holder, key);
    for item in given {
        match items.iter_mut().find(|old| old["name"] == item["name"]) {
            Some(old) => *old = item.clone(),
            None => items.push(item.clone()),
        }
    }
    holder[key] = Value::Array(items);
}

/// Adds the items of a list that are not there yet.
fn added(holder: &mut Value, key: &str, given: Option<&Value>) {
    let Some(given) = given.and_then(Value::as_array).filter(|given| !given.is_empty()) else { return };
    let mut items = list(holder, key);
    for item in given {
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
    holder[key] = Value::Array(items);
}

/// The list below a key; empty if there is none.
fn list(holder: &Value, key: &str) -> Vec<Value> {
    holder[key].as_array().cloned().unwrap_or_default()
}

fn affine(pod: &mut Value, given: &Value) {
    let mut affinity = pod["affinity"].as_object().cloned().unwrap_or_default();
    let parts: Vec<&str> = AFFINITIES.into_iter().filter(|part| !given[part].is_null()).collect();
    if parts.is_empty() {
        affinity.clear();
    }
    for part in parts {
        if says_nothing(&given[part]) {
            affinity.remove(part);
        } else {
            affinity.insert(part.to_owned(), given[part].clone());
        }
    }
    if affinity.values().all(says_nothing)
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("affinity");
    } else {
        pod["affinity"] = Value::Object(affinity);
    }
}

/// Returns whether a part of an affinity has no terms.
fn says_nothing(part: &Value) -> bool {
    let empty = |value: &Value| value.as_array().is_none_or(Vec::is_empty);
    let required = &part["requiredDuringSchedulingIgnoredDuringExecution"];
    // The required terms of nodes are a mapping with a list, those of pods are a list.
    empty(&part["preferredDuringSchedulingIgnoredDuringExecution"]) && empty(required) && empty(&required["nodeSelectorTerms"])
}

fn annotate(metadata: &mut Value, annotations: &Map<String, Value>) {
    for (key, value) in annotations {
        if metadata["annotations"][key].is_null() {
            metadata["annotations"][key] = value.clone();
        }
    }
}

fn mistyped(field: &str, value: &Value, wanted: &str) -> String {
    match value {
        Value::Null => format!("required field {field:?} is missing"),
        _ => format!("invalid type for field {field:?}: got {}, want {wanted}", json_type(value)),
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
