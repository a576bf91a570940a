//! Endpoints and EndpointSlices of Services that select pods.

mod mirror;
mod slices;
mod subsets;

use kube::api::DynamicObject;
use mainstay_runtime::{Change, Key, Outcome, Queue, Scope};
use serde_json::{Map, Value, json};

use self::slices::{BY, Group, SERVICE};
use crate::Result;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, controller_reference, items};
use crate::pod;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const CONTROLLER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Clone)]
struct Controller {
    world: World,
    services: Live,
    slices: Live,
    endpoints: Live,
}

/// Runs the controllers: of Services that select pods, and of Endpoints made by hand.
pub async fn run(world: World) {
    tokio::join!(of_pods(world.clone()), mirror::run(world));
}

async fn of_pods(world: World) {
    let services = world.follow("v1", "Service", "services", true);
    let scope = Scope { labels: Some(format!("{BY}={CONTROLLER}")), ..Scope::default() };
    let slices = world.follow_some("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true, &scope);
    let endpoints = world.follow("v1", "Endpoints", "endpoints", true);
    let queue: Queue<Key> = Queue::default();
    for live in [&services, &slices, &endpoints, &world.pods, &world.nodes] {
        live.ready().await;
    }
    wake_self(&services, &queue);
    wake_self(&endpoints, &queue);
    let (wake, all) = (queue.clone(), services.clone());
    world.pods.on_change(move |change| {
        if !concerns(change) {
            return;
        }
        for pod in change.before.iter().chain(&change.now) {
            for service in all.matching(pod.namespace(), |service| covers(service, pod)) {
                wake.add(Key::of(&service));
            }
        }
    });
    let (wake, all) = (queue.clone(), services.clone());
    world.nodes.on_change(move |change| {
        let zone = |node: &Option<Object>| node.as_ref().map(|node| node.labels().get(ZONE).cloned());
        if zone(&change.before) != zone(&change.now) {
            all.all().iter().for_each(|service| wake.add(Key::of(service)));
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

/// Returns true if a change of a pod affects endpoints.
fn concerns(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let facts = |pod: &Object| (pod.deleting(), pod::ready(pod), pod::finished(pod));
    let texts = ["/status/podIP", "/spec/nodeName", "/spec/hostname", "/spec/subdomain"];
    facts(before) != facts(now) || before.labels() != now.labels() || texts.iter().any(|at| before.at(at) != now.at(at))
}

/// Returns true if a Service selects a pod. A Service without a selector selects none.
fn covers(service: &DynamicObject, pod: &DynamicObject) -> bool {
    let Some(selector) = service.at("/spec/selector").as_object().filter(|selector| !selector.is_empty()) else { return false };
    selector.iter().all(|(key, value)| pod.labels().get(key).map(String::as_str) == value.as_str())
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(service) = self.services.get(key) else { return self.forget(key).await };
        // Without a selector, the endpoints are managed elsewhere.
        if service.deleting()
            || service.at("/spec/selector").as_object().is_none_or(Map::is_empty)
            || service.text("/spec/type") == "ExternalName"
        {
            return Ok(Outcome::Done);
        }
        let addressed = |pod: &DynamicObject| covers(&service, pod) && !pod.text("/status/podIP").is_empty() && !pod::finished(pod);
        let pods = self.world.pods.matching(&key.namespace, addressed);
        self.write_slices(&service, &pods).await?;
        self.write_endpoints(&service, &pods).await?;
        Ok(Outcome::Done)
    }

    /// Deletes the Endpoints of a Service: they have no owner, only the name. The slices are its dependents, and go with it.
    async fn forget(&self, key: &Key) -> Result<Outcome> {
        if let Some(endpoints) =
            self.endpoints.get(key).filter(|endpoints| endpoints.labels().get(MANAGED).is_some_and(|by| by == ENDPOINTS))
        {
            self.endpoints.delete(key, &Delete::uid(endpoints.uid())).await?;
        }
        Ok(Outcome::Done)
    }

    async fn write_slices(&self, service: &DynamicObject, pods: &[Object]) -> Result<()> {
        let labels = labels(service, &[(SERVICE, service.name()), (BY, CONTROLLER)]);
        let plan = slices::plan(&self.slices.owned_by(service.uid()), self.groups(service, pods), &labels);
        for (slice, content) in &plan.update {
            let mut patch = content.clone();
            patch["metadata"] = json!({"uid": slice.uid(), "labels": relabelled(slice, &labels)});
            self.slices.patch(&Key::of(slice), "", &Patch::Merge(patch)).await?;
        }
        for mut slice in plan.create {
            slice["addressType"] = json!("IPv4");
            slice["metadata"] = json!({
                "generateName": format!("{}-", service.name()),
                "namespace": service.namespace(),
                "labels": labels,
                "ownerReferences": [controller_reference("v1", "Service", service)],
            });
            self.slices.create(service.namespace(), &slice).await?;
        }
        for slice in plan.delete {
            self.slices.delete(&Key::of(&slice), &Delete::uid(slice.uid())).await?;
        }
        Ok(())
    }

    /// Groups the endpoints by their ports: a named port may have different numbers on different pods.
    fn groups(&self, service: &DynamicObject, pods: &[Object]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for pod in pods {
            let node = self.world.nodes.get(&Key::new("", pod.text("/spec/nodeName")));
            // A pod on a missing node cannot be reached; once the node appears, its pods are checked again.
            if node.is_none() && !publishes(service) {
                continue;
            }
            let (ports, endpoint) = (ports(service, pod), endpoint(service, pod, node.as_deref()));
            match groups.iter_mut().find(|group| group.ports == ports) {
                Some(group) => group.endpoints.push(endpoint),
                None => groups.push(Group { ports, endpoints: vec![endpoint] }),
            }
        }
        groups
    }

    async fn write_endpoints(&self, service: &DynamicObject, pods: &[Object]) -> Result<()> {
        let key = Key::of(service);
        let wanted = subsets::subsets(service, pods);
        let labels = labels(service, &[(MANAGED, ENDPOINTS)]);
        let truncated = wanted.truncated.then_some("truncated");
        match self.endpoints.get(&key) {
            Some(present)
                if present.data.get("subsets").filter(|value| !value.is_null()).unwrap_or(&json!([])) == &wanted.list
                    && json!(present.labels()) == labels
                    && present.annotation(OVER_CAPACITY) == truncated => {}
            Some(present) => {
                let labels = relabelled(&present, &labels);
                let meta = json!({"uid": present.uid(), "labels": labels, "annotations": {OVER_CAPACITY: truncated}});
                let patch = Patch::Merge(json!({"metadata": meta, "subsets": wanted.list}));
                self.endpoints.patch(&key, "", &patch).await?;
            }
            None => {
                let mut meta = json!({"name": key.name, "namespace": key.namespace, "labels": labels});
                if let Some(truncated) = truncated {
                    meta["annotations"] = json!({OVER_CAPACITY: truncated});
                }
                self.endpoints.create(&key.namespace, &json!({"metadata": meta, "subsets": wanted.list})).await?;
            }
        }
        Ok(())
    }
}

/// Returns the labels of a Service's objects: its own, a mark if it is headless, and the managing controller.
fn labels(service: &DynamicObject, own: &[(&str, &str)]) -> Value {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.extend(own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    json!(labels)
}

/// Returns a merge patch that leaves exactly these labels.
fn relabelled(object: &DynamicObject, labels: &Value) -> Value {
    let mut patch = labels.clone();
    for gone in object.labels().keys().filter(|key| labels.get(key.as_str()).is_none()) {
        patch[gone] = Value::Null;
    }
    patch
}

fn is_headless(service: &DynamicObject) -> bool {
    service.text("/spec/clusterIP") == "None"
}

/// Returns true if a Service has no ports at all, as headless ones may.
fn is_bare(service: &DynamicObject) -> bool {
    is_headless(service) && items(service, "/spec/ports").next().is_none()
}

fn publishes(service: &DynamicObject) -> bool {
    service.at("/spec/publishNotReadyAddresses") == &json!(true)
}

fn reference(pod: &DynamicObject) -> Value {
    json!({"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()})
}

/// Returns the name that the Service gives a pod in DNS, if the pod asks for one.
fn hostname<'a>(service: &DynamicObject, pod: &'a DynamicObject) -> Option<&'a str> {
    let hostname = pod.text("/spec/hostname");
    (!hostname.is_empty() && pod.text("/spec/subdomain") == service.name()).then_some(hostname)
}

fn endpoint(service: &DynamicObject, pod: &DynamicObject, node: Option<&DynamicObject>) -> Value {
    let serving = pod::ready(pod);
    let mut endpoint = json!({
        "addresses": [pod.text("/status/podIP")],
        "conditions": {"ready": (serving && !pod.deleting()) || publishes(service), "serving": serving, "terminating": pod.deleting()},
        "targetRef": reference(pod),
    });
    let zone = node.and_then(|node| node.labels().get(ZONE)).map(String::as_str).unwrap_or_default();
    let texts = [("nodeName", pod.text("/spec/nodeName")), ("zone", zone), ("hostname", hostname(service, pod).unwrap_or_default())];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        endpoint[name] = json!(text);
    }
    endpoint
}

/// Returns the ports of a Service as numbers on a pod; a port whose name no container has is left out.
fn ports(service: &DynamicObject, pod: &DynamicObject) -> Vec<Value> {
    let named = |name: &str, protocol: &str| {
        let sidecars = items(pod, "/spec/initContainers").filter(|container| container["restartPolicy"] == "Always");
        let mut ports =
            items(pod, "/spec/containers").chain(sidecars).flat_map(|container| container["ports"].as_array().into_iter().flatten());
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
