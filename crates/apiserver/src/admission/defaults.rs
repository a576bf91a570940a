//! Small mutating steps: pod priority, default tolerations, the name label of catalogs.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{AdmissionStep, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::metadata_mut;

/// Priority: a pod's priority is that of its class.
pub struct Priority;

#[async_trait]
impl AdmissionStep for Priority {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.served.is("", "pods") || !request.subresource.is_empty() {
            return Ok(());
        }
        if request.operation == Operation::Update {
            // The priority of a pod that exists is kept when an update leaves it out.
            for field in ["priority", "preemptionPolicy"] {
                let before = request.old.and_then(|old| old.pointer("/spec")).and_then(|spec| spec.get(field)).cloned();
                if let (Some(before), Some(spec)) = (before, object.get_mut("spec").and_then(Value::as_object_mut)) {
                    spec.entry(field).or_insert(before);
                }
            }
            return Ok(());
        }
        let api = &request.context.api;
        let classes = api.built_in("scheduling.k8s.io", "priorityclasses")?;
        let wanted = object.pointer("/spec/priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let class = if wanted.is_empty() {
            let all = api.cache.resource(&classes.storage).list(&crate::cache::Scope::default());
            let defaults = all.iter().map(|entry| entry.value()).filter(|class| class["globalDefault"] == true);
            defaults.min_by_key(|class| class["value"].as_i64())
        } else {
            let found = api.load(&classes, "", &wanted).await?;
            let missing = || ApiError::forbidden("", "pods", &request.name, format!("no PriorityClass with name {wanted} was found"));
            Some(found.ok_or_else(missing)?.value)
        };
        let (value, policy, name) = match &class {
            Some(class) => (
                class["value"].as_i64().unwrap_or_default(),
                class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned(),
                class.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ),
            None => (0, "PreemptLowerPriority".to_owned(), String::new()),
        };
        let given = object.pointer("/spec/priority").and_then(Value::as_i64);
        if given.is_some_and(|given| given != value) {
            let why = format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
                given.unwrap_or_default()
            );
            return Err(ApiError::forbidden("", "pods", &request.name, why));
        }
        let given = object.pointer("/spec/preemptionPolicy").and_then(Value::as_str);
        if given.is_some_and(|given| given != policy) {
            let why = format!(
                "the string value of PreemptionPolicy ({}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name",
                given.unwrap_or_default()
            );
            return Err(ApiError::forbidden("", "pods", &request.name, why));
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("priority".into(), value.into());
            spec.insert("preemptionPolicy".into(), policy.into());
            if !name.is_empty() {
                spec.insert("priorityClassName".into(), name.into());
            }
        }
        Ok(())
    }
}

/// DefaultTolerationSeconds: a pod stays five minutes on a node that is not ready or not reachable.
pub struct DefaultTolerationSeconds;

#[async_trait]
impl AdmissionStep for DefaultTolerationSeconds {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.served.is("", "pods") || !request.subresource.is_empty() {
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

/// OLM1-CAT-03: a ClusterCatalog carries its name as a label.
pub struct CatalogName;

#[async_trait]
impl AdmissionStep for CatalogName {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.served.is("olm.operatorframework.io", "clustercatalogs") || !request.subresource.is_empty() {
            return Ok(());
        }
        let labels = metadata_mut(object).entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("olm.operatorframework.io/metadata.name".into(), request.name.clone().into());
        }
        Ok(())
    }
}
