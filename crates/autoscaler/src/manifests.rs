//! The objects that the autoscaler needs: its kinds and their rules, its account, and the permissions that it uses (COP-CAS-01, COP-CAS-02).

use serde_json::{Value, json};

use crate::kinds::NAMESPACE;

/// The service account of the autoscaler.
pub const ACCOUNT: &str = "cluster-autoscaler";
/// The Lease that elects the active instance.
pub const LEASE: &str = "cluster-autoscaler-operator-leader";
/// The Deployment of an autoscaler that is not this one.
pub const OTHER: &str = "cluster-autoscaler-operator";
/// The ClusterOperator that is reported.
pub const OPERATOR: &str = "cluster-autoscaler";
const GROUP: &str = "autoscaling.openshift.io";
const ROLE: &str = "mainstay-autoscaler";
const DEFINITIONS: [&str; 2] = [
    include_str!("../manifests/autoscaling.openshift.io_clusterautoscalers.yaml"),
    include_str!("../manifests/autoscaling.openshift.io_machineautoscalers.yaml"),
];
/// A duration as Go reads it, with its sign.
const TIME: &str = r"^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h))+)$";

/// Returns the definitions of the kinds.
///
/// # Errors
/// A checked-in definition is no YAML.
pub fn definitions() -> Result<Vec<Value>, mainstay_yaml::Error> {
    DEFINITIONS.iter().map(|text| mainstay_yaml::parse(text)).collect()
}

/// Returns the namespace, the account, the rules of the kinds, and what the account needs.
pub fn manifests() -> Vec<Value> {
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
    ];
    all.extend(permissions(ACCOUNT));
    all
}

/// Returns the rules of the kinds, and roles for an account of the namespace.
pub fn permissions(account: &str) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let rules = vec![
        rule(GROUP, &["clusterautoscalers"], &read),
        rule(GROUP, &["machineautoscalers"], &["get", "list", "watch", "update", "patch"]),
        rule(GROUP, &["machineautoscalers/status"], &["update"]),
        rule("machine.openshift.io", &["machinesets", "machines"], &["get", "list", "watch", "patch"]),
        rule("", &["nodes"], &["get", "list", "watch", "patch"]),
        rule("", &["pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"], &read),
        rule("apps", &["daemonsets"], &read),
        rule("policy", &["poddisruptionbudgets"], &read),
        rule("storage.k8s.io", &["storageclasses"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        json!({
            "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "verbs": ["update"],
            "resourceNames": [OPERATOR],
        }),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        // Whether another autoscaler is here.
        json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"], "resourceNames": [OTHER]}),
    ];
    let named = json!(["cluster-autoscaler-status", "cluster-autoscaler-priority-expander"]);
    let own = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update", "patch"], "resourceNames": named},
    ]);
    let (group, version) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
    let mut all = self::rules();
    all.extend([
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE}, "subjects": subjects,
        }),
        json!({"apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": NAMESPACE}, "rules": own}),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ROLE}, "subjects": subjects,
        }),
    ]);
    all
}

