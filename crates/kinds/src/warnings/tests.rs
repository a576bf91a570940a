//! The warnings of objects, as kube-apiserver v1.34 gives them.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::{warnings, warnings_of_given};
use crate::{Context, Gvk, Requester, default, prepare_create};

/// The object as it is stored.
fn stored(mut object: Value) -> (Gvk, Value) {
    let gvk = Gvk::of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    default(&gvk, &mut object);
    prepare_create(&gvk, &mut object, &Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester::default() });
    (gvk, object)
}

/// KAPI-REST-03: what is said of new objects, in Kubernetes' words and order.
#[test]
fn new_objects_are_warned_of() {
    for (object, expected) in cases() {
        let shown = object.to_string();
        let mut given = object.clone();
        let (gvk, object) = stored(object);
        default(&gvk, &mut given);
        let mut found = warnings_of_given(&gvk, &given);
        found.extend(warnings(&gvk, &object, None, None));
        assert_eq!(found, expected, "{shown}");
    }
}

/// KAPI-REST-03: a changed object is warned of where its kind says so: templates that changed, never Pods.
#[test]
fn changed_objects_are_warned_of() {
    let labels = |labels: Value| json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeSelector": labels, "containers": [{"name": "c", "image": "i"}]}});
    let template = labels(json!({"beta.kubernetes.io/os": "linux"}));
    let said =
        vec!["spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead".to_owned()];
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        let (gvk, old) = stored(json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "n", "generation": 1}, "spec": spec}));
        let mut new = old.clone();
        assert_eq!(warnings(&gvk, &new, Some(&old), None), Vec::<String>::new(), "{kind}");
        new["metadata"]["generation"] = json!(2);
        assert_eq!(warnings(&gvk, &new, Some(&old), None), said, "{kind}");
        assert_eq!(warnings(&gvk, &new, Some(&old), Some("status")), Vec::<String>::new(), "{kind}");
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b"}, "spec": template["spec"], "status": {"podIPs": [{"ip": "010.0.0.1"}]}});
    let (gvk, pod) = (Gvk::of("v1", "Pod"), pod);
    assert_eq!(warnings(&gvk, &pod, None, None).len(), 2);
    assert_eq!(warnings(&gvk, &pod, Some(&pod), None), Vec::<String>::new());
    let later = "will be considered invalid in a future Kubernetes release";
    let address = format!("status.podIPs[0].ip: non-standard IP address \"010.0.0.1\" {later}: use \"10.0.0.1\"");
    assert_eq!(warnings(&gvk, &pod, Some(&pod), Some("status")), [address]);
    let key = "kubernetes.io/enforce-mountable-secrets";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "annotations": {key: "true"}}});
    let gvk = Gvk::of("v1", "ServiceAccount");
    assert_eq!(warnings(&gvk, &account, Some(&json!({"metadata": {}})), None).len(), 1);
    assert_eq!(warnings(&gvk, &account, Some(&account), None), Vec::<String>::new());
}

/// KAPI-REST-03: objects without fault are accepted in silence.
#[test]
fn ordinary_objects_are_not_warned_of() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{
        "name": "c", "image": "i",
        "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 80, "protocol": "UDP"}],
        "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A):2"}],
        "resources": {"limits": {"memory": "1.5Gi", "ephemeral-storage": "1e9"}},
    }]}});
    let (gvk, pod) = stored(pod);
    assert_eq!(warnings(&gvk, &pod, None, None), Vec::<String>::new());
}

