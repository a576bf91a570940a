//! Discovery and OpenAPI of other API servers: fetched when they answer, merged into this server's own (KAPI-DISC-01, -02).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::index::{Index, RemoteApi};
use super::proxy::aggregator_request;
use crate::remote::Remotes;

/// The time that a document may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Asks for discovery of all groups in one document.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;q=0.9";

/// The documents of one API server about one version of a group.
#[derive(Debug)]
pub struct Documents {
    /// The version as aggregated discovery lists it.
    pub version: Value,
    /// `serverRelativeURL` of its OpenAPI v3 document, where it has one.
    pub v3: Option<String>,
    /// Its part of OpenAPI v2: paths and definitions.
    pub v2: Option<Value>,
}

/// Fetches the documents; `None` where discovery fails, so that what is known stays.
pub async fn fetch(remotes: &Remotes, remote: &RemoteApi) -> Option<Documents> {
    let version = match get(remotes, remote, "/apis", AGGREGATED).await.and_then(|list| listed(&list, remote)) {
        Some(version) => version,
        None => {
            from_resources(&get(remotes, remote, &format!("/apis/{}/{}", remote.group, remote.version), "application/json").await?, remote)
        }
    };
    let path = format!("apis/{}/{}", remote.group, remote.version);
    let index = get(remotes, remote, "/openapi/v3", "application/json").await;
    let v3 = index.and_then(|index| index["paths"][&path]["serverRelativeURL"].as_str().map(str::to_owned));
    let v2 = get(remotes, remote, "/openapi/v2", "application/json").await.map(|document| part(&document, remote));
    Some(Documents { version, v3, v2 })
}

async fn get(remotes: &Remotes, remote: &RemoteApi, path: &str, accept: &str) -> Option<Value> {
    let config = remote.config.as_ref().ok()?;
    let request = aggregator_request(&format!("{}{path}", config.target.url()), accept).ok()?;
    let (parts, body): (_, Bytes) = match remotes.fetch(config, request, PATIENCE).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(name = remote.name, path, %error, "an API server does not show a document");
            return None;
        }
    };
    parts.status.is_success().then(|| serde_json::from_slice(&body).ok()).flatten()
}

/// The version in an `APIGroupDiscoveryList`.
fn listed(list: &Value, remote: &RemoteApi) -> Option<Value> {
    if list["kind"] != "APIGroupDiscoveryList" {
        return None;
    }
    let group = list["items"].as_array()?.iter().find(|group| group["metadata"]["name"] == *remote.group)?;
    let mut version = group["versions"].as_array()?.iter().find(|version| version["version"] == *remote.version)?.clone();
    version["freshness"] = "Current".into();
    Some(version)
}

/// The version from an `APIResourceList`.
fn from_resources(list: &Value, remote: &RemoteApi) -> Value {
    let kind = |one: &Value| {
        let own = |field: &str, default: &str| one[field].as_str().filter(|text| !text.is_empty()).unwrap_or(default).to_owned();
        json!({"group": own("group", &remote.group), "version": own("version", &remote.version), "kind": one["kind"]})
    };
    let all = || list["resources"].as_array().into_iter().flatten();
    let mut resources = Vec::new();
    for one in all() {
        let name = one["name"].as_str().unwrap_or_default();
        if name.contains('/') {
            continue;
        }
        let scope = if one["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let mut resource = json!({
            "resource": name, "responseKind": kind(one), "scope": scope, "singularResource": one["singularName"], "verbs": one["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if one[field].is_array() {
                resource[field] = one[field].clone();
            }
        }
        let prefix = format!("{name}/");
        let subresources: Vec<Value> = all()
            .filter_map(|sub| Some((sub["name"].as_str()?.strip_prefix(&prefix)?, sub)))
            .map(|(name, sub)| json!({"subresource": name, "responseKind": kind(sub), "verbs": sub["verbs"]}))
            .collect();
        if !subresources.is_empty() {
            resource["subresources"] = subresources.into();
        }
        resources.push(resource);
    }
    json!({"version": remote.version, "resources": resources, "freshness": "Current"})
}

