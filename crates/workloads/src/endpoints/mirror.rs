//! EndpointSlices of Endpoints made by hand for a Service without a selector: readers of slices see them, too.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue, Scope};
use serde_json::{Value, json};

use super::slices::{BY, SERVICE, list, same_ports};
use crate::Result;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, items};
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// A lock of a leader election that lies in Endpoints, as it did long ago.
const LOCK: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that slices do not take over.
const NOT_MIRRORED: [&str; 2] = ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];
/// The most addresses of one slice.
const MOST: usize = 1000;

#[derive(Clone)]
struct Controller {
    world: World,
    services: Live,
    endpoints: Live,
    slices: Live,
}

/// Runs the controller.
pub async fn run(world: World) {
    let services = world.follow("v1", "Service", "services", true);
    let endpoints = world.follow("v1", "Endpoints", "endpoints", true);
    let scope = Scope { labels: Some(format!("{BY}={CONTROLLER}")), ..Scope::default() };
    let slices = world.follow_some("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true, &scope);
    for live in [&services, &endpoints, &slices] {
        live.ready().await;
    }
    let queue: Queue<Key> = Queue::default();
    wake_self(&endpoints, &queue);
    let wake = queue.clone();
    services.on_change(move |change| {
        let selects = |service: &Option<Object>| service.as_deref().map(selects);
        if selects(&change.before) != selects(&change.now)
            && let Some(service) = change.object()
        {
            wake.add(Key::of(service));
        }
    });
    let wake = queue.clone();
    slices.on_change(move |change| {
        for slice in change.before.iter().chain(&change.now) {
            if let Some(service) = slice.labels().get(SERVICE) {
                wake.add(Key::new(slice.namespace(), service));
            }
        }
    });
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, services, endpoints, slices };
    mainstay_runtime::run("endpointslice-mirroring", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

/// Returns true if pods are selected for a Service: then its slices are made from them.
fn selects(service: &DynamicObject) -> bool {
    service.at("/spec/selector").is_object()
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let of_service = |slice: &DynamicObject| slice.labels().get(SERVICE).is_some_and(|name| *name == key.name);
        let there = self.slices.matching(&key.namespace, of_service);
        let service = self.services.get(key).filter(|service| !selects(service));
        let endpoints = self.endpoints.get(key).filter(|endpoints| service.is_some() && is_mirrored(endpoints));
        let plan =
            endpoints.as_deref().map_or_else(|| Plan { delete: there.clone(), ..Plan::default() }, |endpoints| plan(endpoints, &there));
        if let Some(endpoints) = &endpoints {
            self.tell(endpoints, &plan);
        }
        for slice in &plan.create {
            self.slices.create(&key.namespace, slice).await?;
        }
        for (slice, patch) in &plan.update {
            self.slices.patch(&Key::of(slice), "", &Patch::Merge(patch.clone())).await?;
        }
        for slice in &plan.delete {
            self.slices.delete(&Key::of(slice), &Delete::uid(slice.uid())).await?;
        }
        Ok(Outcome::Done)
    }

    fn tell(&self, endpoints: &DynamicObject, plan: &Plan) {
        let (events, served) = (&self.world.events, self.endpoints.served());
        if plan.invalid > 0 {
            let text = format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", plan.invalid);
            events.record(COMPONENT, "Warning", served, endpoints, "InvalidIPAddress", text);
        }
        if plan.skipped > 0 {
            let skipped = plan.skipped + plan.invalid;
            let text = format!(
                "A max of {MOST} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            events.record(COMPONENT, "Warning", served, endpoints, "TooManyAddressesToMirror", text);
        }
    }
}

/// Returns true if slices are made of these Endpoints.
fn is_mirrored(endpoints: &DynamicObject) -> bool {
    !endpoints.deleting() && endpoints.labels().get(SKIP).is_none_or(|skip| skip != "true") && endpoints.annotation(LOCK).is_none()
}

/// The plan for the slices of Endpoints.
#[derive(Debug, Default)]
struct Plan {
    create: Vec<Value>,
    update: Vec<(Object, Value)>,
    delete: Vec<Object>,
    /// Addresses that are none.
    invalid: usize,
    /// Addresses beyond the most that one slice holds.
    skipped: usize,
}

/// The family of addresses, and the ports, of one slice.
type Place = (&'static str, Vec<String>);

/// Plans one slice for each set of ports and family of addresses; one that is there and fits is changed, the others go.
fn plan(endpoints: &DynamicObject, there: &[Object]) -> Plan {
    let mut plan = Plan::default();
    let mut unused = there.to_vec();
    let mut missing = Vec::new();
    for ((family, ports), wanted) in wanted(endpoints, &mut plan) {
        let ports: Vec<Value> = ports.iter().filter_map(|port| serde_json::from_str(port).ok()).collect();
        let fits = |slice: &Object| slice.text("/addressType") == family && same_ports(&list(slice, "ports"), &ports);
        match unused.iter().position(fits) {
            Some(at) => {
                let slice = unused.remove(at);
                let content = content(endpoints, family, &ports, &wanted);
                if differs(&slice, &content) {
                    plan.update.push((slice.clone(), patch(&slice, content)));
                }
            }
            None => missing.push(content(endpoints, family, &ports, &wanted)),
        }
    }
    for mut slice in missing {
        slice["metadata"]["generateName"] = json!(format!("{}-", endpoints.name()));
        plan.create.push(slice);
    }
    plan.delete = unused;
    plan
}

/// An address of a subset, and whether it is ready.
type Address = (Value, bool);

/// The endpoints by place. Ports that have the same addresses belong together, however the subsets say it.
fn wanted(endpoints: &DynamicObject, plan: &mut Plan) -> BTreeMap<Place, Vec<Value>> {
    // An address is told apart by what it stands for; one that is not ready anywhere is not ready.
    let mut by_port: BTreeMap<Option<String>, BTreeMap<(String, String), Address>> = BTreeMap::new();
    for subset in items(endpoints, "/subsets") {
        let part = |name: &str| subset[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let ports: Vec<Option<String>> = part("ports").iter().map(|port| Some(slice_port(port).to_string())).collect();
        let ports = if ports.is_empty() { vec![None] } else { ports };
        for (addresses, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in part(addresses) {
                let text = |pointer: &str| address.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                for port in &ports {
                    let known = by_port.entry(port.clone()).or_default().entry((text("/ip"), text("/targetRef/uid")));
                    known.and_modify(|(_, was)| *was &= ready).or_insert_with(|| (address.clone(), ready));
                }
            }
        }
    }
    let mut by_addresses: BTreeMap<String, (Vec<String>, Vec<Address>)> = BTreeMap::new();
    for (port, addresses) in by_port {
        let addresses: Vec<Address> = addresses.into_values().collect();
        let group = by_addresses.entry(json!(addresses).to_string()).or_insert_with(|| (Vec::new(), addresses));
        group.0.extend(port);
    }
    let mut places: BTreeMap<Place, Vec<Value>> = BTreeMap::new();
    for (ports, mut addresses) in by_addresses.into_values() {
        let mut added = 0;
        // Those that are ready come first: they are the last to be left out.
        addresses.sort_by_key(|(_, ready)| !ready);
        for (address, ready) in addresses {
            match endpoint(&address, ready) {
                None => plan.invalid += 1,
                Some(_) if added >= MOST => plan.skipped += 1,
                Some((family, endpoint)) => {
                    added += 1;
                    places.entry((family, ports.clone())).or_default().push(endpoint);
                }
            }
        }
    }
    places
}

fn slice_port(port: &Value) -> Value {
    let mut known = json!({"name": port["name"].as_str().unwrap_or_default(), "port": port["port"], "protocol": port["protocol"].as_str().unwrap_or("TCP")});
    if port["appProtocol"].is_string() {
        known["appProtocol"] = port["appProtocol"].clone();
    }
    known
}

fn endpoint(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip: IpAddr = address["ip"].as_str()?.parse().ok()?;
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    for field in ["targetRef", "nodeName", "hostname"] {
        if !address[field].is_null() {
            endpoint[field] = address[field].clone();
        }
    }
    Some((if ip.is_ipv4() { "IPv4" } else { "IPv6" }, endpoint))
}

/// A slice as it should be, but for its name.
fn content(endpoints: &DynamicObject, family: &str, ports: &[Value], wanted: &[Value]) -> Value {
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE.to_owned(), endpoints.name().to_owned());
    labels.insert(BY.to_owned(), CONTROLLER.to_owned());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_MIRRORED.contains(&key.as_str()));
    json!({
        "metadata": {
            "namespace": endpoints.namespace(), "labels": labels, "annotations": annotations,
            "ownerReferences": [controller_reference("v1", "Endpoints", endpoints)],
        },
        "addressType": family, "ports": ports, "endpoints": wanted,
    })
}

fn differs(slice: &DynamicObject, content: &Value) -> bool {
    let annotations = slice.metadata.annotations.clone().unwrap_or_default();
    slice.at("/endpoints") != &content["endpoints"]
        || json!(slice.labels()) != content["metadata"]["labels"]
        || json!(annotations) != content["metadata"]["annotations"]
        || slice.metadata.owner_references.iter().flatten().all(|owner| content["metadata"]["ownerReferences"][0]["uid"] != owner.uid)
}

/// The change of a slice: labels and annotations that are gone go.
fn patch(slice: &DynamicObject, mut content: Value) -> Value {
    let annotations = slice.metadata.annotations.clone().unwrap_or_default();
    for (field, known) in [("labels", slice.labels()), ("annotations", &annotations)] {
        let wanted = &mut content["metadata"][field];
        for gone in known.keys().filter(|key| wanted.get(key.as_str()).is_none()).cloned().collect::<Vec<_>>() {
            wanted[gone] = Value::Null;
        }
    }
    content["metadata"]["uid"] = json!(slice.uid());
    if let Some(map) = content.as_object_mut() {
        map.remove("addressType");
    }
    content
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    /// KAPI-WL-01: ports with the same addresses share a slice, families do not; what is nowhere ready is not ready; labels follow.
    #[test]
    fn subsets_become_slices() {
        let endpoints = read(json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "db", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "1"}},
            "subsets": [
                {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}, {"ip": "2001:db8::1"}, {"ip": "nonsense"}], "ports": [{"name": "p", "port": 1}]},
                {"notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "p", "port": 1}]},
                {"addresses": [{"ip": "192.0.2.3", "hostname": "h", "nodeName": "node"}], "ports": [{"name": "q", "port": 2, "protocol": "UDP"}]}]}));
        let plan = plan(&endpoints, &[]);
        assert_eq!((plan.create.len(), plan.invalid, plan.skipped), (3, 1, 0));
        let of = |family: &str, port: u32| {
            plan.create.iter().find(|slice| slice["addressType"] == family && slice["ports"][0]["port"] == port).unwrap()
        };
        let first = of("IPv4", 1);
        assert_eq!(
            first["endpoints"],
            json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}, {"addresses": ["192.0.2.2"], "conditions": {"ready": false}}])
        );
        assert_eq!(first["metadata"]["labels"], json!({"a": "b", SERVICE: "db", BY: CONTROLLER}));
        assert_eq!(first["metadata"]["annotations"], json!({"kept": "1"}));
        assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
        assert_eq!(of("IPv6", 1)["endpoints"][0]["addresses"], json!(["2001:db8::1"]));
        let last = &of("IPv4", 2)["endpoints"][0];
        assert_eq!((last["hostname"].as_str(), last["nodeName"].as_str()), (Some("h"), Some("node")));
    }

    /// KAPI-WL-01: what is right stays; a change of addresses changes the slice that is there; ports that are gone take theirs along.
    #[test]
    fn slices_follow() {
        let endpoints = |ip: &str, port: u32| {
            read(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "namespace": "n", "uid": "u"},
                "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": port}]}]}))
        };
        let mut made = plan(&endpoints("192.0.2.1", 1), &[]).create.remove(0);
        made["apiVersion"] = json!("discovery.k8s.io/v1");
        made["kind"] = json!("EndpointSlice");
        made["metadata"]["name"] = json!("db-x");
        made["metadata"]["uid"] = json!("s");
        let there = [Object::new(read(made))];
        let same = plan(&endpoints("192.0.2.1", 1), &there);
        assert!(same.create.is_empty() && same.update.is_empty() && same.delete.is_empty());
        let moved = plan(&endpoints("192.0.2.9", 1), &there);
        assert_eq!((moved.create.len(), moved.update.len(), moved.delete.len()), (0, 1, 0));
        assert_eq!(moved.update[0].1["endpoints"][0]["addresses"], json!(["192.0.2.9"]));
        let other = plan(&endpoints("192.0.2.1", 2), &there);
        assert_eq!((other.create.len(), other.update.len(), other.delete.len()), (1, 0, 1));
    }
}
