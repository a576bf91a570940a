//! The grammar: sequences of requests over what is served.
//!
//! ```text
//!   sweep      every kind: create, read in all forms, update, four patches, subresources, watch, delete
//!   life       one or two kinds, what comes by chance
//!   owners     several managers of one object: apply, update and patch in turn
//!   defined    a definition with random schemas and versions, and its objects
//!   particular what is no resource, or touches several: discovery, health, reviews, quotas, policies, permissions
//! ```

use serde_json::{Value, json};

use crate::custom;
use crate::dice::Dice;
use crate::hostile;
use crate::particular;
use crate::requests::{self, ACCEPTS, PATCHES};
use crate::served::Resource;

/// A sequence of requests, in the format of recorded scenarios.
pub fn scenario(name: &str, about: &str, steps: Vec<Value>) -> Value {
    json!({"name": name, "about": about, "requirements": ["KAPI-CLIENT-03"], "steps": steps})
}

/// The account that pods need when no controller makes it.
pub fn account() -> Value {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    json!({"method": "POST", "path": "/api/v1/namespaces/${ns}/serviceaccounts", "body": account, "only": ["/kind"]})
}

/// Kinds whose objects change what all sequences see, or that are made by other means.
fn is_quiet(resource: &Resource) -> bool {
    !matches!(resource.plural.as_str(), "componentstatuses" | "bindings" | "namespaces" | "apiservices")
}

