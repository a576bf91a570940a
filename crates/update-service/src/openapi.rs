//! The description of the interface (CVO-OSUS-03).

use serde_json::{Value, json};

/// The OpenAPI document; paths have the prefix.
pub(crate) fn document(prefix: &str) -> Value {
    let parameter = |name: &str, required: bool, about: &str, schema: Value| json!({"in": "query", "name": name, "required": required, "description": about, "schema": schema});
    let error = |about: &str| json!({"description": about, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/GraphError"}}}});
    let graph_schema = json!({"schema": {"$ref": "#/components/schemas/Graph"}});
    let graph = |id: &str| {
        json!({
            "parameters": [
                parameter("channel", true, "The channel of the cluster", json!({"type": "string", "pattern": r"^[0-9a-z\-\.]+$"})),
                parameter("arch", false, "The architecture of the cluster in Go's spelling, or multi", json!({"type": "string", "pattern": "^[0-9a-z]+$", "default": "amd64"})),
                parameter("version", false, "The version of the cluster; logged only", json!({"type": "string"})),
                parameter("id", false, "The ID of the cluster; logged only", json!({"type": "string"})),
            ],
            "get": {
                "summary": "Get the update graph of a channel and an architecture", "operationId": id,
                "responses": {
                    "200": {"description": "The graph", "content": {"application/json": graph_schema, "application/vnd.redhat.cincinnati.v1+json": graph_schema}},
                    "304": {"description": "The graph has the tag that the client knows"},
                    "400": error("A parameter is missing or invalid"),
                    "406": error("No media type that the client accepts is spoken"),
                    "500": error("There is no graph yet, or it cannot be written"),
                    "default": error("Another error"),
                },
            },
        })
    };
    let openapi = |id: &str| json!({"get": {"summary": "Get this document", "operationId": id, "responses": {"200": {"description": "The document", "content": {"application/json": {}}}}}});
    let text = json!({"type": "string"});
    let edge = json!({"type": "object", "required": ["from", "to"], "properties": {"from": text, "to": text}});
    let rule = json!({"type": "object", "required": ["type"], "properties": {
        "type": text, "promql": {"type": "object", "required": ["promql"], "properties": {"promql": text}},
    }});
    let risk = json!({"type": "object", "required": ["matchingRules"], "properties": {
        "url": text, "name": text, "message": text, "matchingRules": {"type": "array", "items": rule},
    }});
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Update service", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": {
            (format!("{prefix}/graph")): graph("getGraph"),
            (format!("{prefix}/v1/graph")): graph("getV1Graph"),
            (format!("{prefix}/openapi")): openapi("getOpenapi"),
            (format!("{prefix}/v1/openapi")): openapi("getV1Openapi"),
        },
        "components": {"schemas": {
            "Graph": {"type": "object", "required": ["version", "nodes", "edges", "conditionalEdges"], "properties": {
                "version": {"type": "integer", "format": "int32", "minimum": 1},
                "nodes": {"type": "array", "items": {"type": "object", "required": ["version", "payload", "metadata"], "properties": {
                    "version": text, "payload": text, "metadata": {"type": "object", "additionalProperties": text},
                }}},
                "edges": {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0}}},
                "conditionalEdges": {"type": "array", "items": {"type": "object", "required": ["edges", "risks"], "properties": {
                    "edges": {"type": "array", "items": edge}, "risks": {"type": "array", "items": risk},
                }}},
            }},
            "GraphError": {"type": "object", "required": ["kind", "value"], "properties": {"kind": text, "value": text}},
        }},
    })
}
