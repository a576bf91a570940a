//! Roles and bindings.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, labels, list, names, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn rbac(kind: &str, object: &Value) -> Errors {
    match kind {
        "Role" => rules(object, true),
        "ClusterRole" => {
            let mut errors = rules(object, false);
            errors.extend(aggregation(object));
            errors
        }
        "RoleBinding" | "ClusterRoleBinding" => binding(kind, object),
        _ => Vec::new(),
    }
}

fn rules(object: &Value, namespaced: bool) -> Errors {
    let mut errors = Vec::new();
    for (index, rule) in list(object, "rules").iter().enumerate() {
        let path = Path::new("rules").index(index);
        if list(rule, "verbs").is_empty() {
            errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
        }
        if list(rule, "nonResourceURLs").is_empty() {
            if list(rule, "apiGroups").is_empty() {
                errors.push(Error::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
            }
            if list(rule, "resources").is_empty() {
                errors.push(Error::required(&path.child("resources"), "resource rules must supply at least one resource"));
            }
            continue;
        }
        if namespaced {
            let words = "namespaced rules cannot apply to non-resource URLs";
            errors.push(Error::invalid(&path.child("nonResourceURLs"), rule.get("nonResourceURLs"), words));
        }
        if !list(rule, "apiGroups").is_empty() || !list(rule, "resources").is_empty() || !list(rule, "resourceNames").is_empty() {
            let words = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(Error::invalid(&path.child("nonResourceURLs"), rule.get("nonResourceURLs"), words));
        }
    }
    errors
}

fn aggregation(object: &Value) -> Errors {
    let Some(rule) = object.get("aggregationRule").filter(|rule| !rule.is_null()) else { return Vec::new() };
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        return vec![Error::required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil")];
    }
    let mut errors = Vec::new();
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        errors.extend(labels::selector(Some(selector), &path));
        if !labels::is_valid(selector) {
            errors.push(Error::invalid(&path, Value::Null, "invalid label selector."));
        }
    }
    errors
}

fn binding(kind: &str, object: &Value) -> Errors {
    let role = object.get("roleRef").unwrap_or(&Value::Null);
    let path = Path::new("roleRef");
    let mut errors = Vec::new();
    let group = text(role, "apiGroup");
    if group != GROUP {
        errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
    }
    let known: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let role_kind = text(role, "kind");
    if !known.contains(&role_kind) {
        errors.push(Error::not_supported(&path.child("kind"), role_kind, known));
    }
    let name = text(role, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    } else {
        errors.extend(all_invalid(&path.child("name"), name, names::path_segment(name)));
    }
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        errors.extend(self::subject(subject, kind == "RoleBinding", &Path::new("subjects").index(index)));
    }
    errors
}

fn subject(subject: &Value, namespaced: bool, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let name = text(subject, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(all_invalid(&path.child("name"), name, names::subdomain(name)));
            }
            if !group.is_empty() {
                errors.push(Error::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
            }
        }
        other => errors.push(Error::not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"])),
    }
    errors
}

pub(super) fn role_ref_is_immutable(new: &Value, old: &Value) -> Errors {
    if new.get("roleRef") == old.get("roleRef") {
        return Vec::new();
    }
    let role = new.get("roleRef").unwrap_or(&Value::Null);
    let shown = format!(
        "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
        json!(text(role, "apiGroup")),
        json!(text(role, "kind")),
        json!(text(role, "name"))
    );
    vec![Error::invalid(&Path::new("roleRef"), mainstay_schema::field::BadValue::Json(shown), "cannot change roleRef")]
}
