//! The begin of a CRD's deletion, and its conditions.

use mainstay_schema::crd::Condition;
use serde_json::{Value, json};

use crate::object::{meta, meta_list, metadata_mut};

/// Holds a CRD until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a CRD whose deletion begins: its instances go first.
pub fn mark_deleted(crd: &mut Value) {
    let mut finalizers = meta_list(crd, "finalizers");
    if !meta(crd, "deletionTimestamp").is_empty() || finalizers.iter().any(|one| one == FINALIZER) {
        return;
    }
    finalizers.push(FINALIZER.to_owned());
    metadata_mut(crd).insert("finalizers".into(), finalizers.into());
    let condition = Condition {
        kind: "Terminating",
        status: true,
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon".into(),
    };
    set_condition(crd, &condition);
}

/// Sets a condition; its time moves with its status alone.
pub(super) fn set_condition(crd: &mut Value, condition: &Condition) {
    let status = if condition.status { "True" } else { "False" };
    let wanted = json!({
        "type": condition.kind, "status": status, "reason": condition.reason, "message": condition.message,
        "lastTransitionTime": crate::clock::now(),
    });
    let list = &mut crd["status"]["conditions"];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|one| one["type"] == condition.kind) {
        None => list.push(wanted),
        Some(known) => {
            let same = known["status"] == wanted["status"];
            if same && known["reason"] == wanted["reason"] && known["message"] == wanted["message"] {
                return;
            }
            let time = known["lastTransitionTime"].clone();
            *known = wanted;
            if same {
                known["lastTransitionTime"] = time;
            }
        }
    }
}
