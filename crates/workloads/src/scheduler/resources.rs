//! What pods ask of nodes, and what of it is taken.

use std::collections::{BTreeMap, HashMap};

use kube::api::DynamicObject;
use mainstay_kinds::quantity::Quantity;
use serde_json::Value;

use crate::object::{Read as _, items};
use crate::pod;

/// Amounts of resources, in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// The amounts of a resource list; what cannot be read counts as nothing, since the API admits no such thing.
pub fn amounts(list: &Value) -> Amounts {
    let all = list.as_object().into_iter().flatten();
    all.filter_map(|(name, amount)| {
        let amount = match amount {
            Value::String(text) => Quantity::parse(text).ok()?.to_milli(),
            Value::Number(number) => i128::from(number.as_i64()?) * 1000,
            _ => return None,
        };
        Some((name.clone(), amount))
    })
    .collect()
}

/// What a pod needs: the sum over its containers, or what an init container needs alone where that is more; sidecars (init
/// containers that restart) run beside all that come after them. The overhead is added.
pub fn requests(pod: &DynamicObject) -> Amounts {
    let mut total = Amounts::new();
    for container in items(pod, "/spec/containers") {
        add(&mut total, &amounts(&container["resources"]["requests"]));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in items(pod, "/spec/initContainers") {
        let own = amounts(&container["resources"]["requests"]);
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, &own);
            most(&mut peak, &sidecars);
        } else {
            let mut beside = sidecars.clone();
            add(&mut beside, &own);
            most(&mut peak, &beside);
        }
    }
    add(&mut total, &sidecars);
    most(&mut total, &peak);
    add(&mut total, &amounts(pod.at("/spec/overhead")));
    total
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

fn most(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let present = total.entry(name.clone()).or_default();
        *present = (*present).max(*amount);
    }
}

/// What the pods of a node take.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Resources.
    pub amounts: Amounts,
    /// How many pods there are.
    pub pods: usize,
    /// How many of them belong to which controller (uid).
    pub by_controller: HashMap<String, usize>,
}

struct Assigned {
    node: String,
    requests: Amounts,
    controller: String,
}

/// What is taken on every node, kept up to date by changes of pods.
#[derive(Default)]
pub struct Usage {
    pods: HashMap<String, Assigned>,
    nodes: HashMap<String, Taken>,
}

impl Usage {
    /// What is taken on a node.
    pub fn taken(&self, node: &str) -> Taken {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// Whether the pod with this uid has a node.
    pub fn knows(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// A pod is, or is about to be, on a node.
    pub fn assign(&mut self, pod: &DynamicObject, node: &str) {
        self.remove(pod.uid());
        let controller = pod.controller().map(|owner| owner.uid.clone()).unwrap_or_default();
        let assigned = Assigned { node: node.to_owned(), requests: requests(pod), controller };
        let taken = self.nodes.entry(node.to_owned()).or_default();
        add(&mut taken.amounts, &assigned.requests);
        taken.pods += 1;
        *taken.by_controller.entry(assigned.controller.clone()).or_default() += 1;
        self.pods.insert(pod.uid().to_owned(), assigned);
    }

    /// A pod takes nothing any more; whether it did.
    pub fn remove(&mut self, uid: &str) -> bool {
        let Some(assigned) = self.pods.remove(uid) else { return false };
        if let Some(taken) = self.nodes.get_mut(&assigned.node) {
            for (name, amount) in &assigned.requests {
                *taken.amounts.entry(name.clone()).or_default() -= amount;
            }
            taken.pods = taken.pods.saturating_sub(1);
            if let Some(count) = taken.by_controller.get_mut(&assigned.controller) {
                *count -= 1;
                if *count == 0 {
                    taken.by_controller.remove(&assigned.controller);
                }
            }
            if taken.pods == 0 {
                self.nodes.remove(&assigned.node);
            }
        }
        true
    }

    /// Follows a pod; whether something became free.
    pub fn follow(&mut self, before: Option<&DynamicObject>, now: Option<&DynamicObject>) -> bool {
        match now {
            Some(pod) if !pod.text("/spec/nodeName").is_empty() && !pod::finished(pod) => {
                if !self.knows(pod.uid()) {
                    self.assign(pod, pod.text("/spec/nodeName"));
                }
                before.is_some_and(|before| before.uid() != pod.uid()) && self.remove(before.map_or("", |before| before.uid()))
            }
            Some(pod) if pod::finished(pod) => self.remove(pod.uid()),
            Some(_) => false,
            None => before.is_some_and(|before| self.remove(before.uid())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": uid, "uid": uid}, "spec": spec})).unwrap()
    }

    /// KAPI-WL-02: resource requests of containers, init containers and sidecars.
    #[test]
    fn requests_of_a_pod() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}});
        let cpu = |spec: Value| requests(&pod("p", &spec)).get("cpu").copied().unwrap_or_default();
        assert_eq!(cpu(json!({"containers": [container("100m"), container("1")]})), 1_100);
        assert_eq!(cpu(json!({"containers": [container("100m")], "initContainers": [container("2")]})), 2_000);
        assert_eq!(cpu(json!({"containers": [container("100m")], "initContainers": [sidecar, container("2")]})), 2_050);
        assert_eq!(cpu(json!({"containers": [container("100m")], "overhead": {"cpu": "10m"}})), 110);
    }

    #[test]
    fn usage_follows_pods() {
        let mut usage = Usage::default();
        let one = pod("one", &json!({"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}));
        assert!(!usage.follow(None, Some(&one)));
        usage.assign(&one, "a");
        assert_eq!((usage.taken("a").pods, usage.taken("a").amounts["cpu"]), (1, 1_000));
        assert!(usage.follow(Some(&one), None));
        assert_eq!(usage.taken("a").pods, 0);
        assert!(!usage.follow(Some(&one), None));
    }
}
