//! The kinds of the Machine API against the definitions of the recorded releases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;

use crate::recorded::{Difference, differences, facts};

/// MACH-API-01, MACH-API-02, MACH-API-03, MACH-HOOK-02, MACH-HOOK-03, MACH-SET-01, MACH-MHC-01, MACH-CPMS-01: names, columns, defaults, rules,
/// subresources and schemas are those of the recorded releases.
#[test]
fn definitions_are_those_of_the_release() {
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let files = [
        ("machines", "/4.18.", "0000_30_machine-api-operator_02_machine.Default.crd.yaml"),
        ("machinesets", "/4.18.", "0000_30_machine-api-operator_03_machineset.Default.crd.yaml"),
        ("machinehealthchecks", "/4.18.", "0000_30_machine-api-operator_07_machinehealthcheck.crd.yaml"),
        ("controlplanemachinesets", "/4.19.", "0000_10_control-plane-machine-set_01_controlplanemachinesets-Default.crd.yaml"),
    ];
    let manifests = mainstay_api::machine_manifests().unwrap();
    for (plural, release, file) in files {
        let (_, text) = payload.iter().find(|(path, _)| path.contains(release) && path.ends_with(file)).expect(file);
        let theirs = mainstay_yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let ours = manifests.iter().find(|manifest| manifest.file == format!("machine.openshift.io_{plural}.yaml")).unwrap();
        let mut out = Vec::new();
        let ours = without_simulation(&ours.definition);
        differences("", &facts(&ours)["spec"], &facts(&theirs)["spec"], &mut out);
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{plural}:\n{}", shown.join("\n"));
    }
}

/// A definition without the platform that is ours alone (MACH-CPMS-06).
fn without_simulation(definition: &Value) -> Value {
    match definition {
        Value::Object(map) => {
            map.iter().filter(|(key, _)| *key != "sim").map(|(key, value)| (key.clone(), without_simulation(value))).collect()
        }
        Value::Array(items) => {
            let is_ours =
                |item: &&Value| **item == "Sim" || item["message"].as_str().is_some_and(|text| text.starts_with("sim configuration"));
            items.iter().filter(|item| !is_ours(item)).map(without_simulation).collect()
        }
        other => other.clone(),
    }
}
