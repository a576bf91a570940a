//! The objects that the install strategy of a CSV writes (OLM0-CSV-11 to OLM0-CSV-14, OLM0-WEBHOOK).

use std::collections::BTreeMap;

use mainstay_bundle::go::{conform, to_string_as};
use mainstay_bundle::{Csv, Deployment, WebhookDefinition, WebhookKind};
use serde_json::{Map, Value, json};

use crate::hash;
use crate::overrides::{self, SubscriptionConfig};
use crate::owner::Owner;

/// The label with the hash of a Deployment's spec.
pub const HASH_LABEL: &str = "olm.deployment-spec-hash";
/// The label of everything that OLM writes.
pub const MANAGED_LABEL: (&str, &str) = ("olm.managed", "true");
/// The annotation with the hash of the authority of serving certificates.
pub const CA_HASH: &str = "olmcahash";
/// The label with the name of a webhook in the CSV.
pub const WEBHOOK_NAME: &str = "olm.webhook-description-generate-name";
/// The label with the hash of a webhook's description.
pub const WEBHOOK_HASH: &str = "olm.webhook-description-hash";

/// The strategy of a CSV on the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Strategy<'a> {
    /// The CSV; its annotations go to every pod.
    pub csv: &'a Csv,
    /// The CSV as owner.
    pub owner: Owner<'a>,
    /// The Subscription's configuration.
    pub config: &'a SubscriptionConfig,
    /// The variables of the cluster's proxy.
    pub proxy: &'a [Value],
}

/// A certificate authority for the operator's own endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// Its certificate as `caBundle` fields hold it.
    pub bundle: String,
    /// Its hash.
    pub hash: String,
}

/// The selector of namespaces of an OperatorGroup: its targets by label, its selector, or none for every namespace.
pub type NamespaceSelector = Option<Value>;

/// One write besides the Deployments.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A server-side apply.
    Apply {
        /// The resource.
        resource: &'static str,
        /// The object.
        object: Value,
    },
    /// A creation, or an update of what is there.
    Create {
        /// The resource.
        resource: &'static str,
        /// The object, without apiVersion and kind.
        object: Value,
    },
    /// The conversion of a CRD.
    Conversion {
        /// The CRD.
        crd: String,
        /// `spec.conversion`.
        conversion: Value,
    },
}

/// Why a strategy cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// A conversion webhook of an operator that is not for all namespaces only.
    #[error("unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces")]
    NotAllNamespaces,
    /// A conversion webhook for nothing.
    #[error("unable to manager conversion webhook: conversion webhook must have at least one CRD specified")]
    NoConversionCrds,
    /// A conversion webhook for a CRD that the CSV does not own.
    #[error("csv {csv} does not own CRD {crd}")]
    NotOwned {
        /// The CSV.
        csv: String,
        /// The CRD.
        crd: String,
    },
}

/// The Service of a Deployment with endpoints.
pub fn service_name(deployment: &str) -> String {
    format!("{deployment}-service")
}

/// The ClusterRoleBinding by which what answers behind a Service asks who its callers are.
pub fn delegator_name(service: &str) -> String {
    format!("{service}-system:auth-delegator")
}

/// The Secret with the certificate of a Service.
pub fn secret_name(service: &str) -> String {
    format!("{service}-cert")
}

