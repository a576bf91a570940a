//! The facts of the cluster that a step depends on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_apply::Writer;
use mainstay_machine_config_core::NAMESPACE;
use mainstay_machine_config_core::disruption::RegistryDrain;
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::policy::{Policies, merged};
use mainstay_machine_config_core::pool::membership::{SelectingPool, membership};
use mainstay_machine_config_core::pool::node::{Node, annotation};
use mainstay_objects::ObjectRef;
use serde_json::Value;

use crate::Error;

const GROUP: &str = "machineconfiguration.openshift.io";
const V1: &str = "machineconfiguration.openshift.io/v1";
/// The most pools that are read.
const MOST_POOLS: u32 = 500;

/// The facts.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub pool: String,
    pub first: Option<MachineConfig>,
    pub current: Option<MachineConfig>,
    pub desired: Option<MachineConfig>,
    pub policies: Option<Policies>,
    pub registries: RegistryDrain,
    /// The authority of the kubelet, and the version of the ControllerConfig that it is from.
    pub authority: Option<(Vec<u8>, String)>,
}

/// Reads the facts about a node.
pub(crate) async fn gather(client: &Client, writer: &Writer, node: &Node, is_new: bool) -> Result<Gathered, Error> {
    let pools = pools(client).await?;
    let pool = pool_of(node, &pools);
    let first = match pool.as_deref().filter(|_| is_new && node.filled(annotation::CURRENT_CONFIG).is_none()) {
        Some(pool) => {
            let found = pools.iter().find(|object| object["metadata"]["name"] == pool);
            let of = |part: &str| found?[part]["configuration"]["name"].as_str().filter(|name| !name.is_empty());
            machine_config(writer, of("status").or_else(|| of("spec"))).await?
        }
        None => None,
    };
    let get = |api_version: &str, kind: &str, namespace: &str, name: &str| {
        let place = ObjectRef {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        async move { writer.get(&place).await }
    };
    let override_map = get("v1", "ConfigMap", NAMESPACE, "image-registry-override-drain").await?;
    let controller = get(V1, "ControllerConfig", "", "machine-config-controller").await?;
    let settings = get("operator.openshift.io/v1", "MachineConfiguration", "", "cluster").await?;
    Ok(Gathered {
        first,
        current: machine_config(writer, node.filled(annotation::CURRENT_CONFIG).filter(|_| is_new)).await?,
        desired: machine_config(writer, node.filled(annotation::DESIRED_CONFIG)).await?,
        policies: settings.as_ref().map(policies).transpose()?.flatten(),
        registries: if override_map.is_some() { RegistryDrain::Overridden } else { RegistryDrain::AsNeeded },
        authority: controller.as_ref().and_then(authority),
        pool: pool.unwrap_or_default(),
    })
}

async fn pools(client: &Client) -> Result<Vec<Value>, Error> {
    let gvk = GroupVersionKind::gvk(GROUP, "v1", "MachineConfigPool");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "machineconfigpools"));
    let list = api.list(&ListParams::default().limit(MOST_POOLS)).await?;
    list.items.iter().map(|pool| Ok(serde_json::to_value(pool)?)).collect()
}

fn pool_of(node: &Node, pools: &[Value]) -> Option<String> {
    let selecting: Vec<SelectingPool> = pools
        .iter()
        .map(|pool| SelectingPool {
            name: pool["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            node_selector: serde_json::from_value(pool["spec"]["nodeSelector"].clone()).ok(),
        })
        .collect();
    match membership(&node.name, &node.labels, &selecting) {
        Ok(found) => found.and_then(|found| found.pools.into_iter().next()),
        Err(error) => {
            tracing::warn!(%error, node = node.name, "can't get pool for node");
            None
        }
    }
}

async fn machine_config(writer: &Writer, name: Option<&str>) -> Result<Option<MachineConfig>, Error> {
    let Some(name) = name else { return Ok(None) };
    let place = ObjectRef { api_version: V1.to_owned(), kind: "MachineConfig".to_owned(), namespace: String::new(), name: name.to_owned() };
    let Some(found) = writer.get(&place).await? else { return Ok(None) };
    match MachineConfig::from_object(&found) {
        // Labels are no part of what is written.
        Ok(config) => Ok(Some(MachineConfig { labels: None, ..config })),
        Err(error) => {
            tracing::warn!(%error, name, "a MachineConfig cannot be read");
            Ok(None)
        }
    }
}

/// The policies that count; none while their status is not up to date.
fn policies(live: &Value) -> Result<Option<Policies>, Error> {
    if live["status"]["observedGeneration"] != live["metadata"]["generation"] {
        return Ok(None);
    }
    let user: Option<Policies> = serde_json::from_value(live["spec"]["nodeDisruptionPolicy"].clone())?;
    Ok(Some(merged(&user.unwrap_or_default())))
}

fn authority(controller: &Value) -> Option<(Vec<u8>, String)> {
    let text = controller.pointer("/spec/kubeAPIServerServingCAData")?.as_str()?;
    let version = controller.pointer("/metadata/resourceVersion")?.as_str()?.to_owned();
    Some((STANDARD.decode(text).ok()?, version))
}
