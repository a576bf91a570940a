//! Random clusters: the loop ends, keeps every limit, and removes no node whose pods have no other place.

use mainstay_autoscaler_core::settings::{Expander, ScaleDown, Settings};
use mainstay_autoscaler_core::{Group, Machine, Node, Plan, Size};
use proptest::prelude::*;

use crate::support::{Plain, Scene, id, size};

/// A set: its least and greatest number of machines, machines now, processors of a node, zone.
type Shape = (usize, usize, usize, u32, bool);

#[derive(Clone, Debug)]
struct Case {
    sets: Vec<Shape>,
    /// Processors of each pod, the node that it would like to be on, its zone, whether it may move.
    pods: Vec<(u32, usize, Option<bool>, bool)>,
    max_nodes: Option<usize>,
    cores: (u32, u32),
    expander: usize,
    balances: bool,
    seed: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let set = (0..3_usize, 0..4_usize, 0..5_usize, 1..4_u32, any::<bool>())
        .prop_map(|(min, more, now, power, zone)| (min, min + more, now.clamp(min, min + more), 1 << power, zone));
    let pod = (1..6_u32, 0..12_usize, prop::option::weighted(0.2, any::<bool>()), prop::bool::weighted(0.9));
    let limits = (prop::option::of(1..9_usize), (0..12_u32, 8..60_u32));
    (prop::collection::vec(set, 1..4), prop::collection::vec(pod, 0..9), limits, 0..3_usize, any::<bool>(), 0..7_usize).prop_map(
        |(sets, pods, (max_nodes, cores), expander, balances, seed)| Case { sets, pods, max_nodes, cores, expander, balances, seed },
    )
}

fn zone(is_b: bool) -> &'static str {
    if is_b { "b" } else { "a" }
}

fn scene(case: &Case) -> Scene {
    let mut settings = Settings {
        expanders: vec![[Expander::Random, Expander::LeastWaste, Expander::Priority][case.expander]],
        balances: case.balances,
        scale_down: ScaleDown { is_enabled: true, ..ScaleDown::default() },
        ..Settings::default()
    };
    settings.limits.max_nodes = case.max_nodes;
    settings.limits.cores.min = i128::from(case.cores.0) * 1000;
    settings.limits.cores.max = i128::from(case.cores.1) * 1000;
    let mut scene = Scene::new(settings);
    for (number, (min, max, now, cpu, is_b)) in case.sets.iter().enumerate() {
        scene.group_in(&format!("set-{number}"), *min, *max, *now, size((*cpu).into(), 64), zone(*is_b));
    }
    let nodes: Vec<String> = scene.plain.nodes.keys().cloned().collect();
    for (number, (cpu, wish, wants, may_move)) in case.pods.iter().enumerate() {
        let name = format!("p{number}");
        scene.pod(&name, None, size((*cpu).into(), 1)).safe_to_evict = (!may_move).then_some(false);
        if let Some(is_b) = wants {
            scene.in_zone(&name, zone(*is_b));
        }
        if let Some(node) = nodes.get(*wish).filter(|node| scene.plain.refuses(&name, node).is_none()).cloned() {
            bind(&mut scene, &name, &node);
        }
    }
    scene
}

fn bind(scene: &mut Scene, pod: &str, node: &str) {
    scene.plain.placed.insert(pod.to_owned(), node.to_owned());
    let pod = scene.snapshot.pods.iter_mut().find(|one| one.name == pod).unwrap();
    (pod.node, pod.is_unschedulable) = (Some(node.to_owned()), false);
}

/// Binds what fits anywhere, as a scheduler that does not know of the plan.
fn schedule(scene: &mut Scene) {
    let waiting: Vec<String> = scene.snapshot.pods.iter().filter(|pod| pod.node.is_none()).map(|pod| pod.name.clone()).collect();
    for pod in waiting {
        let fitting = scene.plain.nodes.keys().rev().find(|node| scene.plain.refuses(&pod, node).is_none()).cloned();
        if let Some(node) = fitting {
            bind(scene, &pod, &node);
        }
    }
}

/// A placement of pods on what is left, found by trying everything.
fn placement(plain: &mut Plain, pods: &[String]) -> bool {
    let Some((pod, rest)) = pods.split_first() else { return true };
    let nodes: Vec<String> = plain.nodes.keys().cloned().collect();
    for node in nodes {
        if plain.refuses(pod, &node).is_none() {
            plain.placed.insert(pod.clone(), node);
            if placement(plain, rest) {
                return true;
            }
            plain.placed.remove(pod);
        }
    }
    false
}

fn cores(scene: &Scene) -> i128 {
    scene.snapshot.nodes.iter().map(|node| node.size.cpu).sum()
}

