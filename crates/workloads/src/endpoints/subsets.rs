//! The subsets of an Endpoints object: the addresses that answer on each set of ports, in Kubernetes' own order.
//!
//! ```text
//!   pods × ports of the Service ── addresses by port ── ports of the same addresses together ── at most 1,000 addresses
//! ```

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{hostname, is_bare, ports, publishes, reference};
use crate::hash;
use crate::object::{Object, Read as _};
use crate::pod;

/// The most addresses of an Endpoints object; EndpointSlices hold all of them.
const CAPACITY: usize = 1000;

/// The content of an Endpoints object.
#[derive(Debug, PartialEq)]
pub struct Subsets {
    /// Its `subsets`.
    pub list: Value,
    /// True if addresses were left out.
    pub truncated: bool,
}

/// Addresses that answer on the same ports.
#[derive(Clone)]
struct Subset {
    ready: Vec<Value>,
    not_ready: Vec<Value>,
    ports: Vec<Value>,
}

/// Returns the subsets for these pods, which the Service selects and which have addresses.
pub fn subsets(service: &DynamicObject, pods: &[Object]) -> Subsets {
    let mut pods: Vec<&Object> = pods.iter().filter(|pod| !pod.deleting() || publishes(service)).collect();
    pods.sort_by(|one, other| (one.text("/status/podIP"), one.uid()).cmp(&(other.text("/status/podIP"), other.uid())));
    // Each port with the pods that have it; `None` stands for a headless Service without ports.
    let mut by_port: Vec<(Option<Value>, Vec<&Object>)> = Vec::new();
    for pod in pods {
        let own = if is_bare(service) { vec![None] } else { ports(service, pod).into_iter().map(|port| Some(named(port))).collect() };
        for port in own {
            match by_port.iter_mut().find(|(known, _)| *known == port) {
                Some((_, pods)) => pods.push(pod),
                None => by_port.push((port, vec![pod])),
            }
        }
    }
    let mut groups: Vec<(Vec<&Object>, Vec<Value>)> = Vec::new();
    for (port, pods) in by_port {
        let same = |known: &[&Object]| known.len() == pods.len() && known.iter().zip(&pods).all(|(one, other)| one.uid() == other.uid());
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, ports)) => ports.extend(port),
            None => groups.push((pods, port.into_iter().collect())),
        }
    }
    let mut subsets: Vec<Subset> = groups.into_iter().map(|(pods, ports)| Subset::of(service, &pods, ports)).collect();
    subsets.sort_by_cached_key(|subset| hash::deep(&subset.shown(), "v1.EndpointSubset"));
    let truncated = truncate(&mut subsets);
    Subsets { list: subsets.iter().map(Subset::shown).collect(), truncated }
}

impl Subset {
    fn of(service: &DynamicObject, pods: &[&Object], mut ports: Vec<Value>) -> Self {
        let (ready, not_ready): (Vec<&Object>, Vec<&Object>) = pods.iter().partition(|pod| pod::ready(pod) || publishes(service));
        let addresses = |pods: Vec<&Object>| pods.into_iter().map(|pod| address(service, pod)).collect();
        ports.sort_by_cached_key(|port| hash::deep(port, "v1.EndpointPort"));
        Self { ready: addresses(ready), not_ready: addresses(not_ready), ports }
    }

    fn shown(&self) -> Value {
        let mut subset = json!({});
        for (name, list) in [("addresses", &self.ready), ("notReadyAddresses", &self.not_ready), ("ports", &self.ports)] {
            if !list.is_empty() {
                subset[name] = json!(list);
            }
        }
        subset
    }
}

/// Returns a port as Endpoints have it: without a name instead of an empty one.
fn named(mut port: Value) -> Value {
    if let Value::Object(map) = &mut port {
        map.retain(|_, value| value != "");
    }
    port
}

fn address(service: &DynamicObject, pod: &DynamicObject) -> Value {
    let mut address = json!({"ip": pod.text("/status/podIP"), "nodeName": pod.text("/spec/nodeName"), "targetRef": reference(pod)});
    if let Some(hostname) = hostname(service, pod) {
        address["hostname"] = json!(hostname);
    }
    address
}

