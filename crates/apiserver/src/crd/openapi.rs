//! OpenAPI documents of custom resources (KAPI-DISC-02): what `kubectl explain` shows and what clients are generated from.
//!
//! Version 2 knows less than a CRD's schema says. What old clients would misread is left out there, as upstream does: defaults,
//! the type of what may be null or hold unknown fields, and schemas that are combined.

use std::collections::BTreeSet;

use mainstay_kinds::openapi as built_in;
use serde_json::{Map, Value, json};

use crate::served::Served;

const V3: &str = "#/components/schemas/";
const V2: &str = "#/definitions/";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
/// Texts that `kubectl explain` shows for the members that every object and list has, in Kubernetes' words.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str =
    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str =
    "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// The versions of OpenAPI documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Two,
    Three,
}

/// The version 3 document of a group and version; `None` where nothing is served there.
pub fn document<'a>(resources: impl Iterator<Item = &'a Served>) -> Option<Value> {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for served in resources {
        schemas.extend(definitions(served, Form::Three));
        paths.extend(operations(served, Form::Three));
    }
    if schemas.is_empty() {
        return None;
    }
    let mut known = built_in::v3_shared_definitions();
    let scales =
        built_in::v3("apis/apps/v1").and_then(|mut document| document["components"]["schemas"].as_object_mut().map(std::mem::take));
    known.extend(scales.into_iter().flatten().filter(|(name, _)| name.starts_with(SCALE)));
    // Only what is referred to, directly or through others.
    let mut open = references(&json!([paths, schemas]));
    while let Some(name) = open.pop() {
        if let Some(definition) = known.remove(&name) {
            open.extend(references(&definition));
            schemas.insert(name, definition);
        }
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// Adds a custom resource to the version 2 document.
pub fn add_v2(document: &mut Value, served: &Served) {
    for (part, members) in [("definitions", definitions(served, Form::Two).to_vec()), ("paths", operations(served, Form::Two))] {
        if let Some(known) = document[part].as_object_mut() {
            known.extend(members);
        }
    }
}

fn references(value: &Value) -> Vec<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![value]);
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next()).map(str::to_owned));
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found.into_iter().collect()
}

/// `com.example.v1.Kind`: the group backwards.
fn name_of(served: &Served) -> String {
    let group: Vec<&str> = served.facts.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), served.facts.version, served.facts.kind)
}

fn reference(name: &str, form: Form) -> Value {
    json!({"$ref": format!("{}{name}", if form == Form::Two { V2 } else { V3 })})
}

/// A reference with a description beside it.
fn described_reference(name: &str, description: &str, form: Form) -> Value {
    let mut described = if form == Form::Two { reference(name, form) } else { json!({"allOf": [reference(name, form)]}) };
    described["description"] = description.into();
    described
}

/// The definitions of the kind and of its lists.
fn definitions(served: &Served, form: Form) -> [(String, Value); 2] {
    let (facts, name) = (&served.facts, name_of(served));
    let kind_of = |kind: &str| json!([{"group": facts.group, "version": facts.version, "kind": kind}]);
    let mut own = kind(served, form);
    own["x-kubernetes-group-version-kind"] = kind_of(&facts.kind);
    let mut list = json!({
        "description": format!("{} is a list of {}", served.list_kind(), facts.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": described_reference(&format!("{META}ListMeta"), LIST_METADATA, form),
            "items": {"type": "array", "description": format!("List of {}. More info: {CONVENTIONS}.md", facts.plural), "items": reference(&name, form)},
        },
        "x-kubernetes-group-version-kind": kind_of(&served.list_kind()),
    });
    let selectable = served.custom.as_ref().map(|custom| custom.selectable.as_slice()).unwrap_or_default();
    if !selectable.is_empty() {
        let fields: Value = selectable.iter().map(|path| json!({"fieldPath": path})).collect();
        own["x-kubernetes-selectable-fields"] = fields.clone();
        list["x-kubernetes-selectable-fields"] = fields;
    }
    [(name.clone(), own), (format!("{name}List"), list)]
}