impl Strategy<'_> {
    /// The Deployments without certificates.
    pub fn deployments(&self) -> Vec<Value> {
        self.csv.deployments.iter().map(|deployment| self.deployment(deployment, &deployment.spec)).collect()
    }

    /// The Deployments with certificates for their endpoints, and the other writes in their order.
    pub fn with_certificates(
        &self,
        authority: &Authority,
        namespaces: &NamespaceSelector,
    ) -> Result<(Vec<Value>, Vec<Write>), StrategyError> {
        let (mut writes, mut deployments) = (Vec::new(), Vec::new());
        for deployment in &self.csv.deployments {
            let ports = self.ports(&deployment.name);
            if ports.is_empty() {
                deployments.push(self.deployment(deployment, &deployment.spec));
                continue;
            }
            let mut spec = deployment.spec.clone();
            self.certificate(&deployment.name, &mut spec, &ports, authority, &mut writes);
            deployments.push(self.deployment(deployment, &spec));
        }
        if !self.csv.deployments.is_empty() {
            writes.extend(self.api_services().values().map(|api| self.api_service(api, authority)));
            for webhook in &self.csv.webhooks {
                self.webhook(webhook, authority, namespaces, &mut writes)?;
            }
        }
        Ok((deployments, writes))
    }

    /// A Deployment with its labels, owner, configuration and hash.
    fn deployment(&self, deployment: &Deployment, spec: &Value) -> Value {
        let Owner { name: csv, namespace, .. } = self.owner;
        let mut spec = spec.clone();
        let template = &mut spec["template"]["metadata"];
        let mut annotations = template["annotations"].as_object().cloned().unwrap_or_default();
        annotations.extend(texts(&self.csv.annotations));
        if !annotations.is_empty() {
            template["annotations"] = Value::Object(annotations);
        }
        let mut labels = texts(&deployment.labels);
        labels.extend(managed());
        labels.extend(self.owner.labels());
        let mut object = json!({
            "metadata": {"name": deployment.name, "namespace": namespace, "labels": labels, "ownerReferences": [self.owner.reference()]},
            "spec": spec,
        });
        overrides::apply(&mut object, self.config, self.proxy);
        overrides::add_env(&mut object, &[json!({"name": "OPERATOR_CONDITION_NAME", "value": csv})]);
        object["spec"]["revisionHistoryLimit"] = json!(1);
        // A value that was read by these types fits them.
        if let Ok(conformed) = conform("DeploymentSpec", &object["spec"]) {
            object["spec"] = conformed;
        }
        object["metadata"]["labels"][HASH_LABEL] = json!(hash::of_encoded(&to_string_as("DeploymentSpec", &object["spec"])));
        object
    }

    /// The ports of the endpoints of a Deployment, each once.
    fn ports(&self, deployment: &str) -> Vec<Value> {
        let mut ports: Vec<Value> = Vec::new();
        let mut add = |port: i64, target: Value| {
            let port = json!({"name": port.to_string(), "port": port, "targetPort": target});
            if !ports.contains(&port) {
                ports.push(port);
            }
        };
        for port in self.api_services().values().filter(|api| api["deploymentName"] == deployment).map(|api| container_port(api)) {
            add(port, json!(port));
        }
        for webhook in self.csv.webhooks.iter().filter(|webhook| webhook.deployment == deployment) {
            let port = webhook.port();
            add(port, webhook.target_port.clone().unwrap_or_else(|| json!(port)));
        }
        ports
    }

    /// The owned APIs by the name of their APIService; of several entries for one, the last counts.
    fn api_services(&self) -> BTreeMap<String, &Value> {
        let owned = self.csv.object["spec"]["apiservicedefinitions"]["owned"].as_array();
        owned.into_iter().flatten().map(|api| (format!("{}.{}", written(&api["version"]), written(&api["group"])), api)).collect()
    }

    /// The `caBundle` of an endpoint; nothing signs that of a Deployment which the CSV does not have.
    fn ca_bundle(&self, deployment: &str, authority: &Authority) -> Option<Value> {
        self.csv.deployments.iter().any(|one| one.name == deployment).then(|| json!(authority.bundle))
    }

    /// Adds what a serving certificate needs, and mounts it.
    fn certificate(&self, deployment: &str, spec: &mut Value, ports: &[Value], authority: &Authority, writes: &mut Vec<Write>) {
        let Owner { namespace, .. } = self.owner;
        let service = service_name(deployment);
        let secret = secret_name(&service);
        let labels = managed();
        let owned = json!([self.owner.reference()]);
        let mut service_spec = json!({"ports": ports});
        if let Some(selector) = spec["selector"]["matchLabels"].as_object().filter(|selector| !selector.is_empty()) {
            service_spec["selector"] = json!(selector);
        }
        writes.push(Write::Apply {
            resource: "services",
            object: json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": service, "namespace": namespace, "labels": labels, "ownerReferences": owned},
                "spec": service_spec,
            }),
        });
        let metadata = json!({"name": secret, "namespace": namespace, "labels": labels, "ownerReferences": owned});
        let mut annotated = metadata.clone();
        annotated["annotations"] = json!({CA_HASH: authority.hash});
        writes.push(Write::Create { resource: "secrets", object: json!({"metadata": annotated, "type": "kubernetes.io/tls"}) });
        let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret]}]);
        writes.push(Write::Create { resource: "roles", object: json!({"metadata": metadata, "rules": rules}) });
        let pod = &mut spec["template"]["spec"];
        if pod["serviceAccountName"].as_str().is_none_or(str::is_empty) {
            pod["serviceAccountName"] = json!("default");
        }
        let account = json!({"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": namespace});
        let role = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        writes.push(Write::Create {
            resource: "rolebindings",
            object: json!({"metadata": metadata, "subjects": [account], "roleRef": role("Role", &secret)}),
        });
        let mut applied = account;
        applied["apiGroup"] = json!("");
        let mut all_labels = labels.clone();
        all_labels.extend(self.owner.labels());
        writes.push(Write::Apply {
            resource: "clusterrolebindings",
            object: json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": delegator_name(&service), "labels": all_labels},
                "subjects": [applied], "roleRef": role("ClusterRole", "system:auth-delegator"),
            }),
        });
        writes.push(Write::Apply {
            resource: "rolebindings",
            object: json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": format!("{service}-auth-reader"), "namespace": "kube-system", "labels": labels},
                "subjects": [applied], "roleRef": role("Role", "extension-apiserver-authentication-reader"),
            }),
        });
        mount(spec, &secret);
        spec["template"]["metadata"]["annotations"][CA_HASH] = json!(authority.hash);
    }

    fn api_service(&self, api: &Value, authority: &Authority) -> Write {
        let (group, version) = (written(&api["group"]), written(&api["version"]));
        let deployment = written(&api["deploymentName"]);
        let mut labels = managed();
        labels.extend(self.owner.labels());
        let mut metadata = json!({"name": format!("{version}.{group}"), "labels": labels});
        if let Some(annotations) = self.config.annotations.as_ref().filter(|annotations| !annotations.is_empty()) {
            metadata["annotations"] = json!(annotations);
        }
        let mut spec = json!({
            "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"namespace": self.owner.namespace, "name": service_name(deployment), "port": container_port(api)},
        });
        for (field, value) in [("group", group), ("version", version)] {
            if !value.is_empty() {
                spec[field] = json!(value);
            }
        }
        if let Some(bundle) = self.ca_bundle(deployment, authority) {
            spec["caBundle"] = bundle;
        }
        Write::Create { resource: "apiservices", object: json!({"metadata": metadata, "spec": spec, "status": {}}) }
    }

    fn webhook(
        &self,
        webhook: &WebhookDefinition,
        authority: &Authority,
        namespaces: &NamespaceSelector,
        writes: &mut Vec<Write>,
    ) -> Result<(), StrategyError> {
        let resource = match webhook.kind {
            WebhookKind::Validating => "validatingwebhookconfigurations",
            WebhookKind::Mutating => "mutatingwebhookconfigurations",
            WebhookKind::Conversion => return self.conversion(webhook, authority, writes),
            WebhookKind::Other(_) => return Ok(()),
        };
        let entry = &webhook.entry;
        let mut service =
            json!({"name": webhook_service(webhook), "namespace": self.owner.namespace, "port": webhook.container_port.unwrap_or(0)});
        if let Some(path) = &webhook.path {
            service["path"] = json!(path);
        }
        let mut call = json!({
            "name": webhook.name, "sideEffects": entry["sideEffects"], "admissionReviewVersions": entry["admissionReviewVersions"],
            "clientConfig": {"service": service},
        });
        if let Some(bundle) = self.ca_bundle(&webhook.deployment, authority) {
            call["clientConfig"]["caBundle"] = bundle;
        }
        let mut copied = vec!["rules", "failurePolicy", "matchPolicy", "objectSelector", "timeoutSeconds"];
        if webhook.kind == WebhookKind::Mutating {
            copied.push("reinvocationPolicy");
        }
        for field in copied {
            if let Some(value) = entry.get(field) {
                call[field] = value.clone();
            }
        }
        if let Some(selector) = namespaces {
            call["namespaceSelector"] = selector.clone();
        }
        let mut labels = managed();
        labels.extend(self.owner.labels());
        labels.insert(WEBHOOK_NAME.to_owned(), json!(webhook.name));
        labels.insert(WEBHOOK_HASH.to_owned(), json!(hash::of_encoded(&to_string_as("operators.WebhookDescription", entry))));
        // Upstream gives it a namespace, which the API server ignores.
        let metadata = json!({"generateName": format!("{}-", webhook.name), "namespace": self.owner.namespace, "labels": labels});
        writes.push(Write::Create { resource, object: json!({"metadata": metadata, "webhooks": [call]}) });
        Ok(())
    }

    fn conversion(&self, webhook: &WebhookDefinition, authority: &Authority, writes: &mut Vec<Write>) -> Result<(), StrategyError> {
        let only_all = self.csv.install_modes.iter().all(|mode| mode.supported == (mode.mode == "AllNamespaces"));
        if !only_all {
            return Err(StrategyError::NotAllNamespaces);
        }
        if webhook.conversion_crds.is_empty() {
            return Err(StrategyError::NoConversionCrds);
        }
        let service = json!({
            "name": webhook_service(webhook), "namespace": self.owner.namespace, "path": webhook.path.as_deref().unwrap_or("/"),
            "port": webhook.container_port.unwrap_or(0),
        });
        let mut conversion = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": {"service": service}, "conversionReviewVersions": webhook.entry["admissionReviewVersions"],
        }});
        if let Some(bundle) = self.ca_bundle(&webhook.deployment, authority) {
            conversion["webhook"]["clientConfig"]["caBundle"] = bundle;
        }
        for crd in &webhook.conversion_crds {
            if !self.csv.owned_crds.iter().any(|owned| owned.name == *crd) {
                return Err(StrategyError::NotOwned { csv: self.owner.name.to_owned(), crd: crd.clone() });
            }
            writes.push(Write::Conversion { crd: crd.clone(), conversion: conversion.clone() });
        }
        Ok(())
    }
}