/// Rules that a schema cannot say, in the words of upstream's webhooks, as policies of the API server.
fn rules() -> Vec<Value> {
    let validation = |expression: String, message: &str| json!({"expression": expression, "message": message});
    let part = |name: &str, path: &str| {
        let expression = format!("has(object.spec) && has(object.spec.{path}) ? [object.spec.{path}] : []");
        json!({"name": name, "expression": expression})
    };
    let mut cluster = vec![
        json!({
            "expression": "object.metadata.name == 'default'",
            "messageExpression": "'Name \"' + object.metadata.name + '\" is invalid, only \"default\" is allowed'",
        }),
        validation(
            "variables.limits.all(limits, !has(limits.maxNodesTotal) || limits.maxNodesTotal >= 0)".to_owned(),
            "ResourceLimits.MaxNodesTotal must be greater than 0",
        ),
    ];
    for (field, name) in [("cores", "Cores"), ("memory", "Memory")] {
        let ordered = format!("variables.limits.all(limits, !has(limits.{field}) || limits.{field}.max >= limits.{field}.min)");
        cluster.push(validation(ordered, &format!("ResourceLimits.{name}: Max must be greater than or equal to Min")));
    }
    cluster.push(json!({
        "expression": "variables.limits.all(limits, !has(limits.gpus) || limits.gpus.all(gpu, gpu.max >= gpu.min))",
        "messageExpression": "'ResourceLimits.GPUS.' + variables.limits[0].gpus.filter(gpu, gpu.max < gpu.min)[0].type + ': Max must be greater than or equal to Min'",
    }));
    let times = [
        ("down", "delayAfterAdd", "ScaleDown.DelayAfterAdd"),
        ("down", "delayAfterDelete", "ScaleDown.DelayAfterDelete"),
        ("down", "delayAfterFailure", "ScaleDown.DelayAfterFailure"),
        ("down", "unneededTime", "ScaleDown.UnneededTime"),
        ("up", "newPodScaleUpDelay", "ScaleUp.NewPodScaleUpDelay"),
    ];
    for (variable, field, name) in times {
        let all = |rule: &str| format!("variables.{variable}.all(part, !has(part.{field}) || {rule})");
        cluster.push(json!({
            "expression": all(&format!("part.{field}.matches('{TIME}')")),
            "messageExpression": format!("'{name}: time: invalid duration \"' + variables.{variable}[0].{field} + '\"'"),
        }));
        cluster.push(validation(all(&format!("!part.{field}.startsWith('-')")), &format!("{name}: cannot use a negative time")));
    }
    let number = r"^[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)(e[-+]?[0-9]+)?$";
    let threshold = |rule: &str| format!("variables.down.all(part, !has(part.utilizationThreshold) || {rule})");
    cluster.push(validation(
        threshold(&format!("part.utilizationThreshold.matches('{number}')")),
        "ScaleDown.UtilizationThreshold must be a string representing float value.",
    ));
    cluster.push(validation(
        threshold(&format!(
            "!part.utilizationThreshold.matches('{number}') || (double(part.utilizationThreshold) > 0.0 && double(part.utilizationThreshold) < 1.0)"
        )),
        "ScaleDown.UtilizationThreshold must be a value between 0 and 1.",
    ));
    let variables = json!([part("limits", "resourceLimits"), part("down", "scaleDown"), part("up", "scaleUp")]);
    let machine = json!([validation(
        "object.spec.maxReplicas >= object.spec.minReplicas".to_owned(),
        "max replicas must be greater than or equal to min"
    )]);
    [policy("clusterautoscalers", "v1", &variables, &json!(cluster)), policy("machineautoscalers", "v1beta1", &json!([]), &machine)]
        .concat()
}

fn policy(plural: &str, version: &str, variables: &Value, validations: &Value) -> Vec<Value> {
    let name = format!("{plural}.{GROUP}");
    let admission = "admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [GROUP], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": [plural]}]);
    vec![
        json!({
            "apiVersion": admission, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, "variables": variables, "validations": validations,
            },
        }),
        json!({
            "apiVersion": admission, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// COP-CAS-01, COP-CAS-02: names, scopes, short names and columns of the kinds.
    #[test]
    fn kinds() {
        let all = definitions().unwrap();
        let of = |index: usize, pointer: &str| all[index].pointer(pointer).cloned().unwrap();
        assert_eq!([of(0, "/spec/scope"), of(1, "/spec/scope")], [json!("Cluster"), json!("Namespaced")]);
        assert_eq!([of(0, "/spec/names/shortNames/0"), of(1, "/spec/names/shortNames/0")], [json!("ca"), json!("ma")]);
        let columns = of(1, "/spec/versions/0/additionalPrinterColumns");
        let columns: Vec<&str> = columns.as_array().unwrap().iter().filter_map(|column| column["name"].as_str()).collect();
        assert_eq!(columns, ["Ref Kind", "Ref Name", "Min", "Max", "Age"]);
    }
}
