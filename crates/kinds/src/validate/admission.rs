//! Webhooks and admission policies.

use mainstay_cel::Env;
use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::expressions::{self, Wanted};
use super::{Errors, all_invalid, has, int, labels, list, names, one_of_if_set, text, texts};
use crate::Gvk;

pub(super) fn webhooks(gvk: &Gvk, object: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, hook) in list(object, "webhooks").iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        errors.extend(webhook(hook, &path, gvk.kind.starts_with("Mutating")));
        let name = text(hook, "name");
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        seen.push(name);
    }
    errors
}

fn webhook(hook: &Value, path: &Path, mutating: bool) -> Errors {
    let mut errors = fully_qualified(text(hook, "name"), &path.child("name"));
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        errors.extend(self::rule(rule, &path.child("rules").index(index)));
    }
    errors.extend(one_of_if_set(hook, "failurePolicy", path, &["Fail", "Ignore"]));
    errors.extend(one_of_if_set(hook, "matchPolicy", path, &["Equivalent", "Exact"]));
    if has(hook, "sideEffects") {
        errors.extend(one_of_if_set(hook, "sideEffects", path, &["None", "NoneOnDryRun"]));
    } else {
        errors.push(Error::required(&path.child("sideEffects"), "must specify one of None, NoneOnDryRun"));
    }
    if let Some(seconds) = int(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        errors.push(Error::invalid(&path.child("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds"));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        errors.extend(labels::selector(hook.get(field), &path.child(field)));
    }
    if mutating {
        errors.extend(one_of_if_set(hook, "reinvocationPolicy", path, &["IfNeeded", "Never"]));
    }
    errors.extend(client(hook.get("clientConfig").unwrap_or(&Value::Null), &path.child("clientConfig")));
    errors.extend(match_conditions(hook, &expressions::conditions(), &path.child("matchConditions")));
    errors.extend(versions(hook, &path.child("admissionReviewVersions")));
    errors
}

fn fully_qualified(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let messages = names::subdomain(name);
    if !messages.is_empty() {
        return all_invalid(path, name, messages);
    }
    if name.split('.').count() < 3 {
        return vec![Error::invalid(path, name, "should be a domain with at least three segments separated by dots")];
    }
    Vec::new()
}

fn versions(hook: &Value, path: &Path) -> Errors {
    let given = texts(hook, "admissionReviewVersions");
    if given.is_empty() {
        return vec![Error::required(path, "must specify one of v1, v1beta1")];
    }
    let mut errors = Vec::new();
    for (index, version) in given.iter().enumerate() {
        if given[..index].contains(version) {
            errors.push(Error::invalid(&path.index(index), *version, "duplicate version"));
            continue;
        }
        for words in names::label_1035(version) {
            errors.push(Error::invalid(&path.index(index), *version, words));
        }
    }
    if !given.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        errors.push(Error::invalid(path, json!(given), "must include at least one of v1, v1beta1"));
    }
    errors
}

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

fn rule(rule: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let operations = texts(rule, "operations");
    let own = path.child("operations");
    if operations.is_empty() {
        errors.push(Error::required(&own, ""));
    }
    if operations.len() > 1 && operations.contains(&"*") {
        errors.push(Error::invalid(&own, json!(operations), "if '*' is present, must not specify other operations"));
    }
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            errors.push(Error::not_supported(&own.index(index), *operation, OPERATIONS));
        }
    }
    for (field, what, empty_allowed) in [("apiGroups", "API groups", true), ("apiVersions", "API versions", false)] {
        let given = texts(rule, field);
        let own = path.child(field);
        if given.is_empty() {
            errors.push(Error::required(&own, ""));
        }
        if given.len() > 1 && given.contains(&"*") {
            errors.push(Error::invalid(&own, json!(given), format!("if '*' is present, must not specify other {what}")));
        }
        for (index, _) in given.iter().enumerate().filter(|(_, entry)| entry.is_empty() && !empty_allowed) {
            errors.push(Error::required(&own.index(index), ""));
        }
    }
    errors.extend(resources(rule, &path.child("resources")));
    errors.extend(one_of_if_set(rule, "scope", path, &["*", "Cluster", "Namespaced"]));
    errors
}

