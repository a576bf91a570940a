//! How long server-side apply takes for objects of several sizes: `cargo run --profile demo -p mainstay-merge --example apply_time`.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a tool for people")]

use std::time::Instant;

use mainstay_kinds::{Gvk, registry};
use mainstay_merge::{FieldSet, Write, apply};
use serde_json::{Map, Value, json};

fn main() {
    measure("Deployment, 3 containers", "apps/v1", "Deployment", 500, &deployment(3));
    measure(
        "Deployment, 1000 plain",
        "apps/v1",
        "Deployment",
        20,
        &with_containers(1000, |n| json!({"name": format!("c{n}"), "image": "i:1"})),
    );
    measure(
        "Deployment, 1000 env",
        "apps/v1",
        "Deployment",
        20,
        &with_containers(1, |_| {
            let env: Vec<Value> = (0..1000).map(|n| json!({"name": format!("E{n}"), "value": "v"})).collect();
            json!({"name": "c", "image": "i:1", "env": env})
        }),
    );
    measure("Deployment, 500 containers", "apps/v1", "Deployment", 5, &deployment(500));
    measure("Deployment, 2000 containers", "apps/v1", "Deployment", 2, &deployment(2000));
    measure("CRD, 1 MiB", "apiextensions.k8s.io/v1", "CustomResourceDefinition", 5, &crd());
}

/// Three managers apply the object; then the first repeats what is there, and at last leaves out part of it.
fn measure(name: &str, api_version: &str, kind: &str, rounds: u32, config: &Value) {
    let schema = registry().schema(&Gvk::of(api_version, kind)).expect("a built-in kind");
    let reset = FieldSet::new();
    let write = |manager: &'static str| Write {
        manager,
        api_version,
        subresource: "",
        schema: &schema,
        reset: &reset,
        now: "2026-01-01T00:00:00Z",
    };
    let mut live = Value::Null;
    for manager in ["first", "second", "third"] {
        live = apply(&live, config, &write(manager), true).expect("applies").object;
    }
    let timed = |config: &Value| {
        let begin = Instant::now();
        for _ in 0..rounds {
            apply(&live, config, &write("first"), false).expect("applies");
        }
        begin.elapsed() / rounds
    };
    let mut less = config.clone();
    if let Some(Value::Object(spec)) = less.get_mut("spec") {
        spec.remove(&spec.keys().next().cloned().unwrap_or_default());
    }
    println!("{name:<28} {:>8} bytes   {:?} the same   {:?} with less", config.to_string().len(), timed(config), timed(&less));
}

/// Containers with ten variables each.
fn deployment(containers: usize) -> Value {
    with_containers(containers, |n| {
        let env: Vec<Value> = (0..10).map(|n| json!({"name": format!("E{n}"), "value": "v"})).collect();
        json!({"name": format!("c{n}"), "image": "i:1", "env": env, "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}})
    })
}

fn with_containers(count: usize, container: impl Fn(usize) -> Value) -> Value {
    let containers: Vec<Value> = (0..count).map(container).collect();
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

fn crd() -> Value {
    fn level(depth: u32) -> Value {
        let properties: Map<String, Value> = (0..8)
            .map(|n| {
                let leaf = json!({"type": "string", "description": "Some words on what this field of the resource is for."});
                (format!("field{n}"), if depth == 0 { leaf } else { level(depth - 1) })
            })
            .collect();
        json!({"type": "object", "properties": properties})
    }
    let spec = level(3);
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": level(2)}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.e.com"},
        "spec": {"group": "e.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": level(3)}}}}]}})
}
