//! Fields that one schema has and another has not, and a check whether an object has data in them.

use std::fmt;

use serde_json::Value;

/// Maximum depth to which schemas are followed.
const DEPTH: usize = 64;

/// A field, identified by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// The property of this name.
    Property(String),
    /// Every item of a list.
    Item,
    /// Every value of a map.
    Value,
}

impl Field {
    /// Returns true if an object has data in the field.
    pub(super) fn is_set(&self, object: &Value) -> bool {
        set(object, &self.0)
    }

    /// Returns the path in the form of a CRD comparison's findings: `^.spec.colour`.
    pub(super) fn as_found(&self) -> String {
        self.0.iter().fold("^".to_owned(), |path, part| match part {
            Part::Property(name) => format!("{path}.{name}"),
            Part::Item => format!("{path}.items"),
            Part::Value => format!("{path}.additionalProperties"),
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            match part {
                Part::Property(name) if index == 0 => out.write_str(name)?,
                Part::Property(name) => write!(out, ".{name}")?,
                Part::Item => out.write_str("[]")?,
                Part::Value => out.write_str(".*")?,
            }
        }
        Ok(())
    }
}

fn set(value: &Value, path: &[Part]) -> bool {
    let Some((part, rest)) = path.split_first() else { return !value.is_null() };
    match part {
        Part::Property(name) => value.get(name).is_some_and(|value| set(value, rest)),
        Part::Item => value.as_array().is_some_and(|items| items.iter().any(|item| set(item, rest))),
        Part::Value => value.as_object().is_some_and(|values| values.values().any(|value| set(value, rest))),
    }
}

/// Returns the topmost fields of a version of `live` that the same version of `older` would drop.
pub(super) fn removed(live: &Value, older: &Value, version: &str) -> Vec<Field> {
    let schema = |crd: &Value| {
        let versions = crd["spec"]["versions"].as_array()?;
        versions.iter().find(|each| each["name"] == version).map(|version| version["schema"]["openAPIV3Schema"].clone())
    };
    let mut fields = Vec::new();
    if let (Some(live), Some(older)) = (schema(live), schema(older)) {
        walk(&live, &older, &mut Vec::new(), &mut fields);
    }
    fields
}

fn walk(live: &Value, older: &Value, path: &mut Vec<Part>, fields: &mut Vec<Field>) {
    if path.len() >= DEPTH || older["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let mut follow = |part: Part, live: &Value, older: Option<&Value>| {
        path.push(part);
        match older {
            Some(older) => walk(live, older, path, fields),
            None => fields.push(Field(path.clone())),
        }
        path.pop();
    };
    let others = older.get("additionalProperties").filter(|others| others.is_object());
    for (name, node) in live["properties"].as_object().into_iter().flatten() {
        if older["additionalProperties"] != true {
            follow(Part::Property(name.clone()), node, older["properties"].get(name).or(others));
        }
    }
    if live["items"].is_object() {
        follow(Part::Item, &live["items"], older.get("items").filter(|items| items.is_object()));
    }
    if live["additionalProperties"].is_object() && older["additionalProperties"] != true {
        follow(Part::Value, &live["additionalProperties"], others);
    }
}
