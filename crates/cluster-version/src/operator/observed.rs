//! The objects that the operator reads, from caches that wake its parts.

use std::sync::Arc;

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_api::config_v1::{ClusterOperator, ClusterVersion};
use mainstay_cluster_version_core::inject::Settings;
use mainstay_cluster_version_core::upgradeable::{self, ConfigMap};
use mainstay_release::signature::SignatureConfigMap;
use mainstay_runtime::{Cache, Env, Key, Optional, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::NAME;
use super::state::Part;
use crate::Error;
use crate::updates::Proxy;

/// The namespaces of ConfigMaps: of those that operators keep, and of those that administrators write.
const MANAGED: &str = "openshift-config-managed";
pub(super) const WRITTEN: &str = "openshift-config";
/// The ConfigMap with certificates that are trusted besides.
const TRUSTED: &str = "trusted-ca-bundle";

/// The caches.
pub(super) struct Observed {
    versions: Optional,
    operators: Optional,
    feature_gates: Optional,
    proxies: Optional,
    infrastructures: Optional,
    /// Administrators' gates alone.
    gates: Cache,
    /// The ConfigMaps that administrators write.
    written: Cache,
    /// Trusted certificates alone.
    trusted: Cache,
    /// ConfigMaps with signatures.
    signed: Cache,
    /// The control plane runs elsewhere.
    is_hosted: bool,
}

impl Observed {
    /// Starts the caches; they wake the parts that depend on them.
    pub fn start(client: &Client, env: &Env, is_hosted: bool, queue: &Queue<Part>, stop: &CancellationToken) -> Self {
        let optional = |kind: &str, plural: &str, parts: &'static [Part]| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || parts.iter().for_each(|part| woken.add(*part))).shown(env.metrics())
        };
        let config_maps = |namespace: &str, scope: Scope| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
            let scope = Scope { namespace: Some(namespace.to_owned()), ..scope };
            let cache = Cache::start(client, &resource, &scope, stop).shown(env.metrics());
            let woken = queue.clone();
            cache.on_change(move |_| woken.add(Part::Upgradeable));
            cache
        };
        let named = |name: &str| Scope { fields: Some(format!("metadata.name={name}")), ..Scope::default() };
        Self {
            versions: optional("ClusterVersion", "clusterversions", &[Part::Sync, Part::Upgradeable, Part::Updates]),
            operators: optional("ClusterOperator", "clusteroperators", &[Part::Upgradeable]),
            feature_gates: optional("FeatureGate", "featuregates", &[Part::Sync]),
            proxies: optional("Proxy", "proxies", &[Part::Sync]),
            infrastructures: optional("Infrastructure", "infrastructures", &[Part::Sync]),
            gates: config_maps(MANAGED, named(upgradeable::ADMIN_GATES)),
            trusted: config_maps(MANAGED, named(TRUSTED)),
            written: config_maps(WRITTEN, Scope::default()),
            signed: config_maps(MANAGED, Scope { labels: Some(SignatureConfigMap::LABEL.to_owned()), ..Scope::default() }),
            is_hosted,
        }
    }

    /// Enough is known to judge the wish.
    pub fn is_ready_for_sync(&self) -> bool {
        self.versions.is_known() && self.feature_gates.is_known() && self.proxies.is_known() && self.infrastructures.is_known()
    }

    /// Enough is known to judge condition Upgradeable.
    pub fn is_ready_for_upgradeable(&self) -> bool {
        self.operators.is_known() && self.gates.is_ready() && self.written.is_ready() && self.versions.is_known()
    }

    /// The ClusterVersion as it is, and as it is read.
    pub fn cluster_version(&self) -> Result<Option<(Value, ClusterVersion)>, Error> {
        let Some(live) = self.versions.named(NAME) else { return Ok(None) };
        let unreadable = |source| Error::Object { object: "ClusterVersion version", source };
        let live = serde_json::to_value(&*live).map_err(unreadable)?;
        let read = serde_json::from_value(live.clone()).map_err(unreadable)?;
        Ok(Some((live, read)))
    }

    /// The feature set of the cluster.
    pub fn feature_set(&self) -> String {
        let gate = self.feature_gates.named("cluster");
        gate.and_then(|gate| gate.data["spec"]["featureSet"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Settings of the cluster that manifests get.
    pub fn settings(&self) -> Settings {
        let proxy = self.proxies.named("cluster");
        let infrastructure = self.infrastructures.named("cluster").filter(|_| !self.is_hosted);
        Settings::of(proxy.as_ref().map(|object| &object.data), infrastructure.as_ref().map(|object| &object.data))
    }

    /// The proxy of the cluster and the certificates that are trusted besides.
    pub fn proxy(&self) -> Proxy {
        let Settings { http_proxy, https_proxy, no_proxy, .. } = self.settings();
        let bundle =
            self.trusted.get(&Key::new(MANAGED, TRUSTED)).and_then(|map| map.data["data"]["ca-bundle.crt"].as_str().map(str::to_owned));
        Proxy { http_proxy, https_proxy, no_proxy, trusted: bundle.unwrap_or_default() }
    }

    /// The ClusterOperators by name; `None` if their kind is not served.
    pub fn cluster_operators(&self) -> Result<Option<Vec<ClusterOperator>>, Error> {
        let Some(cache) = self.operators.objects() else { return Ok(None) };
        let read = |object: &Arc<DynamicObject>| serde_json::to_value(&**object).and_then(serde_json::from_value);
        let mut all: Vec<ClusterOperator> = cache
            .all()
            .iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Object { object: "a ClusterOperator", source })?;
        all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        Ok(Some(all))
    }

    /// The signatures that the cluster keeps.
    pub fn signatures(&self) -> Vec<SignatureConfigMap> {
        let objects = self.signed.all();
        let read = objects.iter().filter_map(|object| serde_json::to_value(&**object).ok());
        read.filter_map(|object| SignatureConfigMap::of(&object)).collect()
    }

    /// The gates of administrators.
    pub fn gates(&self) -> ConfigMap {
        config_map(&self.gates, MANAGED, upgradeable::ADMIN_GATES)
    }

    /// A ConfigMap that administrators or the installer write.
    pub fn written(&self, name: &str) -> ConfigMap {
        config_map(&self.written, WRITTEN, name)
    }
}

fn config_map(cache: &Cache, namespace: &str, name: &str) -> ConfigMap {
    let Some(found) = cache.get(&Key::new(namespace, name)) else { return ConfigMap::NotFound };
    let data = found.data["data"].as_object().into_iter().flatten();
    ConfigMap::Data(data.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect())
}
