//! The objects to apply for a bundle: OLM v1's registry+v1 renderer (OLM1-INST-02, -08 to -10, -16, -17).
//!
//! The CSV itself is never applied, only the objects that it describes. Their order is fixed: service accounts, roles in namespaces,
//! cluster roles, CRDs, the bundle's other objects, deployments, webhook configurations, services, certificates.

mod certificates;
mod permissions;
mod webhooks;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::bundle::Bundle;
use crate::config::DeploymentConfig;
use crate::csv::Csv;
use crate::error::RenderError;
use crate::kinds;

/// The provider of the certificates of webhooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CertificateProvider {
    /// No provider: nothing is added.
    #[default]
    None,
    /// cert-manager: an Issuer and a Certificate for each deployment with webhooks.
    CertManager,
    /// OpenShift's service CA: annotations.
    OpenshiftServiceCa,
}

/// The place and options of an installation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// The namespace of the operator itself.
    pub install_namespace: String,
    /// The namespaces that it watches: `[""]` for all; `None` for the bundle's default, which is all namespaces if it supports that.
    pub target_namespaces: Option<Vec<String>>,
    /// The provider of its webhooks' certificates.
    pub certificates: CertificateProvider,
    /// Changes to its Deployments.
    pub deployment: Option<DeploymentConfig>,
}

/// The objects that install the bundle.
pub fn render(bundle: &Bundle, options: &RenderOptions) -> Result<Vec<Value>, RenderError> {
    if let Some(refusal) = &bundle.refusal {
        return Err(refusal.clone().into());
    }
    let findings = bundle.check();
    if !findings.is_empty() {
        return Err(RenderError::Invalid { findings });
    }
    let targets = target_namespaces(&bundle.csv, options)?;
    let site = Site { namespace: &options.install_namespace, targets: &targets, certificates: options.certificates };

    let mut objects = permissions::service_accounts(&bundle.csv, &site);
    objects.extend(permissions::roles(&bundle.csv, &site));
    objects.extend(permissions::cluster_roles(&bundle.csv, &site));
    objects.extend(webhooks::crds(bundle, &site)?);
    objects.extend(others(bundle, &site)?);
    objects.extend(bundle.csv.deployments.iter().map(|deployment| {
        let mut object = deployment_object(&bundle.csv, deployment, &site);
        certificates::mount(&bundle.csv, &deployment.name, &mut object, &site);
        if let Some(config) = &options.deployment {
            config.apply(&mut object);
        }
        object
    }));
    objects.extend(webhooks::configurations(&bundle.csv, &site));
    objects.extend(webhooks::services(&bundle.csv, &site));
    objects.extend(certificates::objects(&bundle.csv, &site));
    Ok(objects)
}

/// The namespaces and the certificate provider of an installation.
struct Site<'a> {
    namespace: &'a str,
    targets: &'a [String],
    certificates: CertificateProvider,
}

impl Site<'_> {
    fn all_namespaces(&self) -> bool {
        matches!(self.targets, [only] if only.is_empty())
    }
}

/// The namespaces to watch, if the bundle's install modes allow them (the table of OLM1-INST-02).
fn target_namespaces(csv: &Csv, options: &RenderOptions) -> Result<Vec<String>, RenderError> {
    let given = options.target_namespaces.clone().filter(|namespaces| !namespaces.is_empty());
    let targets = given.unwrap_or_else(|| if csv.supports("AllNamespaces") { vec![String::new()] } else { Vec::new() });
    let install = options.install_namespace.as_str();
    let modes = csv.supported_modes().join(" ");
    let given = targets.join(" ");
    let distinct: BTreeSet<&str> = targets.iter().map(String::as_str).collect();
    let only = if distinct.len() == 1 { distinct.first().copied() } else { None };

    let others = || format!("supported install modes [{modes}] do not support target namespaces [{given}]");
    let own = || format!("supported install modes [{modes}] do not support targeting own namespace");
    let problem = match only {
        None if distinct.is_empty() && csv.supports("MultiNamespace") => Some("at least one target namespace must be specified".to_owned()),
        None if distinct.is_empty() => Some("exactly one target namespace must be specified".to_owned()),
        Some("") => {
            (!csv.supports("AllNamespaces")).then(|| format!("supported install modes [{modes}] do not support targeting all namespaces"))
        }
        Some(one) if one == install => (!csv.supports("OwnNamespace")).then(own),
        Some(_) => (!csv.supports("SingleNamespace")).then(others),
        None if distinct.contains(install) && !csv.supports("OwnNamespace") => Some(own()),
        None => (!csv.supports("MultiNamespace") || distinct.contains("")).then(others),
    };
    match problem {
        Some(problem) => Err(RenderError::TargetNamespaces { given, problem }),
        None => Ok(targets),
    }
}

/// The bundle's other objects, in the install namespace if their kind is namespaced.
fn others(bundle: &Bundle, site: &Site<'_>) -> Result<Vec<Value>, RenderError> {
    let place = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        let row = kinds::supported(&kind)
            .ok_or_else(|| RenderError::UnsupportedKind { name: text(&object["metadata"]["name"]), kind: kind.clone() })?;
        let mut object = object.clone();
        if row.namespaced
            && let Some(fields) = object.as_object_mut()
        {
            let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("namespace".to_owned(), site.namespace.into());
            }
        }
        Ok(object)
    };
    bundle.others.iter().map(place).collect()
}

/// The Deployment of one entry of the install strategy: pods carry the CSV's annotations, but their own take precedence.
fn deployment_object(csv: &Csv, deployment: &crate::csv::Deployment, site: &Site<'_>) -> Value {
    let mut spec = deployment.spec.clone();
    let mut annotations: Map<String, Value> = csv.annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    if let Some(own) = spec["template"]["metadata"]["annotations"].as_object() {
        annotations.extend(own.clone());
    }
    annotations.insert("olm.targetNamespaces".to_owned(), site.targets.join(",").into());
    spec["template"]["metadata"]["annotations"] = Value::Object(annotations);
    spec["revisionHistoryLimit"] = 1.into();

    let mut object = object("apps/v1", "Deployment", &deployment.name, Some(site.namespace));
    if !deployment.labels.is_empty() {
        object["metadata"]["labels"] = json!(deployment.labels);
    }
    object["spec"] = spec;
    object["status"] = json!({});
    object
}

/// An object without content.
fn object(api_version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({ "name": name });
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
}

/// Adds an annotation to an object.
fn annotate(object: &mut Value, key: &str, value: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations[key] = value.into();
}

/// `<base>-<suffix>`; when both together exceed 63 characters the base is cut so that the whole has 63 (OLM1-INST-09). The hyphen is
/// not counted in the comparison, so 64 can occur, as upstream.
fn joined_name(base: &str, suffix: &str) -> String {
    const LIMIT: usize = 63;
    let mut base = base;
    if base.len() + suffix.len() > LIMIT {
        let mut end = LIMIT.saturating_sub(suffix.len() + 1).min(base.len());
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        base = &base[..end];
    }
    format!("{base}-{suffix}")
}
