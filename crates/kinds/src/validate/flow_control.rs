//! API priority and fairness: FlowSchemas and PriorityLevelConfigurations.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, flag, has, int, internal, list, names, text, texts};

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const MAX_PRECEDENCE: i64 = 10_000;
const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash that deals a flow its hand of queues.
const HASH_BITS: f64 = 60.0;

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn name(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "name"))
}

pub(super) fn flow_schema(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    let precedence = int(spec, "matchingPrecedence").unwrap_or(0);
    let own = path.child("matchingPrecedence");
    if precedence <= 0 {
        errors.push(Error::invalid(&own, precedence, "must be a positive value"));
    }
    if precedence > MAX_PRECEDENCE {
        errors.push(Error::invalid(&own, precedence, format!("must not be greater than {MAX_PRECEDENCE}")));
    }
    if precedence == 1 && name(object) != "exempt" {
        errors.push(Error::invalid(&own, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"));
    }
    if let Some(method) = spec.get("distinguisherMethod").filter(|method| !method.is_null()) {
        let kind = text(method, "type");
        if !["ByNamespace", "ByUser"].contains(&kind) {
            let shown = BadValue::Json(format!("{{\"Type\":{}}}", json!(kind)));
            errors.push(Error::not_supported(&path.child("distinguisherMethod").child("type"), shown, &["ByNamespace", "ByUser"]));
        }
    }
    let level = spec.get("priorityLevelConfiguration").map_or("", |level| text(level, "name"));
    let own = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        errors.push(Error::required(&own, "must reference a priority level"));
    } else {
        errors.extend(all_invalid(&own, level, names::subdomain(level)));
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        errors.extend(policy_rule(rule, &path.child("rules").index(index)));
    }
    if let Some(fixed) = mandatory_schema(name(object))
        && *spec != fixed
    {
        let words = format!("spec of '{}' must equal the fixed value", name(object));
        errors.push(Error::invalid(&path, internal::shown("FlowSchemaSpec", spec), words));
    }
    errors
}

/// The specifications that may not be changed: without them the server could lock its own administrators out.
fn mandatory_schema(name: &str) -> Option<Value> {
    let everything = |group: &[&str]| {
        let subjects: Vec<Value> = group.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
        json!([{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": everything(&["system:masters"]),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": MAX_PRECEDENCE,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": everything(&["system:unauthenticated", "system:authenticated"]),
        })),
        _ => None,
    }
}

fn policy_rule(rule: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let subjects = list(rule, "subjects");
    if subjects.is_empty() {
        errors.push(Error::required(&path.child("subjects"), "subjects must contain at least one value"));
    }
    for (index, one) in subjects.iter().enumerate() {
        errors.extend(subject(one, &path.child("subjects").index(index)));
    }
    let (resources, others) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        errors.push(Error::required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    for (index, rule) in resources.iter().enumerate() {
        errors.extend(resource_rule(rule, &path.child("resourceRules").index(index)));
    }
    for (index, rule) in others.iter().enumerate() {
        errors.extend(non_resource_rule(rule, &path.child("nonResourceRules").index(index)));
    }
    errors
}

fn subject(subject: &Value, path: &Path) -> Errors {
    // In the order in which upstream looks for what does not belong.
    const SORTS: &[(&str, &str, &[&str])] = &[
        ("ServiceAccount", "serviceAccount", &["user", "group"]),
        ("User", "user", &["serviceAccount", "group"]),
        ("Group", "group", &["serviceAccount", "user"]),
    ];
    let kind = text(subject, "kind");
    let Some((kind, member, others)) = SORTS.iter().find(|(known, ..)| *known == kind) else {
        return vec![Error::not_supported(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"])];
    };
    let own = path.child(member);
    let mut errors = match subject.get(*member).filter(|given| !given.is_null()) {
        None => vec![Error::required(&own, format!("{member} is required when subject kind is '{kind}'"))],
        Some(given) => named_subject(given, kind, &own),
    };
    for other in others.iter().filter(|other| has(subject, other)) {
        let wanted = SORTS.iter().find(|(_, member, _)| member == other).map_or("", |(kind, ..)| kind);
        errors.push(Error::forbidden(&path.child(other), format!("{other} is forbidden when subject kind is not '{wanted}'")));
    }
    errors
}

fn named_subject(subject: &Value, kind: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let name = text(subject, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    if kind != "ServiceAccount" {
        return errors;
    }
    if !name.is_empty() && name != "*" {
        errors.extend(all_invalid(&path.child("name"), name, names::subdomain(name)));
    }
    let namespace = text(subject, "namespace");
    if namespace.is_empty() {
        errors.push(Error::required(&path.child("namespace"), "must specify namespace for service account"));
    } else {
        errors.extend(all_invalid(&path.child("namespace"), namespace, names::label(namespace)));
    }
    errors
}

fn verbs(rule: &Value, path: &Path) -> Errors {
    let given = texts(rule, "verbs");
    let path = path.child("verbs");
    if given.is_empty() {
        return vec![Error::required(&path, "verbs must contain at least one value")];
    }
    if given.contains(&"*") {
        return alone(&given, &path, "verbs");
    }
    if given.iter().all(|verb| VERBS.contains(verb)) { Vec::new() } else { vec![Error::not_supported(&path, json!(given), VERBS)] }
}

/// A star means everything, so nothing may stand beside it.
fn alone(given: &[&str], path: &Path, what: &str) -> Errors {
    if given.len() > 1 && given.contains(&"*") {
        return vec![Error::invalid(path, json!(given), format!("if '*' is present, must not specify other {what}"))];
    }
    Vec::new()
}

fn resource_rule(rule: &Value, path: &Path) -> Errors {
    let mut errors = verbs(rule, path);
    for (field, missing, others) in [
        ("apiGroups", "resource rules must supply at least one api group", "api groups"),
        ("resources", "resource rules must supply at least one resource", "resources"),
    ] {
        let given = texts(rule, field);
        if given.is_empty() {
            errors.push(Error::required(&path.child(field), missing));
        } else {
            errors.extend(alone(&given, &path.child(field), others));
        }
    }
    let namespaces = texts(rule, "namespaces");
    let path = path.child("namespaces");
    if namespaces.is_empty() && !flag(rule, "clusterScope") {
        errors.push(Error::required(&path, "resource rules that are not cluster scoped must supply at least one namespace"));
    } else if namespaces.contains(&"*") {
        errors.extend(alone(&namespaces, &path, "namespaces"));
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            let messages =
                names::label(namespace).into_iter().map(|why| format!("each member of this list must be '*' or a DNS-1123 label; {why}"));
            errors.extend(all_invalid(&path.index(index), namespace, messages.collect()));
        }
    }
    errors
}

fn non_resource_rule(rule: &Value, path: &Path) -> Errors {
    let mut errors = verbs(rule, path);
    let urls = texts(rule, "nonResourceURLs");
    let path = path.child("nonResourceURLs");
    if urls.is_empty() {
        errors.push(Error::required(&path, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        errors.extend(alone(&urls, &path, "non-resource URLs"));
    } else {
        for (index, url) in urls.iter().enumerate() {
            if let Some(words) = bad_url(url) {
                errors.push(Error::invalid(&path.index(index), *url, words));
            }
        }
    }
    errors
}

fn bad_url(url: &str) -> Option<&'static str> {
    if url.is_empty() {
        return Some("must not be empty");
    }
    if url == "/" {
        return None;
    }
    if !url.starts_with('/') {
        return Some("must start with slash");
    }
    if url.contains(' ') {
        return Some("must not contain white-space");
    }
    if url.contains("//") {
        return Some("must not contain double slash");
    }
    let stars = url.matches('*').count();
    (stars > 1 || stars == 1 && !url.ends_with("/*")).then_some("wildcard can only do suffix matching")
}

/// An annotation of an earlier version, which this one refuses.
const KEEP_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub(super) fn priority_level(object: &Value) -> Errors {
    let (spec, path) = (spec(object), Path::new("spec"));
    let mut errors = Vec::new();
    if object.get("metadata").and_then(|metadata| metadata.get("annotations")).is_some_and(|annotations| has(annotations, KEEP_ZERO)) {
        let words = format!("annotation '{KEEP_ZERO}' is forbidden");
        errors.push(Error::forbidden(&Path::new("metadata").child("annotations"), words));
    }
    let kind = text(spec, "type");
    if (name(object) == "exempt") != (kind == "Exempt") {
        errors.push(Error::invalid(&path.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    let (limited, exempt) = (spec.get("limited").filter(|it| !it.is_null()), spec.get("exempt").filter(|it| !it.is_null()));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(Error::forbidden(&path.child("limited"), "must be nil if the type is not Limited"));
            }
            if let Some(exempt) = exempt {
                errors.extend(shares(exempt, &path.child("exempt")));
                errors.extend(lendable(exempt, &path.child("exempt")));
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(Error::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            match limited {
                None => errors.push(Error::required(&path.child("limited"), "must not be empty when type is Limited")),
                Some(limited) => errors.extend(self::limited(limited, &path.child("limited"))),
            }
        }
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Exempt", "Limited"])),
    }
    errors.extend(mandatory_level(name(object), spec, &path));
    errors
}

fn mandatory_level(name: &str, spec: &Value, path: &Path) -> Errors {
    match name {
        // Its shares may be changed, nothing else.
        "exempt" => {
            let others = spec.as_object().into_iter().flatten().filter(|(key, _)| *key != "exempt").count();
            if others == 1 && text(spec, "type") == "Exempt" {
                return Vec::new();
            }
            let words = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
            vec![Error::invalid(path, internal::shown("PriorityLevelConfigurationSpec", spec), words)]
        }
        "catch-all" => {
            let fixed = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}});
            if *spec == fixed {
                return Vec::new();
            }
            let words = "spec of 'catch-all' must equal the fixed value";
            vec![Error::invalid(path, internal::shown("PriorityLevelConfigurationSpec", spec), words)]
        }
        _ => Vec::new(),
    }
}

fn shares(level: &Value, path: &Path) -> Errors {
    match int(level, "nominalConcurrencyShares") {
        Some(shares) if shares < 0 => {
            vec![Error::invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer")]
        }
        _ => Vec::new(),
    }
}

fn lendable(level: &Value, path: &Path) -> Errors {
    match int(level, "lendablePercent") {
        Some(share) if !(0..=100).contains(&share) => {
            vec![Error::invalid(&path.child("lendablePercent"), share, "must be between 0 and 100, inclusive")]
        }
        _ => Vec::new(),
    }
}

fn limited(level: &Value, path: &Path) -> Errors {
    let mut errors = shares(level, path);
    let response = level.get("limitResponse").unwrap_or(&Value::Null);
    let own = path.child("limitResponse");
    let queuing = response.get("queuing").filter(|queuing| !queuing.is_null());
    match (text(response, "type"), queuing) {
        ("Reject", Some(_)) => {
            errors.push(Error::forbidden(&own.child("queuing"), "must be nil if limited.limitResponse.type is not Limited"));
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            errors.push(Error::required(&own.child("queuing"), "must not be empty if limited.limitResponse.type is Limited"));
        }
        ("Queue", Some(queuing)) => errors.extend(self::queuing(queuing, &own.child("queuing"))),
        (other, _) => errors.push(Error::not_supported(&own.child("type"), other, &["Queue", "Reject"])),
    }
    errors.extend(lendable(level, path));
    if let Some(limit) = int(level, "borrowingLimitPercent").filter(|limit| *limit < 0) {
        errors.push(Error::invalid(&path.child("borrowingLimitPercent"), limit, "if specified, must be a non-negative integer"));
    }
    errors
}

fn queuing(queuing: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let number = |field: &str| int(queuing, field).unwrap_or(0);
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if length <= 0 {
        errors.push(Error::invalid(&path.child("queueLengthLimit"), length, "must be positive"));
    }
    if queues <= 0 {
        errors.push(Error::invalid(&path.child("queues"), queues, "must be positive"));
    } else if queues > MAX_QUEUES {
        errors.push(Error::invalid(&path.child("queues"), queues, format!("must not be greater than {MAX_QUEUES}")));
    }
    let own = path.child("handSize");
    if hand <= 0 {
        errors.push(Error::invalid(&own, hand, "must be positive"));
    } else if hand > queues {
        errors.push(Error::invalid(&own, hand, format!("should not be greater than queues ({queues})")));
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let words =
            format!("required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {}", HASH_BITS as i64);
        errors.push(Error::invalid(&own, hand, words));
    }
    errors
}

/// The number of bits that it takes to deal a hand from a deck.
#[allow(clippy::cast_precision_loss, reason = "both are small: queues were checked before")]
fn entropy_bits(deck: i64, hand: i64) -> f64 {
    ((deck as f64).log2() * hand as f64).ceil()
}

/// Conditions of either kind: each type once.
pub(super) fn status(object: &Value) -> Errors {
    let path = Path::new("status").child("conditions");
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in object.get("status").map_or(&[] as &[Value], |status| list(status, "conditions")).iter().enumerate() {
        let (kind, own) = (text(condition, "type"), path.index(index).child("type"));
        if seen.contains(&kind) {
            errors.push(Error::duplicate(&own, kind));
        }
        seen.push(kind);
        if kind.is_empty() {
            errors.push(Error::required(&own, ""));
        }
    }
    errors
}
