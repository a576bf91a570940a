//! Decisions of the scheduler: a table of clusters, and a naive scheduler that they must agree with.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::plan::{Budget, Decision, Incoming, first_fitting, plan};
use crate::object::{Object, Read as _};

fn node(name: &str, zone: &str, cpu: u32, more: Value) -> Object {
    let mut node = json!({
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": zone}},
        "spec": {}, "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "8Gi", "pods": "10"}},
    });
    if more.is_object() {
        node["spec"] = more;
    }
    Arc::new(serde_json::from_value(node).unwrap())
}

fn pod(name: &str, app: &str, cpu: u32, more: &Value) -> Object {
    let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu.to_string()}}}]});
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let metadata = json!({"name": name, "namespace": "n", "uid": name, "labels": {"app": app}});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn decide(cluster: &Cluster, pod: &Object) -> Decision {
    plan(&Incoming { pod, problem: None, volumes: Vec::new() }, cluster, &|_| None, &Vec::new)
}

/// A pod with something else in it than before.
fn with(pod: &Object, pointer: &str, value: Value) -> Object {
    let mut changed = serde_json::to_value(&**pod).unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if changed.pointer(parent).is_none() {
        changed[parent.trim_start_matches('/')] = json!({});
    }
    changed.pointer_mut(parent).unwrap()[name] = value;
    Arc::new(serde_json::from_value(changed).unwrap())
}

fn shown(decision: &Decision) -> String {
    match decision {
        Decision::Bind(node) => format!("bind {node}"),
        Decision::Preempt { node, victims, .. } => {
            format!("preempt {node}: {}", victims.iter().map(|victim| victim.name()).collect::<Vec<_>>().join(" "))
        }
        Decision::Unschedulable(why) => why.clone(),
    }
}