fn kind(served: &Served, form: Form) -> Value {
    let mut schema = served.custom.as_ref().map(|custom| custom.openapi.clone()).filter(Value::is_object).unwrap_or_else(|| json!({}));
    if form == Form::Two && schema["x-kubernetes-preserve-unknown-fields"] == true {
        return json!({"type": "object"});
    }
    publish(&mut schema, form);
    schema["type"] = "object".into();
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": API_VERSION});
    schema["properties"]["kind"] = json!({"type": "string", "description": KIND});
    schema["properties"]["metadata"] = described_reference(&format!("{META}ObjectMeta"), METADATA, form);
    schema
}

/// Makes a node of a CRD's schema, and those below it, what the document shows.
fn publish(node: &mut Value, form: Form) {
    let Value::Object(map) = node else { return };
    let is = |map: &Map<String, Value>, field: &str| map.get(field) == Some(&Value::Bool(true));
    if is(map, "x-kubernetes-int-or-string") {
        map.remove("type");
        if form == Form::Three && !map.contains_key("anyOf") {
            map.insert("anyOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
        }
    }
    if is(map, "x-kubernetes-embedded-resource") {
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        properties["apiVersion"] = json!({"type": "string", "description": API_VERSION});
        properties["kind"] = json!({"type": "string", "description": KIND});
        properties["metadata"] = described_reference(&format!("{META}ObjectMeta"), METADATA, form);
        let mut required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for field in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == field) {
                required.push(field.into());
            }
        }
        map.insert("required".into(), required.into());
    }
    if form == Form::Two {
        if is(map, "x-kubernetes-preserve-unknown-fields") || is(map, "nullable") {
            for field in ["type", "nullable", "items", "properties", "additionalProperties", "required"] {
                map.remove(field);
            }
        }
        for field in ["default", "allOf", "anyOf", "oneOf", "not"] {
            // Metadata of embedded resources is no part of the CRD's own words, and refers without `allOf` here.
            map.remove(field);
        }
    }
    for field in ["properties", "items", "additionalProperties"] {
        match map.get_mut(field) {
            Some(Value::Object(members)) if field == "properties" => members.values_mut().for_each(|member| publish(member, form)),
            Some(member) => publish(member, form),
            None => {}
        }
    }
}

/// The content of a request or an answer.
#[derive(Clone, Copy)]
enum Content {
    Nothing,
    Object,
    List,
    Scale,
    Status,
    DeleteOptions,
    Patch,
}

/// One operation of a path.
struct Operation {
    method: &'static str,
    action: &'static str,
    /// The verb of `operationId`.
    id: &'static str,
    description: String,
    parameters: &'static [&'static str],
    body: Content,
    answer: Content,
    /// Further codes of success.
    codes: &'static [(&'static str, &'static str)],
}

const LISTING: [&str; 10] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITING: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
const PATCHING: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETING: [&str; 5] =
    ["dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents", "propagationPolicy"];
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

fn type_of(parameter: &str) -> &'static str {
    match parameter {
        "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
        "allowWatchBookmarks"
        | "sendInitialEvents"
        | "watch"
        | "force"
        | "orphanDependents"
        | "ignoreStoreReadErrorWithClusterBreakingPotential" => "boolean",
        _ => "string",
    }
}

