//! Discovery and OpenAPI documents (KAPI-DISC-01, -02): built-in facts plus what the snapshot serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use mainstay_kinds::{discovery, openapi, registry};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};

use crate::error::{ApiError, Result};
use crate::negotiate::{self, Shape};
use crate::respond::Answer;
use crate::served::{Served, Snapshot};
use crate::server::Context;

/// Documents that are costly to make, kept until another snapshot is served.
#[derive(Default)]
pub struct Documents {
    made: Mutex<(u64, BTreeMap<String, Arc<Document>>)>,
}

/// A document and its hash.
pub struct Document {
    /// The bytes.
    pub body: bytes::Bytes,
    /// Upper-case SHA-512, as Kubernetes' ETags are.
    pub hash: String,
}

impl Documents {
    fn get(&self, snapshot: &Snapshot, name: &str, make: impl FnOnce() -> Option<Value>) -> Option<Arc<Document>> {
        {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            if made.0 != snapshot.generation {
                *made = (snapshot.generation, BTreeMap::new());
            }
            if let Some(document) = made.1.get(name) {
                return Some(document.clone());
            }
        }
        let value = make()?;
        let body = serde_json::to_vec(&value).unwrap_or_default();
        let hash = hex(&Sha512::digest(&body));
        let document = Arc::new(Document { body: body.into(), hash });
        // The large documents of the built-in kinds are made again when asked for: few clients do, and idle memory is scarce.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 == snapshot.generation && document.body.len() < 64 * 1024 {
            made.1.insert(name.to_owned(), document.clone());
        }
        Some(document)
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).map(char::from).collect()
}

/// The hash that discovery shows of a kind's storage version.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let name = format!("{group}/{version}/{kind}");
    STANDARD.encode(&Sha256::digest(name.as_bytes())[..8])
}

/// `/api`.
pub fn api(context: &Context) -> Answer {
    if context.agreed.shape == Shape::Discovery {
        let groups: Vec<Value> = registry().group("").map(discovery::aggregated_group).into_iter().collect();
        return aggregated(context, &groups);
    }
    crate::server::json(
        context,
        &json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]}),
    )
}

/// `/apis`.
pub fn apis(context: &Context) -> Answer {
    let snapshot = context.api.served();
    if context.agreed.shape == Shape::Discovery {
        let mut groups: Vec<Value> = built_in_groups().map(discovery::aggregated_group).collect();
        for (name, versions) in &snapshot.custom_groups {
            groups.push(aggregated_custom(&snapshot, name, versions));
        }
        return aggregated(context, &groups);
    }
    let mut groups: Vec<Value> = built_in_groups().map(discovery::api_group).collect();
    groups.extend(snapshot.custom_groups.iter().map(|(name, versions)| custom_group(name, versions)));
    crate::server::json(context, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

fn built_in_groups() -> impl Iterator<Item = &'static mainstay_kinds::Group> {
    registry().groups().iter().filter(|group| !group.name.is_empty())
}

fn custom_group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": versions.iter().map(version).collect::<Vec<_>>(), "preferredVersion": versions.first().map(version)})
}

fn custom_of<'a>(snapshot: &'a Snapshot, group: &'a str, version: &'a str) -> impl Iterator<Item = &'a Arc<Served>> {
    snapshot.custom.iter().filter(move |((one, of, _), _)| one == group && of == version).map(|(_, served)| served)
}

fn aggregated_custom(snapshot: &Snapshot, name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = custom_of(snapshot, name, version)
                .map(|served| {
                    let mut resource = discovery::aggregated_resource(&served.facts);
                    // Custom resources name their group and version, built-in ones leave it out.
                    let kind = json!({"group": name, "version": version, "kind": served.facts.kind});
                    resource["responseKind"] = kind.clone();
                    for sub in resource["subresources"].as_array_mut().into_iter().flatten() {
                        if sub["responseKind"]["version"] == "" {
                            sub["responseKind"] = kind.clone();
                        }
                    }
                    resource
                })
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": {"name": name, "creationTimestamp": null}, "versions": versions})
}

fn aggregated(context: &Context, groups: &[Value]) -> Answer {
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups});
    let body = context.agreed.format.write(&list);
    let hash = hex(&Sha512::digest(&body));
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    tagged(context, &hash, Answer::bytes(StatusCode::OK, content_type, body))
}

/// Adds an ETag; 304 when the client has this document already.
fn tagged(context: &Context, hash: &str, mut answer: Answer) -> Answer {
    let tag = format!("\"{hash}\"");
    if negotiate::text(&context.headers, header::IF_NONE_MATCH) == tag {
        answer = Answer::bytes(StatusCode::NOT_MODIFIED, "", "");
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers.push((header::ETAG, tag));
    }
    answer.headers.push((header::VARY, HeaderValue::from_static("Accept")));
    answer
}

