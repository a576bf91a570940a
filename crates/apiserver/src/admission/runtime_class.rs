//! RuntimeClass: a pod gets the overhead, the node selector and the tolerations of its class.

use async_trait::async_trait;
use mainstay_kinds::resource_list::ResourceList;
use serde_json::{Map, Value};

use super::step::{AdmissionStep, Request};
use crate::error::Result;

/// The label that a Pod and its RuntimeClass ask for with different values, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("conflict: runtimeClass.scheduling.nodeSelector[{key}] = {class}; pod.spec.nodeSelector[{key}] = {pod}")]
struct Conflict {
    key: String,
    class: String,
    pod: String,
}

/// The step.
pub struct RuntimeClass;

#[async_trait]
impl AdmissionStep for RuntimeClass {
    async fn mutate(&self, request: &Request<'_>, pod: &mut Value) -> Result<()> {
        if !request.creates("", "pods") {
            return Ok(());
        }
        let Some(class) = class_of(request, pod).await? else { return Ok(()) };
        if let Some(overhead) = overhead(&class) {
            let given = ResourceList::read(pod.pointer("/spec/overhead"));
            if !given.is_empty() && given != ResourceList::read(Some(overhead)) {
                return Err(request.forbidden(MISMATCH));
            }
            pod["spec"]["overhead"] = overhead.clone();
        }
        if let Some(scheduling) = class.get("scheduling").filter(|scheduling| scheduling.is_object()) {
            select(pod, scheduling).map_err(|conflict| request.forbidden(conflict.to_string()))?;
            tolerate(pod, scheduling);
        }
        Ok(())
    }

    async fn validate(&self, request: &Request<'_>, pod: Option<&Value>) -> Result<()> {
        let Some(pod) = pod.filter(|_| request.creates("", "pods")) else { return Ok(()) };
        let class = class_of(request, pod).await?;
        let given = pod.pointer("/spec/overhead");
        match class.as_ref().and_then(overhead) {
            Some(overhead) if ResourceList::read(Some(overhead)) != ResourceList::read(given) => Err(request.forbidden(MISMATCH)),
            None if given.is_some_and(|given| !given.is_null()) => {
                Err(request.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
            }
            _ => Ok(()),
        }
    }
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

async fn class_of(request: &Request<'_>, pod: &Value) -> Result<Option<Value>> {
    let Some(name) = pod.pointer("/spec/runtimeClassName").and_then(Value::as_str) else { return Ok(None) };
    let found = request.find("node.k8s.io", "runtimeclasses", "", name).await?;
    found.map(Some).ok_or_else(|| request.forbidden(format!("pod rejected: RuntimeClass {name:?} not found")))
}

fn overhead(class: &Value) -> Option<&Value> {
    class.get("overhead").filter(|overhead| overhead.is_object()).map(|overhead| overhead.get("podFixed").unwrap_or(&Value::Null))
}

fn select(pod: &mut Value, scheduling: &Value) -> Result<(), Conflict> {
    let Some(wanted) = scheduling.get("nodeSelector").and_then(Value::as_object) else { return Ok(()) };
    let mut selector = pod.pointer("/spec/nodeSelector").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
    for (key, value) in wanted {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(own) = selector.get(key).filter(|own| *own != value) {
            return Err(Conflict { key: key.clone(), class: text(value), pod: text(own) });
        }
        selector.insert(key.clone(), value.clone());
    }
    pod["spec"]["nodeSelector"] = Value::Object(selector);
    Ok(())
}

/// Adds the tolerations of the class; of two that say the same the wider stays.
fn tolerate(pod: &mut Value, scheduling: &Value) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all = list(pod.pointer("/spec/tolerations"));
    all.extend(list(scheduling.get("tolerations")));
    let mut merged: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let redundant =
            merged.iter().any(|other| covers(other, one)) || all[index + 1..].iter().any(|other| other != one && covers(other, one));
        if !redundant {
            merged.push(one.clone());
        }
    }
    if !merged.is_empty() {
        pod["spec"]["tolerations"] = merged.into();
    }
}

/// Returns whether a toleration tolerates whatever another one does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    let text = |toleration: &Value, field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    if wide == narrow {
        return true;
    }
    let all_keys = text(wide, "key").is_empty() && text(wide, "operator") == "Exists";
    if text(wide, "key") != text(narrow, "key") && !all_keys {
        return false;
    }
    let effect = text(wide, "effect");
    if !effect.is_empty() && effect != text(narrow, "effect") {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|own| own > most)
    {
        return false;
    }
    match text(wide, "operator").as_str() {
        "" | "Equal" => text(narrow, "operator") == "Equal" && text(wide, "value") == text(narrow, "value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wider_toleration_stays() {
        let key = |key: &str, operator: &str| json!({"key": key, "operator": operator});
        for (own, of_class, expected) in [
            (json!([key("a", "Exists")]), json!([key("b", "Exists")]), json!([key("a", "Exists"), key("b", "Exists")])),
            (json!([key("a", "Exists")]), json!([key("a", "Exists")]), json!([key("a", "Exists")])),
            (json!([key("a", "Equal")]), json!([key("a", "Exists")]), json!([key("a", "Exists")])),
            (json!([key("", "Exists")]), json!([key("a", "Exists")]), json!([key("", "Exists")])),
            (
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute"}]),
            ),
        ] {
            let mut pod = json!({"spec": {"tolerations": own}});
            tolerate(&mut pod, &json!({"tolerations": of_class}));
            assert_eq!(pod["spec"]["tolerations"], expected);
        }
    }
}
