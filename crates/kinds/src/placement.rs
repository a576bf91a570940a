//! Placement by namespace: what its annotations add to the node selector and the tolerations of a pod, and why they refuse one (KAPI-ADM-05).

use std::collections::BTreeMap;

use mainstay_schema::names::{label_value, qualified_name};
use serde_json::{Map, Value, json};

/// The annotation of namespaces with a node selector, as OpenShift's projects have it.
pub const PROJECT_SELECTOR: &str = "openshift.io/node-selector";
/// The annotation of namespaces with a node selector, as Kubernetes has it; it stands before the other one.
pub const SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The annotation of namespaces with tolerations, a JSON list.
pub const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
/// The most labels of a selector, and tolerations of a list.
const MOST: usize = 100;

/// Why a namespace refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The pod selects other nodes than its project.
    #[error("pod node label selector conflicts with its project node label selector")]
    ConflictsWithProject,
    /// The pod selects other nodes than its namespace.
    #[error("pod node label selector conflicts with its namespace node label selector")]
    ConflictsWithNamespace,
    /// The pod names a node that its project does not select.
    #[error("pod node name conflicts with project node label selector")]
    OtherNode,
    /// An annotation cannot be read.
    #[error("annotation {annotation} of namespace {namespace:?} cannot be read: {problem}")]
    Annotation {
        /// The annotation.
        annotation: &'static str,
        /// The namespace.
        namespace: String,
        /// The problem.
        problem: Unreadable,
    },
}

/// The mistake in an annotation, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl From<String> for Unreadable {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for Unreadable {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

/// The fields that a namespace adds to its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The labels of the nodes of its pods.
    pub selector: BTreeMap<String, String>,
    /// The tolerations of its pods.
    pub tolerations: Vec<Value>,
    /// The annotation that the selector is from.
    source: Option<&'static str>,
}

impl Placement {
    /// Reads the annotations of a namespace.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn of(namespace: &Value) -> Result<Self, Refusal> {
        let annotation = |name: &str| namespace["metadata"]["annotations"][name].as_str();
        let refuse = |annotation, problem: Unreadable| {
            let namespace = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            Refusal::Annotation { annotation, namespace, problem }
        };
        let source = [SELECTOR, PROJECT_SELECTOR].into_iter().find(|name| annotation(name).is_some());
        let selector = match source {
            Some(name) => selector(annotation(name).unwrap_or_default()).map_err(|problem| refuse(name, problem))?,
            None => BTreeMap::new(),
        };
        let tolerations = match annotation(TOLERATIONS).filter(|text| !text.is_empty()) {
            Some(text) => tolerations(text).map_err(|problem| refuse(TOLERATIONS, problem))?,
            None => Vec::new(),
        };
        Ok(Self { selector, tolerations, source })
    }

    /// Returns the annotations of a namespace that steer its pods, those that cannot be read included.
    pub fn annotations(namespace: &Value) -> Vec<&'static str> {
        let all = [SELECTOR, PROJECT_SELECTOR, TOLERATIONS];
        all.into_iter()
            .filter(|name| namespace["metadata"]["annotations"][*name].as_str().is_some_and(|text| !text.trim().is_empty()))
            .collect()
    }

    /// Adds to a new pod what the namespace says.
    ///
    /// # Errors
    /// The pod selects other nodes.
    pub fn place(&self, pod: &mut Value) -> Result<(), Refusal> {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if !self.selector.is_empty() {
            let own = spec.get("nodeSelector").and_then(Value::as_object).cloned().unwrap_or_default();
            if self.selector.iter().any(|(key, value)| own.get(key).is_some_and(|other| *other != json!(value))) {
                return Err(if self.source == Some(SELECTOR) { Refusal::ConflictsWithNamespace } else { Refusal::ConflictsWithProject });
            }
            let mut all: Map<String, Value> = self.selector.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            all.extend(own);
            spec.insert("nodeSelector".into(), Value::Object(all));
        }
        if !self.tolerations.is_empty() {
            let own = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
            spec.insert("tolerations".into(), Value::Array(merged(&self.tolerations, &own)));
        }
        Ok(())
    }

    /// Checks the labels of the node that a pod names by itself.
    ///
    /// # Errors
    /// The project selects other nodes.
    pub fn allows(&self, node: &Value) -> Result<(), Refusal> {
        let labels = &node["metadata"]["labels"];
        if self.selector.iter().all(|(key, value)| labels[key] == json!(value)) { Ok(()) } else { Err(Refusal::OtherNode) }
    }
}

