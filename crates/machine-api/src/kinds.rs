//! The kinds that the controllers read and write.

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_objects::ObjectRef;
use mainstay_runtime::Key;

/// The namespace in which machines are acted upon.
pub const NAMESPACE: &str = "openshift-machine-api";

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownKind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

pub(crate) const MACHINE: KnownKind = of("machine.openshift.io/v1beta1", "Machine", "machines");
pub(crate) const MACHINE_SET: KnownKind = of("machine.openshift.io/v1beta1", "MachineSet", "machinesets");
pub(crate) const HEALTH_CHECK: KnownKind = of("machine.openshift.io/v1beta1", "MachineHealthCheck", "machinehealthchecks");
pub(crate) const CONTROL_PLANE: KnownKind = of("machine.openshift.io/v1", "ControlPlaneMachineSet", "controlplanemachinesets");
pub(crate) const SIM_INSTANCE: KnownKind = of("sim.mainstay.dev/v1alpha1", "SimInstance", "siminstances");
pub(crate) const ETCD_MEMBER: KnownKind = of("sim.mainstay.dev/v1alpha1", "SimEtcdMember", "simetcdmembers");
pub(crate) const DEPLOYMENT: KnownKind = of("apps/v1", "Deployment", "deployments");
pub(crate) const CLUSTER_OPERATOR: KnownKind = of("config.openshift.io/v1", "ClusterOperator", "clusteroperators");
pub(crate) const NODE: KnownKind = of("v1", "Node", "nodes");
pub(crate) const CONFIG_MAP: KnownKind = of("v1", "ConfigMap", "configmaps");
pub(crate) const BUDGET: KnownKind = of("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub(crate) const REQUEST: KnownKind = of("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests");
pub(crate) const INFRASTRUCTURE: KnownKind = of("config.openshift.io/v1", "Infrastructure", "infrastructures");

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
}