/// Paths of the version, and the definitions that they need.
fn part(document: &Value, remote: &RemoteApi) -> Value {
    let prefix = format!("/apis/{}/{}/", remote.group, remote.version);
    let own = |path: &str| path.starts_with(&prefix) || path == prefix.trim_end_matches('/');
    let paths: Map<String, Value> = document["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(path, _)| own(path))
        .map(|(path, item)| (path.clone(), item.clone()))
        .collect();
    let mut needed = BTreeSet::new();
    let mut open: Vec<String> = references(&Value::Object(paths.clone()));
    let mut definitions = Map::new();
    while let Some(name) = open.pop() {
        let definition = &document["definitions"][&name];
        if definition.is_null() || !needed.insert(name.clone()) {
            continue;
        }
        open.extend(references(definition));
        definitions.insert(name, definition.clone());
    }
    json!({"paths": paths, "definitions": definitions})
}

const DEFINITIONS: &str = "#/definitions/";

fn references(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).and_then(|name| name.strip_prefix(DEFINITIONS)).map(str::to_owned));
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}

/// Adds the paths and definitions of others to the OpenAPI v2 document. A definition of the same name and another content gets a
/// name of its own.
pub fn merge_v2(document: &mut Value, others: &[Arc<Documents>]) {
    for other in others.iter().filter_map(|one| one.v2.as_ref()) {
        let mut other = other.clone();
        let known = document["definitions"].as_object();
        let taken = |name: &str| known.is_some_and(|known| known.contains_key(name));
        let clashing = other["definitions"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, definition)| known.and_then(|known| known.get(*name)).is_some_and(|known| known != *definition));
        let renamed: Map<String, Value> = clashing
            .map(|(name, _)| {
                let free = (2..=u16::MAX).map(|number| format!("{name}_v{number}")).find(|name| !taken(name)).unwrap_or_default();
                (name.clone(), free.into())
            })
            .collect();
        if !renamed.is_empty() {
            rename(&mut other, &renamed);
        }
        for part in ["definitions", "paths"] {
            let Some(add) = other[part].as_object_mut() else { continue };
            for (name, content) in std::mem::take(add) {
                let name = if part == "definitions" {
                    renamed.get(&name).and_then(Value::as_str).map_or(name.clone(), str::to_owned)
                } else {
                    name
                };
                document[part][name] = content;
            }
        }
    }
}

fn rename(value: &mut Value, renamed: &Map<String, Value>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get_mut("$ref")
                && let Some(new) = reference.strip_prefix(DEFINITIONS).and_then(|name| renamed.get(name)).and_then(Value::as_str)
            {
                *reference = format!("{DEFINITIONS}{new}");
            }
            map.values_mut().for_each(|value| rename(value, renamed));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, renamed)),
        _ => {}
    }
}

/// A group of `/apis`, with what its place among the others depends on.
pub struct Placed {
    /// The group's name.
    pub name: String,
    /// `groupPriorityMinimum`.
    pub priority: i64,
    /// The group as it is shown.
    pub shown: Value,
}

