//! Access of administrators to devices that are in use.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::super::flag;
use crate::Gvk;

/// The label of namespaces in which administrators may have such access.
const LABEL: &str = "resource.kubernetes.io/admin-access";

/// The field of a claim, of a template of claims or of a claim's status by which it newly asks for the access of an administrator.
pub fn admin_access(gvk: &Gvk, new: &Value, old: Option<&Value>, subresource: Option<&str>) -> Option<Path> {
    const RESULTS: &str = "/status/allocation/devices/results";
    let first = |holder: &Value, pointer: &str, asks: &dyn Fn(&Value) -> bool| {
        holder.pointer(pointer).and_then(Value::as_array).and_then(|all| all.iter().position(asks))
    };
    let request = |request: &Value| request.get("exactly").is_some_and(|exactly| flag(exactly, "adminAccess"));
    let result = |result: &Value| flag(result, "adminAccess");
    let (fields, index): (&[&str], usize) = match (gvk.group_kind(), old, subresource) {
        (("resource.k8s.io", "ResourceClaim"), None, None) => {
            (&["spec", "devices", "requests"], first(new, "/spec/devices/requests", &request)?)
        }
        // Upstream names the field as that of a claim.
        (("resource.k8s.io", "ResourceClaimTemplate"), None, None) => {
            (&["spec", "devices", "requests"], first(new, "/spec/spec/devices/requests", &request)?)
        }
        (("resource.k8s.io", "ResourceClaim"), Some(old), Some("status")) if first(old, RESULTS, &result).is_none() => {
            (&["status", "allocation", "devices", "results"], first(new, RESULTS, &result)?)
        }
        _ => return None,
    };
    Some(Path::root().children(fields).index(index).child("adminAccess"))
}

/// The finding about a field that [`admin_access`] named, if the namespace does not allow it.
pub fn refuse_admin_access(field: &Path, namespace: Option<&Value>) -> Option<Error> {
    let labels = namespace.and_then(|namespace| namespace.pointer("/metadata/labels"));
    let allowed = labels.and_then(|labels| labels.get(LABEL)).is_some_and(|value| value == "true");
    let words = || format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
    (!allowed).then(|| Error::forbidden(field, words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// KAPI-REST-07: access of administrators is for labelled namespaces.
    #[test]
    fn admin_access_needs_a_label() {
        let gvk = |kind: &str| Gvk::new("resource.k8s.io", "v1", kind);
        let spec = |asks: bool| json!({"devices": {"requests": [{"name": "a", "firstAvailable": []}, {"exactly": {"adminAccess": asks}}]}});
        let claim = json!({"spec": spec(true)});
        let field = admin_access(&gvk("ResourceClaim"), &claim, None, None);
        assert_eq!(field, admin_access(&gvk("ResourceClaimTemplate"), &json!({"spec": {"spec": spec(true)}}), None, None));
        assert_eq!(field.as_ref().map(Path::as_str), Some("spec.devices.requests[1].adminAccess"));
        assert_eq!(admin_access(&gvk("ResourceClaim"), &json!({"spec": spec(false)}), None, None), None);
        assert_eq!(admin_access(&gvk("ResourceClaim"), &claim, Some(&claim), None), None);
        let status = json!({"status": {"allocation": {"devices": {"results": [{"adminAccess": true}]}}}});
        let of_status = admin_access(&gvk("ResourceClaim"), &status, Some(&claim), Some("status"));
        assert_eq!(of_status.as_ref().map(Path::as_str), Some("status.allocation.devices.results[0].adminAccess"));
        assert_eq!(admin_access(&gvk("ResourceClaim"), &status, Some(&status), Some("status")), None);
        let labelled = json!({"metadata": {"labels": {LABEL: "true"}}});
        let refused = |namespace: Option<&Value>| field.as_ref().and_then(|field| refuse_admin_access(field, namespace));
        assert_eq!(refused(Some(&labelled)), None);
        assert_eq!(
            refused(None).map(|error| error.body()).as_deref(),
            Some(
                "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
            )
        );
    }
}
