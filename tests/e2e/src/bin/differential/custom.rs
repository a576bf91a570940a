//! Definitions with random schemas and versions, and objects that nearly fit them.

use serde_json::{Map, Value, json};

use crate::dice::Dice;
use crate::served::Resource;

const GROUP: &str = "${sfx}.example.com";

/// The steps that define a resource and wait for it, and the resource in each of its versions.
pub fn definition(dice: &mut Dice) -> (Vec<Value>, Vec<Resource>) {
    let namespaced = dice.percent(75);
    let count = 1 + dice.below(2);
    let mut versions = Vec::new();
    let mut resources = Vec::new();
    let common = properties(dice, 2);
    for number in 0..count {
        let name = ["v1", "v1beta1"][number];
        let mut spec = if number == 0 || dice.percent(50) { common.clone() } else { properties(dice, 2) };
        if dice.percent(20) {
            spec["x-kubernetes-validations"] = rules(dice);
        }
        if dice.percent(15) {
            spec["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        let sample = sample(dice, &spec);
        let mut schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        if dice.percent(20) {
            schema["required"] = json!(["spec"]);
        }
        let mut version =
            json!({"name": name, "served": true, "storage": number == 0, "schema": {"openAPIV3Schema": schema}, "subresources": {}});
        if dice.percent(70) {
            version["subresources"]["status"] = json!({});
        }
        if dice.percent(40) {
            version["subresources"]["scale"] = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        if dice.percent(50) {
            version["additionalPrinterColumns"] = json!([{"name": "Count", "type": "integer", "jsonPath": ".spec.count", "description": "d"}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1}]);
        }
        if dice.percent(25) {
            version["selectableFields"] = json!([{"jsonPath": ".spec.text"}]);
        }
        if number == 1 && dice.percent(40) {
            version["deprecated"] = true.into();
        }
        versions.push(version);
        resources.push(Resource::custom(GROUP, name, namespaced, json!({"metadata": {"name": "NAME"}, "spec": sample})));
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("things.{GROUP}")},
        "spec": {"group": GROUP, "scope": if namespaced { "Namespaced" } else { "Cluster" }, "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
    });
    let crd = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{GROUP}");
    let established = json!({"seconds": 10, "status": 200, "values": {"/status/conditions/type=Established/status": "True"}});
    let last = resources.last().map(Resource::collection).unwrap_or_default();
    let steps = vec![
        json!({"method": "POST", "path": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "body": definition, "only": ["/kind", "/spec"]}),
        json!({"method": "GET", "path": crd, "until": established, "only": ["/status/acceptedNames", "/status/storedVersions"]}),
        json!({"method": "GET", "path": last, "until": {"seconds": 10, "status": 200}, "only": ["/kind"]}),
    ];
    (steps, resources)
}

/// An object schema with the members that columns and rules speak of, and some more.
fn properties(dice: &mut Dice, depth: usize) -> Value {
    let mut properties = Map::new();
    properties.insert("count".to_owned(), number(dice));
    properties.insert("text".to_owned(), json!({"type": "string"}));
    properties.insert("replicas".to_owned(), json!({"type": "integer", "format": "int32"}));
    for name in ["e", "f", "g"].iter().take(1 + dice.below(3)) {
        properties.insert((*name).to_owned(), schema(dice, depth));
    }
    let mut object = json!({"type": "object", "properties": properties});
    if dice.percent(15) {
        object["required"] = json!(["text"]);
    }
    object
}

fn number(dice: &mut Dice) -> Value {
    dice.one(&[
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 1, "maximum": 10}),
        json!({"type": "integer", "default": 3}),
        json!({"type": "number", "multipleOf": 2}),
        json!({"type": "integer", "format": "int32", "nullable": true}),
        json!({"type": "integer", "exclusiveMinimum": true, "minimum": 0}),
    ])
    .clone()
}

fn schema(dice: &mut Dice, depth: usize) -> Value {
    let leaf = depth == 0;
    match dice.below(if leaf { 9 } else { 15 }) {
        0 => json!({"type": "string", "minLength": 1, "maxLength": 5}),
        1 => json!({"type": "string", "enum": ["x", "y"], "default": "x"}),
        2 => json!({"type": "string", "pattern": "^[a-z]+$"}),
        3 => {
            json!({"type": "string", "format": dice.one(&["date-time", "ipv4", "cidr", "uuid", "byte", "email", "duration", "date", "nonsense"])})
        }
        4 => json!({"type": "boolean", "default": false}),
        5 => json!({"x-kubernetes-int-or-string": true}),
        6 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        7 => json!({"type": "string", "nullable": true, "default": "d"}),
        8 => number(dice),
        9 => {
            let mut list = json!({"type": "array", "items": {"type": "string"}, "maxItems": 3});
            if dice.percent(60) {
                list["x-kubernetes-list-type"] = (*dice.one(&["set", "atomic"])).into();
            }
            list
        }
        10 => {
            let more = schema(dice, depth - 1);
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "more": more}}})
        }
        11 => json!({"type": "object", "additionalProperties": schema(dice, depth - 1)}),
        12 => {
            let mut object = properties(dice, depth - 1);
            if dice.percent(30) {
                object["x-kubernetes-map-type"] = "atomic".into();
            }
            if dice.percent(30) {
                object["default"] = json!({});
            }
            object
        }
        13 => json!({"type": "array", "items": schema(dice, depth - 1), "minItems": 1}),
        _ => json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
    }
}

fn rules(dice: &mut Dice) -> Value {
    dice.one(&[
        json!([{"rule": "!has(self.count) || self.count < 8", "message": "count is too large"}]),
        json!([{"rule": "self.text == oldSelf.text", "reason": "FieldValueForbidden", "fieldPath": ".text"}]),
        json!([{"rule": "!has(self.text) || self.text.startsWith('x')", "messageExpression": "'text is ' + self.text"}]),
        json!([{"rule": "oldSelf.hasValue() || !has(self.count) || self.count == 3", "optionalOldSelf": true}]),
    ])
    .clone()
}

/// A value that fits a schema, mostly.
fn sample(dice: &mut Dice, schema: &Value) -> Value {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let members = properties.iter().filter(|_| dice.percent(70)).map(|(key, value)| (key.clone(), value)).collect::<Vec<_>>();
        let mut object: Map<String, Value> = members.into_iter().map(|(key, value)| (key, sample(dice, value))).collect();
        if schema["required"] == json!(["name"]) {
            object.insert("name".to_owned(), "n".into());
        }
        return object.into();
    }
    match schema["type"].as_str() {
        Some("string") => match schema["format"].as_str() {
            Some("date-time") => "2026-01-02T03:04:05Z".into(),
            Some("ipv4") => "1.2.3.4".into(),
            Some("cidr") => "1.2.3.0/24".into(),
            Some("byte") => "AAEC".into(),
            _ => (*dice.one(&["x", "y", "abc"])).into(),
        },
        Some("integer" | "number") => (*dice.one(&[2, 4, 6])).into(),
        Some("boolean") => dice.percent(50).into(),
        Some("array") => {
            let count = 1 + dice.below(2);
            (0..count).map(|_| sample(dice, &schema["items"])).collect()
        }
        Some("object") if schema["x-kubernetes-embedded-resource"] == true => {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "unknown": 1}, "x": 1})
        }
        Some("object") => match schema.get("additionalProperties") {
            Some(inner) => json!({"k": sample(dice, inner)}),
            None => json!({"anything": [1, null]}),
        },
        _ => dice.one(&[json!(1), json!("50%")]).clone(),
    }
}
