//! One request to one resource, by chance.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::hostile;
use crate::served::Resource;

/// The four types of patches.
pub const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// The media types of answers. Protobuf is left to the tests of its own.
pub const ACCEPTS: [&str; 19] = [
    "application/json",
    "application/yaml",
    "*/*",
    "application/*",
    "",
    "text/html",
    "text/plain, */*;q=0.1",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;q=0.5, application/yaml",
    "application/json;pretty=1",
    "application/xml, application/json;stream=watch",
];

/// A request.
pub fn request(method: &str, path: &str) -> Value {
    json!({"method": method, "path": path})
}

fn set(step: &mut Value, part: &str, name: &str, value: Value) {
    step[part][name] = value;
}

/// With an Accept header.
pub fn accepting(mut step: Value, accept: &str) -> Value {
    set(&mut step, "headers", "accept", accept.into());
    step
}

fn maybe_accept(dice: &mut Dice, step: &mut Value) {
    if dice.percent(15) {
        set(step, "headers", "accept", (*dice.one(&ACCEPTS)).into());
    }
}

/// Parameters of writes.
fn write_options(dice: &mut Dice, step: &mut Value) {
    let options = [
        ("dryRun", "All"),
        ("dryRun", "All"),
        ("dryRun", ""),
        ("dryRun", "Some"),
        ("fieldValidation", "Strict"),
        ("fieldValidation", "Strict"),
        ("fieldValidation", "Ignore"),
        ("fieldValidation", "Warn"),
        ("fieldValidation", "strict"),
        ("fieldManager", "one"),
        ("fieldManager", "two"),
        ("fieldManager", ""),
        ("fieldManager", "bad\u{1}"),
        ("pretty", "true"),
        ("timeout", "5s"),
        ("timeout", "soon"),
        ("unknown", "1"),
    ];
    while dice.percent(30) {
        let (name, value) = *dice.one(&options);
        // Indented answers are the same documents.
        if name != "pretty" {
            set(step, "query", name, value.into());
        }
    }
}

/// The body of a write: good, changed in one place or two, or hardly one.
fn body(dice: &mut Dice, step: &mut Value, mut object: Value) {
    match dice.below(20) {
        0 => step["bodyText"] = hostile::text(dice, &object).into(),
        1 => {
            step["bodyText"] = object.to_string().into();
            let types =
                ["application/yaml", "text/plain", "", "application/json; charset=utf-8", "application/x-www-form-urlencoded", "a/b/c"];
            set(step, "headers", "content-type", (*dice.one(&types)).into());
        }
        2..=9 => {
            hostile::change(dice, &mut object);
            if dice.percent(30) {
                hostile::change(dice, &mut object);
            }
            step["body"] = object;
        }
        _ => step["body"] = object,
    }
}

/// A creation.
pub fn create(dice: &mut Dice, resource: &Resource, number: usize) -> Value {
    let mut step = request("POST", &resource.collection());
    body(dice, &mut step, resource.object(number));
    write_options(dice, &mut step);
    maybe_accept(dice, &mut step);
    step
}

/// An update of an object or of a subresource.
pub fn update(dice: &mut Dice, resource: &Resource, number: usize, sub: &str) -> Value {
    let mut step = request("PUT", &path(resource, number, sub));
    let object = of_subresource(dice, resource, number, sub);
    body(dice, &mut step, object);
    write_options(dice, &mut step);
    maybe_accept(dice, &mut step);
    step
}

/// A patch of one of the four types, of an object or of a subresource.
pub fn patch(dice: &mut Dice, resource: &Resource, number: usize, sub: &str) -> Value {
    let mut step = request("PATCH", &path(resource, number, sub));
    let object = of_subresource(dice, resource, number, sub);
    let content_type = *dice.one(&PATCHES);
    set(&mut step, "headers", "content-type", content_type.into());
    let patch = match content_type {
        "application/json-patch+json" => hostile::operations(dice, &object),
        "application/strategic-merge-patch+json" => hostile::strategic(dice, &object),
        _ => hostile::part(dice, &object),
    };
    if content_type == PATCHES[3] && dice.percent(90) {
        set(&mut step, "query", "fieldManager", (*dice.one(&["one", "two", "three"])).into());
        if dice.percent(40) {
            set(&mut step, "query", "force", (*dice.one(&["true", "true", "false", "x", ""])).into());
        }
    }
    if patch.is_array() {
        step["body"] = patch;
    } else {
        body(dice, &mut step, patch);
    }
    // What a patch says it is stays what it is.
    set(&mut step, "headers", "content-type", content_type.into());
    write_options(dice, &mut step);
    maybe_accept(dice, &mut step);
    step
}

