//! Permissions gained and lost, in words.

use std::collections::BTreeSet;

use mainstay_rbac::{PolicyRule, compact, covers, parse_rules};
use serde_json::{Value, json};

use super::{Change, Section, Sort};
use crate::bundle::Bundle;
use crate::csv::Permissions;

pub(super) fn changes(old: &Bundle, new: &Bundle) -> Vec<Change> {
    let mut changes = Vec::new();
    for (scope, before, after) in [
        ("in all namespaces", &old.csv.cluster_permissions, &new.csv.cluster_permissions),
        ("in watched namespaces", &old.csv.permissions, &new.csv.permissions),
    ] {
        let accounts: BTreeSet<&str> = before.iter().chain(after).map(|entry| entry.service_account.as_str()).collect();
        for account in accounts {
            let (had, has) = (rules(before, account), rules(after, account));
            let shown = if account.is_empty() { "default" } else { account };
            for (sort, rules) in [(Sort::Added, covers(&had, &has)), (Sort::Removed, covers(&has, &had))] {
                for rule in compact(&rules) {
                    let value = Some(rule_json(&rule));
                    let (lost, gained) = if sort == Sort::Added { (None, value) } else { (value, None) };
                    let change =
                        Change::new(Section::Permissions, sort, format!("account {shown}"), format!("{} {scope}", rule_in_words(&rule)));
                    changes.push(change.values(lost, gained));
                }
            }
        }
    }
    changes
}

/// The rules of an account; anything that is not a rule was refused when the CSV was read.
fn rules(permissions: &[Permissions], account: &str) -> Vec<PolicyRule> {
    let of = permissions.iter().filter(|entry| entry.service_account == account);
    of.flat_map(|entry| parse_rules(&entry.entry).unwrap_or_default()).collect()
}

fn rule_json(rule: &PolicyRule) -> Value {
    json!({
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
        "nonResourceURLs": rule.non_resource_urls,
    })
}

/// A rule in words: `get, list pods and services`, `anything with secrets (only a, b)`.
pub fn rule_in_words(rule: &PolicyRule) -> String {
    let verbs = if rule.verbs.iter().any(|verb| verb == "*") { "anything with".to_owned() } else { rule.verbs.join(", ") };
    if !rule.non_resource_urls.is_empty() {
        return format!("{verbs} {}", rule.non_resource_urls.join(", "));
    }
    let named = |resource: &String| match (resource.as_str(), rule.api_groups.first().map(String::as_str)) {
        ("*", Some("*")) => "everything".to_owned(),
        ("*", Some("")) => "every core resource".to_owned(),
        ("*", Some(group)) => format!("everything of {group}"),
        (resource, Some("*")) => format!("{resource} of any group"),
        (resource, Some(group)) if !group.is_empty() => crate::words::qualified(resource, group),
        (resource, _) => resource.to_owned(),
    };
    let resources: Vec<String> = rule.resources.iter().map(named).collect();
    let only = if rule.resource_names.is_empty() { String::new() } else { format!(" (only {})", rule.resource_names.join(", ")) };
    format!("{verbs} {}{only}", resources.join(", "))
}
