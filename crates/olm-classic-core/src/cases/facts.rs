//! Single decisions in the form of the records.

use std::collections::BTreeSet;

use mainstay_bundle::InstallMode;
use mainstay_bundle::go::conform;
use mainstay_rbac::PolicyRule;
use serde::Deserialize;
use serde_json::{Value, json};

use super::world::{InvalidCase, read};
use crate::groups::{self, OperatorGroup};
use crate::install_modes::InstallModes;
use crate::overrides::{self, SubscriptionConfig};
use crate::platform;
use crate::rules::{Demanding, Granted};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupCase {
    name: String,
    namespace: String,
    #[serde(rename = "statusNamespaces")]
    status_namespaces: Vec<String>,
    #[serde(rename = "providedAPIsAnnotation")]
    provided: String,
}

impl GroupCase {
    fn group(&self) -> OperatorGroup {
        OperatorGroup::new(&self.name, &self.namespace, &self.status_namespaces, &self.provided)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IntersectionCase {
    add: BTreeSet<String>,
    group: GroupCase,
    others: Vec<GroupCase>,
}

/// The answer about the intersection of an OperatorGroup with others.
pub fn intersection(input: &Value) -> Result<Value, InvalidCase> {
    let mut case = read::<IntersectionCase>(input)?;
    // What is no API is none here, as in an annotation.
    case.add = groups::apis(&groups::annotation(&case.add));
    let group = case.group.group();
    let others: Vec<OperatorGroup> = case.others.iter().map(GroupCase::group).collect();
    let mut sharing: Vec<String> =
        group.intersecting(&others).into_iter().map(|other| format!("{}/{}", other.name, other.namespace)).collect();
    sharing.sort();
    Ok(json!({
        "result": group.reconcile(&case.add, &others).as_str(),
        "groupIntersection": sharing, "targets": group.targets, "allNamespaces": group.is_global(),
        "providedAPIs": groups::annotation(&group.provided),
        "unionWithAdd": groups::annotation(&group.provided.union(&case.add).cloned().collect()),
        "differenceWithAdd": groups::annotation(&group.provided.difference(&case.add).cloned().collect()),
    }))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverridesCase {
    deployment: Value,
    config: Value,
    proxy_env: Vec<Value>,
    csv: String,
    #[serde(rename = "subscriptionInstalledCSV")]
    installed: String,
}

/// The answer `deployment`: a Deployment with a Subscription's configuration.
pub fn overridden(input: &Value) -> Result<Value, InvalidCase> {
    let case = read::<OverridesCase>(input)?;
    let mut deployment = conform("Deployment", &case.deployment)?;
    let config = if case.csv == case.installed { SubscriptionConfig::read(&case.config)? } else { SubscriptionConfig::default() };
    overrides::apply(&mut deployment, &config, &case.proxy_env);
    Ok(json!({"deployment": conform("Deployment", &deployment)?}))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleCase {
    roles: Vec<Value>,
    role_bindings: Vec<Value>,
    cluster_roles: Vec<Value>,
    cluster_role_bindings: Vec<Value>,
    csv: CsvCase,
    namespace: String,
    rule: Value,
    service_account: AccountCase,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsvCase {
    name: String,
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccountCase {
    name: String,
    namespace: String,
}

/// The answer `satisfied`, or `error` with it.
pub fn rule_satisfied(input: &Value) -> Result<Value, InvalidCase> {
    let case = read::<RuleCase>(input)?;
    let mut granted = Granted::default();
    let csv = Demanding { name: &case.csv.name, uid: &case.csv.uid };
    let lists = [
        ("Role", case.roles),
        ("RoleBinding", case.role_bindings),
        ("ClusterRole", case.cluster_roles),
        ("ClusterRoleBinding", case.cluster_role_bindings),
    ];
    for (kind, objects) in lists {
        for mut object in objects {
            object["kind"] = json!(kind);
            granted.add(&object, csv)?;
        }
    }
    let rule = PolicyRule::deserialize(&case.rule)?;
    Ok(match granted.satisfies((&case.service_account.namespace, &case.service_account.name), &case.namespace, &rule) {
        Ok(satisfied) => json!({"satisfied": satisfied}),
        Err(error) => json!({"satisfied": false, "error": error.to_string()}),
    })
}

/// The answer `maxOpenShiftVersion`, or `error`.
pub fn maximum_platform(input: &Value) -> Value {
    match platform::maximum(input["propertiesAnnotation"].as_str()) {
        Ok(version) => json!({"maxOpenShiftVersion": version.map(|version| version.to_string())}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModesCase {
    install_modes: Vec<ModeCase>,
    operator_namespace: String,
    target_namespaces: Vec<String>,
}

#[derive(Deserialize)]
struct ModeCase {
    #[serde(rename = "type")]
    mode: String,
    #[serde(default)]
    supported: bool,
}

/// The answer `supported`, or the error of the set or of the targets.
pub fn install_modes(input: &Value) -> Result<Value, InvalidCase> {
    let case = read::<ModesCase>(input)?;
    let modes: Vec<InstallMode> =
        case.install_modes.into_iter().map(|ModeCase { mode, supported }| InstallMode { mode, supported }).collect();
    Ok(match InstallModes::new(&modes) {
        Err(error) => json!({"setError": error.to_string()}),
        Ok(modes) => match modes.supports(&case.operator_namespace, &case.target_namespaces) {
            Ok(()) => json!({"supported": true}),
            Err(error) => json!({"supportsError": error.to_string()}),
        },
    })
}
