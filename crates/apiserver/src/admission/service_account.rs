//! ServiceAccount: a pod runs as an account of its namespace and carries that account's token.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{AdmissionStep, Operation, Request};
use crate::error::{ApiError, Result};

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The step.
pub struct ServiceAccount;

#[async_trait]
impl AdmissionStep for ServiceAccount {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.served.is("", "pods") || !request.subresource.is_empty() || request.operation != Operation::Create {
            return Ok(());
        }
        if object.pointer("/metadata/annotations").and_then(|all| all.get(MIRROR)).is_some() {
            return Ok(());
        }
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let name = match spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default() {
            "" => "default".to_owned(),
            name => name.to_owned(),
        };
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.clone().into());
        let api = &request.context.api;
        let accounts = api.built_in("", "serviceaccounts")?;
        let Some(account) = api.load(&accounts, &request.namespace, &name).await? else {
            let why = format!("error looking up service account {}/{name}: serviceaccount {name:?} not found", request.namespace);
            return Err(ApiError::forbidden("", "pods", &request.name, why));
        };
        let account = account.value;
        let flag = |value: Option<&Value>| value.and_then(Value::as_bool);
        let wanted =
            flag(spec.get("automountServiceAccountToken")).or_else(|| flag(account.get("automountServiceAccountToken"))).unwrap_or(true);
        if wanted {
            mount(spec);
        }
        if spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty)
            && let Some(secrets) = account.get("imagePullSecrets").filter(|secrets| secrets.as_array().is_some_and(|list| !list.is_empty()))
        {
            spec.insert("imagePullSecrets".into(), secrets.clone());
        }
        Ok(())
    }
}

fn mount(spec: &mut serde_json::Map<String, Value>) {
    let volumes = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let known =
        volumes.iter().filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with("kube-api-access-")).map(str::to_owned);
    let name = known.clone().unwrap_or_else(|| crate::rest::generate_name("kube-api-access-"));
    let mut used = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts.iter().any(|mount| mount["mountPath"] == MOUNT) {
                continue;
            }
            used = true;
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT}));
        }
    }
    if !used || known.is_some() {
        return;
    }
    let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        {"configMap": {"name": "openshift-service-ca.crt", "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}},
    ]}});
    let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(volume);
    }
}
