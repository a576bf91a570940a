//! The validator of optional objects: disruption budgets, priority classes, and permissions that endanger a cluster.

use serde_json::Value;

use super::finding::Finding;
use super::manifests::{Manifest, Manifests};
use super::rules;

const DEFAULT_CONSTRAINTS: [&str; 8] =
    ["privileged", "restricted", "anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot"];

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    manifests.objects.iter().flat_map(check).collect()
}

pub(super) fn check(manifest: &Manifest) -> Vec<Finding> {
    match manifest.kind() {
        "PodDisruptionBudget" => budget(manifest),
        "PriorityClass" => priority_class(manifest),
        "Role" | "ClusterRole" => permissions(manifest),
        _ => Vec::new(),
    }
}

/// The object in short; upstream prints the memory of its struct.
fn shown(manifest: &Manifest) -> String {
    format!("{} {}", manifest.kind(), manifest.name())
}

fn budget(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut refuse = |detail: &str, field: &str| {
        let finding = Finding::error(&rules::OBJECT_BUDGET, shown(manifest), detail);
        findings.push(finding.at(&manifest.file, format!("spec.{field}")));
    };
    let spec = &manifest.object["spec"];
    // A text counts as the number 0, so that upstream refuses every percentage.
    let none = match &spec["maxUnavailable"] {
        Value::Null => false,
        Value::Number(number) => number.as_i64() == Some(0),
        _ => true,
    };
    if none {
        refuse("maxUnavailable field cannot be set to 0 or 0%", "maxUnavailable");
    }
    if spec["minAvailable"] == "100%" {
        refuse("minAvailable field cannot be set to 100%", "minAvailable");
    }
    findings
}

fn priority_class(manifest: &Manifest) -> Vec<Finding> {
    if manifest.object["globalDefault"] != true {
        return Vec::new();
    }
    let finding = Finding::error(&rules::OBJECT_PRIORITY, shown(manifest), "globalDefault field cannot be set to true");
    vec![finding.at(&manifest.file, "globalDefault")]
}

fn permissions(manifest: &Manifest) -> Vec<Finding> {
    let entries = match &manifest.object["rules"] {
        Value::Null => return Vec::new(),
        Value::Array(rules) => rules,
        _ => {
            let what = manifest.kind().to_lowercase();
            let finding = Finding::error(&rules::OBJECT_TYPES, "rules: expected a list", format!("error unmarshaling {what}"));
            return vec![finding.at(&manifest.file, "rules")];
        }
    };
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).any(|item| wanted.contains(&item))
    };
    let mut findings = Vec::new();
    for (index, rule) in entries.iter().enumerate() {
        if has(rule, "apiGroups", &["policy"])
            && has(rule, "resources", &["poddisruptionbudgets"])
            && has(rule, "verbs", &["*", "create", "update", "patch"])
        {
            let detail = "RBAC includes permission to create/update poddisruptionbudgets, which could impact cluster stability";
            let finding = Finding::warning(&rules::OBJECT_BUDGET_RIGHT, policy_rule(rule), detail);
            findings.push(finding.at(&manifest.file, format!("rules[{index}]")));
        }
    }
    for (index, rule) in entries.iter().enumerate() {
        if has(rule, "apiGroups", &["security.openshift.io"])
            && has(rule, "resources", &["securitycontextconstraints"])
            && has(rule, "verbs", &["*", "delete", "update", "patch"])
            && has(rule, "resourceNames", &DEFAULT_CONSTRAINTS)
        {
            let detail = "RBAC includes permission to modify default securitycontextconstraints, which could impact cluster stability";
            let finding = Finding::error(&rules::OBJECT_CONSTRAINTS, policy_rule(rule), detail);
            findings.push(finding.at(&manifest.file, format!("rules[{index}]")));
        }
    }
    findings
}

/// A rule as Go prints the struct.
fn policy_rule(rule: &Value) -> String {
    let list = |key: &str| {
        let items: Vec<&str> = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("[{}]", items.join(" "))
    };
    format!("{{{}}}", ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"].map(list).join(" "))
}
