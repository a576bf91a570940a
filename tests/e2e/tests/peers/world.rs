//! The objects of a cluster, without random and momentary parts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use mainstay_e2e::Cluster;
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::pair::Pair;

/// The kinds that OLM writes, or whose objects it makes.
const KINDS: &[&str] = &[
    "catalogsources",
    "subscriptions.operators.coreos.com",
    "installplans",
    "clusterserviceversions",
    "operatorgroups",
    "operatorconditions",
    "operators",
    "olmconfigs",
    "namespaces",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "deployments",
    "services",
    "configmaps",
    "secrets",
    "customresourcedefinitions",
    "apiservices",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "priorityclasses",
    "events",
];

static UUID: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
// Its name is a hash of the pods, which have the hash of a certificate.
static REPLICA_SET: LazyLock<Regex> = LazyLock::new(|| pattern(r#"ReplicaSet "[^"]+""#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

/// The objects of a cluster by `Kind namespace/name`, normalised.
pub struct World(BTreeMap<String, Value>);

impl World {
    /// Reads everything at once.
    pub fn of(cluster: &Cluster) -> Self {
        let list = cluster.get(&[&KINDS.join(","), "-A"]).unwrap_or_default();
        let objects: Vec<Value> = list["items"].as_array().cloned().unwrap_or_default();
        let names = Names::of(&objects);
        let mut world = BTreeMap::new();
        for mut object in objects {
            if object["metadata"]["name"] == "kube-root-ca.crt" {
                continue;
            }
            if object["kind"] == "Event" {
                names.write_into(&mut object);
                let (key, event) = event(&object);
                if let Some(key) = key {
                    world.insert(key, event);
                }
                continue;
            }
            tidy(&mut object);
            history(&mut object);
            copy(&mut object);
            names.write_into(&mut object);
            components(&mut object);
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            world.insert(format!("{} {}/{}", object["kind"].as_str().unwrap_or_default(), text("namespace"), text("name")), object);
        }
        Self(world)
    }
}

/// The name of an event by what it says, if OLM could have said it.
fn event(event: &Value) -> (Option<String>, Value) {
    let of = &event["involvedObject"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = of["apiVersion"].as_str().is_some_and(|version| version.starts_with("operators.coreos.com/"));
    let key = format!(
        "Event {} {}/{} {} {}",
        text(&of["kind"]),
        text(&of["namespace"]),
        text(&of["name"]),
        text(&event["reason"]),
        text(&event["message"])
    );
    (ours.then_some(key), json!({"type": event["type"]}))
}

/// Removes what the API and the controllers count.
fn tidy(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
        // Upstream joins the owners of a ServiceAccount in the order of a Go map.
        if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            owners.sort_by_key(|owner| format!("{} {}", owner["kind"], owner["name"]));
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    if (object["kind"] == "Deployment" || object["kind"] == "CustomResourceDefinition")
        && let Some(status) = object["status"].as_object_mut()
    {
        status.remove("observedGeneration");
    }
    let pods = &object["spec"]["template"]["metadata"]["annotations"];
    if pods["olmcahash"].is_string() {
        object["metadata"]["labels"]["olm.deployment-spec-hash"] = "<hash>".into();
    }
    if object["kind"] == "Service" {
        for field in ["clusterIP", "clusterIPs"] {
            object["spec"].as_object_mut().map(|spec| spec.remove(field));
        }
    }
    if object["kind"] == "Secret" {
        for (_, value) in object["data"].as_object_mut().into_iter().flatten() {
            *value = "<secret>".into();
        }
    }
    values(object);
}

/// Leaves of a CSV's history what it came to: how many steps were seen on the way is a matter of time.
fn history(object: &mut Value) {
    if object["kind"] == "ClusterServiceVersion"
        && let Some(conditions) = object["status"]["conditions"].as_array_mut()
    {
        conditions.drain(..conditions.len().saturating_sub(1));
    }
}

/// Gives the components of an Operator their names, so that one that is missing does not shift the others.
fn components(object: &mut Value) {
    let Some(refs) = object["status"]["components"]["refs"].as_array() else { return };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |each: &Value| format!("{} {}/{}", text(&each["kind"]), text(&each["namespace"]), text(&each["name"]));
    object["status"]["components"]["refs"] = refs.iter().map(|each| (name(each), each.clone())).collect::<serde_json::Map<_, _>>().into();
}

/// Leaves of a copied CSV what says that it is one: ours is a summary, upstream's is whole.
fn copy(object: &mut Value) {
    if object["metadata"]["labels"]["olm.copiedFrom"].is_string() {
        let status = ["phase", "reason", "message"].map(|field| (field.to_owned(), object["status"][field].clone()));
        let metadata =
            ["name", "namespace", "labels", "ownerReferences"].map(|field| (field.to_owned(), object["metadata"][field].clone()));
        *object = json!({"kind": object["kind"]});
        object["metadata"] = Value::Object(metadata.into_iter().collect());
        object["status"] = Value::Object(status.into_iter().collect());
    }
}

/// Replaces times, certificates, versions; reads JSON in texts.
fn values(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match key.as_str() {
                    "resourceVersion" if value.is_string() => *value = "<rv>".into(),
                    "caBundle" | "olmcahash" | "OLMCAHash" if value.is_string() => *value = "<certificate>".into(),
                    "manifest" if value.is_string() => {
                        if let Some(mut read) = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
                            values(&mut read);
                            *value = read;
                        }
                    }
                    _ => values(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(values),
        Value::String(text) => {
            if REPLICA_SET.is_match(text) {
                *text = REPLICA_SET.replace_all(text, "ReplicaSet <name>").into_owned();
            }
            if TIME.is_match(text) {
                *text = TIME.replace_all(text, "<time>").into_owned();
            }
        }
        _ => {}
    }
}

/// Names that are random, and uids.
struct Names {
    uids: BTreeMap<String, String>,
    generated: Vec<(Regex, String)>,
}

impl Names {
    fn of(objects: &[Value]) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut generated: Vec<(String, String, u64, String)> = objects
            .iter()
            .filter(|object| object["metadata"]["generateName"].is_string())
            .map(|object| {
                let metadata = &object["metadata"];
                let generation = object["spec"]["generation"].as_u64().unwrap_or_default();
                (
                    format!("{} {}", text(&metadata["namespace"]), text(&metadata["generateName"])),
                    text(&metadata["creationTimestamp"]),
                    generation,
                    text(&metadata["name"]),
                )
            })
            .collect();
        generated.sort();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let generated: Vec<(String, String)> = generated
            .into_iter()
            .map(|(prefix, _, _, name)| {
                let count = counts.entry(prefix.clone()).or_default();
                *count += 1;
                let prefix = prefix.split_once(' ').map_or(prefix.as_str(), |(_, prefix)| prefix).to_owned();
                (name, format!("{prefix}<{count}>"))
            })
            .collect();
        let uids = objects.iter().map(|object| {
            let name = text(&object["metadata"]["name"]);
            let name = generated.iter().find(|(random, _)| *random == name).map_or(name.as_str(), |(_, name)| name).to_owned();
            (text(&object["metadata"]["uid"]), format!("<uid of {} {name}>", text(&object["kind"])))
        });
        let uids = uids.collect();
        let generated = generated.into_iter().map(|(name, stable)| (pattern(&format!(r"\b{}\b", regex::escape(&name))), stable)).collect();
        Self { uids, generated }
    }

    fn write_into(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let keys: Vec<String> = fields.keys().filter(|key| UUID.is_match(key)).cloned().collect();
                for key in keys {
                    if let Some(value) = fields.remove(&key) {
                        fields.insert(self.with_names(&key), value);
                    }
                }
                fields.values_mut().for_each(|value| self.write_into(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|value| self.write_into(value)),
            Value::String(text) => {
                for (random, stable) in &self.generated {
                    if random.is_match(text) {
                        *text = random.replace_all(text, regex::NoExpand(stable)).into_owned();
                    }
                }
                if UUID.is_match(text) {
                    *text = self.with_names(text);
                }
            }
            _ => {}
        }
    }

    /// A text with names in the place of uids.
    fn with_names(&self, text: &str) -> String {
        let named = |found: &Captures<'_>| self.uids.get(&found[0]).cloned().unwrap_or_else(|| "<uid>".to_owned());
        UUID.replace_all(text, named).into_owned()
    }
}

/// The objects of both clusters before the scenario began, where they differ.
pub struct Baseline(BTreeSet<String>);

impl Baseline {
    /// Compares both as they are now.
    pub fn of(pair: &Pair) -> Self {
        let [ours, upstream] = pair.both().map(|(_, cluster)| World::of(cluster).0);
        let names: BTreeSet<String> = ours.keys().chain(upstream.keys()).cloned().collect();
        Self(names.into_iter().filter(|name| ours.get(name) != upstream.get(name)).collect())
    }

    /// A world without these.
    pub fn without(&self, world: &World) -> BTreeMap<String, Value> {
        world.0.iter().filter(|(name, _)| !self.0.contains(*name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}
