//! What real operators and a real release apply is accepted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, registry, validate_create};
use mainstay_testing::{crd_pairs, data};
use serde_json::{Value, json};

/// What is wrong with an object that somebody creates; none for kinds that are not built in.
fn problems(object: &Value) -> Option<Vec<String>> {
    let gvk = Gvk::of(object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let resource = registry().resource_of_kind(&gvk).filter(|resource| resource.kind != "CustomResourceDefinition")?;
    let mut object = object.clone();
    default(&gvk, &mut object);
    let once = object.clone();
    default(&gvk, &mut object);
    assert_eq!(object, once, "defaults of {gvk} are not stable");
    // What a server does with the namespace of a request.
    if !resource.namespaced {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    } else if object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("ns");
    }
    object["metadata"]["uid"] = json!("u");
    prepare_create(&gvk, &mut object, &Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() });
    Some(validate_create(&gvk, &object).iter().map(|error| format!("{gvk} {}: {error}", object["metadata"]["name"])).collect())
}

/// KAPI-REST-07: no rendered object of a real operator is refused, and filling in defaults twice changes nothing.
#[test]
fn objects_of_real_operators_are_accepted() {
    let Some(renders) = data::json_lines("bundle-oracle/olmv1-render.jsonl") else { return };
    let (mut accepted, mut refused) = (0, Vec::new());
    for render in &renders {
        for object in render["objects"].as_array().into_iter().flatten() {
            match problems(object) {
                Some(found) if found.is_empty() => accepted += 1,
                found => refused.extend(found.into_iter().flatten()),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted > 300, "only {accepted} objects were found");
}

/// KAPI-REST-07: no manifest of a real release payload is refused.
#[test]
fn manifests_of_a_real_release_are_accepted() {
    let Some(files) = data::archive("payload.tar.gz") else { return };
    let (mut accepted, mut refused) = (0, Vec::new());
    for (name, bytes) in files {
        // One release is enough; CRDs are somebody else's.
        if !name.contains("/4.19")
            || name.contains("crd")
            || ![Some("yaml"), Some("json")].contains(&name.rsplit('.').next())
            || bytes.len() > 200_000
        {
            continue;
        }
        let text = String::from_utf8(bytes).unwrap();
        for document in mainstay_yaml::stream(&text) {
            let Ok(document) = document else { continue };
            match problems(&document.value) {
                Some(found) if found.is_empty() => accepted += 1,
                found => refused.extend(found.into_iter().flatten().map(|problem| format!("{name}: {problem}"))),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted > 400, "only {accepted} objects were found");
}

/// Every value of `given` that says something is still there.
fn lost(given: &Value, kept: &Value, path: &str, out: &mut Vec<String>) {
    match given {
        Value::Object(map) => {
            for (key, child) in map {
                lost(child, kept.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), out);
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                lost(child, kept.get(index).unwrap_or(&Value::Null), &format!("{path}[{index}]"), out);
            }
        }
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        scalar => {
            if scalar != kept && scalar.as_f64() != Some(0.0) {
                out.push(format!("{path}: {scalar} became {kept}"));
            }
        }
    }
}

/// KAPI-REST-08: Go's form of a real CRD keeps everything that its schemas say.
#[test]
fn definitions_of_real_operators_survive() {
    let Some(pairs) = crd_pairs::pairs() else { return };
    for pair in &pairs[..40] {
        let given = mainstay_yaml::parse(&pair.new).unwrap();
        let mut kept = given.clone();
        default(&Gvk::of(given["apiVersion"].as_str().unwrap(), given["kind"].as_str().unwrap()), &mut kept);
        let mut problems = Vec::new();
        lost(&given["spec"], &kept["spec"], "spec", &mut problems);
        // A field of the older version of CRDs, which the current one drops.
        problems.retain(|problem| !problem.contains(".JSONPath:"));
        assert!(problems.is_empty(), "{}: {}", pair.folder, problems.join("\n"));
    }
}
