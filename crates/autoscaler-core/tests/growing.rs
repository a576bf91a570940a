//! Which sets grow: a table of clusters (COP-CAS-03).

use std::time::Duration;

use jiff::SignedDuration;
use mainstay_autoscaler_core::expander::Priorities;
use mainstay_autoscaler_core::reason::PodVerdict;
use mainstay_autoscaler_core::settings::{Expander, Range, Settings};
use mainstay_autoscaler_core::{Budget, Plan};
use serde_json::json;

use crate::support::{GIB, Scene, id, size, sizes, verdict};

type Change<'a> = &'a dyn Fn(&mut Scene);

fn note(plan: &Plan, pod: &str) -> String {
    plan.growth.pods[pod].not_triggered().unwrap_or_else(|| format!("{:?}", plan.growth.pods[pod]))
}

/// COP-CAS-03: a set grows by as many nodes as the pods need, and no more.
#[test]
fn as_many_as_needed() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 1, 12, 1, size(4, 16)).waiting(5, size(2, 1));
    scene.pod("filler", Some("workers-0"), size(3, 1));
    let plan = scene.pass();
    assert_eq!(sizes(&plan), ["workers 1->4"]);
    assert_eq!(verdict(&plan, "workers"), "size set to 4 instead of 1 for 5 pods");
    assert_eq!(plan.growth.resizes[0].to_string(), "{MachineSet/machines/workers 1->4 (max: 12)}");
    assert!((0..5).all(|number| plan.growth.pods[&format!("waiting-{number}")] == PodVerdict::Triggered));
}

/// COP-CAS-03: pods that fit on nodes that are there, or on machines that are becoming nodes, make nothing grow.
#[test]
fn what_is_on_its_way_counts() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 0, 12, 1, size(4, 16)).machine("workers", false).waiting(3, size(2, 1));
    let plan = scene.pass();
    assert!(sizes(&plan).is_empty());
    assert_eq!(verdict(&plan, "workers"), "1 machine is on the way, for which 1 pod is waiting");
    scene.pod("more", None, size(4, 1));
    assert_eq!(sizes(&scene.pass()), ["workers 2->3"]);
}

/// COP-CAS-03: pods below the priority threshold, younger than the delay, or of DaemonSets make nothing grow.
#[test]
fn pods_that_do_not_count() {
    let mut scene = Scene::new(Settings { pod_delay: Duration::from_secs(30), ..Settings::default() });
    scene.group("workers", 0, 12, 0, size(4, 16));
    scene.pod("cheap", None, size(1, 1)).priority = -11;
    let now = scene.snapshot.now;
    scene.pod("young", None, size(1, 1)).created = Some(now - SignedDuration::from_secs(29));
    scene.pod("daemon", None, size(1, 1)).is_daemon = true;
    scene.pod("going", None, size(1, 1)).is_deleting = true;
    let plan = scene.pass();
    assert!(sizes(&plan).is_empty());
    assert_eq!((&plan.growth.pods["cheap"], &plan.growth.pods["young"]), (&PodVerdict::Expendable, &PodVerdict::TooYoung));
    scene.later(1);
    assert_eq!(sizes(&scene.pass()), ["workers 0->1"]);
}

/// COP-CAS-03: the reasons for which nothing grows, in upstream's words.
#[test]
fn refusals() {
    let too_large = |scene: &mut Scene| {
        scene.waiting(1, size(9, 1));
    };
    let usual = |scene: &mut Scene| {
        scene.waiting(1, size(2, 1));
    };
    let cases: [(&str, Change<'_>, &str); 7] = [
        ("too large", &too_large, "pod didn't trigger scale-up: 1 Insufficient cpu"),
        (
            "at its greatest size",
            &|scene| {
                usual(scene);
                scene.snapshot.groups[0].max = 1;
            },
            "pod didn't trigger scale-up: 1 max node group size reached",
        ),
        (
            "limit of nodes",
            &|scene| {
                usual(scene);
                scene.snapshot.settings.limits.max_nodes = Some(1);
            },
            "pod didn't trigger scale-up: max total nodes in cluster reached",
        ),
        (
            "limit of cores",
            &|scene| {
                usual(scene);
                scene.snapshot.settings.limits.cores = Range { min: 0, max: 7_999 };
            },
            "pod didn't trigger scale-up: 1 max cluster cpu limit reached",
        ),
        (
            "limit of both",
            &|scene| {
                usual(scene);
                scene.snapshot.settings.limits.cores = Range { min: 0, max: 7_000 };
                scene.snapshot.settings.limits.memory = Range { min: 0, max: 31 * GIB };
            },
            "pod didn't trigger scale-up: 1 max cluster cpu, memory limit reached",
        ),
        (
            "another zone",
            &|scene| {
                usual(scene);
                scene.in_zone("waiting-0", "b");
            },
            "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "two sets",
            &|scene| {
                too_large(scene);
                scene.group("small", 0, 0, 0, size(2, 2));
            },
            "pod didn't trigger scale-up: 1 Insufficient cpu, 1 max node group size reached",
        ),
    ];
    for (name, change, expected) in cases {
        let mut scene = Scene::new(Settings::default());
        scene.group("workers", 1, 12, 1, size(4, 16));
        scene.pod("filler", Some("workers-0"), size(4, 1));
        change(&mut scene);
        let plan = scene.pass();
        assert!(sizes(&plan).is_empty(), "{name}");
        assert_eq!(note(&plan, "waiting-0"), expected, "{name}");
    }
}

/// COP-CAS-03: growth stops at the limits, and what they allow is given.
#[test]
fn as_far_as_limits_allow() {
    let grown = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        let mut scene = Scene::new(settings);
        scene.group("workers", 0, 6, 0, size(4, 16)).waiting(10, size(4, 1));
        sizes(&scene.pass())
    };
    assert_eq!(grown(&|_| {}), ["workers 0->6"]);
    assert_eq!(grown(&|settings| settings.limits.max_nodes = Some(3)), ["workers 0->3"]);
    assert_eq!(grown(&|settings| settings.limits.cores.max = 17_000), ["workers 0->4"]);
    assert_eq!(grown(&|settings| settings.limits.memory.max = 33 * GIB), ["workers 0->2"]);
}

