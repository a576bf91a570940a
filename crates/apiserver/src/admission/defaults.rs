//! Small plugins that fill something in, or look at one field.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::step::{AdmissionStep, Request};
use crate::error::Result;
use crate::object::meta;

/// DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or not reachable.
pub struct DefaultTolerationSeconds;

#[async_trait]
impl AdmissionStep for DefaultTolerationSeconds {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.writes("", "pods") {
            return Ok(());
        }
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let list = spec.entry("tolerations").or_insert_with(|| json!([]));
        let Some(list) = list.as_array_mut() else { return Ok(()) };
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            let tolerated = list.iter().any(|one| {
                let found = one["key"].as_str().unwrap_or_default();
                let effect = one["effect"].as_str().unwrap_or_default();
                (found == key || found.is_empty()) && (effect.is_empty() || effect == "NoExecute")
            });
            if !tolerated {
                list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            }
        }
        Ok(())
    }
}

/// TaintNodesByCondition: a new node takes no pods before its controller has seen it ready.
pub struct TaintNodesByCondition;

#[async_trait]
impl AdmissionStep for TaintNodesByCondition {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        const KEY: &str = "node.kubernetes.io/not-ready";
        if !request.creates("", "nodes") {
            return Ok(());
        }
        let taints = &mut object["spec"]["taints"];
        if !taints.is_array() {
            *taints = json!([]);
        }
        if let Some(taints) = taints.as_array_mut()
            && !taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule")
        {
            taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        }
        Ok(())
    }
}

/// AlwaysPullImages (an option): nobody runs an image of a node's store that they could not pull themselves.
pub struct AlwaysPullImages;

#[async_trait]
impl AdmissionStep for AlwaysPullImages {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.writes("", "pods") {
            return Ok(());
        }
        for field in ["initContainers", "containers", "ephemeralContainers"] {
            let containers = object.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                container["imagePullPolicy"] = "Always".into();
            }
        }
        Ok(())
    }
}

/// Of the classes that are marked as default with one of these annotations the newest, by name where several are.
pub(super) fn default_class(classes: Vec<Value>, annotations: &[&str]) -> Option<String> {
    let marked = |class: &Value| {
        let given = class.pointer("/metadata/annotations");
        annotations.iter().any(|name| given.and_then(|given| given.get(name)).is_some_and(|value| value == "true"))
    };
    let order = |one: &Value, two: &Value| {
        meta(one, "creationTimestamp").cmp(meta(two, "creationTimestamp")).then_with(|| meta(two, "name").cmp(meta(one, "name")))
    };
    classes.into_iter().filter(|class| marked(class)).max_by(order).map(|class| meta(&class, "name").to_owned())
}

/// DefaultIngressClass: an Ingress that names no class gets the default one.
pub struct DefaultIngressClass;

#[async_trait]
impl AdmissionStep for DefaultIngressClass {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        let named = object.pointer("/spec/ingressClassName").is_some_and(|name| !name.is_null());
        let annotated = object.pointer("/metadata/annotations").is_some_and(|all| all.get("kubernetes.io/ingress.class").is_some());
        if !request.creates("networking.k8s.io", "ingresses") || named || annotated {
            return Ok(());
        }
        let classes = request.list("networking.k8s.io", "ingressclasses", "")?;
        if let Some(class) = default_class(classes, &["ingressclass.kubernetes.io/is-default-class"]) {
            object["spec"]["ingressClassName"] = class.into();
        }
        Ok(())
    }
}

/// DenyServiceExternalIPs (an option): Services get no further external addresses.
pub struct DenyServiceExternalIPs;

#[async_trait]
impl AdmissionStep for DenyServiceExternalIPs {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let addresses = |service: Option<&Value>| {
            service.and_then(|service| service.pointer("/spec/externalIPs")).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let old = addresses(request.old);
        if request.writes("", "services") && addresses(object).iter().any(|address| !old.contains(address)) {
            return Err(request.forbidden("Use of external IPs is denied by admission control"));
        }
        Ok(())
    }
}
