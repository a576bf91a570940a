//! Discovery documents of the built-in groups (KAPI-DISC-01), in parts, so that a server can add its own groups.

use serde_json::{Map, Value, json};

use crate::{Group, Resource, registry};

/// Entry of `APIGroupList.groups`, without `kind` and `apiVersion`.
pub fn api_group(group: &Group) -> Value {
    let version = |version: &str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(|name| version(name)).collect::<Vec<_>>(),
        "preferredVersion": version(group.preferred_version()),
    })
}

/// The `resources` of an `APIResourceList`: each resource, followed by its subresources.
pub fn api_resources(resource: &Resource) -> Vec<Value> {
    let mut main = Map::new();
    main.insert("name".into(), json!(resource.plural));
    main.insert("singularName".into(), json!(resource.singular));
    main.insert("namespaced".into(), json!(resource.namespaced));
    main.insert("kind".into(), json!(resource.kind));
    main.insert("verbs".into(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        main.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        main.insert("categories".into(), json!(resource.categories));
    }
    if let Some(hash) = &resource.storage_version_hash {
        main.insert("storageVersionHash".into(), json!(hash));
    }
    let mut out = vec![Value::Object(main)];
    for sub in &resource.subresources {
        let mut entry = Map::new();
        entry.insert("name".into(), json!(format!("{}/{}", resource.plural, sub.name)));
        entry.insert("singularName".into(), json!(""));
        entry.insert("namespaced".into(), json!(resource.namespaced));
        entry.insert("kind".into(), json!(sub.kind));
        entry.insert("verbs".into(), json!(sub.verbs));
        if let Some(group) = &sub.group {
            entry.insert("group".into(), json!(group));
        }
        if let Some(version) = &sub.version {
            entry.insert("version".into(), json!(version));
        }
        out.push(Value::Object(entry));
    }
    out
}

/// The `APIResourceList` of a built-in group version.
pub fn api_resource_list(group: &str, version: &str) -> Option<Value> {
    registry().group(group)?.versions.iter().find(|known| *known == version)?;
    let resources: Vec<Value> = registry().resources_of(group, version).flat_map(api_resources).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The legacy list at /api/v1 never says its own version.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// Entry of `APIGroupDiscoveryList.items` (apidiscovery.k8s.io/v2) of a built-in group.
pub fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = registry().resources_of(&group.name, version).map(aggregated_resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

/// Entry of an aggregated version's `resources`.
pub fn aggregated_resource(resource: &Resource) -> Value {
    let kind = |kind: &str, group: &Option<String>, version: &Option<String>| json!({"group": group.as_deref().unwrap_or(""), "version": version.as_deref().unwrap_or(""), "kind": kind});
    let mut out = Map::new();
    out.insert("resource".into(), json!(resource.plural));
    out.insert("responseKind".into(), kind(&resource.kind, &None, &None));
    out.insert("scope".into(), json!(if resource.namespaced { "Namespaced" } else { "Cluster" }));
    out.insert("singularResource".into(), json!(resource.singular));
    out.insert("verbs".into(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        out.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        out.insert("categories".into(), json!(resource.categories));
    }
    if !resource.subresources.is_empty() {
        let subresources: Vec<Value> = resource
            .subresources
            .iter()
            .map(|sub| json!({"subresource": sub.name, "responseKind": kind(&sub.kind, &sub.group, &sub.version), "verbs": sub.verbs}))
            .collect();
        out.insert("subresources".into(), Value::Array(subresources));
    }
    Value::Object(out)
}
