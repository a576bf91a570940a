//! The kinds that are read and written.

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_objects::ObjectRef;
use mainstay_runtime::Key;

/// The namespace in which sets of machines are scaled.
pub const NAMESPACE: &str = "openshift-machine-api";

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownKind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

pub(crate) const CLUSTER_AUTOSCALER: KnownKind = of("autoscaling.openshift.io/v1", "ClusterAutoscaler", "clusterautoscalers");
pub(crate) const MACHINE_AUTOSCALER: KnownKind = of("autoscaling.openshift.io/v1beta1", "MachineAutoscaler", "machineautoscalers");
pub(crate) const MACHINE_SET: KnownKind = of("machine.openshift.io/v1beta1", "MachineSet", "machinesets");
pub(crate) const MACHINE: KnownKind = of("machine.openshift.io/v1beta1", "Machine", "machines");
pub(crate) const NODE: KnownKind = of("v1", "Node", "nodes");
pub(crate) const POD: KnownKind = of("v1", "Pod", "pods");
pub(crate) const BUDGET: KnownKind = of("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub(crate) const DAEMON_SET: KnownKind = of("apps/v1", "DaemonSet", "daemonsets");
pub(crate) const PROJECT: KnownKind = of("v1", "Namespace", "namespaces");
pub(crate) const CLAIM: KnownKind = of("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) const VOLUME: KnownKind = of("v1", "PersistentVolume", "persistentvolumes");
pub(crate) const CLASS: KnownKind = of("storage.k8s.io/v1", "StorageClass", "storageclasses");
pub(crate) const CONFIG_MAP: KnownKind = of("v1", "ConfigMap", "configmaps");
pub(crate) const CLUSTER_OPERATOR: KnownKind = of("config.openshift.io/v1", "ClusterOperator", "clusteroperators");

const fn of(api_version: &'static str, kind: &'static str, plural: &'static str) -> KnownKind {
    KnownKind { api_version, kind, plural }
}

impl KnownKind {
    pub fn resource(self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.kind), self.plural)
    }

    pub fn at(self, key: &Key) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }

    /// Returns an object of this kind as JSON, with its kind, as copies leave that out.
    pub fn value(self, object: &kube::api::DynamicObject) -> Result<serde_json::Value, serde_json::Error> {
        let mut value = serde_json::to_value(object)?;
        value["apiVersion"] = self.api_version.into();
        value["kind"] = self.kind.into();
        Ok(value)
    }
}
