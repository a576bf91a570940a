//! The objects that every cluster has, made by the API server itself (KAPI-SRV-08).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use mainstay_rbac::{Reconciled, bootstrap, reconcile};
use mainstay_store::Expect;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::cache::{Change, Scope};
use crate::error::Result;
use crate::object::{meta, metadata_mut};
use crate::object_store::{ObjectStore, retry_on_conflict};
use crate::served::Served;
use crate::services::Allocators;
use crate::strategy;

/// The address of an API server, for the `kubernetes` Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The parts of the server that its own objects are kept with.
#[derive(Clone)]
pub struct Parts {
    /// The objects.
    pub objects: Arc<ObjectStore>,
    /// The pools that the Service `kubernetes` has its address of.
    pub services: Arc<Allocators>,
}

/// Creates what is missing and brings the bootstrap policy up to date.
pub async fn run(parts: &Parts, endpoint: &Endpoint, authorities: &Authorities<'_>) -> Result<()> {
    namespaces(parts).await?;
    // Writes that wait together share a commit.
    try_join_all(bootstrap::objects().into_iter().map(|object| retry_on_conflict(move || policy(parts, object.clone())))).await?;
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
    ] {
        ensure(
            parts,
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
    retry_on_conflict(|| reachable(parts, endpoint)).await?;
    retry_on_conflict(|| crate::apiservices::built_in(&parts.objects)).await?;
    let authentication = json!({
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": authorities.clients,
            "requestheader-allowed-names": "[\"front-proxy-client\"]",
            "requestheader-client-ca-file": authorities.front_proxy,
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        },
    });
    retry_on_conflict(|| follow(parts, "", "configmaps", authentication.clone())).await?;
    if parts.objects.store.shared() {
        // What other servers give out is seen here, so that it is not tried in vain.
        let services = parts.services.clone();
        parts.objects.cache.observe(Box::new(move |resource, change| {
            if resource == "core/services" {
                let (now, before) = (change.now.as_ref().map(|now| now.value()), change.before.as_ref().map(|before| before.value()));
                if let Some(before) = &before {
                    services.forget(before, now.as_ref());
                }
                if let Some(now) = &now {
                    services.note(now);
                }
            }
        }));
    }
    for entry in parts.objects.cache.resource("core/services").list(&crate::cache::Scope::default()) {
        parts.services.note(&entry.value());
    }
    Ok(())
}

async fn namespaces(parts: &Parts) -> Result<()> {
    for name in NAMESPACES {
        ensure(
            parts,
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
    Ok(())
}

/// Brings back what is deleted of the built-in namespaces and of the Service `kubernetes` with its endpoints, until the server ends
/// (KAPI-SRV-08). Everything else is made at start only, as in Kubernetes.
pub async fn keep(parts: Parts, endpoint: Endpoint, closing: CancellationToken) {
    let changed = Arc::new(Notify::new());
    let wake = changed.clone();
    parts.objects.cache.observe(Box::new(move |resource, change| {
        if is_kept(resource, change) {
            wake.notify_one();
        }
    }));
    loop {
        let kept = match retry_on_conflict(|| namespaces(&parts)).await {
            // Where several servers share a store, the endpoints are looked after by `members`.
            Ok(()) if parts.objects.store.shared() => retry_on_conflict(|| service(&parts, &endpoint)).await,
            Ok(()) => retry_on_conflict(|| reachable(&parts, &endpoint)).await,
            refused => refused,
        };
        if let Err(error) = &kept {
            tracing::warn!(%error, "the built-in objects are not complete");
        }
        tokio::select! {
            () = closing.cancelled() => return,
            () = changed.notified() => {}
            () = tokio::time::sleep(AGAIN), if kept.is_err() => {}
        }
    }
}

/// Returns whether a change takes away, or alters, one of the objects that are kept.
fn is_kept(resource: &str, change: &Change) -> bool {
    let Some(before) = &change.before else { return false };
    match resource {
        "core/namespaces" => change.now.is_none() && NAMESPACES.contains(&before.name()),
        "core/services" => change.now.is_none() && (before.namespace(), before.name()) == ("default", "kubernetes"),
        "core/endpoints" | "discovery.k8s.io/endpointslices" => (before.namespace(), before.name()) == ("default", "kubernetes"),
        _ => false,
    }
}

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The pause before a failed step is tried again.
const AGAIN: Duration = Duration::from_secs(10);

async fn ensure(parts: &Parts, group: &str, plural: &str, mut object: Value) -> Result<()> {
    let served = parts.objects.built_in(group, plural)?;
    let (namespace, name) = (meta(&object, "namespace").to_owned(), meta(&object, "name").to_owned());
    if parts.objects.load(&served, &namespace, &name).await?.is_some() {
        return Ok(());
    }
    complete(&served, &mut object);
    match parts.objects.save(&served, &mut object, Expect::Absent).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            if served.is("", "services") {
                // Nobody else gets the address.
                parts.services.note(&object);
            }
            Ok(())
        }
    }
}

fn complete(served: &Served, object: &mut Value) {
    let metadata = metadata_mut(object);
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".into(), crate::clock::now().into());
    strategy::default(served, object);
    crate::fields::by_server(served, &Value::Null, object, None);
}

