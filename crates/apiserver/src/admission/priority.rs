//! Priority: a pod's priority and preemption policy are those of its class; one class at most is the default.

use async_trait::async_trait;
use serde_json::Value;

use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::object::meta;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";

/// The step.
pub struct Priority;

#[async_trait]
impl AdmissionStep for Priority {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        if !request.writes("", "pods") {
            return Ok(());
        }
        if request.operation == Operation::Update {
            keep(request.old, object);
            return Ok(());
        }
        let wanted = object.pointer("/spec/priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
        let class = if wanted.is_empty() {
            default_class(request)?
        } else {
            let missing = || request.forbidden(format!("no PriorityClass with name {wanted} was found"));
            Some(request.find(GROUP, CLASSES, "", &wanted).await?.ok_or_else(missing)?)
        };
        let class = class.as_ref();
        let value = class.and_then(|class| class["value"].as_i64()).unwrap_or_default();
        let policy = class.and_then(|class| class["preemptionPolicy"].as_str()).unwrap_or("PreemptLowerPriority");
        let given = object.pointer("/spec/priority").and_then(Value::as_i64);
        if let Some(given) = given.filter(|given| *given != value) {
            return Err(request.forbidden(refusal(&format!("the integer value of priority ({given})"), &value.to_string())));
        }
        let given = object.pointer("/spec/preemptionPolicy").and_then(Value::as_str);
        if let Some(given) = given.filter(|given| *given != policy) {
            return Err(request.forbidden(refusal(&format!("the string value of PreemptionPolicy ({given})"), policy)));
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("priority".into(), value.into());
            spec.insert("preemptionPolicy".into(), policy.into());
            if let Some(class) = class {
                spec.insert("priorityClassName".into(), meta(class, "name").into());
            }
        }
        Ok(())
    }

    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let default = object.is_some_and(|class| request.writes(GROUP, CLASSES) && class["globalDefault"] == true);
        if !default {
            return Ok(());
        }
        let other = default_class(request)?.map(|class| meta(&class, "name").to_owned());
        match other.filter(|other| request.operation == Operation::Create || *other != request.name) {
            Some(other) => {
                Err(request.forbidden(format!("PriorityClass {other} is already marked as default. Only one default can exist")))
            }
            None => Ok(()),
        }
    }
}

fn refusal(what: &str, computed: &str) -> String {
    format!("{what} must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name")
}

/// The class of pods that name none. Where a race made several, the lowest.
fn default_class(request: &Request<'_>) -> Result<Option<Value>> {
    let classes = request.list(GROUP, CLASSES, "")?;
    let defaults = classes.into_iter().filter(|class| class["globalDefault"] == true);
    Ok(defaults.min_by_key(|class| class["value"].as_i64()))
}

/// Keeps the fields that an update of a pod leaves out.
fn keep(old: Option<&Value>, object: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        let before = old.and_then(|old| old.pointer("/spec")).and_then(|spec| spec.get(field)).cloned();
        if let (Some(before), Some(spec)) = (before, object.get_mut("spec").and_then(Value::as_object_mut)) {
            spec.entry(field).or_insert(before);
        }
    }
}
