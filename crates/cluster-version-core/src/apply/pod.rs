//! The pod template (CVO-APPLY-06).

use serde_json::{Map, Value, json};

use super::metadata;
use super::value::{Merge, assign, equal, get, get_map, is_nothing, list, part, taken, with_defaults};

/// The seconds for which the token of a projected volume is valid.
const TOKEN_LIFETIME: i64 = 3600;
/// The mode of files in a volume.
const FILE_MODE: i64 = 0o644;

pub(super) fn template(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "template"), get_map(wanted, "template"));
    metadata::merge(merge, part(live, "metadata"), get_map(wanted, "metadata"));
    pod(merge, part(live, "spec"), get_map(wanted, "spec"));
}

fn pod(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let host_network = get(wanted, "hostNetwork") == true;
    for field in ["initContainers", "containers"] {
        merge.items(live, wanted, field, "name", |merge, live, wanted| {
            if let (Value::Object(live), Value::Object(wanted)) = (live, wanted) {
                container(merge, live, wanted, host_network);
            }
        });
    }
    keyed(merge, live, wanted, "volumes", "name", volume);
    merge.set_if_given(live, wanted, "restartPolicy");
    merge.set_if_given(live, wanted, "serviceAccountName");
    merge.set(live, wanted, "hostNetwork");
    merge.entries(live, wanted, "nodeSelector");
    pod_security(merge, live, wanted);
    affinity(merge, live, wanted);
    tolerations(merge, live, wanted);
    merge.set_if_given(live, wanted, "priorityClassName");
    merge.set_all(live, wanted, &["priority", "shareProcessNamespace"]);
    merge.put(live, "dnsPolicy", &or(get(wanted, "dnsPolicy"), json!("ClusterFirst")));
    merge.put(live, "terminationGracePeriodSeconds", &or(get(wanted, "terminationGracePeriodSeconds"), json!(30)));
}

fn or(value: &Value, default: Value) -> Value {
    if is_nothing(value) { default } else { value.clone() }
}

fn container(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>, host_network: bool) {
    merge.set_if_given(live, wanted, "image");
    merge.set_all(live, wanted, &["command", "args"]);
    let environment = list(wanted, "env").iter().cloned().map(variable).collect();
    merge.put(live, "env", &Value::Array(environment));
    merge.set(live, wanted, "envFrom");
    merge.set_if_given(live, wanted, "workingDir");
    merge.set_all(part(live, "resources"), get_map(wanted, "resources"), &["limits", "requests"]);
    merge.items(live, wanted, "ports", "name", |merge, live, wanted| replace(merge, live, container_port(wanted.clone(), host_network)));
    keyed(merge, live, wanted, "volumeMounts", "mountPath", |mount| mount);
    for field in ["livenessProbe", "readinessProbe"] {
        merge.optional(live, wanted, field, probe);
    }
    merge.optional(live, wanted, "securityContext", security);
}

fn replace(merge: &mut Merge, live: &mut Value, wanted: Value) {
    if !equal(live, &wanted) {
        merge.modified = true;
        *live = wanted;
    }
}

/// A list whose items are known by a field: each wanted item is as wanted, others go.
fn keyed(
    merge: &mut Merge,
    live: &mut Map<String, Value>,
    wanted: &Map<String, Value>,
    field: &str,
    key: &str,
    complete: impl Fn(Value) -> Value,
) {
    let wanted = list(wanted, field);
    let mut items = taken(live, field);
    for wanted in wanted {
        let complete = complete(wanted.clone());
        if let Some(item) = items.iter_mut().find(|item| item[key] == wanted[key]) {
            replace(merge, item, complete);
        } else {
            merge.modified = true;
            items.push(complete);
        }
    }
    let count = items.len();
    items.retain(|item| wanted.iter().any(|wanted| wanted[key] == item[key]));
    merge.modified |= items.len() < count;
    assign(live, field, &Value::Array(items));
}

fn variable(mut variable: Value) -> Value {
    if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
        *field = with_defaults(field.take(), &[("apiVersion", json!("v1"))]);
    }
    variable
}

fn container_port(port: Value, host_network: bool) -> Value {
    let mut defaults = vec![("protocol", json!("TCP"))];
    if host_network {
        defaults.push(("hostPort", port["containerPort"].clone()));
    }
    with_defaults(port, &defaults)
}

fn probe(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let wanted = with_defaults(
        Value::Object(wanted.clone()),
        &[("timeoutSeconds", json!(1)), ("periodSeconds", json!(10)), ("successThreshold", json!(1)), ("failureThreshold", json!(3))],
    );
    let Value::Object(mut wanted) = wanted else { return };
    if let Some(request) = wanted.get_mut("httpGet") {
        *request = with_defaults(request.take(), &[("scheme", json!("HTTP"))]);
    }
    merge.set_all(
        live,
        &wanted,
        &[
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
            "exec",
            "httpGet",
            "tcpSocket",
            "grpc",
        ],
    );
}

