//! Kubernetes' own types inside our CRDs, from the tables of crates/kinds in the form of a structural schema.
//!
//! Built-in kinds and CRDs say the same in two dialects: a CRD has no references, no enumerations that Kubernetes checks in code, no patch
//! strategies, and its own words for quantities and for numbers that may be text.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use mainstay_api::kubernetes::DEFINITION;
use serde_json::{Map, Value, json};

/// The form of a quantity as text.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Fields of Kubernetes versions after the one of our tables: a Deployment for a newer cluster must not lose them in a CRD.
const NEWER: &[(&str, &str, &str)] = &[
    ("io.k8s.api.core.v1.PodSpec", "schedulingGroup", r#"{"type": "object", "properties": {"podGroupName": {"type": "string"}}}"#),
    ("io.k8s.api.core.v1.PodCertificateProjection", "userAnnotations", r#"{"type": "object", "additionalProperties": {"type": "string"}}"#),
];

/// The tables of definitions.
pub struct Tables {
    definitions: BTreeMap<String, Value>,
}

impl Tables {
    /// Reads the tables.
    pub fn read(text: &str) -> Result<Self> {
        let mut definitions: BTreeMap<String, Value> = serde_json::from_str(text).context("definitions")?;
        for (definition, field, schema) in NEWER {
            let properties = definitions.get_mut(*definition).and_then(|found| found.get_mut("properties")).and_then(Value::as_object_mut);
            let properties = properties.with_context(|| format!("{definition} has no properties"))?;
            ensure!(!properties.contains_key(*field), "{definition} has {field} now: the list of newer fields must follow");
            properties.insert((*field).to_owned(), serde_json::from_str(schema)?);
        }
        Ok(Self { definitions })
    }

    /// Puts the definition in place of each name.
    pub fn embed(&self, schema: &mut Value) -> Result<()> {
        match schema {
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.remove(DEFINITION) {
                    let found = self.definition(&name, &mut Vec::new())?;
                    map.remove("type");
                    let description = map.remove("description");
                    map.extend(found);
                    map.extend(description.map(|text| ("description".to_owned(), text)));
                    return Ok(());
                }
                map.values_mut().try_for_each(|value| self.embed(value))
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.embed(item)),
            _ => Ok(()),
        }
    }

    fn definition(&self, name: &str, above: &mut Vec<String>) -> Result<Map<String, Value>> {
        let special = match name.rsplit('.').next() {
            Some("Quantity") => {
                Some(json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": true}))
            }
            Some("IntOrString") => Some(json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})),
            // The API server does not look into metadata of embedded templates unless it is told to keep everything.
            Some("ObjectMeta") => Some(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
            _ => None,
        };
        if let Some(Value::Object(special)) = special {
            return Ok(special);
        }
        ensure!(!above.iter().any(|upper| upper == name), "{name} contains itself");
        let found = self.definitions.get(name).with_context(|| format!("no definition {name}"))?;
        above.push(name.to_owned());
        let out = self.structural(found, above);
        above.pop();
        out
    }

    /// The structural form of a schema.
    fn structural(&self, schema: &Value, above: &mut Vec<String>) -> Result<Map<String, Value>> {
        let Value::Object(map) = schema else { bail!("a schema is no object: {schema}") };
        if let Some(Value::String(name)) = map.get("$ref") {
            return self.definition(name, above);
        }
        let mut out = match map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            None => Map::new(),
            Some([one]) => self.structural(one, above)?,
            Some(_) => bail!("more than one reference: {schema}"),
        };
        for (key, value) in map {
            let value = match key.as_str() {
                "allOf" | "enum" | "default" | "x-kubernetes-unions" => continue,
                other if other.starts_with("x-kubernetes-patch-") => continue,
                "properties" => Value::Object(self.properties(map, value, above)?),
                "items" | "additionalProperties" => Value::Object(self.structural(value, above)?),
                _ => value.clone(),
            };
            out.insert(key.clone(), value);
        }
        Ok(out)
    }

    fn properties(&self, owner: &Map<String, Value>, properties: &Value, above: &mut Vec<String>) -> Result<Map<String, Value>> {
        let required =
            |name: &str| owner.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name));
        let mut out = Map::new();
        for (name, schema) in properties.as_object().context("properties")? {
            let mut property = self.structural(schema, above)?;
            // Documents show the zero value of Go as the default of every required field; that is none.
            let zero = |value: &Value| *value == json!({}) || required(name) && (*value == json!("") || *value == json!(0));
            if let Some(default) = schema.get("default").filter(|default| !zero(default)) {
                property.insert("default".to_owned(), default.clone());
            }
            out.insert(name.clone(), Value::Object(property));
        }
        Ok(out)
    }
}
