//! The recorded answers of a kube-apiserver, as far as they are about schemas alone.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use mainstay_schema::field::{Error, Path, aggregate};
use mainstay_schema::{Schema, coerce, crd, default, prune, validate};
use mainstay_testing::transcripts::{self, Transcript, steps};
use serde_json::{Value, json};

fn causes(errors: &[Error]) -> Value {
    errors.iter().map(|error| json!({"reason": error.reason(), "message": error.body(), "field": error.field.to_string()})).collect()
}

/// Compares findings with a recorded Status; an error text says how they differ.
fn compare(errors: &[Error], answer: &Value) -> Result<(), String> {
    let status = answer["status"].as_u64().unwrap();
    if errors.is_empty() != (status < 400) {
        return Err(format!("recorded {status} {}, ours {}", answer["body"]["message"], aggregate(errors)));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let recorded = &answer["body"]["details"]["causes"];
    let ours = causes(errors);
    if recorded != &ours {
        return Err(format!("recorded {recorded:#}\nours {ours:#}"));
    }
    let message = answer["body"]["message"].as_str().unwrap();
    let text = aggregate(errors);
    if !message.ends_with(&format!("is invalid: {text}")) {
        return Err(format!("recorded {message}\nours {text}"));
    }
    Ok(())
}

/// Plays the creations of a scenario against the schema of its CRD.
fn play(name: &str) -> Vec<String> {
    let Some(steps) = steps(&format!("custom/{name}")) else { return Vec::new() };
    let mut schema = Schema::default();
    let mut stored: BTreeMap<String, Value> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let body = &step["body"];
        if body["kind"] == "CustomResourceDefinition" {
            schema = Schema::from_json(&body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
            continue;
        }
        if step["method"] != "POST" || !body.is_object() || step.get("query").is_some_and(|query| query["fieldValidation"] == "Strict") {
            continue;
        }
        let mut object = body.clone();
        coerce::numbers(&mut object);
        coerce::metadata(&mut object, false).unwrap();
        prune::prune(&schema, &mut object);
        default::default(&schema, &mut object);
        let errors = validate::validate(&schema, &object, &Path::root());
        if let Err(difference) = compare(&errors, &step["answer"]) {
            wrong.push(format!("{name} step {index}: {difference}"));
        } else if errors.is_empty() {
            let recorded = step["answer"]["body"].get("spec").cloned();
            if let Some(recorded) = recorded.filter(|recorded| *recorded != object["spec"]) {
                wrong.push(format!("{name} step {index}: recorded {recorded}, ours {}", object["spec"]));
            }
            stored.insert(object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object);
        }
    }
    wrong
}

/// KAPI-CRD-02, KAPI-REST-04: instances are validated, pruned and defaulted with the recorded results, findings in the recorded words and order.
#[test]
fn custom_resources_answer_as_recorded() {
    let mut wrong = Vec::new();
    for name in [
        "array-limits",
        "default-columns",
        "defaulting",
        "enum",
        "formats",
        "list-map",
        "logical",
        "nullable",
        "object-limits",
        "required",
        "string-limits",
        "type-errors",
        "unknown-fields-validation",
    ] {
        wrong.extend(play(name));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// KAPI-REST-03: unknown fields are named as recorded.
#[test]
fn unknown_fields_are_named_as_recorded() {
    let Some(steps) = steps("custom/unknown-fields-validation") else { return };
    let schema = Schema::from_json(&steps[0]["body"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
    let mut object = steps[2]["body"].clone();
    let unknown: Vec<String> = prune::prune(&schema, &mut object).iter().map(|path| format!("unknown field \"{path}\"")).collect();
    let message = steps[2]["answer"]["body"]["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("strict decoding error: {}", unknown.join(", "))), "{message}\n{unknown:?}");
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

/// KAPI-CRD-01, KAPI-CRD-02, KAPI-REST-04: CRDs are refused with the recorded causes in the recorded order, and filled as recorded.
#[test]
fn definitions_answer_as_recorded() {
    let Some(transcripts) = transcripts::topic("crd") else { return };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for Transcript { name, steps } in transcripts.into_iter().map(Transcript::with_names) {
        // Those two are about the compiler and the cost of CEL rules.
        if name.starts_with("crd/bad-cel") {
            continue;
        }
        let mut stored = Value::Null;
        for (index, step) in steps.iter().enumerate() {
            let is_crd = step["path"].as_str().unwrap_or_default().contains("customresourcedefinitions");
            let errors = match step["method"].as_str() {
                Some("POST") if is_crd => {
                    let mut object = step["body"].clone();
                    crd::fill(&mut object);
                    crd::prepare_create(&mut object);
                    let errors = crd::validate(&object, &|_, _| Vec::new());
                    if errors.is_empty() {
                        stored = object;
                    }
                    errors
                }
                Some("PATCH") if is_crd => {
                    let mut object = stored.clone();
                    merge(&mut object, &step["body"]);
                    crd::fill(&mut object);
                    crd::prepare_update(&mut object, &stored);
                    let errors = crd::validate_update(&object, &stored, &|_, _| Vec::new());
                    if errors.is_empty() {
                        stored = object;
                    }
                    errors
                }
                _ => {
                    if is_crd && stored["metadata"]["name"].is_string() {
                        let names = crd::names_accepted(&stored, []);
                        stored["status"]["acceptedNames"] = names.accepted.to_json();
                        stored["status"]["conditions"] = [names.names_accepted, names.established]
                            .into_iter()
                            .map(|condition| json!({"type": condition.kind, "status": if condition.status { "True" } else { "False" }}))
                            .collect();
                    }
                    continue;
                }
            };
            compared += 1;
            if let Err(difference) = compare(&errors, &step["answer"]) {
                wrong.push(format!("{name} step {index}: {difference}"));
            } else if let Some(spec) = step["answer"]["body"].get("spec") {
                if *spec != stored["spec"] {
                    wrong.push(format!("{name} step {index}: recorded {spec}, ours {}", stored["spec"]));
                }
                if step["method"] == "POST" && step["answer"]["body"]["status"] != stored["status"] {
                    wrong.push(format!("{name} step {index}: recorded {}, ours {}", step["answer"]["body"]["status"], stored["status"]));
                }
            }
        }
    }
    assert!(compared >= 60, "only {compared} requests compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// KAPI-CRD-01: the approval condition of protected groups, and the warning about formats, are as recorded.
#[test]
fn approval_and_warnings_are_as_recorded() {
    let (Some(approval), Some(formats)) = (steps("crd/approval"), steps("custom/formats")) else { return };
    let condition = crd::approval(&approval[0]["body"]).unwrap();
    let recorded = &approval[1]["answer"]["body"];
    let at = |key: &str| recorded[format!("/status/conditions/type=KubernetesAPIApprovalPolicyConformant/{key}")].as_str().unwrap();
    assert_eq!((at("status"), at("reason"), at("message")), ("False", condition.reason, condition.message.as_str()));

    let warnings: Vec<String> = crd::warnings(&formats[0]["body"], None).iter().map(|text| format!("299 - {text:?}")).collect();
    assert_eq!(json!(warnings), formats[0]["answer"]["headers"]["warning"]);
}
