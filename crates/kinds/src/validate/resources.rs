//! Amounts of resources: in containers, limit ranges and quotas.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, all_invalid, list, map, names, text};
use crate::quantity::Quantity;

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn is_standard_container(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    is_standard_container(name)
        || is_quota_name(name)
        || ["storage", "requests.hugepages-", "limits.hugepages-"]
            .iter()
            .any(|known| name == *known || name.starts_with("requests.hugepages-"))
}

fn is_quota_name(name: &str) -> bool {
    [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "requests.storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
    .contains(&name)
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Names without a domain, or of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.split('/').next().is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"))
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

fn resource_name(name: &str, path: &Path) -> Errors {
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
    } else if !is_native(name) && (name.starts_with("requests.") || !names::qualified(&format!("requests.{name}")).is_empty()) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
    errors
}

fn amount_is_valid(name: &str, value: &Value, path: &Path) -> Errors {
    let Some(quantity) = amount(value) else { return Vec::new() };
    let mut errors = Vec::new();
    if quantity < Quantity::ZERO {
        errors.push(Error::invalid(path, value, "must be greater than or equal to 0"));
    }
    let whole = !is_native(name)
        || [
            "pods",
            "services",
            "replicationcontrollers",
            "resourcequotas",
            "secrets",
            "configmaps",
            "persistentvolumeclaims",
            "services.nodeports",
            "services.loadbalancers",
        ]
        .contains(&name)
        || name.starts_with("count/");
    if whole && !quantity.is_int() {
        errors.push(Error::invalid(path, value, "must be an integer"));
    }
    errors
}

/// Requests and limits of a container.
pub(super) fn requirements(resources: &Value, path: &Path) -> Errors {
    let empty = Map::new();
    let limits = map(resources, "limits").unwrap_or(&empty);
    let requests = map(resources, "requests").unwrap_or(&empty);
    let mut errors = Vec::new();
    let (mut huge, mut computes) = (false, false);
    let mut each = |name: &str, value: &Value, path: &Path| -> Errors {
        let path = path.key(name);
        let mut errors = container_resource_name(name, &path);
        errors.extend(amount_is_valid(name, value, &path));
        if is_huge_page(name) {
            huge = true;
            errors.extend(huge_page_amount(name, value, &path));
        }
        computes |= name == "cpu" || name == "memory";
        errors
    };
    for (name, value) in limits {
        errors.extend(each(name, value, &path.child("limits")));
    }
    for (name, value) in requests {
        errors.extend(each(name, value, &path.child("requests")));
        match limits.get(name) {
            Some(limit) => {
                let (Some(request), Some(most)) = (amount(value), amount(limit)) else { continue };
                let words = |relation: &str| format!("must be {relation} {name} limit of {}", limit.as_str().unwrap_or_default());
                if request != most && !may_overcommit(name) {
                    errors.push(Error::invalid(&path.child("requests"), value, words("equal to")));
                } else if request > most {
                    errors.push(Error::invalid(&path.child("requests"), value, words("less than or equal to")));
                }
            }
            None if !may_overcommit(name) => {
                errors.push(Error::required(&path.child("limits"), "Limit must be set for non overcommitable resources"));
            }
            None => {}
        }
    }
    if huge && !computes {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
    errors
}

fn huge_page_amount(name: &str, value: &Value, path: &Path) -> Errors {
    let size = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok()).map_or(0, Quantity::to_int);
    let Some(given) = amount(value) else { return Vec::new() };
    if size <= 0 || given.to_int() % size != 0 {
        let words = format!("{} is not positive integer multiple of {name}", value.as_str().unwrap_or_default());
        return vec![Error::invalid(path, value, words)];
    }
    Vec::new()
}

pub(super) fn limit_range(object: &Value) -> Errors {
    let limits = object.get("spec").map_or(&[] as &[Value], |spec| list(spec, "limits"));
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, item) in limits.iter().enumerate() {
        let path = Path::new("spec").child("limits").index(index);
        let kind = text(item, "type");
        errors.extend(limit_type(kind, &path.child("type")));
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        seen.push(kind);
        errors.extend(limit_item(item, kind, &path));
    }
    errors
}

fn limit_type(kind: &str, path: &Path) -> Errors {
    let mut errors = all_invalid(path, kind, names::qualified(kind));
    if errors.is_empty() && !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
        errors.push(Error::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
    errors
}

fn limit_item(item: &Value, kind: &str, path: &Path) -> Errors {
    let empty = Map::new();
    let of = |field: &str| map(item, field).unwrap_or(&empty);
    let mut errors = Vec::new();
    let mut keys: Vec<&String> = Vec::new();
    let mut names_of = |field: &str, errors: &mut Errors| {
        for name in of(field).keys() {
            errors.extend(limit_resource_name(name, kind, &path.child(field).key(name)));
            if !keys.contains(&name) {
                keys.push(name);
            }
        }
    };
    names_of("max", &mut errors);
    names_of("min", &mut errors);
    if kind == "Pod" {
        for field in ["default", "defaultRequest"] {
            if !of(field).is_empty() {
                errors.push(Error::forbidden(&path.child(field), "may not be specified when `type` is 'Pod'"));
            }
        }
    } else {
        names_of("default", &mut errors);
        names_of("defaultRequest", &mut errors);
    }
    if kind == "PersistentVolumeClaim" && !of("max").contains_key("storage") && !of("min").contains_key("storage") {
        let words = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&path.child("limits"), words));
    }
    names_of("maxLimitRequestRatio", &mut errors);
    keys.sort();
    for name in keys {
        errors.extend(limit_values(name, item, path));
    }
    errors
}

