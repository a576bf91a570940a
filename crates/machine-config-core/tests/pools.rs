//! The rollout of a configuration over a pool.

use std::collections::BTreeMap;

use mainstay_machine_config_core::pool::Pool;
use mainstay_machine_config_core::pool::candidates::Candidates;
use mainstay_machine_config_core::pool::limit::max_unavailable;
use mainstay_machine_config_core::pool::node::{Node, NodeCondition, annotation};
use mainstay_machine_config_core::pool::plan::{Pass, plan};
use mainstay_machine_config_core::pool::status::status;
use mainstay_objects::{IntOrString, LabelSelector};
use proptest::prelude::*;
use serde_json::json;

fn node(name: &str, current: &str, desired: &str, state: &str) -> Node {
    let said = [(annotation::CURRENT_CONFIG, current), (annotation::DESIRED_CONFIG, desired), (annotation::STATE, state)];
    Node {
        name: name.to_owned(),
        annotations: said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        conditions: vec![NodeCondition { kind: "Ready".to_owned(), status: "True".to_owned() }],
        ..Node::default()
    }
}

fn pool(limit: i32) -> Pool {
    Pool { name: "worker".to_owned(), target: "new".to_owned(), max_unavailable: Some(IntOrString::Int(limit)), paused: false }
}

/// Names of the nodes that a pass targets; they are told so, as the pass would.
fn pass(pool: &Pool, nodes: &mut [Node]) -> Vec<String> {
    let seen = nodes.to_vec();
    let Pass::Update(update) = plan(pool, None, false, &seen, None).unwrap() else { panic!("no update") };
    for node in nodes.iter_mut().filter(|node| update.target.iter().any(|target| target.name == node.name)) {
        node.annotations.insert(annotation::DESIRED_CONFIG.to_owned(), "new".to_owned());
        node.annotations.insert(annotation::STATE.to_owned(), "Working".to_owned());
    }
    update.target.iter().map(|node| node.name.clone()).collect()
}

fn done(nodes: &mut [Node], name: &str) {
    let node = nodes.iter_mut().find(|node| node.name == name).unwrap();
    node.annotations.insert(annotation::CURRENT_CONFIG.to_owned(), "new".to_owned());
    node.annotations.insert(annotation::STATE.to_owned(), "Done".to_owned());
}

/// MACH-MCP-06: five nodes, three at a time, in the order of the example.
#[test]
fn five_nodes_three_at_a_time() {
    let mut nodes: Vec<Node> = ["1", "2", "3", "4", "5"].iter().map(|name| node(name, "old", "old", "Done")).collect();
    let pool = pool(3);
    assert_eq!(pass(&pool, &mut nodes), ["1", "2", "3"]);
    assert!(pass(&pool, &mut nodes).is_empty());
    done(&mut nodes, "2");
    assert_eq!(pass(&pool, &mut nodes), ["4"]);
    done(&mut nodes, "1");
    assert_eq!(pass(&pool, &mut nodes), ["5"]);
    for name in ["3", "5", "4"] {
        assert!(!status(&pool, &nodes, &[], &()).has_target);
        done(&mut nodes, name);
    }
    assert!(status(&pool, &nodes, &[], &()).has_target);
}

/// MACH-MCP-08, MACH-MCP-13, MACH-PAUSE-01: taints of those that wait, and passes without a target.
#[test]
fn passes_without_targets() {
    let mut waiting = node("a", "old", "old", "Done");
    let mut asked = node("b", "old", "new", "Working");
    asked.update_taint = true;
    waiting.conditions[0].status = "False".to_owned();
    let nodes = [waiting, asked];
    let Pass::Update(update) = plan(&pool(1), None, false, &nodes, None).unwrap() else { panic!("no update") };
    assert_eq!((update.taint, update.untaint), (vec![&nodes[0]], vec![&nodes[1]]));
    assert!(update.target.is_empty() && update.events.is_empty());
    assert_eq!(plan(&pool(1), Some(&LabelSelector::default()), false, &nodes, None).unwrap(), Pass::SelectingAll);
    assert_eq!(plan(&pool(1), None, true, &nodes, None).unwrap(), Pass::StatusOnly);
    assert_eq!(plan(&Pool { paused: true, ..pool(1) }, None, false, &nodes, None).unwrap(), Pass::StatusOnly);
    assert_eq!(plan(&Pool::default(), None, false, &nodes, None).unwrap(), Pass::Unconfigured);
}

/// MACH-MCP-07: the last node of a control plane is updated even if the operator runs on it.
#[test]
fn the_operators_node_comes_last() {
    let nodes = [node("a", "old", "old", "Done"), node("b", "old", "old", "Done")];
    let chosen = |nodes: &[Node], pool| {
        let targeting = Candidates::among(nodes, "new", 9).choose(pool, Some("a"));
        (targeting.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>(), targeting.deferred.is_some())
    };
    assert_eq!(chosen(&nodes, "master"), (vec!["b".to_owned()], true));
    assert_eq!(chosen(&nodes[..1], "master"), (vec!["a".to_owned()], false));
    assert_eq!(chosen(&nodes, "worker"), (vec!["a".to_owned(), "b".to_owned()], false));
}