fn resources(rule: &Value, path: &Path) -> Errors {
    let given = texts(rule, "resources");
    if given.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    // Kubernetes remembers this of the last resource that names no subresource.
    let mut named = false;
    let (mut subresources_of, mut with_subresource): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, resource) in given.iter().enumerate() {
        if resource.is_empty() {
            errors.push(Error::required(&path.index(index), ""));
            continue;
        }
        let Some((base, sub)) = resource.split_once('/') else {
            named = *resource != "*";
            continue;
        };
        if subresources_of.contains(&base) {
            errors.push(Error::invalid(&path.index(index), *resource, format!("if '{base}/*' is present, must not specify {resource}")));
        }
        if with_subresource.contains(&sub) {
            errors.push(Error::invalid(&path.index(index), *resource, format!("if '*/{sub}' is present, must not specify {resource}")));
        }
        if sub == "*" {
            subresources_of.push(base);
        }
        if base == "*" {
            with_subresource.push(sub);
        }
    }
    if given.len() > 1 && given.contains(&"*/*") {
        errors.push(Error::invalid(path, json!(given), "if '*/*' is present, must not specify other resources"));
    }
    if given.contains(&"*") && named {
        let words = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, json!(given), words));
    }
    errors
}

fn client(config: &Value, path: &Path) -> Errors {
    match (has(config, "url"), config.get("service").filter(|service| !service.is_null())) {
        (true, Some(_)) | (false, None) => vec![Error::required(path, "exactly one of url or service is required")],
        (true, None) => url(text(config, "url"), &path.child("url")),
        (false, Some(service)) => {
            let path = path.child("service");
            let mut errors = Vec::new();
            // Kubernetes names the one if the other is missing.
            for (field, named) in [("namespace", "name"), ("name", "namespace")] {
                if text(service, field).is_empty() {
                    errors.push(Error::required(&path.child(named), ""));
                }
            }
            let port = int(service, "port").unwrap_or(0);
            errors.extend(
                names::port(port).into_iter().map(|words| Error::invalid(&path.child("port"), port, format!("port is not valid: {words}"))),
            );
            let place = text(service, "path");
            if has(service, "path") {
                errors.extend(service_path(place, &path.child("path")));
            }
            errors
        }
    }
}

fn service_path(place: &str, path: &Path) -> Errors {
    if place == "/" || place.is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if place == "//" {
        errors.push(Error::invalid(path, place, "segment[0] may not be empty"));
        return errors;
    }
    if !place.starts_with('/') {
        errors.push(Error::invalid(path, place, "must start with a '/'"));
    }
    // The first character goes, whatever it is.
    let trimmed = place.char_indices().nth(1).map_or("", |(second, _)| &place[second..]);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    for (index, segment) in trimmed.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(Error::invalid(path, place, format!("segment[{index}] may not be empty")));
            continue;
        }
        for words in names::subdomain(segment) {
            errors.push(Error::invalid(path, place, format!("segment[{index}]: {words}")));
        }
    }
    errors
}

const URL_FORM: &str = "; desired format: https://host[/path]";

fn url(given: &str, path: &Path) -> Errors {
    let mut errors = Vec::new();
    // Without slashes there is no host: all of it is a path.
    let (scheme, rest) = given.split_once("//").map_or(("", ""), |(scheme, rest)| (scheme.strip_suffix(':').unwrap_or(scheme), rest));
    if scheme != "https" {
        errors.push(Error::invalid(path, scheme, format!("'https' is the only allowed URL scheme{URL_FORM}")));
    }
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    if host.is_empty() {
        errors.push(Error::invalid(path, host, format!("host must be specified{URL_FORM}")));
    }
    for (part, words) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if let Some(part) = part {
            errors.push(Error::invalid(path, part, words));
        }
    }
    errors
}

