//! OpenAPI documents of the built-in groups, rebuilt from the facts.
//!
//! Definitions are the recorded ones. Paths follow from the resources: every verb of a resource is one operation with
//! the parameters that Kubernetes gives it, which is what clients look for (`kubectl explain`, `--validate=strict`, dry run).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{Gvk, Resource, registry};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Paths below `/openapi/v3/` of the built-in group versions: `api/v1`, `apis/apps/v1`, ...
pub fn v3_paths() -> Vec<String> {
    registry()
        .groups()
        .iter()
        .flat_map(|group| group.versions.iter().map(|version| prefix(&group.name, version).trim_start_matches('/').to_owned()))
        .collect()
}

/// The document `/openapi/v3/PATH` of a built-in group version.
pub fn v3(path: &str) -> Option<Value> {
    let path = path.trim_matches('/');
    let (group, version) = match path.strip_prefix("apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", path.strip_prefix("api/")?),
    };
    registry().group(group)?.versions.iter().find(|known| *known == version)?;
    let mut wanted = BTreeSet::new();
    let mut paths = Map::new();
    for resource in registry().resources_of(group, version) {
        collect(resource, &mut wanted);
        paths.extend(operations(resource, Dialect::V3));
    }
    wanted.insert(format!("{META}APIResourceList"));
    let schemas: Map<String, Value> = closure(wanted)
        .into_iter()
        .map(|name| {
            let json = definition(&name, Dialect::V3);
            (name, json)
        })
        .collect();
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}},
    }))
}

