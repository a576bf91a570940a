//! Accounts, Secrets and namespaces, as administrators change them by `oc`, on any cluster (MS-CLI-10).

use std::collections::BTreeMap;

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Expect, ObjectRef, Patch, Step};
use serde_json::{Value, json};

use crate::apply::execute;
use crate::failure::{not_written, refused};
use crate::session::Session;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The API group of SecurityContextConstraints.
const SECURITY: &str = "security.openshift.io";

/// The use of a Secret by a ServiceAccount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretUse {
    /// Pulls images with it.
    Pull,
    /// May mount it.
    Mount,
}

/// A new namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewNamespace {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub display_name: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// The nodes that its Pods go to.
    pub node_selector: Option<String>,
}

/// Adds a user to the RoleBinding of a ClusterRole's name; it is made if it is missing.
pub async fn add_role(session: &Session, namespace: &str, role: &str, user: &str) -> Result<(), Failure> {
    let object = place(&format!("{RBAC}/v1"), "RoleBinding", namespace, role);
    let subject = subject(user);
    let Some(live) = get(session, &object).await? else {
        return execute(session, &Step::Create(binding(&object, role, &subject))).await;
    };
    if live["roleRef"]["kind"] != "ClusterRole" || live["roleRef"]["name"] != role {
        return Err(Failure::new(FailureKind::Impossible, format!("rolebinding {namespace}/{role}"), "binds another role")
            .because(format!(
                "it binds {} {}",
                live["roleRef"]["kind"].as_str().unwrap_or_default(),
                live["roleRef"]["name"].as_str().unwrap_or_default()
            ))
            .hint(format!("kubectl create rolebinding NAME -n {namespace} --clusterrole {role} --user {user} makes another")));
    }
    add(session, &object, &live, "subjects", subject).await
}

/// Lets a ServiceAccount use a SecurityContextConstraints.
///
/// # Errors
/// The cluster has none: there pod security admission decides, and the hint says which label of the namespace is needed.
pub async fn add_scc(session: &Session, scc: &str, user: &str) -> Result<String, Failure> {
    let groups = session.client.list_api_groups().await.map_err(|error| refused("server", &error))?;
    let role = format!("system:openshift:scc:{scc}");
    if !groups.groups.iter().any(|group| group.name == SECURITY) {
        let level = if matches!(scc, "restricted" | "restricted-v2") {
            "restricted"
        } else if scc == "nonroot" || scc == "nonroot-v2" {
            "baseline"
        } else {
            "privileged"
        };
        let namespace = account(user).map_or("NAMESPACE", |(namespace, _)| namespace);
        return Err(Failure::new(
            FailureKind::Impossible,
            format!("scc {scc}"),
            "the cluster has no SecurityContextConstraints: pod security admission decides there",
        )
        .hint(format!("kubectl label namespace {namespace} pod-security.kubernetes.io/enforce={level} admits such Pods")));
    }
    let object = place(&format!("{RBAC}/v1"), "ClusterRoleBinding", "", &role);
    match get(session, &object).await? {
        None => execute(session, &Step::Create(binding(&object, &role, &subject(user)))).await?,
        Some(live) => add(session, &object, &live, "subjects", subject(user)).await?,
    }
    Ok(role)
}

/// Lets a ServiceAccount use a Secret.
pub async fn link_secret(session: &Session, namespace: &str, account: &str, secret: &str, uses: &[SecretUse]) -> Result<(), Failure> {
    for (kind, name) in [("Secret", secret), ("ServiceAccount", account)] {
        existing(session, &place("v1", kind, namespace, name)).await?;
    }
    let object = place("v1", "ServiceAccount", namespace, account);
    for one in uses {
        let live = existing(session, &object).await?;
        let field = if *one == SecretUse::Pull { "imagePullSecrets" } else { "secrets" };
        add(session, &object, &live, field, json!({"name": secret})).await?;
    }
    Ok(())
}

/// The content of a Secret or a ConfigMap, by key.
pub async fn data(session: &Session, kind: &str, namespace: &str, name: &str) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let live = existing(session, &place("v1", kind, namespace, name)).await?;
    let subject = || format!("{} {namespace}/{name}", kind.to_lowercase());
    let mut all = BTreeMap::new();
    for (field, encoded) in [("data", kind == "Secret"), ("binaryData", true)] {
        for (key, value) in live[field].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let bytes = if encoded {
                decoded(text).ok_or_else(|| Failure::new(FailureKind::Failed, subject(), format!("key {key} is not base64")))?
            } else {
                text.as_bytes().to_vec()
            };
            all.insert(key.clone(), bytes);
        }
    }
    Ok(all)
}

