//! Rules and answers recorded from a real API server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use mainstay_cel::{CompiledRules, Reason, RuleError, Violation};
use mainstay_schema::Schema;
use mainstay_testing::data;
use mainstay_testing::transcripts::steps;
use serde_json::Value;

const PREFIX: &str = "spec.validation.openAPIV3Schema";

fn compile(definition: &Value) -> Result<CompiledRules, Vec<RuleError>> {
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    CompiledRules::compile(&Schema::from_json(schema).unwrap(), PREFIX)
}

fn error_text(error: &RuleError) -> String {
    match (error.reason, &error.value) {
        (Reason::Required, _) => format!("{}: Required value: {}", error.path, error.detail),
        (Reason::Forbidden, _) => format!("{}: Forbidden: {}", error.path, error.detail),
        (_, Some(value)) => format!("{}: Invalid value: {value}: {}", error.path, error.detail),
        (_, None) => format!("{}: Invalid value: {}", error.path, error.detail),
    }
}

fn violation_text(violation: &Violation) -> String {
    let path = if violation.path.is_empty() { "<nil>" } else { &violation.path };
    let message = &violation.message;
    match (violation.reason, &violation.value) {
        (Reason::Forbidden, _) => format!("{path}: Forbidden: {message}"),
        (Reason::Required, _) => format!("{path}: Required value: {message}"),
        (Reason::Duplicate, Some(value)) => format!("{path}: Duplicate value: {value}"),
        (Reason::Duplicate, None) => format!("{path}: Duplicate value"),
        (_, Some(value)) => format!("{path}: Invalid value: {value}: {message}"),
        (_, None) => format!("{path}: Invalid value: {message}"),
    }
}

/// KAPI-CRD-03: a rule that cannot be compiled refuses the definition, in the recorded words.
#[test]
fn rules_that_do_not_compile() {
    let Some(steps) = steps("crd/bad-cel-compile") else { return };
    let mut count = 0;
    for step in steps.iter().filter(|step| step["method"] == "POST") {
        let message = step["answer"]["body"]["message"].as_str().unwrap();
        let expected = message.split_once(" is invalid: ").unwrap().1;
        let errors = compile(&step["body"]).expect_err(message);
        let texts: Vec<String> = errors.iter().map(error_text).collect();
        assert_eq!(texts.join(", "), expected);
        count += 1;
    }
    assert_eq!(count, 7);
}

/// KAPI-CRD-03: rules that could cost too much are refused, each and all together, with the recorded factors.
#[test]
fn rules_that_cost_too_much() {
    let Some(steps) = steps("crd/bad-cel-cost") else { return };
    for step in &steps {
        let schema = Schema::from_json(&step["body"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
        let texts: Vec<String> = CompiledRules::refusals(&schema, PREFIX).iter().map(error_text).collect();
        let message = step["answer"]["body"]["message"].as_str().unwrap();
        assert_eq!(format!("[{}]", texts.join(", ")), message.split_once(" is invalid: ").unwrap().1);
        // What is in force already stays so.
        assert!(CompiledRules::compile(&schema, PREFIX).is_ok());
    }
    assert_eq!(steps.len(), 2);
}

/// KAPI-CRD-03: rules that use the extension libraries compile.
#[test]
fn rules_that_use_libraries() {
    let Some(steps) = steps("crd/ok-cel-libraries") else { return };
    for step in steps.iter().filter(|step| step["method"] == "POST") {
        if let Err(errors) = compile(&step["body"]) {
            panic!("{}", error_text(&errors[0]));
        }
    }
}

/// KAPI-CRD-03: rules at run time answer as recorded: self and oldSelf, reasons, paths, libraries, equality by list type.
#[test]
fn rules_at_run_time() {
    for name in [
        "escaped-names",
        "int-or-string-dates",
        "optional-old-self",
        "reasons",
        "root",
        "set-map-equality",
        "strings-lists",
        "urls-ips-quantities",
    ] {
        let Some(steps) = steps(&format!("cel/{name}")) else { return };
        let rules = compile(&steps[0]["body"]).unwrap();
        let mut stored: BTreeMap<String, Value> = BTreeMap::new();
        let mut checked = 0;
        for step in &steps[1..] {
            let (old, new) = match step["method"].as_str().unwrap() {
                "POST" => (None, step["body"].clone()),
                "PATCH" => {
                    let path = step["path"].as_str().unwrap();
                    let old = stored[path.rsplit('/').next().unwrap()].clone();
                    let mut new = old.clone();
                    merge(&mut new, &step["body"]);
                    (Some(old), new)
                }
                _ => continue,
            };
            checked += 1;
            let violations = rules.validate(&new, old.as_ref());
            let texts: Vec<String> = violations.iter().map(violation_text).collect();
            if step["expect"].as_u64().unwrap() < 300 {
                assert_eq!(texts, Vec::<String>::new(), "{name}: {new}");
                stored.insert(new["metadata"]["name"].as_str().unwrap().to_owned(), new);
            } else {
                let message = step["answer"]["body"]["message"].as_str().unwrap();
                assert_eq!(texts.join(", "), message.split_once(" is invalid: ").unwrap().1, "{name}: {new}");
            }
        }
        assert!(checked >= 3, "{name}");
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let (Value::Object(into), Value::Object(patch)) = (&mut *into, patch) else {
        *into = patch.clone();
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            into.remove(name);
        } else {
            merge(into.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// KAPI-CRD-03: the rules of the definitions that OLM itself ships compile.
#[test]
fn rules_of_real_definitions() {
    let Some(files) = data::files("api-definitions", "yaml") else { return };
    let mut count = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for document in mainstay_yaml::stream(&text) {
            let document = document.unwrap_or_else(|error| panic!("{}: {error}", path.display())).value;
            if document["kind"] != "CustomResourceDefinition" {
                continue;
            }
            for version in document["spec"]["versions"].as_array().unwrap() {
                let schema = Schema::from_json(&version["schema"]["openAPIV3Schema"]).unwrap();
                match CompiledRules::compile(&schema, PREFIX) {
                    Ok(rules) => count += usize::from(!rules.is_empty()),
                    Err(errors) => panic!("{}: {}", path.display(), error_text(&errors[0])),
                }
            }
        }
    }
    assert!(count > 0);
}
