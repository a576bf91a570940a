//! The presence and health of the objects that a CSV installed (OLM0-CSV-15).

use mainstay_bundle::{Csv, WebhookKind};
use serde_json::Value;

use super::{Facts, install};
use crate::api::Api;
use crate::deployments::{HASH_LABEL, WEBHOOK_HASH, WEBHOOK_NAME, Write, service_name};

/// The state of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It is there and healthy.
    Healthy,
    /// It waits for a Deployment.
    Waiting(String),
    /// A Deployment differs from what the CSV asks for.
    Changed(String),
    /// A Deployment will not become available.
    Failed(String),
    /// An owned API is not available.
    ApisMissing,
    /// A webhook is not there.
    WebhooksMissing,
    /// A webhook cannot be there yet.
    WebhooksFailed(String),
}

/// Judges an installation; the objects that are wanted decide what is changed.
pub(crate) fn check(facts: &Facts<'_>, wanted: &install::Install) -> Health {
    judge(facts, wanted, deployments(facts, wanted))
}

/// Judges an installation that is not healthy yet. A Deployment that the CSV, or the Subscription's `spec.config`, now wants otherwise counts as
/// changed at once: its pods may never become ready, and upstream would wait five minutes for them, or without end after their deadline.
pub(crate) fn check_unfinished(facts: &Facts<'_>, wanted: &install::Install) -> Health {
    let outdated = wanted.deployments.iter().find_map(|wanted| {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        hash_differs(name, wanted, facts.deployments.get(name)?)
    });
    judge(facts, wanted, outdated.map(Health::Changed).or_else(|| deployments(facts, wanted)))
}

fn judge(facts: &Facts<'_>, wanted: &install::Install, deployments: Option<Health>) -> Health {
    // What will never be available decides before anything else.
    if let Some(failed @ Health::Failed(_)) = deployments {
        return failed;
    }
    if !apis_available(facts) {
        return Health::ApisMissing;
    }
    match webhooks(facts, wanted) {
        Health::Healthy => deployments.unwrap_or(Health::Healthy),
        unhealthy => unhealthy,
    }
}

fn deployments(facts: &Facts<'_>, wanted: &install::Install) -> Option<Health> {
    for wanted in &wanted.deployments {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let Some(live) = facts.deployments.get(name) else {
            return Some(Health::Waiting(format!("missing deployment with name={name}")));
        };
        match rollout(name, live) {
            Rollout::Done => {}
            Rollout::Waiting(why) => return Some(Health::Waiting(format!("waiting for deployment {name} to become ready: {why}"))),
            Rollout::Failed(why) => return Some(Health::Failed(format!("deployment {name} not ready before timeout: {why}"))),
        }
        if let Some(changed) = annotations(&facts.csv.csv, live).or_else(|| hash_differs(name, wanted, live)) {
            return Some(Health::Changed(changed));
        }
    }
    None
}

enum Rollout {
    Done,
    Waiting(String),
    Failed(String),
}

/// The rollout of a Deployment in upstream's words.
fn rollout(name: &str, live: &Value) -> Rollout {
    let status = &live["status"];
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let condition = |kind: &str| status["conditions"].as_array().into_iter().flatten().find(|each| each["type"] == kind);
    if number(&live["metadata"]["generation"]) > number(&status["observedGeneration"]) {
        return Rollout::Waiting(format!("waiting for spec update of deployment \"{name}\" to be observed..."));
    }
    if condition("Progressing").is_some_and(|progressing| progressing["reason"] == "ProgressDeadlineExceeded") {
        return Rollout::Failed(format!("deployment \"{name}\" exceeded its progress deadline"));
    }
    let outdated = number(&status["replicas"]) - number(&status["updatedReplicas"]);
    if outdated > 0 {
        return Rollout::Waiting(format!("deployment \"{name}\" waiting for {outdated} outdated replica(s) to be terminated"));
    }
    match condition("Available") {
        None => Rollout::Waiting(format!("deployment \"{name}\" not available: missing condition \"Available\"")),
        Some(available) if available["status"] != "True" => {
            let message = available["message"].as_str().unwrap_or_default();
            Rollout::Waiting(format!("deployment \"{name}\" not available: {message}"))
        }
        Some(_) => Rollout::Done,
    }
}

