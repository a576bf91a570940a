//! The cluster in which pods are placed without effect, by the scheduler's own filter.

use std::collections::HashMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use mainstay_autoscaler_core::Rehearsal;
use mainstay_runtime::Key;
use mainstay_workloads::daemonset::plan::pod_for;
use mainstay_workloads::object::{Object, Read as _};
use mainstay_workloads::scheduler::claims::{Claims, incoming};
use mainstay_workloads::scheduler::cluster::Cluster;
use mainstay_workloads::scheduler::plan::{Incoming, first_fitting};
use serde_json::Value;

/// The facts that do not change while pods are placed.
#[derive(Default)]
pub struct Scene {
    /// All pods, by UID.
    pub pods: HashMap<String, Object>,
    /// Namespaces, by name.
    pub namespaces: HashMap<String, Object>,
    /// DaemonSets.
    pub daemons: Vec<Object>,
    /// PersistentVolumeClaims.
    pub claims: HashMap<Key, Object>,
    /// PersistentVolumes, by name.
    pub volumes: HashMap<String, Object>,
    /// StorageClasses, by name.
    pub classes: HashMap<String, Object>,
}

impl Claims for Scene {
    fn claim(&self, key: &Key) -> Option<Object> {
        self.claims.get(key).cloned()
    }

    fn volume(&self, name: &str) -> Option<Object> {
        self.volumes.get(name).cloned()
    }

    fn class_of(&self, claim: &DynamicObject) -> Option<Object> {
        self.classes.get(mainstay_workloads::volumes::plan::class(claim)).cloned()
    }
}

/// The cluster as the scheduler sees it, to be changed without effect.
#[derive(Clone)]
pub struct Rehearsed {
    cluster: Cluster,
    scene: Arc<Scene>,
}

impl Rehearsed {
    /// Begins with a cluster.
    pub fn new(cluster: Cluster, scene: Scene) -> Self {
        Self { cluster, scene: Arc::new(scene) }
    }
}

fn object(value: Value) -> Option<Object> {
    serde_json::from_value::<DynamicObject>(value).ok().map(Arc::new)
}

impl Rehearsal for Rehearsed {
    fn fork(&self) -> Self {
        self.clone()
    }

    fn add_node(&mut self, node: &Value) {
        let Some(node) = object(node.clone()) else { return };
        self.cluster.set_node(node.name(), Some(&node));
        for set in &self.scene.daemons {
            let Some(mut pod) = pod_for(set, &node) else { continue };
            let name = format!("{}/{}", set.uid(), node.name());
            pod["metadata"]["name"] = name.clone().into();
            pod["metadata"]["uid"] = name.into();
            if let Some(pod) = object(pod) {
                self.cluster.assign(&pod, node.name());
            }
        }
    }

