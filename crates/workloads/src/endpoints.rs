//! Endpoints and EndpointSlices of Services that select pods.

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue, Scope};
use serde_json::{Map, Value, json};

use crate::Result;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, items, selects};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const SERVICE: &str = "kubernetes.io/service-name";
const BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Endpoints of one slice.
const SLICE: usize = 100;

#[derive(Clone)]
struct Controller {
    world: World,
    services: Live,
    slices: Live,
    endpoints: Live,
}

/// Runs the controller.
pub async fn run(world: World) {
    let services = world.follow("v1", "Service", "services", true);
    let scope = Scope { labels: Some(format!("{BY}={CONTROLLER}")), ..Scope::default() };
    let slices = world.follow_some("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true, &scope);
    let endpoints = world.follow("v1", "Endpoints", "endpoints", true);
    let queue: Queue<Key> = Queue::default();
    for live in [&services, &slices, &endpoints, &world.pods] {
        live.ready().await;
    }
    wake_self(&services, &queue);
    wake_self(&endpoints, &queue);
    let (wake, all) = (queue.clone(), services.clone());
    world.pods.on_change(move |change| {
        for pod in change.before.iter().chain(&change.now) {
            for service in all.in_namespace(pod.namespace()).iter().filter(|service| covers(service, pod)) {
                wake.add(Key::of(service));
            }
        }
    });
    let wake = queue.clone();
    slices.on_change(move |change| {
        if let Some((slice, service)) = change.object().and_then(|slice| Some((slice, slice.labels().get(SERVICE)?))) {
            wake.add(Key::new(slice.namespace(), service));
        }
    });
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, services, slices, endpoints };
    mainstay_runtime::run("endpoints", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

fn covers(service: &DynamicObject, pod: &DynamicObject) -> bool {
    selects(&json!({"matchLabels": service.at("/spec/selector")}), pod.labels())
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(service) = self.services.get(key) else { return self.forget(key).await };
        // Without a selector somebody else says what the endpoints are.
        if service.deleting()
            || service.at("/spec/selector").as_object().is_none_or(Map::is_empty)
            || service.text("/spec/type") == "ExternalName"
        {
            return Ok(Outcome::Done);
        }
        let addressed = |pod: &Object| covers(&service, pod) && !pod.text("/status/podIP").is_empty() && !pod::finished(pod);
        let pods: Vec<Object> = self.world.pods.in_namespace(&key.namespace).into_iter().filter(addressed).collect();
        self.write_slices(&service, &pods).await?;
        self.write_endpoints(&service, &pods).await?;
        Ok(Outcome::Done)
    }

    /// The slices go with the Service as its dependents; Endpoints have no owner, only the name.
    async fn forget(&self, key: &Key) -> Result<Outcome> {
        if let Some(endpoints) =
            self.endpoints.get(key).filter(|endpoints| endpoints.labels().get(MANAGED).is_some_and(|by| by == ENDPOINTS))
        {
            self.endpoints.delete(key, &Delete::uid(endpoints.uid())).await?;
        }
        Ok(Outcome::Done)
    }

    async fn write_slices(&self, service: &DynamicObject, pods: &[Object]) -> Result<()> {
        let there = self.slices.owned_by(service.uid());
        let mut wanted: Vec<Value> = Vec::new();
        // Ports by name may be other numbers on other pods: each set of numbers has slices of its own.
        let mut groups: Vec<(Vec<Value>, Vec<&Object>)> = Vec::new();
        for pod in pods {
            let ports = ports(service, pod);
            match groups.iter_mut().find(|(known, _)| *known == ports) {
                Some((_, pods)) => pods.push(pod),
                None => groups.push((ports, vec![pod])),
            }
        }
        for (ports, pods) in &groups {
            wanted.extend(
                pods.chunks(SLICE)
                    .map(|pods| json!({"endpoints": pods.iter().map(|pod| endpoint(service, pod)).collect::<Vec<_>>(), "ports": ports})),
            );
        }
        if wanted.is_empty() {
            wanted.push(json!({"endpoints": [], "ports": []}));
        }
        let listed =
            |slice: &Object, part: &str| slice.data.get(part).filter(|value| !value.is_null()).cloned().unwrap_or_else(|| json!([]));
        for (index, wanted) in wanted.iter().enumerate() {
            match there.get(index) {
                Some(slice) if listed(slice, "endpoints") == wanted["endpoints"] && listed(slice, "ports") == wanted["ports"] => {}
                Some(slice) => {
                    let mut patch = wanted.clone();
                    patch["metadata"] = json!({"uid": slice.uid()});
                    self.slices.patch(&Key::of(slice), "", &Patch::Merge(patch)).await?;
                }
                None => {
                    let mut slice = wanted.clone();
                    slice["addressType"] = json!("IPv4");
                    slice["metadata"] = json!({
                        "generateName": format!("{}-", service.name()),
                        "namespace": service.namespace(),
                        "labels": labels(service, &[(SERVICE, service.name()), (BY, CONTROLLER)]),
                        "ownerReferences": [controller_reference("v1", "Service", service)],
                    });
                    self.slices.create(service.namespace(), &slice).await?;
                }
            }
        }
        for slice in there.iter().skip(wanted.len()) {
            self.slices.delete(&Key::of(slice), &Delete::uid(slice.uid())).await?;
        }
        Ok(())
    }

    async fn write_endpoints(&self, service: &DynamicObject, pods: &[Object]) -> Result<()> {
        let key = Key::of(service);
        let mut subsets: Vec<Value> = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.deleting() || publishes(service)) {
            let ports: Vec<Value> = ports(service, pod);
            let address = json!({"ip": pod.text("/status/podIP"), "nodeName": pod.text("/spec/nodeName"), "targetRef": reference(pod)});
            let place = if pod::ready(pod) || publishes(service) { "addresses" } else { "notReadyAddresses" };
            let index = subsets.iter().position(|subset| subset["ports"] == json!(ports)).unwrap_or_else(|| {
                subsets.push(json!({"ports": ports}));
                subsets.len() - 1
            });
            match subsets[index][place].as_array_mut() {
                Some(list) => list.push(address),
                None => subsets[index][place] = json!([address]),
            }
        }
        let subsets = Value::Array(subsets);
        match self.endpoints.get(&key) {
            Some(present) if present.data.get("subsets").filter(|value| !value.is_null()).unwrap_or(&json!([])) == &subsets => {}
            Some(present) => {
                let patch = Patch::Merge(json!({"metadata": {"uid": present.uid()}, "subsets": subsets}));
                self.endpoints.patch(&key, "", &patch).await?;
            }
            None => {
                let labels = labels(service, &[(MANAGED, ENDPOINTS)]);
                let body = json!({"metadata": {"name": key.name, "namespace": key.namespace, "labels": labels}, "subsets": subsets});
                self.endpoints.create(&key.namespace, &body).await?;
            }
        }
        Ok(())
    }
}

