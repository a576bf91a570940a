//! Operators as lists show them: each Subscription with its CSV, and CSVs that no Subscription asks for (OLM0-ADMIN-20, MS-CLI-05).

use serde::Serialize;
use serde_json::Value;

use crate::csv::{COPIED_FROM, GROUP_NAMESPACE, is_copied};

/// An operator of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Its namespace.
    pub namespace: String,
    /// Its Subscription; absent if its CSV was made without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The package that it is asked for by.
    pub package: String,
    /// The channel that it follows.
    pub channel: String,
    /// The catalog as `NAME/NAMESPACE`.
    pub catalog: String,
    /// The CSV that is installed; empty if none is.
    pub installed: String,
    /// The CSV that the last resolution led to.
    pub current: String,
    /// The version of the CSV that is installed.
    pub version: String,
    /// The phase of the CSV that is installed, or of the one on its way.
    pub phase: String,
    /// The reason of the phase.
    pub reason: String,
    /// The InstallPlan that waits for an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub awaits_approval: Option<String>,
    /// The condition that keeps the Subscription from going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Conditions of a Subscription that are problems, the gravest first.
pub(crate) const PROBLEMS: [&str; 5] =
    ["ResolutionFailed", "BundleUnpackFailed", "InstallPlanFailed", "InstallPlanMissing", "CatalogSourcesUnhealthy"];

/// Lists the operators of these objects: those of Subscriptions, then CSVs of no Subscription; copies are left out.
pub fn overview(subscriptions: &[Value], csvs: &[Value], plans: &[Value]) -> Vec<Overview> {
    let own: Vec<&Value> = csvs.iter().filter(|csv| !is_copy(csv)).collect();
    let find = |namespace: &str, name: &str| own.iter().copied().find(|csv| is(csv, namespace, name));
    let mut all: Vec<Overview> = subscriptions.iter().map(|subscription| subscribed(subscription, &find, plans)).collect();
    let is_covered = |csv: &&&Value| {
        let (namespace, name) = place(csv);
        !all.iter().any(|each| each.namespace == namespace && (each.installed == name || each.current == name))
    };
    let alone: Vec<Overview> = own.iter().filter(is_covered).map(|csv| unsubscribed(csv)).collect();
    all.extend(alone);
    all.sort_by(|one, other| (&one.namespace, &one.package, &one.installed).cmp(&(&other.namespace, &other.package, &other.installed)));
    all
}

fn subscribed<'v>(subscription: &Value, find: &impl Fn(&str, &str) -> Option<&'v Value>, plans: &[Value]) -> Overview {
    let (spec, status) = (&subscription["spec"], &subscription["status"]);
    let (namespace, name) = place(subscription);
    let (installed, current) = (text(&status["installedCSV"]), text(&status["currentCSV"]));
    let csv = find(&namespace, &installed).or_else(|| find(&namespace, &current));
    let reference = text(&status["installPlanRef"]["name"]);
    let waits = plans.iter().find(|plan| is(plan, &namespace, &reference) && plan["status"]["phase"] == "RequiresApproval");
    let holds = |kind: &&&str| condition(status, kind).is_some_and(|condition| condition["status"] == "True");
    Overview {
        namespace,
        subscription: Some(name),
        package: text(&spec["name"]),
        channel: text(&spec["channel"]),
        catalog: format!("{}/{}", text(&spec["source"]), text(&spec["sourceNamespace"])),
        version: csv.map(|csv| text(&csv["spec"]["version"])).unwrap_or_default(),
        phase: csv.map(|csv| text(&csv["status"]["phase"])).unwrap_or_default(),
        reason: csv.map(|csv| text(&csv["status"]["reason"])).unwrap_or_default(),
        installed,
        current,
        awaits_approval: waits.map(|_| reference),
        problem: PROBLEMS.iter().find(holds).map(|kind| (*kind).to_owned()),
    }
}

fn unsubscribed(csv: &Value) -> Overview {
    let (namespace, name) = place(csv);
    Overview {
        namespace,
        installed: name,
        version: text(&csv["spec"]["version"]),
        phase: text(&csv["status"]["phase"]),
        reason: text(&csv["status"]["reason"]),
        ..Overview::default()
    }
}

/// Returns whether a CSV is a copy of one in another namespace.
pub fn is_copy(csv: &Value) -> bool {
    let metadata = &csv["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let has_label = !metadata["labels"][COPIED_FROM].is_null();
    csv["status"]["reason"] == "Copied" || is_copied(namespace, has_label, metadata["annotations"][GROUP_NAMESPACE].as_str())
}

/// Namespace and name of an object.
pub(crate) fn place(object: &Value) -> (String, String) {
    (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

/// The package of an installed CSV, as its annotation has it.
pub(crate) fn package(csv: &Value) -> Option<String> {
    let annotation = csv["metadata"]["annotations"][crate::properties::ANNOTATION].as_str()?;
    let list = crate::properties::read(annotation).ok()?;
    let value = &list.iter().find(|property| property.kind == "olm.package")?.value;
    serde_json::from_str::<Value>(value).ok()?["packageName"].as_str().map(str::to_owned)
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The condition of a type in a status.
pub(crate) fn condition<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == *kind)
}

fn is(object: &Value, namespace: &str, name: &str) -> bool {
    object["metadata"]["namespace"] == *namespace && object["metadata"]["name"] == *name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OLM0-ADMIN-20, MS-CLI-05: a Subscription with its CSV is one operator; copies are none; a plan that waits is named.
    #[test]
    fn operators_are_listed_once() {
        let subscription = json!({"metadata": {"namespace": "a", "name": "sub"},
            "spec": {"name": "gadget", "channel": "stable", "source": "team", "sourceNamespace": "market"},
            "status": {"installedCSV": "gadget.v1", "currentCSV": "gadget.v2", "installPlanRef": {"name": "install-x"}}});
        let csv = |namespace: &str, name: &str, labels: Value| {
            json!({"metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"version": "1.0.0"}, "status": {"phase": "Succeeded", "reason": "InstallSucceeded"}})
        };
        let csvs =
            [csv("a", "gadget.v1", json!({})), csv("b", "gadget.v1", json!({"olm.copiedFrom": "a"})), csv("b", "handmade.v1", json!({}))];
        let plan = json!({"metadata": {"namespace": "a", "name": "install-x"}, "status": {"phase": "RequiresApproval"}});
        let all = overview(&[subscription], &csvs, &[plan]);
        assert_eq!(all.len(), 2, "{all:#?}");
        assert_eq!((all[0].installed.as_str(), all[0].phase.as_str(), all[0].version.as_str()), ("gadget.v1", "Succeeded", "1.0.0"));
        assert_eq!(all[0].awaits_approval.as_deref(), Some("install-x"));
        assert_eq!((all[1].subscription.as_deref(), all[1].installed.as_str()), (None, "handmade.v1"));
    }
}