/// Drops addresses above the capacity: first those that are not ready, from each subset in proportion. Returns true if any were dropped.
fn truncate(subsets: &mut [Subset]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.ready.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready.len()).sum();
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let of_ready = ready > CAPACITY;
    let (most, total) = if of_ready { (CAPACITY, ready) } else { (CAPACITY - ready, not_ready) };
    let mut left = most;
    for subset in subsets {
        if of_ready {
            subset.not_ready.clear();
        }
        let list = if of_ready { &mut subset.ready } else { &mut subset.not_ready };
        list.truncate((list.len() * most).div_ceil(total).min(left));
        left -= list.len();
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pods(count: usize, ready: usize) -> Vec<Object> {
        let pod = |index: usize| {
            let state = if index < ready { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": format!("p{index}"), "namespace": "n", "uid": format!("u{index}")},
                "spec": {"nodeName": "node", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
                "status": {"podIP": format!("10.0.{}.{}", index / 250, index % 250), "conditions": [{"type": "Ready", "status": state}]},
            });
            Object::new(serde_json::from_value(pod).unwrap())
        };
        (0..count).map(pod).collect()
    }

    fn service(ports: &Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"clusterIP": "10.96.0.9", "ports": ports}}))
            .unwrap()
    }

    /// One line a subset: the last numbers of its addresses, those that are not ready, its ports.
    fn shown(subsets: &Subsets) -> Vec<String> {
        let last = |list: &Value| {
            let numbers = list.as_array().into_iter().flatten().filter_map(|address| address["ip"].as_str()?.rsplit('.').next());
            numbers.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let names = |list: &Value| {
            let ports =
                list.as_array().into_iter().flatten().map(|port| format!("{}:{}", port["name"].as_str().unwrap_or_default(), port["port"]));
            ports.collect::<Vec<_>>().join(" ")
        };
        let line = |one: &Value| format!("{} | {} | {}", last(&one["addresses"]), last(&one["notReadyAddresses"]), names(&one["ports"]));
        subsets.list.as_array().into_iter().flatten().map(line).collect()
    }

    /// KAPI-WL-01: ports, addresses and subsets stand together and in the order in which `RepackSubsets` of Kubernetes v1.34.2 gives them for
    /// the same pods.
    #[test]
    fn order() {
        let pod = |(number, ready, web, admin, hostname): (u8, bool, u16, Option<u16>, &str)| {
            let mut ports = vec![json!({"name": "web", "containerPort": web})];
            ports.extend(admin.map(|port| json!({"name": "admin", "containerPort": port})));
            let state = if ready { "True" } else { "False" };
            let pod = json!({
                "metadata": {"name": format!("p{number}"), "namespace": "n", "uid": format!("u{number}")},
                "spec": {"nodeName": "node", "hostname": hostname, "subdomain": "s", "containers": [{"ports": ports}]},
                "status": {"podIP": format!("10.0.0.{number}"), "conditions": [{"type": "Ready", "status": state}]},
            });
            Object::new(serde_json::from_value(pod).unwrap())
        };
        let pods =
            [(9, true, 8080, None, ""), (10, true, 8081, Some(9443), ""), (11, false, 8080, Some(9443), ""), (12, true, 8080, None, "h12")]
                .map(pod);
        let of_pods = service(&json!([
            {"name": "web", "port": 80, "targetPort": "web"}, {"name": "metrics", "port": 9090, "targetPort": 9090},
            {"name": "admin", "port": 443, "targetPort": "admin"}, {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
        ]));
        let found = subsets(&of_pods, &pods);
        assert_eq!(
            shown(&found),
            ["10 12 9 | 11 | dns:53 metrics:9090", "12 9 | 11 | web:8080", "10 |  | web:8081", "10 | 11 | admin:9443",]
        );
        assert_eq!(found.list[0]["addresses"][1]["hostname"], "h12");
        let five = service(&json!([
            {"name": "a", "port": 1, "appProtocol": "http"}, {"name": "b", "port": 2}, {"name": "c", "port": 3}, {"name": "d", "port": 4},
            {"name": "e", "port": 5},
        ]));
        assert_eq!(shown(&subsets(&five, &pods[..1])), ["9 |  | b:2 c:3 e:5 a:1 d:4"]);
        // A headless Service may have no ports; a port that no pod has is nowhere.
        let mut bare = service(&json!([]));
        assert!(shown(&subsets(&bare, &pods)).is_empty());
        bare.data["spec"]["clusterIP"] = json!("None");
        assert_eq!(shown(&subsets(&bare, &pods)), ["10 12 9 | 11 | "]);
        assert!(shown(&subsets(&service(&json!([{"port": 1, "targetPort": "none"}])), &pods)).is_empty());
    }

    /// KAPI-WL-01: Endpoints hold a thousand addresses, ready ones before others.
    #[test]
    fn capacity() {
        let service = service(&json!([{"name": "a", "port": 80, "targetPort": "web"}]));
        for (count, ready, expected) in [(1000, 600, (600, 400, false)), (1200, 600, (600, 400, true)), (1200, 1100, (1000, 0, true))] {
            let found = subsets(&service, &pods(count, ready));
            let count = |name: &str| found.list[0][name].as_array().map_or(0, Vec::len);
            assert_eq!((count("addresses"), count("notReadyAddresses"), found.truncated), expected);
        }
    }
}
