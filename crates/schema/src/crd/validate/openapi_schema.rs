//! The keywords of a CRD's schema one by one: which are supported, and how they fit together.

use serde_json::Value;

use super::super::structural::members;
use super::{Options, json_path, list, text};
use crate::field::{Error, Path, go_json};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// The list of what a root schema may have when there is a status subresource, as Go prints it.
const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// Asks a question of a schema and all schemas inside it, until one says yes.
pub(super) fn any(schema: &Value, question: &mut dyn FnMut(&Value) -> bool) -> bool {
    if !schema.is_object() {
        return false;
    }
    if question(schema) {
        return true;
    }
    for key in ["items", "not", "additionalProperties", "additionalItems"] {
        if schema[key].is_object() && any(&schema[key], question) {
            return true;
        }
    }
    for key in ["allOf", "anyOf", "oneOf", "items"] {
        if list(schema, key).iter().any(|part| any(part, question)) {
            return true;
        }
    }
    ["properties", "patternProperties", "definitions", "dependencies"]
        .iter()
        .any(|key| members(schema, key).any(|(_, part)| any(part, question)))
}

/// Returns true if the schema has none of the keywords that Kubernetes' structural type cannot hold.
pub(super) fn is_convertible(schema: &Value) -> bool {
    !any(schema, &mut |schema| {
        !text(schema, "id").is_empty()
            || !text(schema, "$ref").is_empty()
            || schema["items"].is_array()
            || schema.get("additionalItems").is_some_and(|value| !value.is_null())
            || schema["dependencies"].is_object()
            || ["patternProperties", "definitions"].iter().any(|key| members(schema, key).next().is_some())
    })
}

pub(super) fn has_unknown_type(schema: &Value) -> bool {
    let kind = text(schema, "type");
    !kind.is_empty() && !TYPES.contains(&kind.as_str())
}

/// The root of a version with a status subresource may only have keywords that survive when status is taken out.
pub(super) fn root_with_status(schema: &Value, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let words = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(Error::invalid(&path.child("type"), kind, words));
        return;
    }
    let allowed = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let zero = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if schema.as_object().is_some_and(|map| map.iter().any(|(key, value)| !allowed.contains(&key.as_str()) && !zero(value))) {
        let words = format!("only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled");
        errors.push(Error::invalid(path, schema, words));
    }
}

/// Findings about the keywords of a schema and of all inside it.
pub(super) fn validate(schema: &Value, path: &Path, options: Options, errors: &mut Vec<Error>) {
    Walker { options, errors }.schema(schema, path, true, &Around::default());
}

/// The restrictions of a schema's place.
#[derive(Clone, Default)]
struct Around {
    in_metadata: bool,
    no_defaults: Option<String>,
}

struct Walker<'a> {
    options: Options,
    errors: &'a mut Vec<Error>,
}