fn security(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    merge.optional(live, wanted, "capabilities", |merge, live, wanted| {
        merge.members(live, wanted, "add");
        merge.members(live, wanted, "drop");
    });
    merge.optional(live, wanted, "seLinuxOptions", selinux);
    merge.set_all(
        live,
        wanted,
        &["privileged", "runAsUser", "runAsNonRoot", "readOnlyRootFilesystem", "allowPrivilegeEscalation", "seccompProfile"],
    );
}

fn selinux(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    for field in ["user", "role", "type", "level"] {
        merge.set_if_given(live, wanted, field);
    }
}

fn pod_security(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    const FIELD: &str = "securityContext";
    // Servers write an empty one where there is none.
    let empty = get(live, FIELD).as_object().is_some_and(Map::is_empty);
    if empty && get(wanted, FIELD).is_null() {
        return;
    }
    merge.optional(live, wanted, FIELD, |merge, live, wanted| {
        merge.optional(live, wanted, "seLinuxOptions", selinux);
        merge.set_all(live, wanted, &["runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile"]);
        merge.members(live, wanted, "supplementalGroups");
        merge.set(live, wanted, "fsGroup");
        let mut settings = taken(live, "sysctls");
        for wanted in list(wanted, "sysctls") {
            if let Some(setting) = settings.iter_mut().find(|setting| setting["name"] == wanted["name"]) {
                replace(merge, setting, wanted.clone());
            } else {
                merge.modified = true;
                settings.push(wanted.clone());
            }
        }
        assign(live, "sysctls", &Value::Array(settings));
    });
}

/// The affinity that others set stays unless the manifest says something of it.
fn affinity(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    if get(wanted, "affinity").is_object() {
        merge.optional(live, wanted, "affinity", |merge, live, wanted| {
            merge.set_all(live, wanted, &["nodeAffinity", "podAffinity", "podAntiAffinity"]);
        });
    }
}

/// Each wanted toleration is there once; others stay.
fn tolerations(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let mut items = taken(live, "tolerations");
    let wanted = list(wanted, "tolerations");
    let missing: Vec<&Value> = wanted.iter().filter(|wanted| !items.iter().any(|item| equal(item, wanted))).collect();
    let mut kept: Vec<Value> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let repeated = wanted.iter().any(|wanted| equal(&item, wanted)) && kept.iter().any(|kept| equal(kept, &item));
        merge.modified |= repeated;
        if !repeated {
            kept.push(item);
        }
    }
    merge.modified |= !missing.is_empty();
    kept.extend(missing.into_iter().cloned());
    assign(live, "tolerations", &Value::Array(kept));
}

/// A volume with what servers fill in; one without a source is an empty folder.
fn volume(mut volume: Value) -> Value {
    let Some(map) = volume.as_object_mut() else { return volume };
    if map.iter().all(|(field, value)| field == "name" || value.is_null()) {
        map.insert("emptyDir".into(), json!({}));
    }
    let defaults: [(&str, &[(&str, Value)]); 9] = [
        ("secret", &[("defaultMode", json!(FILE_MODE))]),
        ("configMap", &[("defaultMode", json!(FILE_MODE))]),
        ("downwardAPI", &[("defaultMode", json!(FILE_MODE))]),
        ("iscsi", &[("iscsiInterface", json!("default"))]),
        ("rbd", &[("pool", json!("rbd")), ("user", json!("admin")), ("keyring", json!("/etc/ceph/keyring"))]),
        ("scaleIO", &[("storageMode", json!("ThinProvisioned")), ("fsType", json!("xfs"))]),
        ("hostPath", &[]),
        ("azureDisk", &[]),
        ("projected", &[]),
    ];
    for (source, defaults) in defaults {
        let Some(found) = map.get_mut(source).filter(|source| source.is_object()) else { continue };
        *found = match source {
            "hostPath" => pointers(found.take(), &[("type", json!(""))]),
            "azureDisk" => pointers(
                found.take(),
                &[("cachingMode", json!("ReadWrite")), ("kind", json!("Shared")), ("fsType", json!("ext4")), ("readOnly", json!(false))],
            ),
            "secret" | "configMap" | "downwardAPI" => pointers(found.take(), defaults),
            "projected" => projected(found.take()),
            _ => with_defaults(found.take(), defaults),
        };
    }
    volume
}

/// Defaults of fields for which zero is a value.
fn pointers(mut value: Value, defaults: &[(&str, Value)]) -> Value {
    if let Some(map) = value.as_object_mut() {
        for (field, default) in defaults {
            map.entry(*field).or_insert_with(|| default.clone());
        }
    }
    value
}

/// The lifetime of tokens is filled in together with the mode alone.
fn projected(mut volume: Value) -> Value {
    if !volume["defaultMode"].is_null() {
        return volume;
    }
    volume = pointers(volume, &[("defaultMode", json!(FILE_MODE))]);
    for source in volume["sources"].as_array_mut().into_iter().flatten() {
        if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
            *token = pointers(token.take(), &[("expirationSeconds", json!(TOKEN_LIFETIME))]);
        }
    }
    volume
}