fn grow(scene: &mut Scene, plan: &Plan, serial: &mut usize) {
    for resize in &plan.growth.resizes {
        let group: &mut Group = scene.snapshot.groups.iter_mut().find(|group| group.id == resize.group).unwrap();
        assert_eq!(resize.from, group.replicas);
        assert!(resize.to <= group.max && resize.to > resize.from, "{resize}");
        for _ in resize.from..resize.to {
            *serial += 1;
            let name = format!("{}-new-{serial}", resize.group.name);
            group.replicas += 1;
            let created = Some(scene.snapshot.now);
            group.machines.push(Machine { name: name.clone(), node: Some(name.clone()), created, ..Machine::default() });
            let template = group.template.clone().unwrap();
            let zone = template["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().map(str::to_owned);
            scene.snapshot.nodes.push(Node { name: name.clone(), size: group.size, is_ready: true, ..Node::default() });
            scene.plain.nodes.insert(name, (group.size, zone));
        }
    }
    if !plan.growth.resizes.is_empty() {
        let limits = &scene.snapshot.settings.limits;
        assert!(limits.max_nodes.is_none_or(|most| scene.snapshot.nodes.len() <= most), "too many nodes");
        assert!(cores(scene) <= limits.cores.max, "too many cores");
        scene.memory.grew(scene.snapshot.now);
    }
}

fn shrink(scene: &mut Scene, plan: &Plan) {
    let mut moving = Vec::new();
    for removal in &plan.shrinkage.removals {
        let group = scene.snapshot.groups.iter_mut().find(|group| group.id == removal.group).unwrap();
        assert!(group.replicas > group.min, "{} falls below its least size", group.id);
        group.replicas -= 1;
        group.machines.retain(|machine| machine.name != removal.machine);
        scene.snapshot.nodes.retain(|node| node.name != removal.node);
        scene.plain.nodes.remove(&removal.node);
        for pod in scene.snapshot.pods.iter_mut().filter(|pod| pod.node.as_deref() == Some(&removal.node)) {
            assert_ne!(pod.safe_to_evict, Some(false), "{} must not be moved", pod.name);
            pod.node = None;
            scene.plain.placed.remove(&pod.name);
            moving.push(pod.name.clone());
        }
        scene.memory.removed(&removal.node, scene.snapshot.now);
    }
    if plan.shrinkage.removals.is_empty() {
        return;
    }
    assert!(plan.growth.resizes.is_empty(), "something grows and shrinks in one pass");
    assert!(cores(scene) >= scene.snapshot.settings.limits.cores.min, "too few cores");
    assert!(placement(&mut scene.plain, &moving), "{moving:?} have no other place");
    for pod in moving {
        let node = scene.plain.placed[&pod].clone();
        bind(scene, &pod, &node);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// COP-CAS-05: the loop ends, keeps every limit, and never removes a node whose pods have no other place.
    #[test]
    fn the_loop_ends_and_keeps_every_limit(case in case()) {
        let mut scene = scene(&case);
        let (mut serial, mut quiet) = (0, 0);
        for pick in (case.seed..).skip(1).take(120) {
            let plan = mainstay_autoscaler_core::plan(&scene.snapshot, &scene.memory, scene.plain.clone(), &mut |count| pick % count);
            scene.memory.learn(&plan);
            for pod in &scene.snapshot.pods {
                let has_verdict = plan.growth.pods.contains_key(&pod.uid);
                prop_assert_eq!(has_verdict, pod.node.is_none(), "{} without a verdict, or with one too many", pod.name);
            }
            let is_quiet = plan.growth.resizes.is_empty() && plan.shrinkage.removals.is_empty();
            grow(&mut scene, &plan, &mut serial);
            shrink(&mut scene, &plan);
            schedule(&mut scene);
            scene.later(11);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == 3 {
                return Ok(());
            }
        }
        prop_assert!(false, "it never ends");
    }

    /// COP-CAS-03: what grows takes every pod for which it grows, and one node less would not do.
    #[test]
    fn growth_is_enough_and_not_too_much(pods in prop::collection::vec(1..5_u32, 1..7)) {
        let mut scene = Scene::new(Settings::default());
        scene.group("set", 0, 9, 0, size(4, 64));
        for (number, cpu) in pods.iter().enumerate() {
            scene.pod(&format!("p{number}"), None, size((*cpu).into(), 1));
        }
        let plan = scene.pass();
        let nodes = plan.growth.resizes[0].to;
        let fits = |count: usize| {
            let mut plain = scene.plain.clone();
            plain.nodes = (0..count).map(|number| (format!("n{number}"), (Size { cpu: 4_000, memory: 64 << 30, gpus: 0 }, None))).collect();
            placement(&mut plain, &scene.snapshot.pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>())
        };
        prop_assert!(fits(nodes), "{nodes} nodes are not enough");
        // First fit of the largest first needs at most 11/9 of the least number, rounded up.
        let least = (1..=nodes).find(|count| fits(*count)).unwrap();
        prop_assert!(nodes * 9 <= least * 11 + 6, "{nodes} where {least} would do");
        prop_assert_eq!(&plan.growth.resizes[0].group, &id("set"));
    }
}
