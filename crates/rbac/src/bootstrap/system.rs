//! Roles of the system: discovery, nodes, scheduler, controller manager, approvers and the like.

use serde_json::Value;

use super::{READ, cluster_role, events, rule, urls};
use crate::PolicyRule;

const CERTIFICATES: &str = "certificates.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const LEASES: &str = "coordination.k8s.io";

pub(super) fn roles() -> Vec<Value> {
    table().iter().map(|(name, rules)| cluster_role(name, rules)).collect()
}

fn table() -> Vec<(&'static str, Vec<PolicyRule>)> {
    let mut table = vec![
        ("system:discovery", vec![urls("/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")]),
        ("system:monitoring", vec![urls("/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")]),
        (
            "system:basic-user",
            vec![
                rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
                rule("create", "authentication.k8s.io", "selfsubjectreviews"),
            ],
        ),
        ("system:public-info-viewer", vec![urls("/livez /readyz /healthz /version /version/")]),
        (
            "system:service-account-issuer-discovery",
            vec![urls("/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/")],
        ),
        ("system:heapster", vec![rule(READ, "core", "events pods nodes namespaces"), rule(READ, "extensions", "deployments")]),
        ("system:node", node()),
        ("system:node-problem-detector", vec![rule("get", "core", "nodes"), rule("patch", "core", "nodes/status"), events()]),
        (
            "system:node-proxier",
            vec![
                rule("list watch", "core", "services endpoints"),
                rule(READ, "core", "nodes"),
                events(),
                rule("list watch", "discovery.k8s.io", "endpointslices"),
                rule("list watch", "networking.k8s.io", "servicecidrs"),
            ],
        ),
        (
            "system:kubelet-api-admin",
            vec![
                rule(READ, "core", "nodes"),
                rule("proxy", "core", "nodes"),
                rule("*", "core", "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
            ],
        ),
        ("system:node-bootstrapper", vec![rule("create get list watch", CERTIFICATES, "certificatesigningrequests")]),
        ("system:auth-delegator", auth_delegation()),
        ("system:kube-aggregator", vec![rule(READ, "core", "services endpoints"), rule(READ, "discovery.k8s.io", "endpointslices")]),
        ("system:kube-controller-manager", kube_controller_manager()),
        ("system:kube-dns", vec![rule("list watch", "core", "endpoints services"), rule(READ, "discovery.k8s.io", "endpointslices")]),
        (
            "system:persistent-volume-provisioner",
            vec![
                rule("get list watch create delete", "core", "persistentvolumes"),
                rule("get list watch update", "core", "persistentvolumeclaims"),
                rule(READ, STORAGE, "storageclasses"),
                rule("watch", "core", "events"),
                events(),
            ],
        ),
        ("system:kube-scheduler", kube_scheduler()),
        (
            "system:volume-scheduler",
            vec![
                rule("get list patch update watch", "core", "persistentvolumes"),
                rule(READ, STORAGE, "storageclasses"),
                rule("get list patch update watch", "core", "persistentvolumeclaims"),
            ],
        ),
        (
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            vec![rule("create", CERTIFICATES, "certificatesigningrequests/nodeclient")],
        ),
        (
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            vec![rule("create", CERTIFICATES, "certificatesigningrequests/selfnodeclient")],
        ),
    ];
    for (role, signer) in [
        ("system:certificates.k8s.io:legacy-unknown-approver", "kubernetes.io/legacy-unknown"),
        ("system:certificates.k8s.io:kubelet-serving-approver", "kubernetes.io/kubelet-serving"),
        ("system:certificates.k8s.io:kube-apiserver-client-approver", "kubernetes.io/kube-apiserver-client"),
        ("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", "kubernetes.io/kube-apiserver-client-kubelet"),
    ] {
        table.push((role, vec![rule("approve", CERTIFICATES, "signers").named(&[signer])]));
    }
    table
}

fn auth_delegation() -> Vec<PolicyRule> {
    vec![rule("create", "authentication.k8s.io", "tokenreviews"), rule("create", "authorization.k8s.io", "subjectaccessreviews")]
}

fn node() -> Vec<PolicyRule> {
    vec![
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
        rule(READ, "core", "services"),
        rule("create get list watch", "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("patch update", "core", "nodes"),
        events(),
        rule(READ, "core", "pods"),
        rule("create delete", "core", "pods"),
        rule("patch update", "core", "pods/status"),
        rule("create", "core", "pods/eviction"),
        rule(READ, "core", "configmaps secrets"),
        rule("get", "core", "persistentvolumeclaims persistentvolumes"),
        rule("get", "core", "endpoints"),
        rule("create get list watch", CERTIFICATES, "certificatesigningrequests"),
        rule("create delete get patch update", LEASES, "leases"),
        rule("get", STORAGE, "volumeattachments"),
        rule("get patch update", "core", "persistentvolumeclaims/status"),
        rule("create", "core", "serviceaccounts/token"),
        rule(READ, STORAGE, "csidrivers"),
        rule("create delete get patch update", STORAGE, "csinodes"),
        rule(READ, "node.k8s.io", "runtimeclasses"),
        rule("get", "resource.k8s.io", "resourceclaims"),
        rule("deletecollection", "resource.k8s.io", "resourceslices"),
        rule("create delete get list patch update watch", "resource.k8s.io", "resourceslices"),
    ]
}

fn kube_controller_manager() -> Vec<PolicyRule> {
    let mut rules = vec![
        events(),
        rule("create", LEASES, "leases"),
        rule("get update", LEASES, "leases").named(&["kube-controller-manager"]),
        rule("create", "core", "secrets serviceaccounts"),
        rule("delete", "core", "secrets"),
        rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "core", "secrets serviceaccounts"),
    ];
    rules.extend(auth_delegation());
    rules.push(rule("list watch", "*", "*"));
    rules.push(rule("create", "core", "serviceaccounts/token"));
    rules
}

fn kube_scheduler() -> Vec<PolicyRule> {
    let mut rules = vec![
        events(),
        rule("create", LEASES, "leases"),
        rule("get update", LEASES, "leases").named(&["kube-scheduler"]),
        rule(READ, "core", "nodes"),
        rule("delete get list watch", "core", "pods"),
        rule("create", "core", "bindings pods/binding"),
        rule("patch update", "core", "pods/status"),
        rule(READ, "core", "replicationcontrollers services"),
        rule(READ, "apps extensions", "replicasets"),
        rule(READ, "apps", "statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(READ, "core", "persistentvolumeclaims persistentvolumes"),
    ];
    rules.extend(auth_delegation());
    rules.extend([
        rule(READ, STORAGE, "csinodes"),
        rule(READ, "core", "namespaces"),
        rule(READ, STORAGE, "csidrivers"),
        rule(READ, STORAGE, "csistoragecapacities"),
        rule(READ, "resource.k8s.io", "deviceclasses"),
        rule("get list patch update watch", "resource.k8s.io", "resourceclaims"),
        rule("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
        rule("patch update", "core", "pods/finalizers"),
        rule(READ, "resource.k8s.io", "resourceslices"),
    ]);
    rules
}