/// An expression that must be there, and compile.
fn expression(holder: &Value, field: &str, missing: &str, env: &Env, wanted: Wanted, path: &Path) -> Option<Error> {
    let (path, text) = (path.child(field), text(holder, field));
    if text.trim().is_empty() { Some(Error::required(&path, missing)) } else { expressions::problem(text, env, wanted, &path) }
}

/// Names and expressions of match conditions.
fn match_conditions(holder: &Value, env: &Env, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let given = list(holder, "matchConditions");
    if given.len() > 64 {
        errors.push(Error::too_many(path, given.len() as u64, 64));
        return errors;
    }
    for (index, condition) in given.iter().enumerate() {
        let path = path.index(index);
        errors.extend(expression(condition, "expression", "", env, Wanted::Bool, &path));
        let name = text(condition, "name");
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else {
            errors.extend(all_invalid(&path.child("name"), name, names::qualified(name)));
            if seen.contains(&name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
            seen.push(name);
        }
    }
    errors
}

pub(super) fn policy(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut errors = one_of_if_set(spec, "failurePolicy", &path, &["Fail", "Ignore"]);
    if let Some(kind) = spec.get("paramKind").filter(|kind| !kind.is_null()) {
        let path = path.child("paramKind");
        errors.extend(param_version(text(kind, "apiVersion"), &path.child("apiVersion")));
        let (path, kind) = (path.child("kind"), text(kind, "kind"));
        let messages = names::label_1035(&kind.to_lowercase());
        if kind.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !messages.is_empty() {
            let words = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.push(Error::invalid(&path, kind, words));
        }
    }
    match spec.get("matchConstraints").filter(|constraints| !constraints.is_null()) {
        None => errors.push(Error::required(&path.child("matchConstraints"), "")),
        Some(constraints) => {
            if list(constraints, "resourceRules").is_empty() {
                errors.push(Error::required(&path.children(&["matchConstraints", "resourceRules"]), ""));
            }
            errors.extend(match_resources(constraints, &path.child("matchConstraints")));
        }
    }
    let params = has(spec, "paramKind");
    let (env, of_variables) = variables(list(spec, "variables"), params, &path.child("variables"));
    errors.extend(match_conditions(spec, &env, &path.child("matchConditions")));
    errors.extend(of_variables);
    if list(spec, "validations").is_empty() && list(spec, "auditAnnotations").is_empty() {
        let words = "validations or auditAnnotations must contain at least one item";
        errors.push(Error::required(&path.child("validations"), words));
        errors.push(Error::required(&path.child("auditAnnotations"), words));
        return errors;
    }
    for (index, validation) in list(spec, "validations").iter().enumerate() {
        errors.extend(self::validation(validation, &env, &path.child("validations").index(index)));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, annotation) in list(spec, "auditAnnotations").iter().enumerate() {
        let path = path.child("auditAnnotations").index(index);
        let key = text(annotation, "key");
        if name.is_empty() {
            errors.push(Error::invalid(&path.child("key"), key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{name}/{key}");
            errors.extend(all_invalid(&path.child("key"), &whole, names::qualified(&whole)));
        }
        errors.extend(expression(annotation, "valueExpression", "valueExpression is not specified", &env, Wanted::TextOrNull, &path));
        if seen.contains(&key) {
            errors.push(Error::duplicate(&path.child("key"), key));
        }
        seen.push(key);
    }
    errors
}

/// The names that a policy's expressions may use, and findings about its variables. Each sees those before it, and is compiled once: there
/// may be many.
fn variables(given: &[Value], params: bool, path: &Path) -> (Env, Errors) {
    let mut errors = Vec::new();
    let mut composer = expressions::of_policy(params);
    for (index, variable) in given.iter().enumerate() {
        let path = path.index(index);
        let (name, expression) = (text(variable, "name"), text(variable, "expression"));
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), "name is not specified"));
        } else if !names::is_identifier(name) {
            errors.push(Error::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
        }
        let compiled = composer.add(name, expression);
        if expression.trim().is_empty() {
            errors.push(Error::required(&path.child("expression"), "expression is not specified"));
        } else if let Err(error) = compiled {
            errors.push(Error::invalid(&path.child("expression"), expression, error.to_string()));
        }
    }
    (composer.finish().1, errors)
}

