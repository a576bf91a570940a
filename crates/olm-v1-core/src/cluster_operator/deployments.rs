//! Settings of the cluster in the controllers' Deployments (OLM1-GEN-06, OLM1-GEN-08).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::gates::{Component, argument};

/// The annotation with the variables that were copied, so that a later run recognizes them.
pub const COPIED: &str = "lifecycle.mainstay.dev/copied-proxy-variables";
const ARGUMENT: &str = "--feature-gates=";
const VARIABLES: [(&str, &str); 3] = [("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"), ("NO_PROXY", "noProxy")];

/// Causes for which a Deployment stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentError {
    /// A variable of the proxy was set by another writer.
    #[error(
        "deployment {deployment}: container {container} has the variable {variable} already; the cluster's proxy is not copied over it"
    )]
    Taken {
        /// The Deployment.
        deployment: String,
        /// The container.
        container: String,
        /// The variable.
        variable: &'static str,
    },
}

/// The desired Deployment; `None` if it needs no change. `proxy` is the `status` of `proxies.config.openshift.io/cluster`, `enabled` the
/// OpenShift feature gates that are on. An absent setting changes nothing.
pub fn plan(
    deployment: &Value,
    component: Component,
    proxy: Option<&Value>,
    enabled: Option<&BTreeSet<String>>,
) -> Result<Option<Value>, DeploymentError> {
    let mut wanted = deployment.clone();
    if let Some(proxy) = proxy {
        copy(&mut wanted, proxy)?;
    }
    if let Some(enabled) = enabled
        && let Some(container) = containers(&mut wanted, "containers").next()
    {
        let mut arguments = container.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        arguments.retain(|each| each.as_str().is_none_or(|text| !text.starts_with(ARGUMENT)));
        arguments.extend(argument(component, enabled).map(Value::String));
        set(container, "args", Value::Array(arguments));
    }
    Ok((wanted != *deployment).then_some(wanted))
}

/// The JSON patch that makes the change, if the Deployment is still at the observed version.
pub fn patch(live: &Value, wanted: &Value) -> Value {
    let mut operations = vec![json!({"op": "add", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]})];
    for path in ["/metadata/annotations", "/spec/template/spec"] {
        if let Some(value) = wanted.pointer(path).filter(|value| live.pointer(path) != Some(value)) {
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
    }
    Value::Array(operations)
}

/// The note of the event about the changed Deployment. It has no values, because the proxy may contain credentials.
pub fn told(live: &Value, wanted: &Value) -> String {
    let copied = |of: &Value| of.pointer("/metadata/annotations").and_then(|all| all.get(COPIED)).cloned().unwrap_or_default();
    let lists = |of: &Value, list: &str| -> Vec<Value> {
        let containers = of.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten();
        containers.map(|container| container[list].clone()).collect()
    };
    let proxy = || match copied(wanted).as_str().unwrap_or_default() {
        "" => "the cluster's proxy is no longer copied".to_owned(),
        names => format!("the cluster's proxy was copied into {names}"),
    };
    let gates = || {
        let arguments = lists(wanted, "args");
        let mut arguments = arguments.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        match arguments.find_map(|text| text.strip_prefix(ARGUMENT)) {
            None => "the feature gates are the defaults".to_owned(),
            Some(gates) => format!("the feature gates are {gates}"),
        }
    };
    let mut told = Vec::new();
    if copied(live) != copied(wanted) || lists(live, "env") != lists(wanted, "env") {
        told.push(proxy());
    }
    if lists(live, "args") != lists(wanted, "args") {
        told.push(gates());
    }
    told.join("; ")
}

/// Copies the proxy's values into every container. Values that were copied before are replaced; values of other writers are not.
fn copy(deployment: &mut Value, proxy: &Value) -> Result<(), DeploymentError> {
    let name = deployment["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let before = deployment.pointer("/metadata/annotations").and_then(|all| all.get(COPIED)).and_then(Value::as_str);
    let before = before.unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = before.split(',').map(str::to_owned).collect();
    let value = |field: &str| proxy.get(field).and_then(Value::as_str).filter(|value| !value.is_empty());
    let values: Vec<(&'static str, &str)> = VARIABLES.iter().filter_map(|(name, field)| Some((*name, value(field)?))).collect();
    for list in ["initContainers", "containers"] {
        for container in containers(deployment, list) {
            let mut variables = container.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
            variables.retain(|each| each["name"].as_str().is_none_or(|name| !ours.contains(name)));
            for (variable, value) in &values {
                if variables.iter().any(|each| each["name"] == *variable) {
                    let container = container["name"].as_str().unwrap_or_default().to_owned();
                    return Err(DeploymentError::Taken { deployment: name, container, variable });
                }
                variables.push(json!({"name": variable, "value": value}));
            }
            set(container, "env", Value::Array(variables));
        }
    }
    let copied = values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    if copied != before
        && let Some(metadata) = deployment["metadata"].as_object_mut()
    {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[COPIED] = json!(copied);
    }
    Ok(())
}

fn containers<'a>(deployment: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    deployment.pointer_mut(&format!("/spec/template/spec/{list}")).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a list. A field that is absent stays absent if the list is empty.
fn set(container: &mut Value, field: &str, list: Value) {
    if let Some(container) = container.as_object_mut()
        && (container.contains_key(field) || list != json!([]))
    {
        container.insert(field.to_owned(), list);
    }
}
