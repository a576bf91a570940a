//! Limit ranges and quotas: the limits of a namespace, and of each of its objects.

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::resources::{amount, amount_is_valid, container_resource_name, is_standard_for_quota, may_overcommit, resource_name};
use super::{Errors, all_invalid, internal, list, map, names, text, texts};
use crate::quantity::Quantity;

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
    // A finding if `low` is more than `high`: `field` is the place where it is shown, with the value of `bad`.
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
    ordered(request, default, ("default request", "default limit"), "defaultRequest", request);
    ordered(min, default, ("min", "default"), "default", min);
    ordered(default, max, ("default", "max"), "default", max);
    if let Some(ratio) = ratio {
        let path = path.child("maxLimitRequestRatio").key(name);
        if amount(ratio) < Some(Quantity::from_int(1)) {
            errors.push(Error::invalid(&path, ratio, format!("ratio {} is less than 1", shown(ratio))));
        }
        if let (Some(min), Some(max), Some(most)) = (min.and_then(amount), max.and_then(amount), amount(ratio)) {
            // Numbers too large to be counted in thousandths are counted whole.
            let fine = [min, max, most].iter().all(|amount| amount.to_int() < i64::MAX / 1000);
            let count = |amount: Quantity| if fine { amount.to_milli() as f64 } else { amount.to_int() as f64 };
            let limit = count(max) / count(min);
            let given = if fine { count(most) / 1000.0 } else { count(most) };
            if given > limit {
                errors.push(Error::invalid(&path, ratio, format!("ratio {} is greater than max/min = {}", shown(ratio), go_float(limit))));
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
            object.get("spec").map_or_else(Vec::new, |spec| texts(spec, "scopes")).into_iter().map(str::to_owned).collect();
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
    let expressions = spec.get("scopeSelector").map_or(&[] as &[Value], |selector| list(selector, "matchExpressions"));
    for expression in expressions {
        let (scope, operator, values) = (text(expression, "scopeName"), text(expression, "operator"), list(expression, "values"));
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        let shown = || internal::shown("ScopeSelector", spec.get("scopeSelector").unwrap_or(&Value::Null));
        errors.extend(unfit(scope, spec).map(|_| Error::invalid(&path, shown(), UNFIT)));
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
    let selected: Vec<&str> = expressions.iter().map(|expression| text(expression, "scopeName")).collect();
    let shown = spec.get("scopes").cloned().unwrap_or(Value::Null);
    errors.extend((0..conflicts(&selected)).map(|_| Error::invalid(&path, shown.clone(), "conflicting scopes")));
    errors
}

pub(super) fn resource_quota(object: &Value) -> Errors {
    let (spec, status) = (object.get("spec").unwrap_or(&Value::Null), object.get("status").unwrap_or(&Value::Null));
    let path = Path::new("spec");
    let mut errors = quota_amounts(spec, "hard", &path);
    errors.extend(scopes(spec, &path.child("scopes")));
    errors.extend(scope_selector(spec, &path));
    for field in ["hard", "used"] {
        errors.extend(quota_amounts(status, field, &Path::new("status")));
    }
    errors
}

/// Findings about the amounts of a quota, each of a resource that can be limited.
pub(super) fn quota_amounts(holder: &Value, field: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (name, value) in map(holder, field).into_iter().flatten() {
        let path = path.child(field).key(name);
        errors.extend(resource_name(name, &path));
        if !name.contains('/') && !is_standard_for_quota(name) {
            errors.push(Error::invalid(&path, name.as_str(), "must be a standard resource for quota"));
        }
        errors.extend(amount_is_valid(name, value, &path));
    }
    errors
}

/// Resources of the quota that a scope says nothing of.
fn unfit<'a>(scope: &str, spec: &'a Value) -> impl Iterator<Item = &'a String> + use<'a> {
    const PODS: &[&str] = &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    let fit: Option<&[&str]> = match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => Some(PODS),
        "BestEffort" => Some(&["pods"]),
        "VolumeAttributesClass" => Some(&["persistentvolumeclaims", "requests.storage"]),
        _ => None,
    };
    let names = map(spec, "hard").into_iter().flatten().map(|(name, _)| name);
    names.filter(move |name| is_standard_for_quota(name) && fit.is_some_and(|fit| !fit.contains(&name.as_str())))
}

const UNFIT: &str = "unsupported scope applied to resource";

/// Scopes that exclude each other.
fn conflicts(given: &[&str]) -> usize {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .filter(|pair| pair.iter().all(|one| given.contains(one)))
        .count()
}

fn scopes(spec: &Value, path: &Path) -> Errors {
    let given = texts(spec, "scopes");
    let invalid = |words: &str| Error::invalid(path, json!(given), words);
    let mut errors = Vec::new();
    for scope in &given {
        if !SCOPES.contains(scope) {
            errors.push(invalid("unsupported scope"));
        }
        errors.extend(unfit(scope, spec).map(|_| invalid(UNFIT)));
    }
    errors.extend((0..conflicts(&given)).map(|_| invalid("conflicting scopes")));
    errors
}

/// Go's `%f`.
/// Findings about an amount of storage, which is told as a whole number.
pub(super) fn storage_amount(value: &Value, path: &Path) -> Errors {
    let negative = amount(value).filter(|amount| *amount < Quantity::ZERO);
    negative.map(|amount| Error::invalid(path, amount.to_int(), "must be a valid resource quantity")).into_iter().collect()
}

fn go_float(value: f64) -> String {
    if value.is_infinite() { if value > 0.0 { "+Inf".into() } else { "-Inf".into() } } else { format!("{value:.6}") }
}
