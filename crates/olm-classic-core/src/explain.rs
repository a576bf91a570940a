//! Explanations of OLM classic's objects: state, cause, one next action (MS-EXPL-02, MS-EXPL-04), as pure functions of the objects.
//!
//! ```text
//!   Subscription ──► groups ──► catalogs ──► its conditions ──► InstallPlan ──► CSV ──► what is newer
//!   InstallPlan  ──► groups and their account ──► bundles ──► condition
//!   CSV          ──► copy? ──► phase and reason ──► requirements, group, Deployments
//!   CatalogSource, OperatorGroup ──► their status      OperatorCondition ──► who says that the operator may be upgraded
//! ```
//!
//! A subject that waits for another object is explained by that object: the finding and the action are its, the first line is the subject's.

mod catalog_source;
mod csv;
mod install_plan;
mod operator_condition;
mod operator_group;
mod permissions;
mod pods;
mod requirements;
mod subscription;
mod tenancy;
mod told;

use std::convert::Infallible;

use jiff::Timestamp;
use mainstay_lifecycle::explanation::{self, Evidence, State};
use serde_json::Value;

pub use catalog_source::{CatalogSourceFacts, catalog_source};
pub use csv::{CsvFacts, csv};
pub use install_plan::{InstallPlanFacts, install_plan};
pub use operator_condition::{OperatorConditionFacts, operator_condition};
pub use operator_group::{OperatorGroupFacts, operator_group};
pub use subscription::{SubscriptionFacts, subscription};

/// An explanation of an object of OLM classic. Its actions are commands alone.
pub type Explanation = explanation::Explanation<Infallible>;
/// An action of such an explanation.
pub type Action = explanation::Action<Infallible>;

/// Kind, namespace and name: `subscription ns/name`.
fn subject(kind: &str, object: &Value) -> String {
    let (namespace, name) = crate::overview::place(object);
    format!("{kind} {namespace}/{name}")
}

fn answer(subject: &str, situation: &'static str, state: State, summary: impl Into<String>) -> Explanation {
    Explanation::new(subject.to_owned(), situation, state, summary)
}

fn string(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn timestamp(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A condition as evidence.
fn evidence(of: &str, condition: &Value) -> Evidence {
    let field = |name: &str| condition[name].as_str().unwrap_or_default();
    let mut says = format!("{} {}", field("type"), field("status"));
    for more in ["reason", "message"] {
        if !field(more).is_empty() {
            says.push_str(if more == "reason" { " " } else { ": " });
            says.push_str(field(more));
        }
    }
    Evidence { what: of.to_owned(), says, at: timestamp(&condition["lastTransitionTime"]) }
}

/// The same finding, told of an object that waits for the one that it was found on.
fn passed_on(found: Explanation, subject: &str, state: State) -> Explanation {
    let mut why = vec![format!("{}: {}", found.subject, found.summary)];
    why.extend(found.why);
    let summary = format!("waits for {}", found.subject);
    Explanation { subject: subject.to_owned(), state, summary, why, waits_for: found.waits_for.or(Some(found.subject)), ..found }
}

/// A group whose selector matches no namespace (OLM0-OG-05).
fn no_targets(subject: &str, namespace: &str, group: &Value, state: State) -> Explanation {
    let name = string(group, "/metadata/name");
    answer(subject, "no-target-namespaces", state, format!("OperatorGroup {namespace}/{name} matches no namespace"))
        .because("nothing is installed in its namespace until its selector matches one")
        .then(Action::new("Label a namespace so that its selector matches, or name the targets:").command(format!(
            "kubectl patch operatorgroup {name} -n {namespace} --type merge -p '{{\"spec\": {{\"selector\": null, \"targetNamespaces\": [\"{namespace}\"]}}}}'"
        )))
}

/// The finding that groups make for everything in their namespace; none if there is exactly one.
fn groups_finding(subject: &str, namespace: &str, groups: &[Value], state: State) -> Option<Explanation> {
    let name = |group: &Value| string(group, "/metadata/name");
    match groups {
        [] => {
            let action = Action::new(format!("Make an OperatorGroup in namespace {namespace}; this one watches all namespaces:")).command(format!(
                "echo '{{\"apiVersion\": \"operators.coreos.com/v1\", \"kind\": \"OperatorGroup\", \"metadata\": {{\"name\": \"{namespace}\", \
                 \"namespace\": \"{namespace}\"}}}}' | kubectl apply -f -"
            ));
            let found = answer(subject, "no-operator-group", state, format!("namespace {namespace} has no OperatorGroup"));
            Some(
                found
                    .because("an operator is installed only where exactly one OperatorGroup says which namespaces it watches")
                    .then(action),
            )
        }
        [group] if group["status"]["namespaces"].as_array().is_some_and(Vec::is_empty) => {
            Some(no_targets(subject, namespace, group, state))
        }
        [_] => None,
        several => {
            let names: Vec<String> = several.iter().map(name).collect();
            let action = Action::new("Delete all but one of them:")
                .commands(names.iter().skip(1).map(|name| format!("kubectl delete operatorgroup {name} -n {namespace}")).collect())
                .warns(
                    "keep the one whose targets the operators of the namespace are made for: kubectl get operatorgroup -o yaml shows them",
                );
            let summary = format!("namespace {namespace} has {} OperatorGroups", several.len());
            let found = answer(subject, "several-operator-groups", state, summary);
            Some(found.because(format!("only one can be picked among {}", names.join(", "))).then(action))
        }
    }
}
