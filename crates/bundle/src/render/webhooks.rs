//! Webhook configurations, the services behind them, and CRDs with conversion (OLM1-INST-17).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Site, certificates, object};
use crate::bundle::Bundle;
use crate::csv::{Csv, WebhookDefinition, WebhookKind};
use crate::error::RenderError;
use crate::go;

/// The CRDs, with the conversion of those that a webhook converts.
pub(super) fn crds(bundle: &Bundle, site: &Site<'_>) -> Result<Vec<Value>, RenderError> {
    let mut converters: BTreeMap<&str, &WebhookDefinition> = BTreeMap::new();
    for webhook in bundle.csv.webhooks.iter().filter(|webhook| webhook.kind == WebhookKind::Conversion) {
        for crd in &webhook.conversion_crds {
            if converters.insert(crd, webhook).is_some() {
                return Err(RenderError::SharedConversion { crd: crd.clone() });
            }
        }
    }
    let convert = |crd: &Value| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let mut crd = crd.clone();
        let Some(webhook) = converters.get(name) else { return Ok(crd) };
        if crd["spec"]["preserveUnknownFields"] == true {
            return Err(RenderError::PreservesUnknownFields { crd: name.to_owned() });
        }
        let mut service = certificates::service_reference(&webhook.deployment, site);
        service["path"] = webhook.path.as_deref().unwrap_or("/").into();
        service["port"] = webhook.client_port().into();
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": service},
            "conversionReviewVersions": webhook.entry["admissionReviewVersions"],
        }});
        certificates::inject(&mut crd, &webhook.deployment, site);
        Ok(crd)
    };
    bundle.crds.iter().map(convert).collect()
}

/// The validating configurations, then the mutating ones, one of each definition.
pub(super) fn configurations(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    let of =
        |kind: WebhookKind| csv.webhooks.iter().filter(move |webhook| webhook.kind == kind).map(|webhook| configuration(webhook, site));
    of(WebhookKind::Validating).chain(of(WebhookKind::Mutating)).collect()
}

fn configuration(webhook: &WebhookDefinition, site: &Site<'_>) -> Value {
    let (kind, entry_type) = match webhook.kind {
        WebhookKind::Mutating => ("MutatingWebhookConfiguration", "admissionregistration.MutatingWebhook"),
        _ => ("ValidatingWebhookConfiguration", "admissionregistration.ValidatingWebhook"),
    };
    let name = webhook.name.strip_suffix('-').unwrap_or(&webhook.name);
    let mut service = certificates::service_reference(&webhook.deployment, site);
    if let Some(path) = &webhook.path {
        service["path"] = path.as_str().into();
    }
    service["port"] = webhook.client_port().into();

    let mut entry = json!({"name": name, "clientConfig": {"service": service}});
    for field in [
        "rules",
        "failurePolicy",
        "matchPolicy",
        "objectSelector",
        "sideEffects",
        "timeoutSeconds",
        "admissionReviewVersions",
        "reinvocationPolicy",
    ] {
        entry[field] = webhook.entry[field].clone();
    }
    if !site.targets.is_empty() && !site.targets.iter().any(String::is_empty) {
        let names = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": site.targets});
        entry["namespaceSelector"] = json!({"matchExpressions": [names]});
    }
    // Every field comes from a struct that Go has read already, so the conversion only leaves out the fields that Go leaves out.
    let entry = go::conform(entry_type, &entry).unwrap_or(entry);

    let mut configuration = object("admissionregistration.k8s.io/v1", kind, name, Some(site.namespace));
    configuration["webhooks"] = json!([entry]);
    certificates::inject(&mut configuration, &webhook.deployment, site);
    configuration
}

/// One Service for each deployment with webhooks, with a port for each distinct pair of port and target.
pub(super) fn services(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    let mut services = Vec::new();
    for deployment in &csv.deployments {
        let mut ports: Vec<(i64, Value)> = Vec::new();
        for webhook in csv.webhooks.iter().filter(|webhook| webhook.deployment == deployment.name) {
            let port = (webhook.port(), webhook.target_port.clone().unwrap_or_else(|| webhook.port().into()));
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        if ports.is_empty() {
            continue;
        }
        // In this order, a target by name counts as its number, or 0; text decides between equals so that the order is fixed.
        let number = |target: &Value| target.as_i64().or_else(|| target.as_str()?.parse().ok()).unwrap_or(0);
        ports.sort_by_key(|(port, target)| (*port, number(target), target.to_string()));
        let ports: Vec<Value> =
            ports.into_iter().map(|(port, target)| json!({"name": port.to_string(), "port": port, "targetPort": target})).collect();

        let mut service = object("v1", "Service", &certificates::service_name(&deployment.name), Some(site.namespace));
        service["spec"] = json!({ "ports": ports });
        let labels = &deployment.spec["selector"]["matchLabels"];
        if labels.is_object() {
            service["spec"]["selector"] = labels.clone();
        }
        service["status"] = json!({"loadBalancer": {}});
        certificates::inject(&mut service, &deployment.name, site);
        services.push(service);
    }
    services
}
