//! The objects behind owned APIs, and whether a CSV may have them (OLM0-WEBHOOK-06).

use super::facts::{ApiServiceFacts, Facts};
use super::replace;
use crate::deployments::{secret_name, service_name};

/// A problem of one object of an owned API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResourceProblem {
    /// An object is not there.
    #[error("{kind} \"{name}\" not found")]
    Missing {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An APIService belongs to another CSV.
    #[error("{0} is unadoptable")]
    Unadoptable(String),
    /// An APIService leads to another Service.
    #[error("found APIService and service reference mismatch")]
    OtherService,
    /// An APIService has no authority.
    #[error("cert PEM empty")]
    NoAuthority,
    /// An object has another authority than the APIService.
    #[error("{kind} {name} CA cert hash does not match expected")]
    OtherAuthority {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

/// The problems of the objects of owned APIs, in Go's text of several errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(.0))]
pub(crate) struct ResourceProblems(Vec<ResourceProblem>);

impl ResourceProblems {
    /// Returns whether a reinstallation can mend them.
    pub fn is_actionable(&self) -> bool {
        !self.0.iter().any(|problem| matches!(problem, ResourceProblem::Unadoptable(_)))
    }
}

fn told(problems: &[ResourceProblem]) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for problem in problems.iter().map(ToString::to_string) {
        if !distinct.contains(&problem) {
            distinct.push(problem);
        }
    }
    if let [one] = distinct.as_slice() { one.clone() } else { format!("[{}]", distinct.join(", ")) }
}

/// Returns whether an APIService has no owner but the CSV, the one that it replaces, or one that goes.
pub(crate) fn is_adoptable(facts: &Facts<'_>, service: &ApiServiceFacts) -> bool {
    let (kind, namespace, name) = &service.owner;
    if kind != "ClusterServiceVersion" || namespace.is_empty() || name.is_empty() {
        return false;
    }
    let csv = facts.csv;
    let replaces = replace::replacing(csv, facts.siblings).is_some_and(|former| former.name() == name);
    service.owner_goes || (*namespace == csv.namespace && (name == csv.name() || replaces))
}

/// Checks the APIServices of a CSV: their Services, certificates and Deployments.
pub(crate) fn check(facts: &Facts<'_>) -> Result<(), ResourceProblems> {
    let mut problems = Vec::new();
    for entry in facts.csv.csv.object["spec"]["apiservicedefinitions"]["owned"].as_array().into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let name = format!("{}.{}", text("version"), text("group"));
        let Some(service) = facts.api_services.get(&name) else {
            problems.push(ResourceProblem::Missing { kind: "apiservice.apiregistration.k8s.io", name });
            continue;
        };
        if !is_adoptable(facts, service) {
            problems.push(ResourceProblem::Unadoptable(name));
            break;
        }
        problems.extend(behind(facts, service, text("deploymentName")).err());
    }
    if problems.is_empty() { Ok(()) } else { Err(ResourceProblems(problems)) }
}

fn behind(facts: &Facts<'_>, api: &ApiServiceFacts, deployment: &str) -> Result<(), ResourceProblem> {
    let missing = |kind: &'static str, name: &str| ResourceProblem::Missing { kind, name: name.to_owned() };
    let other = |kind: &'static str, name: &str| ResourceProblem::OtherAuthority { kind, name: name.to_owned() };
    let service = service_name(deployment);
    let secret = secret_name(&service);
    if !facts.services.contains(&service) {
        return Err(missing("service", &service));
    }
    if api.service != (facts.csv.namespace.clone(), service) {
        return Err(ResourceProblem::OtherService);
    }
    if api.bundle.is_empty() {
        return Err(ResourceProblem::NoAuthority);
    }
    let certificate = facts.certificates.get(deployment).ok_or_else(|| missing("secret", &secret))?;
    if certificate.authority.bundle != api.bundle || certificate.told_hash != certificate.authority.hash {
        return Err(other("secret", &secret));
    }
    let live = facts.deployments.get(deployment).ok_or_else(|| missing("deployment.apps", deployment))?;
    if live["spec"]["template"]["metadata"]["annotations"]["olmcahash"] != *certificate.authority.hash {
        return Err(other("deployment", deployment));
    }
    Ok(())
}