const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS: &str = "endpoint-controller";

/// The labels of what is made for a Service: its own, a mark where it is headless, and what says who made it.
fn labels(service: &DynamicObject, own: &[(&str, &str)]) -> Value {
    let mut labels = json!(service.labels());
    if service.text("/spec/clusterIP") == "None" {
        labels[HEADLESS] = json!("");
    }
    for (key, value) in own {
        labels[*key] = json!(value);
    }
    labels
}

fn publishes(service: &DynamicObject) -> bool {
    service.at("/spec/publishNotReadyAddresses") == &json!(true)
}

fn reference(pod: &DynamicObject) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

fn endpoint(service: &DynamicObject, pod: &DynamicObject) -> Value {
    let serving = pod::ready(pod);
    let mut endpoint = json!({
        "addresses": [pod.text("/status/podIP")],
        "conditions": {"ready": (serving && !pod.deleting()) || publishes(service), "serving": serving, "terminating": pod.deleting()},
        "targetRef": reference(pod),
        "nodeName": pod.text("/spec/nodeName"),
    });
    if !pod.text("/spec/hostname").is_empty() && pod.text("/spec/subdomain") == service.name() {
        endpoint["hostname"] = json!(pod.text("/spec/hostname"));
    }
    endpoint
}

/// The ports of a Service as numbers on a pod; a name that no container has leaves its port out.
fn ports(service: &DynamicObject, pod: &DynamicObject) -> Vec<Value> {
    let named = |name: &str, protocol: &str| {
        let all = items(pod, "/spec/containers").chain(items(pod, "/spec/initContainers"));
        let mut ports = all.flat_map(|container| container["ports"].as_array().into_iter().flatten());
        ports
            .find(|port| port["name"] == name && port["protocol"].as_str().unwrap_or("TCP") == protocol)
            .map(|port| port["containerPort"].clone())
    };
    items(service, "/spec/ports")
        .filter_map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let number = match &port["targetPort"] {
                Value::String(name) => named(name, protocol)?,
                Value::Null => port["port"].clone(),
                number => number.clone(),
            };
            let mut wanted = json!({"port": number, "protocol": protocol, "name": port["name"].as_str().unwrap_or_default()});
            if let Some(application) = port["appProtocol"].as_str() {
                wanted["appProtocol"] = json!(application);
            }
            Some(wanted)
        })
        .collect()
}
