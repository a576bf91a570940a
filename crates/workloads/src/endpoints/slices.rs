//! The EndpointSlices of a Service: those that are created, changed and deleted so that together they hold its endpoints.
//!
//! An endpoint stays in the slice that holds it, so that one pod more or less changes one slice.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::object::{Object, Read as _};

/// The most endpoints of one slice.
const SLICE: usize = 100;
/// The label with the name of the Service, on its slices.
pub const SERVICE: &str = "kubernetes.io/service-name";
/// The label with the controller that manages a slice.
pub const BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Endpoints with the same ports.
#[derive(Debug, Default)]
pub struct Group {
    /// The ports.
    pub ports: Vec<Value>,
    /// The endpoints.
    pub endpoints: Vec<Value>,
}

/// The plan for slices.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// `endpoints` and `ports` of the slices that are created.
    pub create: Vec<Value>,
    /// Slices with their new content.
    pub update: Vec<(Object, Value)>,
    /// Slices that are empty now.
    pub delete: Vec<Object>,
}

/// A slice under construction.
struct Slice {
    there: Option<Object>,
    ports: Vec<Value>,
    endpoints: Vec<Value>,
    changed: bool,
}

impl Slice {
    fn room(&self) -> usize {
        SLICE.saturating_sub(self.endpoints.len())
    }
}

/// Plans the slices of the Service. `labels` are those that each should have.
pub fn plan(there: &[Object], groups: Vec<Group>, labels: &Value) -> Plan {
    let mut slices: Vec<Slice> = Vec::new();
    let mut unused: Vec<Object> = there.to_vec();
    for group in groups.into_iter().filter(|group| !group.endpoints.is_empty()) {
        let of_group = |slice: &Object| same_ports(&list(slice, "ports"), &group.ports);
        let (own, others): (Vec<Object>, Vec<Object>) = unused.into_iter().partition(of_group);
        unused = others;
        let (kept, empty) = fill(own, group);
        slices.extend(kept);
        unused.extend(empty);
    }
    // A Service without endpoints has one empty slice.
    if slices.is_empty() {
        let at = unused.iter().position(|slice| list(slice, "endpoints").is_empty() && list(slice, "ports").is_empty());
        let there = at.map(|at| unused.remove(at));
        slices.push(Slice { there, ports: Vec::new(), endpoints: Vec::new(), changed: false });
    }
    let mut plan = Plan::default();
    for mut slice in slices {
        // A slice to delete is reused for one to create.
        let reused = if slice.there.is_none() { unused.pop() } else { None };
        slice.changed |= reused.is_some();
        let content = json!({"endpoints": slice.endpoints, "ports": slice.ports});
        match slice.there.or(reused) {
            None => plan.create.push(content),
            Some(there) if slice.changed || json!(there.labels()) != *labels => plan.update.push((there, content)),
            Some(_) => {}
        }
    }
    plan.delete = unused;
    plan
}

/// Puts the endpoints of a group into its slices: existing ones stay where they are, new ones go where there is room. Returns the slices that
/// hold endpoints, and those that no longer do.
fn fill(own: Vec<Object>, group: Group) -> (Vec<Slice>, Vec<Object>) {
    let mut wanted: Vec<Option<Value>> = group.endpoints.into_iter().map(Some).collect();
    let places: HashMap<String, usize> =
        wanted.iter().enumerate().filter_map(|(index, endpoint)| Some((identity(endpoint.as_ref()?), index))).collect();
    let (mut slices, mut empty) = (Vec::new(), Vec::new());
    for there in own {
        let before = list(&there, "endpoints");
        let mut take = |endpoint: &Value| wanted[*places.get(&identity(endpoint))?].take();
        let endpoints: Vec<Value> = before.iter().filter_map(&mut take).collect();
        if endpoints.is_empty() {
            empty.push(there);
        } else {
            let changed = endpoints != before;
            slices.push(Slice { there: Some(there), ports: group.ports.clone(), endpoints, changed });
        }
    }
    let mut left: Vec<Value> = wanted.into_iter().flatten().collect();
    // First the slices that are written anyway, the fullest of them first.
    let mut order: Vec<usize> = (0..slices.len()).filter(|index| slices[*index].changed).collect();
    order.sort_by_key(|index| slices[*index].room());
    for index in order {
        let count = slices[index].room().min(left.len());
        slices[index].endpoints.extend(left.drain(..count));
    }
    // Then the fullest of the slices that have room for all; else new ones.
    while !left.is_empty() {
        let fits = |slice: &&mut Slice| !slice.changed && slice.room() >= left.len();
        if let Some(slice) = slices.iter_mut().filter(fits).min_by_key(|slice| slice.room()) {
            slice.endpoints.append(&mut left);
            slice.changed = true;
        } else {
            let endpoints = left.drain(..SLICE.min(left.len())).collect();
            slices.push(Slice { there: None, ports: group.ports.clone(), endpoints, changed: true });
        }
    }
    (slices, empty)
}

