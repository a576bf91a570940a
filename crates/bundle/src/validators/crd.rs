//! The validator of CRDs: the API server's checks except those of the schema and the status, which upstream leaves out.

use mainstay_schema::crd;
use mainstay_schema::field::{BadValue, Error, Kind};
use serde_json::{Value, json};

use super::finding::Finding;
use super::manifests::{Manifest, Manifests};
use super::rules;

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    manifests.crds.iter().flat_map(check).chain(manifests.old_crds.iter().flat_map(check_old)).collect()
}

/// Findings about a CRD of `apiextensions.k8s.io/v1`.
pub(super) fn check(manifest: &Manifest) -> Vec<Finding> {
    let mut object = manifest.object.clone();
    crd::fill(&mut object);
    crd::prepare_create(&mut object);
    let errors = crd::validate(&object, &|_, _| Vec::new());
    errors.iter().filter(|error| counts(error)).map(|error| finding(error, &manifest.file)).collect()
}

/// Findings about a CRD of `apiextensions.k8s.io/v1beta1`, which is converted into the newer form first.
pub(super) fn check_old(manifest: &Manifest) -> Vec<Finding> {
    check(&Manifest { file: manifest.file.clone(), object: newer(&manifest.object) })
}

fn counts(error: &Error) -> bool {
    !error.field.as_str().contains("openAPIV3Schema") && !error.field.as_str().contains("status")
}

fn finding(error: &Error, file: &str) -> Finding {
    let value = match &error.bad_value {
        BadValue::Omitted => String::new(),
        BadValue::Value(Value::String(text)) => text.clone(),
        BadValue::Value(value) => value.to_string(),
        BadValue::Json(json) => json.clone(),
    };
    let path = error.field.as_str();
    let mut finding = Finding::error(&rules::CRD, value, error.to_string()).field(path).at(file, path);
    finding.kind = match error.kind {
        Kind::TooLong => "FieldValueTooLong",
        _ => error.reason(),
    };
    finding
}

/// The CRD in the newer form: fields at the top of the older form are repeated in each version.
fn newer(crd: &Value) -> Value {
    let mut crd = crd.clone();
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return crd };
    // The older form keeps unknown fields unless it says otherwise.
    spec.entry("preserveUnknownFields").or_insert(json!(true));
    if spec.get("scope").is_none_or(Value::is_null) {
        spec.insert("scope".to_owned(), json!("Namespaced"));
    }
    let version = spec.remove("version").filter(|version| version.as_str().is_some_and(|text| !text.is_empty()));
    let listed = spec.get("versions").and_then(Value::as_array).is_some_and(|versions| !versions.is_empty());
    if !listed {
        let versions = version.into_iter().map(|name| json!({"name": name, "served": true, "storage": true})).collect();
        spec.insert("versions".to_owned(), versions);
    }
    let columns = spec.remove("additionalPrinterColumns");
    let shared =
        [("schema", spec.remove("validation")), ("subresources", spec.remove("subresources")), ("additionalPrinterColumns", columns)];
    for version in spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(version) = version.as_object_mut() else { continue };
        for (key, value) in &shared {
            if let Some(value) = value {
                version.entry(*key).or_insert_with(|| value.clone());
            }
        }
        for column in version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(column) = column.as_object_mut()
                && let Some(path) = column.remove("JSONPath")
            {
                column.insert("jsonPath".to_owned(), path);
            }
        }
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let config = conversion.remove("webhookClientConfig");
        let versions = conversion.remove("conversionReviewVersions");
        if config.is_some() || versions.is_some() {
            conversion.insert("webhook".to_owned(), json!({"clientConfig": config, "conversionReviewVersions": versions}));
        }
    }
    crd
}
