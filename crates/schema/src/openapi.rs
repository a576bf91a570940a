//! The part of the OpenAPI documents that a CRD adds, so that kubectl can explain and check its objects (KAPI-DISC-02).
//!
//! A schema is published as the CRD's author wrote it, with three changes: apiVersion, kind and metadata are those of every object, the
//! definition says its group, version and kind, and the older document (v2) loses what it cannot express.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::crd::KindNames;

/// The document a definition is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// `/openapi/v2`: no nullable, no anyOf, oneOf, allOf, not.
    V2,
    /// `/openapi/v3/apis/GROUP/VERSION`.
    V3,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The name of a kind's definition: the group backwards, the version, the kind (`com.example.v1.Widget`).
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// The definitions of a kind and of its list, by name. `version` is one element of the CRD's `spec.versions`.
pub fn definitions(group: &str, names: &KindNames, version: &Value, document: Document) -> BTreeMap<String, Value> {
    let version_name = version["name"].as_str().unwrap_or_default();
    let name = definition_name(group, version_name, &names.kind);
    let mut schema = published(&version["schema"]["openAPIV3Schema"], document);
    mark(&mut schema, group, version_name, &names.kind);

    let mut list = json!({
        "type": "object",
        "description": format!("{} is a list of {}", names.list_kind, names.kind),
        "required": ["items"],
        "properties": {
            "items": {"type": "array", "description": format!("List of {}.", names.plural), "items": reference(&name, document)},
        },
    });
    add_type_meta(&mut list, LIST_META, document);
    mark(&mut list, group, version_name, &names.list_kind);
    BTreeMap::from([(definition_name(group, version_name, &names.list_kind), list), (name, schema)])
}

fn published(schema: &Value, document: Document) -> Value {
    // Properties without the rest would make kubectl think that nothing else is allowed.
    if !schema.is_object() || (document == Document::V2 && schema["x-kubernetes-preserve-unknown-fields"] == true) {
        return json!({"type": "object"});
    }
    let mut schema = schema.clone();
    if document == Document::V2 {
        reduce(&mut schema);
    }
    add_embedded(&mut schema, document);
    add_type_meta(&mut schema, OBJECT_META, document);
    schema
}

/// Removes the keywords that OpenAPI v2 cannot express.
fn reduce(schema: &mut Value) {
    let Value::Object(map) = schema else {
        return;
    };
    for key in ["allOf", "anyOf", "oneOf", "not"] {
        map.remove(key);
    }
    if map.remove("nullable") == Some(Value::Bool(true)) {
        // Without a type anything goes there, null too; and with properties it would be an object again.
        for key in ["type", "properties", "items", "additionalProperties", "required"] {
            map.remove(key);
        }
    }
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("type");
    }
    each_part(map, &mut reduce);
}

/// Gives embedded objects the members that every object has.
fn add_embedded(schema: &mut Value, document: Document) {
    let embedded = schema["x-kubernetes-embedded-resource"] == true;
    if let Value::Object(map) = schema {
        each_part(map, &mut |part| add_embedded(part, document));
    }
    if embedded {
        add_type_meta(schema, OBJECT_META, document);
    }
}

fn each_part(map: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for key in ["items", "additionalProperties", "not"] {
        if let Some(part) = map.get_mut(key) {
            visit(part);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for part in map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            visit(part);
        }
    }
    for (_, part) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        visit(part);
    }
}

fn add_type_meta(schema: &mut Value, metadata: &str, document: Document) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    for key in ["apiVersion", "kind"] {
        properties.entry(key).or_insert_with(|| json!({"type": "string"}));
    }
    properties.insert("metadata".to_owned(), reference(metadata, document));
}

fn reference(name: &str, document: Document) -> Value {
    match document {
        Document::V2 => json!({"$ref": format!("#/definitions/{name}")}),
        Document::V3 => json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}),
    }
}

fn mark(schema: &mut Value, group: &str, version: &str, kind: &str) {
    if let Some(map) = schema.as_object_mut() {
        map.insert("x-kubernetes-group-version-kind".to_owned(), json!([{"group": group, "version": version, "kind": kind}]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widget() -> (KindNames, Value) {
        let names = KindNames {
            plural: "widgets".to_owned(),
            singular: "widget".to_owned(),
            kind: "Widget".to_owned(),
            list_kind: "WidgetList".to_owned(),
            ..KindNames::default()
        };
        let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "string", "nullable": true},
            "p": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "t": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}}}});
        (names, version)
    }

    /// KAPI-DISC-02: the newer document keeps the schema and its extensions.
    #[test]
    fn the_newer_document_keeps_everything() {
        let (names, version) = widget();
        let all = definitions("a.example.com", &names, &version, Document::V3);
        let widget = &all["com.example.a.v1.Widget"];
        assert_eq!(widget["x-kubernetes-group-version-kind"], json!([{"group": "a.example.com", "version": "v1", "kind": "Widget"}]));
        assert_eq!(
            widget["properties"]["metadata"],
            json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]})
        );
        let spec = &widget["properties"]["spec"]["properties"];
        assert_eq!(spec["n"], json!({"type": "string", "nullable": true}));
        assert_eq!(spec["l"]["x-kubernetes-list-type"], "set");
        assert_eq!(spec["t"]["properties"]["kind"], json!({"type": "string"}));
        assert_eq!(all["com.example.a.v1.WidgetList"]["required"], json!(["items"]));
    }

    /// KAPI-DISC-02: the older document says nothing that its readers would refuse.
    #[test]
    fn the_older_document_leaves_out_what_it_has_no_words_for() {
        let (names, version) = widget();
        let all = definitions("a.example.com", &names, &version, Document::V2);
        let spec = &all["com.example.a.v1.Widget"]["properties"]["spec"]["properties"];
        assert_eq!(spec["n"], json!({}));
        assert_eq!(spec["p"], json!({"x-kubernetes-int-or-string": true}));
        assert_eq!(
            all["com.example.a.v1.WidgetList"]["properties"]["items"]["items"],
            json!({"$ref": "#/definitions/com.example.a.v1.Widget"})
        );
    }
}
