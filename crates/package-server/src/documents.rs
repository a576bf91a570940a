//! Discovery and OpenAPI of the group: what clients ask before they ask for packages.

use serde_json::{Value, json};

use crate::manifest::{API_VERSION, GROUP, KIND, RESOURCE};

/// The version of the group.
const VERSION: &str = "v1";
/// The name of the schema in OpenAPI documents.
const MODEL: &str = "com.coreos.operators.packages.v1.PackageManifest";

/// Returns the document at a path; `None` if there is none.
pub fn document(path: &str) -> Option<Value> {
    let trimmed = path.trim_end_matches('/');
    let version = format!("/apis/{API_VERSION}");
    let group = format!("/apis/{GROUP}");
    let v3 = format!("/openapi/v3{version}");
    match trimmed {
        "" => {
            Some(json!({"paths": ["/apis", group, version, "/healthz", "/livez", "/openapi/v2", "/openapi/v3", v3, "/readyz", "/version"]}))
        }
        "/apis" => Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group(false)]})),
        "/openapi/v2" => Some(openapi_v2()),
        "/openapi/v3" => Some(json!({"paths": {version.trim_start_matches('/'): {"serverRelativeURL": v3}}})),
        "/version" => Some(json!({"major": "1", "minor": "0", "gitVersion": format!("v{}", env!("CARGO_PKG_VERSION"))})),
        other if other == group => Some(api_group(true)),
        other if other == version => Some(resources()),
        other if other == v3 => Some(openapi_v3()),
        _ => None,
    }
}

fn api_group(alone: bool) -> Value {
    let version = json!({"groupVersion": API_VERSION, "version": VERSION});
    let mut group = json!({"name": GROUP, "versions": [version], "preferredVersion": version});
    if alone {
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
    }
    group
}

fn resources() -> Value {
    let singular = KIND.to_lowercase();
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION,
        "resources": [
            {"name": RESOURCE, "singularName": singular, "namespaced": true, "kind": KIND, "verbs": ["get", "list"]},
            {"name": format!("{RESOURCE}/icon"), "singularName": "", "namespaced": true, "kind": KIND, "verbs": ["get"]},
        ],
    })
}

fn kind() -> Value {
    json!({"group": GROUP, "version": VERSION, "kind": KIND})
}

/// The paths with what each answers; `answer` is the answer in the form of the document's version.
fn paths(answer: impl Fn(bool) -> Value, parameter: impl Fn(&str) -> Value) -> Value {
    let all = format!("/apis/{API_VERSION}/{RESOURCE}");
    let namespaced = format!("/apis/{API_VERSION}/namespaces/{{namespace}}/{RESOURCE}");
    let operation = |action: &str, id: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters.iter().map(|name| parameter(name)).collect();
        json!({
            "get": {
                "description": if action == "list" { "list the packages that can be installed" } else { "read a package" },
                "operationId": id, "tags": ["packagesOperatorsCoreosCom_v1"],
                "responses": {"200": answer(action == "list")},
                "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind(),
            },
            "parameters": parameters,
        })
    };
    json!({
        all: operation("list", "listPackageManifestForAllNamespaces", &[]),
        format!("{namespaced}/{{name}}"): operation("get", "readNamespacedPackageManifest", &["name", "namespace"]),
        namespaced: operation("list", "listNamespacedPackageManifest", &["namespace"]),
    })
}

fn openapi_v2() -> Value {
    let reference = |list: bool| json!({"$ref": format!("#/definitions/{MODEL}{}", if list { "List" } else { "" })});
    let answer = |list| json!({"description": "OK", "schema": reference(list)});
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true});
    json!({
        "swagger": "2.0",
        "info": {"title": "package-server", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths(answer, parameter),
        "definitions": {MODEL: manifest(), format!("{MODEL}List"): list(&reference(false))},
    })
}

