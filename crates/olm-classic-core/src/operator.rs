//! `Operator` objects: everything that carries an operator's component label (OLM0-API-26).

use serde_json::{Value, json};

/// The prefix of component labels.
pub const COMPONENT_PREFIX: &str = "operators.coreos.com/";
/// The longest name in a label's key.
const MOST: usize = 63;

/// The component label of an operator: `operators.coreos.com/<package>.<namespace>`, cut to what a label can hold.
pub fn component_label(operator: &str) -> String {
    let mut end = operator.len().min(MOST);
    while !operator.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if operator.len() > MOST { operator[..end].trim_end_matches(['.', '_', '-']) } else { operator };
    format!("{COMPONENT_PREFIX}{cut}")
}

/// The name of the `Operator` of a package in a namespace.
pub fn name(package: &str, namespace: &str) -> String {
    format!("{package}.{namespace}")
}

/// The status of an `Operator` with these components.
pub fn status(operator: &str, components: &[Value]) -> Value {
    let mut refs: Vec<Value> = components.iter().map(reference).collect();
    let key = |reference: &Value| {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        [text("kind"), text("apiVersion"), text("namespace"), text("name")]
    };
    refs.sort_by_key(key);
    let selector = json!({"matchExpressions": [{"key": component_label(operator), "operator": "Exists"}]});
    let mut components = json!({"labelSelector": selector});
    if !refs.is_empty() {
        components["refs"] = json!(refs);
    }
    json!({"components": components})
}

/// A component with its conditions; those of a CSV are made of its phase.
fn reference(object: &Value) -> Value {
    let mut reference = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"]});
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        reference["namespace"] = json!(namespace);
    }
    let status = &object["status"];
    let conditions: Vec<Value> = if object["kind"] == "ClusterServiceVersion" {
        let fields = [
            ("type", "phase"),
            ("reason", "reason"),
            ("message", "message"),
            ("lastUpdateTime", "lastUpdateTime"),
            ("lastTransitionTime", "lastTransitionTime"),
        ];
        let mut condition = json!({"status": "True"});
        for (name, from) in fields.into_iter().filter(|(_, from)| !status[*from].is_null()) {
            condition[name] = status[from].clone();
        }
        if condition["type"].is_string() { vec![condition] } else { Vec::new() }
    } else {
        let kept = ["type", "status", "reason", "message", "lastUpdateTime", "lastTransitionTime"];
        let all = status["conditions"].as_array().into_iter().flatten();
        all.filter(|each| each["type"].is_string())
            .map(|each| {
                kept.iter().filter(|field| !each[**field].is_null()).map(|field| ((*field).to_owned(), each[*field].clone())).collect()
            })
            .map(Value::Object)
            .collect()
    };
    if !conditions.is_empty() {
        reference["conditions"] = json!(conditions);
    }
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-API-26: long names are cut, and end in no separator.
    #[test]
    fn labels() {
        assert_eq!(component_label("widgets.home"), "operators.coreos.com/widgets.home");
        let long = format!("{}.home", "a".repeat(62));
        assert_eq!(component_label(&long), format!("operators.coreos.com/{}", "a".repeat(62)));
    }
}