/// Every verb, subresource and type of patch and answer for one resource, once.
pub fn sweep(resource: &Resource) -> Vec<Value> {
    let dice = &mut Dice::new(7);
    let item = resource.item(&resource.name(0));
    let mut first = vec![account()];
    let create = || json!({"method": "POST", "path": resource.collection(), "body": resource.object(0)});
    if resource.serves("create") {
        for accept in ["application/yaml", ACCEPTS[7]] {
            let mut dry = requests::accepting(create(), accept);
            dry["query"] = json!({"dryRun": "All", "fieldValidation": "Strict"});
            first.push(dry);
        }
        first.extend([create(), create()]);
    }
    let mut sequences = Vec::new();
    let mut all = |what: &str, steps: Vec<Value>| {
        let begin = first.iter().cloned();
        let name = format!("sweep/{}-{}-{what}", resource.id(), resource.version);
        sequences.push(scenario(&name, "every verb, subresource and type, once", begin.chain(steps).collect()));
    };
    if resource.serves("get") {
        all("get", ACCEPTS.iter().map(|accept| requests::accepting(requests::request("GET", &item), accept)).collect());
    } else {
        all("create", ACCEPTS.iter().map(|accept| requests::accepting(create(), accept)).collect());
    }
    if resource.serves("list") {
        let list = |accept: &&str| {
            let mut step = requests::accepting(requests::request("GET", &resource.collection()), accept);
            step["query"] = json!({"labelSelector": "sequence=${sfx}"});
            step
        };
        all("list", ACCEPTS.iter().map(list).chain(requests::chunks(dice, resource)).collect());
    }
    if resource.serves("watch") {
        let watch = |accept: &str| {
            let watch = json!({"path": resource.collection(), "query": {"watch": "1", "labelSelector": "sequence=${sfx}", "allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}, "headers": {"accept": accept}});
            let change = json!({"method": "PATCH", "path": item, "headers": {"content-type": PATCHES[1]}, "body": {"metadata": {"labels": {"changed": "1"}}}});
            json!({"watch": watch, "steps": [change, {"method": "DELETE", "path": item}], "seconds": 1.0})
        };
        all("watch", vec![watch(ACCEPTS[0])]);
        all("watch-table", vec![watch(ACCEPTS[7])]);
        all("watch-metadata", vec![watch(ACCEPTS[10])]);
    }
    let mut subresources: Vec<(String, Vec<String>)> = vec![(String::new(), resource.verbs.clone())];
    subresources.extend(resource.subresources.iter().cloned());
    for (sub, verbs) in &subresources {
        if matches!(sub.as_str(), "proxy" | "exec" | "attach" | "portforward") {
            continue;
        }
        let path = if sub.is_empty() { item.clone() } else { format!("{item}/{sub}") };
        let mut steps = Vec::new();
        if !sub.is_empty() && verbs.iter().any(|verb| verb == "get") {
            steps.extend(ACCEPTS.iter().map(|accept| requests::accepting(requests::request("GET", &path), accept)));
        }
        if verbs.iter().any(|verb| verb == "update") {
            let mut object = resource.object(0);
            object["metadata"]["labels"]["changed"] = "1".into();
            steps.push(json!({"method": "PUT", "path": path, "body": object}));
        }
        if verbs.iter().any(|verb| verb == "patch") {
            for content_type in PATCHES {
                let body = match content_type {
                    "application/json-patch+json" => json!([{"op": "add", "path": "/metadata/labels/patched", "value": "1"}]),
                    _ => hostile::part(dice, &resource.object(0)),
                };
                let mut step = json!({"method": "PATCH", "path": path, "headers": {"content-type": content_type}, "body": body});
                if content_type == PATCHES[3] {
                    step["query"] = json!({"fieldManager": "one"});
                    steps.push(step.clone());
                    step["query"]["force"] = "true".into();
                }
                steps.push(step);
            }
        }
        if !steps.is_empty() {
            all(if sub.is_empty() { "write" } else { sub.as_str() }, steps);
        }
    }
    if resource.serves("delete") {
        let delete = |body: Value| json!({"method": "DELETE", "path": item, "body": body});
        let dry = delete(json!({"dryRun": ["All"]}));
        let wrong = delete(json!({"preconditions": {"uid": "u"}}));
        all("delete", vec![dry, wrong, delete(json!({"propagationPolicy": "Background"})), delete(json!({}))]);
    }
    if resource.serves("deletecollection") {
        let delete = json!({"method": "DELETE", "path": resource.collection(), "query": {"labelSelector": "sequence=${sfx}"}});
        all("deletecollection", vec![delete.clone(), delete]);
    }
    sequences
}

/// A sequence by chance.
pub fn by_chance(number: u64, resources: &[Resource]) -> Value {
    let dice = &mut Dice::new(number);
    let quiet: Vec<&Resource> = resources.iter().filter(|resource| is_quiet(resource)).collect();
    let topic = *dice.one(&[
        "life",
        "life",
        "life",
        "life",
        "life",
        "owners",
        "owners",
        "defined",
        "defined",
        "defined",
        "particular",
        "particular",
    ]);
    let steps = match topic {
        "life" => {
            let mut chosen = vec![*dice.one(&quiet)];
            if dice.percent(30) {
                chosen.push(*dice.one(&quiet));
            }
            let mut steps = vec![account()];
            steps.extend(life(dice, &chosen));
            steps
        }
        "owners" => {
            let writable: Vec<&&Resource> = quiet.iter().filter(|resource| resource.serves("patch")).collect();
            let resource = **dice.one(&writable);
            let mut steps = vec![account()];
            steps.extend(owners(dice, resource));
            steps
        }
        "defined" => {
            let (mut steps, defined) = custom::definition(dice);
            let chosen: Vec<&Resource> = defined.iter().collect();
            steps.extend(life(dice, &chosen));
            if dice.percent(40) {
                steps.extend(owners(dice, chosen[0]));
            }
            steps
        }
        _ => particular::steps(dice, resources),
    };
    scenario(&format!("{topic}/{number}"), "a sequence by chance", steps)
}

/// A mix of all requests to one or two kinds.
fn life(dice: &mut Dice, of: &[&Resource]) -> Vec<Value> {
    let mut steps = Vec::new();
    for resource in of {
        if resource.serves("create") && dice.percent(85) {
            steps.push(json!({"method": "POST", "path": resource.collection(), "body": resource.object(0)}));
        }
    }
    for _ in 0..4 + dice.below(6) {
        let resource = *dice.one(of);
        steps.extend(any(dice, resource));
    }
    steps
}

fn any(dice: &mut Dice, resource: &Resource) -> Vec<Value> {
    let number = usize::from(!dice.percent(75));
    let verbs = [
        "create", "create", "update", "update", "patch", "patch", "patch", "patch", "sub", "sub", "get", "list", "list", "chunks", "watch",
        "delete",
    ];
    match *dice.one(&verbs) {
        "create" if resource.serves("create") => {
            let number = usize::from(dice.percent(50));
            vec![requests::create(dice, resource, number)]
        }
        "update" if resource.serves("update") => vec![requests::update(dice, resource, number, "")],
        "patch" if resource.serves("patch") => vec![requests::patch(dice, resource, number, "")],
        "sub" => requests::subresource(dice, resource, number).into_iter().collect(),
        "get" if resource.serves("get") => vec![requests::get(dice, resource, number)],
        "list" if resource.serves("list") => vec![requests::list(dice, resource)],
        "chunks" if resource.serves("list") => requests::chunks(dice, resource),
        "watch" if resource.serves("watch") && dice.percent(50) => {
            let within =
                vec![requests::create(dice, resource, 1), requests::patch(dice, resource, number, ""), requests::delete(dice, resource, 0)];
            vec![requests::watch(dice, resource, within)]
        }
        "delete" if resource.serves("delete") => vec![requests::delete(dice, resource, number)],
        _ => Vec::new(),
    }
}

/// Several managers of one object, by all ways of writing.
fn owners(dice: &mut Dice, resource: &Resource) -> Vec<Value> {
    let path = resource.item(&resource.name(0));
    let mut steps = Vec::new();
    let status = resource.subresources.iter().any(|(sub, _)| sub == "status");
    for _ in 0..4 + dice.below(5) {
        let manager = *dice.one(&["one", "two", "three"]);
        let sub = if status && dice.percent(15) { "/status" } else { "" };
        let mut step = json!({"path": format!("{path}{sub}"), "query": {"fieldManager": manager}});
        match dice.below(10) {
            0 if resource.serves("create") && sub.is_empty() => {
                step["method"] = "POST".into();
                step["path"] = resource.collection().into();
                step["body"] = resource.object(0);
            }
            1 => {
                step["method"] = "PUT".into();
                step["body"] = resource.object(0);
                step["body"]["metadata"]["labels"]["by"] = manager.into();
            }
            2 => {
                step["method"] = "PATCH".into();
                step["headers"] = json!({"content-type": PATCHES[1]});
                step["body"] = hostile::part(dice, &resource.object(0));
            }
            _ => {
                let mut object = hostile::part(dice, &resource.object(0));
                if dice.percent(25) {
                    hostile::change(dice, &mut object);
                }
                if dice.percent(10) {
                    object = hostile::bare(&object);
                }
                step["method"] = "PATCH".into();
                step["headers"] = json!({"content-type": PATCHES[3]});
                if dice.percent(6) {
                    step["bodyText"] = hostile::text(dice, &object).into();
                } else {
                    step["body"] = object;
                }
                if dice.percent(35) {
                    step["query"]["force"] = "true".into();
                }
            }
        }
        steps.push(step);
    }
    steps
}
