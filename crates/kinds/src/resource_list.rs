//! Resource lists (`{"cpu": "500m"}`): reading, adding, comparing; and what a pod asks for as a whole.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// Amounts by the name of their resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceList(BTreeMap<String, Quantity>);

impl ResourceList {
    /// Reads an object of quantities. A value that is no quantity is left out: validation has refused it.
    pub fn read(value: Option<&Value>) -> Self {
        let members = value.and_then(Value::as_object).into_iter().flatten();
        let quantity = |value: &Value| match value {
            Value::String(text) => Quantity::parse(text).ok(),
            Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
            _ => None,
        };
        Self(members.filter_map(|(name, value)| Some((name.clone(), quantity(value)?))).collect())
    }

    /// The object of quantities.
    pub fn to_value(&self) -> Value {
        let member = |(name, amount): (&String, &Quantity)| (name.clone(), Value::from(amount.to_string()));
        Value::Object(self.0.iter().map(member).collect::<Map<_, _>>())
    }

    /// The amount of a resource; `None` if it has none.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// Gives the amount of a resource.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// The resources, in the order of their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The resources and their amounts, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds another list.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |own| own.plus(amount));
            self.set(name, sum);
        }
    }

    /// Takes another list away; nothing falls below zero.
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let rest = self.get(name).unwrap_or(Quantity::ZERO).minus(amount);
            self.set(name, if rest.sign().is_gt() { rest } else { Quantity::ZERO });
        }
    }

    /// Raises every amount to that of another list.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|own| amount > own) {
                self.set(name, amount);
            }
        }
    }

    /// The part whose names fit.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| fits(name)).map(|(name, amount)| (name.clone(), *amount)).collect())
    }

    /// Returns the list without the resources whose amount is zero.
    #[must_use]
    pub fn without_zeros(mut self) -> Self {
        self.0.retain(|_, amount| !amount.sign().is_eq());
        self
    }
}

impl fmt::Display for ResourceList {
    /// `cpu=1,memory=1Gi`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, amount)) in self.iter().enumerate() {
            write!(out, "{}{name}={amount}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The amounts that containers ask for, or are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of ResourceRequirements")]
pub enum Side {
    Requests,
    Limits,
}

impl Side {
    fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }

    /// This side of a container's, or a pod's, `resources`.
    pub fn of(self, holder: &Value) -> ResourceList {
        ResourceList::read(holder.get("resources").and_then(|resources| resources.get(self.field())))
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The amounts that a pod's specification asks for: containers and sidecars together, or the largest step of its initialization if that is
/// more. Amounts of the pod as a whole replace the sum. Overhead is not part of it.
pub fn specified(pod: &Value, side: Side) -> ResourceList {
    let pod_level = |name: &str| matches!(name, "cpu" | "memory");
    total(pod, side, |container, _| side.of(container), pod_level)
}

/// The amounts that a pod is charged with: its specification, or what its node has given it already if that is more (a resize under way),
/// and its overhead.
pub fn charged(pod: &Value, side: Side) -> ResourceList {
    let infeasible = items(pod, "/status/conditions").any(|one| one["type"] == "PodResizePending" && one["reason"] == "Infeasible");
    let given = |container: &Value, status: &str| {
        let own = side.of(container);
        let found = items(pod, status).find(|one| one["name"] == container["name"] && one.get("resources").is_some());
        let Some(found) = found else { return own };
        let mut amounts = if infeasible { ResourceList::default() } else { own };
        amounts.raise_to(&side.of(found));
        if side == Side::Requests {
            amounts.raise_to(&ResourceList::read(found.get("allocatedResources")));
        }
        amounts
    };
    let pod_level = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut sum = total(pod, side, given, pod_level);
    let overhead = ResourceList::read(pod.pointer("/spec/overhead"));
    match side {
        Side::Requests => sum.add(&overhead),
        // A resource that is not limited stays so.
        Side::Limits => {
            let limited = overhead.only(|name| sum.get(name).is_some_and(|amount| !amount.sign().is_eq()));
            sum.add(&limited);
        }
    }
    sum
}

/// The amounts that the containers of a pod ask for together, whatever the pod as a whole does.
pub(crate) fn of_containers(pod: &Value, side: Side) -> ResourceList {
    total(pod, side, |container, _| side.of(container), |_| false)
}

fn total(pod: &Value, side: Side, of: impl Fn(&Value, &str) -> ResourceList, pod_level: impl Fn(&str) -> bool) -> ResourceList {
    let mut sum = ResourceList::default();
    for container in items(pod, "/spec/containers") {
        sum.add(&of(container, "/status/containerStatuses"));
    }
    let (mut sidecars, mut largest) = (ResourceList::default(), ResourceList::default());
    for container in items(pod, "/spec/initContainers") {
        if container["restartPolicy"] == "Always" {
            let own = of(container, "/status/initContainerStatuses");
            sum.add(&own);
            sidecars.add(&own);
            largest.raise_to(&sidecars);
        } else {
            let mut step = side.of(container);
            step.add(&sidecars);
            largest.raise_to(&step);
        }
    }
    sum.raise_to(&largest);
    let whole = pod.get("spec").map(|spec| side.of(spec)).unwrap_or_default();
    for (name, amount) in whole.iter().filter(|(name, _)| pod_level(name)) {
        sum.set(name, amount);
    }
    sum
}

/// Returns true if a pod says what it asks for as a whole.
pub fn has_pod_level(pod: &Value) -> bool {
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let sides = [Side::Requests, Side::Limits];
    pod.get("spec").is_some_and(|spec| sides.iter().any(|side| side.of(spec).names().any(supported)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
    }

    /// KAPI-ADM-03: what a pod asks for, with init containers, sidecars, overhead and amounts of the pod as a whole.
    #[test]
    fn totals() {
        for (spec, plain, with_overhead) in [
            (json!({"containers": [container("100m"), container("1")]}), "1100m", "1100m"),
            (json!({"containers": [container("1")], "initContainers": [container("500m")]}), "1", "1"),
            (json!({"containers": [container("1")], "initContainers": [container("3"), container("2")]}), "3", "3"),
            (json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("3")]}), "4", "4"),
            (json!({"containers": [container("1")], "initContainers": [container("3"), sidecar("1")]}), "3", "3"),
            (json!({"containers": [container("4")], "initContainers": [sidecar("1"), sidecar("1")]}), "6", "6"),
            (json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}), "1", "1250m"),
            (json!({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "5"}}}), "5", "5"),
        ] {
            let pod = json!({"spec": spec});
            for side in [Side::Requests, Side::Limits] {
                assert_eq!(specified(&pod, side).to_string(), format!("cpu={plain}"), "{pod}");
                assert_eq!(charged(&pod, side).to_string(), format!("cpu={with_overhead}"), "{pod}");
            }
        }
        let unlimited = json!({"spec": {"containers": [{"name": "c"}], "overhead": {"cpu": "1"}}});
        assert_eq!(charged(&unlimited, Side::Limits).to_string(), "");
        assert_eq!(charged(&unlimited, Side::Requests).to_string(), "cpu=1");
    }

    #[test]
    fn a_resize_under_way_counts_the_larger_amount() {
        let mut pod = json!({"spec": {"containers": [container("2")]}, "status": {"containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "3"}}]}});
        assert_eq!(charged(&pod, Side::Requests).to_string(), "cpu=3");
        pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] = json!("1");
        assert_eq!(charged(&pod, Side::Requests).to_string(), "cpu=2");
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(charged(&pod, Side::Requests).to_string(), "cpu=1");
    }
}
