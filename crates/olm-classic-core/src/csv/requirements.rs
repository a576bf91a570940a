//! Requirements of a CSV, with upstream's statuses and words (OLM0-CSV-08, OLM0-CSV-09).

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_versions::Version;
use serde_json::{Value, json};

use super::permission_checks::{UncheckedPermissions, statuses};
use super::{Facts, Member};
use crate::api::Api;

/// Why requirements cannot be checked, which is a fault of the install strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidStrategy {
    /// The CSV cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The strategy is none that there is.
    #[error("unrecognized install strategy")]
    Unrecognized,
    /// A rule of its permissions is none.
    #[error("{0}")]
    Permissions(UncheckedPermissions),
}

/// Checks that the strategy of a CSV can be read.
pub(crate) fn strategy(csv: &Member) -> Result<(), InvalidStrategy> {
    if let Some(problem) = &csv.problem {
        return Err(InvalidStrategy::Unreadable(problem.to_string()));
    }
    if csv.csv.object["spec"]["install"]["strategy"] != "deployment" {
        return Err(InvalidStrategy::Unrecognized);
    }
    Ok(())
}

/// Returns true if all requirements are met, and their statuses in upstream's order; accounts come by name.
pub(crate) fn check(facts: &Facts<'_>) -> Result<(bool, Vec<Value>), InvalidStrategy> {
    strategy(facts.csv)?;
    let mut checked = Checked { met: true, statuses: Vec::new() };
    checked.version(facts);
    checked.definitions(facts);
    checked.api_services(facts);
    for entry in facts.csv.csv.object["spec"]["nativeAPIs"].as_array().into_iter().flatten() {
        checked.native(facts, entry);
    }
    let (allowed, accounts) = statuses(facts.csv, facts.permissions).map_err(InvalidStrategy::Permissions)?;
    checked.statuses.extend(accounts);
    Ok((checked.met && allowed, checked.statuses))
}

struct Checked {
    met: bool,
    statuses: Vec<Value>,
}

impl Checked {
    /// Adds a status; `met` are the statuses that say so.
    fn add(&mut self, id: (&str, &str, &str, &str), status: &str, message: &str, uuid: &str) {
        let (group, version, kind, name) = id;
        self.met &= matches!(status, "Present" | "DeploymentFound");
        let mut entry = json!({"group": group, "version": version, "kind": kind, "name": name, "status": status, "message": message});
        if !uuid.is_empty() {
            entry["uuid"] = json!(uuid);
        }
        self.statuses.push(entry);
    }

    fn version(&mut self, facts: &Facts<'_>) {
        let wanted = &facts.csv.csv.min_kube_version;
        if wanted.is_empty() {
            return;
        }
        let id = ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", facts.csv.name());
        let told = facts.server_version;
        let plain = told.trim_start_matches('v').split('-').next().unwrap_or_default();
        let Ok(server) = Version::parse(plain) else {
            return self.add(id, "PresentNotSatisfied", "Server version parsing error", "");
        };
        let Ok(least) = Version::parse(wanted.trim_start_matches('v')) else {
            return self.add(id, "PresentNotSatisfied", "CSV version parsing error", "");
        };
        if least.cmp_precedence(&server).is_gt() {
            let message = format!("CSV version requirement not met: minKubeVersion ({wanted}) > server version ({server})");
            return self.add(id, "PresentNotSatisfied", &message, "");
        }
        self.add(id, "Present", &format!("CSV minKubeVersion ({wanted}) less than server version ({told})"), "");
    }

    fn definitions(&mut self, facts: &Facts<'_>) {
        let csv = &facts.csv.csv;
        let owned = csv.owned_crds.iter().map(|crd| (crd, true));
        let mut all = BTreeMap::new();
        // A CRD that is listed twice is checked once; an owned entry goes before a required one.
        for (crd, is_owned) in owned.chain(csv.required_crds.iter().map(|crd| (crd, false))) {
            all.entry((&crd.name, &crd.version)).or_insert((crd, is_owned));
        }
        for (crd, is_owned) in all.into_values() {
            let id = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd.name.as_str());
            let Some(definition) = facts.definitions.get(&crd.name) else {
                self.add(id, "NotPresent", "CRD is not present", "");
                continue;
            };
            let others = installed_alongside(&definition.alongside, facts.csv, facts.siblings);
            if is_owned && !others.is_empty() {
                let message = format!("CRD installed alongside other CSV(s): {}", others.join(", "));
                self.add(id, "PresentNotSatisfied", &message, "");
            } else if !definition.served.contains(&crd.version) {
                self.add(id, "NotPresent", "CRD version not served", "");
            } else if definition.is_established {
                self.add(id, "Present", "CRD is present and Established condition is true", &definition.uid);
            } else {
                let message = "CRD is present but the Established condition is False (not available)";
                self.add(id, "PresentNotAvailable", message, "");
            }
        }
    }

    fn api_services(&mut self, facts: &Facts<'_>) {
        const KIND: (&str, &str, &str) = ("apiregistration.k8s.io", "v1", "APIService");
        let csv = &facts.csv.csv;
        for api in &csv.required_api_services {
            let name = format!("{}.{}", api.version, api.group);
            let is_served = facts.served.contains(&Api { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() });
            let found = facts.api_services.get(&name).filter(|service| is_served && service.is_available);
            let status = if found.is_some() { "Present" } else { "NotPresent" };
            self.add((KIND.0, KIND.1, KIND.2, &name), status, "", found.map_or("", |service| &service.uid));
        }
        for entry in csv.object["spec"]["apiservicedefinitions"]["owned"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let name = format!("{}.{}", text("version"), text("group"));
            let found = csv.deployments.iter().any(|deployment| deployment.name == text("deploymentName"));
            self.add((KIND.0, KIND.1, KIND.2, &name), if found { "DeploymentFound" } else { "DeploymentNotFound" }, "", "");
        }
    }

    fn native(&mut self, facts: &Facts<'_>, entry: &Value) {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let (group, version, kind) = (text("group"), text("version"), text("kind"));
        let api = Api { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() };
        let (status, message) =
            if facts.served.contains(&api) { ("Present", "Native API exists") } else { ("NotPresent", "Native API does not exist") };
        self.add((group, version, kind, &format!("{version}.{group}")), status, message, "");
    }
}

/// The predecessors of a CSV with which a CRD came, if it did not come with the CSV itself.
fn installed_alongside(alongside: &[(String, String)], csv: &Member, siblings: &[Arc<Member>]) -> Vec<String> {
    let mut names: BTreeMap<&str, &Member> = BTreeMap::new();
    for (_, name) in alongside.iter().filter(|(namespace, _)| *namespace == csv.namespace) {
        if name == csv.name() {
            return Vec::new();
        }
        if let Some(found) = siblings.iter().find(|other| other.name() == name && !other.is_copied()) {
            names.insert(found.name(), found);
        }
    }
    let mut ancestors = Vec::new();
    let mut current = csv.csv.replaces.as_str();
    while let Some(found) = names.remove(current) {
        ancestors.push(found.name().to_owned());
        current = &found.csv.replaces;
    }
    ancestors
}
