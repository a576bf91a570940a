//! ServiceAccount: a pod runs as an account of its namespace, carries that account's token, and uses the secrets that the account
//! lets it use.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::object::meta;

const MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The account that every namespace gets.
const DEFAULT: &str = "default";
/// The time that a pod waits for it in a namespace that was made a moment ago.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// The step.
pub struct ServiceAccount;

#[async_trait]
impl AdmissionStep for ServiceAccount {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.creates("", "pods") {
            return Ok(());
        }
        if is_mirror(object) {
            return check_mirror(request, object);
        }
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let name = match spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default() {
            "" => DEFAULT.to_owned(),
            name => name.to_owned(),
        };
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.clone().into());
        let account = account(request, &name).await?;
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
        limit(request, &account, object)
    }

    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let Some(pod) = object else { return Ok(()) };
        let ephemeral =
            request.operation == Operation::Update && request.subresource == "ephemeralcontainers" && request.served.is("", "pods");
        if !ephemeral && !request.creates("", "pods") {
            return Ok(());
        }
        if !ephemeral && is_mirror(pod) {
            return check_mirror(request, pod);
        }
        let name = pod.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Err(request.forbidden(format!("no service account specified for pod {}/{}", request.namespace, meta(pod, "name"))));
        }
        limit(request, &account(request, name).await?, pod)
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn is_mirror(pod: &Value) -> bool {
    pod.pointer("/metadata/annotations").and_then(|all| all.get(MIRROR)).is_some()
}

/// The account of a pod. The default one is waited for: a controller makes it in every namespace.
async fn account(request: &Request<'_>, name: &str) -> Result<Value> {
    if let Some(account) = request.find("", "serviceaccounts", &request.namespace, name).await? {
        return Ok(account);
    }
    if name == DEFAULT
        && let Some(account) = appearing(request).await?
    {
        return Ok(account);
    }
    let why = format!("error looking up service account {}/{name}: serviceaccount {name:?} not found", request.namespace);
    Err(request.forbidden(why))
}

async fn appearing(request: &Request<'_>) -> Result<Option<Value>> {
    let accounts = request.lookup.built_in("", "serviceaccounts")?;
    let entry = request.lookup.appearance(&accounts, &request.namespace, DEFAULT, PATIENCE).await;
    Ok(entry.map(|entry| entry.value()))
}

