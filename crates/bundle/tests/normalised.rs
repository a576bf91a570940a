//! What Go's types do to the objects of a bundle, compared with upstream's renderer over generated bundles of our own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, go, render};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: quay\n  \
                           operators.operatorframework.io.bundle.channels.v1: stable\n";

/// Sets, or takes out, what is at a pointer.
fn edit(object: &mut Value, edit: &[Value]) {
    let pointer = edit[0].as_str().unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (object.pointer_mut(parent).unwrap(), edit.get(1)) {
        (Value::Object(fields), Some(value)) => {
            fields.insert(key, value.clone());
        }
        (Value::Object(fields), None) => {
            fields.remove(&key);
        }
        (Value::Array(items), Some(value)) => items[key.parse::<usize>().unwrap()] = value.clone(),
        (other, _) => panic!("{pointer}: {other}"),
    }
}

/// OLM1-INST-08, OLM1-INST-09, OLM1-INST-10, OLM1-INST-17: what goes through a typed struct upstream comes out as it does there: quantities and
/// times in their normal form, structs that nobody set, empty fields left out, numbers cut, names of any case inside of schemas.
#[test]
fn renderings_are_normalised_as_upstreams() {
    let vectors: Value = serde_json::from_str(include_str!("upstream/renders.json")).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() > 250);
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let mut files = vec![("metadata/annotations.yaml".to_owned(), ANNOTATIONS.to_owned())];
        for (name, base) in vectors["bases"][case["base"].as_str().unwrap()].as_object().unwrap() {
            let mut object = base.clone();
            for change in case["edits"][name].as_array().into_iter().flatten() {
                edit(&mut object, change.as_array().unwrap());
            }
            files.push((format!("manifests/{name}"), object.to_string()));
        }
        let options = RenderOptions {
            install_namespace: "install-ns".to_owned(),
            target_namespaces: serde_json::from_value(case["targets"].clone()).unwrap(),
            certificates: match case["certificates"].as_str().unwrap() {
                "cert-manager" => CertificateProvider::CertManager,
                "service-ca" => CertificateProvider::OpenshiftServiceCa,
                _ => CertificateProvider::None,
            },
            deployment: None,
        };
        let outcome = match Bundle::read(files) {
            Err(error) => {
                if case["refused"] != true {
                    failures.push(format!("{number}: cannot be read: {error}\n  {}", case["edits"]));
                }
                continue;
            }
            Ok(bundle) => render(&bundle, &options),
        };
        match outcome {
            Err(error) if case["error"] == error.to_string() => {}
            Err(error) => failures.push(format!("{number}: {error}\n  wanted {}\n  {}", case["error"], case["edits"])),
            Ok(objects) => {
                let plain = |object: &Value| go::to_string(object).replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
                let mut lines: Vec<String> = objects.iter().map(plain).collect();
                lines.sort();
                if case["sha256"] != format!("{:x}", Sha256::digest(lines.join("\n").as_bytes())) {
                    failures.push(format!("{number}: differs ({} objects, theirs {})\n  {}", lines.len(), case["objects"], case["edits"]));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}\n{}", failures.len(), cases.len(), failures.join("\n"));
}
