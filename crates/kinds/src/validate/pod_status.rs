//! The status of a pod, as nodes write it: addresses, conditions, and containers that have ended.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, list, names, pod_annotations, text};

/// Conditions that Kubernetes itself sets need no qualified name.
const SYSTEM_CONDITIONS: &[&str] = &["PodScheduled", "Ready", "Initialized"];

/// Findings about a new status.
pub(super) fn pod_status(new: &Value, old: &Value) -> Errors {
    let (null, path) = (Value::Null, Path::new("status"));
    let (status, before) = (new.get("status").unwrap_or(&null), old.get("status").unwrap_or(&null));
    let mut errors = pod_annotations::update(new, old);
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let path = path.child("conditions").index(index);
        errors.extend(not_negative(condition, &path));
        let kind = text(condition, "type");
        if !SYSTEM_CONDITIONS.contains(&kind) {
            errors.extend(all_invalid(&path.child("Type"), kind, names::qualified(kind)));
        }
    }
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(before, "nominatedNodeName") {
        errors.extend(all_invalid(&path.child("nominatedNodeName"), nominated, names::subdomain(nominated)));
    }
    errors.extend(not_negative(status, &path));
    if text(status, "qosClass") != text(before, "qosClass") {
        errors.push(Error::invalid(&path.child("qosClass"), text(status, "qosClass"), "field is immutable"));
    }
    let spec = new.get("spec").unwrap_or(&null);
    errors.extend(restarts(status, before, old.get("spec").unwrap_or(&null), &path));
    errors.extend(claims(status, spec, &path.child("resourceClaimStatuses")));
    errors.extend(addresses(status, before, "podIPs", &path));
    let hosts = list(status, "hostIPs");
    if let Some(first) = hosts.first().map(|host| text(host, "ip")).filter(|first| *first != text(status, "hostIP")) {
        errors.push(Error::invalid(&path.child("hostIPs").index(0).child("ip"), first, "must be equal to `hostIP`"));
    }
    errors.extend(addresses(status, before, "hostIPs", &path));
    for field in CONTAINERS {
        errors.extend(users(status, field, spec, &path.child(field)));
    }
    errors
}

const CONTAINERS: &[&str] = &["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

fn not_negative(holder: &Value, path: &Path) -> Errors {
    match int(holder, "observedGeneration") {
        Some(generation) if generation < 0 => {
            vec![Error::invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer")]
        }
        _ => Vec::new(),
    }
}

/// The addresses of a pod or its host: at most one of each family; those that are there stay under later rules.
fn addresses(status: &Value, before: &Value, field: &str, path: &Path) -> Errors {
    let path = path.child(field);
    let given: Vec<&str> = list(status, field).iter().map(|entry| text(entry, "ip")).collect();
    let known: Vec<&str> = list(before, field).iter().map(|entry| text(entry, "ip")).collect();
    let mut errors = Errors::new();
    for (index, address) in given.iter().enumerate().filter(|(_, address)| !known.contains(address)) {
        errors.extend(all_invalid(&path.index(index), address, names::ip(address)));
    }
    if given.len() < 2 {
        return errors;
    }
    let read: Vec<_> = given.iter().map(|address| (address, names::address(address))).collect();
    if let Some((wrong, _)) = read.iter().find(|(_, address)| address.is_none()) {
        errors.push(Error::internal(&path, format!("failed to check for dual stack with error:invalid IP address: {wrong}")));
    }
    let of_version_6 = read.iter().filter(|(_, address)| address.is_some_and(|address| address.is_ipv6())).count();
    let is_dual = read.iter().all(|(_, address)| address.is_some()) && of_version_6 > 0 && of_version_6 < given.len();
    if !is_dual || given.len() > 2 {
        let shown: Vec<String> = given.iter().map(|address| format!("{{\"IP\":{}}}", json!(address))).collect();
        let words = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&path, BadValue::Json(format!("[{}]", shown.join(","))), words));
    }
    errors
}

/// The claims that were made for those of the spec.
fn claims(status: &Value, spec: &Value, path: &Path) -> Errors {
    let all = list(status, "resourceClaimStatuses");
    let mut errors = Errors::new();
    for (index, claim) in all.iter().enumerate() {
        let (path, name) = (path.index(index), text(claim, "name"));
        if !list(spec, "resourceClaims").iter().any(|asked| text(asked, "name") == name) {
            errors.push(Error::invalid(&path.child("name"), name, "must match the name of an entry in `spec.resourceClaims`"));
        }
        if all[..index].iter().any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        if has(claim, "resourceClaimName") {
            let made = text(claim, "resourceClaimName");
            errors.extend(all_invalid(&path.child("resourceClaimName"), made, names::subdomain(made)));
        }
    }
    errors
}

/// The users that containers run as.
fn users(status: &Value, field: &str, spec: &Value, path: &Path) -> Errors {
    let is_windows = spec.pointer("/os/name").and_then(Value::as_str) == Some("windows");
    let mut errors = Errors::new();
    for (index, container) in list(status, field).iter().enumerate() {
        let Some(user) = container.pointer("/user/linux").filter(|user| !user.is_null()) else { continue };
        let path = path.index(index).child("user").child("linux");
        if is_windows {
            errors.push(Error::forbidden(&path, "cannot be set for a windows pod"));
            continue;
        }
        let ids = ["uid", "gid"].map(|field| (path.child(field), int(user, field)));
        let groups = list(user, "supplementalGroups").iter().enumerate();
        let groups = groups.map(|(index, group)| (path.child("supplementalGroups").index(index), group.as_i64()));
        for (path, id) in ids.into_iter().chain(groups) {
            if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
                errors.push(Error::invalid(&path, id, "must be between 0 and 2147483647, inclusive"));
            }
        }
    }
    errors
}

/// Containers that have ended stay ended, unless the pod restarts them.
fn restarts(status: &Value, before: &Value, spec: &Value, path: &Path) -> Errors {
    let policy = text(spec, "restartPolicy");
    let mut errors = Vec::new();
    for field in CONTAINERS {
        let field = *field;
        if policy == "Always" && field != "ephemeralContainerStatuses" {
            continue;
        }
        for (index, known) in list(before, field).iter().enumerate() {
            let Some(ended) = known.pointer("/state/terminated") else { continue };
            let failed = int(ended, "exitCode").unwrap_or(0) != 0;
            let name = text(known, "name");
            let sidecar = list(spec, "initContainers")
                .iter()
                .any(|container| text(container, "name") == name && text(container, "restartPolicy") == "Always");
            let free = match field {
                "ephemeralContainerStatuses" => false,
                "initContainerStatuses" => (failed && policy == "OnFailure") || sidecar,
                _ => failed && policy == "OnFailure",
            };
            let runs = |now: &Value| text(now, "name") == name && now.pointer("/state/terminated").is_none();
            if !free && list(status, field).iter().any(runs) {
                let words = "may not be transitioned to non-terminated state";
                errors.push(Error::forbidden(&path.child(field).index(index).child("state"), words));
            }
        }
    }
    errors
}
