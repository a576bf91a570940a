//! What real operators and a real release apply is accepted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Read as _;
use std::path::{Path, PathBuf};

use mainstay_kinds::{Context, Gvk, Requester, default, prepare_create, registry, validate_create};
use serde_json::{Value, json};

fn shared(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(file);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "shared data is absent");
    eprintln!("skipped: ../shared/data/{file} is absent");
    None
}

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
    let Some(file) = shared("bundle-oracle/olmv1-render.jsonl") else { return };
    let (mut accepted, mut refused) = (0, Vec::new());
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let render: Value = serde_json::from_str(line).unwrap();
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
    let Some(file) = shared("payload.tar.gz") else { return };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()));
    let (mut accepted, mut refused) = (0, Vec::new());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        // One release is enough; CRDs are somebody else's.
        if !name.contains("/4.19")
            || name.contains("crd")
            || ![Some("yaml"), Some("json")].contains(&name.rsplit('.').next())
            || entry.size() > 200_000
        {
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
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
    let Some(folder) = shared("crd-pairs") else { return };
    let mut seen = 0;
    let below = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    let pairs = below(&folder).into_iter().flat_map(|package| below(&package)).flat_map(|name| {
        let inner = below(&name);
        if inner.is_empty() { vec![name] } else { inner }
    });
    for pair in pairs.take(40) {
        let Ok(text) = std::fs::read_to_string(pair.join("new.yaml")) else { continue };
        let given = mainstay_yaml::parse(&text).unwrap();
        let mut kept = given.clone();
        default(&Gvk::of(given["apiVersion"].as_str().unwrap(), given["kind"].as_str().unwrap()), &mut kept);
        let mut problems = Vec::new();
        lost(&given["spec"], &kept["spec"], "spec", &mut problems);
        // A field of the older version of CRDs, which the current one drops.
        problems.retain(|problem| !problem.contains(".JSONPath:"));
        assert!(problems.is_empty(), "{}: {}", pair.display(), problems.join("\n"));
        seen += 1;
    }
    assert!(seen > 20, "only {seen} definitions were found");
}
