//! The objects that every cluster has, made by the API server itself (KAPI-SRV-08).

use futures::future::try_join_all;
use mainstay_rbac::{Reconciled, bootstrap, reconcile};
use mainstay_store::Expect;
use serde_json::{Value, json};

use crate::api::Api;
use crate::error::Result;
use crate::object::{meta, metadata_mut};
use crate::served::Served;
use crate::strategy;

/// Where the API is reached, for the `kubernetes` Service.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// An IP address.
    pub address: String,
    /// The port.
    pub port: u16,
}

/// The CAs that further API servers are told of.
pub struct Authorities<'a> {
    /// Signs client certificates.
    pub clients: &'a str,
    /// Signs the certificate of the aggregation layer.
    pub front_proxy: &'a str,
}

/// Creates what is missing and brings the bootstrap policy up to date.
pub async fn run(api: &Api, endpoint: &Endpoint, authorities: &Authorities<'_>) -> Result<()> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(
            api,
            "",
            "namespaces",
            json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }),
        )
        .await?;
    }
    // Writes that wait together share a commit.
    try_join_all(bootstrap::objects().into_iter().map(|object| policy(api, object))).await?;
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
    ] {
        ensure(
            api,
            "scheduling.k8s.io",
            "priorityclasses",
            json!({
                "metadata": {"name": name, "generation": 1},
                "value": value,
                "description": description,
                "preemptionPolicy": "PreemptLowerPriority",
            }),
        )
        .await?;
    }
    service(api, endpoint).await?;
    crate::apiservices::built_in(api).await?;
    follow(
        api,
        "",
        "configmaps",
        json!({
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": authorities.clients,
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-client-ca-file": authorities.front_proxy,
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
            },
        }),
    )
    .await?;
    for entry in api.cache.resource("core/services").list(&crate::cache::Scope::default()) {
        api.services.note(&entry.value());
    }
    Ok(())
}

async fn ensure(api: &Api, group: &str, plural: &str, mut object: Value) -> Result<()> {
    let served = api.built_in(group, plural)?;
    let (namespace, name) = (meta(&object, "namespace").to_owned(), meta(&object, "name").to_owned());
    if api.load(&served, &namespace, &name).await?.is_some() {
        return Ok(());
    }
    complete(&served, &mut object);
    match api.save(&served, &mut object, Expect::Absent).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        other => other.map(|_| ()),
    }
}

fn complete(served: &Served, object: &mut Value) {
    let metadata = metadata_mut(object);
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), crate::clock::now().into());
    strategy::default(served, object);
    crate::fields::by_server(served, &Value::Null, object, None);
}

async fn policy(api: &Api, wanted: Value) -> Result<()> {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        _ => "rolebindings",
    };
    let served = api.built_in("rbac.authorization.k8s.io", plural)?;
    let live = api.load(&served, meta(&wanted, "namespace"), meta(&wanted, "name")).await?;
    let outcome =
        reconcile(live.as_ref().map(|live| &live.value), &wanted).map_err(|error| crate::error::ApiError::internal(error.to_string()))?;
    match (outcome, live) {
        (Reconciled::Create(mut object), _) => {
            complete(&served, &mut object);
            api.save(&served, &mut object, Expect::Absent).await.map(|_| ())
        }
        (Reconciled::Update(mut object), Some(live)) => {
            crate::fields::by_server(&served, &live.value, &mut object, None);
            api.save(&served, &mut object, Expect::Revision(live.revision)).await.map(|_| ())
        }
        (Reconciled::Recreate(mut object), Some(live)) => {
            api.remove(&served, meta(&live.value, "namespace"), meta(&live.value, "name"), live.revision).await?;
            complete(&served, &mut object);
            api.save(&served, &mut object, Expect::Absent).await.map(|_| ())
        }
        (Reconciled::Nothing | Reconciled::Protected, _) | (_, None) => Ok(()),
    }
}

async fn service(api: &Api, endpoint: &Endpoint) -> Result<()> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    ensure(
        api,
        "",
        "services",
        json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": endpoint.port}],
            },
            "status": {"loadBalancer": {}},
        }),
    )
    .await?;
    follow(
        api,
        "",
        "endpoints",
        json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": endpoint.address}], "ports": [{"name": "https", "port": endpoint.port, "protocol": "TCP"}]}],
        }),
    )
    .await?;
    follow(api, "discovery.k8s.io", "endpointslices", json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "generation": 1, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [endpoint.address], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": endpoint.port, "protocol": "TCP"}],
    }))
    .await
}

/// Like [`ensure`], and the content is kept at what this process says.
async fn follow(api: &Api, group: &str, plural: &str, wanted: Value) -> Result<()> {
    let served = api.built_in(group, plural)?;
    let Some(live) = api.load(&served, meta(&wanted, "namespace"), meta(&wanted, "name")).await? else {
        return ensure(api, group, plural, wanted).await;
    };
    let mut next = live.value.clone();
    for field in ["subsets", "endpoints", "ports", "data"] {
        if let Some(value) = wanted.get(field) {
            next[field] = value.clone();
        }
    }
    if next == live.value {
        return Ok(());
    }
    crate::fields::by_server(&served, &live.value, &mut next, None);
    api.save(&served, &mut next, Expect::Revision(live.revision)).await.map(|_| ())
}