/// Reads `key=value,key=value`.
fn selector(text: &str) -> Result<BTreeMap<String, String>, Unreadable> {
    let mut all = BTreeMap::new();
    if text.trim().is_empty() {
        return Ok(all);
    }
    for part in text.split(',') {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not of the form KEY=VALUE"))?;
        // A selector may say `==`, too.
        let (key, value) = (key.trim(), value.strip_prefix('=').unwrap_or(value).trim());
        let problems = |kind: &str, found: Vec<String>| {
            if found.is_empty() { Ok(()) } else { Err(format!("{kind} of {part:?}: {}", found.join("; "))) }
        };
        problems("key", qualified_name(key))?;
        problems("value", label_value(value))?;
        if all.insert(key.to_owned(), value.to_owned()).is_some_and(|earlier| earlier != value) {
            return Err(format!("key {key:?} has two values").into());
        }
        if all.len() > MOST {
            return Err(format!("there are more than {MOST} labels").into());
        }
    }
    Ok(all)
}

/// Reads a JSON list of tolerations.
fn tolerations(text: &str) -> Result<Vec<Value>, Unreadable> {
    let list: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    if list.is_null() {
        return Ok(Vec::new());
    }
    let list = list.as_array().ok_or("it is no JSON list")?;
    if list.len() > MOST {
        return Err(format!("there are more than {MOST} tolerations").into());
    }
    for (at, one) in list.iter().enumerate() {
        toleration(one).map_err(|problem| format!("[{at}]{problem}"))?;
    }
    Ok(list.clone())
}

fn toleration(one: &Value) -> Result<(), Unreadable> {
    let fields = one.as_object().ok_or(": it is no object")?;
    for (name, value) in fields {
        let allowed: &[&str] = match name.as_str() {
            "operator" => &["", "Exists", "Equal"],
            "effect" => &["", "NoSchedule", "PreferNoSchedule", "NoExecute"],
            "key" | "value" => &[],
            "tolerationSeconds" if value.is_i64() || value.is_u64() || value.is_null() => continue,
            "tolerationSeconds" => return Err(".tolerationSeconds: it is no whole number".into()),
            _ => return Err(format!(".{name}: tolerations have no such field").into()),
        };
        let text = value.as_str().ok_or_else(|| format!(".{name}: it is no text"))?;
        if !allowed.is_empty() && !allowed.contains(&text) {
            return Err(format!(".{name}: {text:?} is not one of {}", allowed[1..].join(", ")).into());
        }
    }
    let text = |name: &str| one[name].as_str().unwrap_or_default();
    if text("key").is_empty() && text("operator") != "Exists" {
        return Err(".operator: it must be Exists without a key".into());
    }
    if !text("key").is_empty()
        && let Some(problem) = qualified_name(text("key")).first()
    {
        return Err(format!(".key: {problem}").into());
    }
    if text("operator") == "Exists" && !text("value").is_empty() {
        return Err(".value: it must be empty if the operator is Exists".into());
    }
    if !one["tolerationSeconds"].is_null() && text("effect") != "NoExecute" {
        return Err(".effect: it must be NoExecute if tolerationSeconds is set".into());
    }
    Ok(())
}

/// Merges tolerations as Kubernetes does: one that another one contains is left out.
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let before = kept.iter().any(|other| contains(other, one));
        let behind = all[at + 1..].iter().any(|other| *other != *one && contains(other, one));
        if !before && !behind {
            kept.push((*one).clone());
        }
    }
    kept
}

