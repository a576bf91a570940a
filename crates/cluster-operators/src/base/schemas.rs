//! The schemas of operators' settings (COP-G-07).

use serde_json::{Map, Value, json};

/// The pattern of a condition's type: a qualified name.
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The management states that an operator of a part accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Managed {
    /// Managed, Unmanaged, Force, Removed.
    Freely,
    /// Managed and Force: the part is one that a cluster cannot be without, and runs as static pods.
    Always,
}

impl Managed {
    fn pattern(self) -> &'static str {
        match self {
            Self::Freely => "^(Managed|Unmanaged|Force|Removed)$",
            Self::Always => "^(Managed|Force)$",
        }
    }
}

fn text() -> Value {
    json!({"type": "string"})
}

fn integer(format: &str) -> Value {
    json!({"type": "integer", "format": format})
}

/// A number that only grows.
fn growing() -> Value {
    json!({
        "type": "integer", "format": "int32",
        "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "must only increase"}],
    })
}

/// Any object.
pub(super) fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An object with these fields.
fn fields(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn joined(mut fields: Value, more: &Value) -> Value {
    if let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    fields
}

/// The fields of every operator's `spec`.
fn spec(managed: Managed) -> Value {
    let level = || json!({"type": "string", "enum": ["", "Normal", "Debug", "Trace", "TraceAll"], "default": "Normal"});
    let any = || json!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "managementState": {"type": "string", "pattern": managed.pattern()},
        "logLevel": level(), "operatorLogLevel": level(), "observedConfig": any(), "unsupportedConfigOverrides": any(),
    })
}

/// The fields of every operator's `status`.
fn status() -> Value {
    let names = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), text())).collect::<Map<_, _>>();
    let mut generation = names(&["group", "hash", "name", "namespace", "resource"]);
    generation.insert("lastGeneration".to_owned(), integer("int64"));
    json!({
        "conditions": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object", "required": ["lastTransitionTime", "status", "type"],
                "properties": {
                    "lastTransitionTime": {"type": "string", "format": "date-time"}, "message": text(), "reason": text(),
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "type": {"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE},
                },
            },
        },
        "generations": {
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["group", "resource", "namespace", "name"],
            "items": {"type": "object", "required": ["group", "name", "namespace", "resource"], "properties": generation},
        },
        "latestAvailableRevision": growing(),
        "observedGeneration": integer("int64"),
        "readyReplicas": integer("int32"),
        "version": text(),
    })
}

/// The status of an operand on one node.
fn node_status() -> Value {
    let rule = |rule: &str, message: &str, field: &str| json!({"rule": rule, "message": message, "fieldPath": field});
    let at_first = |field: &str, message: &str| {
        let mut rule = rule(&format!("oldSelf.hasValue() || !has(self{field})"), message, field);
        rule["optionalOldSelf"] = true.into();
        rule
    };
    json!({
        "type": "object", "required": ["nodeName"],
        "properties": {
            "currentRevision": growing(), "targetRevision": integer("int32"), "nodeName": text(),
            "lastFailedCount": {"type": "integer"}, "lastFailedReason": text(), "lastFailedRevision": integer("int32"),
            "lastFailedRevisionErrors": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text()},
            "lastFailedTime": {"type": "string", "format": "date-time"}, "lastFallbackCount": {"type": "integer"},
        },
        "x-kubernetes-validations": [
            rule("has(self.currentRevision) || !has(oldSelf.currentRevision)", "cannot be unset once set", ".currentRevision"),
            at_first(".currentRevision", "currentRevision can not be set on creation of a nodeStatus"),
            at_first(".targetRevision", "targetRevision can not be set on creation of a nodeStatus"),
        ],
    })
}

/// The whole schema of an operator's settings, with `more` fields of its own in `spec` and in `status`.
pub(super) fn operator(managed: Managed, more_spec: &Value, more_status: &Value) -> Value {
    whole(&fields(&joined(spec(managed), more_spec)), &fields(&joined(status(), more_status)))
}

/// The settings of an operator whose operand runs as static pods, one for each node of the control plane.
pub(super) fn static_pods(managed: Managed, more_spec: &Value, more_status: &Value) -> Value {
    let own =
        json!({"failedRevisionLimit": integer("int32"), "succeededRevisionLimit": integer("int32"), "forceRedeploymentReason": text()});
    let rolled_out = json!({
        "latestAvailableRevisionReason": text(),
        "nodeStatuses": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["nodeName"], "items": node_status(),
            "x-kubernetes-validations": [{
                "rule": "size(self.filter(status, status.?targetRevision.orValue(0) != 0)) <= 1",
                "message": "no more than 1 node status may have a nonzero targetRevision",
            }],
        },
    });
    operator(managed, &joined(own, more_spec), &joined(rolled_out, more_status))
}

/// The settings of an operator that has more fields than are described here: the common ones are validated, the others are kept.
pub(super) fn partly(more_spec: &Value) -> Value {
    let mut schema = operator(Managed::Freely, more_spec, &json!({}));
    for part in ["spec", "status"] {
        schema["properties"][part]["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    schema
}

/// A schema with `spec`, which has to be there, and `status`.
pub(super) fn whole(spec: &Value, status: &Value) -> Value {
    json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}})
}

/// Settings whose described fields are validated; the others are kept as they are.
pub(super) fn described(properties: &Value) -> Value {
    let mut spec = open();
    spec["properties"] = properties.clone();
    whole(&spec, &open())
}
