//! APIs of Kubernetes that no current release serves: no package brings them back.

use mainstay_bundle::validators::removed_in;
use mainstay_objects::ObjectRef;

/// Removals of Kubernetes' deprecation guide that upstream's bundle validators do not name: `apiVersion`, kinds, release.
const OTHERS: [(&str, &[&str], &str); 14] = [
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "NetworkPolicy", "PodSecurityPolicy", "ReplicaSet"], "1.16"),
    ("apps/v1beta1", &["ControllerRevision", "Deployment", "StatefulSet"], "1.16"),
    ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"], "1.16"),
    ("auditregistration.k8s.io/v1alpha1", &["AuditSink"], "1.19"),
    ("settings.k8s.io/v1alpha1", &["PodPreset"], "1.20"),
    ("batch/v2alpha1", &["CronJob"], "1.21"),
    ("rbac.authorization.k8s.io/v1alpha1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"], "1.22"),
    ("scheduling.k8s.io/v1alpha1", &["PriorityClass"], "1.22"),
    ("node.k8s.io/v1alpha1", &["RuntimeClass"], "1.25"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", &["FlowSchema", "PriorityLevelConfiguration"], "1.26"),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], "1.27"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", &["FlowSchema", "PriorityLevelConfiguration"], "1.29"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", &["FlowSchema", "PriorityLevelConfiguration"], "1.32"),
    ("flowcontrol.apiserver.k8s.io/v1alpha1", &["FlowSchema", "PriorityLevelConfiguration"], "1.24"),
];

/// The release of Kubernetes that removed the kind in this version of its API.
pub(in super::super) fn retired(target: &ObjectRef) -> Option<&'static str> {
    let (version, kind) = (target.api_version.as_str(), target.kind.as_str());
    let other = || OTHERS.iter().find(|(known, kinds, _)| *known == version && kinds.contains(&kind)).map(|(_, _, release)| *release);
    removed_in(version, kind).or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-01: what Kubernetes removed is known by version and kind, and what it serves is not.
    #[test]
    fn removals_by_version_and_kind() {
        for (api_version, kind, release) in [
            ("policy/v1beta1", "PodSecurityPolicy", Some("1.25")),
            ("extensions/v1beta1", "Deployment", Some("1.16")),
            ("batch/v1beta1", "CronJob", Some("1.25")),
            ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", Some("1.29")),
            ("batch/v1", "CronJob", None),
            ("monitoring.coreos.com/v1", "ServiceMonitor", None),
        ] {
            let target = ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: String::new(), name: "m".into() };
            assert_eq!(retired(&target), release, "{api_version} {kind}");
        }
    }
}