/// COP-CAS-03: limits of GPUs count those of their type alone.
#[test]
fn limits_of_gpus() {
    let mut scene = Scene::new(Settings::default());
    scene.group("fast", 0, 6, 0, size(4, 16)).waiting(6, size(4, 1));
    let group = &mut scene.snapshot.groups[0];
    group.size.gpus = 2;
    let template = group.template.as_mut().unwrap();
    template["metadata"]["labels"]["cluster-api/accelerator"] = json!("t4");
    template["status"]["allocatable"]["nvidia.com/gpu"] = json!("2");
    let limit = |kind: &str| vec![(kind.to_owned(), Range { min: 0, max: 5 })];
    scene.snapshot.settings.limits.gpus = limit("other");
    assert_eq!(sizes(&scene.pass()), ["fast 0->6"]);
    scene.snapshot.settings.limits.gpus = limit("t4");
    assert_eq!(sizes(&scene.pass()), ["fast 0->2"]);
}

/// COP-CAS-03: expanders choose in their order.
#[test]
fn expanders() {
    use Expander::{LeastWaste, Priority, Random};
    let chosen = |expanders: &[Expander], priorities: Option<&str>| {
        let mut scene = Scene::new(Settings { expanders: expanders.to_vec(), ..Settings::default() });
        scene.group("a-large", 0, 9, 0, size(16, 16)).group("b-fit", 0, 9, 0, size(4, 32)).group("c-fit", 0, 9, 0, size(4, 8));
        scene.waiting(1, size(3, 4));
        let config_map = priorities.map(|text| json!({"data": {"priorities": text}}));
        scene.snapshot.priorities = config_map.map(|map| Priorities::of(Some(&map)).unwrap());
        let plan = scene.pass();
        (plan.growth.resizes[0].group.name.clone(), verdict(&plan, "b-fit"))
    };
    assert_eq!(chosen(&[Random], None).0, "a-large");
    assert_eq!(
        chosen(&[LeastWaste], None),
        ("c-fit".to_owned(), "MachineSet/machines/c-fit was chosen, by expander LeastWaste".to_owned())
    );
    let priorities = "10:\n- .*\n50:\n- .*-fit\n";
    assert_eq!(chosen(&[Priority, Random], Some(priorities)).0, "b-fit");
    assert_eq!(chosen(&[Priority, LeastWaste], Some(priorities)).0, "c-fit");
    assert_eq!(chosen(&[Priority, LeastWaste], None).0, "c-fit", "without priorities the next decides");
    assert_eq!(chosen(&[Priority], Some("10:\n- nothing\n")).0, "a-large");
}

/// COP-CAS-03: what is wrong with priorities, in upstream's words.
#[test]
fn wrong_priorities() {
    let error = |text: &str| Priorities::of(Some(&json!({"data": {"priorities": text}}))).unwrap_err().to_string();
    assert!(
        error("10:\n- '('\n")
            .starts_with("Wrong configuration for priority expander: Can't compile regexp rule for priority 10 and rule (")
    );
    assert!(error("high:\n- x\n").contains("high is no number"));
    assert!(error("- x\n").contains("Can't parse YAML"));
    assert!(Priorities::of(Some(&json!({"data": {}}))).unwrap_err().to_string().contains("doesn't contain priorities key"));
    assert!(Priorities::of(None).unwrap_err().to_string().ends_with("not found"));
}

