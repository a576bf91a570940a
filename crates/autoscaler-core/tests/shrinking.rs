//! Which nodes go: a table of clusters (COP-CAS-04).

use jiff::SignedDuration;
use mainstay_autoscaler_core::settings::{ScaleDown, Settings};
use mainstay_autoscaler_core::{Budget, Pod};

use crate::support::{GIB, Scene, kept, removed, size, sizes};

type Change<'a> = &'a dyn Fn(&mut Scene);

fn settings() -> Settings {
    Settings { scale_down: ScaleDown { is_enabled: true, ..ScaleDown::default() }, ..Settings::default() }
}

/// Two nodes of which each could take the other's pods, unneeded for long enough.
fn scene() -> Scene {
    let mut scene = Scene::new(settings());
    scene.group("workers", 1, 12, 2, size(4, 16));
    scene.pod("one", Some("workers-0"), size(1, 1));
    scene.pod("two", Some("workers-1"), size(3, 1));
    scene
}

/// COP-CAS-04: a node that has been unneeded for long enough goes, its pods have another place.
#[test]
fn unneeded_for_long_enough() {
    let mut scene = scene();
    let first = scene.pass();
    assert!(removed(&first).is_empty());
    assert_eq!(kept(&first, "workers-0"), "unneeded since 2026-01-01T12:00:00Z; it is removed after 10m0s");
    assert_eq!(kept(&first, "workers-1"), "75% of its cpu is requested, which is not below 50%");
    scene.later(9).pass();
    assert!(removed(&scene.pass()).is_empty());
    scene.later(1);
    let plan = scene.pass();
    assert_eq!(removed(&plan), ["workers-0"]);
    let removal = &plan.shrinkage.removals[0];
    assert_eq!((removal.machine.as_str(), removal.share, &*removal.pods), ("workers-0", 0.25, &["n/one".to_owned()][..]));
}

/// COP-CAS-04: a node that is needed in between begins again.
#[test]
fn needed_in_between() {
    let mut scene = scene();
    scene.pass();
    scene.later(5).snapshot.pods[0].size = size(3, 1);
    scene.pass();
    scene.later(5).snapshot.pods[0].size = size(1, 1);
    assert!(kept(&scene.pass(), "workers-0").starts_with("unneeded since 2026-01-01T12:10:00Z"));
}

