//! CRD manifests from the types, with what the derive leaves out or writes in its own way put right by rule.

use kube_core::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::lifecycle::{ChangePlan, LifecyclePolicy};
use crate::olm_v1::{ClusterCatalog, ClusterExtension};

/// A CRD manifest and the file that it is checked in as.
pub struct Manifest {
    /// Below `crates/api/manifests`.
    pub file: String,
    /// The CustomResourceDefinition.
    pub definition: Value,
}

/// The manifests of all types.
///
/// # Errors
/// When a derived definition is no JSON; the types would have to be at fault.
pub fn manifests() -> Result<Vec<Manifest>, serde_json::Error> {
    [ClusterCatalog::crd(), ClusterExtension::crd(), LifecyclePolicy::crd(), ChangePlan::crd()]
        .into_iter()
        .map(|crd| {
            let mut definition = serde_json::to_value(crd)?;
            put_right(&mut definition);
            let name = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let file = format!("{}_{}.yaml", name("/spec/group"), name("/spec/names/plural"));
            Ok(Manifest { file, definition })
        })
        .collect()
}

/// Puts a definition right.
pub(crate) fn put_right(definition: &mut Value) {
    if let Some(Value::Object(names)) = definition.pointer_mut("/spec/names") {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        names.insert("listKind".into(), json!(format!("{kind}List")));
        names.retain(|_, value| !matches!(value, Value::Array(items) if items.is_empty()));
    }
    if let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") {
        for version in versions {
            if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
                put_schema_right(schema);
                if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                    properties.insert("apiVersion".into(), json!({"type": "string"}));
                    properties.insert("kind".into(), json!({"type": "string"}));
                    properties.insert("metadata".into(), json!({"type": "object"}));
                }
            }
        }
    }
}

/// An optional field is absent, not null, unless it says otherwise; whole numbers are whole; `uint*` and `int` formats are no Kubernetes formats.
fn put_schema_right(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("nullable");
            // A field that takes null says so itself.
            if let Some(takes_null) = map.remove("x-nullable") {
                map.insert("nullable".into(), takes_null);
            }
            map.remove("title");
            if matches!(map.get("additionalProperties"), Some(Value::Null)) {
                map.remove("additionalProperties");
            }
            drop_null_choice(map);
            if matches!(map.get("format"), Some(Value::Null)) {
                map.remove("format");
            }
            for key in ["minimum", "maximum"] {
                if let Some(number) = map.get(key).and_then(Value::as_f64)
                    && number.fract() == 0.0
                {
                    map.insert(key.into(), json!(number as i64));
                }
            }
            // A default that only restates "nothing" is no default.
            if matches!(map.get("default"), Some(Value::Null))
                || matches!(map.get("default"), Some(Value::Array(items)) if items.is_empty())
            {
                map.remove("default");
            }
            for (key, value) in map.iter_mut() {
                if key == "properties" {
                    if let Value::Object(properties) = value {
                        properties.values_mut().for_each(put_schema_right);
                    }
                } else if key != "default" && key != "x-kubernetes-validations" {
                    put_schema_right(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(put_schema_right),
        _ => {}
    }
}

fn drop_null_choice(map: &mut Map<String, Value>) {
    if let Some(Value::Array(choices)) = map.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
}
