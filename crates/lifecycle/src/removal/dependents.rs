//! Others that depend on a removed subject: its package, its APIs, its custom resources.

use std::sync::Arc;

use serde_json::Value;

use super::{Dependent, Facts, is_crd, text};
use crate::object;
use crate::revision::Record;

/// Returns the others of this `kind` that need it, according to the catalogs or, for others that these do not cover, to the installed bundles
/// themselves.
pub fn needed_by(kind: &str, objects: &[Value], package: &str, others: &[(String, Arc<Record>)], dependents: &[Dependent]) -> Vec<String> {
    let kind = kind.to_lowercase();
    let crds: Vec<&Value> = objects.iter().filter(|object| is_crd(object)).collect();
    let told = |each: &Dependent| each.needs.iter().map(|need| format!("{kind} {}: {need}", each.name)).collect::<Vec<_>>();
    let mut lines: Vec<String> = dependents.iter().flat_map(told).collect();
    for (name, record) in others.iter().filter(|(name, _)| !dependents.iter().any(|each| each.name == *name)) {
        let needs = needs(record, package, &crds);
        lines.extend(needs.into_iter().map(|what| format!("{kind} {name}: {} requires {what}", record.bundle.name)));
    }
    lines
}

/// Returns the others that use its APIs: subjects whose operators may access the custom resources, and webhooks.
pub(super) fn users(crds: &[&Value], facts: &Facts<'_>) -> Vec<String> {
    let kind = facts.kind;
    let mut users = Vec::new();
    for (name, record) in facts.others {
        if needs(record, facts.package, crds).is_empty() {
            for crd in crds.iter().filter(|crd| record.objects.iter().any(|object| may_touch(object, crd))) {
                users.push(format!(
                    "{kind} {name} ({}): its operator may read or write {}",
                    record.bundle.name,
                    text(&crd["metadata"]["name"])
                ));
            }
        }
    }
    for configuration in facts.webhooks {
        let target = object::place(configuration);
        if facts.objects.iter().any(|own| object::place(&own.object).same(&target)) {
            continue;
        }
        for crd in crds.iter().filter(|crd| calls_for(configuration, crd)) {
            users.push(format!("{target}: is called for {}", text(&crd["metadata"]["name"])));
        }
    }
    users
}

/// Returns the dependencies on this package and these APIs that a bundle declares.
fn needs(record: &Record, package: &str, crds: &[&Value]) -> Vec<String> {
    let properties: Vec<Value> =
        record.annotations.get("olm.properties").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut needs = Vec::new();
    for property in &properties {
        let value = &property["value"];
        match text(&property["type"]) {
            "olm.package.required" if value["packageName"] == package => {
                needs.push(format!("package {package} {}", text(&value["versionRange"])));
            }
            "olm.gvk.required"
                if crds.iter().any(|crd| crd["spec"]["group"] == value["group"] && crd["spec"]["names"]["kind"] == value["kind"]) =>
            {
                needs.push(format!("{}/{} {}", text(&value["group"]), text(&value["version"]), text(&value["kind"])));
            }
            _ => {}
        }
    }
    needs
}

/// Returns true if a role names a CRD's resource. A rule for all API groups does not show which CRD is needed, and does not count.
fn may_touch(role: &Value, crd: &Value) -> bool {
    let names = |list: &Value, wanted: &Value, any: bool| {
        list.as_array().is_some_and(|all| all.iter().any(|each| each == wanted || any && each == "*"))
    };
    matches!(text(&role["kind"]), "Role" | "ClusterRole")
        && role["rules"].as_array().is_some_and(|rules| {
            rules.iter().any(|rule| {
                names(&rule["apiGroups"], &crd["spec"]["group"], false) && names(&rule["resources"], &crd["spec"]["names"]["plural"], true)
            })
        })
}

fn calls_for(configuration: &Value, crd: &Value) -> bool {
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let mut rules = webhooks.flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
    let names = |list: &Value, wanted: &Value| list.as_array().is_some_and(|all| all.contains(wanted));
    rules.any(|rule| names(&rule["apiGroups"], &crd["spec"]["group"]))
}
