//! Field selectors (KAPI-REST-02): the fields of a kind that can narrow a list.

use serde_json::Value;

use crate::Gvk;
use crate::validate::has;

const EVERY: &[&str] = &["metadata.name", "metadata.namespace"];

/// The fields that a kind's lists can be selected by.
pub fn field_selectors(gvk: &Gvk) -> &'static [&'static str] {
    match gvk.group_kind() {
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "Namespace") => &["metadata.name", "metadata.namespace", "status.phase"],
        ("", "Node") => &["metadata.name", "metadata.namespace", "spec.unschedulable"],
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        // ReplicaSets have it, too, but no version of their group lets one select by it.
        ("", "ReplicationController") => &["metadata.name", "metadata.namespace", "status.replicas"],
        ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["metadata.name", "metadata.namespace", "spec.signerName"],
        ("networking.k8s.io", "IPAddress") => &["metadata.name", "metadata.namespace", "spec.parentRef.name", "spec.parentRef.resource"],
        ("resource.k8s.io", "ResourceSlice") => &["metadata.name", "spec.nodeName", "spec.driver"],
        _ => EVERY,
    }
}

/// The value of a selectable field; empty if the object does not have it. `None` if lists of the kind cannot be selected by it.
pub fn field_value(gvk: &Gvk, object: &Value, field: &str) -> Option<String> {
    if !field_selectors(gvk).contains(&field) {
        return None;
    }
    let field = match (gvk.kind.as_str(), field) {
        ("Job", "status.successful") => "status.succeeded",
        ("Event", "source") => "source.component",
        ("Pod", "status.podIPs") => {
            let addresses = object.pointer("/status/podIPs").and_then(Value::as_array);
            let first = addresses.and_then(|all| all.first()).and_then(|entry| entry.get("ip")).and_then(Value::as_str);
            return Some(first.unwrap_or_default().to_owned());
        }
        (_, field) => field,
    };
    let mut value = object;
    for part in field.split('.') {
        value = value.get(part).unwrap_or(&Value::Null);
    }
    // The source of an event is the component that reports it, under its old name or its new one.
    if field == "source.component" && !value.is_string() && has(object, "reportingComponent") {
        value = object.get("reportingComponent").unwrap_or(&Value::Null);
    }
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Null if field == "spec.unschedulable" || field == "spec.hostNetwork" => "false".into(),
        Value::Null if field == "status.replicas" || field == "status.succeeded" => "0".into(),
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

/// Kubernetes' message about a field that lists of this kind cannot be selected by.
pub fn unsupported_field(gvk: &Gvk, field: &str) -> String {
    let events = gvk.kind == "Event";
    match gvk.group_kind() {
        ("", "Pod" | "Event" | "Namespace" | "Node" | "Secret" | "Service" | "ReplicationController")
        | ("batch", "Job")
        | ("certificates.k8s.io" | "events.k8s.io", _)
        | ("networking.k8s.io", "IPAddress") => {
            if matches!(gvk.kind.as_str(), "Job" | "CertificateSigningRequest" | "IPAddress") || (events && !gvk.group.is_empty()) {
                return format!("field label {field:?} not supported for {}", gvk.kind);
            }
            format!("field label not supported: {field}")
        }
        ("resource.k8s.io", "ResourceSlice") => {
            format!("field label not supported for {}/{}, Kind={}: {field}", gvk.group, gvk.version, gvk.kind)
        }
        _ => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// KAPI-REST-02: fields by which lists can be selected, and what is said of others.
    #[test]
    fn selectable_fields() {
        let pod = Gvk::new("", "v1", "Pod");
        let object = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        assert_eq!(field_value(&pod, &object, "spec.nodeName").as_deref(), Some("n"));
        assert_eq!(field_value(&pod, &object, "status.podIP").as_deref(), Some(""));
        assert_eq!(field_value(&pod, &object, "spec.none"), None);
        assert_eq!(unsupported_field(&pod, "spec.none"), "field label not supported: spec.none");
        assert_eq!(
            unsupported_field(&Gvk::new("apps", "v1", "Deployment"), "spec.replicas"),
            "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }
}