    fn place(&mut self, pod: &str, among: &mut dyn Iterator<Item = &str>) -> Result<String, Vec<String>> {
        let Some(pod) = self.scene.pods.get(pod) else { return Err(vec!["the pod is gone".to_owned()]) };
        let (incoming, _): (Incoming<'_>, _) = incoming(pod, &*self.scene);
        let node = first_fitting(&incoming, &self.cluster, &|name| self.scene.namespaces.get(name).cloned(), among)?;
        self.cluster.assign(pod, &node);
        Ok(node)
    }

    fn remove(&mut self, pod: &str) {
        self.cluster.remove(pod);
    }

    fn put(&mut self, pod: &str, node: &str) {
        if let Some(pod) = self.scene.pods.get(pod) {
            self.cluster.assign(pod, node);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_autoscaler_core::settings::{ScaleDown, Settings};
    use mainstay_autoscaler_core::{Group, GroupId, Machine, Memory, Node, Pod, Snapshot, plan};
    use mainstay_workloads::scheduler::plan::{Decision, plan as schedule};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn node(name: &str, zone: &str, cpu: u32, is_tainted: bool) -> Value {
        let taints = if is_tainted { json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]) } else { json!([]) };
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": zone}}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    /// A pod that tolerates the taint, stays away from its like, or wants a zone.
    fn pod(name: &str, cpu: u32, rule: u8, node: Option<&str>) -> Value {
        let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu.to_string()}}}]});
        match rule {
            1 => spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]),
            2 => {
                let term = json!({"labelSelector": {"matchLabels": {"apart": "yes"}}, "topologyKey": "kubernetes.io/hostname"});
                spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            }
            3 => spec["nodeSelector"] = json!({"zone": "a"}),
            _ => {}
        }
        let mut status = json!({});
        match node {
            Some(node) => spec["nodeName"] = json!(node),
            None => status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]),
        }
        let labels = if rule == 2 { json!({"apart": "yes"}) } else { json!({}) };
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": format!("of-{name}"), "controller": true}]);
        json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels, "ownerReferences": owner}, "spec": spec, "status": status})
    }

    fn cluster_of(nodes: &[Value], pods: &[Value]) -> Cluster {
        let mut cluster = Cluster::default();
        for node in nodes {
            let node = object(node.clone()).unwrap();
            cluster.set_node(node.name(), Some(&node));
        }
        for pod in pods {
            cluster.follow(None, object(pod.clone()).as_ref());
        }
        cluster
    }

    fn snapshot(nodes: &[Value], pods: &[Value]) -> Snapshot {
        let machines = nodes.iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned());
        let group = Group {
            id: GroupId { namespace: "m".to_owned(), name: "set".to_owned() },
            uid: String::new(),
            min: 0,
            max: 20,
            replicas: nodes.len(),
            machines: machines.map(|name| Machine { name: name.clone(), node: Some(name), ..Machine::default() }).collect(),
            template: Ok(node("", "a", 4, false)),
            size: Node::of(&node("", "a", 4, false), &[]).size,
        };
        let scale_down = ScaleDown { is_enabled: true, unneeded_time: std::time::Duration::ZERO, threshold: 0.99, ..ScaleDown::default() };
        Snapshot {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            settings: Settings { scale_down, ..Settings::default() },
            groups: vec![group],
            nodes: nodes.iter().map(|node| Node::of(node, &[])).collect(),
            pods: pods.iter().filter_map(Pod::of).collect(),
            budgets: Vec::new(),
            priorities: None,
        }
    }

    fn scene(pods: &[Value]) -> Scene {
        let pods = pods.iter().filter_map(|pod| object(pod.clone())).map(|pod| (pod.uid().to_owned(), pod)).collect();
        Scene { pods, ..Scene::default() }
    }

    /// COP-CAS-03: imagined nodes carry the pods of DaemonSets, so that what these take is not given away.
    #[test]
    fn daemons_take_their_part() {
        let waiting = [pod("waiting", 4, 0, None)];
        let template = json!({"metadata": {}, "spec": {"containers": [{"name": "d", "resources": {"requests": {"cpu": "100m"}}}]}});
        let daemon = json!({"metadata": {"name": "d", "namespace": "n", "uid": "d"}, "spec": {"template": template}});
        let of = |daemons: Vec<Object>| {
            let rehearsed = Rehearsed::new(Cluster::default(), Scene { daemons, ..scene(&waiting) });
            let plan = plan(&snapshot(&[], &waiting), &Memory::default(), rehearsed, &mut |_| 0);
            (plan.growth.resizes.len(), plan.growth.pods["waiting"].not_triggered())
        };
        assert_eq!(of(Vec::new()), (1, None));
        assert_eq!(of(vec![object(daemon).unwrap()]), (0, Some("pod didn't trigger scale-up: 1 Insufficient cpu".to_owned())));
    }

    /// COP-CAS-03: a pod that no node would help makes nothing grow: its claim is not bound.
    #[test]
    fn claims_that_no_node_helps() {
        let mut waiting = pod("waiting", 1, 0, None);
        waiting["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
        let waiting = [waiting];
        let of = |claim: Option<Value>| {
            let claims = claim.and_then(object).map(|claim| (Key::of(&claim), claim)).into_iter().collect();
            let rehearsed = Rehearsed::new(Cluster::default(), Scene { claims, ..scene(&waiting) });
            let plan = plan(&snapshot(&[], &waiting), &Memory::default(), rehearsed, &mut |_| 0);
            plan.growth.pods["waiting"].not_triggered().unwrap_or_default()
        };
        assert_eq!(of(None), "pod didn't trigger scale-up: 1 persistentvolumeclaim \"c\" not found");
        let pending = json!({"metadata": {"name": "c", "namespace": "n", "uid": "c"}, "spec": {}, "status": {"phase": "Pending"}});
        assert_eq!(of(Some(pending)), "pod didn't trigger scale-up: 1 pod has unbound immediate PersistentVolumeClaims");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// COP-CAS-05: with the scheduler's own rules, the pods of nodes that go are bound elsewhere by the scheduler itself.
        #[test]
        fn the_scheduler_agrees(
            shapes in prop::collection::vec((any::<bool>(), any::<bool>()), 1..6),
            wishes in prop::collection::vec((1..4_u32, 0..4_u8, 0..6_usize), 0..10),
        ) {
            let nodes: Vec<Value> = shapes.iter().enumerate()
                .map(|(number, (is_a, is_tainted))| node(&format!("n{number}"), if *is_a { "a" } else { "b" }, 4, *is_tainted)).collect();
            let mut pods: Vec<Value> = Vec::new();
            for (number, (cpu, rule, wish)) in wishes.iter().enumerate() {
                let name = format!("p{number}");
                let before = cluster_of(&nodes, &pods);
                let waiting = object(pod(&name, *cpu, *rule, None)).unwrap();
                let incoming = Incoming { pod: &waiting, problem: None, volumes: Vec::new() };
                let on = format!("n{}", wish % nodes.len());
                let fits = first_fitting(&incoming, &before, &|_| None, &mut std::iter::once(on.as_str())).is_ok();
                pods.push(pod(&name, *cpu, *rule, fits.then_some(on.as_str())));
            }
            let rehearsed = Rehearsed::new(cluster_of(&nodes, &pods), scene(&pods));
            let plan = plan(&snapshot(&nodes, &pods), &Memory::default(), rehearsed, &mut |_| 0);
            let gone: Vec<&str> = plan.shrinkage.removals.iter().map(|removal| removal.node.as_str()).collect();
            let mut after = cluster_of(&nodes, &pods);
            let mut moving = Vec::new();
            for pod in &pods {
                if pod["spec"]["nodeName"].as_str().is_some_and(|on| gone.contains(&on)) {
                    after.remove(pod["metadata"]["uid"].as_str().unwrap());
                    moving.push(object(pod.clone()).unwrap());
                }
            }
            for node in &gone {
                after.set_node(node, None);
            }
            for pod in moving {
                let incoming = Incoming { pod: &pod, problem: None, volumes: Vec::new() };
                let decision = schedule(&incoming, &after, &|_| None, &Vec::new);
                let Decision::Bind(on) = decision else { return Err(TestCaseError::fail(format!("{} has no other place: {decision:?}", pod.name()))) };
                after.assign(&pod, &on);
            }
            // Pods that fit nowhere make the set grow, unless a new node would not take them either.
            for resize in &plan.growth.resizes {
                prop_assert!(resize.to > resize.from && gone.is_empty());
            }
        }
    }
}