fn openapi_v3() -> Value {
    let reference = |list: bool| json!({"$ref": format!("#/components/schemas/{MODEL}{}", if list { "List" } else { "" })});
    let answer = |list| json!({"description": "OK", "content": {"application/json": {"schema": reference(list)}}});
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}});
    json!({
        "openapi": "3.0.0",
        "info": {"title": "package-server", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths(answer, parameter),
        "components": {"schemas": {MODEL: manifest(), format!("{MODEL}List"): list(&reference(false))}},
    })
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn object(description: &str, properties: impl Into<Value>) -> Value {
    json!({"type": "object", "description": description, "properties": properties.into()})
}

fn array(description: &str, items: impl Into<Value>) -> Value {
    json!({"type": "array", "description": description, "items": items.into()})
}

fn map(description: &str) -> Value {
    json!({"type": "object", "description": description, "additionalProperties": {"type": "string"}})
}

fn list(item: &Value) -> Value {
    let mut schema = object(
        "A list of packages.",
        json!({
            "apiVersion": text("The version of this form."), "kind": text("The kind."),
            "metadata": {"type": "object", "description": "Metadata of the list."}, "items": array("The packages.", item.clone()),
        }),
    );
    schema["required"] = json!(["items"]);
    schema["x-kubernetes-group-version-kind"] = json!([{"group": GROUP, "version": VERSION, "kind": format!("{KIND}List")}]);
    schema
}

/// The schema of a PackageManifest.
fn manifest() -> Value {
    let deprecation = || object("Why it is deprecated.", json!({"message": text("For people.")}));
    let link = |description: &str| object(description, json!({"name": text("The name."), "url": text("The page.")}));
    let served = |description: &str| {
        let fields = json!({
            "name": text("The name of its definition."), "group": text("Its group."), "version": text("Its version."), "kind": text("Its kind."),
            "displayName": text("Its name for people."), "description": text("What it is for."),
        });
        let items = object("A kind.", fields);
        object(
            description,
            json!({"owned": array("Those that it serves.", items.clone()), "required": array("Those that others serve for it.", items)}),
        )
    };
    let description = json!({
        "displayName": text("Its name for people."), "version": text("Its semantic version."),
        "description": text("What it does, in Markdown."), "provider": link("Who provides it."),
        "annotations": map("Its annotations."), "keywords": array("Words by which it is found.", json!({"type": "string"})),
        "links": array("Pages about it.", link("A page.")),
        "maintainers": array("Who maintains it.", object("A maintainer.", json!({"name": text("Their name."), "email": text("Their address.")}))),
        "maturity": text("How mature it is."),
        "installModes": array("The sets of namespaces that it can watch.",
            object("A set.", json!({"type": text("The set."), "supported": {"type": "boolean", "description": "Whether it is supported."}}))),
        "customresourcedefinitions": served("Its custom resources."), "apiservicedefinitions": served("Its aggregated APIs."),
        "nativeApis": array("Kinds that the cluster itself must serve.",
            object("A kind.", json!({"group": text("Its group."), "version": text("Its version."), "kind": text("Its kind.")}))),
        "minKubeVersion": text("The oldest version of Kubernetes that it runs on."),
        "relatedImages": array("All images that it needs.", json!({"type": "string"})),
    });
    let entry = json!({"name": text("The version's name."), "version": text("Its semantic version."), "deprecation": deprecation()});
    let channel = json!({
        "name": text("Its name."), "currentCSV": text("The version at its head."),
        "currentCSVDesc": object("The description of that version.", description),
        "deprecation": deprecation(), "entries": array("Its versions, the highest first.", object("A version.", entry)),
    });
    let status = json!({
        "catalogSource": text("The name of its CatalogSource."), "catalogSourceDisplayName": text("The catalog's name for people."),
        "catalogSourcePublisher": text("The publisher of the catalog."), "catalogSourceNamespace": text("The namespace of its CatalogSource."),
        "provider": link("Who provides the package."), "packageName": text("The package."), "deprecation": deprecation(),
        "channels": array("Its channels, by name.", object("A channel.", channel)),
        "defaultChannel": text("The channel that is followed unless another one is asked for."),
    });
    let mut schema = object(
        "A package of a catalog, with its channels. It is computed from the catalog and cannot be written.",
        json!({
            "apiVersion": text("The version of this form."), "kind": text("The kind."),
            "metadata": {"type": "object", "description": "Standard metadata of the object."},
            "spec": {"type": "object", "description": "Always empty."}, "status": object("What the catalog says of the package.", status),
        }),
    );
    schema["x-kubernetes-group-version-kind"] = json!([kind()]);
    schema
}
