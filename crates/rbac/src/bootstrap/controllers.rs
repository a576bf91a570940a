//! The identities of the controllers in kube-controller-manager: a role, and a binding to the account of the same name in kube-system.

use super::{READ, events, rule};
use crate::PolicyRule;

pub(super) fn role_name(controller: &str) -> String {
    format!("system:controller:{controller}")
}

const STORAGE: &str = "storage.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const POLICY: &str = "policy";
const ADMISSION: &str = "admissionregistration.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
/// The groups of workloads, which moved from one to the other long ago; the policy still names both.
const WORKLOADS: &str = "apps extensions";

pub(super) fn table() -> Vec<(&'static str, Vec<PolicyRule>)> {
    let mut table = workloads();
    table.extend(volumes());
    table.extend(network());
    table.extend(housekeeping());
    table
}

type Rows = Vec<(&'static str, Vec<PolicyRule>)>;

fn workloads() -> Rows {
    vec![
        (
            "cronjob-controller",
            vec![
                rule("get list update watch", "batch", "cronjobs"),
                rule("create delete get list patch update watch", "batch", "jobs"),
                rule("update", "batch", "cronjobs/status"),
                rule("update", "batch", "cronjobs/finalizers"),
                rule("delete list", "core", "pods"),
                events(),
            ],
        ),
        (
            "daemon-set-controller",
            vec![
                rule(READ, WORKLOADS, "daemonsets"),
                rule("update", WORKLOADS, "daemonsets/status"),
                rule("update", WORKLOADS, "daemonsets/finalizers"),
                rule("list watch", "core", "nodes"),
                rule("create delete list patch watch", "core", "pods"),
                rule("create", "core", "pods/binding"),
                rule("create delete get list patch update watch", "apps", "controllerrevisions"),
                events(),
            ],
        ),
        (
            "deployment-controller",
            vec![
                rule("get list update watch", WORKLOADS, "deployments"),
                rule("update", WORKLOADS, "deployments/status"),
                rule("update", WORKLOADS, "deployments/finalizers"),
                rule("create delete get list patch update watch", WORKLOADS, "replicasets"),
                rule("get list update watch", "core", "pods"),
                events(),
            ],
        ),
        (
            "job-controller",
            vec![
                rule("get list patch update watch", "batch", "jobs"),
                rule("update", "batch", "jobs/status"),
                rule("update", "batch", "jobs/finalizers"),
                rule("create delete list patch watch", "core", "pods"),
                events(),
            ],
        ),
        (
            "replicaset-controller",
            vec![
                rule("get list update watch", WORKLOADS, "replicasets"),
                rule("update", WORKLOADS, "replicasets/status"),
                rule("update", WORKLOADS, "replicasets/finalizers"),
                rule("create delete list patch watch", "core", "pods"),
                events(),
            ],
        ),
        (
            "replication-controller",
            vec![
                rule("get list update watch", "core", "replicationcontrollers"),
                rule("update", "core", "replicationcontrollers/status"),
                rule("update", "core", "replicationcontrollers/finalizers"),
                rule("create delete list patch watch", "core", "pods"),
                events(),
            ],
        ),
        (
            "statefulset-controller",
            vec![
                rule("list watch", "core", "pods"),
                rule(READ, "apps", "statefulsets"),
                rule("update", "apps", "statefulsets/status"),
                rule("update", "apps", "statefulsets/finalizers"),
                rule("create delete get patch update", "core", "pods"),
                rule("create delete get list patch update watch", "apps", "controllerrevisions"),
                rule("create get", "core", "persistentvolumeclaims"),
                events(),
                rule("delete update", "core", "persistentvolumeclaims"),
            ],
        ),
        (
            "disruption-controller",
            vec![
                rule(READ, WORKLOADS, "deployments"),
                rule(READ, WORKLOADS, "replicasets"),
                rule(READ, "core", "replicationcontrollers"),
                rule(READ, POLICY, "poddisruptionbudgets"),
                rule(READ, "apps", "statefulsets"),
                rule("update", POLICY, "poddisruptionbudgets/status"),
                rule("patch", "core", "pods/status"),
                rule("get", "*", "*/scale"),
                events(),
            ],
        ),
        (
            "horizontal-pod-autoscaler",
            vec![
                rule(READ, "autoscaling", "horizontalpodautoscalers"),
                rule("update", "autoscaling", "horizontalpodautoscalers/status"),
                rule("get update", "*", "*/scale"),
                rule("list", "core", "pods"),
                rule("list", "metrics.k8s.io", "pods"),
                rule("get list", "custom.metrics.k8s.io", "*"),
                rule("get list", "external.metrics.k8s.io", "*"),
                events(),
            ],
        ),
        (
            "resource-claim-controller",
            vec![
                rule(READ, "core", "pods"),
                rule("update", "core", "pods/finalizers"),
                rule("create delete get list watch", RESOURCE, "resourceclaims"),
                rule(READ, RESOURCE, "resourceclaimtemplates"),
                rule("patch update", RESOURCE, "resourceclaims resourceclaims/status"),
                rule("patch update", "core", "pods/status"),
                events(),
            ],
        ),
    ]
}

fn volumes() -> Rows {
    vec![
        (
            "attachdetach-controller",
            vec![
                rule("list watch", "core", "persistentvolumeclaims persistentvolumes"),
                rule(READ, "core", "nodes"),
                rule("patch update", "core", "nodes/status"),
                rule("list watch", "core", "pods"),
                events(),
                rule("create delete get list watch", STORAGE, "volumeattachments"),
                rule(READ, STORAGE, "csidrivers"),
                rule(READ, STORAGE, "csinodes"),
            ],
        ),
        (
            "ephemeral-volume-controller",
            vec![
                rule(READ, "core", "pods"),
                rule("update", "core", "pods/finalizers"),
                rule("create get list watch", "core", "persistentvolumeclaims"),
                events(),
            ],
        ),
        (
            "expand-controller",
            vec![
                rule("get list patch update watch", "core", "persistentvolumes"),
                rule("patch update", "core", "persistentvolumeclaims/status"),
                rule(READ, "core", "persistentvolumeclaims"),
                rule(READ, STORAGE, "storageclasses"),
                rule("get", "core", "endpoints services"),
                rule("get", "core", "secrets"),
                events(),
            ],
        ),
        (
            "persistent-volume-binder",
            vec![
                rule("create delete get list update watch", "core", "persistentvolumes"),
                rule("update", "core", "persistentvolumes/status"),
                rule("get list update watch", "core", "persistentvolumeclaims"),
                rule("update", "core", "persistentvolumeclaims/status"),
                rule("create delete get list watch", "core", "pods"),
                rule(READ, STORAGE, "storageclasses"),
                rule("create delete get update", "core", "endpoints services"),
                rule("get list", "core", "secrets"),
                rule("get list", "core", "nodes"),
                events(),
                rule("watch", "core", "events"),
            ],
        ),
        (
            "pvc-protection-controller",
            vec![rule("get list update watch", "core", "persistentvolumeclaims"), rule(READ, "core", "pods"), events()],
        ),
        ("pv-protection-controller", vec![rule("get list update watch", "core", "persistentvolumes"), events()]),
        (
            "volumeattributesclass-protection-controller",
            vec![
                rule(READ, "core", "persistentvolumeclaims"),
                rule(READ, "core", "persistentvolumes"),
                rule("get list update watch", STORAGE, "volumeattributesclasses"),
                events(),
            ],
        ),
    ]
}

fn network() -> Rows {
    vec![
        (
            "endpoint-controller",
            vec![
                rule(READ, "core", "pods services"),
                rule("create delete get list update", "core", "endpoints"),
                rule("create", "core", "endpoints/restricted"),
                events(),
            ],
        ),
        (
            "endpointslice-controller",
            vec![
                rule(READ, "core", "nodes pods services"),
                rule("update", "core", "services/finalizers"),
                rule("create delete get list update", DISCOVERY, "endpointslices"),
                rule("create", DISCOVERY, "endpointslices/restricted"),
                events(),
            ],
        ),
        (
            "endpointslicemirroring-controller",
            vec![
                rule(READ, "core", "endpoints services"),
                rule("update", "core", "services/finalizers"),
                rule("update", "core", "endpoints/finalizers"),
                rule("create delete get list update", DISCOVERY, "endpointslices"),
                rule("create", DISCOVERY, "endpointslices/restricted"),
                events(),
            ],
        ),
        ("route-controller", vec![rule("list watch", "core", "nodes"), rule("patch", "core", "nodes/status"), events()]),
        (
            "service-controller",
            vec![
                rule(READ, "core", "services"),
                rule("patch update", "core", "services/status"),
                rule("list watch", "core", "nodes"),
                events(),
            ],
        ),
        (
            "service-cidrs-controller",
            vec![
                rule("get list patch update watch", NETWORKING, "servicecidrs"),
                rule("patch update", NETWORKING, "servicecidrs/finalizers"),
                rule("patch update", NETWORKING, "servicecidrs/status"),
                rule(READ, NETWORKING, "ipaddresses"),
                events(),
            ],
        ),
    ]
}

fn housekeeping() -> Rows {
    vec![
        (
            "certificate-controller",
            vec![
                rule("delete get list watch", CERTIFICATES, "certificatesigningrequests"),
                rule("update", CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
                rule("approve", CERTIFICATES, "signers").named(&["kubernetes.io/kube-apiserver-client-kubelet"]),
                rule("sign", CERTIFICATES, "signers").named(&[
                    "kubernetes.io/kube-apiserver-client",
                    "kubernetes.io/kube-apiserver-client-kubelet",
                    "kubernetes.io/kubelet-serving",
                    "kubernetes.io/legacy-unknown",
                ]),
                rule("create", "authorization.k8s.io", "subjectaccessreviews"),
                events(),
            ],
        ),
        (
            "clusterrole-aggregation-controller",
            vec![rule("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles")],
        ),
        ("generic-garbage-collector", vec![rule("delete get list patch update watch", "*", "*"), events()]),
        (
            "namespace-controller",
            vec![
                rule("delete get list watch", "core", "namespaces"),
                rule("update", "core", "namespaces/finalize namespaces/status"),
                rule("delete deletecollection get list", "*", "*"),
            ],
        ),
        (
            "node-controller",
            vec![
                rule("delete get list patch update", "core", "nodes"),
                rule("patch update", "core", "nodes/status"),
                rule("patch update", "core", "pods/status"),
                rule("delete list", "core", "pods"),
                events(),
                rule("get", "core", "pods"),
            ],
        ),
        (
            "pod-garbage-collector",
            vec![rule("delete list watch", "core", "pods"), rule("get list", "core", "nodes"), rule("patch", "core", "pods/status")],
        ),
        ("resourcequota-controller", vec![rule("list watch", "*", "*"), rule("update", "core", "resourcequotas/status"), events()]),
        ("root-ca-cert-publisher", vec![rule("create update", "core", "configmaps"), events()]),
        ("service-account-controller", vec![rule("create", "core", "serviceaccounts"), events()]),
        (
            "legacy-service-account-token-cleaner",
            vec![
                rule("get", "core", "configmaps").named(&["kube-apiserver-legacy-service-account-token-tracking"]),
                rule("delete patch", "core", "secrets"),
            ],
        ),
        ("ttl-controller", vec![rule("list patch update watch", "core", "nodes"), events()]),
        ("ttl-after-finished-controller", vec![rule("delete get list watch", "batch", "jobs"), events()]),
        (
            "validatingadmissionpolicy-status-controller",
            vec![
                rule(READ, ADMISSION, "validatingadmissionpolicies"),
                rule("get patch update", ADMISSION, "validatingadmissionpolicies/status"),
                events(),
            ],
        ),
    ]
}
