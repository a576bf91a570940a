//! Schemas that several kinds share.

use serde_json::{Value, json};

/// Names of hooks: a word, behind a DNS name and a slash if any (MACH-HOOK-02).
const HOOK_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

#[allow(clippy::needless_pass_by_value, reason = "callers write the properties in place")]
pub(super) fn object(description: &str, properties: Value) -> Value {
    json!({"type": "object", "description": description, "properties": properties})
}

/// An object with fields that must be there.
pub(super) fn requiring(fields: &[&str], mut object: Value) -> Value {
    object["required"] = json!(fields);
    object
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

pub(super) fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

pub(super) fn int32(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "description": description})
}

pub(super) fn int64(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "description": description})
}

/// A text out of a few.
pub(super) fn one_of(choices: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": choices, "description": description})
}

pub(super) fn texts_by_key(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description})
}

/// A list that is replaced as a whole.
pub(super) fn atomic(items: &Value, description: &str) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic", "description": description})
}

/// A list whose items are known by a field.
pub(super) fn keyed(items: &Value, key: &str, description: &str) -> Value {
    json!({
        "type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "description": description,
    })
}

/// A rule in CEL, with the sentence that is said when it does not hold.
pub(super) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

pub(super) fn ruled(mut schema: Value, rules: &[Value]) -> Value {
    schema["x-kubernetes-validations"] = json!(rules);
    schema
}

/// A label selector.
pub(super) fn selector(description: &str) -> Value {
    let requirement = requiring(
        &["key", "operator"],
        object(
            "A criterion.",
            json!({
                "key": text("Key of the label."),
                "operator": text("In, NotIn, Exists or DoesNotExist."),
                "values": atomic(&json!({"type": "string"}), "Values, for In and NotIn."),
            }),
        ),
    );
    let mut schema = object(
        description,
        json!({
            "matchLabels": texts_by_key("Labels that must have these values."),
            "matchExpressions": atomic(&requirement, "Further criteria."),
        }),
    );
    schema["x-kubernetes-map-type"] = json!("atomic");
    schema
}

/// A reference to an object.
pub(super) fn reference(description: &str) -> Value {
    let mut schema = object(
        description,
        json!({
            "apiVersion": text("API version."),
            "fieldPath": text("A part of the object."),
            "kind": text("Kind."),
            "name": text("Name."),
            "namespace": text("Namespace."),
            "resourceVersion": text("The version that is meant."),
            "uid": text("UID."),
        }),
    );
    schema["x-kubernetes-map-type"] = json!("atomic");
    schema
}

/// The metadata that machines are made with, and that their nodes get.
pub(super) fn metadata(description: &str) -> Value {
    let mut owner = requiring(
        &["apiVersion", "kind", "name", "uid"],
        object(
            "An owner.",
            json!({
                "apiVersion": text("API version."),
                "blockOwnerDeletion": flag("Holds up the foreground deletion of the owner."),
                "controller": flag("The owner controls the object."),
                "kind": text("Kind."),
                "name": text("Name."),
                "uid": text("UID."),
            }),
        ),
    );
    owner["x-kubernetes-map-type"] = json!("atomic");
    object(
        description,
        json!({
            "annotations": texts_by_key("Annotations."),
            "generateName": text("Prefix of a name that the server makes."),
            "labels": texts_by_key("Labels."),
            "name": text("Name."),
            "namespace": text("Namespace."),
            "ownerReferences": keyed(&owner, "uid", "Owners."),
        }),
    )
}

/// The hooks of a machine (MACH-HOOK-01 to MACH-HOOK-03).
fn hooks() -> Value {
    let hook = requiring(
        &["name", "owner"],
        object(
            "A hook.",
            json!({
                "name": {"type": "string", "minLength": 3, "maxLength": 256, "pattern": HOOK_NAME, "description": "Name, unique in its list."},
                "owner": {"type": "string", "minLength": 3, "maxLength": 512, "description": "The controller that removes the hook, as a person finds it."},
            }),
        ),
    );
    object(
        "What holds up the deletion of the machine.",
        json!({
            "preDrain": keyed(&hook, "name", "Hooks that hold up the drain of the node."),
            "preTerminate": keyed(&hook, "name", "Hooks that hold up the removal of the instance."),
        }),
    )
}

/// The spec of a machine (MACH-API-02).
pub(super) fn machine_spec(description: &str) -> Value {
    let taint = requiring(
        &["effect", "key"],
        object(
            "A taint.",
            json!({
                "effect": text("NoSchedule, PreferNoSchedule or NoExecute."),
                "key": text("Key."),
                "timeAdded": time("When it was added."),
                "value": text("Value."),
            }),
        ),
    );
    let provider_spec = object(
        "The instance, as its provider understands it.",
        json!({
            "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "Settings of the provider."},
        }),
    );
    object(
        description,
        json!({
            "lifecycleHooks": hooks(),
            "metadata": metadata("Labels and annotations that the node gets."),
            "providerID": text("The instance, as its provider names it."),
            "providerSpec": provider_spec,
            "taints": atomic(&taint, "Taints that the node gets; none is ever taken away."),
        }),
    )
}

/// Conditions with a severity (MACH-API-04).
pub(super) fn conditions() -> Value {
    let condition = requiring(
        &["lastTransitionTime", "status", "type"],
        object(
            "A condition.",
            json!({
                "lastTransitionTime": time("When it changed."),
                "message": text("Message for people."),
                "reason": text("Reason in one word."),
                "severity": text("Error, Warning or Info, unless it is true."),
                "status": text("True, False or Unknown."),
                "type": text("Type."),
            }),
        ),
    );
    keyed(&condition, "type", "Conditions, by type.")
}