async fn policy(parts: &Parts, wanted: Value) -> Result<()> {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "Role" => "roles",
        _ => "rolebindings",
    };
    let served = parts.objects.built_in("rbac.authorization.k8s.io", plural)?;
    let live = parts.objects.load(&served, meta(&wanted, "namespace"), meta(&wanted, "name")).await?;
    let outcome =
        reconcile(live.as_ref().map(|live| &live.value), &wanted).map_err(|error| crate::error::ApiError::internal(error.to_string()))?;
    match (outcome, live) {
        (Reconciled::Create(mut object), _) => {
            complete(&served, &mut object);
            parts.objects.save(&served, &mut object, Expect::Absent).await.map(|_| ())
        }
        (Reconciled::Update(mut object), Some(live)) => {
            crate::fields::by_server(&served, &live.value, &mut object, None);
            parts.objects.save(&served, &mut object, Expect::Revision(live.revision)).await.map(|_| ())
        }
        (Reconciled::Recreate(mut object), Some(live)) => {
            parts.objects.remove(&served, meta(&live.value, "namespace"), meta(&live.value, "name"), live.revision).await?;
            complete(&served, &mut object);
            parts.objects.save(&served, &mut object, Expect::Absent).await.map(|_| ())
        }
        (Reconciled::Nothing | Reconciled::Protected, _) | (_, None) => Ok(()),
    }
}

async fn service(parts: &Parts, endpoint: &Endpoint) -> Result<()> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    ensure(
        parts,
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
    .await
}

/// The Service `kubernetes`, and this server among its endpoints.
async fn reachable(parts: &Parts, endpoint: &Endpoint) -> Result<()> {
    service(parts, endpoint).await?;
    if parts.objects.store.shared() {
        crate::members::Members::default().renew(parts, endpoint).await
    } else {
        endpoints(parts, &BTreeSet::from([endpoint.clone()])).await
    }
}

/// Makes these servers the endpoints of the Service `kubernetes`.
pub async fn endpoints(parts: &Parts, all: &BTreeSet<Endpoint>) -> Result<()> {
    let mut ports: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for endpoint in all {
        ports.entry(endpoint.port).or_default().push(&endpoint.address);
    }
    let subset = |(port, addresses): (&u16, &Vec<&str>)| {
        let addresses: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
    };
    follow(
        parts,
        "",
        "endpoints",
        json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": ports.iter().map(subset).collect::<Vec<_>>(),
        }),
    )
    .await?;
    let served = parts.objects.built_in("discovery.k8s.io", "endpointslices")?;
    let slices = slices(&ports);
    for slice in &slices {
        follow(parts, "discovery.k8s.io", "endpointslices", slice.clone()).await?;
    }
    // The port of a server that is gone takes its slice along.
    let scope = Scope { namespace: "default".to_owned(), name: String::new() };
    for entry in parts.objects.cache.resource(&served.storage).list(&scope) {
        let gone = entry.name().starts_with(FURTHER) && slices.iter().all(|slice| meta(slice, "name") != entry.name());
        if let (true, Some(live)) = (gone, parts.objects.load(&served, "default", entry.name()).await?) {
            parts.objects.remove(&served, "default", entry.name(), live.revision).await?;
        }
    }
    Ok(())
}

/// The names of the slices beside `kubernetes` begin so; a port follows.
const FURTHER: &str = "kubernetes-port-";

/// One slice a port, since a slice has one list of ports: servers of one cluster listen on the same one, unless they share a machine.
fn slices(ports: &BTreeMap<u16, Vec<&str>>) -> Vec<Value> {
    let slice = |name: String, port: Option<(u16, &[&str])>| {
        let conditions = json!({"ready": true});
        let addresses = port.map_or(&[] as &[&str], |(_, addresses)| addresses);
        let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address], "conditions": conditions})).collect();
        let ports: Vec<Value> = port.iter().map(|(port, _)| json!({"name": "https", "port": port, "protocol": "TCP"})).collect();
        json!({
            "metadata": {"name": name, "namespace": "default", "generation": 1, "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": ports,
        })
    };
    if ports.is_empty() {
        return vec![slice("kubernetes".to_owned(), None)];
    }
    let named = ports.iter().enumerate().map(|(index, (port, addresses))| {
        let name = if index == 0 { "kubernetes".to_owned() } else { format!("{FURTHER}{port}") };
        slice(name, Some((*port, addresses)))
    });
    named.collect()
}

/// Like [`ensure`], and the content is kept at what this process says.
async fn follow(parts: &Parts, group: &str, plural: &str, wanted: Value) -> Result<()> {
    let served = parts.objects.built_in(group, plural)?;
    let Some(live) = parts.objects.load(&served, meta(&wanted, "namespace"), meta(&wanted, "name")).await? else {
        return ensure(parts, group, plural, wanted).await;
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
    parts.objects.save(&served, &mut next, Expect::Revision(live.revision)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-STORE-03: each port on which servers listen has a slice, `kubernetes` first; no server, one slice without endpoints.
    #[test]
    fn a_slice_for_each_port() {
        let shown = |ports: &[(u16, &[&'static str])]| {
            let line = |slice: &Value| {
                let addresses = slice["endpoints"].as_array().into_iter().flatten().filter_map(|one| one["addresses"][0].as_str());
                format!("{} {} {}", meta(slice, "name"), slice["ports"][0]["port"], addresses.collect::<Vec<_>>().join(" "))
            };
            let ports = ports.iter().map(|(port, addresses)| (*port, addresses.to_vec())).collect();
            slices(&ports).iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(shown(&[]), ["kubernetes null "]);
        assert_eq!(shown(&[(6443, &["10.0.0.1", "10.0.0.2"])]), ["kubernetes 6443 10.0.0.1 10.0.0.2"]);
        assert_eq!(
            shown(&[(6444, &["127.0.0.1"]), (6443, &["127.0.0.1"])]),
            ["kubernetes 6443 127.0.0.1", "kubernetes-port-6444 6444 127.0.0.1"]
        );
    }
}
