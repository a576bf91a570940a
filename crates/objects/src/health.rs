//! Health of objects, by their own status.

use serde_json::Value;

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The object is as it should be.
    Ready,
    /// The object is not ready yet; with what is missing.
    Waiting(String),
    /// The object will not become ready without help; with the reason.
    Failed(String),
}

/// Returns the health of an object. Kinds that report nothing are ready when they exist.
pub fn health(object: &Value) -> Health {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Health::Waiting("is being deleted".into());
    }
    match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "CustomResourceDefinition" => crd(object),
        "Deployment" => deployment(object),
        "StatefulSet" => {
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            rollout(object, wanted, "readyReplicas").unwrap_or_else(|| updated(object, wanted, "updatedReplicas"))
        }
        "DaemonSet" => {
            let wanted = number(object, "/status/desiredNumberScheduled").unwrap_or(0);
            rollout(object, wanted, "numberAvailable").unwrap_or_else(|| updated(object, wanted, "updatedNumberScheduled"))
        }
        "ReplicaSet" => rollout(object, number(object, "/spec/replicas").unwrap_or(1), "availableReplicas").unwrap_or(Health::Ready),
        "Job" => match (condition(object, "Complete"), condition(object, "Failed")) {
            (_, Some(("True", why))) => Health::Failed(why),
            (Some(("True", _)), _) => Health::Ready,
            _ => Health::Waiting("not complete".into()),
        },
        "Pod" => pod(object),
        "APIService" => by_condition(object, "Available"),
        "Namespace" => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Terminating") => Health::Waiting("is terminating".into()),
            _ => Health::Ready,
        },
        "PersistentVolumeClaim" => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Lost") => Health::Failed("its volume is lost".into()),
            Some("Bound") => Health::Ready,
            other => Health::Waiting(format!("phase {}", other.unwrap_or("unknown"))),
        },
        _ => Health::Ready,
    }
}

fn crd(object: &Value) -> Health {
    if let Some(("False", why)) = condition(object, "NamesAccepted") {
        return Health::Failed(why);
    }
    by_condition(object, "Established")
}

fn deployment(object: &Value) -> Health {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    if let Some(("False", why)) = condition(object, "Progressing") {
        return Health::Failed(why);
    }
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let status = |name: &str| number(object, &format!("/status/{name}")).unwrap_or(0);
    let (new, all, available) = (status("updatedReplicas"), status("replicas"), status("availableReplicas"));
    // The user has to know why pods cannot be created.
    let short = |text: String| match condition(object, "ReplicaFailure") {
        Some(("True", why)) => Health::Waiting(format!("{text}: {why}")),
        _ => Health::Waiting(text),
    };
    if new < wanted {
        return short(format!("{new} of {wanted} pods are of the new template"));
    }
    if all > new {
        return Health::Waiting(if all - new == 1 {
            "1 old pod still runs".to_owned()
        } else {
            format!("{} old pods still run", all - new)
        });
    }
    if available < wanted {
        return short(format!("{available} of {wanted} pods are available"));
    }
    by_condition(object, "Available")
}

fn pod(object: &Value) -> Health {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => Health::Ready,
        Some("Failed") => Health::Failed(object.pointer("/status/message").and_then(Value::as_str).unwrap_or("the pod failed").to_owned()),
        _ => by_condition(object, "Ready"),
    }
}

fn rollout(object: &Value, wanted: i64, counter: &str) -> Option<Health> {
    if let Some(waiting) = unobserved(object) {
        return Some(waiting);
    }
    let ready = number(object, &format!("/status/{counter}")).unwrap_or(0);
    (ready < wanted).then(|| Health::Waiting(format!("{ready} of {wanted} pods are ready")))
}

fn updated(object: &Value, wanted: i64, counter: &str) -> Health {
    let new = number(object, &format!("/status/{counter}")).unwrap_or(0);
    if new < wanted { Health::Waiting(format!("{new} of {wanted} pods are of the new template")) } else { Health::Ready }
}

/// Returns the state of an object whose controller has not seen the newest spec yet; `None` if it has.
fn unobserved(object: &Value) -> Option<Health> {
    let generation = number(object, "/metadata/generation").unwrap_or(0);
    let observed = number(object, "/status/observedGeneration").unwrap_or(0);
    (observed < generation).then(|| Health::Waiting(format!("generation {generation} is not observed yet")))
}

fn by_condition(object: &Value, name: &str) -> Health {
    match condition(object, name) {
        Some(("True", _)) => Health::Ready,
        Some((_, why)) => Health::Waiting(why),
        None => Health::Waiting(format!("condition {name} is not reported yet")),
    }
}

/// Returns a condition's status, and its reason and message as one text.
fn condition<'a>(object: &'a Value, name: &str) -> Option<(&'a str, String)> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let condition = conditions.iter().find(|condition| condition.get("type").is_some_and(|kind| kind == name))?;
    let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
    let why = match (text("reason"), text("message")) {
        ("", "") => format!("condition {name} is {}", text("status")),
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    Some((text("status"), why))
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(object: &Value, wanted: &Health) {
        assert_eq!(&health(object), wanted, "{object}");
    }

    #[test]
    fn states() {
        let waiting = |text: &str| Health::Waiting(text.into());
        let crd = |conditions: Value| json!({"kind": "CustomResourceDefinition", "status": {"conditions": conditions}});
        check(&crd(json!([])), &waiting("condition Established is not reported yet"));
        check(&crd(json!([{"type": "Established", "status": "True"}])), &Health::Ready);
        check(
            &crd(json!([{"type": "NamesAccepted", "status": "False", "reason": "PluralConflict", "message": "\"x\" is already in use"}])),
            &Health::Failed("PluralConflict: \"x\" is already in use".into()),
        );
        let deployment =
            |status: Value| json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        check(&deployment(json!({"observedGeneration": 1})), &waiting("generation 2 is not observed yet"));
        check(
            &deployment(json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2})),
            &waiting("1 old pod still runs"),
        );
        check(
            &deployment(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
                "conditions": [{"type": "Available", "status": "True"}]})),
            &Health::Ready,
        );
        check(
            &deployment(
                json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}),
            ),
            &Health::Failed("ProgressDeadlineExceeded".into()),
        );
        check(
            &deployment(json!({"observedGeneration": 2, "conditions": [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}]})),
            &waiting("0 of 2 pods are of the new template: FailedCreate: exceeded quota"),
        );
        check(&json!({"kind": "ConfigMap"}), &Health::Ready);
        check(&json!({"kind": "ConfigMap", "metadata": {"deletionTimestamp": "x"}}), &waiting("is being deleted"));
    }
}
