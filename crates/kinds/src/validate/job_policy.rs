//! The policies by which a job's pods count as failed or as enough: `podFailurePolicy` and `successPolicy`.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, list, names, not_negative, text};

/// Why a text names no indexes, in the words that Kubernetes reports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct InvalidIndexes(String);

const RULES: usize = 20;
const CONDITIONS: usize = 20;
const EXIT_CODES: usize = 255;
const INDEXES: usize = 64 * 1024;

/// Go's `%q` of a list, as findings name what is valid.
fn valid(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| mainstay_golang::quote(value)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn choice(given: &str, path: &Path, known: &[&str]) -> Errors {
    if given.is_empty() {
        return vec![Error::required(path, valid(known))];
    }
    if known.contains(&given) { Vec::new() } else { vec![Error::not_supported(path, given, known)] }
}

/// Findings about `spec.podFailurePolicy`.
pub(super) fn failure(spec: &Value, path: &Path) -> Errors {
    let Some(policy) = spec.get("podFailurePolicy").filter(|policy| !policy.is_null()) else { return Vec::new() };
    let path = path.child("podFailurePolicy").child("rules");
    let rules = list(policy, "rules");
    let mut errors = Vec::new();
    if rules.len() > RULES {
        errors.push(Error::too_many(&path, rules.len() as u64, RULES as u64));
    }
    let pod = spec.pointer("/template/spec").unwrap_or(&Value::Null);
    let containers: Vec<&str> =
        ["containers", "initContainers"].iter().flat_map(|field| list(pod, field)).map(|container| text(container, "name")).collect();
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let (action, own) = (text(rule, "action"), path.child("action"));
        if action == "FailIndex" && !has(spec, "backoffLimitPerIndex") {
            errors.push(Error::invalid(&own, action, "requires the backoffLimitPerIndex to be set"));
        } else {
            errors.extend(choice(action, &own, &["Count", "FailIndex", "FailJob", "Ignore"]));
        }
        let codes = rule.get("onExitCodes").filter(|codes| !codes.is_null());
        let conditions = list(rule, "onPodConditions");
        if let Some(codes) = codes {
            errors.extend(exit_codes(codes, &containers, &path.child("onExitCodes")));
        }
        if !conditions.is_empty() {
            errors.extend(pod_conditions(conditions, &path.child("onPodConditions")));
        }
        match (codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                errors.push(Error::invalid(&path, BadValue::Omitted, "specifying both OnExitCodes and OnPodConditions is not supported"));
            }
            (false, true) => {
                errors.push(Error::invalid(&path, BadValue::Omitted, "specifying one of OnExitCodes and OnPodConditions is required"));
            }
            _ => {}
        }
    }
    errors
}

fn pod_conditions(conditions: &[Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    if conditions.len() > CONDITIONS {
        errors.push(Error::too_many(path, conditions.len() as u64, CONDITIONS as u64));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, "type");
        errors.extend(all_invalid(&path.child("type"), kind, names::qualified(kind)));
        errors.extend(choice(text(condition, "status"), &path.child("status"), &["False", "True", "Unknown"]));
    }
    errors
}

