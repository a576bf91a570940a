//! Failure domains of a control plane.

use mainstay_machine_core::control_plane::failure_domain::{FailureDomain, Platform};
use mainstay_machine_core::control_plane::mapping::{ControlPlaneMachine, MappingError, index_of, mapping};
use mainstay_machine_core::control_plane::provider_spec::ProviderSpec;
use proptest::prelude::*;
use serde_json::json;

fn zone(zone: &str) -> FailureDomain {
    FailureDomain::Gcp { zone: zone.to_owned() }
}

fn machine(name: &str, zone: &str) -> ControlPlaneMachine {
    let spec = json!({"kind": "GCPMachineProviderSpec", "zone": zone}).to_string();
    ControlPlaneMachine { name: name.to_owned(), created: None, deleting: false, provider_spec: Some(spec) }
}

/// MACH-CPMS-02: the index is the number behind the last dash.
#[test]
fn indexes_in_names() {
    let found = ["c-master-0", "c-master-abcde-12", "c-master-x", "c-master3", "7", "c-master-", "c-master-99999999999"].map(index_of);
    assert_eq!(found, [Some(0), Some(12), None, None, Some(7), None, None]);
}

/// MACH-CPMS-02: unknown fields go, what upstream always writes is there, and the place is the given one.
#[test]
fn provider_specs_with_another_place() {
    let spec = json!({"kind": "AWSMachineProviderConfig", "instanceType": 5, "extra": true, "subnet": {"arn": "a"}}).to_string();
    let refused = ProviderSpec::read(Some(&spec)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "failed to check for unknown fields in the provider spec: failed to unmarshal provider config: json: cannot unmarshal number into Go \
         struct field AWSMachineProviderConfig.instanceType of type string"
    );
    let spec =
        json!({"kind": "AWSMachineProviderConfig", "instanceType": 5, "subnet": {"arn": "a"}, "blockDevices": [{"ebs": {"iops": 3}}]});
    let read = ProviderSpec::read(Some(&spec.to_string())).unwrap();
    assert_eq!(read.platform(), Platform::Aws);
    assert_eq!(read.failure_domain().to_string(), "AWSFailureDomain{Subnet:{Type:ARN, Value:a}}");
    let domains =
        json!([{"placement": {"availabilityZone": "z"}, "subnet": {"type": "Filters", "filters": [{"name": "n", "values": ["a", "b"]}]}}]);
    let place = &FailureDomain::list(Platform::Aws, &domains).unwrap()[0];
    assert_eq!(place.to_string(), "AWSFailureDomain{AvailabilityZone:z, Subnet:{Type:Filters, Value:&[{Name:n Values:[a b]}]}}");
    assert_eq!(
        read.with(place).value(),
        &json!({
            "kind": "AWSMachineProviderConfig", "instanceType": "5", "metadata": {}, "ami": {}, "deviceIndex": 0, "capacityReservationId": "",
            "metadataServiceOptions": {}, "placement": {"availabilityZone": "z"}, "blockDevices": [{"ebs": {"iops": 3, "kmsKey": {}}}],
            "subnet": {"filters": [{"name": "n", "values": ["a", "b"]}]},
        })
    );
}

/// MACH-CPMS-02: amounts are written as Kubernetes writes them, and an item of a list of pointers that is null stays null.
#[test]
fn provider_specs_of_other_clouds() {
    let written = |spec: serde_json::Value| ProviderSpec::read(Some(&spec.to_string())).unwrap().value().clone();
    let azure = written(json!({"kind": "AzureMachineProviderSpec", "spotVMOptions": {"maxPrice": "0.5"}}));
    assert_eq!(azure["spotVMOptions"], json!({"maxPrice": "500m"}));
    let gcp = written(json!({"kind": "GCPMachineProviderSpec", "networkInterfaces": [null, {}], "gpus": [null]}));
    assert_eq!((&gcp["networkInterfaces"], &gcp["gpus"]), (&json!([null, {}]), &json!([{"count": 0, "type": ""}])));
}

/// MACH-CPMS-02: absurd numbers of replicas are refused, not planned.
#[test]
fn replicas_that_are_absurd() {
    let of = |replicas| mapping(&[], replicas, &[zone("a")], &zone(""));
    assert!(matches!(of(i32::MAX), Err(MappingError::TooMany(i32::MAX))));
    assert!(matches!(of(-1), Err(MappingError::Replicas)));
    assert_eq!(of(2).unwrap().len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// MACH-CPMS-02: places are known ones, no place has more indexes than it must, and a machine in a place that has room keeps it.
    #[test]
    fn places_are_balanced(
        zones in proptest::collection::btree_set("[a-e]", 1..5),
        machines in proptest::collection::btree_map(0_i32..8, "[a-f]", 0..6),
        replicas in 1_i32..7,
    ) {
        let domains: Vec<FailureDomain> = zones.iter().map(|name| zone(name)).collect();
        let existing: Vec<ControlPlaneMachine> = machines.iter().map(|(index, name)| machine(&format!("m-{index}"), name)).collect();
        let found = mapping(&existing, replicas, &domains, &zone("")).unwrap();
        let indexes = existing.len().max(replicas as usize);
        prop_assert!(found.len() >= indexes);
        let most = indexes.div_ceil(domains.len().min(indexes));
        for place in found.values() {
            prop_assert!(domains.contains(place));
            prop_assert!(found.values().filter(|other| *other == place).count() <= most, "{found:?}");
        }
        prop_assert!(machines.keys().all(|index| found.contains_key(index)));
        // A second look at machines that stand where they should changes nothing.
        let settled: Vec<ControlPlaneMachine> = found
            .iter()
            .map(|(index, place)| {
                let FailureDomain::Gcp { zone } = place else { panic!("{place}") };
                machine(&format!("m-{index}"), zone)
            })
            .collect();
        prop_assert_eq!(mapping(&settled, replicas, &domains, &zone("")).unwrap(), found);
    }
}
