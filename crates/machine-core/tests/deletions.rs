//! Deletions as they go.

use jiff::Timestamp;
use mainstay_machine_core::deletion::{Part, PartState, course, hooks};
use mainstay_machine_core::drain::verdict::Verdict;
use mainstay_machine_core::hooks::Stage;
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::node::Node;
use serde_json::{Value, json};

const DELETED: &str = "2026-03-10T12:00:00Z";

/// A machine with a hook of each kind, and a node.
fn machine() -> Value {
    json!({
        "metadata": {"name": "a", "finalizers": ["machine.machine.openshift.io"], "labels": {"machine.openshift.io/cluster-api-cluster": "demo"}},
        "spec": {
            "lifecycleHooks": {
                "preDrain": [{"name": "MoveLedger", "owner": "ledger"}], "preTerminate": [{"name": "Detach", "owner": "storage"}],
            },
            "providerSpec": {"value": {"kind": "X"}},
        },
        "status": {"phase": "Running", "nodeRef": {"name": "n"}},
    })
}

fn states(object: &Value) -> (Option<Part>, Vec<&'static str>) {
    let (machine, node) = (Machine::of(object), Node::of(&json!({"metadata": {"name": "n"}})));
    let course = course(&machine, object, Some(&node), std::slice::from_ref(&node));
    (course.current(), course.parts.iter().map(|(_, state)| state.name()).collect())
}

/// MACH-DEL-02, MACH-DEL-03, MACH-DEL-10: the steps before the deletion, and after each thing that happens.
#[test]
fn steps_in_order() {
    let mut object = machine();
    assert_eq!(states(&object), (None, vec!["later"; 7]));
    object["metadata"]["deletionTimestamp"] = json!(DELETED);
    object["status"]["phase"] = json!("Deleting");
    assert_eq!(states(&object), (Some(Part::PreDrainHooks), vec!["done", "now", "later", "later", "later", "later", "later"]));
    object["spec"]["lifecycleHooks"]["preDrain"] = json!([]);
    assert_eq!(states(&object), (Some(Part::Drain), vec!["done", "done", "now", "later", "later", "later", "later"]));
    object["status"]["conditions"] = json!([{"type": "Drained", "status": "True"}]);
    assert_eq!(states(&object).0, Some(Part::PreTerminateHooks));
    object["spec"]["lifecycleHooks"]["preTerminate"] = json!([]);
    assert_eq!(states(&object), (Some(Part::Terminate), vec!["done", "done", "done", "done", "now", "later", "later"]));
    object["metadata"]["finalizers"] = json!([]);
    assert_eq!(states(&object).0, Some(Part::Release));
}

/// MACH-DEL-04: a drain that is left out is not held up by its hooks; without a node there is none to drain or remove.
#[test]
fn steps_that_are_left_out() {
    let mut object = machine();
    object["metadata"]["annotations"] = json!({"machine.openshift.io/exclude-node-draining": ""});
    assert_eq!(states(&object).1, ["later", "skipped", "skipped", "later", "later", "later", "later"]);
    let mut object = machine();
    object["status"] = json!({"phase": "Provisioned"});
    assert_eq!(states(&object).1, ["later", "skipped", "skipped", "later", "later", "skipped", "later"]);
    let (parsed, other) = (Machine::of(&machine()), master("other", true));
    let own = master("n", false);
    let nodes = [own.clone(), other];
    let course = course(&parsed, &machine(), Some(&own), &nodes);
    assert!(matches!(course.drain, Verdict::NotPermitted { other } if other.name == "other"));
    assert_eq!(course.state(Part::Drain), PartState::Later);
}

fn master(name: &str, cordoned: bool) -> Node {
    let labels = json!({"node-role.kubernetes.io/master": ""});
    Node::of(&json!({"metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": cordoned}}))
}

/// MACH-TRB-02, MS-READY-02: a hook's owner, who wrote it and when, and that ten minutes have passed without any action.
#[test]
fn hooks_and_their_ages() {
    let mut object = machine();
    let fields = json!({"f:spec": {"f:lifecycleHooks": {"f:preDrain": {"k:{\"name\":\"MoveLedger\"}": {".": {}, "f:owner": {}}}}}});
    object["metadata"]["managedFields"] = json!([{"manager": "ledgerd", "time": "2026-03-10T11:00:00Z", "fieldsV1": fields}]);
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let found = hooks(&Machine::of(&object), &object);
    assert_eq!((found[0].stage, &*found[0].hook.owner, found[0].since), (Stage::PreDrain, "ledger", Some(at("2026-03-10T11:00:00Z"))));
    assert_eq!(found[1].written, None);
    object["metadata"]["deletionTimestamp"] = json!(DELETED);
    let found = hooks(&Machine::of(&object), &object);
    assert_eq!(found[0].since, Some(at(DELETED)), "it holds up nothing before");
    assert_eq!(found[0].written.as_ref().unwrap().0, "ledgerd");
    assert_eq!(found[0].silence(at("2026-03-10T12:09:59Z")), None);
    assert!(found[0].silence(at("2026-03-10T12:10:00Z")).is_some());
}
