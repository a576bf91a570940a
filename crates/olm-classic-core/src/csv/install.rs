//! The objects of an installation (OLM0-CSV-11 to OLM0-CSV-14, OLM0-WEBHOOK).

use std::collections::BTreeSet;

use serde_json::Value;

use super::Facts;
use crate::deployments::{Authority, Strategy, StrategyError, Write};

/// Everything that an installation writes, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Install {
    /// Services, Secrets, roles and bindings of the certificates.
    pub before: Vec<Write>,
    /// The Deployments.
    pub deployments: Vec<Value>,
    /// APIServices, webhook configurations and conversions of CRDs.
    pub after: Vec<Write>,
    /// Deployments that the CSV owns and does not list.
    pub orphans: Vec<String>,
    /// Webhook configurations that the CSV owns and does not list, as resource and name.
    pub stale_webhooks: Vec<(&'static str, String)>,
}

/// Why an installation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Another attempt may succeed.
    #[error("{0}")]
    Failed(String),
    /// The account of the OperatorGroup lacks permissions; another attempt needs a change of the cluster.
    #[error("install strategy failed: {0}")]
    Forbidden(String),
}

impl From<StrategyError> for InstallError {
    fn from(error: StrategyError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The installation of a CSV, with the authority of its certificates if it has endpoints.
pub fn desired(facts: &Facts<'_>, authority: Option<&Authority>) -> Result<Install, InstallError> {
    let csv = facts.csv;
    let strategy = Strategy { csv: &csv.csv, owner: csv.owner(), config: facts.config, proxy: facts.proxy };
    let (deployments, writes) = match authority {
        Some(authority) => {
            // Upstream asks the one group of the namespace; plans come here with one alone.
            let [group] = facts.groups else { return Err(InstallError::Failed("error retrieving OperatorGroup info".to_owned())) };
            strategy.with_certificates(authority, &group.namespace_selector())?
        }
        None => (strategy.deployments(), Vec::new()),
    };
    for write in &writes {
        if let Write::Conversion { crd, .. } = write {
            check_conversion(facts, crd)?;
        }
        if let Write::Create { resource: "apiservices", object } = write {
            check_api_service(facts, object)?;
        }
    }
    let is_endpoint = |write: &Write| match write {
        Write::Create { resource, .. } => {
            matches!(*resource, "apiservices" | "validatingwebhookconfigurations" | "mutatingwebhookconfigurations")
        }
        Write::Conversion { .. } => true,
        Write::Apply { .. } => false,
    };
    let (after, before) = writes.into_iter().partition(is_endpoint);
    let listed = |name: &str| csv.csv.deployments.iter().any(|deployment| deployment.name == name);
    let orphans = facts.deployments.iter().filter(|(name, deployment)| !listed(name) && is_owned(deployment, &csv.uid));
    let stale = facts.webhooks.iter().filter(|found| !csv.csv.webhooks.iter().any(|webhook| webhook.name == found.generate_name));
    Ok(Install {
        before,
        deployments,
        after,
        orphans: orphans.map(|(name, _)| name.clone()).collect(),
        stale_webhooks: stale.map(|webhook| (webhook.resource, webhook.name.clone())).collect(),
    })
}

/// The authority that the certificates of every Deployment with endpoints share; `None` if one is missing or due.
pub(crate) fn authority(facts: &Facts<'_>) -> Option<Authority> {
    let names = serving_deployments(facts);
    let mut certificates = names.iter().map(|name| facts.certificates.get(*name).filter(|serving| !serving.is_due));
    let first = certificates.next()??;
    certificates.all(|each| each.is_some_and(|each| each.authority == first.authority)).then(|| first.authority.clone())
}

/// The Deployments of the CSV that have endpoints.
pub(crate) fn serving_deployments<'a>(facts: &'a Facts<'_>) -> BTreeSet<&'a str> {
    let csv = &facts.csv.csv;
    let apis = csv.object["spec"]["apiservicedefinitions"]["owned"].as_array().into_iter().flatten();
    let named = apis.filter_map(|api| api["deploymentName"].as_str());
    let named = named.chain(csv.webhooks.iter().map(|webhook| webhook.deployment.as_str()));
    let is_listed = |name: &&str| csv.deployments.iter().any(|deployment| deployment.name == *name);
    named.filter(is_listed).collect()
}

fn check_conversion(facts: &Facts<'_>, crd: &str) -> Result<(), InstallError> {
    match facts.definitions.get(crd) {
        None => Err(InstallError::Failed(format!(
            "unable to get CRD {crd} specified in Conversion Webhook: customresourcedefinitions.apiextensions.k8s.io \"{crd}\" not found"
        ))),
        Some(definition) if definition.preserves_unknown_fields => {
            let problem = "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion";
            Err(InstallError::Failed(problem.to_owned()))
        }
        Some(_) => Ok(()),
    }
}

fn check_api_service(facts: &Facts<'_>, object: &Value) -> Result<(), InstallError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let adoptable = facts.api_services.get(name).is_none_or(|service| super::resources::is_adoptable(facts, service));
    if adoptable { Ok(()) } else { Err(InstallError::Failed(format!("pre-existing APIService {name} is not adoptable"))) }
}

fn is_owned(object: &Value, uid: &str) -> bool {
    object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
}
