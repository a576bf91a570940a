//! The resources that pods request, and the sums of them on nodes.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use mainstay_kinds::quantity::Quantity;
use serde_json::Value;

use crate::object::{Read as _, items};

/// Amounts of resources, in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// Returns the amounts of a resource list. Unreadable ones count as zero, since the API does not admit them.
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

/// Returns the requests of a pod: the sum over its containers, or an init container's own if that is more; sidecars (init
/// containers that restart) run beside all later ones. The overhead is added.
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

/// Adds amounts.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// Subtracts amounts.
pub fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        *total.entry(name.clone()).or_default() -= amount;
    }
}

fn most(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let present = total.entry(name.clone()).or_default();
        *present = (*present).max(*amount);
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
}
