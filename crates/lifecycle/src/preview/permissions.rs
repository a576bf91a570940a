//! Permissions that the content's accounts gain and lose, as rules in words.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_bundle::diff::rule_in_words;
use mainstay_rbac::{PolicyRule, compact, covers, parse_rules};
use serde_json::Value;

/// The holder of permissions, and their scope: `service account work/widgets`, `in all namespaces`.
type Holder = (String, String);

/// The permissions of a holder: rules, and roles that the objects refer to and do not contain.
#[derive(Default)]
struct Granted {
    rules: Vec<PolicyRule>,
    elsewhere: BTreeSet<String>,
}

/// Returns the permissions gained and lost between two lists of objects.
pub fn delta(before: &[Value], after: &[Value]) -> (Vec<String>, Vec<String>) {
    let (had, has) = (granted(before), granted(after));
    (beyond(&had, &has), beyond(&has, &had))
}

/// Returns the permissions that `after` has beyond `before`, in words.
fn beyond(before: &BTreeMap<Holder, Granted>, after: &BTreeMap<Holder, Granted>) -> Vec<String> {
    let mut lines = Vec::new();
    let nothing = Granted::default();
    for (holder, has) in after {
        let had = before.get(holder).unwrap_or(&nothing);
        let (who, place) = holder;
        let said = compact(&covers(&had.rules, &has.rules));
        lines.extend(said.iter().map(|rule| format!("{who}: {} {place}", rule_in_words(rule))));
        let roles = has.elsewhere.difference(&had.elsewhere);
        lines.extend(roles.map(|role| format!("{who}: whatever {role} allows {place}")));
    }
    lines
}

fn granted(objects: &[Value]) -> BTreeMap<Holder, Granted> {
    let mut all: BTreeMap<Holder, Granted> = BTreeMap::new();
    for binding in objects.iter().filter(|object| matches!(text(object, "/kind"), "RoleBinding" | "ClusterRoleBinding")) {
        let namespace = text(binding, "/metadata/namespace");
        let place = if namespace.is_empty() { "in all namespaces".to_owned() } else { format!("in namespace {namespace}") };
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let role = objects.iter().find(|role| {
            text(role, "/kind") == kind
                && text(role, "/metadata/name") == name
                && (kind == "ClusterRole" || text(role, "/metadata/namespace") == namespace)
        });
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let held = all.entry((who(subject, namespace), place.clone())).or_default();
            match role.map(parse_rules) {
                Some(Ok(rules)) => held.rules.extend(rules),
                // A role that cannot be read is at least named.
                Some(Err(_)) | None => {
                    held.elsewhere.insert(format!("{} {name}", kind.to_lowercase()));
                }
            }
        }
    }
    for role in objects.iter().filter(|object| text(object, "/kind") == "ClusterRole") {
        for (label, group) in
            [("admin", "administrators of a namespace"), ("edit", "editors of a namespace"), ("view", "viewers of a namespace")]
        {
            if role
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(format!("rbac.authorization.k8s.io/aggregate-to-{label}")))
                .is_some_and(|on| on == "true")
                && let Ok(rules) = parse_rules(role)
            {
                all.entry((group.to_owned(), "there".to_owned())).or_default().rules.extend(rules);
            }
        }
    }
    all
}

fn who(subject: &Value, namespace: &str) -> String {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => {
            let own = text(subject, "/namespace");
            format!("service account {}/{name}", if own.is_empty() { namespace } else { own })
        }
        kind => format!("{} {name}", kind.to_lowercase()),
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