/// Objects that kube-apiserver v1.34.1 was sent, and what it said.
fn cases() -> Vec<(Value, Vec<&'static str>)> {
    vec![
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a.b"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            vec![
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["x"]}]}]}, "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["-1"]}]}}]}}}}),
            vec![
                r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
                r#"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#,
                r#"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: -1 is invalid, a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]}}),
            vec![
                r#"spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": "", "security.alpha.kubernetes.io/sysctls": "a", "seccomp.security.alpha.kubernetes.io/pod": "runtime/default", "container.seccomp.security.alpha.kubernetes.io/c": "runtime/default", "container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
            vec![
                r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#,
                r#"metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead"#,
                r#"metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls" field instead"#,
                r#"metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead"#,
                r#"metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use the "seccompProfile" field instead"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "g", "gitRepo": {"repository": "r"}}, {"name": "s", "storageos": {"volumeName": "v"}}, {"name": "r", "rbd": {"monitors": ["m"], "image": "i"}}, {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}}}}]}}),
            vec![
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
                "spec.volumes[2].rbd: deprecated in v1.28, non-functional in v1.31+",
                r#"spec.volumes[3].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "m", "configMap": {"name": "cm", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}, {"key": "c", "path": "pq"}]}}, {"name": "s", "secret": {"secretName": "se", "items": [{"key": "a", "path": "p/"}, {"key": "b", "path": "p"}]}}, {"name": "w", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}, {"path": "a/b", "fieldRef": {"fieldPath": "metadata.name"}}]}}, {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "tok/y"}}, {"configMap": {"name": "cm", "items": [{"key": "k", "path": "tok/x"}]}}, {"secret": {"name": "s", "items": [{"key": "k", "path": "tok/y/z"}]}}, {"downwardAPI": {"items": [{"path": "tok/x/", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]}}),
            vec![
                r#"volume "m" (ConfigMap "cm"): overlapping paths: "p/q" with "p""#,
                r#"volume "s" (Secret "se"): overlapping paths: "p" with "p""#,
                r#"volume "w" (DownwardAPI): overlapping paths: "a/b" with "a""#,
                r#"volume "x" (Projected): overlapping paths: "tok/y/z" (Secret "s") with "tok/y" (ServiceAccountToken)"#,
                r#"volume "x" (Projected): overlapping paths: "tok/x" (DownwardAPI) with "tok/x" (ConfigMap "cm")"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}, {"ip": "010.0.0.1", "hostnames": ["b"]}, {"ip": "::ffff:1.2.3.4", "hostnames": ["q"]}, {"ip": "FE80::0:1", "hostnames": ["q"]}], "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}], "dnsConfig": {"nameservers": ["1.1.1.01"]}}}),
            vec![
                r#"spec.hostAliases[1].ip: duplicate ip "10.0.0.1""#,
                r#"spec.imagePullSecrets[1].name: duplicate name "a""#,
                r#"spec.imagePullSecrets[2].name: invalid empty name """#,
                r#"spec.dnsConfig.nameservers[0]: non-standard IP address "1.1.1.01" will be considered invalid in a future Kubernetes release: use "1.1.1.1""#,
                r#"spec.hostAliases[2].ip: non-standard IP address "010.0.0.1" will be considered invalid in a future Kubernetes release: use "10.0.0.1""#,
                r#"spec.hostAliases[3].ip: non-standard IP address "::ffff:1.2.3.4" will be considered invalid in a future Kubernetes release: use "1.2.3.4""#,
                r#"spec.hostAliases[4].ip: IPv6 address "FE80::0:1" should be in RFC 5952 canonical format ("fe80::1")"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "1500m", "ephemeral-storage": "1.5"}, "requests": {"memory": "100m"}}, "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)x"}, {"name": "A", "value": "$(A)"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}]}}),
            vec![
                r#"spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer"#,
                r#"spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer"#,
                r#"spec.containers[0].resources.limits[ephemeral-storage]: fractional byte value "1500m" is invalid, must be an integer"#,
                r#"spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value "1500m" is invalid, must be an integer"#,
                r#"spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
                r#"spec.containers[0].env[3]: hides previous definition of "A", which may be dropped when using apply"#,
                r#"spec.containers[0].env[4]: hides previous definition of "A", which may be dropped when using apply"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 80, "hostPort": 8080}, {"containerPort": 80, "hostPort": 8080, "hostIP": "1.2.3.4"}, {"containerPort": 81, "hostIP": "1.2.3.4"}, {"containerPort": 80, "protocol": "UDP"}]}], "initContainers": [{"name": "in", "image": "i", "ports": [{"containerPort": 80, "name": "web"}]}]}}),
            vec![
                "spec.containers[0].ports[0]: duplicate port definition with spec.initContainers[0].ports[0]",
                "spec.containers[0].ports[1]: overlapping port definition with spec.initContainers[0].ports[0]",
                "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[0].ports[2]: overlapping port definition with spec.initContainers[0].ports[0]",
                "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
                "spec.containers[0].ports[2]: dangerously ambiguous port definition with spec.containers[0].ports[1]",
                "spec.containers[0].ports[3]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol:TCP HostIP:1.2.3.4}",
                r#"spec.containers[0].ports[0]: duplicate port name "web" with spec.initContainers[0].ports[0], services and probes that select ports by name will use spec.initContainers[0].ports[0]"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t"}]}, "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {"topologyKey": "t"}}]}}}}),
            vec![
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null labelSelector results in matching no pod",
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"container.apparmor.security.beta.kubernetes.io/c": "localhost/x"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}}}),
            vec![],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -1}}),
            vec![],
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a.b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}, "annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}, "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}}),
            vec![
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                r#"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
                r#"spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#,
                r#"spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
            ],
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {"revisionHistoryLimit": -1, "serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}}]}}),
            vec![
                r#"spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
            ],
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"node-role.kubernetes.io/master": ""}}}}}),
            vec![r#"spec.template.spec.nodeSelector[node-role.kubernetes.io/master]: use "node-role.kubernetes.io/control-plane" instead"#],
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ab"}, "spec": {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}}),
            vec![
                "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
                r#"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}}}}),
            vec![
                r#"spec.jobTemplate.spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}, "spec": {"clusterIP": "None", "externalIPs": ["9.8.7.06", "2001:DB8::1"], "sessionAffinity": "ClientIP", "ports": [{"port": 80}]}}),
            vec![
                "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
                r#"spec.externalIPs[0]: non-standard IP address "9.8.7.06" will be considered invalid in a future Kubernetes release: use "9.8.7.6""#,
                r#"spec.externalIPs[1]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["9.8.7.6"]}}),
            vec![r#"spec.externalIPs is ignored when spec.type is "ExternalName""#],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "externalName": "a.b", "loadBalancerIP": "9.8.7.06", "loadBalancerSourceRanges": ["10.0.0.1/8", "010.0.0.0/8", "::ffff:1.2.3.4/120", "::ffff:1.2.3.0/120", "2001:DB8::/32", "10.0.0.0/08", "::ffff:0:0/90", "2001:db8::1/64"], "ports": [{"port": 80}]}}),
            vec![
                r#"spec.loadBalancerIP: non-standard IP address "9.8.7.06" will be considered invalid in a future Kubernetes release: use "9.8.7.6""#,
                r#"spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
                r#"spec.loadBalancerSourceRanges[1]: non-standard CIDR value "010.0.0.0/8" will be considered invalid in a future Kubernetes release: use "10.0.0.0/8""#,
                r#"spec.loadBalancerSourceRanges[2]: CIDR value "::ffff:1.2.3.4/120" is ambiguous in this context (should be "1.2.3.0/24" or "1.2.3.4/128"?)"#,
                r#"spec.loadBalancerSourceRanges[2]: non-standard CIDR value "::ffff:1.2.3.4/120" will be considered invalid in a future Kubernetes release: use "1.2.3.0/24""#,
                r#"spec.loadBalancerSourceRanges[3]: non-standard CIDR value "::ffff:1.2.3.0/120" will be considered invalid in a future Kubernetes release: use "1.2.3.0/24""#,
                r#"spec.loadBalancerSourceRanges[4]: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
                r#"spec.loadBalancerSourceRanges[5]: non-standard CIDR value "10.0.0.0/08" will be considered invalid in a future Kubernetes release: use "10.0.0.0/8""#,
                r#"spec.loadBalancerSourceRanges[6]: CIDR value "::ffff:0:0/90" is ambiguous in this context (should be "::ffc0:0:0/90" or "0.0.0.0/128"?)"#,
                r#"spec.loadBalancerSourceRanges[6]: non-standard CIDR value "::ffff:0:0/90" will be considered invalid in a future Kubernetes release: use "::ffc0:0:0/90""#,
                r#"spec.loadBalancerSourceRanges[7]: CIDR value "2001:db8::1/64" is ambiguous in this context (should be "2001:db8::/64" or "2001:db8::1/128"?)"#,
                r#"spec.externalName is ignored when spec.type is not "ExternalName""#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "glusterfs": {"path": "/x", "endpoints": "e"}}}),
            vec!["spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v", "annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "2500m"}}}}),
            vec![
                r#"metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead"#,
                r#"spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
                r#"spec.resources.limits[storage]: fractional byte value "2500m" is invalid, must be an integer"#,
            ],
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "v"}, "provisioner": "p", "allowedTopologies": [{"matchLabelExpressions": [{"key": "beta.kubernetes.io/arch", "values": ["x"]}]}]}),
            vec![r#"allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use "kubernetes.io/arch" instead"#],
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "v"}, "storageClassName": "p", "nodeTopology": {"matchLabels": {"beta.kubernetes.io/os": "x"}, "matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}]}}),
            vec![
                r#"nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use "kubernetes.io/arch" instead"#,
                r#"nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        ),
        (
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "v"}, "handler": "p", "scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "x"}}}),
            vec![r#"scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead"#],
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "v"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.1.0.1/16"]}}]}], "egress": [{"to": [{"ipBlock": {"cidr": "2001:DB8::/32"}}]}]}}),
            vec![
                r#"spec.ingress[0].from[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
                r#"spec.ingress[0].from[0].ipBlock.except[0]: CIDR value "10.1.0.1/16" is ambiguous in this context (should be "10.1.0.0/16" or "10.1.0.1/32"?)"#,
                r#"spec.egress[0].to[0].ipBlock.cidr: IPv6 CIDR value "2001:DB8::/32" should be in RFC 5952 canonical format ("2001:db8::/32")"#,
            ],
        ),
        (
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "v", "annotations": {"kubernetes.io/ingress.class": "n"}}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}}}),
            vec![r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#],
        ),
        (
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "v"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}),
            vec!["spec.addressType: FQDN endpoints are deprecated"],
        ),
        (
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "v"}, "addressType": "IPv4", "endpoints": [{"addresses": ["010.1.2.3"]}]}),
            vec![
                r#"endpoints[0].addresses[0]: non-standard IP address "010.1.2.3" will be considered invalid in a future Kubernetes release: use "10.1.2.3""#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "v"}, "subsets": [{"addresses": [{"ip": "010.1.2.3"}], "notReadyAddresses": [{"ip": "2001:DB8::1"}]}]}),
            vec![
                r#"subsets[0].addresses[0].ip: non-standard IP address "010.1.2.3" will be considered invalid in a future Kubernetes release: use "10.1.2.3""#,
                r#"subsets[0].notReadyAddresses[0].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "v"}, "spec": {"externalID": "x", "podCIDRs": ["10.1.0.1/24"]}}),
            vec![
                "spec.externalID: this field is deprecated, and is unused by Kubernetes",
                r#"spec.podCIDRs[0]: CIDR value "10.1.0.1/24" is ambiguous in this context (should be "10.1.0.0/24" or "10.1.0.1/32"?)"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "a", "tls.key": "b"}}),
            vec!["tls: failed to find any PEM data in certificate input"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", "tls.key": "b"}}),
            vec![
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "-----BEGIN X-----\nAAAA\n-----END X-----\n-----BEGIN Y-----\nAAAA\n-----END Y-----\n", "tls.key": "b"}}),
            vec![
                r#"tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types: [X Y]"#,
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "v"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "tls.key": "b"}}),
            vec!["tls: failed to find any PEM data in key input"],
        ),
        (
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "v", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}),
            vec![
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "v"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}),
            vec![r#"template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#],
        ),
        (
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a.b"}, "spec": {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}}),
            vec![
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                r#"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
            ],
        ),
    ]
}