fn path(resource: &Resource, number: usize, sub: &str) -> String {
    let item = resource.item(&resource.name(number));
    if sub.is_empty() { item } else { format!("{item}/{sub}") }
}

/// A body for a subresource.
fn of_subresource(dice: &mut Dice, resource: &Resource, number: usize, sub: &str) -> Value {
    let mut object = resource.object(number);
    match sub {
        "" => {
            if dice.percent(50) {
                object["metadata"]["labels"]["changed"] = (*dice.one(&["1", "2"])).into();
            }
        }
        "scale" => {
            object = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": resource.name(number), "namespace": "${ns}"}, "spec": {"replicas": dice.below(4)}});
        }
        "eviction" => {
            object =
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": resource.name(number), "namespace": "${ns}"}});
        }
        "binding" => {
            object = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": resource.name(number)}, "target": {"kind": "Node", "name": "n"}});
        }
        "token" => {
            object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"], "expirationSeconds": 600}});
        }
        _ => {
            object["status"] = (*dice.one(&[&json!({"observedGeneration": 1}), &json!({"phase": "Odd"}), &json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2006-01-02T15:04:05Z", "reason": "R", "message": "m"}]}), &json!({}), &Value::Null])).clone();
            for (part, value) in [
                ("labels", json!({"by-status": "1"})),
                ("annotations", json!({"by-status": "1"})),
                ("finalizers", json!(["example.com/status"])),
            ] {
                if dice.percent(30) {
                    object["metadata"][part] = value;
                }
            }
        }
    }
    object
}

/// A write to a subresource that is created or updated.
pub fn subresource(dice: &mut Dice, resource: &Resource, number: usize) -> Option<Value> {
    if resource.subresources.is_empty() {
        return None;
    }
    let (sub, verbs) = dice.one(&resource.subresources).clone();
    // Those that are streams, or lead elsewhere.
    if matches!(sub.as_str(), "proxy" | "exec" | "attach" | "portforward" | "log") {
        return None;
    }
    let verb = dice.one(&verbs).clone();
    Some(match verb.as_str() {
        "get" => {
            let mut step = request("GET", &path(resource, number, &sub));
            maybe_accept(dice, &mut step);
            step
        }
        "create" => {
            let mut step = request("POST", &path(resource, number, &sub));
            let object = of_subresource(dice, resource, number, &sub);
            body(dice, &mut step, object);
            write_options(dice, &mut step);
            if sub == "token" {
                // A token differs each time; whom it is for is compared by what is decoded elsewhere.
                step["ignore"] = json!(["/status/token"]);
            }
            step
        }
        "patch" => patch(dice, resource, number, &sub),
        _ => update(dice, resource, number, &sub),
    })
}

/// A read of one object.
pub fn get(dice: &mut Dice, resource: &Resource, number: usize) -> Value {
    let mut step = request("GET", &path(resource, number, ""));
    if dice.percent(50) {
        set(&mut step, "headers", "accept", (*dice.one(&ACCEPTS)).into());
    }
    if dice.percent(20) {
        let (name, value) = *dice.one(&[
            ("resourceVersion", "0"),
            ("resourceVersion", "x"),
            ("resourceVersion", "1"),
            ("unknown", "1"),
            ("fieldSelector", "x"),
        ]);
        set(&mut step, "query", name, value.into());
    }
    step
}

/// The parameters of a list that keep it to what the sequence made.
fn selectors(dice: &mut Dice, resource: &Resource, step: &mut Value) {
    let labels = [
        "sequence=${sfx}",
        "sequence=${sfx},number=1",
        "sequence=${sfx},number!=1",
        "sequence in (${sfx}),number in (0,1)",
        "sequence=${sfx},!number",
        "sequence=${sfx},number notin (0)",
        "sequence==${sfx},number>0",
        "sequence=${sfx},changed",
        "sequence=",
        "sequence=${sfx},,",
        "a b",
        "sequence in ()",
        "sequence=${sfx},Bad_/key=1",
    ];
    let must = !resource.namespaced;
    if must || dice.percent(40) {
        let chosen = if dice.percent(50) { labels[0] } else { *dice.one(&labels) };
        set(step, "query", "labelSelector", chosen.into());
    }
    if dice.percent(20) {
        let fields = [
            "metadata.name=a",
            "metadata.name!=a",
            "metadata.namespace=${ns}",
            "spec.nodeName=",
            "status.phase=Pending",
            "nonsense=1",
            "metadata.name",
            "type=Opaque",
            "reason=Tried",
            "a=b=c",
            "metadata.name=a,metadata.name=b",
        ];
        set(step, "query", "fieldSelector", (*dice.one(&fields)).into());
    }
}

/// A list.
pub fn list(dice: &mut Dice, resource: &Resource) -> Value {
    let mut step = request("GET", &resource.collection());
    selectors(dice, resource, &mut step);
    let options = [
        ("limit", "1"),
        ("limit", "0"),
        ("limit", "x"),
        ("limit", "-1"),
        ("resourceVersion", "0"),
        ("resourceVersion", "1"),
        ("resourceVersion", "nonsense"),
        ("resourceVersion", "999999999999"),
        ("resourceVersionMatch", "Exact"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("resourceVersionMatch", "nonsense"),
        ("continue", "nonsense"),
        ("sendInitialEvents", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", "1"),
        ("timeoutSeconds", "x"),
        ("timeout", "x"),
        ("includeObject", "None"),
        ("includeObject", "nonsense"),
    ];
    while dice.percent(25) {
        let (name, value) = *dice.one(&options);
        set(&mut step, "query", name, value.into());
    }
    if dice.percent(40) {
        set(&mut step, "headers", "accept", (*dice.one(&ACCEPTS)).into());
    }
    step
}

/// A list in chunks of one, to its end or beyond.
pub fn chunks(dice: &mut Dice, resource: &Resource) -> Vec<Value> {
    let mut first = request("GET", &resource.collection());
    first["query"] = json!({"labelSelector": "sequence=${sfx}", "limit": "1"});
    first["save"] = json!({"more": "/metadata/continue"});
    let mut second = first.clone();
    set(&mut second, "query", "continue", "${more}".into());
    if dice.percent(30) {
        let (name, value) = *dice.one(&[
            ("resourceVersion", "1"),
            ("resourceVersionMatch", "Exact"),
            ("labelSelector", "sequence=${sfx},number=1"),
            ("limit", "0"),
        ]);
        set(&mut second, "query", name, value.into());
    }
    vec![first, second]
}

/// A deletion of one object or of a collection.
pub fn delete(dice: &mut Dice, resource: &Resource, number: usize) -> Value {
    let collection = dice.percent(20) && resource.serves("deletecollection");
    let mut step = request("DELETE", &if collection { resource.collection() } else { path(resource, number, "") });
    if collection {
        set(&mut step, "query", "labelSelector", "sequence=${sfx}".into());
    }
    match dice.below(4) {
        0 => step["body"] = hostile::delete_options(dice),
        1 => {
            let options = [
                ("gracePeriodSeconds", "0"),
                ("gracePeriodSeconds", "x"),
                ("gracePeriodSeconds", "-1"),
                ("propagationPolicy", "Foreground"),
                ("propagationPolicy", "Orphan"),
                ("propagationPolicy", "nonsense"),
                ("orphanDependents", "true"),
                ("orphanDependents", "x"),
                ("dryRun", "All"),
                ("dryRun", "x"),
                ("ignoreStoreReadErrorWithClusterBreakingPotential", "true"),
            ];
            while dice.percent(60) {
                let (name, value) = *dice.one(&options);
                set(&mut step, "query", name, value.into());
            }
        }
        _ => {}
    }
    maybe_accept(dice, &mut step);
    step
}

/// A watch with options, around writes.
pub fn watch(dice: &mut Dice, resource: &Resource, within: Vec<Value>) -> Value {
    let mut stream = json!({"path": resource.collection(), "query": {"watch": "1"}});
    selectors(dice, resource, &mut stream);
    let options = [
        ("resourceVersion", "0"),
        ("resourceVersion", "1"),
        ("resourceVersion", "nonsense"),
        ("resourceVersion", "999999999999"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true"),
        ("sendInitialEvents", "true"),
        ("sendInitialEvents", "false"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("resourceVersionMatch", "Exact"),
        ("timeoutSeconds", "1"),
        ("limit", "1"),
        ("continue", "x"),
    ];
    while dice.percent(45) {
        let (name, value) = *dice.one(&options);
        set(&mut stream, "query", name, value.into());
    }
    if dice.percent(30) {
        let accepts = [ACCEPTS[0], ACCEPTS[7], ACCEPTS[8], ACCEPTS[10], "application/json;stream=watch", "text/html"];
        set(&mut stream, "headers", "accept", (*dice.one(&accepts)).into());
    }
    json!({"watch": stream, "steps": within, "seconds": 1.3})
}