/// The first annotation of the CSV that a Deployment's pods lack (OLM0-CSV-12).
fn annotations(csv: &Csv, live: &Value) -> Option<String> {
    let found = &live["spec"]["template"]["metadata"]["annotations"];
    if !csv.annotations.is_empty() && !found.is_object() {
        return Some("no annotations found on deployment".to_owned());
    }
    csv.annotations.iter().find_map(|(key, value)| match found[key].as_str() {
        None => Some(format!("annotations on deployment does not contain expected key: {key}")),
        Some(other) if other != value => Some(format!("unexpected annotation on deployment. Expected {key}:{value}, found {key}:{other}")),
        Some(_) => None,
    })
}

fn hash_differs(name: &str, wanted: &Value, live: &Value) -> Option<String> {
    let hash = |object: &Value| object["metadata"]["labels"][HASH_LABEL].as_str().map(str::to_owned);
    let Some(old) = hash(live) else { return Some(format!("deployment {name} doesn't have a spec hash, update it")) };
    let new = hash(wanted).unwrap_or_default();
    (old != new).then(|| format!("deployment changed old hash={old}, new hash={new}"))
}

fn apis_available(facts: &Facts<'_>) -> bool {
    facts.csv.csv.owned_api_services.iter().all(|api| {
        let name = format!("{}.{}", api.version, api.group);
        let api = Api { group: api.group.clone(), version: api.version.clone(), kind: api.kind.clone() };
        facts.api_services.get(&name).is_some_and(|service| service.is_available) && facts.served.contains(&api)
    })
}

fn webhooks(facts: &Facts<'_>, wanted: &install::Install) -> Health {
    for webhook in &facts.csv.csv.webhooks {
        let serves = facts.csv.csv.deployments.iter().any(|deployment| deployment.name == webhook.deployment);
        if serves && !facts.services.contains(&service_name(&webhook.deployment)) {
            return Health::WebhooksMissing;
        }
        if webhook.kind == WebhookKind::Conversion {
            for crd in &webhook.conversion_crds {
                match facts.definitions.get(crd) {
                    None => {
                        let problem = format!("customresourcedefinitions.apiextensions.k8s.io \"{crd}\" not found");
                        return Health::WebhooksFailed(problem);
                    }
                    Some(definition) => match &definition.conversion_bundle {
                        None => return Health::WebhooksFailed("conversionWebhook not ready".to_owned()),
                        Some(bundle) if !is_converted_by(wanted, crd, bundle) => return Health::WebhooksMissing,
                        Some(_) => {}
                    },
                }
            }
            if webhook.conversion_crds.is_empty() {
                return Health::WebhooksMissing;
            }
        } else if !is_configured(facts, wanted, &webhook.name) {
            return Health::WebhooksMissing;
        }
    }
    Health::Healthy
}

/// Returns whether a CRD is to be converted by a webhook with this authority.
fn is_converted_by(wanted: &install::Install, crd: &str, bundle: &str) -> bool {
    wanted.after.iter().any(|write| {
        matches!(write, Write::Conversion { crd: of, conversion }
            if of == crd && conversion["webhook"]["clientConfig"]["caBundle"] == *bundle)
    })
}

/// Returns whether there is a configuration with the description and the authority that are wanted.
fn is_configured(facts: &Facts<'_>, wanted: &install::Install, name: &str) -> bool {
    wanted.after.iter().any(|write| {
        let Write::Create { resource, object } = write else { return false };
        let labels = &object["metadata"]["labels"];
        // A webhook of a Deployment that is missing has no authority.
        let bundle = object["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        labels[WEBHOOK_NAME] == *name
            && facts.webhooks.iter().any(|found| {
                found.resource == *resource && found.generate_name == name && labels[WEBHOOK_HASH] == *found.hash && found.bundle == bundle
            })
    })
}
