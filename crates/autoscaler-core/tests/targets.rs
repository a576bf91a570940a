//! MachineAutoscalers and their targets (COP-CAS-02, MACH-SET-06).

use mainstay_autoscaler_core::target::{MachineAutoscaler, bounds};
use mainstay_autoscaler_core::template::template;
use serde_json::{Value, json};

const MIN: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size";
const OWNER: &str = "autoscaling.openshift.io/machineautoscaler";

fn autoscaler(spec: &Value) -> MachineAutoscaler {
    MachineAutoscaler::of(&json!({"metadata": {"namespace": "m", "name": "workers"}, "spec": spec}))
}

fn spec() -> Value {
    let target = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "set"});
    json!({"minReplicas": 1, "maxReplicas": 12, "scaleTargetRef": target})
}

/// COP-CAS-02, MACH-SET-06: bounds and owner are written, and taken away.
#[test]
fn claimed_and_released() {
    let own = autoscaler(&spec());
    assert_eq!(own.check(), Ok(()));
    let annotations = json!({MIN: "1", MAX: "12", OWNER: "m/workers"});
    let free = json!({"metadata": {"annotations": {MIN: "5", "other": "x"}}});
    assert_eq!(own.claim(Some(&free)), Ok(Some(json!({"metadata": {"annotations": annotations}}))));
    let claimed = json!({"metadata": {"annotations": annotations}});
    assert_eq!(own.claim(Some(&claimed)), Ok(None));
    assert_eq!(own.release(&claimed), Some(json!({"metadata": {"annotations": {MIN: null, MAX: null, OWNER: null}}})));
    assert_eq!(own.release(&free), None, "bounds that a person wrote stay");
    assert_eq!(bounds(&claimed), Some((1, 12)));
    assert_eq!(bounds(&json!({"metadata": {"annotations": {MIN: "3", MAX: "2"}}})), None);
    assert_eq!(bounds(&json!({"metadata": {"annotations": {MIN: "3"}}})), None);
}

/// COP-CAS-02, COP-04: what keeps it from its target, with the reasons of events.
#[test]
fn refusals() {
    let with = |path: &str, value: Value| {
        let mut spec = spec();
        *spec.pointer_mut(path).unwrap() = value;
        autoscaler(&spec)
    };
    let told = |error: mainstay_autoscaler_core::target::TargetError| (error.reason(), error.to_string());
    assert_eq!(
        told(with("/minReplicas", json!(13)).check().unwrap_err()),
        ("FailedValidation", "MachineAutoscaler validation error: max replicas must be greater than or equal to min".to_owned())
    );
    assert_eq!(
        told(with("/scaleTargetRef/kind", json!("Deployment")).check().unwrap_err()),
        ("FailedGetTarget", "Error getting target: unsupported MachineAutoscaler target".to_owned())
    );
    assert_eq!(with("/scaleTargetRef/apiVersion", json!("apps/v1")).check().unwrap_err().reason(), "FailedGetTarget");
    assert_eq!(
        told(autoscaler(&spec()).claim(None).unwrap_err()),
        ("FailedGetTarget", "Error getting target: machinesets.machine.openshift.io \"set\" not found".to_owned())
    );
    let others = json!({"metadata": {"annotations": {OWNER: "m/another"}}});
    assert_eq!(
        told(autoscaler(&spec()).claim(Some(&others)).unwrap_err()),
        ("FailedSetOwner", "Error setting target owner: already owned by another MachineAutoscaler".to_owned())
    );
    assert_eq!(autoscaler(&spec()).release(&others), None);
}

/// COP-CAS-02: a former target is known until the new one is written down.
#[test]
fn changed_target() {
    let object = |last: &str| {
        let last = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": last});
        MachineAutoscaler::of(&json!({"metadata": {}, "spec": spec(), "status": {"lastTargetRef": last}}))
    };
    assert_eq!(object("before").former().map(|former| former.name.clone()), Some("before".to_owned()));
    assert_eq!(object("set").former(), None);
    assert_eq!(object("before").status()["lastTargetRef"]["name"], "set");
}

/// COP-CAS-02: what a node of an empty set would be: annotations in both forms, the provider's defaults, or not known.
#[test]
fn from_zero() {
    let set = |annotations: Value, provider: Value| {
        let spec = json!({
            "metadata": {"labels": {"fleet": "x"}}, "providerSpec": {"value": provider},
            "taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "starting", "effect": "NoSchedule"}],
        });
        json!({"metadata": {"annotations": annotations}, "spec": {"template": {"spec": spec}}})
    };
    let startup = ["starting".to_owned()];
    let of = |annotations: Value, provider: Value| template(&set(annotations, provider), &[], &startup);
    let old =
        of(json!({"machine.openshift.io/vCPU": "4", "machine.openshift.io/memoryMb": "16384", "machine.openshift.io/GPU": "2"}), json!({}));
    let old = old.unwrap();
    let resources = &old["status"]["allocatable"];
    assert_eq!((&resources["cpu"], &resources["memory"], &resources["nvidia.com/gpu"]), (&json!("4"), &json!("16384Mi"), &json!("2")));
    assert_eq!(old["metadata"]["labels"]["fleet"], "x");
    assert_eq!(old["spec"]["taints"], json!([{"key": "k", "effect": "NoSchedule"}]), "a taint of the start is gone when it counts");
    let new = of(
        json!({"capacity.cluster-autoscaler.kubernetes.io/cpu": "2", "capacity.cluster-autoscaler.kubernetes.io/memory": "4Gi",
            "capacity.cluster-autoscaler.kubernetes.io/labels": "kubernetes.io/arch=arm64", "capacity.cluster-autoscaler.kubernetes.io/taints": "g=h:NoExecute"}),
        json!({}),
    )
    .unwrap();
    assert_eq!((&new["status"]["allocatable"]["cpu"], &new["metadata"]["labels"]["kubernetes.io/arch"]), (&json!("2"), &json!("arm64")));
    assert_eq!(new["spec"]["taints"][1], json!({"key": "g", "value": "h", "effect": "NoExecute"}));
    let simulated = of(json!({}), json!({"kind": "SimProviderConfig", "cpu": "4", "zone": "a"})).unwrap();
    assert_eq!((&simulated["status"]["allocatable"]["cpu"], &simulated["status"]["allocatable"]["memory"]), (&json!("4"), &json!("32Gi")));
    assert_eq!(simulated["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
    let unknown = of(json!({}), json!({"kind": "AWSMachineProviderConfig"})).unwrap_err().to_string();
    assert!(unknown.contains("machine.openshift.io/vCPU"), "{unknown}");
    let wrong = of(json!({"machine.openshift.io/vCPU": "four"}), json!({})).unwrap_err().to_string();
    assert_eq!(wrong, "annotation machine.openshift.io/vCPU: \"four\" is no amount");
}

/// COP-CAS-02: a set with a node takes that one as the pattern, without what passes.
#[test]
fn like_a_node() {
    let node = json!({
        "metadata": {"labels": {"fleet": "x", "kubernetes.io/hostname": "h"}},
        "spec": {"unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, {"key": "lasting", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "3500m"}, "capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let imagined = template(&json!({}), &[&node], &[]).unwrap();
    assert_eq!(imagined["status"]["allocatable"]["cpu"], "3500m");
    assert_eq!(imagined["spec"], json!({"taints": [{"key": "lasting", "effect": "NoSchedule"}]}));
}
