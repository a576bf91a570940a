//! Checks of the ClusterVersion and of the operators.

use mainstay_api::condition::Status;

use super::facts::{Facts, Read, condition_is, known, name, said};
use super::finding::{Check, Finding, Level};
use crate::conditions;
use crate::precondition::{Found, Precondition, Unmet, unmet};
use crate::upgradeable::{self, Obstacle, Operators};

const VERSION: &str = "clusterversion version";

/// The preconditions that the operator itself looks at (CVO-PRE-02), but for that of recommended updates.
pub(super) fn preconditions(facts: &Facts<'_>) -> Vec<Finding> {
    let finding = |unmet: &Unmet| {
        let level = if unmet.is_blocking() { Level::Blocks } else { Level::Risk };
        let action = match unmet.precondition {
            Precondition::Rollback => "mainstay adm upgrade rollback goes back to the release before, where that is supported",
            Precondition::GiantHop => "update to a release of the next minor version first",
            Precondition::Upgradeable | Precondition::RecommendedUpdate => {
                "mainstay explain clusterversion version says what stands in its way"
            }
        };
        Finding::new(Check::Preconditions, level, VERSION, unmet.to_string(), action)
    };
    let unmet = unmet(Found::ClusterVersion(facts.cluster_version), facts.target.version);
    unmet.iter().filter(|unmet| unmet.precondition != Precondition::RecommendedUpdate).map(finding).collect()
}

/// Conditions of the ClusterVersion in which no update should be asked for (CVO-CLI-08).
pub(super) fn cluster_version(facts: &Facts<'_>) -> Vec<Finding> {
    let all = &facts.cluster_version.status.conditions;
    let found = |kind: &str, level, action: &str| {
        let condition = conditions::find(all, kind).filter(|condition| condition.status == Status::True)?;
        let evidence = format!("{kind}=True {}: {}", condition.reason, condition.message);
        let finding = Finding::new(Check::ClusterVersion, level, VERSION, evidence, action);
        Some(Finding { since: condition.last_transition_time.as_ref().map(|time| time.0.to_string()), ..finding })
    };
    let findings = [
        found("Invalid", Level::Blocks, "correct the spec of the ClusterVersion"),
        found("Failing", Level::Risk, "mend what fails first: mainstay explain clusterversion version"),
        found("Progressing", Level::Risk, "wait until the running update is done: mainstay adm upgrade status"),
    ];
    findings.into_iter().flatten().collect()
}

/// Operators that are not available or degraded: the update waits for them, and fails in the end. Before another minor version also those that
/// say that they cannot be updated (CVO-UPG-02).
pub(super) fn operators(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let mut findings = Vec::new();
    for operator in known(&facts.operators)? {
        let object = format!("clusteroperator {}", name(operator));
        let explain = format!("mainstay explain {object}");
        let mut add = |kind: &str, status: &str, level, more: &str| {
            if let Some(condition) = condition_is(operator, kind, status) {
                let evidence = format!("{kind}={status} {}{more}", said(condition));
                findings.push(Finding::new(Check::ClusterOperators, level, &*object, evidence, &*explain).since(condition));
            }
        };
        add("Available", "False", Level::Blocks, "");
        add("Degraded", "True", Level::Risk, "; the update waits for it and fails after 40 minutes");
        let level = if facts.is_minor_update() { Level::Blocks } else { Level::Note };
        add("Upgradeable", "False", level, "");
    }
    Ok(findings)
}

/// The risks of the wanted release (CVO-RISK-06), and whether it is offered at all.
pub(super) fn conditional_risks(facts: &Facts<'_>) -> Vec<Finding> {
    let object = format!("update to {}", facts.target.version);
    if let Some(answer) = &facts.answered_risks {
        let (level, action) = match answer.status.as_str() {
            "True" => return Vec::new(),
            "False" => (Level::Risk, "read what is known of the risk; --allow-not-recommended takes it all the same"),
            _ => (Level::Risk, "give the metrics that the query asks for"),
        };
        let evidence = format!("Recommended={} {}: {}", answer.status, answer.reason, answer.message);
        return vec![Finding::new(Check::ConditionalRisks, level, object, evidence, action)];
    }
    let action = "mainstay adm upgrade recommend --version VERSION shows the risks; --allow-not-recommended takes them";
    let action = action.replace("VERSION", facts.target.version);
    let unmet = unmet(Found::ClusterVersion(facts.cluster_version), facts.target.version);
    let risks = unmet.iter().filter(|unmet| unmet.precondition == Precondition::RecommendedUpdate);
    risks.map(|unmet| Finding::new(Check::ConditionalRisks, Level::Risk, &*object, unmet.problem.to_string(), &*action)).collect()
}

/// Gates that an administrator has to acknowledge before the next minor version (CVO-UPG-04).
pub(super) fn admin_gates(facts: &Facts<'_>) -> Vec<Finding> {
    let found = upgradeable::obstacles(&upgradeable::Facts {
        cluster_version: upgradeable::Found::ClusterVersion(facts.cluster_version),
        operators: Operators::NotServed,
        deletions: &[],
        gates: &facts.gates,
        acks: &facts.acks,
    });
    let level = if facts.is_minor_update() { Level::Blocks } else { Level::Note };
    let gates = found.into_iter().filter_map(|obstacle| match obstacle {
        Obstacle::AdminAck(gates) => Some(gates),
        _ => None,
    });
    let action = "when it is done, acknowledge it: the gate's name as a key with the value true in configmap openshift-config/admin-acks";
    gates
        .flatten()
        .map(|gate| Finding::new(Check::AdminGates, level, "configmap openshift-config-managed/admin-gates", gate.to_string(), action))
        .collect()
}

/// Operators of OLM that do not support the minor version of the release (CVO-UPG-05).
pub(super) fn operator_limits(facts: &Facts<'_>) -> Read<Vec<Finding>> {
    let Ok(target) = mainstay_versions::Version::parse(facts.target.version) else { return Ok(Vec::new()) };
    let target = (target.major(), target.minor());
    let finding = |csv: &super::facts::OperatorLimit| {
        let object = format!("csv {}", csv.name);
        let action = "update the operator first: mainstay explain csv says which versions there are";
        match &csv.limit {
            Ok((major, minor)) if (*major, *minor) >= target => None,
            Ok((major, minor)) => {
                let evidence = format!("olm.maxOpenShiftVersion is {major}.{minor}, and the release is {}", facts.target.version);
                Some(Finding::new(Check::OlmMaxVersion, Level::Blocks, object, evidence, action))
            }
            Err(error) => Some(Finding::new(Check::OlmMaxVersion, Level::Risk, object, error.to_string(), action)),
        }
    };
    Ok(known(&facts.operator_limits)?.iter().filter_map(finding).collect())
}
