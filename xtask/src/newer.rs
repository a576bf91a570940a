//! Parts of the recorded documents that Kubernetes 1.34 does not have.
//!
//! The recording server is v1.36.2 emulating 1.34. Emulation switches APIs and features off, but the Go types stay those of 1.36, and so do
//! the documents that are made of them: they show fields that 1.34 calls unknown. Each entry names the feature gate that the field came with;
//! the gate is off in 1.34, so a real cluster of that version knows neither the field nor what it refers to.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::Value;

/// The part of a definition that came later.
enum Part {
    /// The whole definition: only newer fields refer to it.
    Whole,
    /// Properties.
    Fields(&'static [&'static str]),
    /// Values of an enumeration: the property, then the values.
    Values(&'static str, &'static [&'static str]),
}
use Part::{Fields, Values, Whole};

/// Definition, the part, the first version that has it, and the feature gate it belongs to.
const NEWER: &[(&str, Part, &str, &str)] = &[
    ("io.k8s.api.core.v1.ImageVolumeStatus", Whole, "1.35", "ImageVolumeWithDigest"),
    ("io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus", Whole, "1.36", "DRANodeAllocatableResources"),
    ("io.k8s.api.core.v1.NodeStatus", Fields(&["declaredFeatures"]), "1.35", "NodeDeclaredFeatures"),
    ("io.k8s.api.core.v1.PodCertificateProjection", Fields(&["userAnnotations"]), "1.35", "PodCertificateRequest"),
    ("io.k8s.api.core.v1.PodSchedulingGroup", Whole, "1.36", "GenericWorkload"),
    ("io.k8s.api.core.v1.PodSpec", Fields(&["schedulingGroup"]), "1.36", "GenericWorkload"),
    ("io.k8s.api.core.v1.PodStatus", Fields(&["allocatedResources", "resources"]), "1.35", "InPlacePodLevelResourcesVerticalScaling"),
    ("io.k8s.api.core.v1.PodStatus", Fields(&["nodeAllocatableResourceClaimStatuses"]), "1.36", "DRANodeAllocatableResources"),
    ("io.k8s.api.core.v1.ResourceHealth", Fields(&["message"]), "1.36", "ResourceHealthStatus"),
    ("io.k8s.api.core.v1.Toleration", Values("operator", &["Gt", "Lt"]), "1.35", "TaintTolerationComparisonOperators"),
    ("io.k8s.api.core.v1.VolumeMountStatus", Fields(&["volumeStatus"]), "1.35", "ImageVolumeWithDigest"),
    ("io.k8s.api.core.v1.VolumeStatus", Whole, "1.35", "ImageVolumeWithDigest"),
    ("io.k8s.api.resource.v1.Device", Fields(&["nodeAllocatableResourceMappings"]), "1.36", "DRANodeAllocatableResources"),
    ("io.k8s.api.resource.v1.DeviceAttribute", Fields(&["bools", "ints", "strings", "versions"]), "1.36", "DRAListTypeAttributes"),
    ("io.k8s.api.resource.v1.DeviceTaint", Values("effect", &["None"]), "1.35", "DRADeviceTaintRules"),
    ("io.k8s.api.resource.v1.DeviceToleration", Values("effect", &["None"]), "1.35", "DRADeviceTaintRules"),
    ("io.k8s.api.resource.v1.NodeAllocatableResourceMapping", Whole, "1.36", "DRANodeAllocatableResources"),
    ("io.k8s.api.storage.v1.CSIDriverSpec", Fields(&["preventPodSchedulingIfMissing"]), "1.36", "VolumeLimitScaling"),
    ("io.k8s.api.storage.v1.CSIDriverSpec", Fields(&["serviceAccountTokenInSecrets"]), "1.35", "CSIServiceAccountTokenSecrets"),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionCondition",
        Fields(&["observedGeneration"]),
        "1.35",
        "CRDObservedGenerationTracking",
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus",
        Fields(&["observedGeneration"]),
        "1.35",
        "CRDObservedGenerationTracking",
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", Fields(&["shardInfo"]), "1.36", "ShardedListAndWatch"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ShardInfo", Whole, "1.36", "ShardedListAndWatch"),
];

/// Takes everything newer out of `definitions`.
///
/// # Errors
/// An entry that finds nothing to remove: the recording has moved on, and the list must follow.
pub fn remove(definitions: &mut BTreeMap<String, Value>) -> Result<()> {
    for (name, part, since, gate) in NEWER {
        let removed = match part {
            Whole => definitions.remove(*name).is_some(),
            Fields(fields) => {
                let properties = definitions.get_mut(*name).and_then(|schema| schema.get_mut("properties")).and_then(Value::as_object_mut);
                properties.is_some_and(|properties| fields.iter().all(|field| properties.remove(*field).is_some()))
            }
            Values(field, values) => {
                let place = format!("/properties/{field}/enum");
                let known = definitions.get_mut(*name).and_then(|schema| schema.pointer_mut(&place)).and_then(Value::as_array_mut);
                known.is_some_and(|known| {
                    let before = known.len();
                    known.retain(|value| !values.iter().any(|newer| value == newer));
                    before - known.len() == values.len()
                })
            }
        };
        ensure!(removed, "{name} no longer has what came with {since} ({gate}): correct the list in xtask/src/newer.rs");
    }
    Ok(())
}
