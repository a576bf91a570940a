//! Fields behind feature gates that are off in Kubernetes 1.34: the API drops them, those of pods wherever a pod is described.

use serde_json::Value;

use super::Object;

/// Drops what gates keep out of this kind, and out of the pod that it describes, if it does.
pub(super) fn drop(group_kind: (&str, &str), map: &mut Object) {
    if group_kind == ("coordination.k8s.io", "Lease")
        && let Some(Value::Object(spec)) = map.get_mut("spec")
    {
        // CoordinatedLeaderElection
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
    if group_kind == ("storage.k8s.io", "CSIDriver")
        && let Some(Value::Object(spec)) = map.get_mut("spec")
    {
        // MutableCSINodeAllocatableCount
        spec.remove("nodeAllocatableUpdatePeriodSeconds");
    }
    if group_kind == ("apps", "StatefulSet")
        && let Some(Value::Object(rolling)) = map.get_mut("spec").and_then(|spec| spec.pointer_mut("/updateStrategy/rollingUpdate"))
    {
        // MaxUnavailableStatefulSet
        rolling.remove("maxUnavailable");
    }
    if group_kind == ("discovery.k8s.io", "EndpointSlice") {
        // The labels that v1beta1 had: v1 reads them, and takes none.
        for endpoint in items(map, "endpoints") {
            endpoint.remove("deprecatedTopology");
        }
    }
    super::devices::drop(group_kind, map);
    let spec = match group_kind {
        ("", "Pod") => map.get_mut("spec"),
        ("", "PodTemplate") => map.get_mut("template").and_then(|template| template.get_mut("spec")),
        ("batch", "CronJob") => map.get_mut("spec").and_then(|spec| spec.pointer_mut("/jobTemplate/spec/template/spec")),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") | ("batch", "Job") | ("", "ReplicationController") => {
            map.get_mut("spec").and_then(|spec| spec.pointer_mut("/template/spec"))
        }
        _ => None,
    };
    if let Some(Value::Object(spec)) = spec {
        pod_spec(spec);
    }
}

/// Drops the codes of an attachment's errors, which belong to the gate MutableCSINodeAllocatableCount.
pub(super) fn errors_of_attachments(map: &mut Object) {
    let Some(Value::Object(status)) = map.get_mut("status") else { return };
    for field in ["attachError", "detachError"] {
        if let Some(Value::Object(error)) = status.get_mut(field) {
            error.remove("errorCode");
        }
    }
}

/// Drops what a pod's status cannot say: DRAExtendedResource, ResourceHealthStatus.
pub(super) fn status_of_pods(status: &mut Object) {
    status.remove("extendedResourceClaimStatus");
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, field) {
            container.remove("allocatedResourcesStatus");
        }
    }
}

fn items<'a>(map: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Object> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn pod_spec(spec: &mut Object) {
    spec.remove("hostnameOverride");
    // ImageVolume: such a volume goes as a whole, and with it what mounts it.
    let mut gone: Vec<String> = Vec::new();
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| {
            let image = volume.get("image").is_some_and(|image| !image.is_null());
            if image {
                gone.extend(volume.get("name").and_then(Value::as_str).map(str::to_owned));
            }
            !image
        });
    }
    for volume in items(spec, "volumes") {
        if let Some(Value::Object(projected)) = volume.get_mut("projected") {
            for source in items(projected, "sources") {
                source.remove("clusterTrustBundle");
                source.remove("podCertificate");
            }
        }
    }
    for field in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, field) {
            container.remove("restartPolicyRules");
            // ContainerRestartRules; what makes an init container a sidecar is older.
            if field != "initContainers" || container.get("restartPolicy").is_some_and(|policy| policy != "Always") {
                container.remove("restartPolicy");
            }
            if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
                lifecycle.remove("stopSignal");
            }
            for variable in items(container, "env") {
                if let Some(Value::Object(source)) = variable.get_mut("valueFrom") {
                    source.remove("fileKeyRef");
                }
            }
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| !gone.iter().any(|name| mount.get("name").is_some_and(|given| given == name.as_str())));
            }
        }
    }
}
