//! The order of installation and removal. A kind follows all kinds that it may need when it starts.

use serde_json::Value;

use crate::ObjectRef;

/// The phases of an installation, first to last. Kinds that are not listed (custom resources above all) come after workloads,
/// whose operators may have to serve their webhooks; webhooks come last, so that none is called before its server runs.
const PHASES: &[(&str, &[&str])] = &[
    ("namespaces", &["Namespace"]),
    ("policies", &["NetworkPolicy", "ResourceQuota", "LimitRange", "PriorityClass", "PodDisruptionBudget", "RuntimeClass"]),
    ("crds", &["CustomResourceDefinition"]),
    ("accounts", &["ServiceAccount"]),
    ("configuration", &["Secret", "ConfigMap"]),
    ("storage", &["StorageClass", "PersistentVolume", "PersistentVolumeClaim"]),
    ("rights", &["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]),
    ("services", &["Service", "Endpoints", "EndpointSlice"]),
    (
        "workloads",
        &[
            "DaemonSet",
            "Pod",
            "ReplicationController",
            "ReplicaSet",
            "Deployment",
            "HorizontalPodAutoscaler",
            "StatefulSet",
            "Job",
            "CronJob",
        ],
    ),
    ("routes", &["IngressClass", "Ingress", "Route"]),
    (OTHERS, &[]),
    (
        "admission",
        &[
            "APIService",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ],
    ),
];

const OTHERS: &str = "others";

fn rank(kind: &str) -> (usize, usize) {
    let mut others = PHASES.len();
    for (phase, (name, kinds)) in PHASES.iter().enumerate() {
        if let Some(place) = kinds.iter().position(|known| *known == kind) {
            return (phase, place);
        }
        if *name == OTHERS {
            others = phase;
        }
    }
    (others, 0)
}

/// Returns the name of the phase in which a kind is installed.
pub fn phase(kind: &str) -> &'static str {
    PHASES.get(rank(kind).0).map_or(OTHERS, |(name, _)| *name)
}

/// Sorts objects for installation: by phase, kind, namespace and name.
pub fn install_order(objects: &mut [Value]) {
    objects.sort_by_cached_key(|object| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text("/kind");
        (rank(&kind), kind, text("/metadata/namespace"), text("/metadata/name"))
    });
}

/// Sorts objects for removal: the reverse order.
pub fn delete_order(objects: &mut [ObjectRef]) {
    objects.sort_by_cached_key(|object| {
        std::cmp::Reverse((rank(&object.kind), object.kind.clone(), object.namespace.clone(), object.name.clone()))
    });
}

/// Returns the objects of an earlier revision that the wanted one does not have, in the order of removal.
pub fn stale(earlier: &[ObjectRef], wanted: &[ObjectRef]) -> Vec<ObjectRef> {
    let mut gone: Vec<ObjectRef> = earlier.iter().filter(|object| !wanted.iter().any(|other| other.same(object))).cloned().collect();
    delete_order(&mut gone);
    gone.dedup();
    gone
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn installs_what_is_needed_first_and_removes_it_last() {
        let kinds = [
            "ValidatingWebhookConfiguration",
            "Quay",
            "Deployment",
            "RoleBinding",
            "Role",
            "ServiceAccount",
            "CustomResourceDefinition",
            "Namespace",
        ];
        let mut objects: Vec<Value> = kinds.iter().map(|kind| json!({"kind": kind, "metadata": {"name": "x"}})).collect();
        install_order(&mut objects);
        let order: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(
            order,
            [
                "Namespace",
                "CustomResourceDefinition",
                "ServiceAccount",
                "Role",
                "RoleBinding",
                "Deployment",
                "Quay",
                "ValidatingWebhookConfiguration"
            ]
        );
        assert_eq!(phase("CustomResourceDefinition"), "crds");
        assert_eq!(phase("Quay"), "others");
    }

    /// OLM1-INST-14: what is no longer rendered goes, whatever version it was written in.
    #[test]
    fn stale_objects() {
        let object = |version: &str, kind: &str, name: &str| ObjectRef {
            api_version: version.into(),
            kind: kind.into(),
            namespace: "n".into(),
            name: name.into(),
        };
        let earlier = [
            object("v1", "ServiceAccount", "a"),
            object("apps/v1", "Deployment", "b"),
            object("policy/v1beta1", "PodDisruptionBudget", "c"),
        ];
        let wanted = [object("policy/v1", "PodDisruptionBudget", "c")];
        let gone: Vec<String> = stale(&earlier, &wanted).iter().map(ToString::to_string).collect();
        assert_eq!(gone, ["Deployment n/b", "ServiceAccount n/a"]);
    }
}
