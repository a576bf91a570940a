//! The definitions of nodes' configuration against those of the recorded releases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::{Value, json};

use crate::recorded::{Difference, differences, facts};

/// Why a difference is wanted; `None` if it is an error.
fn wanted(difference: &Difference) -> Option<&'static str> {
    let Difference { path, ours, theirs } = difference;
    let open = path.ends_with("/x-kubernetes-preserve-unknown-fields") && *ours == true && theirs.is_null();
    if open {
        return Some("further fields are kept as they are");
    }
    ours.is_null().then_some("a field that is not typed here, and kept as it is")
}

/// MACH-MC-01, MACH-MCP-01, MACH-MCP-02, MACH-NODE-06, MACH-DISR-06: names, columns, rules and schemas are those of the recorded release; of
/// ControllerConfig and MachineConfiguration some fields are kept without a type.
#[test]
fn definitions_are_those_of_the_release() {
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let mut compared = 0;
    for manifest in mainstay_api::machine_config_manifests().unwrap() {
        let plural = manifest.definition["spec"]["names"]["plural"].as_str().unwrap().to_owned();
        let is_theirs = |path: &str| {
            path.contains("/4.19.")
                && [format!("_{plural}.crd.yaml"), format!("_{plural}-Default.crd.yaml")].iter().any(|end| path.ends_with(end))
        };
        let (_, text) = payload.iter().find(|(path, _)| is_theirs(path)).expect(&plural);
        let theirs = mainstay_yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let mut out = Vec::new();
        differences("", &facts(&manifest.definition)["spec"], &facts(&theirs)["spec"], &mut out);
        if ["controllerconfigs", "machineconfigurations"].contains(&plural.as_str()) {
            out.retain(|difference| wanted(difference).is_none());
        }
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{plural}:\n{}", shown.join("\n"));
        compared += 1;
    }
    assert_eq!(compared, 8);
}

/// MACH-MCP-14, MACH-MC-01: the examples of the specification keep their fields, and their columns show what is asked for.
#[test]
fn objects_are_kept_whole() {
    let manifests = mainstay_api::machine_config_manifests().unwrap();
    let schema = |plural: &str| {
        let manifest = manifests.iter().find(|manifest| manifest.definition["spec"]["names"]["plural"] == plural).unwrap();
        mainstay_schema::Schema::from_json(&manifest.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
    };
    let config = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": "50-demo-motd"},
        "spec": {"config": {"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/motd.d/demo", "mode": 420}]}},
            "kernelArguments": ["audit=0"]}});
    let pool = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "infra"},
        "spec": {"machineConfigSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["worker", "infra"]}]},
            "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/infra": ""}}, "maxUnavailable": "40%", "paused": false}});
    let policies = json!({"apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": {"logLevel": "Normal", "operatorLogLevel": "Normal", "managedBootImages": {"machineManagers": []}, "nodeDisruptionPolicy": {
            "files": [{"path": "/etc/chrony.conf", "actions": [{"type": "Restart", "restart": {"serviceName": "chronyd.service"}}]}]}}});
    for (plural, object) in [("machineconfigs", config), ("machineconfigpools", pool), ("machineconfigurations", policies)] {
        let schema = schema(plural);
        let mut stored = object.clone();
        mainstay_schema::prune::prune(&schema, &mut stored);
        assert_eq!(stored, object, "{plural}");
        assert_eq!(mainstay_schema::validate::validate(&schema, &stored, &mainstay_schema::field::Path::root()), [], "{plural}");
    }
    let mut wrong: Value = json!({"spec": {"maxUnavailable": true, "paused": "yes"}});
    mainstay_schema::prune::prune(&schema("machineconfigpools"), &mut wrong);
    let findings = mainstay_schema::validate::validate(&schema("machineconfigpools"), &wrong, &mainstay_schema::field::Path::root());
    let about = |path: &str| findings.iter().any(|finding| finding.to_string().starts_with(&format!("{path}: ")));
    assert!(about("spec.maxUnavailable") && about("spec.paused"), "{findings:?}");
}
