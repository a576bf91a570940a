//! Why an operator may be upgraded or not, who says so, and the command that overrides it (OLM0-COND-05 to OLM0-COND-09, OLM0-ADMIN-26).

use mainstay_lifecycle::explanation::State;
use serde_json::Value;

use super::{Action, Explanation, answer, evidence, string, subject};
use crate::condition::{UPGRADEABLE, upgradeable};
use crate::overview::place;

/// The facts about an OperatorCondition.
#[derive(Debug, Clone, Copy)]
pub struct OperatorConditionFacts<'a> {
    /// The OperatorCondition.
    pub condition: &'a Value,
    /// The CSVs of its namespace.
    pub csvs: &'a [Value],
}

/// Explains an OperatorCondition.
pub fn operator_condition(facts: &OperatorConditionFacts<'_>) -> Explanation {
    let object = facts.condition;
    let (namespace, name) = place(object);
    let subject = subject("operatorcondition", object);
    let find =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().find(|each| each["type"] == UPGRADEABLE);
    let (overridden, told) = (find("/spec/overrides"), find("/spec/conditions"));
    let waiting =
        facts.csvs.iter().find(|csv| csv["spec"]["replaces"] == *name && csv["status"]["reason"] == "OperatorConditionNotUpgradeable");
    let who = if overridden.is_some() { "an administrator's override" } else { "the operator" };
    let mut found = match upgradeable(Some(object)) {
        Ok(()) => {
            let why = match (overridden, told) {
                (Some(_), Some(told)) if told["status"] != "True" => {
                    "an administrator's override wins over the operator, which says that it is not"
                }
                (Some(_), _) => "an administrator's override says so",
                (None, Some(_)) => "the operator says so",
                (None, None) => "neither the operator nor an administrator says anything, which allows every upgrade",
            };
            answer(&subject, "upgradeable", State::Healthy, "allows upgrades of its operator").because(why)
        }
        Err(reason) => {
            let summary = match waiting {
                Some(csv) => format!("keeps {} from replacing {name}", place(csv).1),
                None => format!("would keep a newer version from replacing {name}"),
            };
            answer(&subject, "not-upgradeable", State::Held, summary).because(format!("{who} says so: {reason}")).then(release(
                &namespace,
                &name,
                overridden.is_some(),
            ))
        }
    };
    if let Some(csv) = waiting {
        found.waits_for = Some(format!("csv {namespace}/{}", place(csv).1));
    }
    if !facts.csvs.iter().any(|csv| csv["metadata"]["name"] == *name) {
        found.notes.push(format!("csv {namespace}/{name} is not there, so the condition has no effect"));
    }
    for (list, of) in [
        ("/spec/overrides", "override"),
        ("/spec/conditions", "condition of the operator"),
        ("/status/conditions", "condition that counts"),
    ] {
        let all = object.pointer(list).and_then(Value::as_array).into_iter().flatten();
        found.evidence.extend(all.map(|condition| evidence(of, condition)));
    }
    let others =
        object.pointer("/spec/conditions").and_then(Value::as_array).into_iter().flatten().filter(|each| each["type"] != UPGRADEABLE);
    found.notes.extend(others.map(|each| format!("condition {} has no effect: only {UPGRADEABLE} has", string(each, "/type"))));
    found
}

/// The way to let upgrades go on.
fn release(namespace: &str, name: &str, overridden: bool) -> Action {
    if overridden {
        return Action::new("Remove the override; then the operator decides:").command(format!(
            "kubectl patch operatorcondition {name} -n {namespace} --type merge -p '{{\"spec\": {{\"overrides\": null}}}}'"
        ));
    }
    allow(namespace, name)
}

/// The override that allows an upgrade.
pub(super) fn allow(namespace: &str, name: &str) -> Action {
    Action::new("Do what the operator asks for. To upgrade it all the same, override its condition:")
        .command(format!(
            "kubectl patch operatorcondition {name} -n {namespace} --type merge -p '{{\"spec\": {{\"overrides\": [{{\"type\": \"{UPGRADEABLE}\", \
             \"status\": \"True\", \"reason\": \"Override\", \"message\": \"by an administrator\"}}]}}}}'"
        ))
        .warns("the operator said that an upgrade now may do harm")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn condition(overrides: Option<&str>, told: Option<&str>) -> Value {
        let entry = |status: &str, message: &str| json!([{"type": UPGRADEABLE, "status": status, "reason": "R", "message": message}]);
        let mut object = json!({"metadata": {"namespace": "ops", "name": "beacon.v1", "generation": 2}, "spec": {}, "status": {}});
        if let Some(status) = overrides {
            object["spec"]["overrides"] = entry(status, "not before the weekend");
        }
        if let Some(status) = told {
            object["spec"]["conditions"] = entry(status, "migrating");
            object["status"]["conditions"] = entry(status, "migrating");
            object["status"]["conditions"][0]["observedGeneration"] = 2.into();
        }
        object
    }

    /// OLM0-COND-06, OLM0-COND-09, OLM0-ADMIN-26: an override wins in both directions; who blocks an upgrade is said, and the command that
    /// changes it.
    #[test]
    fn overrides_win() {
        let waiting = [
            json!({"metadata": {"namespace": "ops", "name": "beacon.v1"}, "status": {"phase": "Succeeded"}}),
            json!({"metadata": {"namespace": "ops", "name": "beacon.v2"}, "spec": {"replaces": "beacon.v1"}, "status": {"phase": "Pending", "reason": "OperatorConditionNotUpgradeable"}}),
        ];
        let ask = |overrides, told| operator_condition(&OperatorConditionFacts { condition: &condition(overrides, told), csvs: &waiting });
        for (overrides, told, situation, why) in [
            (None, None, "upgradeable", "neither the operator nor an administrator"),
            (None, Some("True"), "upgradeable", "the operator says so"),
            (None, Some("False"), "not-upgradeable", "the operator says so: the operator is not upgradeable: migrating"),
            (Some("True"), Some("False"), "upgradeable", "an administrator's override wins over the operator"),
            (
                Some("False"),
                Some("True"),
                "not-upgradeable",
                "an administrator's override says so: the operator is not upgradeable: not before the weekend",
            ),
            (Some("False"), None, "not-upgradeable", "an administrator's override"),
        ] {
            let found = ask(overrides, told);
            assert_eq!(found.situation, situation, "{overrides:?} {told:?}");
            assert!(found.why[0].contains(why), "{:?}: {why}", found.why);
        }
        let text = |overrides, told| ask(overrides, told).text(jiff::Timestamp::UNIX_EPOCH);
        assert!(text(None, Some("False")).contains("keeps beacon.v2 from replacing beacon.v1"));
        assert!(text(None, Some("False")).contains(r#"kubectl patch operatorcondition beacon.v1 -n ops --type merge -p '{"spec": {"overrides": [{"type": "Upgradeable", "status": "True""#));
        assert!(text(Some("False"), None).contains(r#"{"spec": {"overrides": null}}"#));
    }

    #[test]
    fn conditions_without_effect() {
        let mut object = condition(None, None);
        object["spec"]["conditions"] = json!([{"type": "Busy", "status": "True"}]);
        let found = operator_condition(&OperatorConditionFacts { condition: &object, csvs: &[] });
        assert_eq!(
            found.notes,
            ["csv ops/beacon.v1 is not there, so the condition has no effect", "condition Busy has no effect: only Upgradeable has"]
        );
    }
}