fn limit_resource_name(name: &str, kind: &str, path: &Path) -> Errors {
    match kind {
        "Pod" | "Container" => container_resource_name(name, path),
        _ => resource_name(name, path),
    }
}

fn limit_values(name: &str, item: &Value, path: &Path) -> Errors {
    let value = |field: &str| map(item, field).and_then(|amounts| amounts.get(name));
    let (max, min, default, request, ratio) =
        (value("max"), value("min"), value("default"), value("defaultRequest"), value("maxLimitRequestRatio"));
    let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut errors = Vec::new();
    // A finding where `low` is more than `high`: `field` is where it is shown, with the value of `bad`.
    let mut ordered = |low: Option<&Value>, high: Option<&Value>, names: (&str, &str), field: &str, bad: Option<&Value>| {
        let (Some(low), Some(high)) = (low, high) else { return };
        if amount(low) > amount(high) {
            let words = format!("{} value {} is greater than {} value {}", names.0, shown(low), names.1, shown(high));
            errors.push(Error::invalid(&path.child(field).key(name), bad, words));
        }
    };
    ordered(min, max, ("min", "max"), "min", min);
    ordered(min, request, ("min", "default request"), "defaultRequest", request);
    ordered(request, max, ("default request", "max"), "defaultRequest", request);
    ordered(request, default, ("default request", "default"), "defaultRequest", request);
    ordered(min, default, ("min", "default"), "default", min);
    ordered(default, max, ("default", "max"), "default", max);
    if let Some(ratio) = ratio {
        let path = path.child("maxLimitRequestRatio").key(name);
        if amount(ratio) < Some(Quantity::from_int(1)) {
            errors.push(Error::invalid(&path, ratio, format!("ratio {} is less than 1", shown(ratio))));
        }
        if let (Some(min), Some(max), Some(most)) = (min.and_then(amount), max.and_then(amount), amount(ratio)) {
            let (min, max) = (min.to_milli(), max.to_milli());
            if min > 0 && most.to_milli() * min > max * 1000 {
                let limit = max as f64 / min as f64;
                errors.push(Error::invalid(&path, ratio, format!("ratio {} is greater than max/min = {limit:.6}", shown(ratio))));
            }
        }
    }
    let overcommits = may_overcommit(name);
    if let (Some(default), Some(request), false) = (default, request, overcommits)
        && amount(default) != amount(request)
    {
        let words = format!("default value {} must equal to defaultRequest value {} in {name}", shown(default), shown(request));
        errors.push(Error::invalid(&path.child("defaultRequest").key(name), request, words));
    }
    errors
}

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Scopes stay as they are.
pub(super) fn resource_quota_update(new: &Value, old: &Value) -> Errors {
    let scopes = |object: &Value| {
        let mut scopes: Vec<String> =
            object.get("spec").map_or_else(Vec::new, |spec| super::texts(spec, "scopes")).into_iter().map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if scopes(new) == scopes(old) {
        return Vec::new();
    }
    let shown = new.pointer("/spec/scopes").cloned().unwrap_or(Value::Null);
    vec![Error::invalid(&Path::new("spec").child("scopes"), shown, "field is immutable")]
}

/// A selector of scopes: findings name the list, not the item.
fn scope_selector(spec: &Value, path: &Path) -> Errors {
    let path = path.child("scopeSelector").child("matchExpressions");
    let mut errors = Vec::new();
    for expression in spec.get("scopeSelector").map_or(&[] as &[Value], |selector| list(selector, "matchExpressions")) {
        let (scope, operator, values) = (text(expression, "scopeName"), text(expression, "operator"), list(expression, "values"));
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        if SCOPES.contains(&scope) && !["PriorityClass", "VolumeAttributesClass"].contains(&scope) && operator != "Exists" {
            let words = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                         ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(Error::invalid(&path.child("operator"), operator, words));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(Error::required(&path.child("values"), words));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(Error::invalid(&path.child("values"), expression.get("values"), words));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
        }
    }
    errors
}

pub(super) fn resource_quota(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    for (name, value) in map(spec, "hard").into_iter().flatten() {
        let path = path.child("hard").key(name);
        errors.extend(all_invalid(&path, name, names::qualified(name)));
        if !name.contains('/') && !is_standard(name) {
            errors.push(Error::invalid(&path, name.as_str(), "must be a standard resource type or fully qualified"));
            errors.push(Error::invalid(&path, name.as_str(), "must be a standard resource for quota"));
        }
        errors.extend(amount_is_valid(name, value, &path));
    }
    for scope in super::texts(spec, "scopes") {
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&path.child("scopes"), json!(super::texts(spec, "scopes")), "unsupported scope"));
        }
    }
    errors.extend(scope_selector(spec, &path));
    errors
}
