//! Replacement of a control plane's machines, step by step.

use jiff::{SignedDuration, Timestamp};
use mainstay_machine_core::control_plane::generate::{generate, is_current};
use mainstay_machine_core::control_plane::health::{Degradation, check};
use mainstay_machine_core::control_plane::members::{Indexes, Layout, MemberError, indexes};
use mainstay_machine_core::control_plane::object::{ControlPlane, ControlPlaneError};
use mainstay_machine_core::control_plane::plan::{Plan, Removal, Step, Wait, plan};
use mainstay_machine_core::control_plane::provider_spec::ProviderSpec;
use mainstay_machine_core::control_plane::status::{Counts, MOST_ERRORS, Observed, Repeated, status};
use mainstay_machine_core::node::Node;
use proptest::prelude::*;
use serde_json::{Value, json};

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn provider(size: u32, zone: &str) -> Value {
    json!({"apiVersion": "sim.mainstay.dev/v1alpha1", "kind": "SimProviderConfig", "instanceType": format!("size-{size}"), "zone": zone})
}

fn set(size: u32, strategy: &str, zones: &[&str]) -> Value {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "demo", "machine.openshift.io/cluster-api-machine-role": "master",
        "machine.openshift.io/cluster-api-machine-type": "master",
    });
    let mut template = json!({"metadata": {"labels": labels}, "spec": {"providerSpec": {"value": provider(size, "")}}});
    if !zones.is_empty() {
        let places: Vec<Value> = zones.iter().map(|zone| json!({"zone": zone})).collect();
        template["failureDomains"] = json!({"platform": "Sim", "sim": places});
    }
    json!({
        "apiVersion": "machine.openshift.io/v1", "kind": "ControlPlaneMachineSet",
        "metadata": {"name": "cluster", "namespace": "openshift-machine-api", "uid": "set", "generation": 4},
        "spec": {
            "state": "Active", "replicas": 3, "strategy": {"type": strategy}, "selector": {"matchLabels": labels},
            "template": {"machineType": "machines_v1beta1_machine_openshift_io", "machines_v1beta1_machine_openshift_io": template},
        },
    })
}

/// A machine of the play.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Played {
    name: String,
    created: i64,
    size: u32,
    zone: String,
    serves: bool,
    /// Its node is not ready for longer than the time of grace.
    lost: bool,
    deleting: bool,
    failed: bool,
}

impl Played {
    fn new(name: &str, created: i64, size: u32, zone: &str) -> Self {
        let (name, zone) = (name.to_owned(), zone.to_owned());
        Self { name, created, size, zone, serves: true, lost: false, deleting: false, failed: false }
    }

    fn object(&self) -> Value {
        let mut metadata =
            json!({"name": self.name, "uid": format!("uid-{}", self.name), "creationTimestamp": at(self.created).to_string()});
        if self.deleting {
            metadata["deletionTimestamp"] = json!(at(0).to_string());
        }
        let phase = if self.deleting { "Deleting" } else { "Running" };
        let mut status = json!({"phase": if self.serves { phase } else { "Provisioning" }});
        if self.serves {
            status["nodeRef"] = json!({"name": format!("node-{}", self.name)});
        }
        if self.failed {
            status["errorMessage"] = json!("no capacity");
        }
        json!({"metadata": metadata, "spec": {"providerSpec": {"value": provider(self.size, &self.zone)}}, "status": status})
    }

    fn node(&self) -> Option<Node> {
        let ready =
            json!({"type": "Ready", "status": if self.lost { "Unknown" } else { "True" }, "lastTransitionTime": at(-3000).to_string()});
        let node = json!({"metadata": {"name": format!("node-{}", self.name)}, "status": {"conditions": [ready]}});
        self.serves.then(|| Node::of(&node))
    }
}

fn looked_at(set: &Value, machines: &[Played]) -> (ControlPlane, Layout, Indexes) {
    let control_plane = ControlPlane::of(set).unwrap();
    let objects: Vec<Value> = machines.iter().map(Played::object).collect();
    let nodes: Vec<Node> = machines.iter().filter_map(Played::node).collect();
    let layout = Layout::of(&control_plane, &objects).unwrap();
    let wanted = |index| layout.provider_spec(&control_plane, index);
    let found = indexes(&control_plane, &layout, &objects, wanted, &nodes, at(0)).unwrap();
    (control_plane, layout, found)
}