impl Walker<'_> {
    fn forbid(&mut self, path: &Path, key: &str, words: &str) {
        self.errors.push(Error::forbidden(&path.child(key), words));
    }

    fn invalid(&mut self, path: &Path, key: &str, value: &Value, words: &str) {
        self.errors.push(Error::invalid(&path.child(key), value, words));
    }

    fn schema(&mut self, schema: &Value, path: &Path, root: bool, around: &Around) {
        if !schema.is_object() {
            return;
        }
        self.unsupported(schema, path, around);
        if schema["uniqueItems"] == true {
            self.forbid(path, "uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
        }
        let additional = &schema["additionalProperties"];
        if !additional.is_null() && *additional != true && members(schema, "properties").next().is_some() {
            self.forbid(path, "additionalProperties", "additionalProperties and properties are mutual exclusive");
        }
        if additional.is_object() {
            let mut below = around.clone();
            if around.in_metadata {
                below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.schema(additional, &path.child("additionalProperties"), false, &below);
        }
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        for (name, property) in members(schema, "properties") {
            let mut below = around.clone();
            if (root || embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                below.in_metadata = true;
                if root {
                    below.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.schema(property, &path.child("properties").key(name), false, &below);
        }
        self.schema(&schema["not"], &path.child("not"), false, around);
        for key in ["allOf", "oneOf", "anyOf"] {
            for (index, part) in list(schema, key).iter().enumerate() {
                self.schema(part, &path.child(key).index(index), false, around);
            }
        }
        for (name, definition) in members(schema, "definitions") {
            self.schema(definition, &path.child("definitions").key(name), false, around);
        }
        self.schema(&schema["items"], &path.child("items"), false, around);
        for (index, part) in list(schema, "items").iter().enumerate() {
            self.schema(part, &path.child("items").index(index), false, around);
        }
        for (name, dependency) in members(schema, "dependencies") {
            self.schema(dependency, &path.child("dependencies").key(name), false, around);
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            self.invalid(path, "x-kubernetes-preserve-unknown-fields", &Value::Bool(false), "must be true or undefined");
        }
        self.map_type(schema, path);
        self.list_type(schema, path);
        self.rules(schema, path);
    }

    fn unsupported(&mut self, schema: &Value, path: &Path, around: &Around) {
        if self.options.valid_types && has_unknown_type(schema) {
            self.errors.push(Error::not_supported(&path.child("type"), &schema["type"], &TYPES));
        }
        if schema.get("default").is_some_and(|default| !default.is_null())
            && let Some(reason) = &around.no_defaults
        {
            self.forbid(path, "default", &format!("must not be set {reason}"));
        }
        if !text(schema, "id").is_empty() {
            self.forbid(path, "id", "id is not supported");
        }
        if schema.get("additionalItems").is_some_and(|value| !value.is_null()) {
            self.forbid(path, "additionalItems", "additionalItems is not supported");
        }
        for key in ["patternProperties", "definitions"] {
            if members(schema, key).next().is_some() {
                self.forbid(path, key, &format!("{key} is not supported"));
            }
        }
        if schema["dependencies"].is_object() {
            self.forbid(path, "dependencies", "dependencies is not supported");
        }
        if schema["$ref"].is_string() {
            self.forbid(path, "$ref", "$ref is not supported");
        }
        if schema["type"] == "null" {
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if !list(schema, "items").is_empty() {
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if around.in_metadata && schema["x-kubernetes-embedded-resource"] == true {
            self.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
    }

    /// A keyword that belongs to one type.
    fn needs_type(&mut self, schema: &Value, path: &Path, wanted: &str, keyword: &str) -> bool {
        let kind = text(schema, "type");
        if kind == wanted {
            return true;
        }
        let words = format!("must be {wanted} if {keyword} is specified");
        let field = path.child("type");
        self.errors.push(if kind.is_empty() { Error::required(&field, words) } else { Error::invalid(&field, kind, words) });
        false
    }

    fn map_type(&mut self, schema: &Value, path: &Path) {
        let Some(map_type) = schema["x-kubernetes-map-type"].as_str() else {
            return;
        };
        self.needs_type(schema, path, "object", "x-kubernetes-map-type");
        if !["atomic", "granular"].contains(&map_type) {
            self.errors.push(Error::not_supported(&path.child("x-kubernetes-map-type"), map_type, &["atomic", "granular"]));
        }
    }

    fn list_type(&mut self, schema: &Value, path: &Path) {
        let list_type = schema["x-kubernetes-list-type"].as_str();
        if list_type.is_some()
            && self.needs_type(schema, path, "array", "x-kubernetes-list-type")
            && self.options.atomic_sets
            && let Some(keyword) = non_atomic_set(schema)
        {
            // Upstream shows the list type in both cases.
            let shown = &schema["items"]["x-kubernetes-list-type"];
            self.invalid(&path.child("items"), keyword, shown, "must be atomic as item of a list with x-kubernetes-list-type=set");
        }
        if let Some(list_type) = list_type.filter(|list_type| !["atomic", "set", "map"].contains(list_type)) {
            self.errors.push(Error::not_supported(&path.child("x-kubernetes-list-type"), list_type, &["atomic", "set", "map"]));
        }
        let keys = list(schema, "x-kubernetes-list-map-keys");
        if !keys.is_empty() && list_type != Some("map") {
            let field = path.child("x-kubernetes-list-type");
            let words = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.errors
                .push(list_type.map_or_else(|| Error::required(&field, words), |list_type| Error::invalid(&field, list_type, words)));
        }
        if list_type == Some("map") {
            self.list_map(schema, keys, path);
        }
        if self.options.map_keys {
            self.map_items(schema, list_type, keys, path);
        }
    }

    fn list_map(&mut self, schema: &Value, keys: &[Value], path: &Path) {
        let keys_path = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
        }
        let items = &schema["items"];
        match items {
            Value::Null => self.errors.push(Error::required(&path.child("items"), "must have a schema if x-kubernetes-list-type is map")),
            Value::Array(_) => self.invalid(path, "items", items, "must only have a single schema if x-kubernetes-list-type is map"),
            _ => {}
        }
        if !items.is_object() {
            return;
        }
        let items_path = path.child("items");
        if items["type"] != "object" {
            let kind = Value::from(text(items, "type"));
            self.invalid(&items_path, "type", &kind, "must be object if parent array's x-kubernetes-list-type is map");
            return;
        }
        for (index, key) in keys.iter().enumerate() {
            let name = key.as_str().unwrap_or_default();
            match items["properties"].get(name) {
                None => self.errors.push(Error::invalid(&keys_path, Value::from(keys), "entries must all be names of item properties")),
                Some(property) if property["type"] == "array" || property["type"] == "object" => {
                    let field = items_path.child("properties").key(name);
                    self.invalid(
                        &field,
                        "type",
                        &Value::from("object"),
                        "must be a scalar type if parent array's x-kubernetes-list-type is map",
                    );
                }
                Some(_) => {}
            }
            if keys[..index].contains(key) {
                self.errors.push(Error::invalid(&keys_path, Value::from(keys), "must not contain duplicate entries"));
            }
        }
    }

    fn map_items(&mut self, schema: &Value, list_type: Option<&str>, keys: &[Value], path: &Path) {
        let items = &schema["items"];
        let Some(list_type @ ("set" | "map")) = list_type.filter(|_| items.is_object()) else {
            return;
        };
        let items_path = path.child("items");
        if items["nullable"] == true {
            self.forbid(&items_path, "nullable", &format!("cannot be nullable when x-kubernetes-list-type is {list_type}"));
        }
        if list_type == "set" {
            return;
        }
        for name in keys.iter().filter_map(Value::as_str) {
            let Some(property) = items["properties"].get(name) else {
                continue;
            };
            let field = items_path.child("properties").key(name);
            if !is_anchored(items, name, property) {
                let words = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.errors.push(Error::required(&field.child("default"), words));
            }
            if property["nullable"] == true {
                self.forbid(&field, "nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
            }
        }
    }

    fn rules(&mut self, schema: &Value, path: &Path) {
        for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
            let path = path.child("x-kubernetes-validations").index(index);
            let broken = |text: &str| text.contains(['\n', '\r']);
            let (expression, message) = (text(rule, "rule"), text(rule, "message"));
            if expression.trim().is_empty() {
                self.errors.push(Error::required(&path.child("rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                self.errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
            } else if broken(message.trim()) {
                self.errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
            } else if broken(expression.trim()) && message.trim().is_empty() {
                self.errors.push(Error::required(&path.child("message"), "message must be specified if rule contains line breaks"));
            }
            let message_expression = text(rule, "messageExpression");
            if !message_expression.is_empty() && message_expression.trim().is_empty() {
                self.errors.push(Error::required(&path.child("messageExpression"), "messageExpression must be non-empty if specified"));
            }
            let reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
            if let Some(reason) = rule["reason"].as_str().filter(|reason| !reasons.contains(reason)) {
                self.errors.push(Error::not_supported(&path.child("reason"), reason, &reasons));
            }
            let field_path = text(rule, "fieldPath");
            if field_path.is_empty() {
                continue;
            }
            let field = path.child("fieldPath");
            if field_path.trim().is_empty() {
                self.errors.push(Error::invalid(&field, &field_path, "must be non-empty if specified"));
            }
            if broken(&field_path) {
                self.errors.push(Error::invalid(&field, &field_path, "must not contain line breaks"));
            }
            if json_path::follow(&field_path, schema, true).is_err() {
                self.errors.push(Error::invalid(&field, &field_path, "must be a valid path"));
            }
        }
    }
}

/// The keyword of a set's items that should make them atomic and does not.
pub(super) fn non_atomic_set(schema: &Value) -> Option<&'static str> {
    let items = &schema["items"];
    if schema["x-kubernetes-list-type"] != "set" || !items.is_object() {
        return None;
    }
    match items["type"].as_str() {
        Some("array") => {
            items["x-kubernetes-list-type"].as_str().is_some_and(|list_type| list_type != "atomic").then_some("x-kubernetes-list-type")
        }
        Some("object") => (items["x-kubernetes-map-type"] != "atomic").then_some("x-kubernetes-map-type"),
        _ => None,
    }
}

/// Returns true if a list's items break what [`Walker::map_items`] demands.
pub(super) fn has_bad_keys(schema: &Value) -> bool {
    let items = &schema["items"];
    let list_type = schema["x-kubernetes-list-type"].as_str();
    if !items.is_object() || !matches!(list_type, Some("set" | "map")) {
        return false;
    }
    items["nullable"] == true
        || list_type == Some("map")
            && list(schema, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).any(|name| {
                items["properties"].get(name).is_some_and(|property| property["nullable"] == true || !is_anchored(items, name, property))
            })
}

/// Returns true if a key is always there: required, or with a default.
fn is_anchored(items: &Value, name: &str, property: &Value) -> bool {
    list(items, "required").iter().any(|required| required == name) || property.get("default").is_some_and(|default| !default.is_null())
}

/// A rule as upstream prints it in findings of the CEL compiler.
#[must_use]
pub fn shown_rule(rule: &crate::ValidationRule) -> String {
    let quoted = |text: Option<&String>| go_json(&Value::from(text.map_or("", String::as_str)));
    let pointer = |value: Option<Value>| value.map_or_else(|| "null".to_owned(), |value| go_json(&value));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        go_json(&Value::from(rule.rule.as_str())),
        quoted(rule.message.as_ref()),
        quoted(rule.message_expression.as_ref()),
        pointer(rule.reason.as_deref().map(Value::from)),
        quoted(rule.field_path.as_ref()),
        pointer(rule.optional_old_self.map(Value::from)),
    )
}