/// `/apis/GROUP`.
pub fn group(context: &Context, name: &str) -> Result<Answer> {
    let snapshot = context.api.served();
    let mut group = if let Some(group) = built_in_groups().find(|group| group.name == name) {
        discovery::api_group(group)
    } else {
        let versions = snapshot.custom_groups.get(name).ok_or_else(ApiError::page_not_found)?;
        custom_group(name, versions)
    };
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Ok(crate::server::json(context, &group))
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub fn resources(context: &Context, group: &str, version: &str) -> Result<Answer> {
    if let Some(list) = discovery::api_resource_list(group, version) {
        return Ok(crate::server::json(context, &list));
    }
    let snapshot = context.api.served();
    if !snapshot.custom_groups.get(group).is_some_and(|versions| versions.iter().any(|one| one == version)) {
        let known = group.is_empty() || registry().group(group).is_some();
        return Err(if known { ApiError::no_such_resource() } else { ApiError::page_not_found() });
    }
    let resources: Vec<Value> = custom_of(&snapshot, group, version).flat_map(|served| discovery::api_resources(&served.facts)).collect();
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": resources});
    Ok(crate::server::json(context, &list))
}

/// `/openapi/v3`: where the documents are.
pub fn openapi_index(context: &Context) -> Answer {
    let snapshot = context.api.served();
    let mut paths = Map::new();
    let mut names = openapi::v3_paths();
    names.extend(
        snapshot.custom_groups.iter().flat_map(|(group, versions)| versions.iter().map(move |version| format!("apis/{group}/{version}"))),
    );
    for name in names {
        // The hash stands for the content: built-in documents change with the program, others with their CRDs.
        let content = if openapi::v3_paths().contains(&name) {
            env!("CARGO_PKG_VERSION").to_owned()
        } else {
            context
                .api
                .documents
                .get(&snapshot, &name, || custom_document(&snapshot, &name))
                .map(|document| document.hash.clone())
                .unwrap_or_default()
        };
        let hash = hex(&Sha512::digest(format!("{name} {content}").as_bytes()));
        paths.insert(name.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={hash}")}));
    }
    let body = serde_json::to_vec(&json!({"paths": paths})).unwrap_or_default();
    let hash = hex(&Sha512::digest(&body));
    tagged(context, &hash, Answer::bytes(StatusCode::OK, "text/plain; charset=utf-8", body))
}

/// `/openapi/v3/PATH`.
pub fn openapi_v3(context: &Context, path: &str) -> Result<Answer> {
    let snapshot = context.api.served();
    let document = context
        .api
        .documents
        .get(&snapshot, path, || openapi::v3(path).or_else(|| custom_document(&snapshot, path)))
        .ok_or_else(ApiError::page_not_found)?;
    Ok(tagged(context, &document.hash, Answer::bytes(StatusCode::OK, "application/json", document.body.clone())))
}

/// `/openapi/v2`.
pub fn openapi_v2(context: &Context) -> Result<Answer> {
    let snapshot = context.api.served();
    let document = context
        .api
        .documents
        .get(&snapshot, "v2", || {
            let mut document = openapi::v2();
            for served in snapshot.custom.values() {
                let name = definition_name(served);
                let mut definition = custom_definition(served);
                rewrite_references(&mut definition, "#/definitions/");
                document["definitions"][name] = definition;
            }
            Some(document)
        })
        .ok_or_else(ApiError::page_not_found)?;
    Ok(tagged(context, &document.hash, Answer::bytes(StatusCode::OK, "application/json", document.body.clone())))
}

fn definition_name(served: &Served) -> String {
    let group: Vec<&str> = served.facts.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), served.facts.version, served.facts.kind)
}

fn custom_definition(served: &Served) -> Value {
    let facts = &served.facts;
    let mut schema = served.custom.as_ref().map_or_else(|| json!({"type": "object"}), |custom| custom.openapi.clone());
    if schema.get("type").is_none() {
        schema["type"] = "object".into();
    }
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]});
    schema["x-kubernetes-group-version-kind"] = json!([{"group": facts.group, "version": facts.version, "kind": facts.kind}]);
    schema
}

fn rewrite_references(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(map) => {
            // Version 2 has references beside nothing else, so `allOf` of one is the reference itself.
            if let Some(Value::Array(all)) = map.get("allOf")
                && let [only] = all.as_slice()
                && let Some(name) = only.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next())
            {
                let name = format!("{prefix}{name}");
                map.remove("allOf");
                map.insert("$ref".into(), name.into());
            }
            map.values_mut().for_each(|value| rewrite_references(value, prefix));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rewrite_references(value, prefix)),
        _ => {}
    }
}

fn custom_document(snapshot: &Snapshot, path: &str) -> Option<Value> {
    let (group, version) = path.strip_prefix("apis/")?.split_once('/')?;
    let mut schemas = openapi::v3_shared_definitions();
    let mut paths = Map::new();
    let mut any = false;
    for served in custom_of(snapshot, group, version) {
        any = true;
        let facts = &served.facts;
        let name = definition_name(served);
        schemas.insert(name.clone(), custom_definition(served));
        let list = json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}]},
                "items": {"type": "array", "items": {"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}},
            },
            "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": served.list_kind()}],
        });
        schemas.insert(format!("{name}List"), list);
        let base = if facts.namespaced {
            format!("/apis/{group}/{version}/namespaces/{{namespace}}/{}", facts.plural)
        } else {
            format!("/apis/{group}/{version}/{}", facts.plural)
        };
        let kind = json!({"group": group, "version": version, "kind": facts.kind});
        let parameters = json!(
            ["dryRun", "fieldManager", "fieldValidation"]
                .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        );
        let operation = |action: &str, body: bool| {
            let mut operation = json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": kind,
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}}},
            });
            if body {
                operation["parameters"] = parameters.clone();
                operation["requestBody"] =
                    json!({"content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}});
            }
            operation
        };
        paths.insert(base.clone(), json!({"get": operation("list", false), "post": operation("post", true)}));
        paths.insert(
            format!("{base}/{{name}}"),
            json!({"get": operation("get", false), "put": operation("put", true), "patch": operation("patch", true), "delete": operation("delete", false)}),
        );
    }
    any.then(|| json!({"openapi": "3.0.0", "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, "paths": paths, "components": {"schemas": schemas}}))
}
