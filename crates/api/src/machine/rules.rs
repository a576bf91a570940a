//! Rules that a schema cannot say: what upstream's webhooks refuse, as policies of the API server (MACH-HOOK-04, MACH-API-09, MACH-SET-01,
//! MACH-CPMS-01).

use serde_json::{Value, json};

use super::MACHINE_GROUP;

/// The policies about machines, each with its binding.
pub fn machine_rules() -> Vec<Value> {
    let machines = policy(
        "machines",
        &["v1beta1"],
        &["UPDATE"],
        &json!([
            {"name": "deleting", "expression": "has(object.metadata.deletionTimestamp)"},
            {"name": "preDrain", "expression": new_hooks("preDrain")},
            {"name": "preTerminate", "expression": new_hooks("preTerminate")},
        ]),
        &json!([hooks_rule("preDrain", "pre-drain"), hooks_rule("preTerminate", "pre-terminate")]),
    );
    let sets = policy(
        "machinesets",
        &["v1beta1"],
        &["CREATE", "UPDATE"],
        &json!([
            {"name": "labels", "expression": "has(object.spec.template) && has(object.spec.template.metadata) && has(object.spec.template.metadata.labels) ? object.spec.template.metadata.labels : {}"},
        ]),
        &json!([
            {
                "expression": "oldObject == null || object.spec.selector == oldObject.spec.selector",
                "message": "spec.selector: Forbidden: selector is immutable",
                "reason": "Forbidden",
            },
            {
                "expression": "!has(object.spec.selector.matchLabels) || object.spec.selector.matchLabels.all(key, key in variables.labels && variables.labels[key] == object.spec.selector.matchLabels[key])",
                "message": "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`",
            },
        ]),
    );
    let control_plane = policy(
        "controlplanemachinesets",
        &["v1"],
        &["CREATE", "UPDATE"],
        &json!([]),
        &json!([
            {
                "expression": "object.metadata.name == 'cluster'",
                "messageExpression": "'metadata.name: Invalid value: \"' + object.metadata.name + '\": control plane machine set name must be cluster'",
            },
        ]),
    );
    [machines, sets, control_plane].into_iter().flatten().collect()
}

/// The hooks of a list that are new, or have another owner.
fn new_hooks(list: &str) -> String {
    let of = |object: &str| {
        format!(
            "(has({object}.spec.lifecycleHooks) && has({object}.spec.lifecycleHooks.{list}) ? {object}.spec.lifecycleHooks.{list} : [])"
        )
    };
    let (new, old) = (of("object"), of("oldObject"));
    format!("{new}.filter(hook, !{old}.exists(known, known.name == hook.name && known.owner == hook.owner))")
}

fn hooks_rule(list: &str, words: &str) -> Value {
    let said = format!(
        "spec.lifecycleHooks.{list}: Forbidden: {words} hooks are immutable when machine is marked for deletion: the following hooks are new or \
         changed: ["
    );
    let named = format!("variables.{list}.map(hook, '{{Name:' + hook.name + ' Owner:' + hook.owner + '}}').join(' ')");
    json!({
        "expression": format!("!variables.deleting || variables.{list}.size() == 0"),
        "messageExpression": format!("'{said}' + {named} + ']'"),
        "reason": "Forbidden",
    })
}

fn policy(plural: &str, versions: &[&str], operations: &[&str], variables: &Value, validations: &Value) -> [Value; 2] {
    let name = format!("{plural}.{MACHINE_GROUP}");
    let version = "admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [MACHINE_GROUP], "apiVersions": versions, "operations": operations, "resources": [plural]}]);
    [
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, "variables": variables, "validations": validations,
            },
        }),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}