fn planned(set: &Value, machines: &[Played]) -> Plan {
    let (control_plane, _, found) = looked_at(set, machines);
    plan(&control_plane, &found)
}

fn three(size: u32) -> Vec<Played> {
    (0..3).map(|index| Played::new(&format!("demo-master-{index}"), index, size, "")).collect()
}

fn delete(name: &str, why: Removal) -> Step {
    Step::Delete { name: name.to_owned(), uid: format!("uid-{name}"), why }
}

/// MACH-CPMS-03: a changed template replaces one machine after the other, in the order of their indexes.
#[test]
fn one_after_the_other() {
    let changed = set(2, "RollingUpdate", &[]);
    let mut machines = three(1);
    assert_eq!(planned(&set(1, "RollingUpdate", &[]), &machines), Plan::default());
    let first = planned(&changed, &machines);
    assert_eq!(first.steps, [Step::Create(0)]);
    assert_eq!(first.waits, [Wait::Surge { index: 1 }, Wait::Surge { index: 2 }]);
    machines.push(Played { serves: false, ..Played::new("demo-master-abcde-0", 9, 2, "") });
    let second = planned(&changed, &machines);
    assert!(second.steps.is_empty() && second.again.is_some(), "{second:?}");
    assert_eq!(second.waits[0].to_string(), "machine demo-master-abcde-0, which replaces demo-master-0, is to become ready");
    machines[3].serves = true;
    assert_eq!(planned(&changed, &machines).steps, [delete("demo-master-0", Removal::Replaced)]);
    machines[0].deleting = true;
    assert_eq!(planned(&changed, &machines).waits[0], Wait::Removed("demo-master-0".to_owned()));
    machines.remove(0);
    assert_eq!(planned(&changed, &machines).steps, [Step::Create(1)]);
}

/// MACH-CPMS-03: only the user deletes, and each deletion brings a replacement; what is outdated is told with its differences.
#[test]
fn on_delete() {
    let changed = set(2, "OnDelete", &[]);
    let mut machines = three(1);
    let idle = planned(&changed, &machines);
    assert!(idle.steps.is_empty());
    assert_eq!(
        idle.waits[0].to_string(),
        "machine demo-master-0 is outdated, and is replaced when it is deleted: instanceType: size-2 != size-1"
    );
    machines[1].deleting = true;
    assert_eq!(planned(&changed, &machines).steps, [Step::Create(1)]);
}

/// MACH-CPMS-03: an outdated machine that does not serve goes first; the last one that serves and stays never does, even beside an updated one
/// that the user deletes.
#[test]
fn what_goes_and_what_never_does() {
    let changed = set(3, "RollingUpdate", &[]);
    let mut machines = three(3);
    machines[0].size = 1;
    machines.push(Played { serves: false, ..Played::new("demo-master-bcdfg-0", 9, 2, "") });
    assert_eq!(planned(&changed, &machines).steps, [delete("demo-master-bcdfg-0", Removal::Outdated)]);
    machines[3] = Played { deleting: true, ..Played::new("demo-master-bcdfg-0", 9, 3, "") };
    assert!(planned(&changed, &machines).steps.is_empty());
    machines[3].deleting = false;
    machines[0].size = 3;
    assert_eq!(planned(&changed, &machines).steps, [delete("demo-master-0", Removal::Excess)]);
}

