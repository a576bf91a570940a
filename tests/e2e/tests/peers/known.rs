//! Differences that stay, each with its reason; `docs/classic.md` names them, too.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::difference::Difference;

/// Object, field, and why it differs.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "ClusterServiceVersion .*",
        "/metadata/labels/olm\\.api\\..*",
        "upstream compares a pointer with a type and never writes them (OLM0-CSV-07)",
    ),
    ("ClusterServiceVersion .*", "/status/cleanup", "an empty field that Go writes"),
    ("Operator .*", "/spec", "an empty field that Go writes"),
    ("Subscription .*", "/status/conditions/\\d+/lastTransitionTime", "upstream leaves the time out of what it says about a resolution"),
    (
        "Operator .*",
        "/status/components/refs/Subscription .*/conditions/\\d+/lastTransitionTime",
        "upstream leaves the time out of what it says about a resolution",
    ),
    (
        "(InstallPlan|OperatorGroup) .*",
        "/status/(attenuatedServiceAccountRef|serviceAccountRef)/resourceVersion",
        "a reference to an account that lasts names no version of it",
    ),
    ("ServiceAccount .*/installer", "/metadata/labels", "upstream labels the account of an OperatorGroup, which is its user's"),
    (
        "ClusterRole .*",
        "/metadata/labels/olm\\.opgroup\\.permissions~1aggregate-to-(admin|edit|view)",
        "a label that OpenShift documents (OLM0-OG-13)",
    ),
    ("ClusterRole .*", "/metadata/ownerReferences/0/kind", "upstream writes the kind in lower case, which no garbage collector finds"),
    ("Role .*", "/rules/0/resources", "operators may write the status of their OperatorCondition (OLM0-COND-02)"),
    (
        "ClusterRole .*",
        "/metadata/labels/olm\\.owner(\\.kind|\\.namespace)?",
        "roles of a bundle belong to its CSV, and go with it (OLM0-IP-07)",
    ),
    ("(Role|RoleBinding) .*", "/metadata/ownerReferences", "roles of a bundle belong to its CSV, and go with it"),
    ("(Role|RoleBinding) .*", "/metadata/labels/operators\\.coreos\\.com~1.*", "roles of a bundle belong to its CSV, and go with it"),
    ("Operator .*", "/status/components/refs/(Cluster)?Role(Binding)? .*", "roles of a bundle belong to its CSV"),
    ("OperatorCondition .*", "/spec/serviceAccounts", "upstream names an account twice that has rules of both kinds"),
    ("RoleBinding .*", "/subjects", "upstream names an account twice that has rules of both kinds"),
    (
        "ClusterServiceVersion .*",
        "/status/requirementStatus/\\d+/dependents",
        "upstream forgets the rules of a namespace that it found granted",
    ),
    ("ClusterServiceVersion .*", "/status/certs(LastUpdated|RotateAt)", "upstream loses them if its first write of the status is late"),
    (
        "Event ClusterServiceVersion .* (RequirementsUnknown|RequirementsNotMet|InstallWaiting|NeedsReinstall) .*",
        "",
        "how many steps are seen on the way is a matter of time",
    ),
    (
        "Event ClusterServiceVersion .* ComponentUnhealthy installing: deployment changed .*",
        "",
        "upstream writes a Deployment before its Subscription names the CSV, and again with the configuration then",
    ),
    (
        "Deployment .*",
        "/metadata/annotations/deployment\\.kubernetes\\.io~1revision",
        "upstream writes a Deployment before its Subscription names the CSV, and again with the configuration then",
    ),
];

/// A pattern of a whole text.
pub fn whole(text: &str) -> Regex {
    Regex::new(&format!("^(?:{text})$")).expect("a pattern")
}

/// A step that upstream did twice: the write of the plan's status met a conflict with a label, and every step was done once more.
fn is_done_twice(difference: &Difference) -> bool {
    let is_step = difference.field.starts_with("/status/plan/") && difference.field.ends_with("/status");
    let says = |value: &Option<Value>, state: &str| value.as_ref().is_some_and(|value| value == state);
    difference.object.starts_with("InstallPlan ") && is_step && says(&difference.ours, "Created") && says(&difference.upstream, "Present")
}

/// Why a difference stays; none if it is not known.
pub fn reason(difference: &Difference) -> Option<&'static str> {
    static PATTERNS: LazyLock<Vec<(Regex, Regex, &str)>> =
        LazyLock::new(|| KNOWN.iter().map(|(object, field, why)| (whole(object), whole(field), *why)).collect());
    if is_left_behind(difference) {
        return Some("upstream leaves the roles of a bundle behind");
    }
    if is_done_twice(difference) {
        return Some("upstream does the steps of a plan again if its write of the status meets a conflict");
    }
    PATTERNS
        .iter()
        .find(|(object, field, _)| object.is_match(&difference.object) && field.is_match(&difference.field))
        .map(|(_, _, why)| *why)
}

/// A role of a bundle that only upstream has still: it has no owner.
fn is_left_behind(difference: &Difference) -> bool {
    let Some(left) = difference.upstream.as_ref().filter(|_| difference.field.is_empty() && difference.ours.is_none()) else {
        return false;
    };
    let metadata = &left["metadata"];
    left["kind"].as_str().is_some_and(|kind| kind.contains("Role"))
        && metadata["labels"]["olm.owner"].is_null()
        && metadata["ownerReferences"].is_null()
}
