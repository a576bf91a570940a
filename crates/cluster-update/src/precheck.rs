//! Objections of firing alerts to an update, before it is asked for (CVO-RCMD-04).

use serde_json::Value;

use crate::cluster_version::{list, text};

/// The most alerts that are looked at.
const MAX_ALERTS: usize = 10_000;
const NODES: [&str; 3] = ["KubeNodeNotReady", "KubeNodeReadinessFlapping", "KubeNodeUnreachable"];
/// The kinds of findings: their name, and the sentence when there is none of them.
const KINDS: [(&str, &str); 4] = [
    ("CriticalAlerts", "No critical alerts firing."),
    ("PodDisruptionBudgetAlerts", "No PodDisruptionBudget alerts firing."),
    ("PodImagePullAlerts", "No Pod container image pull alerts firing."),
    ("NodeAlerts", "No Node alerts firing."),
];

/// The outcome of one check, in the form of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// `True` if there is no cause for concern, `False` if there is, `Unknown` if it could not be looked at.
    pub status: &'static str,
    /// The reason in one word.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
}

/// An answer that holds no list of alerts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing alerts: data.alerts is a {0}, not a list")]
pub struct NoAlerts(&'static str);

impl Check {
    /// Returns true if it found no cause for concern.
    pub fn is_happy(&self) -> bool {
        self.status == "True"
    }

    /// The check that could not be made, since a file is missing.
    pub fn without_file(file: &str) -> Self {
        Self {
            name: "recommended/Alert".to_owned(),
            status: "Unknown",
            reason: "NoTestData".to_owned(),
            message: format!("This run did not have alert data available at {file}"),
        }
    }
}

/// Checks the answer of the monitoring's API about alerts.
///
/// # Errors
/// It holds no list.
pub fn checks(answer: &Value) -> Result<Vec<Check>, NoAlerts> {
    let alerts = &answer["data"]["alerts"];
    if !alerts.is_null() && !alerts.is_array() {
        return Err(NoAlerts(mainstay_golang::value::json_type(alerts)));
    }
    let (mut checks, mut seen) = (Vec::new(), [false; KINDS.len()]);
    for alert in list(alerts).iter().take(MAX_ALERTS) {
        let (labels, state) = (&alert["labels"], text(&alert["state"]));
        let (name, severity) = (text(&labels["alertname"]), text(&labels["severity"]));
        if name.is_empty() || state == "pending" {
            continue;
        }
        let (kind, effect, is_of_budget) = match name {
            _ if severity == "critical" => {
                (0, ", suggesting significant cluster issues worth investigating", name == "PodDisruptionBudgetLimit")
            }
            "PodDisruptionBudgetAtLimit" => (1, ", which might slow node drains", true),
            "KubeContainerWaiting" => (2, ", which may slow workload redistribution during rolling node updates", false),
            _ if NODES.contains(&name) => (3, ", which may slow workload redistribution during rolling node updates", false),
            _ => continue,
        };
        seen[kind] = true;
        seen[1] |= is_of_budget;
        let number = checks.len();
        checks.push(Check {
            name: format!("recommended/{}/{name}/{number}", KINDS[kind].0),
            status: "False",
            reason: format!("Alert:{state}"),
            message: format!("{severity} alert {name} {state}{effect}. {}", details(alert, name, is_of_budget)),
        });
    }
    let happy = KINDS.iter().zip(seen).filter(|(_, seen)| !seen).map(|((kind, message), _)| Check {
        name: format!("recommended/{kind}"),
        status: "True",
        reason: "AsExpected".to_owned(),
        message: (*message).to_owned(),
    });
    checks.extend(happy.collect::<Vec<_>>());
    Ok(checks)
}

/// The alert's own text; alerts about budgets do not name theirs in it.
fn details(alert: &Value, name: &str, is_of_budget: bool) -> String {
    let (labels, annotations) = (&alert["labels"], &alert["annotations"]);
    let (summary, description, message) = (text(&annotations["summary"]), text(&annotations["description"]), text(&annotations["message"]));
    let summary = if summary.is_empty() { name } else { summary };
    let end = if summary.ends_with('.') { "" } else { "." };
    let said = match (description, message) {
        ("", "") => "The alert has no description.".to_owned(),
        (said, "") | ("", said) => format!("The alert description is: {said}"),
        (description, message) => format!("The alert description is: {description} | {message}"),
    };
    let runbook = match text(&annotations["runbook_url"]) {
        "" => "<alert does not have a runbook_url annotation>",
        runbook => runbook,
    };
    let details = format!("{summary}{end} {said} {runbook}");
    if !is_of_budget {
        return details;
    }
    let (namespace, budget) = (text(&labels["namespace"]), text(&labels["poddisruptionbudget"]));
    format!("Namespace={namespace}, PodDisruptionBudget={budget}. {details}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::recommend::{Shown, recommend};

    #[allow(clippy::needless_pass_by_value, reason = "it is written where it is given")]
    fn alert(name: &str, severity: &str, state: &str, annotations: Value) -> Value {
        json!({"labels": {"alertname": name, "severity": severity, "namespace": "ns", "poddisruptionbudget": "pdb"}, "state": state, "annotations": annotations})
    }

    /// CVO-RCMD-04: each kind of alert is a condition, numbered; pending ones and others are none; kinds without an alert are as expected.
    #[test]
    fn conditions() {
        let described = json!({"summary": "It is bad", "description": "Look.", "message": "Now.", "runbook_url": "https://r.test"});
        let answer = json!({"data": {"alerts": [
            alert("EtcdDown", "critical", "firing", described),
            alert("PodDisruptionBudgetAtLimit", "warning", "firing", json!({"description": "Tight."})),
            alert("KubeContainerWaiting", "warning", "firing", json!({})),
            alert("KubeNodeNotReady", "warning", "firing", json!({"message": "Gone.", "summary": "Node."})),
            alert("KubeNodeUnreachable", "warning", "pending", json!({})),
            alert("Watchdog", "none", "firing", json!({})),
            json!({"state": "firing"}),
        ]}});
        let checks = checks(&answer).unwrap();
        let shown: Vec<String> =
            checks.iter().map(|check| format!("{}={} {} {}", check.name, check.status, check.reason, check.message)).collect();
        assert_eq!(
            shown,
            [
                "recommended/CriticalAlerts/EtcdDown/0=False Alert:firing critical alert EtcdDown firing, suggesting significant cluster issues worth \
                 investigating. It is bad. The alert description is: Look. | Now. https://r.test",
                "recommended/PodDisruptionBudgetAlerts/PodDisruptionBudgetAtLimit/1=False Alert:firing warning alert PodDisruptionBudgetAtLimit firing, \
                 which might slow node drains. Namespace=ns, PodDisruptionBudget=pdb. PodDisruptionBudgetAtLimit. The alert description is: Tight. <alert \
                 does not have a runbook_url annotation>",
                "recommended/PodImagePullAlerts/KubeContainerWaiting/2=False Alert:firing warning alert KubeContainerWaiting firing, which may slow \
                 workload redistribution during rolling node updates. KubeContainerWaiting. The alert has no description. <alert does not have a \
                 runbook_url annotation>",
                "recommended/NodeAlerts/KubeNodeNotReady/3=False Alert:firing warning alert KubeNodeNotReady firing, which may slow workload \
                 redistribution during rolling node updates. Node. The alert description is: Gone. <alert does not have a runbook_url annotation>",
            ]
        );
        let happy = self::checks(&json!({"data": {"alerts": []}})).unwrap();
        let names: Vec<String> = happy.iter().map(|check| format!("{} ({})", check.name, check.reason)).collect();
        assert_eq!(
            names,
            [
                "recommended/CriticalAlerts (AsExpected)",
                "recommended/PodDisruptionBudgetAlerts (AsExpected)",
                "recommended/PodImagePullAlerts (AsExpected)",
                "recommended/NodeAlerts (AsExpected)"
            ]
        );
        let limit =
            self::checks(&json!({"data": {"alerts": [alert("PodDisruptionBudgetLimit", "critical", "firing", json!({}))]}})).unwrap();
        assert_eq!(limit.iter().filter(|check| check.is_happy()).count(), 2);
        assert_eq!(
            self::checks(&json!({"data": {"alerts": "x"}})).unwrap_err().to_string(),
            "parsing alerts: data.alerts is a string, not a list"
        );
    }

    /// CVO-RCMD-04: the lists that are printed, sorted, and what is of concern at length.
    #[test]
    fn lists() {
        let answer = json!({"data": {"alerts": [alert("KubeNodeNotReady", "warning", "firing", json!({}))]}});
        let cluster = json!({"status": {"conditions": [{"type": "Failing", "status": "False"}]}});
        let text = recommend(&cluster, &Shown::Newest, Some(&checks(&answer).unwrap())).unwrap().text;
        let expected = "The following conditions found no cause for concern in updating this cluster to later releases: recommended/CriticalAlerts \
            (AsExpected), recommended/PodDisruptionBudgetAlerts (AsExpected), recommended/PodImagePullAlerts (AsExpected)\n\nThe following conditions found \
            cause for concern in updating this cluster to later releases: recommended/NodeAlerts/KubeNodeNotReady/0\n\n\
            recommended/NodeAlerts/KubeNodeNotReady/0=False:\n\n  Reason: Alert:firing\n  Message: warning alert KubeNodeNotReady firing, which may slow \
            workload redistribution during rolling node updates. KubeNodeNotReady. The alert has no description. <alert does not have a runbook_url \
            annotation>\n\nNo updates available.";
        assert!(text.starts_with(expected), "{text}");
        let unknown = recommend(&cluster, &Shown::Newest, Some(&[Check::without_file("a.json")])).unwrap().text;
        assert!(unknown.contains("recommended/Alert=Unknown:\n\n  Reason: NoTestData\n"), "{unknown}");
    }
}