/// Returns the identity of an endpoint, regardless of its state.
fn identity(endpoint: &Value) -> String {
    let pod = &endpoint["targetRef"];
    json!([endpoint["addresses"], pod["namespace"], pod["name"], pod["uid"]]).to_string()
}

/// Returns true if both are the same ports, in any order.
pub fn same_ports(one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len() && one.iter().all(|port| other.contains(port))
}

/// A list of a slice.
pub fn list(slice: &Object, part: &str) -> Vec<Value> {
    slice.data.get(part).and_then(Value::as_array).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn endpoint(index: usize) -> Value {
        json!({"addresses": [format!("10.0.0.{index}")], "targetRef": {"kind": "Pod", "namespace": "n", "name": format!("p{index}"), "uid": format!("u{index}")}})
    }

    fn group(port: u16, endpoints: impl IntoIterator<Item = usize>) -> Group {
        Group {
            ports: vec![json!({"name": "", "port": port, "protocol": "TCP"})],
            endpoints: endpoints.into_iter().map(endpoint).collect(),
        }
    }

    fn slice(name: &str, labels: &Value, group: &Group) -> Object {
        let slice = json!({"metadata": {"name": name, "uid": name, "labels": labels}, "endpoints": group.endpoints, "ports": group.ports});
        Object::new(serde_json::from_value(slice).unwrap())
    }

    /// What a plan does, one word a slice: `+COUNT`, `NAME=COUNT`, `-NAME`.
    fn shown(plan: &Plan) -> String {
        let count = |content: &Value| content["endpoints"].as_array().map_or(0, Vec::len);
        let mut words: Vec<String> = plan.create.iter().map(|content| format!("+{}", count(content))).collect();
        words.extend(plan.update.iter().map(|(slice, content)| format!("{}={}", slice.name(), count(content))));
        words.extend(plan.delete.iter().map(|slice| format!("-{}", slice.name())));
        words.join(" ")
    }

    /// KAPI-WL-01: an endpoint stays in its slice; few slices are written; ports that differ have slices of their own.
    #[test]
    fn slices_change_little() {
        let labels = json!({SERVICE: "s"});
        let of = |name: &str, group: &Group| slice(name, &labels, group);
        let check = |there: &[Object], groups: Vec<Group>, expected: &str| assert_eq!(shown(&plan(there, groups, &labels)), expected);
        check(&[], vec![], "+0");
        check(&[], vec![group(80, 0..250)], "+100 +100 +50");
        check(&[of("a", &group(80, [])), of("none", &Group::default())], vec![], "-a");
        check(&[of("none", &Group::default())], vec![group(80, 0..3)], "none=3");
        // One more: into the slice with the least room that has enough.
        let full = [of("a", &group(80, 0..100)), of("b", &group(80, 100..120)), of("c", &group(80, 120..150))];
        check(&full, vec![group(80, 0..151)], "c=31");
        // One gone and one more: the slice that changes takes it.
        check(&full, vec![group(80, (1..150).chain([200]))], "a=100");
        check(&full, vec![group(80, (0..100).chain(120..150))], "-b");
        check(&full, vec![group(80, 0..150)], "");
        check(&full, vec![group(80, 0..100), group(81, 100..150)], "c=50 -b");
        check(&full, vec![group(81, 0..250)], "c=100 b=100 a=50");
        // Labels of the Service go on.
        let older = slice("a", &json!({SERVICE: "s", "gone": "x"}), &group(80, 0..3));
        check(&[older], vec![group(80, 0..3)], "a=3");
    }

    /// KAPI-WL-01: a change of an endpoint's state is written to its slice, in its place.
    #[test]
    fn states_are_written_in_place() {
        let labels = json!({});
        let mut wanted = group(80, 0..3);
        let there = slice("a", &labels, &wanted);
        wanted.endpoints[1]["conditions"] = json!({"ready": false});
        wanted.endpoints.rotate_left(1);
        let planned = plan(&[there], vec![wanted], &labels);
        assert_eq!(planned.update[0].1["endpoints"][1]["conditions"]["ready"], false);
        assert_eq!(planned.update[0].1["endpoints"][0], endpoint(0));
    }
}