/// MACH-MCP-05: a core/v1 Node is read as the recorded form is.
#[test]
fn nodes_are_read() {
    let object = json!({
        "metadata": {"name": "n", "creationTimestamp": "2026-03-01T00:00:00Z", "labels": {"topology.kubernetes.io/zone": "z", "bad": 1},
            "annotations": {"machineconfiguration.openshift.io/state": "Done"}},
        "spec": {"unschedulable": true, "taints": [{"key": "UpdateInProgress", "effect": "PreferNoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let node = Node::of(&object);
    assert!(node.update_taint && node.unschedulable && !node.is_ready() && node.is_unavailable());
    assert_eq!((node.zone(), node.annotation(annotation::STATE)), (Some("z"), Some("Done")));
    assert_eq!(Node::of(&json!([1])), Node::default());
}

fn any_node() -> impl Strategy<Value = Node> {
    let config = prop_oneof!["old", "new", "other", ""];
    let state = prop_oneof!["Done", "Working", "Degraded", "Unreconcilable", "Rebooting", ""];
    let conditions = proptest::collection::vec(
        (prop_oneof!["Ready", "DiskPressure", "NetworkUnavailable", "PIDPressure"], prop_oneof!["True", "False", "Unknown"]),
        0..3,
    );
    let zone = proptest::option::of("[a-c]");
    let created = proptest::option::of(0_i64..5);
    let image = proptest::option::of("[i]?");
    (config.clone(), config, state, conditions, zone, created, proptest::bool::weighted(0.1), image).prop_map(
        |(current, desired, state, conditions, zone, created, unschedulable, image)| {
            let mut read = node("", &current, &desired, &state);
            read.conditions = conditions.into_iter().map(|(kind, status)| NodeCondition { kind, status }).collect();
            read.labels = zone.map(|zone| BTreeMap::from([("topology.kubernetes.io/zone".to_owned(), zone)])).unwrap_or_default();
            read.created = created.map(|second| jiff::Timestamp::from_second(second).unwrap());
            read.unschedulable = unschedulable;
            read.annotations.extend(image.map(|image| (annotation::CURRENT_IMAGE.to_owned(), image)));
            read
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// MACH-MCP-04, MACH-MCP-06: what a pass makes unavailable, together with what is unavailable or fails at the same configuration
    /// already, is never more than maxUnavailable.
    #[test]
    fn never_more_than_allowed(
        mut nodes in proptest::collection::vec(any_node(), 0..40),
        limit in prop_oneof![
            (-5_i32..12).prop_map(IntOrString::Int),
            (-50_i32..300).prop_map(|percent| IntOrString::Text(format!("{percent}%"))),
        ],
        master in any::<bool>(),
        operator in 0_usize..40,
    ) {
        for (index, node) in nodes.iter_mut().enumerate() {
            node.name = index.to_string();
        }
        let name = if master { "master" } else { "worker" };
        let pool = Pool { name: name.to_owned(), target: "new".to_owned(), max_unavailable: Some(limit), paused: false };
        let limit = max_unavailable(pool.max_unavailable.as_ref(), nodes.len()).unwrap();
        let before = nodes.iter().filter(|node| node.is_unavailable()).count();
        let Pass::Update(update) = plan(&pool, None, false, &nodes, Some(&operator.to_string())).unwrap() else { panic!("no update") };
        if !update.target.is_empty() {
            let failing = nodes.iter().filter(|node| node.is_targeted_at("new") && node.is_failing()).count();
            prop_assert!((before + failing + update.target.len()) as i64 <= limit);
        }
        for node in &update.target {
            prop_assert!(node.is_ready() && !node.is_targeted_at("new"));
        }
        let targeted: Vec<String> = update.target.iter().map(|node| node.name.clone()).collect();
        for node in &mut nodes {
            if targeted.contains(&node.name) {
                node.annotations.insert(annotation::DESIRED_CONFIG.to_owned(), "new".to_owned());
                node.annotations.remove(annotation::DESIRED_IMAGE);
            }
        }
        let after = nodes.iter().filter(|node| node.is_unavailable()).count();
        prop_assert!(after as i64 <= limit.max(before as i64), "{before} then {after}, allowed {limit}");
    }

    /// MACH-MCP-09, MACH-MCP-10: Updated and Updating are never both true, and the counts fit.
    #[test]
    fn status_is_consistent(mut nodes in proptest::collection::vec(any_node(), 0..12), paused in any::<bool>()) {
        for (index, node) in nodes.iter_mut().enumerate() {
            node.name = index.to_string();
        }
        let pool = Pool { paused, ..pool(1) };
        let first = status(&pool, &nodes, &[], &0);
        let is = |kind: &str| first.conditions.iter().find(|one| one.kind == kind).unwrap().status == "True";
        prop_assert!(!(is("Updated") && is("Updating")));
        prop_assert_eq!(is("Updated"), first.has_target);
        prop_assert!(first.classes.ready.len() <= first.classes.updated.len() && first.classes.updated.len() <= nodes.len());
        prop_assert_eq!(is("NodeDegraded"), !first.classes.degraded.is_empty());
        let again = status(&pool, &nodes, &first.conditions, &1);
        prop_assert_eq!(again, first, "a status that says the same changes nothing");
    }
}