/// Adds groups and versions of others to the list, each group at its place. `version` shows one of their versions.
pub fn merge_groups(
    groups: &mut Vec<Placed>,
    index: &Index,
    version: impl Fn(&RemoteApi) -> Value,
    group: impl Fn(&str, Vec<Value>) -> Value,
) {
    let names: BTreeSet<&str> = index.values().map(|remote| remote.group.as_str()).collect();
    for name in names {
        let mut remotes: Vec<&Arc<RemoteApi>> = index.values().filter(|remote| remote.group == name).collect();
        remotes.sort_by(|one, two| {
            two.version_priority.cmp(&one.version_priority).then_with(|| crate::versions::compare(&two.version, &one.version))
        });
        let theirs: Vec<Value> = remotes.iter().map(|remote| version(remote)).collect();
        if let Some(known) = groups.iter_mut().find(|known| known.name == name) {
            let replaced = |shown: &Value| remotes.iter().any(|remote| shown["version"] == *remote.version);
            let mut versions: Vec<Value> = known.shown["versions"].as_array().cloned().unwrap_or_default();
            versions.retain(|shown| !replaced(shown));
            versions.extend(theirs);
            known.shown = group(name, versions);
            continue;
        }
        let priority = remotes.iter().map(|remote| remote.group_priority).max().unwrap_or_default();
        let before = |known: &Placed| (-known.priority, known.name.as_str()) <= (-priority, name);
        let at = groups.iter().position(|known| !before(known)).unwrap_or(groups.len());
        groups.insert(at, Placed { name: name.to_owned(), priority, shown: group(name, theirs) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(group: &str, version: &str, priority: i64) -> RemoteApi {
        let config = Err(crate::remote::CallError::Config("unused".into()));
        RemoteApi {
            name: format!("{version}.{group}"),
            group: group.into(),
            version: version.into(),
            config,
            group_priority: priority,
            version_priority: 1,
            available: true,
        }
    }

    /// KAPI-DISC-01: groups of others stand where their priority puts them, versions by theirs.
    #[test]
    fn groups_have_their_place() {
        let placed =
            |name: &str, priority| Placed { name: name.into(), priority, shown: json!({"name": name, "versions": [{"version": "v1"}]}) };
        let mut groups = vec![placed("apps", 17_800), placed("b.example.com", 1_000), placed("c.example.com", 1_000)];
        let all =
            [remote("metrics.k8s.io", "v1beta1", 100), remote("high.example.com", "v1", 18_000), remote("bb.example.com", "v1", 1_000)];
        let more = [remote("bb.example.com", "v1beta1", 1_000), remote("apps", "v9", 1)];
        let index: Index = all.into_iter().chain(more).map(|one| ((one.group.clone(), one.version.clone()), Arc::new(one))).collect();
        let shown = |remote: &RemoteApi| json!({"version": remote.version});
        merge_groups(&mut groups, &index, shown, |name, versions| json!({"name": name, "versions": versions}));
        let text: Vec<String> = groups
            .iter()
            .map(|group| {
                let versions = group.shown["versions"].as_array().into_iter().flatten().filter_map(|one| one["version"].as_str());
                format!("{} {}", group.name, versions.collect::<Vec<_>>().join(","))
            })
            .collect();
        assert_eq!(
            text,
            [
                "high.example.com v1",
                "apps v1,v9",
                "b.example.com v1",
                "bb.example.com v1,v1beta1",
                "c.example.com v1",
                "metrics.k8s.io v1beta1"
            ]
        );
    }

    /// KAPI-DISC-02: definitions of the same name and another content do not overwrite each other.
    #[test]
    fn openapi_v2_is_merged() {
        let theirs = json!({
            "paths": {"/apis/g/v1/things": {"get": {"schema": {"$ref": "#/definitions/Thing"}}}, "/apis/other/v1/x": {}},
            "definitions": {"Thing": {"properties": {"meta": {"$ref": "#/definitions/Meta"}}}, "Meta": {"type": "string"}, "Unused": {}},
        });
        let part = part(&theirs, &remote("g", "v1", 1));
        assert_eq!(part["definitions"].as_object().map(Map::len), Some(2));
        let mut document = json!({"paths": {}, "definitions": {"Meta": {"type": "object"}}});
        merge_v2(&mut document, &[Arc::new(Documents { version: Value::Null, v3: None, v2: Some(part) })]);
        assert_eq!(document["definitions"]["Meta"]["type"], "object");
        assert_eq!(document["definitions"]["Meta_v2"]["type"], "string");
        assert_eq!(document["definitions"]["Thing"]["properties"]["meta"]["$ref"], "#/definitions/Meta_v2");
        assert_eq!(document["paths"]["/apis/g/v1/things"]["get"]["schema"]["$ref"], "#/definitions/Thing");
    }

    /// KAPI-DISC-01: API servers that know nothing of aggregated discovery.
    #[test]
    fn resource_lists() {
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]},
            {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Log", "verbs": ["get"]},
        ]});
        let version = from_resources(&list, &remote("metrics.k8s.io", "v1beta1", 1));
        let kind = |kind: &str| json!({"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind});
        assert_eq!(
            version["resources"],
            json!([{
                "resource": "pods", "responseKind": kind("PodMetrics"), "scope": "Namespaced", "singularResource": "", "verbs": ["get", "list"],
                "subresources": [{"subresource": "log", "responseKind": kind("Log"), "verbs": ["get"]}],
            }])
        );
    }
}
