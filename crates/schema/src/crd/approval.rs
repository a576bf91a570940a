//! Groups under k8s.io and kubernetes.io need the word of the Kubernetes project, or an admission that it is missing.

use serde_json::Value;

use super::{Condition, text};

pub(super) const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The meaning of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

/// The condition `KubernetesAPIApprovalPolicyConformant`; `None` for groups that need no approval.
pub fn approval(crd: &Value) -> Option<Condition> {
    if !is_protected(&text(&crd["spec"], "group")) {
        return None;
    }
    let (state, message) = state(crd);
    let (status, reason) = match state {
        State::Missing => (false, "MissingAnnotation"),
        State::Bypassed => (false, "UnapprovedAnnotation"),
        State::Approved => (true, "ApprovedAnnotation"),
        State::Invalid => (false, "InvalidAnnotation"),
    };
    Some(Condition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason, message })
}

pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

pub(super) fn state(crd: &Value) -> (State, String) {
    let annotation = crd["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default();
    if annotation.is_empty() {
        return (State::Missing, format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}"));
    }
    if annotation.starts_with("unapproved") {
        return (State::Bypassed, format!("not approved: {annotation:?}"));
    }
    let host = annotation
        .split_once("://")
        .filter(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric()));
    if host.is_some_and(|(_, rest)| !rest.is_empty() && !rest.starts_with(['/', '?', '#'])) {
        return (State::Approved, format!("approved in {annotation}"));
    }
    let message = format!(
        "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \"unapproved\", {SEE}"
    );
    (State::Invalid, message)
}