/// The paths of a resource with their operations.
fn operations(served: &Served, form: Form) -> Vec<(String, Value)> {
    let facts = &served.facts;
    let (root, plural, kind) = (format!("/apis/{}/{}", facts.group, facts.version), &facts.plural, &facts.kind);
    let writer = Writer::new(served, form);
    let scope = if facts.namespaced { "/namespaces/{namespace}" } else { "" };
    let place: &[&str] = if facts.namespaced { &["namespace"] } else { &[] };
    let namespaced = if facts.namespaced { "Namespaced" } else { "" };
    let list = || Operation {
        method: "get",
        action: "list",
        id: "list",
        description: format!("list objects of kind {kind}"),
        parameters: &LISTING,
        body: Content::Nothing,
        answer: Content::List,
        codes: &[],
    };
    let mut paths = Vec::new();
    if facts.namespaced {
        let mut everywhere = writer.path(&[], &[], &[(Operation { parameters: &[], ..list() }, format!("{kind}ForAllNamespaces"))]);
        let shared = LISTING.iter().take(5).chain(&["pretty"]).chain(LISTING.iter().skip(5));
        everywhere["parameters"] = shared.map(|name| writer.parameter(name)).collect();
        paths.push((format!("{root}/{plural}"), everywhere));
    }
    let (read, replace, update) = (
        |description: String, answer| Operation {
            method: "get",
            action: "get",
            id: "read",
            description,
            parameters: &["resourceVersion"],
            body: Content::Nothing,
            answer,
            codes: &[],
        },
        |description: String, content| Operation {
            method: "put",
            action: "put",
            id: "replace",
            description,
            parameters: &WRITING,
            body: content,
            answer: content,
            codes: &[CREATED],
        },
        |description: String, answer| Operation {
            method: "patch",
            action: "patch",
            id: "patch",
            description,
            parameters: &PATCHING,
            body: Content::Patch,
            answer,
            codes: &[],
        },
    );
    let create = Operation {
        method: "post",
        action: "post",
        id: "create",
        description: format!("create {} {kind}", article(kind)),
        parameters: &WRITING,
        body: Content::Object,
        answer: Content::Object,
        codes: &[CREATED, ACCEPTED],
    };
    let clear = Operation {
        method: "delete",
        action: "deletecollection",
        id: "delete",
        description: format!("delete collection of {kind}"),
        body: Content::Nothing,
        answer: Content::Status,
        ..list()
    };
    let own = format!("{namespaced}{kind}");
    let collection = [(list(), own.clone()), (create, own.clone()), (clear, format!("Collection{own}"))];
    paths.push((format!("{root}{scope}/{plural}"), writer.path(&[], place, &collection)));
    let remove = Operation {
        method: "delete",
        action: "delete",
        id: "delete",
        description: format!("delete {} {kind}", article(kind)),
        parameters: &DELETING,
        body: Content::DeleteOptions,
        answer: Content::Status,
        codes: &[ACCEPTED],
    };
    let item = [
        (read(format!("read the specified {kind}"), Content::Object), own.clone()),
        (replace(format!("replace the specified {kind}"), Content::Object), own.clone()),
        (remove, own.clone()),
        (update(format!("partially update the specified {kind}"), Content::Object), own.clone()),
    ];
    paths.push((format!("{root}{scope}/{plural}/{{name}}"), writer.path(&["name"], place, &item)));
    for (name, title, content) in [("scale", "Scale", Content::Scale), ("status", "Status", Content::Object)] {
        if served.subresource(name).is_none() {
            continue;
        }
        let id = format!("{own}{title}");
        let item = [
            (read(format!("read {name} of the specified {kind}"), content), id.clone()),
            (replace(format!("replace {name} of the specified {kind}"), content), id.clone()),
            (update(format!("partially update {name} of the specified {kind}"), content), id),
        ];
        paths.push((format!("{root}{scope}/{plural}/{{name}}/{name}"), writer.path(&["name"], place, &item)));
    }
    paths
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Writes operations in one of the two forms.
struct Writer<'a> {
    served: &'a Served,
    form: Form,
    name: String,
    /// `RemoteExampleComV1`.
    prefix: String,
    tag: String,
}

impl<'a> Writer<'a> {
    fn new(served: &'a Served, form: Form) -> Self {
        let upper = |text: &str| {
            let mut chars = text.chars();
            chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
        };
        let group: String = served.facts.group.split(['.', '-']).map(upper).collect();
        let mut lower = group.chars();
        let tag: String = lower.next().map(|first| first.to_lowercase().chain(lower).collect()).unwrap_or_default();
        let version = &served.facts.version;
        Self { served, form, name: name_of(served), prefix: format!("{group}{}", upper(version)), tag: format!("{tag}_{version}") }
    }

    fn path(&self, named: &[&str], place: &[&str], operations: &[(Operation, String)]) -> Value {
        let mut path: Map<String, Value> =
            operations.iter().map(|(operation, id)| (operation.method.to_owned(), self.operation(operation, id))).collect();
        path.insert("parameters".into(), named.iter().chain(place).chain(&["pretty"]).map(|name| self.parameter(name)).collect());
        Value::Object(path)
    }

