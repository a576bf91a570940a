//! Everything that a real API server was sent and answered, through protobuf and back.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_kinds::Gvk;
use mainstay_protobuf::{Limits, decode, encode, has_message};
use mainstay_testing::transcripts;
use serde_json::{Value, json};

/// KAPI-SRV-07: a value survives JSON, protobuf, JSON: every object of a built-in kind that a real server answered comes back as it was,
/// and every one that it was sent comes back as Go's decoder would understand it.
#[test]
fn recorded_objects_survive() {
    let Some(transcripts) = transcripts::all() else { return };
    let (mut answers, mut requests, mut wrong) = (0, 0, Vec::new());
    for transcript in &transcripts {
        for (at, step) in transcript.steps.iter().enumerate() {
            let place = format!("{} step {at}", transcript.name);
            each_object(&step["answer"]["body"], &mut |object| {
                let mut object = object.clone();
                real_values(&mut object);
                answers += 1;
                let back = match there_and_back(&object) {
                    Ok(back) => back,
                    Err(error) => return wrong.push(format!("{place}: {error}")),
                };
                forget_inner_types(&mut object);
                let mut back = back;
                ignored_status(&object, &mut back);
                if without_nulls(&back) != without_nulls(&object) {
                    wrong.push(format!("{place}:\n{}", difference(&without_nulls(&object), &without_nulls(&back), "")));
                }
            });
            each_object(&step["body"], &mut |object| {
                let mut object = object.clone();
                real_values(&mut object);
                // What is sent may be wrong on purpose: then the encoder names the field.
                let Ok(back) = there_and_back(&object) else { return };
                requests += 1;
                let gvk = Gvk::of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
                assert_eq!(there_and_back(&back).unwrap(), back, "{place}: a second time differs");
                // In Kubernetes' own form both are the same.
                let mut back = back;
                forget_inner_types(&mut object);
                mainstay_kinds::go_form(&gvk, &mut object);
                mainstay_kinds::go_form(&gvk, &mut back);
                unset(&mut object);
                unset(&mut back);
                if without_nulls(&back) != without_nulls(&object) {
                    wrong.push(format!("{place} request:\n{}", difference(&without_nulls(&object), &without_nulls(&back), "")));
                }
            });
        }
    }
    assert!(wrong.is_empty(), "{} of {answers} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(answers > 600 && requests > 300, "{answers} answers and {requests} requests were found");
}

fn there_and_back(object: &Value) -> Result<Value, mainstay_protobuf::Error> {
    decode(&encode(object)?, &Limits::default())
}

/// The object itself, or those inside an event or list of unnamed ones, where they have a protobuf form.
fn each_object(body: &Value, then: &mut impl FnMut(&Value)) {
    let (Some(api_version), Some(kind)) = (body["apiVersion"].as_str(), body["kind"].as_str()) else { return };
    if has_message(api_version, kind) {
        then(body);
    }
}

/// Placeholders of the recording become values of the field's type.
fn real_values(value: &mut Value) {
    match value {
        Value::String(text) if text == "<time>" => "2026-01-02T03:04:05Z".clone_into(text),
        Value::String(text) if text == "<microtime>" => "2026-01-02T03:04:05.123456Z".clone_into(text),
        Value::String(text) if text == "<pem>" => "UEVN".clone_into(text),
        Value::String(text) if text == "<nodePort>" => *value = json!(30_000),
        Value::Array(list) => list.iter_mut().for_each(real_values),
        Value::Object(map) => {
            // What was left to the server to choose is text here, where the field holds something else.
            map.retain(|key, value| {
                !(value == "<ignored>" && matches!(key.as_str(), "extra" | "managedFields" | "retryAfterSeconds" | "status"))
            });
            map.values_mut().for_each(real_values);
        }
        _ => {}
    }
}

/// Objects inside others have no apiVersion and kind in protobuf, with Kubernetes neither.
fn forget_inner_types(object: &mut Value) {
    for place in ["/items", "/spec/volumeClaimTemplates"] {
        for item in object.pointer_mut(place).and_then(Value::as_array_mut).into_iter().flatten() {
            for name in ["apiVersion", "kind"] {
                item.as_object_mut().unwrap().remove(name);
            }
        }
    }
}

/// Values that Go writes for fields which were not set, and which defaults treat as such; microseconds where a time had none.
fn unset(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(unset),
        Value::Object(map) => {
            map.retain(|key, value| !(key == "targetPort" && *value == json!(0) || key == "divisor" && value == "0"));
            map.values_mut().for_each(unset);
        }
        Value::String(text) if text.ends_with(".000000Z") => text.truncate(text.len() - 8),
        Value::String(text) if text.ends_with('Z') => text.truncate(text.len() - 1),
        _ => {}
    }
}

/// A status that the recording does not have.
fn ignored_status(object: &Value, back: &mut Value) {
    if object.get("status").is_none() && back.get("status") == Some(&json!({})) {
        back.as_object_mut().unwrap().remove("status");
    }
}

/// Null and an empty list are the same on the wire: neither is there.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        Value::Object(map) => {
            let said = |value: &Value| !(value.is_null() || value == &json!([]));
            map.iter().filter(|(_, value)| said(value)).map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        other => other.clone(),
    }
}

fn difference(left: &Value, right: &Value, path: &str) -> String {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            let part = |key: &String| {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                if a == b { String::new() } else { difference(a, b, &format!("{path}/{key}")) }
            };
            keys.into_iter().map(part).collect()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b).map(|(at, (a, b))| difference(a, b, &format!("{path}/{at}"))).collect()
        }
        _ => format!("  {path}: {left} -> {right}\n"),
    }
}
