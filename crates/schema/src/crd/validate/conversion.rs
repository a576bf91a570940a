//! `spec.conversion`. Kubernetes names its fields here as its internal type does: `webhookClientConfig`, `conversionReviewVersions`.

use serde_json::Value;

use super::{list, one_of, text};
use crate::field::{Error, Path};
use crate::names;

pub(super) fn validate(conversion: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !conversion.is_object() {
        return;
    }
    one_of(&conversion["strategy"], &["None", "Webhook"], &path.child("strategy"), errors);
    let webhook = &conversion["webhook"];
    let client = &webhook["clientConfig"];
    let client_path = path.child("webhookClientConfig");
    let versions = list(webhook, "conversionReviewVersions");
    let versions_path = path.child("conversionReviewVersions");
    if conversion["strategy"] != "Webhook" {
        let words = "should not be set when strategy is not set to Webhook";
        if client.is_object() {
            errors.push(Error::forbidden(&client_path, words));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(&versions_path, words));
        }
        return;
    }
    if client.is_object() {
        match (client["url"].as_str(), client["service"].is_object()) {
            (Some(address), false) => url(address, &client_path.child("url"), errors),
            (None, true) => service(&client["service"], &client_path.child("service"), errors),
            _ => errors.push(Error::required(&client_path, "exactly one of url or service is required")),
        }
    } else {
        errors.push(Error::required(&client_path, "required when strategy is set to Webhook"));
    }
    if versions.is_empty() {
        errors.push(Error::required(&versions_path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let version_path = versions_path.index(index);
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&version_path, version, "duplicate version"));
            continue;
        }
        for wrong in names::dns1035_label(version.as_str().unwrap_or_default()) {
            errors.push(Error::invalid(&version_path, version, wrong));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(Error::invalid(&versions_path, Value::from(versions), "must include at least one of v1, v1beta1"));
    }
}

fn url(address: &str, path: &Path, errors: &mut Vec<Error>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = address.split_once(':').unwrap_or(("", address));
    if scheme != "https" {
        errors.push(Error::invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    let rest = rest.strip_prefix("//").unwrap_or_default();
    let (before_fragment, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (before_query, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
    let authority = before_query.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(Error::invalid(path, host, format!("host must be specified{FORM}")));
    }
    if !user.is_empty() {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(Error::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(Error::invalid(path, query, "query parameters are not permitted in the URL"));
    }
}

fn service(service: &Value, path: &Path, errors: &mut Vec<Error>) {
    for key in ["name", "namespace"] {
        if text(service, key).is_empty() {
            errors.push(Error::required(&path.child(key), format!("service {key} is required")));
        }
    }
    if let Some(port) = service["port"].as_i64().filter(|port| !(1..=65535).contains(port)) {
        errors.push(Error::invalid(&path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive"));
    }
    let Some(location) = service["path"].as_str() else {
        return;
    };
    let field = path.child("path");
    if !location.starts_with('/') {
        errors.push(Error::invalid(&field, location, "must start with a '/'"));
    }
    if location == "/" {
        return;
    }
    let steps: Vec<&str> = location.strip_prefix('/').unwrap_or(location).split('/').collect();
    for (index, step) in steps.iter().enumerate() {
        if step.is_empty() && index + 1 < steps.len() {
            errors.push(Error::invalid(&field, location, format!("segment[{index}] may not be empty")));
        } else if !step.is_empty() {
            for wrong in names::dns1123_subdomain(step) {
                errors.push(Error::invalid(&field, location, format!("segment[{index}]: {wrong}")));
            }
        }
    }
}
