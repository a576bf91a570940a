//! The kinds of the Machine API against the definitions of the recorded releases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::recorded::{Difference, differences, facts};

/// MACH-API-01, MACH-API-02, MACH-API-03, MACH-HOOK-02, MACH-HOOK-03, MACH-SET-01, MACH-MHC-01, MACH-CPMS-01: names, columns, defaults, rules,
/// subresources and schemas are those of the recorded releases.
#[test]
fn definitions_are_those_of_the_release() {
    let Some(payload) = mainstay_testing::data::archive("payload.tar.gz") else { return };
    let files = [
        ("machines", "0000_30_machine-api-operator_02_machine.Default.crd.yaml"),
        ("machinesets", "0000_30_machine-api-operator_03_machineset.Default.crd.yaml"),
        ("machinehealthchecks", "0000_30_machine-api-operator_07_machinehealthcheck.crd.yaml"),
        ("controlplanemachinesets", "0000_10_control-plane-machine-set_01_controlplanemachinesets-Default.crd.yaml"),
    ];
    let manifests = mainstay_api::machine_manifests().unwrap();
    for (plural, file) in files {
        let (_, text) = payload.iter().find(|(path, _)| path.contains("/4.18.") && path.ends_with(file)).expect(file);
        let theirs = mainstay_yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let ours = manifests.iter().find(|manifest| manifest.file == format!("machine.openshift.io_{plural}.yaml")).unwrap();
        let mut out = Vec::new();
        differences("", &facts(&ours.definition)["spec"], &facts(&theirs)["spec"], &mut out);
        let shown: Vec<String> = out.iter().map(Difference::to_string).collect();
        assert!(shown.is_empty(), "{plural}:\n{}", shown.join("\n"));
    }
}
