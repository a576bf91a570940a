//! The validator `dependencies`: dependencies as their guidance wants them (OLM0-RES-30, OLM0-RES-31). Upstream has none of this kind.
//!
//! Which package provides an API only a catalog knows; `mainstay catalog lint` has the rules about that.

use std::collections::BTreeSet;

use mainstay_golang::quote;
use mainstay_versions::CatalogRange;
use serde_json::Value;

use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{format, rules};

/// The verbs with which an operator makes objects of an API; one that only reads them mostly works without.
const WRITES: [&str; 4] = ["create", "update", "patch", "*"];

/// Maximum nesting depth of constraints that is looked at.
const MAX_DEPTH: usize = 32;

pub(super) fn validate(manifests: &Manifests) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let (file, document) = format::dependencies(manifests).unwrap_or(("metadata/dependencies.yaml", Value::Null));
    let entries = document["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut findings = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("dependencies[{index}].value");
        let warn = |rule, path: String, detail: String| Finding::warning(rule, &csv.csv.name, detail).at(file, path);
        match entry["type"].as_str() {
            Some("olm.package") => {
                findings.extend(narrow(&entry["value"]).map(|(field, detail)| {
                    let path = format!("{path}.{field}");
                    warn(&rules::DEPENDENCY_RANGE, path, detail)
                }));
            }
            Some("olm.constraint") => {
                let mut packages = Vec::new();
                joined(&entry["value"], &path, 0, &mut packages);
                for (path, package) in &packages {
                    findings
                        .extend(narrow(package).map(|(field, detail)| warn(&rules::DEPENDENCY_RANGE, format!("{path}.{field}"), detail)));
                }
                let names: BTreeSet<&str> = packages.iter().map(|(_, package)| name_of(package)).collect();
                if names.len() > 1 {
                    let names: Vec<&str> = names.into_iter().collect();
                    let detail = format!("an all constraint asks one bundle to belong to the packages {}", names.join(" and "));
                    findings.push(warn(&rules::DEPENDENCY_PACKAGES, path, detail));
                }
            }
            _ => {}
        }
    }
    // A dependency on a package, or on what a rule decides, may be the one that brings an API.
    let open = entries.iter().any(|entry| entry["type"] != "olm.gvk");
    if !open {
        findings.extend(undeclared(csv, entries));
    }
    findings
}

/// A package of a constraint, and its path.
type AtPath<'a> = (String, &'a Value);

/// The packages that a constraint asks one bundle to be of.
fn joined<'a>(constraint: &'a Value, path: &str, depth: usize, packages: &mut Vec<AtPath<'a>>) {
    if depth > MAX_DEPTH {
        return;
    }
    if constraint["package"].is_object() {
        packages.push((format!("{path}.package"), &constraint["package"]));
    }
    for (index, inner) in constraint["all"]["constraints"].as_array().into_iter().flatten().enumerate() {
        joined(inner, &format!("{path}.all.constraints[{index}]"), depth + 1, packages);
    }
}

fn name_of(package: &Value) -> &str {
    package["packageName"].as_str().or_else(|| package["name"].as_str()).unwrap_or_default()
}

/// The field of a range that ends inside of a major version, and what that means.
fn narrow(package: &Value) -> Option<(&'static str, String)> {
    let (field, range) = ["versionRange", "version"].into_iter().find_map(|field| Some((field, package[field].as_str()?)))?;
    // The validator `format` refuses a range that cannot be read.
    let parsed = CatalogRange::parse(range).ok()?;
    let end = parsed.narrow_end()?;
    let detail =
        format!("needs package {} {}, which ends at {end}, inside of major version {}", name_of(package), quote(range), end.major());
    Some((field, detail))
}

/// API groups whose objects the operator writes, and that neither the platform, nor the bundle, nor a dependency brings.
fn undeclared(csv: &CsvManifest, entries: &[Value]) -> Vec<Finding> {
    let declared = |group: &str| {
        let owned_crds = csv.csv.owned_crds.iter().chain(&csv.csv.required_crds);
        let services = csv.csv.owned_api_services.iter().chain(&csv.csv.required_api_services);
        owned_crds.filter_map(|crd| crd.name.split_once('.')).any(|(_, of)| of == group)
            || services.into_iter().any(|service| service.group == group)
            || entries.iter().any(|entry| entry["value"]["group"] == group)
    };
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (field, permissions) in [("permissions", &csv.csv.permissions), ("clusterPermissions", &csv.csv.cluster_permissions)] {
        for (index, permission) in permissions.iter().enumerate() {
            for (inner, rule) in permission.entry["rules"].as_array().into_iter().flatten().enumerate() {
                let texts = |key: &str| rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                if !texts("verbs").any(|verb| WRITES.contains(&verb)) {
                    continue;
                }
                for (position, group) in texts("apiGroups").enumerate() {
                    if is_platform(group) || declared(group) || !seen.insert(group) {
                        continue;
                    }
                    let resources: Vec<&str> = texts("resources").collect();
                    let detail = format!("writes {} of API group {group}, which no dependency names", resources.join(", "));
                    let path = format!("spec.install.spec.{field}[{index}].rules[{inner}].apiGroups[{position}]");
                    findings.push(Finding::warning(&rules::DEPENDENCY_API, &csv.csv.name, detail).at(&csv.file, path));
                }
            }
        }
    }
    findings
}

/// Returns whether a cluster, or OLM, serves the group anyhow.
fn is_platform(group: &str) -> bool {
    !group.contains('.')
        || group == "*"
        || group.ends_with(".k8s.io")
        || group.ends_with(".openshift.io")
        || group == "operators.coreos.com"
}