/// The document `/openapi/v2` of all built-in groups.
pub fn v2() -> Value {
    let mut wanted = BTreeSet::new();
    let mut paths = Map::new();
    for resource in registry().resources() {
        collect(resource, &mut wanted);
        paths.extend(operations(resource, Dialect::V2));
    }
    let definitions: Map<String, Value> = closure(wanted)
        .into_iter()
        .map(|name| {
            let json = definition(&name, Dialect::V2);
            (name, json)
        })
        .collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.34"},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// The definitions of OpenAPI v3 that every served kind mentions (`ObjectMeta`, `Status`, ...): a server needs them beside its own for
/// custom resources.
pub fn v3_shared_definitions() -> Map<String, Value> {
    let wanted =
        ["ObjectMeta", "ListMeta", "Status", "DeleteOptions", "Patch", "WatchEvent"].iter().map(|name| format!("{META}{name}")).collect();
    closure(wanted)
        .into_iter()
        .map(|name| {
            let json = definition(&name, Dialect::V3);
            (name, json)
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> Value {
        let place = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{place}{name}")})
    }
}

fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn collect(resource: &Resource, wanted: &mut BTreeSet<String>) {
    let mut add = |gvk: &Gvk| {
        if let Some(name) = registry().definition_name(gvk) {
            wanted.insert(name.to_owned());
            // Lists have a definition if the kind can be listed.
            let list = format!("{name}List");
            if registry().definition(&list).is_some() {
                wanted.insert(list);
            }
        }
    };
    add(&resource.gvk());
    for sub in &resource.subresources {
        add(&sub.gvk(resource));
    }
    for name in ["Status", "DeleteOptions", "Patch", "WatchEvent"] {
        wanted.insert(format!("{META}{name}"));
    }
}

/// All definitions that the wanted ones mention, them included.
fn closure(wanted: BTreeSet<String>) -> BTreeSet<String> {
    let mut open: Vec<String> = wanted.into_iter().collect();
    let mut done = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(json) = registry().definition_json(&name) else { continue };
        if done.insert(name) {
            mentioned(&json, &mut open);
        }
    }
    done
}

fn mentioned(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                match child {
                    Value::String(name) if key == "$ref" => out.push(name.clone()),
                    _ => mentioned(child, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| mentioned(item, out)),
        _ => {}
    }
}

fn definition(name: &str, dialect: Dialect) -> Value {
    let mut json = registry().definition_json(name).unwrap_or(Value::Null);
    rewrite(&mut json, dialect);
    json
}

fn rewrite(value: &mut Value, dialect: Dialect) {
    if let Value::Object(map) = &mut *value {
        if let Some(Value::String(name)) = map.get("$ref") {
            let target = dialect.reference(&name.clone());
            map.extend(target.as_object().cloned().unwrap_or_default());
            return;
        }
        if dialect == Dialect::V2 {
            // Version 2 knows neither composition nor alternatives: a lone allOf is the reference itself, oneOf gives way to the first type.
            // A property of this name, as JSONSchemaProps has it, is an object.
            let mut keyword = |name: &str| map.get(name).is_some_and(Value::is_array).then(|| map.remove(name)).flatten();
            let (all, one) = (keyword("allOf"), keyword("oneOf"));
            if let Some(Value::Array(all)) = all
                && let Some(Value::Object(target)) = all.into_iter().next()
            {
                map.extend(target);
                return rewrite(value, dialect);
            }
            if let Some(Value::Array(one)) = one {
                let kind = one.iter().filter_map(|entry| entry.get("type")).find(|kind| *kind == "string").cloned();
                map.entry("type").or_insert(kind.unwrap_or_else(|| json!("string")));
            }
        }
        map.values_mut().for_each(|child| rewrite(child, dialect));
    } else if let Value::Array(items) = value {
        for item in items {
            rewrite(item, dialect);
        }
    }
}

/// A kind of request to a resource's path.
struct Operation {
    method: &'static str,
    action: &'static str,
    /// `read`, `list`, `replace`: how the operation's name begins.
    name: &'static str,
    query: &'static [(&'static str, &'static str)],
}

const PLAIN: &[(&str, &str)] = &[];
const WRITE: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE: &[(&str, &str)] =
    &[("dryRun", "string"), ("gracePeriodSeconds", "integer"), ("orphanDependents", "boolean"), ("propagationPolicy", "string")];
const DELETE_COLLECTION: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("timeoutSeconds", "integer"),
];

fn item_operation(verb: &str) -> Option<Operation> {
    Some(match verb {
        "get" => Operation { method: "get", action: "get", name: "read", query: PLAIN },
        "update" => Operation { method: "put", action: "put", name: "replace", query: WRITE },
        "patch" => Operation { method: "patch", action: "patch", name: "patch", query: PATCH },
        "delete" => Operation { method: "delete", action: "delete", name: "delete", query: DELETE },
        _ => return None,
    })
}

fn collection_operation(verb: &str) -> Option<Operation> {
    Some(match verb {
        "list" => Operation { method: "get", action: "list", name: "list", query: LIST },
        "create" => Operation { method: "post", action: "post", name: "create", query: WRITE },
        "deletecollection" => {
            Operation { method: "delete", action: "deletecollection", name: "deleteCollection", query: DELETE_COLLECTION }
        }
        _ => return None,
    })
}

fn operations(resource: &Resource, dialect: Dialect) -> Map<String, Value> {
    let mut paths = Map::new();
    let gvk = resource.gvk();
    let base = prefix(&resource.group, &resource.version);
    let place = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let group = group_title(&resource.group);
    let version = capital(&resource.version);
    let tag = format!("{}_{}", if resource.group.is_empty() { "core".into() } else { lower(&group) }, resource.version);

    let mut add = |path: String, operation: &Operation, gvk: &Gvk, id: String, path_parameters: &[&str]| {
        let item = paths.entry(path).or_insert_with(|| json!({"parameters": path_parameters.iter().map(|name| parameter(name, "path", "string", dialect)).chain([parameter("pretty", "query", "string", dialect)]).collect::<Vec<_>>()}));
        item[operation.method] = operation_json(operation, gvk, &id, &tag, dialect);
    };

    let in_namespace: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
    let of_item: &[&str] = if resource.namespaced { &["name", "namespace"] } else { &["name"] };
    for verb in &resource.verbs {
        if let Some(operation) = collection_operation(verb) {
            let id = format!("{}{group}{version}{scope}{}", operation_name(&operation), resource.kind);
            add(place.clone(), &operation, &gvk, id, in_namespace);
            if verb == "list" && resource.namespaced {
                let id = format!("list{group}{version}{}ForAllNamespaces", resource.kind);
                add(format!("{base}/{}", resource.plural), &operation, &gvk, id, &[]);
            }
        }
        if let Some(operation) = item_operation(verb) {
            let id = format!("{}{group}{version}{scope}{}", operation.name, resource.kind);
            add(format!("{place}/{{name}}"), &operation, &gvk, id, of_item);
        }
    }
    for sub in &resource.subresources {
        for verb in &sub.verbs {
            let operation = match verb.as_str() {
                "create" => Operation { method: "post", action: "post", name: "create", query: WRITE },
                other => match item_operation(other) {
                    Some(operation) => operation,
                    None => continue,
                },
            };
            let id = format!("{}{group}{version}{scope}{}{}", operation.name, resource.kind, capital(&sub.name));
            add(format!("{place}/{{name}}/{}", sub.name), &operation, &sub.gvk(resource), id, of_item);
        }
    }
    paths
}

fn operation_name(operation: &Operation) -> &'static str {
    operation.name
}

