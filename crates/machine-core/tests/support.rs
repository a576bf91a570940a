//! Means that tests share.

use serde_json::Value;

/// Compares answers with all recorded ones of a file; every difference is named.
pub fn all_equal<E: std::fmt::Debug>(file: &str, answer: impl Fn(&Value) -> Result<Value, E>) {
    let Some(lines) = mainstay_testing::data::json_lines(&format!("machine-config/{file}.jsonl.gz")) else { return };
    let mut differing = Vec::new();
    for line in &lines {
        let ours = answer(line).unwrap();
        let mut found = Vec::new();
        difference("out", &ours["out"], &line["out"], &mut found);
        if !found.is_empty() {
            differing.push(format!("{}: {}", line["id"], found.join("; ")));
        }
    }
    assert!(differing.is_empty(), "{file}: {} of {} differ:\n{}", differing.len(), lines.len(), first(&differing));
    assert!(lines.len() >= 50, "{file}: only {} lines", lines.len());
}

fn first(differing: &[String]) -> String {
    differing.iter().take(8).cloned().collect::<Vec<_>>().join("\n")
}

fn difference(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => difference(&format!("{path}.{key}"), left, right, out),
                    (left, right) => out.push(format!("{path}.{key}: ours {left:?}, recorded {right:?}")),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                difference(&format!("{path}[{index}]"), left, right, out);
            }
        }
        (Value::Number(left), Value::Number(right)) if left.as_f64() == right.as_f64() => {}
        _ if ours == theirs => {}
        _ => out.push(format!("{path}: ours {ours}, recorded {theirs}")),
    }
}

/// Calls a function with every recorded line after each of a number of changes: fields removed, replaced by other types, doubled, nested.
pub fn survives_mutation<E>(file: &str, answer: impl Fn(&Value) -> Result<Value, E>) {
    let Some(lines) = mainstay_testing::data::json_lines(&format!("machine-config/{file}.jsonl.gz")) else { return };
    let strange = strange_values();
    for line in lines.iter().step_by(lines.len() / 5) {
        let mut paths = Vec::new();
        gather("", line, &mut paths);
        let answered = file == "pool-membership";
        let paths = paths.iter().filter(|path| answered || !path.starts_with("/out")).take(60);
        for (number, path) in paths.enumerate() {
            // Every path meets some of the values, every value some of the paths.
            for strange in strange.iter().skip(number % 5).step_by(5) {
                let mut changed = line.clone();
                if let Some(place) = changed.pointer_mut(path) {
                    *place = strange.clone();
                    drop(answer(&changed));
                }
            }
        }
    }
}

fn gather(path: &str, value: &Value, out: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect(),
        Value::Array(items) => items.iter().take(3).enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        let path = format!("{path}/{key}");
        gather(&path, child, out);
        out.push(path);
    }
}

fn strange_values() -> Vec<Value> {
    let deep = (0..100).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let mut all: Vec<Value> = ["null", "true", "-1", "0", "1e300", "9223372036854775807", "[]", "{}", "[null]", "{\"a\":[{}]}"]
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
    let texts = [
        "",
        "%",
        "0%",
        "-7%",
        "101%",
        "99999999999999999999%",
        "\u{0}",
        "ä\u{200b}\"\\\n",
        "9999-12-31T23:59:59Z",
        "*.",
        "a.b/c@d:e",
        "[a]\nb=1",
    ];
    all.extend(texts.iter().map(|text| Value::String((*text).to_owned())));
    all.push(Value::String("x".repeat(10_000)));
    all.push(deep);
    all
}