/// Returns true if a toleration tolerates all that another one does.
fn contains(large: &Value, small: &Value) -> bool {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    if large == small {
        return true;
    }
    let exists = text(large, "operator") == "Exists";
    if text(small, "key") != text(large, "key") && !(text(large, "key").is_empty() && exists) {
        return false;
    }
    let effect = text(large, "effect");
    if text(small, "effect") != effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = large["tolerationSeconds"].as_i64()
        && small["tolerationSeconds"].as_i64().is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    let equal = |one: &Value| matches!(text(one, "operator").as_str(), "" | "Equal");
    exists || (equal(large) && equal(small) && text(large, "value") == text(small, "value"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "tables of cases")]
    use super::*;

    fn namespace(annotations: Value) -> Value {
        json!({"metadata": {"name": "team", "annotations": annotations}})
    }

    fn placed(annotations: Value, spec: Value) -> Result<Value, String> {
        let mut pod = json!({"spec": spec});
        let placement = Placement::of(&namespace(annotations)).map_err(|error| error.to_string())?;
        placement.place(&mut pod).map_err(|error| error.to_string())?;
        Ok(pod["spec"].clone())
    }

    /// KAPI-ADM-05: the namespace's selector and tolerations are added to those of a pod; Kubernetes' annotation stands before OpenShift's.
    #[test]
    fn pods_are_placed() {
        let both = json!({PROJECT_SELECTOR: "zone=a", SELECTOR: "zone=b , disk == fast"});
        let tolerate = |list: Value| json!({TOLERATIONS: list.to_string()});
        let exists = json!({"key": "gpu", "operator": "Exists"});
        let once = json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"});
        for (annotations, spec, expected) in [
            (json!({}), json!({"a": 1}), json!({"a": 1})),
            (json!({PROJECT_SELECTOR: ""}), json!({}), json!({})),
            (json!({PROJECT_SELECTOR: "zone=a"}), json!({}), json!({"nodeSelector": {"zone": "a"}})),
            (
                json!({PROJECT_SELECTOR: "node-role.kubernetes.io/infra="}),
                json!({"nodeSelector": {"x": "y"}}),
                json!({"nodeSelector": {"node-role.kubernetes.io/infra": "", "x": "y"}}),
            ),
            (json!({PROJECT_SELECTOR: "zone=a"}), json!({"nodeSelector": {"zone": "a"}}), json!({"nodeSelector": {"zone": "a"}})),
            (both, json!({}), json!({"nodeSelector": {"zone": "b", "disk": "fast"}})),
            (tolerate(json!([once])), json!({}), json!({"tolerations": [once]})),
            (tolerate(json!([once])), json!({"tolerations": [exists]}), json!({"tolerations": [exists]})),
            (tolerate(json!([exists])), json!({"tolerations": [once]}), json!({"tolerations": [exists]})),
            (tolerate(json!([once])), json!({"tolerations": [once]}), json!({"tolerations": [once]})),
            (
                tolerate(json!([{"operator": "Exists"}])),
                json!({"tolerations": [{"key": "a", "value": "1"}]}),
                json!({"tolerations": [{"operator": "Exists"}]}),
            ),
            (
                tolerate(json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])),
                json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]}),
                json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]}),
            ),
            (json!({TOLERATIONS: "null"}), json!({}), json!({})),
        ] {
            assert_eq!(placed(annotations.clone(), spec.clone()).unwrap(), expected, "{annotations} {spec}");
        }
    }

    /// KAPI-ADM-05: a contradiction and a value that cannot be read refuse the pod, and say precisely why.
    #[test]
    fn pods_are_refused() {
        let read = |annotation: &str, problem: &str| format!("annotation {annotation} of namespace \"team\" cannot be read: {problem}");
        let taint = |text: &str| json!({TOLERATIONS: text});
        for (annotations, why) in [
            (json!({PROJECT_SELECTOR: "zone=b"}), "pod node label selector conflicts with its project node label selector".to_owned()),
            (json!({SELECTOR: "zone=b"}), "pod node label selector conflicts with its namespace node label selector".to_owned()),
            (json!({PROJECT_SELECTOR: "zone"}), read(PROJECT_SELECTOR, "\"zone\" is not of the form KEY=VALUE")),
            (json!({PROJECT_SELECTOR: "a=b,"}), read(PROJECT_SELECTOR, "\"\" is not of the form KEY=VALUE")),
            (json!({PROJECT_SELECTOR: "a=b,a=c"}), read(PROJECT_SELECTOR, "key \"a\" has two values")),
            (taint("{"), read(TOLERATIONS, "it is no JSON: EOF while parsing an object at line 1 column 1")),
            (taint("{}"), read(TOLERATIONS, "it is no JSON list")),
            (taint("[1]"), read(TOLERATIONS, "[0]: it is no object")),
            (
                taint("[{\"key\":\"a\"},{\"effect\":\"Never\"}]"),
                read(TOLERATIONS, "[1].effect: \"Never\" is not one of NoSchedule, PreferNoSchedule, NoExecute"),
            ),
            (taint("[{\"operator\":\"In\"}]"), read(TOLERATIONS, "[0].operator: \"In\" is not one of Exists, Equal")),
            (taint("[{\"Key\":\"a\"}]"), read(TOLERATIONS, "[0].Key: tolerations have no such field")),
            (taint("[{\"key\":1}]"), read(TOLERATIONS, "[0].key: it is no text")),
            (taint("[{\"value\":\"x\"}]"), read(TOLERATIONS, "[0].operator: it must be Exists without a key")),
            (
                taint("[{\"key\":\"a\",\"operator\":\"Exists\",\"value\":\"x\"}]"),
                read(TOLERATIONS, "[0].value: it must be empty if the operator is Exists"),
            ),
            (taint("[{\"key\":\"a\",\"tolerationSeconds\":1.5}]"), read(TOLERATIONS, "[0].tolerationSeconds: it is no whole number")),
            (
                taint("[{\"key\":\"a\",\"tolerationSeconds\":1}]"),
                read(TOLERATIONS, "[0].effect: it must be NoExecute if tolerationSeconds is set"),
            ),
        ] {
            assert_eq!(placed(annotations, json!({"nodeSelector": {"zone": "a"}})).unwrap_err(), why);
        }
        let label = placed(json!({PROJECT_SELECTOR: "a=b c"}), json!({})).unwrap_err();
        assert!(label.contains("value of \"a=b c\": a valid label must be"), "{label}");
        let many = (0..=MOST).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        assert!(placed(json!({PROJECT_SELECTOR: many}), json!({})).unwrap_err().ends_with("there are more than 100 labels"));
        let project = Placement::of(&namespace(json!({PROJECT_SELECTOR: "zone=a"}))).unwrap();
        let node = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
        assert_eq!((project.allows(&node("a")), project.allows(&node("b"))), (Ok(()), Err(Refusal::OtherNode)));
    }
}