/// MACH-CPMS-02: names that tell no index are found by their place, and new names are made of the cluster, the role, or the prefix.
#[test]
fn indexes_and_names() {
    let mut object = set(1, "RollingUpdate", &["a", "b", "c"]);
    let machines = ["a", "b", "c"].map(|zone| Played::new(&format!("first-{zone}"), 1, 1, zone));
    // Machines without a number do not count for the mapping, which is then the configured order.
    let (control_plane, _, found) = looked_at(&object, &machines);
    let names: Vec<&str> = found.values().map(|members| &*members[0].machine.name).collect();
    assert_eq!(names, ["first-a", "first-b", "first-c"]);
    let name = control_plane.name(2, 7).unwrap();
    assert!(name.starts_with("demo-master-") && name.ends_with("-2") && name.len() == "demo-master-abcde-2".len(), "{name}");
    assert_ne!(control_plane.name(2, 8).unwrap(), name);
    object["spec"]["machineNamePrefix"] = json!("control.plane");
    let prefixed = ControlPlane::of(&object).unwrap();
    assert!(prefixed.name(0, 1).unwrap().starts_with("control.plane-"));
    let made = prefixed.machine("x-0", &Layout::of(&prefixed, &[]).unwrap().provider_spec(&prefixed, 1));
    assert_eq!(
        (&made["spec"]["providerSpec"]["value"]["zone"], &made["metadata"]["ownerReferences"][0]["uid"]),
        (&json!("b"), &json!("set"))
    );
    let elsewhere = [Played::new("first-z", 1, 1, "z")].map(|machine| machine.object());
    let layout = Layout::of(&prefixed, &elsewhere).unwrap();
    assert!(matches!(layout.index(&prefixed, &elsewhere[0]), Err(MemberError::Index(_))));
}

/// MACH-CPMS-03: a node may be not ready for twenty minutes; a machine that is being deleted serves as long as its node is ready.
#[test]
fn readiness() {
    let object = set(1, "RollingUpdate", &[]);
    let control_plane = ControlPlane::of(&object).unwrap();
    let ready = |phase: &str, status: &str, minutes: i64| {
        let since = at(0) - SignedDuration::from_mins(minutes);
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since.to_string()});
        let node = Node::of(&json!({"metadata": {"name": "n"}, "status": {"conditions": [condition]}}));
        let machine = json!({"metadata": {"name": "m-0"}, "spec": {"providerSpec": {"value": provider(1, "")}},
            "status": {"phase": phase, "nodeRef": {"name": "n"}}});
        let layout = Layout::of(&control_plane, &[]).unwrap();
        let wanted = |index| layout.provider_spec(&control_plane, index);
        indexes(&control_plane, &layout, &[machine], wanted, &[node], at(0)).unwrap()[&0][0].ready
    };
    let found = [
        ("Running", "True", 0),
        ("Running", "Unknown", 19),
        ("Running", "Unknown", 21),
        ("Deleting", "True", 0),
        ("Deleting", "False", 1),
        ("Provisioned", "True", 9),
    ]
    .map(|(phase, status, minutes)| ready(phase, status, minutes));
    assert_eq!(found, [true, true, false, true, false, false]);
    let lost = json!({"metadata": {"name": "m-0"}, "spec": {"providerSpec": {"value": provider(1, "")}},
        "status": {"phase": "Running", "nodeRef": {"name": "gone"}}});
    let layout = Layout::of(&control_plane, &[]).unwrap();
    let wanted = |index| layout.provider_spec(&control_plane, index);
    let error = indexes(&control_plane, &layout, &[lost], wanted, &[], at(0)).unwrap_err();
    assert!(error.to_string().ends_with("failed to get Node \"gone\": nodes \"gone\" not found"), "{error}");
}

/// MACH-CPMS-04: the states in which nothing is done, each with its reason and upstream's words.
#[test]
fn degraded_states() {
    let object = set(2, "RollingUpdate", &[]);
    let of = |object: &Value, machines: &[Played], nodes: &[&str]| {
        let (control_plane, _, found) = looked_at(object, machines);
        let nodes: Vec<String> = nodes.iter().map(|node| (*node).to_owned()).collect();
        check(&control_plane, &found, &nodes).map(|degraded| (degraded.reason(), degraded.to_string()))
    };
    let told = |reason, words: &str| Some((reason, words.to_owned()));
    assert_eq!(of(&object, &three(2), &["node-demo-master-0"]), None);
    assert_eq!(of(&object, &three(2), &["alone"]), told("UnmanagedNodes", "Found 1 unmanaged node(s)"));
    let lost: Vec<Played> = three(2).into_iter().map(|machine| Played { lost: true, ..machine }).collect();
    assert_eq!(of(&object, &lost, &[]), told("NoReadyMachines", "No ready control plane machines found"));
    assert_eq!(of(&object, &lost[..2], &[]), told("NoReadyMachines", ""));
    let mut machines = three(2);
    machines.push(Played::new("demo-master-7", 1, 2, ""));
    assert_eq!(of(&object, &machines, &[]), told("ExcessIndexes", "Observed 1 index(es) in excess"));
    let mut machines = three(2);
    machines.push(Played::new("demo-master-x-1", 1, 2, ""));
    assert_eq!(of(&object, &machines, &[]), None, "the rolling update puts it right");
    assert_eq!(
        of(&set(2, "OnDelete", &[]), &machines, &[]),
        told("ExcessUpdatedReplicas", "Observed 1 updated machine(s) in excess for index 1")
    );
    machines[1].size = 1;
    machines[3] = Played { serves: false, failed: true, ..machines[3].clone() };
    assert_eq!(of(&object, &machines, &[]), told("FailedReplacement", "Observed 1 replacement machine(s) in error state"));
    let recreate = Degradation::InvalidStrategy("Recreate".to_owned());
    assert_eq!(recreate.to_string(), "invalid value for spec.strategy.type: update strategy \"Recreate\" is not supported");
}

