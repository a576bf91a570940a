//! Aggregated ClusterRoles: the union of the rules of every role that their selectors match.

use serde_json::Value;

use crate::{Error, PolicyRule, parse_rules};

/// The rules that an aggregated ClusterRole should have: selector by selector, roles in the order of names, each distinct rule once.
///
/// `None` when the role has no `aggregationRule`.
pub fn aggregated_rules<'a>(role: &Value, all: impl IntoIterator<Item = &'a Value>) -> Result<Option<Vec<PolicyRule>>, Error> {
    let Some(selectors) = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array) else {
        return Ok(None);
    };
    let name = |object: &Value| object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = name(role);
    let mut roles: Vec<&Value> = all.into_iter().filter(|other| name(other) != own).collect();
    roles.sort_by_key(|other| name(other));
    let mut union: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        for other in &roles {
            if !selector_matches(selector, other.pointer("/metadata/labels")) {
                continue;
            }
            for rule in parse_rules(other)? {
                if !union.contains(&rule) {
                    union.push(rule);
                }
            }
        }
    }
    Ok(Some(union))
}

/// Returns whether a `metav1.LabelSelector` matches these labels; an empty selector matches everything, an unknown operator nothing.
pub fn selector_matches(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let by_labels = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| value.as_str().is_some() && label(key) == value.as_str()));
    let by_expressions = selector.get("matchExpressions").and_then(Value::as_array).is_none_or(|expressions| {
        expressions.iter().all(|expression| {
            let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
            let listed = |value: &str| {
                expression.get("values").and_then(Value::as_array).is_some_and(|v| v.iter().any(|one| one.as_str() == Some(value)))
            };
            match expression.get("operator").and_then(Value::as_str) {
                Some("In") => label(key).is_some_and(listed),
                Some("NotIn") => label(key).is_none_or(|value| !listed(value)),
                Some("Exists") => label(key).is_some(),
                Some("DoesNotExist") => label(key).is_none(),
                _ => false,
            }
        })
    });
    by_labels && by_expressions
}
