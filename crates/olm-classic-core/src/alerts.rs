//! The alerting rules of OLM (OLM0-MET-04).

use serde_json::{Value, json};

use crate::{fresh, hub};

/// Returns the PrometheusRules.
pub fn rules() -> Vec<Value> {
    let csv = [
        alert(
            "CsvAbnormalFailedOver2Min",
            r#"last_over_time(csv_abnormal{phase="Failed"}[5m])"#,
            Some("2m"),
            "A ClusterServiceVersion has been in phase Failed for over 2 minutes",
            "Operator {{ $labels.name }}, version {{ $labels.version }}, could not be installed: {{ $labels.reason }}",
        ),
        alert(
            "CsvAbnormalOver30Min",
            r#"last_over_time(csv_abnormal{phase=~"(Replacing|Pending|Deleting|Unknown)"}[5m])"#,
            Some("30m"),
            "A ClusterServiceVersion has not reached phase Succeeded for over 30 minutes",
            "Operator {{ $labels.name }}, version {{ $labels.version }}, has been in phase {{ $labels.phase }} for over 30 minutes: {{ $labels.reason }}",
        ),
    ];
    let plans = [alert(
        "InstallPlanStepAppliedWithWarnings",
        "sum by(namespace) (increase(installplan_warnings_total[5m])) > 0",
        None,
        "The API server returned a warning while an Operator was changed",
        "A step of an InstallPlan was applied, and the API server returned a warning. The status and the Events of InstallPlans say more.",
    )];
    let sources = [alert(
        "OperatorHubSourceError",
        &format!(r#"catalogsource_ready{{exported_namespace="{}"}} == 0"#, hub::NAMESPACE),
        Some("10m"),
        "A CatalogSource has not been READY for over 10 minutes",
        "Operators of CatalogSource {{ $labels.name }} cannot be installed or updated. Its status says why it is not READY.",
    )];
    vec![
        rule("olm-alert-rules", fresh::OLM, &json!([group("olm.csv_abnormal.rules", &csv), group("olm.installplan.rules", &plans)])),
        rule("marketplace-alert-rules", hub::NAMESPACE, &json!([group("olm.marketplace.rules", &sources)])),
    ]
}

fn rule(name: &str, namespace: &str, groups: &Value) -> Value {
    let labels = json!({"prometheus": "alert-rules", "role": "alert-rules"});
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {"groups": groups},
    })
}

fn group(name: &str, rules: &[Value]) -> Value {
    json!({"name": name, "rules": rules})
}

fn alert(name: &str, expression: &str, lasting: Option<&str>, summary: &str, description: &str) -> Value {
    let mut alert = json!({
        "alert": name, "expr": expression, "labels": {"severity": "warning", "namespace": "{{ $labels.namespace }}"},
        "annotations": {"summary": summary, "description": description},
    });
    if let Some(lasting) = lasting {
        alert["for"] = json!(lasting);
    }
    alert
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-MET-04: names, namespaces, groups, expressions and times as the platform has them.
    #[test]
    fn as_the_platform_has_them() {
        let rules = rules();
        let named: Vec<_> = rules.iter().map(|rule| (&rule["metadata"]["name"], &rule["metadata"]["namespace"])).collect();
        assert_eq!(
            named,
            [
                (&json!("olm-alert-rules"), &json!("openshift-operator-lifecycle-manager")),
                (&json!("marketplace-alert-rules"), &json!("openshift-marketplace"))
            ]
        );
        let groups: Vec<&Value> = rules.iter().flat_map(|rule| rule["spec"]["groups"].as_array().into_iter().flatten()).collect();
        assert_eq!((&groups[0]["name"], &groups[1]["name"]), (&json!("olm.csv_abnormal.rules"), &json!("olm.installplan.rules")));
        let alerts: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).collect();
        let said: Vec<(&str, &str, Option<&str>)> = alerts
            .iter()
            .map(|alert| (alert["alert"].as_str().unwrap_or_default(), alert["expr"].as_str().unwrap_or_default(), alert["for"].as_str()))
            .collect();
        assert_eq!(
            said,
            [
                ("CsvAbnormalFailedOver2Min", r#"last_over_time(csv_abnormal{phase="Failed"}[5m])"#, Some("2m")),
                ("CsvAbnormalOver30Min", r#"last_over_time(csv_abnormal{phase=~"(Replacing|Pending|Deleting|Unknown)"}[5m])"#, Some("30m")),
                ("InstallPlanStepAppliedWithWarnings", "sum by(namespace) (increase(installplan_warnings_total[5m])) > 0", None),
                ("OperatorHubSourceError", r#"catalogsource_ready{exported_namespace="openshift-marketplace"} == 0"#, Some("10m")),
            ]
        );
        for alert in &alerts {
            assert_eq!(alert["labels"]["severity"], "warning");
            assert!(alert["annotations"]["summary"].is_string(), "{alert}");
        }
        for (alert, labels) in [(alerts[0], &["name", "version", "reason"][..]), (alerts[1], &["name", "version", "phase", "reason"])] {
            let description = alert["annotations"]["description"].as_str().unwrap_or_default();
            assert!(labels.iter().all(|label| description.contains(&format!("{{{{ $labels.{label} }}}}"))), "{description}");
        }
    }
}