/// MACH-CPMS-04: numbers and conditions; a condition keeps its time as long as its status, and the fifteenth equal error is told.
#[test]
fn statuses() {
    let mut object = set(2, "RollingUpdate", &[]);
    let (control_plane, _, found) = looked_at(&object, &three(1)[..2]);
    let observed = Observed { counts: Counts::of(&found), degraded: None };
    object["status"] = status(&object, Some((&control_plane, &observed)), None, at(0));
    let of = |object: &Value, kind: &str| mainstay_objects::condition(object, kind).unwrap().clone();
    assert_eq!(object["status"]["unavailableReplicas"], 1);
    assert_eq!(
        (&of(&object, "Available")["reason"], &of(&object, "Available")["message"]),
        (&json!("UnavailableReplicas"), &json!("Missing 1 available replica(s)"))
    );
    assert_eq!(of(&object, "Progressing")["message"], "Observed 3 replica(s) in need of update");
    assert_eq!(of(&object, "Degraded")["observedGeneration"], 4);
    let degraded = Observed { degraded: Some(Degradation::ExcessIndexes(2)), ..observed };
    object["status"] = status(&object, Some((&control_plane, &degraded)), None, at(60));
    assert_eq!(of(&object, "Progressing")["reason"], "OperatorDegraded");
    assert_eq!(of(&object, "Available")["lastTransitionTime"], at(0).to_string());
    let mut error = None;
    for second in 0..i64::from(MOST_ERRORS) {
        error = Some(Repeated::after(error, "no answer".to_owned(), at(second)));
        object["status"] = status(&object, None, error.as_ref(), at(second));
        let told = of(&object, "Error");
        assert_eq!(told["status"], if second + 1 < i64::from(MOST_ERRORS) { "False" } else { "True" }, "{second}");
    }
    let told = of(&object, "Error");
    assert_eq!(told["reason"], "ContinuousErrors");
    assert!(told["message"].as_str().unwrap().ends_with(&format!("15 consecutive times since {}: no answer", at(0))), "{told}");
    assert_eq!(Repeated::after(error, "other".to_owned(), at(99)).count, 1);
}