/// Three nodes in two zones: `a` has the pod `one` of app `x`, `c` is full of an unimportant pod.
fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    for (name, zone, more) in [
        ("a", "1", Value::Null),
        ("b", "1", json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})),
        ("c", "2", Value::Null),
    ] {
        cluster.set_node(name, Some(&node(name, zone, 4, more)));
    }
    cluster.assign(
        &pod(
            "one",
            "x",
            1,
            &json!({"containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]}),
        ),
        "a",
    );
    cluster.assign(&pod("filler", "y", 4, &json!({"priority": -5})), "c");
    cluster
}

fn apart(key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key});
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn together(key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key});
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// KAPI-WL-02: filters and preemption, with the reasons in Kubernetes' words.
#[test]
fn decisions() {
    let tolerant = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
    let with = |mut one: Value, other: &Value| {
        one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        one
    };
    let never = json!({"priority": -5});
    let port = json!({"containers": [{"name": "main", "ports": [{"hostPort": 80}]}], "priority": -5});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]});
    let cases: [(&str, Value, u32, &str); 12] = [
        ("room on a", json!({}), 1, "bind a"),
        ("tolerates b", tolerant.clone(), 1, "bind b"),
        (
            "too much for all",
            never.clone(),
            5,
            "0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, 2 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        ),
        (
            "no victims",
            never.clone(),
            4,
            "0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
        ),
        ("drives the least important away", json!({}), 4, "preempt c: filler"),
        (
            "may not drive away",
            json!({"preemptionPolicy": "Never"}),
            4,
            "0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        ),
        ("port taken", port, 0, "bind c"),
        ("apart from x by host", with(apart("kubernetes.io/hostname"), &tolerant), 1, "bind b"),
        ("apart from x by zone", apart("zone"), 1, "preempt c: filler"),
        ("beside x by zone", with(together("zone"), &tolerant), 1, "bind b"),
        ("beside x by host", with(together("kubernetes.io/hostname"), &tolerant), 1, "bind a"),
        (
            "spread by zone",
            with(spread, &never),
            1,
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints, 1 node(s) had untolerated taint {k: v}. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.",
        ),
    ];
    for (name, more, cpu, expected) in cases {
        assert_eq!(shown(&decide(&cluster(), &pod("new", "x", cpu, &more))), expected, "{name}");
    }
    let empty = decide(&Cluster::default(), &pod("new", "x", 1, &json!({})));
    assert_eq!(shown(&empty), "no nodes available to schedule pods");
}

/// KAPI-WL-02: a pod for which others left goes where they left, and nobody less important takes its place.
#[test]
fn room_is_kept_for_the_nominated() {
    let mut cluster = cluster();
    let important = pod("important", "x", 4, &json!({"priority": 10}));
    cluster.nominate(&important, "c");
    cluster.remove("filler");
    let unimportant = pod("late", "z", 4, &json!({}));
    assert!(matches!(decide(&cluster, &unimportant), Decision::Unschedulable(_)));
    let nominated = with(&important, "/status/nominatedNodeName", json!("c"));
    assert_eq!(decide(&cluster, &nominated), Decision::Bind("c".into()));
}

/// KAPI-WL-02: while those who were driven away are leaving, nobody else has to go; unless the node will not do any more.
#[test]
fn nobody_is_driven_away_twice_for_a_pod() {
    let mut cluster = cluster();
    let important = pod("important", "x", 4, &json!({"priority": 10}));
    let filler = pod("filler", "y", 4, &json!({"priority": -5}));
    let chosen = decide(&cluster, &important);
    assert_eq!(shown(&chosen), "preempt c: filler");
    cluster.nominate(&important, "c");
    let nominated = with(&important, "/status/nominatedNodeName", json!("c"));
    cluster.assign(&with(&filler, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")), "c");
    assert_eq!(
        shown(&decide(&cluster, &nominated)),
        "0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, 2 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node."
    );
    cluster.set_node("c", Some(&node("c", "2", 4, json!({"unschedulable": true}))));
    assert_eq!(shown(&decide(&cluster, &nominated)), "preempt a: one");
}

/// KAPI-WL-02: a pod of no special priority drives less important ones away too, and spares those that a budget protects.
#[test]
fn budgets_protect_from_pods_without_priority() {
    let mut cluster = Cluster::default();
    for (name, app) in [("a", "protected"), ("b", "free")] {
        cluster.set_node(name, Some(&node(name, name, 4, Value::Null)));
        cluster.assign(&pod(app, app, 4, &json!({"priority": -5})), name);
    }
    let incoming = pod("new", "x", 4, &json!({}));
    let budget = Budget { namespace: "n".into(), selector: json!({"matchLabels": {"app": "protected"}}), allowed: 0 };
    let incoming = Incoming { pod: &incoming, problem: None, volumes: Vec::new() };
    let decision = plan(&incoming, &cluster, &|_| None, &|| vec![budget.clone()]);
    assert_eq!(shown(&decision), "preempt b: free");
    assert_eq!(shown(&plan(&incoming, &cluster, &|_| None, &Vec::new)), "preempt a: protected");
}

/// KAPI-WL-02: the search for pods to drive away looks at each pod a few times, however many there are: once to count it, once to
/// think it away, once or twice to think it back.
#[test]
fn preemption_looks_at_each_pod_a_few_times() {
    for per_node in [4, 8, 16_u32] {
        let nodes = 8;
        let mut cluster = Cluster::default();
        for node_number in 0..nodes {
            let name = format!("node-{node_number}");
            let full = node(&name, "1", per_node, Value::Null);
            cluster.set_node(&name, Some(&with(&full, "/status/allocatable/pods", json!("110"))));
            for number in 0..per_node {
                cluster.assign(&pod(&format!("pod-{node_number}-{number}"), "y", 1, &json!({})), &name);
            }
        }
        // A term that asks for labels of namespaces: each look at a pod asks for its namespace.
        let term = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", "namespaceSelector": {}});
        let rule = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, "priority": 9});
        let incoming = pod("new", "x", per_node / 2, &rule);
        let looks = std::cell::Cell::new(0_u32);
        let namespaces = |_: &str| {
            looks.set(looks.get() + 1);
            None
        };
        let incoming = Incoming { pod: &incoming, problem: None, volumes: Vec::new() };
        let Decision::Preempt { victims, .. } = plan(&incoming, &cluster, &namespaces, &Vec::new) else { panic!("there is room to make") };
        assert_eq!(victims.len(), usize::try_from(per_node / 2).unwrap());
        let pods = nodes * per_node;
        assert!((pods..=5 * pods).contains(&looks.get()), "{} looks at {pods} pods", looks.get());
    }
}

/// A pod of the naive model: app, processor, whether it avoids or seeks its own app, and by which key.
#[derive(Clone, Debug)]
struct PodShape {
    app: usize,
    cpu: u32,
    rule: u8,
    by_zone: bool,
}

impl PodShape {
    fn pod(&self, number: usize) -> Object {
        let app = format!("app-{}", self.app);
        let key = if self.by_zone { "zone" } else { "kubernetes.io/hostname" };
        let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
        let rule = match self.rule {
            0 => json!({}),
            1 => json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
            _ => json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        };
        pod(&format!("pod-{number}"), &app, self.cpu, &rule)
    }

    fn same_place(&self, zones: &[u32], one: usize, other: usize) -> bool {
        if self.by_zone { zones[one] == zones[other] } else { one == other }
    }

    /// Whether it may be on a node, beside those that are placed.
    fn fits(&self, zones: &[u32], placed: &[(PodShape, usize)], node: usize) -> bool {
        let taken: u32 = placed.iter().filter(|(_, there)| *there == node).map(|(shape, _)| shape.cpu).sum();
        let alike: Vec<&(PodShape, usize)> = placed.iter().filter(|(shape, _)| shape.app == self.app).collect();
        let near = |(_, there): &&&(PodShape, usize)| self.same_place(zones, node, *there);
        let own = match self.rule {
            1 => !alike.iter().any(|one| near(&one)),
            2 => alike.is_empty() || alike.iter().any(|one| near(&one)),
            _ => true,
        };
        let others = alike.iter().all(|(shape, there)| shape.rule != 1 || !shape.same_place(zones, *there, node));
        taken + self.cpu <= 4 && placed.iter().filter(|(_, there)| *there == node).count() < 10 && own && others
    }
}

/// Whether a pod fits on a node of a cluster when some pods are gone and no other node is there, all counted anew.
fn fits_without(cluster: &Cluster, pod: &Object, node: &str, without: &[&str]) -> bool {
    let mut cluster = cluster.clone();
    for uid in without {
        cluster.remove(uid);
    }
    match decide(&cluster, &with(pod, "/status/nominatedNodeName", json!(node))) {
        Decision::Bind(chosen) => chosen == node,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// KAPI-WL-02: whoever is driven away makes room, nobody leaves in vain, and where nobody is asked to leave it would not help.
    #[test]
    fn those_who_leave_make_room(
        zones in prop::collection::vec(0..3_u32, 1..5),
        shapes in prop::collection::vec((0..3_usize, 0..3_u32, 0..3_u8, any::<bool>(), 0..3_i64), 1..25),
        last in (0..3_usize, 1..5_u32, 0..3_u8, any::<bool>(), any::<bool>()),
    ) {
        let mut cluster = Cluster::default();
        for (number, zone) in zones.iter().enumerate() {
            let name = format!("node-{number}");
            cluster.set_node(&name, Some(&node(&name, &zone.to_string(), 4, Value::Null)));
        }
        let mut priorities = BTreeMap::new();
        for (number, (app, cpu, rule, by_zone, priority)) in shapes.into_iter().enumerate() {
            let pod = with(&PodShape { app, cpu, rule, by_zone }.pod(number), "/spec/priority", json!(priority));
            if let Decision::Bind(node) = decide(&cluster, &pod) {
                cluster.assign(&pod, &node);
                priorities.insert(pod.uid().to_owned(), (priority, node));
            }
        }
        let (app, cpu, rule, by_zone, spread) = last;
        let mut incoming = with(&PodShape { app, cpu, rule, by_zone }.pod(99), "/spec/priority", json!(2));
        if spread {
            let selector = json!({"matchLabels": {"app": format!("app-{app}")}});
            let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
            incoming = with(&incoming, "/spec/topologySpreadConstraints", json!([constraint]));
        }
        match decide(&cluster, &incoming) {
            Decision::Bind(_) => {}
            Decision::Preempt { node, victims, .. } => {
                let uids: Vec<&str> = victims.iter().map(|victim| victim.uid()).collect();
                prop_assert!(!uids.is_empty() && uids.iter().all(|uid| priorities[*uid].0 < 2 && priorities[*uid].1 == node));
                prop_assert!(fits_without(&cluster, &incoming, &node, &uids), "{uids:?} leave {node} for nothing");
                // Whoever wants company or to be spread may need a pod that comes back later, so only the others can be held to this.
                for spared in uids.iter().filter(|_| rule != 2 && !spread) {
                    let rest: Vec<&str> = uids.iter().copied().filter(|uid| uid != spared).collect();
                    prop_assert!(!fits_without(&cluster, &incoming, &node, &rest), "{spared} could stay");
                }
            }
            Decision::Unschedulable(_) => {
                for number in (0..zones.len()).filter(|_| rule != 2) {
                    let name = format!("node-{number}");
                    let lower = priorities.iter().filter(|(_, (priority, node))| *priority < 2 && *node == name);
                    let lower: Vec<&str> = lower.map(|(uid, _)| uid.as_str()).collect();
                    prop_assert!(!fits_without(&cluster, &incoming, &name, &lower), "{lower:?} could leave {name}");
                }
            }
        }
    }

    /// KAPI-WL-02: a pod gets a node exactly when a naive scheduler knows one that fits, and then one of those.
    #[test]
    fn decisions_agree_with_a_naive_scheduler(
        zones in prop::collection::vec(0..3_u32, 1..6),
        shapes in prop::collection::vec((0..3_usize, 0..3_u32, 0..3_u8, any::<bool>()), 1..25),
    ) {
        let mut cluster = Cluster::default();
        for (number, zone) in zones.iter().enumerate() {
            let name = format!("node-{number}");
            cluster.set_node(&name, Some(&node(&name, &zone.to_string(), 4, Value::Null)));
        }
        let mut placed: Vec<(PodShape, usize)> = Vec::new();
        for (number, (app, cpu, rule, by_zone)) in shapes.into_iter().enumerate() {
            let shape = PodShape { app, cpu, rule, by_zone };
            let pod = shape.pod(number);
            let fitting: Vec<usize> = (0..zones.len()).filter(|node| shape.fits(&zones, &placed, *node)).collect();
            let incoming = Incoming { pod: &pod, problem: None, volumes: Vec::new() };
            let names: Vec<String> = (0..zones.len()).map(|node| format!("node-{node}")).collect();
            let first = first_fitting(&incoming, &cluster, &|_| None, &mut names.iter().map(String::as_str));
            prop_assert_eq!(first.ok(), fitting.first().map(|node| names[*node].clone()), "the first of all nodes");
            match decide(&cluster, &pod) {
                Decision::Bind(name) => {
                    let chosen: usize = name.trim_start_matches("node-").parse().unwrap();
                    prop_assert!(fitting.contains(&chosen), "{shape:?} on {chosen}, not of {fitting:?}");
                    cluster.assign(&pod, &name);
                    placed.push((shape, chosen));
                }
                other => prop_assert!(fitting.is_empty(), "{shape:?} would fit {fitting:?}: {other:?}"),
            }
        }
    }
}
