//! Devices: fields behind gates that are off in Kubernetes 1.34, and the reports about devices that a claim no longer has.

use serde_json::Value;

use super::Object;

/// Drops what gates keep out of the claims, templates, classes and slices of devices.
pub(super) fn drop(group_kind: (&str, &str), map: &mut Object) {
    let Some(Value::Object(spec)) = map.get_mut("spec") else { return };
    match group_kind {
        // DRAExtendedResource
        ("resource.k8s.io", "DeviceClass") => {
            spec.remove("extendedResourceName");
        }
        ("resource.k8s.io", "ResourceClaim") => claim_spec(spec),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            if let Some(Value::Object(inner)) = spec.get_mut("spec") {
                claim_spec(inner);
            }
        }
        ("resource.k8s.io", "ResourceSlice") => slice_spec(spec),
        _ => {}
    }
}

fn items<'a>(map: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Object> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// DRADeviceTaints, DRAConsumableCapacity
fn claim_spec(spec: &mut Object) {
    let Some(Value::Object(devices)) = spec.get_mut("devices") else { return };
    for request in items(devices, "requests") {
        for alternative in items(request, "firstAvailable") {
            alternative.remove("tolerations");
            alternative.remove("capacity");
        }
        if let Some(Value::Object(exactly)) = request.get_mut("exactly") {
            exactly.remove("tolerations");
            exactly.remove("capacity");
        }
    }
    for constraint in items(devices, "constraints") {
        constraint.remove("distinctAttribute");
    }
}

/// DRADeviceTaints, DRAPartitionableDevices, DRADeviceBindingConditions, DRAConsumableCapacity
fn slice_spec(spec: &mut Object) {
    const OF_DEVICE: [&str; 9] = [
        "taints",
        "consumesCounters",
        "nodeName",
        "nodeSelector",
        "allNodes",
        "bindingConditions",
        "bindingFailureConditions",
        "bindsToNode",
        "allowMultipleAllocations",
    ];
    spec.remove("sharedCounters");
    spec.remove("perDeviceNodeSelection");
    for device in items(spec, "devices") {
        for field in OF_DEVICE {
            device.remove(field);
        }
        let capacity = device.get_mut("capacity").and_then(Value::as_object_mut);
        for amount in capacity.into_iter().flat_map(|all| all.values_mut()).filter_map(Value::as_object_mut) {
            amount.remove("requestPolicy");
        }
    }
}

/// The status of a claim: fields that gates drop, and reports about devices that it no longer has.
pub(super) fn status(new: &mut Object, old: &Object) {
    let kept = allocated(new);
    let gone: Vec<[String; 3]> = allocated(old).into_iter().filter(|device| !kept.contains(device)).collect();
    let Some(Value::Object(status)) = new.get_mut("status") else { return };
    if let Some(Value::Object(devices)) = status.get_mut("allocation").and_then(|allocation| allocation.get_mut("devices")) {
        for result in items(devices, "results") {
            // DRAConsumableCapacity, DRADeviceBindingConditions
            for field in ["shareID", "consumedCapacity", "bindingConditions", "bindingFailureConditions"] {
                result.remove(field);
            }
        }
    }
    for device in items(status, "devices") {
        device.remove("shareID");
    }
    if let Some(Value::Array(reports)) = status.get_mut("devices") {
        reports.retain(|report| !gone.contains(&identity(report)));
    }
}

/// The devices that a claim has.
fn allocated(claim: &Object) -> Vec<[String; 3]> {
    let results = claim.get("status").and_then(|status| status.pointer("/allocation/devices/results")).and_then(Value::as_array);
    results.into_iter().flatten().map(identity).collect()
}

/// Driver, pool and name of a device.
fn identity(device: &Value) -> [String; 3] {
    ["driver", "pool", "device"].map(|field| device.get(field).and_then(Value::as_str).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use crate::prepare::tests::context;
    use crate::{Gvk, default, prepare_create, prepare_update};

    /// KAPI-REST-07: fields of gates that are off are dropped, all others are kept.
    #[test]
    fn gates_drop_fields_of_devices() {
        let gvk = Gvk::new("resource.k8s.io", "v1", "ResourceClaim");
        let mut claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "g", "tolerations": [{"key": "k"}], "capacity": {"requests": {"m": "1"}}, "adminAccess": false}},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "g", "allocationMode": "All", "tolerations": [{"operator": "Exists"}]}]}],
            "constraints": [{"distinctAttribute": "a.b/c"}]}}});
        default(&gvk, &mut claim);
        prepare_create(&gvk, &mut claim, &context());
        assert_eq!(
            claim["spec"]["devices"],
            json!({"requests": [
                {"name": "a", "exactly": {"deviceClassName": "g", "allocationMode": "ExactCount", "count": 1, "adminAccess": false}},
                {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "g", "allocationMode": "All"}]}],
                "constraints": [{}]})
        );
        let gvk = Gvk::new("resource.k8s.io", "v1", "ResourceSlice");
        let mut slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, "sharedCounters": [], "perDeviceNodeSelection": true,
            "devices": [{"name": "a", "allNodes": true, "attributes": {"n": {"string": ""}}, "capacity": {"m": {"value": "1024Mi", "requestPolicy": {}}}}]}});
        default(&gvk, &mut slice);
        prepare_create(&gvk, &mut slice, &context());
        assert_eq!(slice["metadata"]["generation"], 1);
        assert_eq!(
            slice["spec"],
            json!({"driver": "d", "pool": {"name": "p", "generation": 0, "resourceSliceCount": 0},
                "devices": [{"name": "a", "attributes": {"n": {"string": ""}}, "capacity": {"m": {"value": "1Gi"}}}]})
        );
    }

    /// KAPI-REST-07: reports go with the devices that they are about.
    #[test]
    fn reports_go_with_their_devices() {
        let gvk = Gvk::new("resource.k8s.io", "v1", "ResourceClaim");
        let device = json!({"driver": "d", "pool": "p", "device": "g"});
        let results = json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "g"}]}});
        let old = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": null}}, "status": {"allocation": results}});
        let mut new = json!({"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": {}, "status": {"devices": [device]}});
        prepare_update(&gvk, &mut new, &old, Some("status"), &context());
        assert_eq!((&new["status"], new["metadata"].get("labels")), (&json!({}), None));
        let mut new = json!({"metadata": {"name": "c"}, "spec": {}, "status": {"allocation": results, "devices": [device]}});
        prepare_update(&gvk, &mut new, &old, Some("status"), &context());
        assert_eq!(new["status"]["devices"], json!([{"driver": "d", "pool": "p", "device": "g", "conditions": null}]));
    }
}
