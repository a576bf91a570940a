//! Why an OperatorGroup is as it is (OLM0-OG-02 to OLM0-OG-25, OLM0-TENANT-02 to OLM0-TENANT-06).

use mainstay_lifecycle::explanation::State;
use mainstay_rbac::PolicyRule;
use serde_json::Value;

use super::{Action, Explanation, answer, evidence, groups_finding, install_plan, string, subject, tenancy, timestamp};
use crate::accounts;
use crate::csv::Group;
use crate::overview::{is_copy, place};
use crate::request::watched;

/// The facts about an OperatorGroup.
#[derive(Debug, Clone, Copy)]
pub struct OperatorGroupFacts<'a> {
    /// The group.
    pub group: &'a Value,
    /// All groups of the cluster, itself among them.
    pub groups: &'a [Value],
    /// The CSVs of the cluster.
    pub csvs: &'a [Value],
    /// The cluster-wide rules of the account that it names; empty if it names none, or they cannot be read.
    pub account_rules: &'a [PolicyRule],
}

/// Explains an OperatorGroup.
pub fn operator_group(facts: &OperatorGroupFacts<'_>) -> Explanation {
    let object = facts.group;
    let subject = subject("operatorgroup", object);
    let group = Group::read(object);
    let namespace = &group.namespace;
    let here: Vec<Value> = facts.groups.iter().filter(|other| other["metadata"]["namespace"] == *namespace.as_str()).cloned().collect();
    let mut found = groups_finding(&subject, namespace, &here, State::Degraded)
        .filter(|found| !here.is_empty() && found.situation != "no-target-namespaces")
        .or_else(|| install_plan::account_finding(&subject, &here))
        .unwrap_or_else(|| of_targets(&subject, &group, facts));
    found.since = found.since.or_else(|| timestamp(&object["status"]["lastUpdated"]));
    let others: Vec<_> = facts.groups.iter().map(Group::read).map(|other| other.surface()).collect();
    let surface = group.surface();
    for other in surface.intersecting(&others) {
        let both: Vec<&str> = surface.provided.intersection(&other.provided).map(String::as_str).collect();
        if !both.is_empty() {
            let place = format!("{}/{}", other.namespace, other.name);
            found.notes.push(format!("operatorgroup {place} shares target namespaces, and provides {}, too", both.join(", ")));
        }
    }
    if group.is_global() {
        found
            .notes
            .push("operators of one namespace share their InstallPlans; a namespace with a group of its own updates by itself".to_owned());
    }
    if let Some(account) = &group.service_account {
        found.notes.extend(accounts::excessive(namespace, account, facts.account_rules));
    }
    for member in facts.csvs.iter().filter(|csv| csv["metadata"]["namespace"] == *namespace.as_str() && !is_copy(csv)) {
        let (notes, actions) = tenancy::instances(member, facts.csvs);
        let (_, name) = place(member);
        found.notes.extend(notes.into_iter().map(|note| format!("csv {name}: {note}")));
        found.alternatives.extend(actions);
    }
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    found.evidence.extend(conditions.map(|condition| evidence("condition", condition)));
    found
}

fn of_targets(subject: &str, group: &Group, facts: &OperatorGroupFacts<'_>) -> Explanation {
    let namespace = &group.namespace;
    let Some(targets) = &group.namespaces else {
        return answer(subject, "not-looked-at", State::Working, "has not been looked at yet")
            .because("if it stays so, the OLM operator does not run")
            .then(Action::new("Look for the OLM operator:").command("kubectl get pods -A -l app=olm-operator"));
    };
    if targets.is_empty() {
        let found = super::no_targets(subject, namespace, facts.group, State::Degraded);
        return Explanation { summary: "its selector matches no namespace".to_owned(), ..found }
            .because("the operators of its namespace fail with NoTargetNamespaces");
    }
    let members: Vec<&Value> =
        facts.csvs.iter().filter(|csv| csv["metadata"]["namespace"] == *namespace.as_str() && !is_copy(csv)).collect();
    let refused: Vec<&&Value> = members
        .iter()
        .filter(|csv| {
            let reason = csv["status"]["reason"].as_str().unwrap_or_default();
            matches!(
                reason,
                "UnsupportedOperatorGroup"
                    | "InvalidInstallModes"
                    | "InterOperatorGroupOwnerConflict"
                    | "CannotModifyStaticOperatorGroupProvidedAPIs"
            )
        })
        .collect();
    if let Some(first) = refused.first() {
        let found = answer(
            subject,
            "member-refused",
            State::Degraded,
            format!("watches {}, and not every operator of the namespace fits", watched(targets)),
        );
        let found =
            refused.iter().fold(found, |found, csv| found.because(format!("csv {}: {}", place(csv).1, string(csv, "/status/message"))));
        let (_, csv) = place(first);
        return found.then(Action::new("See what would make it fit:").command(format!("mainstay explain csv {csv} -n {namespace}")));
    }
    let names: Vec<String> = members.iter().map(|csv| place(csv).1).collect();
    let found = answer(subject, "healthy", State::Healthy, format!("watches {}", watched(targets)));
    if names.is_empty() {
        found.because("no operator is installed in its namespace")
    } else {
        found.because(format!("its operators: {}", names.join(", ")))
    }
}