/// Sets keys of a Secret or a ConfigMap; others stay.
pub async fn set_data(session: &Session, kind: &str, namespace: &str, name: &str, set: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    let object = place("v1", kind, namespace, name);
    let live = existing(session, &object).await?;
    let mut patch = json!({"metadata": {"uid": live["metadata"]["uid"]}});
    for (key, bytes) in set {
        match (kind, std::str::from_utf8(bytes)) {
            ("ConfigMap", Ok(text)) => patch["data"][key] = text.into(),
            ("ConfigMap", Err(_)) => patch["binaryData"][key] = encoded(bytes).into(),
            _ => patch["data"][key] = encoded(bytes).into(),
        }
    }
    execute(session, &Step::Patch { object, subresource: String::new(), patch: Patch::Merge(patch) }).await
}

/// Makes a namespace with what `oc new-project` writes about it.
pub async fn new_namespace(session: &Session, new: &NewNamespace) -> Result<(), Failure> {
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": new.name}});
    for (key, value) in [("display-name", &new.display_name), ("description", &new.description), ("node-selector", &new.node_selector)] {
        if let Some(value) = value {
            object["metadata"]["annotations"][format!("openshift.io/{key}")] = value.as_str().into();
        }
    }
    execute(session, &Step::Create(object)).await
}

/// Refuses a namespace that is not there.
pub async fn namespace_exists(session: &Session, name: &str) -> Result<(), Failure> {
    existing(session, &place("v1", "Namespace", "", name)).await.map(drop)
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

async fn get(session: &Session, object: &ObjectRef) -> Result<Option<Value>, Failure> {
    session.writer.get(object).await.map_err(|error| not_written(&error))
}

async fn existing(session: &Session, object: &ObjectRef) -> Result<Value, Failure> {
    get(session, object).await?.ok_or_else(|| Failure::new(FailureKind::NotFound, object.to_string(), "not found"))
}

/// Adds an item to a list of an object unless it is there; another writer of the object meanwhile is a conflict.
async fn add(session: &Session, object: &ObjectRef, live: &Value, field: &str, item: Value) -> Result<(), Failure> {
    let mut list = live[field].as_array().cloned().unwrap_or_default();
    if list.contains(&item) {
        return Ok(());
    }
    list.push(item);
    let expect = Expect::exactly(live);
    let mut patch = json!({"metadata": {}});
    for (key, value) in expect.members() {
        patch["metadata"][key] = value.as_str().into();
    }
    patch[field] = list.into();
    execute(session, &Step::Patch { object: object.clone(), subresource: String::new(), patch: Patch::Merge(patch) }).await
}

fn binding(object: &ObjectRef, role: &str, subject: &Value) -> Value {
    let mut binding = json!({"apiVersion": object.api_version, "kind": object.kind, "metadata": {"name": object.name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": [subject]});
    if !object.namespace.is_empty() {
        binding["metadata"]["namespace"] = object.namespace.clone().into();
    }
    binding
}

/// The namespace and the name of a ServiceAccount's user name.
fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

fn subject(user: &str) -> Value {
    match account(user) {
        Some((namespace, name)) => json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}),
        None => json!({"apiGroup": RBAC, "kind": "User", "name": user}),
    }
}

fn encoded(bytes: &[u8]) -> String {
    use k8s_openapi::ByteString;
    let text = serde_json::to_value(ByteString(bytes.to_vec())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    serde_json::from_value::<k8s_openapi::ByteString>(text.into()).ok().map(|bytes| bytes.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_accounts() {
        assert_eq!(subject("system:serviceaccount:a:b"), json!({"kind": "ServiceAccount", "namespace": "a", "name": "b"}));
        assert_eq!(subject("ada"), json!({"apiGroup": RBAC, "kind": "User", "name": "ada"}));
        assert_eq!(decoded(&encoded(b"\x00a\xff")).as_deref(), Some(&b"\x00a\xff"[..]));
        assert_eq!(decoded("*"), None);
    }
}
