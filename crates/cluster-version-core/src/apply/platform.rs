//! SecurityContextConstraints, ImageStreams and OperatorGroups. Kubernetes does not build them in; their fields are listed here.

use serde_json::{Map, Value, json};

use super::value::{Merge, assign, equal, get, get_map, is_nothing, list, part, taken, with_defaults};

/// Fields of these kinds for which zero is a value.
const POINTERS: [&str; 8] = [
    "priority",
    "defaultAllowPrivilegeEscalation",
    "allowPrivilegeEscalation",
    "uid",
    "uidRangeMin",
    "uidRangeMax",
    "generation",
    "seLinuxOptions",
];

/// A field as Go's type holds it: plain zero values are nothing.
fn plain(field: &str, value: &Value) -> Value {
    match value {
        Value::Bool(false) if !POINTERS.contains(&field) => Value::Null,
        Value::Number(number) if number.as_f64() == Some(0.0) && !POINTERS.contains(&field) => Value::Null,
        Value::String(text) if text.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(|item| plain("", item)).collect(),
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), plain(name, value))).filter(|(_, value)| !value.is_null());
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The field is as wanted, where zero, an empty struct and nothing are the same.
fn set_plain(merge: &mut Merge, live: &mut Map<String, Value>, field: &str, wanted: &Value) {
    let nothing = |value: Value| if value.as_object().is_some_and(Map::is_empty) { Value::Null } else { value };
    if !equal(&nothing(plain(field, get(live, field))), &nothing(plain(field, wanted))) {
        merge.modified = true;
        assign(live, field, wanted);
    }
}

/// The fields of SecurityContextConstraints that are always sent, with their values where a manifest has none.
pub(super) fn always_sent() -> Value {
    json!({
        "priority": null, "allowPrivilegedContainer": false, "defaultAddCapabilities": null, "requiredDropCapabilities": null,
        "allowedCapabilities": null, "allowHostDirVolumePlugin": false, "volumes": null, "allowHostNetwork": false, "allowHostPorts": false,
        "allowHostPID": false, "allowHostIPC": false, "readOnlyRootFilesystem": false,
    })
}

pub(super) fn security_context_constraints(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    const FIELDS: [&str; 24] = [
        "priority",
        "allowPrivilegedContainer",
        "defaultAddCapabilities",
        "requiredDropCapabilities",
        "allowedCapabilities",
        "allowHostDirVolumePlugin",
        "volumes",
        "allowedFlexVolumes",
        "allowHostNetwork",
        "allowHostPorts",
        "allowHostPID",
        "allowHostIPC",
        "defaultAllowPrivilegeEscalation",
        "seLinuxContext",
        "runAsUser",
        "fsGroup",
        "supplementalGroups",
        "readOnlyRootFilesystem",
        "users",
        "groups",
        "seccompProfiles",
        "allowedUnsafeSysctls",
        "forbiddenSysctls",
        // Allowed unless the manifest forbids it.
        "allowPrivilegeEscalation",
    ];
    let allowed = json!(true);
    for field in FIELDS {
        let given = get(wanted, field);
        let given = if field == "allowPrivilegeEscalation" && given.is_null() { &allowed } else { given };
        set_plain(merge, live, field, given);
    }
}

/// The wanted tags are there with their source and import policy; other tags stay.
pub(super) fn image_stream(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    set_plain(merge, live, "lookupPolicy", get(wanted, "lookupPolicy"));
    let mut tags = taken(live, "tags");
    for wanted in list(wanted, "tags") {
        if let Some(tag) = tags.iter_mut().find(|tag| tag["name"] == wanted["name"]).and_then(Value::as_object_mut) {
            let policy = match &wanted["importPolicy"] {
                Value::Null => json!({}),
                given => given.clone(),
            };
            set_plain(merge, tag, "importPolicy", &with_defaults(policy, &[("importMode", json!("Legacy"))]));
            set_plain(merge, tag, "from", &wanted["from"]);
        } else {
            merge.modified = true;
            tags.push(wanted.clone());
        }
    }
    assign(live, "tags", &Value::Array(tags));
}

pub(super) fn operator_group(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    merge.set_all(live, wanted, &["selector", "targetNamespaces"]);
    merge.set_if_given(live, wanted, "serviceAccountName");
    set_plain(merge, live, "staticProvidedAPIs", get(wanted, "staticProvidedAPIs"));
    let default = json!("Default");
    let strategy = get(wanted, "upgradeStrategy");
    merge.put(live, "upgradeStrategy", if is_nothing(strategy) { &default } else { strategy });
}