/// The port in an entry; 443 if there is none.
fn container_port(entry: &Value) -> i64 {
    entry["containerPort"].as_i64().filter(|port| *port > 0).unwrap_or(443)
}

/// The Service that a webhook's configuration names.
fn webhook_service(webhook: &WebhookDefinition) -> String {
    service_name(&webhook.deployment.replace('.', "-"))
}

fn written(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(of: &BTreeMap<String, String>) -> Map<String, Value> {
    of.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect()
}

fn managed() -> Map<String, Value> {
    Map::from_iter([(MANAGED_LABEL.0.to_owned(), Value::String(MANAGED_LABEL.1.to_owned()))])
}

/// Mounts the certificate where API servers and where webhooks look for it.
fn mount(spec: &mut Value, secret: &str) {
    let places = [
        ("apiservice-cert", "/apiserver.local.config/certificates", ["apiserver.crt", "apiserver.key"]),
        ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", ["tls.crt", "tls.key"]),
    ];
    for (name, path, files) in places {
        let items = json!([{"key": "tls.crt", "path": files[0]}, {"key": "tls.key", "path": files[1]}]);
        let volume = json!({"name": name, "secret": {"secretName": secret, "items": items}});
        let pod = &mut spec["template"]["spec"];
        put(pod, "volumes", volume, |other| other["name"] == name);
        let mount = json!({"name": name, "mountPath": path});
        for container in pod["containers"].as_array_mut().into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array().map_or(&[][..], Vec::as_slice);
            // The first of these decides, and a mount of the same name stays as it is.
            let first = mounts.iter().find(|other| other["name"] == name || other["mountPath"] == path);
            if first.is_none_or(|first| first["name"] != name) {
                put(container, "volumeMounts", mount.clone(), |other| other["mountPath"] == path);
            }
        }
    }
}

/// Puts an entry in the place of the first that it replaces, or at the end.
fn put(of: &mut Value, list: &str, entry: Value, replaces: impl Fn(&Value) -> bool) {
    if !of[list].is_array() {
        of[list] = json!([]);
    }
    let Some(entries) = of[list].as_array_mut() else { return };
    match entries.iter().position(replaces) {
        Some(at) => entries[at] = entry,
        None => entries.push(entry),
    }
}