/// The group and version of a policy's parameters.
fn param_version(version: &str, path: &Path) -> Errors {
    if version.is_empty() {
        return vec![Error::required(path, "")];
    }
    if version.matches('/').count() > 1 {
        return vec![Error::invalid(path, version, format!("unexpected GroupVersion string: {version}"))];
    }
    let (group, number) = version.split_once('/').unwrap_or(("", version));
    let mut errors = Vec::new();
    let mut refuse = |value: &str, messages: &[String]| {
        if !messages.is_empty() {
            errors.push(Error::invalid(path, value, messages.join(",")));
        }
    };
    if !group.is_empty() {
        refuse(group, &names::subdomain(group));
    }
    if number.is_empty() {
        refuse(version, &["version must be specified".to_owned()]);
    } else {
        refuse(number, &names::label_1035(number));
    }
    errors
}

fn validation(validation: &Value, env: &Env, path: &Path) -> Errors {
    let mut errors = Errors::new();
    errors.extend(expression(validation, "expression", "expression is not specified", env, Wanted::Bool, path));
    let told = text(validation, "messageExpression");
    if !told.trim().is_empty() {
        errors.extend(expressions::problem(told, env, Wanted::Text, &path.child("messageExpression")));
    }
    let message = text(validation, "message");
    if has(validation, "message") && message.trim().is_empty() {
        errors.push(Error::invalid(&path.child("message"), message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
    }
    let known = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    if has(validation, "reason") && !known.contains(&text(validation, "reason")) {
        errors.push(Error::not_supported(&path.child("reason"), text(validation, "reason"), &known));
    }
    errors
}

fn match_resources(constraints: &Value, path: &Path) -> Errors {
    let mut errors = one_of_if_set(constraints, "matchPolicy", path, &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        errors.extend(labels::selector(constraints.get(field), &path.child(field)));
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(constraints, field).iter().enumerate() {
            let path = path.child(field).index(index);
            errors.extend(self::rule(rule, &path));
            let named = texts(rule, "resourceNames");
            for (at, name) in named.iter().enumerate() {
                let path = path.child("resourceNames").index(at);
                errors.extend(all_invalid(&path, name, names::path_segment(name)));
                if named[..at].contains(name) {
                    errors.push(Error::duplicate(&path, *name));
                }
            }
        }
    }
    errors
}

pub(super) fn binding(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let policy = text(spec, "policyName");
    if policy.is_empty() {
        errors.push(Error::required(&path.child("policyName"), ""));
    } else {
        errors.extend(all_invalid(&path.child("policyName"), policy, names::subdomain(policy)));
    }
    if let Some(reference) = spec.get("paramRef").filter(|reference| !reference.is_null()) {
        let path = path.child("paramRef");
        match (text(reference, "name").is_empty(), has(reference, "selector")) {
            (true, false) => errors.push(Error::required(&path, "one of name or selector must be specified")),
            (false, true) => {
                let both = ["name", "selector"];
                errors.extend(both.map(|field| Error::forbidden(&path.child(field), "name and selector are mutually exclusive")));
            }
            _ => {}
        }
        let action = text(reference, "parameterNotFoundAction");
        if action.is_empty() {
            errors.push(Error::required(&path.child("parameterNotFoundAction"), ""));
        } else if !["Allow", "Deny"].contains(&action) {
            errors.push(Error::not_supported(&path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]));
        }
    }
    if let Some(resources) = spec.get("matchResources").filter(|resources| !resources.is_null()) {
        errors.extend(match_resources(resources, &path.child("matchResources")));
    }
    let actions = texts(spec, "validationActions");
    let path = path.child("validationActions");
    if actions.is_empty() {
        errors.push(Error::required(&path, "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(Error::not_supported(&path.index(index), *action, &["Audit", "Deny", "Warn"]));
        }
        if actions[..index].contains(action) {
            errors.push(Error::duplicate(&path.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        errors.push(Error::invalid(&path, json!(actions), "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"));
    }
    errors
}