/// A mirror of a static pod refers to nothing that the API holds.
fn check_mirror(request: &Request<'_>, pod: &Value) -> Result<()> {
    let token = |volume: &Value| items(volume, "/projected/sources").any(|source| source.get("serviceAccountToken").is_some());
    if pod.pointer("/spec/serviceAccountName").is_some_and(|name| name != "") {
        return Err(request.forbidden("a mirror pod may not reference service accounts"));
    }
    if uses_secrets(pod) {
        return Err(request.forbidden("a mirror pod may not reference secrets"));
    }
    if items(pod, "/spec/volumes").any(token) {
        return Err(request.forbidden("a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

fn uses_secrets(pod: &Value) -> bool {
    let of_container = |container: &Value| {
        items(container, "/env").any(|env| env.pointer("/valueFrom/secretKeyRef").is_some())
            || items(container, "/envFrom").any(|from| from.get("secretRef").is_some())
    };
    let of_volume = |volume: &Value| {
        let sources = volume.as_object().into_iter().flatten().map(|(_, source)| source);
        volume.get("secret").is_some()
            || items(volume, "/projected/sources").any(|source| source.get("secret").is_some())
            || sources.into_iter().any(|source| {
                ["secretRef", "nodePublishSecretRef", "secretName"].iter().any(|field| source.get(field).is_some_and(|one| !one.is_null()))
            })
    };
    items(pod, "/spec/imagePullSecrets").next().is_some()
        || ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"]
            .into_iter()
            .any(|list| items(pod, list).any(of_container))
        || items(pod, "/spec/volumes").any(of_volume)
}

/// Refuses secrets that the account does not name, where it insists on that.
fn limit(request: &Request<'_>, account: &Value, pod: &Value) -> Result<()> {
    let insists = account.pointer("/metadata/annotations").and_then(|all| all.get(ENFORCE)).and_then(Value::as_str);
    // The words that Go reads as true.
    if !insists.is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")) {
        return Ok(());
    }
    let foreign = if request.subresource == "ephemeralcontainers" {
        foreign_in_containers(account, pod, "ephemeral container", "/spec/ephemeralContainers")
    } else {
        foreign_secret(account, pod)
    };
    foreign.map_or(Ok(()), |why| Err(request.forbidden(why)))
}

fn names(object: &Value, field: &str, secret: &str) -> bool {
    items(object, field).any(|reference| reference["name"] == secret)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The first secret that a pod uses and its account does not name, in Kubernetes' words.
fn foreign_secret(account: &Value, pod: &Value) -> Option<String> {
    let who = meta(account, "name");
    for volume in items(pod, "/spec/volumes").filter(|volume| volume.get("secret").is_some()) {
        let secret = text(volume, "/secret/secretName");
        if !names(account, "/secrets", secret) {
            return Some(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {who} does not reference that secret"
            ));
        }
    }
    let in_containers = foreign_in_containers(account, pod, "init container", "/spec/initContainers")
        .or_else(|| foreign_in_containers(account, pod, "container", "/spec/containers"));
    if in_containers.is_some() {
        return in_containers;
    }
    items(pod, "/spec/imagePullSecrets").enumerate().find_map(|(index, reference)| {
        let secret = text(reference, "/name");
        (!names(account, "/imagePullSecrets", secret)).then(|| {
            format!("imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service account {who} does not reference that imagePullSecret")
        })
    })
}

fn foreign_in_containers(account: &Value, pod: &Value, what: &str, list: &str) -> Option<String> {
    let who = meta(account, "name");
    for container in items(pod, list) {
        let name = text(container, "/name");
        let because = |secret: &str| {
            format!(
                "referencing secret.secretName=\"{secret}\" is not allowed because service account {who} does not reference that secret"
            )
        };
        for env in items(container, "/env").filter(|env| env.pointer("/valueFrom/secretKeyRef").is_some()) {
            let secret = text(env, "/valueFrom/secretKeyRef/name");
            if !names(account, "/secrets", secret) {
                return Some(format!("{what} {name} with envVar {} {}", text(env, "/name"), because(secret)));
            }
        }
        for from in items(container, "/envFrom").filter(|from| from.get("secretRef").is_some()) {
            let secret = text(from, "/secretRef/name");
            if !names(account, "/secrets", secret) {
                return Some(format!("{what} {name} with envFrom {}", because(secret)));
            }
        }
    }
    None
}

fn mount(spec: &mut Map<String, Value>) {
    let volumes = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let known =
        volumes.iter().filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with("kube-api-access-")).map(str::to_owned);
    let name = known.clone().unwrap_or_else(|| crate::object::generate_name("kube-api-access-"));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-ADM-03: an account that insists on it lets pods use the secrets that it names, and no others.
    #[test]
    fn secrets_of_an_account() {
        let account = json!({"metadata": {"name": "sa"}, "secrets": [{"name": "own"}], "imagePullSecrets": [{"name": "pull"}]});
        let env = |secret: &str| json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": secret}}}]);
        for (spec, expected) in [
            (
                json!({"volumes": [{"secret": {"secretName": "own"}}], "imagePullSecrets": [{"name": "pull"}], "containers": [{"env": env("own")}]}),
                "",
            ),
            (
                json!({"volumes": [{"secret": {"secretName": "x"}}]}),
                "volume with secret.secretName=\"x\" is not allowed because service account sa does not reference that secret",
            ),
            (
                json!({"initContainers": [{"name": "i", "env": env("x")}]}),
                "init container i with envVar E referencing secret.secretName=\"x\" is not allowed because service account sa does not reference that secret",
            ),
            (
                json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]}),
                "container c with envFrom referencing secret.secretName=\"x\" is not allowed because service account sa does not reference that secret",
            ),
            (
                json!({"imagePullSecrets": [{"name": "pull"}, {"name": "own"}]}),
                "imagePullSecrets[1].name=\"own\" is not allowed because service account sa does not reference that imagePullSecret",
            ),
        ] {
            assert_eq!(foreign_secret(&account, &json!({"spec": spec})).unwrap_or_default(), expected);
        }
    }

    #[test]
    fn a_mirror_pod_uses_no_secrets() {
        for (spec, expected) in [
            (json!({"containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}), false),
            (json!({"imagePullSecrets": [{"name": "s"}]}), true),
            (json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}), true),
            (json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]}), true),
            (json!({"volumes": [{"name": "v", "csi": {"nodePublishSecretRef": {"name": "s"}}}]}), true),
            (json!({"ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}]}), true),
        ] {
            assert_eq!(uses_secrets(&json!({"spec": spec})), expected);
        }
    }
}
