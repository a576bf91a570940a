//! The objects behind owned APIs, and whether a CSV may have them (OLM0-WEBHOOK-06).

use super::facts::{ApiServiceFacts, Facts};
use super::replace;
use crate::deployments::{secret_name, service_name};

/// What is wrong with the objects of owned APIs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", told(problems))]
pub(crate) struct ResourceProblems {
    problems: Vec<String>,
    /// True if a reinstallation can mend it.
    pub is_actionable: bool,
}

/// Go's text of several errors.
fn told(problems: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for problem in problems {
        if !distinct.contains(&problem.as_str()) {
            distinct.push(problem);
        }
    }
    if let [one] = distinct[..] { one.to_owned() } else { format!("[{}]", distinct.join(", ")) }
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
            problems.push(format!("apiservice.apiregistration.k8s.io \"{name}\" not found"));
            continue;
        };
        if !is_adoptable(facts, service) {
            problems.push(format!("{name} is unadoptable"));
            return Err(ResourceProblems { problems, is_actionable: false });
        }
        problems.extend(behind(facts, service, text("deploymentName")).err());
    }
    if problems.is_empty() { Ok(()) } else { Err(ResourceProblems { problems, is_actionable: true }) }
}

fn behind(facts: &Facts<'_>, api: &ApiServiceFacts, deployment: &str) -> Result<(), String> {
    let service = service_name(deployment);
    let secret = secret_name(&service);
    if !facts.services.contains(&service) {
        return Err(format!("service \"{service}\" not found"));
    }
    if api.service != (facts.csv.namespace.clone(), service) {
        return Err("found APIService and service reference mismatch".to_owned());
    }
    if api.bundle.is_empty() {
        return Err("cert PEM empty".to_owned());
    }
    let certificate = facts.certificates.get(deployment).ok_or_else(|| format!("secret \"{secret}\" not found"))?;
    if certificate.authority.bundle != api.bundle || certificate.told_hash != certificate.authority.hash {
        return Err(format!("secret {secret} CA cert hash does not match expected"));
    }
    let live = facts.deployments.get(deployment).ok_or_else(|| format!("deployment.apps \"{deployment}\" not found"))?;
    if live["spec"]["template"]["metadata"]["annotations"]["olmcahash"] != *certificate.authority.hash {
        return Err(format!("deployment {deployment} CA cert hash does not match expected"));
    }
    Ok(())
}
