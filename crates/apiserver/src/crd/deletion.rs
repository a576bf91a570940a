//! The begin of a CRD's deletion, and its conditions.

use mainstay_objects::{self as objects, set_condition};
use mainstay_schema::crd::Condition;
use serde_json::Value;

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
    set(crd, &condition);
}

/// Sets a condition of a CRD.
pub(super) fn set(crd: &mut Value, wanted: &Condition) {
    let Condition { kind, status, reason, message, .. } = wanted;
    set_condition(crd, &objects::Condition { kind, status: *status, reason, message }, &crate::clock::now());
}
