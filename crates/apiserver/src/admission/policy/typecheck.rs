//! Type checking of a policy against the kinds that it is about: what would fail when it runs, told in its status. It never changes
//! what a policy does.

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_cel::{AdmissionVariables, CompileError, Composition, Env, Program, Type, typed_admission_env};
use mainstay_kinds::Gvk;
use serde_json::{Value, json};

use crate::served::{Served, Snapshot};
use crate::strategy;

/// The most kinds that are checked for one rule.
const MAX_KINDS: usize = 10;

/// `status.typeChecking` of a policy.
pub fn type_checking(policy: &Value, served: &Snapshot) -> Value {
    let spec = &policy["spec"];
    let environments = environments(spec, served);
    let mut warnings = Vec::new();
    let validations = spec["validations"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, validation) in validations.iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let Some(text) = validation.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()) else { continue };
            let found: Vec<String> = environments
                .iter()
                .filter_map(|(kind, env)| match Program::compile(text, env) {
                    Err(CompileError::Invalid(issues)) => Some(format!("{kind}: {issues}\n")),
                    _ => None,
                })
                .collect();
            if !found.is_empty() {
                warnings.push(json!({"fieldRef": format!("spec.validations[{index}].{field}"), "warning": found.join("\n")}));
            }
        }
    }
    if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) }
}

/// The environments of a policy's expressions, one a kind, with the kind's name as Go prints it.
fn environments(spec: &Value, served: &Snapshot) -> Vec<(String, Env)> {
    let params = &spec["paramKind"];
    let text = |field: &str| params.get(field).and_then(Value::as_str).unwrap_or_default();
    let params = params.is_object().then(|| Gvk::of(text("apiVersion"), text("kind"))).and_then(|gvk| kind_of(served.of_kind(&gvk)?));
    let variables: Vec<(&str, &str)> = spec["variables"]
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(|variable| Some((variable["name"].as_str()?, variable["expression"].as_str()?)))
        .collect();
    kinds(spec, served)
        .into_iter()
        .filter_map(|resource| {
            let facts = &resource.facts;
            let names = AdmissionVariables { params: params.is_some(), authorizer: true };
            let env = typed_admission_env(names, kind_of(&resource)?, params.clone().unwrap_or(Type::Dyn));
            let (_, env) = Composition::compile(variables.iter().copied(), &env);
            Some((format!("{}/{}, Kind={}", facts.group, facts.version, facts.kind), env))
        })
        .collect()
}

fn kind_of(served: &Arc<Served>) -> Option<Type> {
    Type::of_schema(&strategy::schema(served)?)
}

/// The kinds that the rules name without wildcards, sorted.
fn kinds(spec: &Value, served: &Snapshot) -> Vec<Arc<Served>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for rule in spec.pointer("/matchConstraints/resourceRules").and_then(Value::as_array).into_iter().flatten() {
        let texts = |field: &str| -> Vec<&str> {
            let mut texts: Vec<&str> = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions, resources) = (texts("apiGroups"), texts("apiVersions"), texts("resources"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for resource in resources.iter().filter(|resource| !resource.contains(['*', '/'])) {
                    let Some(one) = served.resource(group, version, resource) else { continue };
                    if count < MAX_KINDS && seen.insert((group.to_string(), version.to_string(), one.facts.kind.clone())) {
                        found.push(one.clone());
                    }
                    count += 1;
                }
            }
        }
    }
    found.sort_by(|left, right| {
        let key = |one: &Arc<Served>| (one.facts.group.clone(), one.facts.version.clone(), one.facts.kind.clone());
        key(left).cmp(&key(right))
    });
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]
    use super::*;

    fn policy(rule: Value, validations: Value) -> Value {
        json!({"spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}})
    }

    /// KAPI-ADM-02: expressions are checked against every kind that the rules name, and never against wildcards.
    #[test]
    fn fields_that_a_kind_does_not_have() {
        let served = Snapshot::built_in();
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments", "replicasets", "deployments/status"]});
        let found = type_checking(
            &policy(rule.clone(), json!([{"expression": "object.spec.strategy.type == 'x'", "messageExpression": "object.spec.nope"}])),
            &served,
        );
        let warnings = found["expressionWarnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 2, "{found}");
        assert_eq!(warnings[0]["fieldRef"], "spec.validations[0].expression");
        let text = warnings[0]["warning"].as_str().unwrap();
        assert_eq!(
            text,
            "apps/v1, Kind=ReplicaSet: ERROR: <input>:1:12: undefined field 'strategy'\n | object.spec.strategy.type == 'x'\n | ...........^\n"
        );
        assert!(warnings[1]["warning"].as_str().unwrap().contains("apps/v1, Kind=Deployment: "), "{found}");
        let fine = json!([{"expression": "object.spec.replicas > 1 && object.metadata.labels['a'] == request.name"}]);
        assert_eq!(type_checking(&policy(rule, fine), &served), json!({}));
        let all = json!({"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]});
        assert_eq!(type_checking(&policy(all, json!([{"expression": "object.nope"}])), &served), json!({}));
    }
}
