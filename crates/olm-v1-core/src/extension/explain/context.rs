//! Facts that an explanation adds to the reason: packages of the catalogs, and the roles of the bundle.

use std::sync::Arc;

use mainstay_bundle::Bundle;
use mainstay_lifecycle::preflight::Report;
use mainstay_objects::ObjectRef;
use mainstay_rbac::{PolicyRule, parse_rules};
use serde_json::Value;

use super::super::facts::{CatalogContent, CatalogFact, Snapshot};
use super::super::plan::{Plan, rendered};

/// The packages of the catalogs that provide a kind, each with its catalog.
pub fn providers<'a>(catalogs: &'a [CatalogFact], target: &ObjectRef) -> Vec<(&'a str, &'a str)> {
    let version = target.api_version.rsplit('/').next().unwrap_or_default();
    let held = catalogs.iter().filter_map(|catalog| match &catalog.content {
        CatalogContent::Served(source) => Some((catalog.name.as_str(), source)),
        _ => None,
    });
    held.flat_map(|(catalog, source)| source.providers(target.group(), version, &target.kind).into_iter().map(move |name| (name, catalog)))
        .collect()
}

/// The bundle that a plan chose, if it was read.
pub fn chosen_bundle(snapshot: &Snapshot, plan: &Plan) -> Option<Arc<Bundle>> {
    let image = &plan.resolution.as_ref()?.choice.image;
    snapshot.known.bundles.get(image)?.as_ref().ok().cloned()
}

/// Returns true if the bundle's own roles grant some of the missing permissions.
pub(super) fn grants_missing(snapshot: &Snapshot, plan: &Plan, report: &Report) -> bool {
    let objects = chosen_bundle(snapshot, plan).and_then(|bundle| rendered(snapshot, &bundle).ok()).unwrap_or_default();
    grants(&objects).iter().any(|granted| report.missing.values().flatten().any(|rule| overlap(rule, granted)))
}

/// Rules of the roles among the objects.
fn grants(objects: &[Value]) -> Vec<PolicyRule> {
    let roles = objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    roles.filter_map(|role| parse_rules(role).ok()).flatten().collect()
}

/// Returns true if two rules have a verb and a resource in common.
fn overlap(one: &PolicyRule, other: &PolicyRule) -> bool {
    let common = |one: &[String], other: &[String]| one.iter().any(|word| other.contains(word));
    common(&one.verbs, &other.verbs) && common(&one.api_groups, &other.api_groups) && common(&one.resources, &other.resources)
}