fn exit_codes(codes: &Value, containers: &[&str], path: &Path) -> Errors {
    let operator = text(codes, "operator");
    let mut errors = choice(operator, &path.child("operator"), &["In", "NotIn"]);
    let container = text(codes, "containerName");
    if has(codes, "containerName") && !containers.contains(&container) {
        let words = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid(&path.child("containerName"), container, words));
    }
    let values: Vec<i64> = list(codes, "values").iter().filter_map(Value::as_i64).collect();
    let path = path.child("values");
    if values.is_empty() {
        errors.push(Error::invalid(&path, codes.get("values").cloned().unwrap_or(Value::Null), "at least one value is required"));
    } else if values.len() > EXIT_CODES {
        errors.push(Error::too_many(&path, values.len() as u64, EXIT_CODES as u64));
    }
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(Error::invalid(&path.index(index), *value, "must not be 0 for the In operator"));
        }
        if values[..index].contains(value) {
            errors.push(Error::duplicate(&path.index(index), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(Error::invalid(&path, json!(values), "must be ordered"));
    }
    errors
}

/// Findings about `spec.successPolicy`.
pub(super) fn success(spec: &Value, path: &Path) -> Errors {
    let Some(policy) = spec.get("successPolicy").filter(|policy| !policy.is_null()) else { return Vec::new() };
    let path = path.child("successPolicy");
    if text(spec, "completionMode") != "Indexed" {
        return vec![Error::invalid(&path, super::internal::shown("SuccessPolicy", policy), "requires indexed completion mode")];
    }
    let Some(completions) = int(spec, "completions") else { return Vec::new() };
    let rules = list(policy, "rules");
    let path = path.child("rules");
    let mut errors = Vec::new();
    if rules.is_empty() {
        errors.push(Error::required(&path, "at least one rules must be specified when the successPolicy is specified"));
    }
    if rules.len() > RULES {
        errors.push(Error::too_many(&path, rules.len() as u64, RULES as u64));
    }
    for (index, rule) in rules.iter().enumerate() {
        errors.extend(success_rule(rule, completions, &path.index(index)));
    }
    errors
}

fn success_rule(rule: &Value, completions: i64, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let count = int(rule, "succeededCount");
    if count.is_none() && !has(rule, "succeededIndexes") {
        errors.push(Error::required(path, "at least one of succeededCount or succeededIndexes must be specified"));
    }
    let mut total = None;
    if has(rule, "succeededIndexes") {
        let (given, path) = (text(rule, "succeededIndexes"), path.child("succeededIndexes"));
        if given.len() > INDEXES {
            errors.push(Error::too_long(&path, "", INDEXES as u64));
        }
        match indexes(given, completions) {
            Ok(found) => total = Some(found),
            Err(why) => {
                total = Some(0);
                errors.push(Error::invalid(&path, given, format!("error parsing succeededIndexes: {why}")));
            }
        }
    }
    if let Some(count) = count {
        errors.extend(not_negative(rule, "succeededCount", path));
        let path = path.child("succeededCount");
        if count > completions {
            let words = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(Error::invalid(&path, count, words));
        }
        if let Some(total) = total.filter(|total| count > *total) {
            let words = format!("must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)");
            errors.push(Error::invalid(&path, count, words));
        }
    }
    errors
}

/// The number of indexes that `1,3-5` names, or the reason why it cannot be read.
fn indexes(given: &str, completions: i64) -> Result<i64, InvalidIndexes> {
    if given.is_empty() {
        return Ok(0);
    }
    let number = |text: &str| -> Result<i64, InvalidIndexes> {
        text.parse::<i64>()
            .map_err(|_| InvalidIndexes(format!("cannot convert string to integer for index: {}", mainstay_golang::quote(text))))
    };
    let (mut total, mut last) = (0, None);
    for part in given.split(',') {
        let bounds: Vec<&str> = part.split('-').collect();
        let shown = mainstay_golang::quote(part);
        if bounds.len() > 2 {
            return Err(InvalidIndexes(format!(
                "the fragment {shown} violates the requirement that an index interval can have at most two parts separated by '-'"
            )));
        }
        let first = number(bounds[0])?;
        if first >= completions {
            return Err(InvalidIndexes(format!("too large index: {}", mainstay_golang::quote(bounds[0]))));
        }
        if let Some(last) = last.filter(|last| first <= *last) {
            return Err(InvalidIndexes(format!("non-increasing order, previous: {last}, current: {first}")));
        }
        let end = match bounds.get(1) {
            None => first,
            Some(text) => {
                let end = number(text)?;
                if end >= completions {
                    return Err(InvalidIndexes(format!("too large index: {}", mainstay_golang::quote(text))));
                }
                if first >= end {
                    return Err(InvalidIndexes(format!("non-increasing order, previous: {first}, current: {end}")));
                }
                end
            }
        };
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        assert_eq!(indexes("0-1,3", 5), Ok(3));
        assert_eq!(indexes("0,0", 5), Err(InvalidIndexes("non-increasing order, previous: 0, current: 0".into())));
        assert_eq!(indexes("7", 5), Err(InvalidIndexes("too large index: \"7\"".into())));
        assert!(indexes("a", 5).is_err() && indexes("1-2-3", 5).is_err());
    }
}
