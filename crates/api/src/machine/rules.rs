//! Rules that a schema cannot say: what upstream's webhooks refuse, as policies of the API server (MACH-HOOK-04, MACH-API-09, MACH-SET-01,
//! MACH-CPMS-01).

use serde_json::{Value, json};

use super::MACHINE_GROUP;
use super::control_plane::MACHINE_TYPE;

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
        &json!([
            {"name": "machine", "expression": format!("has(object.spec.template.{MACHINE_TYPE}) ? [object.spec.template.{MACHINE_TYPE}] : []")},
            {"name": "labels", "expression": "variables.machine.size() > 0 && has(variables.machine[0].metadata.labels) ? variables.machine[0].metadata.labels : {}"},
            {"name": "leaves", "expression": "has(object.metadata.deletionTimestamp) && (!has(object.metadata.finalizers) || object.metadata.finalizers.size() == 0)"},
            {"name": "hooks", "expression": "variables.machine.size() > 0 && has(variables.machine[0].spec.lifecycleHooks) ? [variables.machine[0].spec.lifecycleHooks] : []"},
            {"name": "provider", "expression": "variables.machine.size() > 0 && has(variables.machine[0].spec.providerSpec) && has(variables.machine[0].spec.providerSpec.value) ? [variables.machine[0].spec.providerSpec.value] : []"},
        ]),
        &json!([
            {
                "expression": "object.metadata.name == 'cluster'",
                "messageExpression": "'metadata.name: Invalid value: \"' + object.metadata.name + '\": control plane machine set name must be cluster'",
            },
            {
                "expression": "oldObject == null || !has(object.metadata.deletionTimestamp) || object.spec.state != 'Active' || oldObject.spec.state == 'Active'",
                "message": "spec.state: Forbidden: control plane machine set with deletion timestamp cannot be activated",
                "reason": "Forbidden",
            },
            {
                "expression": "variables.leaves || !has(object.spec.selector.matchLabels) || object.spec.selector.matchLabels.all(key, key in variables.labels && variables.labels[key] == object.spec.selector.matchLabels[key])",
                "message": format!("spec.template.{MACHINE_TYPE}.metadata.labels: Invalid value: selector does not match template labels"),
            },
            {
                "expression": "variables.leaves || variables.hooks.all(hooks, (!has(hooks.preDrain) || hooks.preDrain.size() == 0) && (!has(hooks.preTerminate) || hooks.preTerminate.size() == 0))",
                "message": format!("spec.template.{MACHINE_TYPE}.spec.lifecycleHooks: Forbidden: machines of the control plane get their hooks from their owners"),
                "reason": "Forbidden",
            },
            {
                "expression": "variables.leaves || variables.provider.all(spec, !has(spec.kind) || spec.kind != 'AzureMachineProviderSpec' || (has(spec.internalLoadBalancer) && spec.internalLoadBalancer != ''))",
                "message": format!("spec.template.{MACHINE_TYPE}.spec.providerSpec.value.internalLoadBalancer: Required value: internalLoadBalancer is required for control plane machines"),
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
