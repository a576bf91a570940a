//! Amounts of resources: in containers, limit ranges and quotas.

use std::collections::BTreeSet;

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, all_invalid, list, map, names, text};
use crate::quantity::Quantity;
use crate::resource_list::{Side, of_containers};

pub(super) fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn is_standard_container(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    is_standard_for_quota(name) || name == "storage"
}

pub(super) fn is_standard_for_quota(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    NAMES.contains(&name) || COUNTED.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Resources that are counted, so that there is no half of them.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Names without a domain, or of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Names of resources that others add; a quota must be able to name them, too.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified(&format!("requests.{name}")).is_empty()
}

pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

pub(super) fn resource_name(name: &str, path: &Path) -> Errors {
    let mut errors = all_invalid(path, name, names::qualified(name));
    if !errors.is_empty() {
        return errors;
    }
    if !name.contains('/') && !is_standard(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    errors
}

pub(super) fn container_resource_name(name: &str, path: &Path) -> Errors {
    let mut errors = resource_name(name, path);
    if !name.contains('/') {
        if !is_standard_container(name) {
            errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
    errors
}

/// Findings about an amount of a resource.
pub(super) fn amount_is_valid(name: &str, value: &Value, path: &Path) -> Errors {
    let Some(quantity) = amount(value) else { return Vec::new() };
    let mut errors = Vec::new();
    if quantity < Quantity::ZERO {
        errors.push(Error::invalid(path, value, "must be greater than or equal to 0"));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity.is_int() {
        errors.push(Error::invalid(path, value, "must be an integer"));
    }
    errors
}

/// Amounts that containers could have.
pub(super) fn requirements(resources: &Value, path: &Path) -> Errors {
    limited(resources, container_resource_name, &BTreeSet::new(), path)
}

/// Requests and limits of a container. `claims` are those of its pod.
pub(super) fn of_container(resources: &Value, claims: &BTreeSet<&str>, path: &Path) -> Errors {
    limited(resources, container_resource_name, claims, path)
}

fn limited(resources: &Value, name_rule: fn(&str, &Path) -> Errors, claims: &BTreeSet<&str>, path: &Path) -> Errors {
    let empty = Map::new();
    let limits = map(resources, "limits").unwrap_or(&empty);
    let requests = map(resources, "requests").unwrap_or(&empty);
    let mut errors = Vec::new();
    for (name, value) in limits {
        let path = path.child("limits").key(name);
        errors.extend(name_rule(name, &path));
        errors.extend(amount_is_valid(name, value, &path));
        errors.extend(huge_page_amount(name, value, &path));
    }
    for (name, value) in requests {
        let own = path.child("requests").key(name);
        errors.extend(name_rule(name, &own));
        errors.extend(amount_is_valid(name, value, &own));
        match limits.get(name).and_then(Value::as_str) {
            Some(limit) => {
                let words = |relation: &str| format!("must be {relation} {name} limit of {limit}");
                let (given, most) = (amount(value), Quantity::parse(limit).ok());
                if given != most && !may_overcommit(name) {
                    errors.push(Error::invalid(&path.child("requests"), value, words("equal to")));
                } else if given > most {
                    errors.push(Error::invalid(&path.child("requests"), value, words("less than or equal to")));
                }
            }
            None if !may_overcommit(name) => {
                errors.push(Error::required(&path.child("limits"), "Limit must be set for non overcommitable resources"));
            }
            None => {}
        }
        errors.extend(huge_page_amount(name, value, &own));
    }
    let names: Vec<&String> = limits.keys().chain(requests.keys()).collect();
    if names.iter().any(|name| is_huge_page(name)) && !names.iter().any(|name| ["cpu", "memory"].contains(&name.as_str())) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
    errors.extend(claim_names(list(resources, "claims"), claims, &path.child("claims")));
    errors
}

/// Claims that a container uses: those of its pod, each once, as a whole or one request of it.
fn claim_names(used: &[Value], claims: &BTreeSet<&str>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in used.iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if seen.contains(name) {
            errors.push(Error::duplicate(&path, name));
        } else if request.is_empty() {
            let parts = seen.iter().filter(|key| key.split_once('/').is_some_and(|(claim, _)| claim == name)).count();
            errors.extend((0..parts).map(|_| Error::duplicate(&path, name)));
            seen.insert(name.to_owned());
        } else {
            errors.extend(all_invalid(&path.child("request"), request, names::label(request)));
            let key = format!("{name}/{request}");
            if seen.contains(&key) {
                errors.push(Error::duplicate(&path, key.as_str()));
            }
            seen.insert(key);
        }
        if !claims.contains(name) {
            let mut error = Error::not_found(&path, name);
            let known: Vec<&str> = claims.iter().copied().collect();
            let names = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{names}");
            errors.push(error);
        }
    }
    errors
}

/// Requests and limits of a pod as a whole.
pub(super) fn of_pod(spec: &Value, claims: &BTreeSet<&str>, path: &Path) -> Errors {
    let Some(resources) = spec.get("resources").filter(|resources| !resources.is_null()) else { return Vec::new() };
    let path = path.child("resources");
    if spec.pointer("/os/name") == Some(&json!("windows")) {
        return vec![Error::forbidden(&path, "may not be set for a windows pod")];
    }
    let mut errors = Vec::new();
    if resources.get("claims").is_some_and(|claims| !claims.is_null()) {
        errors.push(Error::forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level"));
    }
    errors.extend(limited(resources, pod_resource_name, claims, &path));
    errors.extend(containers_fit(spec, &path));
    errors
}

fn pod_resource_name(name: &str, path: &Path) -> Errors {
    let errors = resource_name(name, path);
    if !errors.is_empty() || ["cpu", "memory"].contains(&name) || is_huge_page(name) {
        return errors;
    }
    vec![Error::not_supported(path, name, &["cpu", "hugepages-", "memory"])]
}

/// Checks that the containers' requests together fit into the pod's, and that no container may use more than the pod.
fn containers_fit(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let requests = Side::Requests.of(spec);
    let pod = json!({"spec": spec});
    for (name, sum) in of_containers(&pod, Side::Requests).iter() {
        if let Some(given) = requests.get(name).filter(|given| sum > *given) {
            let words = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(Error::invalid(&path.child("requests").key(name), given.to_string(), words));
        }
    }
    let limits = Side::Limits.of(spec);
    for (name, sum) in of_containers(&pod, Side::Limits).iter().filter(|(name, _)| is_huge_page(name)) {
        if let Some(given) = limits.get(name).filter(|given| sum > *given) {
            let words = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.push(Error::invalid(&path.child("limits").key(name), given.to_string(), words));
        }
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, amount) in Side::Limits.of(container).iter() {
            if let Some(most) = limits.get(name).filter(|most| amount > *most) {
                // Kubernetes puts the name before the field here.
                let path = path.child("containers").index(index).key(name).child("limits");
                errors.push(Error::invalid(&path, amount.to_string(), format!("must be less than or equal to pod limits of {most}")));
            }
        }
    }
    errors
}

fn huge_page_amount(name: &str, value: &Value, path: &Path) -> Errors {
    if !is_huge_page(name) {
        return Vec::new();
    }
    let size = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok()).map_or(0, Quantity::to_int);
    let Some(given) = amount(value) else { return Vec::new() };
    if size <= 0 || given.to_int() % size != 0 {
        let words = format!("{} is not positive integer multiple of {name}", value.as_str().unwrap_or_default());
        return vec![Error::invalid(path, value, words)];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(spec: &Value, claims: &[&str]) -> Vec<String> {
        of_pod(spec, &claims.iter().copied().collect(), &Path::new("spec")).iter().map(Error::to_string).collect()
    }

    /// KAPI-REST-08: what a pod asks for as a whole holds what its containers ask for together.
    #[test]
    fn pods_as_a_whole() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
        let spec = json!({"resources": {"requests": {"cpu": "1", "storage": "1Gi"}, "limits": {"cpu": "1"}},
            "containers": [container("500m"), container("2")], "initContainers": [container("3")]});
        assert_eq!(
            told(&spec, &[]),
            [
                "spec.resources.requests[storage]: Unsupported value: \"storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 3",
                "spec.resources.containers[1][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            ]
        );
        let windows = json!({"os": {"name": "windows"}, "resources": {"requests": {"cpu": "1"}}});
        assert_eq!(told(&windows, &[]), ["spec.resources: Forbidden: may not be set for a windows pod"]);
    }

    /// KAPI-REST-08: containers use claims of their pod, each once.
    #[test]
    fn claims_of_containers() {
        let resources = json!({"claims": [{"name": "a", "request": "r"}, {"name": "a"}, {"name": "a"}, {"name": "b"}, {}]});
        let known: BTreeSet<&str> = ["a"].into();
        let errors: Vec<String> = of_container(&resources, &known, &Path::new("r")).iter().map(Error::to_string).collect();
        assert_eq!(
            errors,
            [
                "r.claims[1]: Duplicate value: \"a\"",
                "r.claims[2]: Duplicate value: \"a\"",
                "r.claims[3]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: a",
                "r.claims[4]: Required value",
            ]
        );
    }

    /// KAPI-REST-08: huge pages are asked for as they are limited, in whole pages, and not alone.
    #[test]
    fn huge_pages() {
        let resources = json!({"limits": {"hugepages-2Mi": "3Mi"}, "requests": {"hugepages-2Mi": "2Mi"}});
        let errors: Vec<String> = requirements(&resources, &Path::new("r")).iter().map(Error::to_string).collect();
        assert_eq!(
            errors,
            [
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                "r.requests: Invalid value: \"2Mi\": must be equal to hugepages-2Mi limit of 3Mi",
                "r: Forbidden: HugePages require cpu or memory",
            ]
        );
    }
}