fn operation_json(operation: &Operation, gvk: &Gvk, id: &str, tag: &str, dialect: Dialect) -> Value {
    let kind = registry().definition_name(gvk).map_or_else(|| format!("{META}Status"), str::to_owned);
    let answer = match operation.action {
        "list" => format!("{kind}List"),
        "deletecollection" | "delete" => format!("{META}Status"),
        _ => kind.clone(),
    };
    let body = match operation.action {
        "post" | "put" => Some(kind.clone()),
        "patch" => Some(format!("{META}Patch")),
        "delete" | "deletecollection" => Some(format!("{META}DeleteOptions")),
        _ => None,
    };
    let answer_types: &[&str] = if operation.action == "list" {
        &["application/json", "application/yaml", "application/json;stream=watch"]
    } else {
        &["application/json", "application/yaml"]
    };
    let body_types: &[&str] = if operation.action == "patch" {
        &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
    } else {
        &["*/*"]
    };
    let codes: &[&str] = match operation.action {
        "post" => &["200", "201", "202"],
        "put" | "patch" => &["200", "201"],
        "delete" => &["200", "202"],
        _ => &["200"],
    };

    let mut parameters: Vec<Value> = operation.query.iter().map(|(name, kind)| parameter(name, "query", kind, dialect)).collect();
    let mut responses = Map::new();
    let mut out = json!({
        "tags": [tag],
        "operationId": id,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": gvk.group, "version": gvk.version, "kind": gvk.kind},
    });
    let content = |types: &[&str], name: &str| -> Value {
        types.iter().map(|media| ((*media).to_owned(), json!({"schema": dialect.reference(name)}))).collect::<Map<_, _>>().into()
    };
    for code in codes {
        let response = match dialect {
            Dialect::V3 => json!({"description": "OK", "content": content(answer_types, &answer)}),
            Dialect::V2 => json!({"description": "OK", "schema": dialect.reference(&answer)}),
        };
        responses.insert((*code).to_owned(), response);
    }
    responses.insert("401".into(), json!({"description": "Unauthorized"}));
    match dialect {
        Dialect::V3 => {
            if let Some(body) = body {
                out["requestBody"] = json!({"content": content(body_types, &body)});
                if !operation.action.starts_with("delete") {
                    out["requestBody"]["required"] = json!(true);
                }
            }
        }
        Dialect::V2 => {
            out["consumes"] = json!(body_types);
            out["produces"] = json!(answer_types);
            out["schemes"] = json!(["https"]);
            if let Some(body) = body {
                parameters.insert(0, json!({"name": "body", "in": "body", "required": !operation.action.starts_with("delete"), "schema": dialect.reference(&body)}));
            }
        }
    }
    if !parameters.is_empty() {
        out["parameters"] = Value::Array(parameters);
    }
    out["responses"] = Value::Object(responses);
    out
}

fn parameter(name: &str, place: &str, kind: &str, dialect: Dialect) -> Value {
    let mut out = match dialect {
        Dialect::V3 => json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}}),
        Dialect::V2 => json!({"name": name, "in": place, "type": kind, "uniqueItems": true}),
    };
    if place == "path" {
        out["required"] = json!(true);
    }
    out
}

/// `apps` -> `Apps`, `rbac.authorization.k8s.io` -> `RbacAuthorization`, core -> `Core`.
fn group_title(group: &str) -> String {
    if group.is_empty() {
        return "Core".into();
    }
    group.trim_end_matches(".k8s.io").split('.').map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn lower(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