/// MACH-CPMS-05, MACH-CPMS-06: the generated object describes the machines: nothing would be replaced by it, and it is inactive.
#[test]
fn generated() {
    let machines: Vec<Value> = ["a", "b", "a"]
        .iter()
        .zip(0..)
        .map(|(zone, index)| {
            let mut object = Played::new(&format!("demo-master-{index}"), index, 5, zone).object();
            object["metadata"]["labels"] = json!({"machine.openshift.io/cluster-api-cluster": "demo"});
            object
        })
        .collect();
    assert_eq!(generate(&machines[..1], "n").unwrap(), None);
    let mut made = generate(&machines, "n").unwrap().unwrap();
    let template = &made["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
    assert_eq!(template["failureDomains"], json!({"platform": "Sim", "sim": [{"zone": "a"}, {"zone": "b"}]}));
    assert!(template["spec"]["providerSpec"]["value"]["zone"].is_null());
    assert_eq!(made["spec"]["state"], "Inactive");
    assert!(is_current(&made, &generate(&machines, "n").unwrap().unwrap()));
    made["metadata"]["uid"] = json!("set");
    let control_plane = ControlPlane::of(&made).unwrap();
    let layout = Layout::of(&control_plane, &machines).unwrap();
    let wanted = |index| layout.provider_spec(&control_plane, index);
    let found = indexes(&control_plane, &layout, &machines, wanted, &[], at(0));
    // The nodes are not handed in here: their absence is told, and no difference.
    assert!(matches!(found, Err(MemberError::NoNode { .. })));
    for (machine, index) in machines.iter().zip(0..) {
        let spec = machine["spec"]["providerSpec"]["value"].to_string();
        let found = ProviderSpec::read(Some(&spec)).unwrap();
        assert_eq!(wanted(index).differences(&found).unwrap(), Vec::<String>::new());
    }
    made["spec"]["template"]["machines_v1beta1_machine_openshift_io"]["spec"]["providerSpec"]["value"]["instanceType"] = json!("other");
    assert!(!is_current(&made, &generate(&machines, "n").unwrap().unwrap()));
    let clouds = |kind: &str, zone: &str| json!({"metadata": {"name": zone}, "spec": {"providerSpec": {"value": {"kind": kind, "zone": zone, "subnet": "s"}}}});
    let azure = generate(&[clouds("AzureMachineProviderSpec", "1"), clouds("AzureMachineProviderSpec", "2")], "n").unwrap().unwrap();
    let template = &azure["spec"]["template"]["machines_v1beta1_machine_openshift_io"];
    assert_eq!(template["failureDomains"], json!({"platform": "Azure", "azure": [{"zone": "1"}, {"zone": "2"}]}));
    let value = &template["spec"]["providerSpec"]["value"];
    assert_eq!((&value["subnet"], &value["zone"]), (&json!("s"), &Value::Null));
    let gcp = generate(&[clouds("GCPMachineProviderSpec", "z"), clouds("GCPMachineProviderSpec", "z")], "n").unwrap().unwrap();
    assert_eq!(
        gcp["spec"]["template"]["machines_v1beta1_machine_openshift_io"]["failureDomains"],
        json!({"platform": "GCP", "gcp": [{"zone": "z"}]})
    );
    assert_eq!(generate(&[clouds("Other", "z"), clouds("Other", "z")], "n").unwrap(), None);
}

/// MACH-CPMS-01, MACH-CPMS-03: what cannot be worked on is refused with the field; images that machines booted from are no difference.
#[test]
fn objects_that_cannot_be_worked_on() {
    let refused = |pointer: &str, value: Value| {
        let mut object = set(1, "RollingUpdate", &["a"]);
        *object.pointer_mut(pointer).unwrap() = value;
        ControlPlane::of(&object).unwrap_err().to_string()
    };
    assert!(refused("/spec/template/machineType", json!("other")).ends_with("provider: other"));
    assert_eq!(refused("/spec/replicas", Value::Null), ControlPlaneError::Replicas.to_string());
    assert!(refused("/spec/replicas", json!(1_000_000)).contains("at most 1000"));
    let domains = "/spec/template/machines_v1beta1_machine_openshift_io/failureDomains";
    assert!(refused(domains, json!({"platform": "VSphere", "vsphere": []})).ends_with("unsupported platform type: VSphere"));
    assert!(refused(domains, json!({"platform": "Sim"})).ends_with("missing failure domain configuration"));
    let read = |value: Value| ProviderSpec::read(Some(&value.to_string())).unwrap();
    let aws = |ami: &str, size: &str| read(json!({"kind": "AWSMachineProviderConfig", "ami": {"id": ami}, "instanceType": size}));
    assert!(aws("one", "m").differences(&aws("two", "m")).unwrap().is_empty());
    assert_eq!(aws("one", "l").differences(&aws("two", "m")).unwrap(), ["instanceType: l != m"]);
    let gcp = |image: &str| read(json!({"kind": "GCPMachineProviderSpec", "disks": [{"image": image}]}));
    assert!(gcp("one").differences(&gcp("two")).unwrap().is_empty());
    assert!(gcp("one").differences(&aws("two", "m")).is_err());
}

/// Something that happens to a control plane.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Template,
    Serves(usize),
    Gone(usize),
    Deleted(usize),
    Lost(usize),
    Found(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = (0_usize..6, 0_usize..6).prop_map(|(sort, which)| match sort {
        0 => Happening::Template,
        1 => Happening::Serves(which),
        2 => Happening::Gone(which),
        3 => Happening::Deleted(which),
        4 => Happening::Lost(which),
        _ => Happening::Found(which),
    });
    proptest::collection::vec(one, 0..40)
}

/// A control plane that is played.
struct Play {
    size: u32,
    strategy: &'static str,
    machines: Vec<Played>,
    made: u32,
}

impl Play {
    fn happens(&mut self, happening: Happening) {
        let count = self.machines.len().max(1);
        let mut change = |which: usize, how: &dyn Fn(&mut Played)| {
            if let Some(machine) = self.machines.get_mut(which % count) {
                how(machine);
            }
        };
        match happening {
            Happening::Template => self.size += 1,
            Happening::Serves(which) => change(which, &|machine| machine.serves |= !machine.deleting),
            Happening::Deleted(which) => change(which, &|machine| machine.deleting = true),
            Happening::Lost(which) => change(which, &|machine| machine.lost = true),
            Happening::Found(which) => change(which, &|machine| machine.lost = false),
            Happening::Gone(which) => {
                if self.machines.get(which % count).is_some_and(|machine| machine.deleting) {
                    self.machines.remove(which % count);
                }
            }
        }
    }

    /// Does what is planned, and checks it.
    fn reconcile(&mut self) -> Result<bool, TestCaseError> {
        let object = set(self.size, self.strategy, &[]);
        let (control_plane, _, found) = looked_at(&object, &self.machines);
        let nodes: Vec<String> = Vec::new();
        if check(&control_plane, &found, &nodes).is_some() {
            return Ok(false);
        }
        let planned = plan(&control_plane, &found);
        let before = self.machines.len();
        for step in &planned.steps {
            match step {
                Step::Create(index) => {
                    self.made += 1;
                    let name = format!("demo-master-n{}-{index}", self.made);
                    self.machines.push(Played { serves: false, ..Played::new(&name, 100 + i64::from(self.made), self.size, "") });
                }
                Step::Delete { name, .. } => {
                    let members = found.values().find(|members| members.iter().any(|member| member.machine.name == *name)).unwrap();
                    let own = members.iter().find(|member| member.machine.name == *name).unwrap();
                    let another = members.iter().any(|other| other.machine.name != *name && other.ready && !other.machine.deleting);
                    prop_assert!(self.strategy == "RollingUpdate", "only the user deletes");
                    prop_assert!(!own.ready || another, "the last that serves is deleted: {members:?}");
                    prop_assert!(!own.machine.deleting, "it is deleted twice");
                    self.machines.iter_mut().find(|machine| machine.name == *name).unwrap().deleting = true;
                }
            }
        }
        if self.strategy == "RollingUpdate" {
            prop_assert!(self.machines.len() <= before.max(4), "two surges: {planned:?}");
        } else {
            let deleting = self.machines.iter().filter(|machine| machine.deleting).count();
            prop_assert!(self.machines.len() <= before.max(3 + deleting), "more than the user deleted: {planned:?}");
        }
        Ok(!planned.steps.is_empty())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// MACH-CPMS-03: in every order of events there is one surge at most, the last machine of an index that serves is never deleted by us,
    /// and once things go well all machines are as wanted.
    #[test]
    fn replacement_is_safe_and_ends(happenings in happenings(), rolling in any::<bool>()) {
        let strategy = if rolling { "RollingUpdate" } else { "OnDelete" };
        let mut play = Play { size: 1, strategy, machines: three(1), made: 0 };
        for happening in happenings {
            play.happens(happening);
            play.reconcile()?;
            // Reconciled again, nothing is done twice.
            play.reconcile()?;
        }
        // Where the user deletes everything, a person must help: nothing is made while no machine serves.
        if !rolling || play.machines.iter().all(|machine| machine.deleting) {
            return Ok(());
        }
        for _ in 0..40 {
            play.machines.retain(|machine| !machine.deleting);
            play.machines.iter_mut().for_each(|machine| (machine.serves, machine.lost) = (true, false));
            play.reconcile()?;
        }
        let updated = play.machines.iter().filter(|machine| machine.size == play.size && !machine.deleting).count();
        prop_assert_eq!((updated, play.machines.len()), (3, 3), "{:?}", play.machines);
    }
}