/// COP-CAS-04: what keeps a node, one by one.
#[test]
fn what_keeps_a_node() {
    fn one(scene: &mut Scene) -> &mut Pod {
        &mut scene.snapshot.pods[0]
    }
    let cases: [(&str, Change<'_>, &str); 14] = [
        ("not enabled", &|scene| scene.snapshot.settings.scale_down.is_enabled = false, "removal of nodes is not enabled"),
        (
            "annotated node",
            &|scene| scene.snapshot.nodes[0].is_kept = true,
            "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled forbids its removal",
        ),
        ("annotated pod", &|scene| one(scene).safe_to_evict = Some(false), "pod n/one is annotated as not safe to evict"),
        ("no controller", &|scene| one(scene).controller = None, "pod n/one is not replicated"),
        ("local storage", &|scene| one(scene).has_local_storage = true, "pod n/one has local storage"),
        (
            "pod of the system",
            &|scene| one(scene).namespace = "kube-system".to_owned(),
            "pod kube-system/one is a pod of kube-system without a PodDisruptionBudget",
        ),
        (
            "budget at its limit",
            &|scene| scene.snapshot.budgets.push(Budget { namespace: "n".to_owned(), name: "b".to_owned(), ..Budget::default() }),
            "pod n/one is covered by PodDisruptionBudget b, which allows no disruption",
        ),
        (
            "no other place",
            &|scene| {
                let grown = size(3, 14);
                scene.plain.demands.get_mut("two").unwrap().size = size(3, 16);
                scene.snapshot.pods[1].size = grown;
            },
            "pod n/one has no other place: Insufficient memory",
        ),
        ("least size", &|scene| scene.snapshot.groups[0].min = 2, "its set has its least size, 2"),
        ("least cores", &|scene| scene.snapshot.settings.limits.cores.min = 8_000, "the cluster would fall below its least cpu"),
        ("least memory", &|scene| scene.snapshot.settings.limits.memory.min = 17 * GIB, "the cluster would fall below its least memory"),
        ("machine is going", &|scene| scene.snapshot.groups[0].machines[0].is_deleting = true, "its machine is being deleted"),
        (
            "a set has grown",
            &|scene| scene.memory.grew(scene.snapshot.now - SignedDuration::from_mins(9)),
            "unneeded; nothing is removed until 2026-01-01T12:11:00Z (delayAfterAdd)",
        ),
        (
            "a removal failed",
            &|scene| scene.memory.removal_failed(scene.snapshot.now - SignedDuration::from_mins(1)),
            "unneeded; nothing is removed until 2026-01-01T12:12:00Z (delayAfterFailure)",
        ),
    ];
    for (name, change, expected) in cases {
        let mut scene = scene();
        scene.pass();
        scene.later(10);
        change(&mut scene);
        let plan = scene.pass();
        assert!(removed(&plan).is_empty(), "{name}");
        assert_eq!(kept(&plan, "workers-0"), expected, "{name}");
    }
}

/// COP-CAS-04: what allows a node to go in spite of it.
#[test]
fn what_does_not_keep_a_node() {
    let cases: [(&str, Change<'_>); 5] = [
        ("local storage is allowed", &|scene| {
            scene.snapshot.pods[0].has_local_storage = true;
            scene.snapshot.settings.keeps_local_storage = false;
        }),
        ("safe to evict", &|scene| {
            let pod = &mut scene.snapshot.pods[0];
            (pod.has_local_storage, pod.controller, pod.safe_to_evict) = (true, None, Some(true));
        }),
        ("an unimportant pod", &|scene| {
            let pod = &mut scene.snapshot.pods[0];
            (pod.controller, pod.priority) = (None, -20);
        }),
        ("a static pod", &|scene| {
            let pod = &mut scene.snapshot.pods[0];
            (pod.controller, pod.is_mirror) = (None, true);
        }),
        ("a budget that allows it", &|scene| {
            scene.snapshot.budgets.push(Budget { namespace: "n".to_owned(), allowed: 1, ..Budget::default() });
        }),
    ];
    for (name, change) in cases {
        let mut scene = scene();
        change(&mut scene);
        scene.pass();
        let plan = scene.later(10).pass();
        assert_eq!(removed(&plan), ["workers-0"], "{name}: {}", kept(&plan, "workers-0"));
    }
}

/// COP-CAS-04: pods of DaemonSets count as use of a node unless that is turned off, and never need another place.
#[test]
fn daemons() {
    let mut scene = scene();
    scene.snapshot.pods[0].size = size(3, 1);
    scene.snapshot.pods[0].is_daemon = true;
    scene.plain.demands.get_mut("one").unwrap().size = size(3, 1);
    scene.pass();
    let plan = scene.later(10).pass();
    assert!(kept(&plan, "workers-0").starts_with("75%"));
    scene.snapshot.settings.ignores_daemons = true;
    scene.pass();
    assert_eq!(removed(&scene.later(10).pass()), ["workers-0"]);
}

/// COP-CAS-04: empty nodes go together, at most ten; of others one is drained at a time.
#[test]
fn one_drain_at_a_time() {
    let mut scene = Scene::new(settings());
    scene.group("workers", 0, 40, 20, size(4, 16));
    for number in 0..4 {
        scene.pod(&format!("p{number}"), Some(&format!("workers-{number}")), size(1, 1));
    }
    scene.pass();
    let plan = scene.later(10).pass();
    assert_eq!(removed(&plan).len(), 10);
    assert!(plan.shrinkage.removals.iter().all(|removal| removal.pods.is_empty()));
    let mut few = Scene::new(settings());
    few.group("workers", 0, 40, 5, size(4, 16));
    for number in 0..5 {
        few.pod(&format!("p{number}"), Some(&format!("workers-{number}")), size(1, 1));
    }
    few.pass();
    let plan = few.later(10).pass();
    assert_eq!(removed(&plan), ["workers-0"]);
    assert_eq!(kept(&plan, "workers-1"), "unneeded; node workers-0 is drained first");
    few.snapshot.groups[0].machines[0].is_deleting = true;
    few.snapshot.groups[0].replicas -= 1;
    few.memory.removed("workers-0", few.snapshot.now);
    let plan = few.later(1).pass();
    assert!(removed(&plan).is_empty() && kept(&plan, "workers-1").ends_with("workers-0 is drained first"));
}

/// COP-CAS-04: nothing goes in a pass in which something grows.
#[test]
fn not_while_growing() {
    let mut scene = scene();
    scene.group("large", 0, 3, 0, size(16, 64));
    scene.pass();
    scene.later(10).waiting(1, size(10, 1));
    let plan = scene.pass();
    assert_eq!(sizes(&plan), ["large 0->1"]);
    assert_eq!(kept(&plan, "workers-0"), "unneeded; nothing is removed while a set grows");
}

/// COP-CAS-04: a budget that allows one disruption lets one of its pods move in a pass.
#[test]
fn budgets_are_shared() {
    let mut scene = Scene::new(settings());
    scene.group("workers", 0, 9, 3, size(8, 16));
    for number in 0..3 {
        scene.pod(&format!("p{number}"), Some(&format!("workers-{number}")), size(1, 1));
    }
    scene.snapshot.budgets.push(Budget { namespace: "n".to_owned(), name: "b".to_owned(), allowed: 1, ..Budget::default() });
    scene.pass();
    let plan = scene.later(10).pass();
    assert_eq!(removed(&plan), ["workers-0"]);
    assert!(kept(&plan, "workers-1").contains("allows no disruption"));
}

/// COP-CAS-04: a node that is not ready goes after twenty minutes.
#[test]
fn not_ready() {
    let mut scene = scene();
    let now = scene.snapshot.now;
    scene.snapshot.nodes[0].is_ready = false;
    scene.snapshot.nodes[0].since = Some(now);
    scene.pass();
    assert!(kept(&scene.later(19).pass(), "workers-0").ends_with("it is removed after 20m0s"));
    assert_eq!(removed(&scene.later(1).pass()), ["workers-0"]);
}

/// COP-CAS-04: the mark of a removal that did not happen is taken away.
#[test]
fn marks_left_behind() {
    let mut scene = scene();
    scene.snapshot.groups[0].machines[1].is_marked = true;
    assert_eq!(scene.pass().unmark[0].1, "workers-1");
    scene.snapshot.groups[0].replicas = 1;
    assert!(scene.pass().unmark.is_empty(), "the set is about to take it");
}
