//! Recorded scenarios, and what of an answer can be compared without a server.

use mainstay_testing::transcripts::{self, Transcript};
use serde_json::{Value, json};

/// One recorded request and its answer.
pub struct Step {
    pub scenario: String,
    pub index: usize,
    pub method: String,
    pub path: String,
    pub body: Value,
    pub headers: Value,
    pub answer: Value,
}

/// All recorded steps; `None` if the recorded data is missing.
pub fn steps() -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for transcript in transcripts::all()?.into_iter().map(Transcript::with_names) {
        for (index, step) in transcript.steps.iter().enumerate() {
            flatten(&transcript.name, index, step, &mut steps);
        }
    }
    Some(steps)
}

fn flatten(scenario: &str, index: usize, step: &Value, out: &mut Vec<Step>) {
    if let Some(inner) = step["watch"]["steps"].as_array() {
        for step in inner {
            flatten(scenario, index, step, out);
        }
        return;
    }
    out.push(Step {
        scenario: scenario.to_owned(),
        index,
        method: step["method"].as_str().unwrap_or_default().to_owned(),
        path: step["path"].as_str().unwrap_or_default().to_owned(),
        body: step["body"].clone(),
        headers: step["headers"].clone(),
        answer: step["answer"].clone(),
    });
}

/// What a pointer of the transcripts (`*` is every child, `key=value` a list's item) finds.
pub fn pointers_of(value: &Value, pointer: &str) -> Option<Value> {
    let mut found = vec![value];
    let mut many = false;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let mut next = Vec::new();
        for value in found {
            match value {
                Value::Object(map) if token == "*" => next.extend(map.values()),
                Value::Array(items) if token == "*" => next.extend(items),
                Value::Object(map) => next.extend(map.get(&token)),
                Value::Array(items) => match token.split_once('=') {
                    Some((key, wanted)) => next.extend(items.iter().filter(|item| item[key] == wanted)),
                    None => next.extend(token.parse::<usize>().ok().and_then(|at| items.get(at))),
                },
                _ => {}
            }
        }
        many |= token == "*";
        found = next;
    }
    if many { Some(json!(found)) } else { found.first().map(|value| (*value).clone()).or(Some(json!("(absent)"))) }
}

/// Without what only a running server knows.
pub fn normal(value: &Value) -> Value {
    let mut value = value.clone();
    strip(&mut value, true);
    value
}

fn strip(value: &mut Value, top: bool) {
    match value {
        Value::Object(map) => {
            if top && map.contains_key("metadata") {
                if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                    for field in ["uid", "creationTimestamp", "managedFields", "resourceVersion", "namespace"] {
                        metadata.remove(field);
                    }
                    // Set by admission.
                    metadata.remove("finalizers");
                }
                if map.get("kind") == Some(&json!("Pod"))
                    && let Some(Value::Object(spec)) = map.get_mut("spec")
                {
                    for field in ["serviceAccount", "serviceAccountName", "tolerations", "priority", "preemptionPolicy", "volumes"] {
                        spec.remove(field);
                    }
                    for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
                        container.as_object_mut().unwrap().remove("volumeMounts");
                    }
                }
            }
            for (key, child) in map.iter_mut() {
                match child {
                    Value::String(text) if text.starts_with('<') || (key.ends_with("Time") && text.contains('T')) || key == "clusterIP" => {
                        *child = json!("<placeholder>");
                    }
                    _ if key == "nodePort" => *child = json!("<placeholder>"),
                    _ if key == "clusterIPs" => *child = json!("<placeholder>"),
                    _ => strip(child, false),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, false)),
        _ => {}
    }
}
