//! Questions and answers in the form of the records of upstream's answers: one JSON object an input, one an answer.

use jiff::Timestamp;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_schema::field;
use serde_json::{Map, Value, json};

use crate::Mode;
use crate::apply::{self, ApplyError, Change};
use crate::deletion::{self, Deletions, Object, Step};
use crate::precondition::{self, Found, Unmet, verdict};
use crate::validation;

/// A line that is not of the form of the recorded ones.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A field is missing or of another type.
    #[error("field {0} is missing or has another type")]
    Field(&'static str),
    /// A ClusterVersion cannot be read.
    #[error("the ClusterVersion cannot be read")]
    ClusterVersion(#[from] serde_json::Error),
    /// A mode that does not exist.
    #[error("unknown mode {0:?}; known are Initializing, Updating and Reconciling")]
    Mode(String),
    /// A manifest cannot be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

fn answered(line: &Value, answer: Value) -> Result<Value, CaseError> {
    let mut all = line.as_object().cloned().ok_or(CaseError::Field("type"))?;
    if let Value::Object(answer) = answer {
        all.extend(answer);
    }
    Ok(Value::Object(all))
}

/// Answers a line of the recorded form `merge`: what becomes of `live`, null for none, when the manifest `required` is applied.
pub fn merge(line: &Value) -> Result<Value, CaseError> {
    let live = line.get("live").filter(|live| !live.is_null());
    let manifest = line.get("required").filter(|manifest| manifest.is_object()).ok_or(CaseError::Field("required"))?;
    let (verbs, result): (&[&str], _) = match apply::change(live, manifest)? {
        Change::None => (&[], json!("unchanged")),
        Change::Create(object) => (&["create"], object),
        Change::Update(object) => (&["update"], object),
    };
    answered(line, json!({"modified": !verbs.is_empty(), "verbs": verbs, "result": typed(result)}))
}

/// The zero values that a typed client writes; a server takes them for nothing.
fn typed(mut object: Value) -> Value {
    let (list, field, zero) = match object["kind"].as_str() {
        Some("Service") => ("/spec/ports", "targetPort", json!(0)),
        Some("ImageStream") => ("/spec/tags", "referencePolicy", json!({"type": ""})),
        _ => return object,
    };
    for item in object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        item.entry(field).or_insert_with(|| zero.clone());
    }
    object
}

/// Answers a line of type `delete`, `precondition` or `validate`; any other type is none of these.
pub fn other(line: &Value) -> Result<Value, CaseError> {
    match line["type"].as_str() {
        Some("delete") => delete(line),
        Some("precondition") => preconditions(line),
        Some("validate") => validate(line),
        _ => Err(CaseError::Field("type")),
    }
}

fn delete(line: &Value) -> Result<Value, CaseError> {
    let named = line["object"].as_str().ok_or(CaseError::Field("object"))?;
    let name = named.split_once(' ').and_then(|(_, name)| name.split_once('/')).ok_or(CaseError::Field("object"))?;
    let mut manifest =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": name.0, "name": name.1, "annotations": {}}});
    if let Some(annotation) = line["annotation"].as_str() {
        manifest["metadata"]["annotations"][deletion::DELETE] = annotation.into();
    }
    let object = Object::of(&manifest);
    let mut deletions = Deletions::default();
    let steps = line["steps"].as_array().ok_or(CaseError::Field("steps"))?.iter().map(|step| {
        let (mode, present) = (mode(step)?, step["present"].as_bool().ok_or(CaseError::Field("present"))?);
        let mut requests: &[&str] = &[];
        let is_delete = deletion::is_deletion(&manifest["metadata"]["annotations"]);
        if is_delete == Ok(true) && deletions.observe(&object, present, mode, Timestamp::UNIX_EPOCH) == Step::Delete {
            requests = &["delete"];
            deletions.requested(object.clone(), None);
        }
        let mut answer = json!({
            "mode": step["mode"], "present": present, "isDelete": is_delete.as_ref().is_ok_and(|is| *is) || is_delete.is_err(),
            "requests": requests, "inProgress": deletions.in_progress(),
        });
        if let Err(error) = is_delete {
            answer["error"] = error.to_string().into();
        }
        Ok(answer)
    });
    let steps = steps.collect::<Result<Vec<Value>, CaseError>>()?;
    answered(line, json!({"steps": steps}))
}

fn mode(step: &Value) -> Result<Mode, CaseError> {
    match step["mode"].as_str() {
        Some("Initializing") => Ok(Mode::Initializing),
        Some("Updating") => Ok(Mode::Updating),
        Some("Reconciling") => Ok(Mode::Reconciling),
        other => Err(CaseError::Mode(other.unwrap_or_default().to_owned())),
    }
}

fn preconditions(line: &Value) -> Result<Value, CaseError> {
    let cluster_version = read(&line["clusterVersion"])?;
    let version = line["desiredVersion"].as_str().ok_or(CaseError::Field("desiredVersion"))?;
    let unmet = precondition::unmet(Found::ClusterVersion(&cluster_version), version);
    let verdict = verdict(&unmet, line["force"] == true);
    let told = |unmet: &Unmet| {
        json!({
            "name": unmet.precondition.name(), "reason": unmet.reason(), "error": unmet.problem.to_string(), "blocking": unmet.is_blocking(),
        })
    };
    let mut answer =
        json!({"errors": unmet.iter().map(told).collect::<Vec<_>>(), "block": verdict.as_ref().is_some_and(|verdict| verdict.blocks)});
    if let Some(verdict) = verdict {
        answer["summary"] = verdict.summary.into();
    }
    answered(line, answer)
}

fn validate(line: &Value) -> Result<Value, CaseError> {
    let mut object = line["input"].clone();
    object["metadata"] = json!({"name": line["input"]["name"]});
    let cluster_version = read(&object)?;
    let errors = validation::validate(&cluster_version);
    let told = |error: &field::Error| json!({"field": error.field.as_str(), "text": error.to_string(), "type": error.reason()});
    let told: Vec<Value> = errors.iter().map(told).collect();
    let cleared = validation::without_invalid(cluster_version, &errors).spec;
    // The fields as they were given, but for those that were cleared.
    let mut spec = line["input"]["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("clusterID".to_owned(), cleared.cluster_id.into());
        if cleared.upstream.is_empty() {
            spec.remove("upstream");
        }
        if cleared.desired_update.is_none() {
            spec.remove("desiredUpdate");
        }
    }
    answered(line, json!({"errors": told, "specAfterClearing": spec}))
}

/// A ClusterVersion in which anything may be null.
fn read(object: &Value) -> Result<ClusterVersion, CaseError> {
    Ok(serde_json::from_value(without_nulls(object))?)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), without_nulls(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