/// COP-CAS-03: sets that are alike but for their zone are kept alike in size, when asked; others are not touched.
#[test]
fn balance() {
    let grown = |balances: bool, change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::new(Settings { balances, ..Settings::default() });
        scene.group_in("a", 0, 9, 1, size(4, 16), "a").group_in("b", 0, 3, 0, size(4, 16), "b").group_in("c", 0, 9, 3, size(4, 16), "c");
        scene.group_in("other", 0, 9, 0, size(8, 16), "a").waiting(5, size(3, 1));
        for node in ["a-0", "c-0", "c-1", "c-2"] {
            scene.pod(&format!("on-{node}"), Some(node), size(4, 1));
        }
        change(&mut scene);
        sizes(&scene.pass())
    };
    assert_eq!(grown(false, &|_| {}), ["a 1->6"]);
    assert_eq!(grown(true, &|_| {}), ["a 1->3", "b 0->3"]);
    assert_eq!(
        grown(true, &|scene| {
            scene.in_zone("waiting-0", "a");
        }),
        ["a 1->6"],
        "no other zone takes all of them"
    );
    assert_eq!(grown(true, &|scene| scene.snapshot.settings.limits.max_nodes = Some(6)), ["b 0->2"]);
}

/// COP-CAS-03: machines that do not become nodes in time are failures: the set is left out, longer each time, and they are removed.
#[test]
fn failed_provisioning() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 0, 12, 1, size(4, 16)).machine("workers", false).waiting(1, size(4, 1));
    scene.pod("filler", Some("workers-0"), size(4, 1));
    assert!(scene.pass().failed.is_empty());
    scene.later(15);
    let plan = scene.pass();
    let failed = &plan.failed[0];
    assert_eq!((failed.machine.as_str(), failed.is_late, failed.is_removed, failed.is_new), ("workers-1", true, true, true));
    assert_eq!(verdict(&plan, "workers"), "1 pod without a node: in backoff after failed scale-up until 2026-01-01T12:20:00Z");
    assert_eq!(note(&plan, "waiting-0"), "pod didn't trigger scale-up: 1 in backoff after failed scale-up");
    assert!(!scene.pass().failed[0].is_new, "it is counted once");
    scene.later(5);
    scene.snapshot.groups[0].machines.pop();
    scene.snapshot.groups[0].replicas = 1;
    assert_eq!(sizes(&scene.pass()), ["workers 1->2"]);
    scene.machine("workers", false).later(15);
    let again = scene.pass();
    assert!(verdict(&again, "workers").ends_with("until 2026-01-01T12:45:00Z"), "twice as long: {}", verdict(&again, "workers"));
    scene.snapshot.groups[0].min = 2;
    assert!(!scene.pass().failed[0].is_removed, "never below the least size");
}

/// COP-CAS-03: a machine in phase Failed is a failure at once.
#[test]
fn failed_machines() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 0, 12, 0, size(4, 16)).group("others", 0, 2, 0, size(8, 16)).machine("workers", false).waiting(1, size(4, 1));
    scene.snapshot.groups[0].machines[0].is_failed = true;
    let plan = scene.pass();
    assert!(!plan.failed[0].is_late && plan.failed[0].is_removed);
    assert_eq!(sizes(&plan), ["others 0->1"], "another set takes over");
}

/// COP-CAS-03: a set below its least size grows to it when that is asked for.
#[test]
fn least_size() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 3, 12, 1, size(4, 16));
    assert!(sizes(&scene.pass()).is_empty());
    scene.snapshot.settings.enforces_min = true;
    let plan = scene.pass();
    assert_eq!(
        (sizes(&plan), verdict(&plan, "workers")),
        (vec!["workers 1->3".to_owned()], "size set to 3 instead of 1: its least size".to_owned())
    );
}

/// COP-CAS-03: while too many nodes are not ready nothing grows; nodes that are starting do not count.
#[test]
fn health() {
    let mut scene = Scene::new(Settings::default());
    scene.group("workers", 0, 12, 6, size(4, 16)).waiting(1, size(4, 1));
    scene.snapshot.budgets.push(Budget::default());
    for number in 0..6 {
        scene.pod(&format!("on-{number}"), Some(&format!("workers-{number}")), size(4, 1));
    }
    for node in &mut scene.snapshot.nodes[..4] {
        node.is_ready = false;
    }
    let plan = scene.pass();
    assert!(plan.health.is_cluster_unhealthy && sizes(&plan).is_empty());
    assert!(verdict(&plan, "workers").contains("not ready"));
    for machine in &mut scene.snapshot.groups[0].machines {
        machine.created = Some(scene.snapshot.now);
    }
    let starting = scene.pass();
    assert!(!starting.health.is_cluster_unhealthy);
    assert_eq!(verdict(&starting, "workers"), "4 machines are on the way, for which 1 pod is waiting");
    scene.snapshot.nodes[0].is_ready = true;
    assert!(scene.pass().growth.groups.contains_key(&id("workers")));
}