    fn operation(&self, operation: &Operation, id: &str) -> Value {
        let mut parameters: Vec<Value> = operation.parameters.iter().map(|name| self.parameter(name)).collect();
        let facts = &self.served.facts;
        let kind = json!({"group": facts.group, "version": facts.version, "kind": facts.kind});
        let mut responses = Map::new();
        for (code, text) in [("200", "OK")].iter().chain(operation.codes) {
            let mut response = self.content(operation.answer, &["application/json", "application/yaml"]);
            response["description"] = (*text).into();
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".into(), json!({"description": "Unauthorized"}));
        let mut written = json!({
            "tags": [self.tag],
            "description": operation.description,
            "operationId": format!("{}{}{id}", operation.id, self.prefix),
            "responses": responses,
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": kind,
        });
        let patches: &[&str] = &["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
        let media = if matches!(operation.body, Content::Patch) { patches } else { &["application/json", "application/yaml"] };
        let required = !matches!(operation.body, Content::DeleteOptions);
        if self.form == Form::Three {
            if !matches!(operation.body, Content::Nothing) {
                written["requestBody"] = self.content(operation.body, media);
                if required {
                    written["requestBody"]["required"] = true.into();
                }
            }
        } else {
            if !matches!(operation.body, Content::Nothing) {
                let mut body = self.content(operation.body, media);
                (body["name"], body["in"]) = ("body".into(), "body".into());
                if required {
                    body["required"] = true.into();
                }
                parameters.insert(0, body);
            }
            written["consumes"] = json!(media);
            written["produces"] = json!(["application/json", "application/yaml"]);
            written["schemes"] = json!(["https"]);
        }
        if !parameters.is_empty() {
            written["parameters"] = parameters.into();
        }
        written
    }

    fn parameter(&self, name: &str) -> Value {
        let mut parameter = match name {
            "name" => json!({"in": "path", "required": true, "description": format!("name of the {}", self.served.facts.kind)}),
            "namespace" => json!({"in": "path", "required": true}),
            _ => json!({"in": "query"}),
        };
        parameter["name"] = name.into();
        let schema = json!({"type": type_of(name), "uniqueItems": true});
        if self.form == Form::Three {
            parameter["schema"] = schema;
        } else {
            (parameter["type"], parameter["uniqueItems"]) = (schema["type"].clone(), true.into());
        }
        parameter
    }

    /// The content of a request or answer, by media type if the form knows these.
    fn content(&self, content: Content, media: &[&str]) -> Value {
        let name = match content {
            Content::Nothing => return json!({}),
            Content::Object => self.name.clone(),
            Content::List => format!("{}List", self.name),
            Content::Scale => SCALE.to_owned(),
            Content::Status => format!("{META}Status"),
            Content::DeleteOptions => format!("{META}DeleteOptions"),
            Content::Patch => format!("{META}Patch"),
        };
        let schema = json!({"schema": reference(&name, self.form)});
        if self.form == Form::Two {
            return schema;
        }
        let by_type: Map<String, Value> = media.iter().map(|one| ((*one).to_owned(), schema.clone())).collect();
        json!({"content": by_type})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-DISC-02: what version 2 leaves out, and what version 3 adds to a CRD's own words.
    #[test]
    fn schemas() {
        let own = json!({
            "type": "object",
            "properties": {
                "port": {"x-kubernetes-int-or-string": true},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "opt": {"type": "string", "nullable": true, "description": "d"},
                "n": {"type": "integer", "default": 1, "oneOf": [{"minimum": 1}]},
                "list": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true}},
            },
        });
        let (mut two, mut three) = (own.clone(), own);
        publish(&mut two, Form::Two);
        publish(&mut three, Form::Three);
        let meta = |form| described_reference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", METADATA, form);
        let embedded = |form| {
            json!({"type": "array", "items": {
                "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind", "apiVersion"],
                "properties": {"apiVersion": {"type": "string", "description": API_VERSION}, "kind": {"type": "string", "description": KIND}, "metadata": meta(form)},
            }})
        };
        assert_eq!(
            two["properties"],
            json!({
                "port": {"x-kubernetes-int-or-string": true},
                "raw": {"x-kubernetes-preserve-unknown-fields": true},
                "opt": {"description": "d"},
                "n": {"type": "integer"},
                "list": embedded(Form::Two),
            })
        );
        assert_eq!(
            three["properties"],
            json!({
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "opt": {"type": "string", "nullable": true, "description": "d"},
                "n": {"type": "integer", "default": 1, "oneOf": [{"minimum": 1}]},
                "list": embedded(Form::Three),
            })
        );
    }
}
