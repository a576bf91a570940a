//! What a real kube-apiserver (v1.36.2 emulating 1.34, the release of the shared transcripts) said to twenty thousand objects of ours: a good object of each kind, and what becomes of it when one or two
//! of its fields are changed. `data/validation.json.gz` holds the objects, the changes and the causes of the refusals.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use mainstay_kinds::{
    AllocationError, Allocator, Context, Gvk, Requester, allocate_service, as_given, default, prepare_create, prepare_update, registry,
    validate_create, validate_update,
};
use serde_json::{Value, json};

fn context() -> Context {
    Context { now: jiff::Timestamp::UNIX_EPOCH, requester: Requester { username: "kube-replay".into(), ..Requester::default() } }
}

fn recorded() -> Value {
    mainstay_testing::data::own_json(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/validation.json.gz"))
}

/// The object with its changes: `[path, value]` sets, `[path]` removes. A change of what is not there changes nothing.
fn changed(base: &Value, changes: &Value) -> Value {
    let mut object = base.clone();
    for change in changes.as_array().unwrap() {
        let path = format!("/{}", change[0].as_str().unwrap());
        let (parent, last) = path.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent), change.get(1)) {
            (Some(Value::Object(map)), Some(value)) => {
                map.insert(last, value.clone());
            }
            (Some(Value::Object(map)), None) => {
                map.remove(&last);
            }
            (Some(Value::Array(items)), Some(value)) => {
                if let Some(item) = last.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
                    *item = value.clone();
                }
            }
            _ => {}
        }
    }
    object
}

fn causes(errors: &[mainstay_schema::field::Error]) -> Vec<Value> {
    errors.iter().map(|error| json!([error.reason(), error.body(), error.field.to_string()])).collect()
}

fn complete(gvk: &Gvk, mut object: Value) -> Value {
    default(gvk, &mut object);
    let namespaced = registry().resource_of_kind(gvk).is_some_and(|resource| resource.namespaced);
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    // What the API does before kinds are asked: whoever is of the whole cluster has no namespace.
    if !namespaced {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    } else if object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("default");
    }
    // And what its admission gives to pods.
    if (gvk.group.as_str(), gvk.kind.as_str()) == ("", "Pod") {
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        for (field, given) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
            if object["spec"].get(field).is_none() {
                object["spec"][field] = given;
            }
        }
    }
    object
}

/// The identity of the recorded Job, which its findings show.
const UID: &str = "32a21002-a405-4abf-bf99-1ed74bfe8219";

/// Kubernetes walks through maps in any order: findings about entries of one map that follow each other are brought into one.
fn in_any_order_of_maps(causes: &[Value]) -> Vec<Value> {
    let map_of = |cause: &Value| {
        let field = cause[2].as_str().unwrap().to_owned();
        match field.rfind('[').filter(|_| field.ends_with(']')) {
            Some(at) if field[at + 1..field.len() - 1].parse::<usize>().is_err() => field[..at].to_owned(),
            _ => field,
        }
    };
    let mut sorted = causes.to_vec();
    sorted.chunk_by_mut(|one, other| map_of(one) == map_of(other)).for_each(|run| run.sort_by_key(ToString::to_string));
    sorted
}

/// Gives every Service the address of the recorded one, which findings show, and port after port.
struct Pools(u16);

impl Allocator for Pools {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, AllocationError> {
        Ok(wanted.unwrap_or("10.96.37.243").to_owned())
    }

    fn node_port(&mut self, wanted: Option<u16>) -> Result<u16, AllocationError> {
        self.0 += 1;
        Ok(wanted.unwrap_or(self.0))
    }
}

/// The base as it was stored.
fn stored(gvk: &Gvk, base: &Value) -> Value {
    let mut object = created(gvk, base.clone());
    if gvk.kind == "Service" {
        allocate_service(&mut object, None, &mut Pools(30000)).unwrap();
    }
    object
}

fn created(gvk: &Gvk, object: Value) -> Value {
    let mut object = complete(gvk, object);
    if object["metadata"]["name"].as_str().unwrap_or_default().is_empty() && object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = json!(format!("{}zzzzz", object["metadata"]["generateName"].as_str().unwrap()));
    }
    object["metadata"]["uid"] = json!(UID);
    object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    prepare_create(gvk, &mut object, &context());
    object
}

fn updated(gvk: &Gvk, object: Value, old: &Value) -> Value {
    let mut object = complete(gvk, object);
    for field in ["uid", "creationTimestamp"] {
        object["metadata"][field] = old["metadata"][field].clone();
    }
    prepare_update(gvk, &mut object, old, None, &context());
    object
}

/// KAPI-REST-04, KAPI-REST-07, KAPI-REST-08: built-in kinds are refused for the reasons, with the words and in the order of Kubernetes 1.34;
/// `data/open.txt` counts what is not yet so.
#[test]
fn objects_are_refused_as_recorded() {
    let recorded = recorded();
    let mut differing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut total: BTreeMap<String, usize> = BTreeMap::new();
    for case in recorded["cases"].as_array().unwrap() {
        let (name, method) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        let base = &recorded["bases"][name];
        let gvk = Gvk::of(base["apiVersion"].as_str().unwrap(), base["kind"].as_str().unwrap());
        let object = changed(base, &case[2]);
        *total.entry(name.to_owned()).or_default() += 1;
        let ours = if method == "POST" {
            let new = created(&gvk, object.clone());
            causes(&as_given(&new, Some(&object), |new| validate_create(&gvk, new)))
        } else {
            let old = stored(&gvk, base);
            let new = updated(&gvk, object.clone(), &old);
            causes(&as_given(&new, Some(&object), |new| validate_update(&gvk, new, &old, None)))
        };
        let wanted = case[3].as_array().unwrap();
        if ours != *wanted && in_any_order_of_maps(&ours) != in_any_order_of_maps(wanted) {
            let show = |list: &[Value], sign: &str, other: &[Value]| {
                let missing = list.iter().filter(|cause| !other.contains(cause));
                missing
                    .map(|cause| format!("\n    {sign} {}: {}", cause[2].as_str().unwrap(), cause[1].as_str().unwrap()))
                    .collect::<Vec<_>>()
                    .concat()
            };
            let mut text = format!("{name} {method} {}", case[2]);
            text.push_str(&show(wanted, "-", &ours));
            text.push_str(&show(&ours, "+", wanted));
            if text.lines().count() == 1 {
                text.extend([format!("\n    order: {}\n    ours:  {}", case[3], json!(ours))]);
            }
            differing.entry(name.to_owned()).or_default().push(text);
        }
    }
    if let Ok(path) = std::env::var("MAINSTAY_DIFFERENCES") {
        std::fs::write(path, differing.values().flatten().map(|text| format!("{text}\n")).collect::<Vec<_>>().concat()).unwrap();
    }
    let open: BTreeMap<&str, usize> = include_str!("data/open.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, count)| (name, count.parse().unwrap()))
        .collect();
    let found = |name: &str| differing.get(name).map_or(0, Vec::len);
    let changed: Vec<String> = total
        .keys()
        .filter(|name| found(name) != open.get(name.as_str()).copied().unwrap_or(0))
        .map(|name| format!("{name}: {} of {} differ, {} are known to", found(name), total[name], open.get(name.as_str()).unwrap_or(&0)))
        .collect();
    assert!(changed.is_empty(), "{}\nMAINSTAY_DIFFERENCES=FILE lists them all", changed.join("\n"));
}
