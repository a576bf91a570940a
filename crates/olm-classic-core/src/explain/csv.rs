//! Why a CSV is as it is (OLM0-CSV-01 to OLM0-CSV-26).

use std::collections::BTreeSet;

use mainstay_lifecycle::explanation::{Evidence, State};
use mainstay_objects::{Health, health};
use serde_json::Value;

use super::{Action, Explanation, answer, groups_finding, install_plan, pods, requirements, string, subject, tenancy, timestamp};
use crate::csv::{COPIED_FROM, Phase, Reason};
use crate::install_modes::InstallModes;
use crate::overview::is_copy;
use crate::request::watched;

/// The facts about a CSV.
#[derive(Debug, Clone, Copy)]
pub struct CsvFacts<'a> {
    /// The CSV.
    pub csv: &'a Value,
    /// The OperatorGroups of its namespace.
    pub groups: &'a [Value],
    /// The other CSVs of the cluster.
    pub csvs: &'a [Value],
    /// The OperatorConditions of its namespace.
    pub conditions: &'a [Value],
    /// The Deployments that it owns.
    pub deployments: &'a [Value],
    /// Pods of these Deployments.
    pub pods: &'a [Value],
}

/// Explains a CSV.
pub fn csv(facts: &CsvFacts<'_>) -> Explanation {
    let object = facts.csv;
    let subject = subject("csv", object);
    let version = string(object, "/spec/version");
    let mut found = if is_copy(object) { copy(&subject, object) } else { of_phase(&subject, facts) };
    let is_there = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Replacing")) || !facts.deployments.is_empty();
    if is_there && found.situation != "copied" {
        found.installed = Some((string(object, "/metadata/name"), version));
    }
    found.since = found.since.or_else(|| timestamp(&object["status"]["lastTransitionTime"]));
    let phase = ["phase", "reason", "message"].map(|field| string(object, &format!("/status/{field}")));
    if !phase[0].is_empty() {
        let says = format!("{} {}: {}", phase[0], phase[1], phase[2]);
        found.evidence.insert(0, Evidence { what: "status".to_owned(), says, at: timestamp(&object["status"]["lastTransitionTime"]) });
    }
    for deployment in facts.deployments {
        let says = match health(deployment) {
            Health::Ready => "available".to_owned(),
            Health::Waiting(why) | Health::Failed(why) => why,
        };
        found.evidence.push(Evidence { what: format!("deployment {}", string(deployment, "/metadata/name")), says, at: None });
    }
    found.evidence.extend(
        facts.pods.iter().filter_map(|pod| {
            Some(Evidence { what: format!("pod {}", string(pod, "/metadata/name")), says: pods::obstacle(pod)?, at: None })
        }),
    );
    if found.state == State::Healthy && found.situation != "copied" && install_plan::account_finding(&subject, facts.groups).is_some() {
        found.notes.push(
            "the service account that its OperatorGroup names is missing: nothing of it is written again, and no upgrade is installed"
                .to_owned(),
        );
    }
    found.notes.extend(pods::simulated(facts.pods));
    let (notes, actions) = tenancy::instances(object, facts.csvs);
    found.notes.extend(notes);
    found.alternatives.extend(actions);
    found
}

fn copy(subject: &str, csv: &Value) -> Explanation {
    let from = string(csv, &format!("/metadata/labels/{COPIED_FROM}"));
    let name = string(csv, "/metadata/name");
    answer(subject, "copied", State::Healthy, format!("is a copy; the operator runs in namespace {from}"))
        .because("a copy shows that the operator watches this namespace; it is written again when it is changed")
        .then(Action::new("Look at the original:").command(format!("mainstay explain csv {name} -n {from}")))
}

fn of_phase(subject: &str, facts: &CsvFacts<'_>) -> Explanation {
    let csv = facts.csv;
    let namespace = string(csv, "/metadata/namespace");
    let message = string(csv, "/status/message");
    if !csv["metadata"]["deletionTimestamp"].is_null() {
        return removing(subject, csv);
    }
    let phase = Phase::parse(&string(csv, "/status/phase")).unwrap_or(Phase::Unknown);
    let reason = Reason::parse(&string(csv, "/status/reason"));
    let state = match phase {
        Phase::Failed => State::Degraded,
        _ => State::Working,
    };
    let account = install_plan::account_finding(subject, facts.groups);
    match (phase, reason) {
        (Phase::Succeeded, _) => answer(subject, "healthy", State::Healthy, "is installed, and its components are healthy"),
        (Phase::Replacing | Phase::Deleting, _) => replaced(subject, facts),
        (_, Some(Reason::NoOperatorGroup | Reason::TooManyOperatorGroups)) => {
            groups_finding(subject, &namespace, facts.groups, State::Degraded).unwrap_or_else(|| {
                answer(subject, "working", State::Working, "its namespace has one OperatorGroup by now, which is being looked at")
            })
        }
        (_, Some(Reason::UnsupportedOperatorGroup | Reason::NoTargetNamespaces | Reason::InvalidInstallModes)) => {
            modes(subject, facts, reason)
        }
        (
            _,
            Some(Reason::InterOperatorGroupOwnerConflict | Reason::CannotModifyStaticOperatorGroupProvidedApis | Reason::OwnerConflict),
        ) => conflict(subject, facts, reason),
        (_, Some(Reason::RequirementsNotMet)) => requirements::explain(subject, csv, state),
        (_, Some(Reason::OperatorConditionNotUpgradeable)) => not_upgradeable(subject, facts),
        (_, Some(Reason::InstallComponentFailed | Reason::InstallComponentFailedNoRetry)) => component_failed(subject, csv, &message),
        (_, Some(Reason::InstallCheckFailed | Reason::ComponentUnhealthy | Reason::NeedsReinstall)) | (Phase::Installing, _) => {
            unhealthy(subject, facts, phase)
        }
        (_, Some(Reason::InvalidInstallStrategy | Reason::InvalidWebhookDescription)) => {
            answer(subject, "invalid-csv", State::Degraded, "its manifest cannot be installed")
                .because(message)
                .then(Action::new("Take another version of the operator, and tell its authors"))
        }
        (
            _,
            Some(
                Reason::ApiServiceResourceIssue
                | Reason::ApiServiceResourcesNeedReinstall
                | Reason::ApiServiceInstallFailed
                | Reason::NeedsCertRotation,
            ),
        ) => answer(subject, "api-service-issue", State::Working, "objects of its APIServices are written again").because(message),
        (Phase::Failed, _) => answer(subject, "failed", State::Degraded, "failed").because(message).then(inspect(csv)),
        (Phase::None | Phase::Unknown, _) => {
            if let Some(found) = groups_finding(subject, &namespace, facts.groups, State::NotInstalled) {
                return found;
            }
            answer(subject, "not-looked-at", State::Working, "has not been looked at by the OLM operator yet")
                .because("if it stays so, the OLM operator does not run")
                .then(Action::new("Look for the OLM operator:").command("kubectl get pods -A -l app=olm-operator"))
        }
        (Phase::InstallReady, _) if account.is_some() => account.unwrap_or_else(|| answer(subject, "working", State::Working, message)),
        (Phase::Pending | Phase::InstallReady, _) => answer(subject, "working", State::Working, "is being installed").because(message),
    }
}

fn inspect(csv: &Value) -> Action {
    let (namespace, name) = crate::overview::place(csv);
    Action::new("Look at its status and events:").command(format!("kubectl describe csv {name} -n {namespace}"))
}

fn removing(subject: &str, csv: &Value) -> Explanation {
    let found = answer(subject, "removing", State::Removing, "is being removed");
    let pending = csv["status"]["cleanup"]["pendingDeletion"].as_array().into_iter().flatten();
    let left: Vec<String> =
        pending.map(|each| format!("{} {} left", each["instances"].as_array().map_or(0, Vec::len), string(each, "/kind"))).collect();
    if left.is_empty() {
        let finalizers: Vec<&str> = csv["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        return Explanation { waits_for: Some(format!("finalizers {}", finalizers.join(", "))), ..found };
    }
    let found = Explanation { waits_for: Some("its custom resources, which are deleted first".to_owned()), ..found };
    left.into_iter()
        .fold(found, Explanation::because)
        .then(Action::new("A custom resource with a finalizer stays until its operator, or a person, removes it"))
}

fn replaced(subject: &str, facts: &CsvFacts<'_>) -> Explanation {
    let (namespace, name) = crate::overview::place(facts.csv);
    let next = facts.csvs.iter().find(|other| other["metadata"]["namespace"] == *namespace && other["spec"]["replaces"] == *name);
    let next = next.map(|next| string(next, "/metadata/name"));
    let summary = next.as_ref().map_or_else(|| "is being replaced".to_owned(), |next| format!("is being replaced by {next}"));
    let found = answer(subject, "being-replaced", State::Working, summary);
    match next {
        Some(next) => {
            let found = Explanation { waits_for: Some(format!("csv {namespace}/{next}, which has to succeed first")), ..found };
            found.then(Action::new("Look at its successor:").command(format!("mainstay explain csv {next} -n {namespace}")))
        }
        None => found,
    }
}

/// A group whose targets the install modes do not allow (OLM0-OG-03 to OLM0-OG-05).
fn modes(subject: &str, facts: &CsvFacts<'_>, reason: Option<Reason>) -> Explanation {
    let csv = facts.csv;
    let namespace = string(csv, "/metadata/namespace");
    let message = string(csv, "/status/message");
    let group = facts.groups.first().map(|group| string(group, "/metadata/name")).unwrap_or_default();
    if reason == Some(Reason::NoTargetNamespaces) {
        let empty = Value::Null;
        return super::no_targets(subject, &namespace, facts.groups.first().unwrap_or(&empty), State::Degraded).because(message);
    }
    if reason == Some(Reason::InvalidInstallModes) {
        return answer(subject, "invalid-csv", State::Degraded, "its install modes cannot be read")
            .because(message)
            .then(Action::new("Take another version of the operator, and tell its authors"));
    }
    let list: Vec<mainstay_bundle::InstallMode> = csv["spec"]["installModes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mode| mainstay_bundle::InstallMode { mode: string(mode, "/type"), supported: mode["supported"] == true })
        .collect();
    let supported: Vec<&str> = list.iter().filter(|mode| mode.supported).map(|mode| mode.mode.as_str()).collect();
    let targets: Vec<String> = facts
        .groups
        .first()
        .and_then(|group| group["status"]["namespaces"].as_array())
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let fits = |targets: &[String]| InstallModes::new(&list).is_ok_and(|modes| modes.supports(&namespace, targets).is_ok());
    let (all, own) = (vec![String::new()], vec![namespace.clone()]);
    let action = if fits(&all) {
        Some(("Let the group watch all namespaces:", "{\"spec\": {\"selector\": null, \"targetNamespaces\": null}}".to_owned()))
    } else if fits(&own) {
        let patch = format!("{{\"spec\": {{\"selector\": null, \"targetNamespaces\": [\"{namespace}\"]}}}}");
        Some(("Let the group watch its own namespace:", patch))
    } else {
        None
    };
    let action = match action {
        Some((text, patch)) => Action::new(text)
            .command(format!("kubectl patch operatorgroup {group} -n {namespace} --type merge -p '{patch}'"))
            .warns("the other operators of the namespace follow the group, too"),
        None => Action::new("Install it into a namespace whose OperatorGroup has exactly one other namespace as target"),
    };
    answer(
        subject,
        "unsupported-install-mode",
        State::Degraded,
        format!("cannot watch {}, as OperatorGroup {namespace}/{group} asks", watched(&targets)),
    )
    .because(message)
    .because(format!("it supports {}", if supported.is_empty() { "no install mode".to_owned() } else { supported.join(", ") }))
    .then(action)
}

/// APIs that another operator provides (OLM0-OG-23, OLM0-TENANT-06).
fn conflict(subject: &str, facts: &CsvFacts<'_>, reason: Option<Reason>) -> Explanation {
    let csv = facts.csv;
    let (namespace, name) = crate::overview::place(csv);
    let own: Vec<String> = crate::removal::definitions(csv, "owned").collect();
    let is_rival = |other: &&Value| {
        let other_place = crate::overview::place(other);
        other_place != (namespace.clone(), name.clone())
            && !is_copy(other)
            && crate::removal::definitions(other, "owned").any(|crd| own.contains(&crd))
    };
    let rivals: Vec<String> = facts.csvs.iter().filter(is_rival).map(|other| super::subject("csv", other)).collect();
    let (situation, summary) = match reason {
        Some(Reason::CannotModifyStaticOperatorGroupProvidedApis) => {
            ("static-provided-apis", "its OperatorGroup has a fixed list of APIs, and its own are not in it")
        }
        Some(Reason::OwnerConflict) => ("owner-conflict", "another CSV of the namespace owns its APIs"),
        _ => ("intersecting-groups", "an operator of an intersecting OperatorGroup provides the same APIs"),
    };
    let found = answer(subject, situation, State::Degraded, summary).because(string(csv, "/status/message"));
    let found = rivals.iter().fold(found, |found, rival| found.because(format!("{rival} provides the same APIs")));
    let found = match facts.groups {
        [group] if reason != Some(Reason::OwnerConflict) => {
            let group = string(group, "/metadata/name");
            found.because(format!("mainstay explain operatorgroup {group} -n {namespace} names the groups that share its targets and APIs"))
        }
        _ => found,
    };
    found.then(
        Action::new("Remove one of the two operators, or let their OperatorGroups watch different namespaces:")
            .command(format!("mainstay uninstall {name} --classic -n {namespace}")),
    )
}

/// An operator that does not let itself be upgraded now (OLM0-COND-07).
fn not_upgradeable(subject: &str, facts: &CsvFacts<'_>) -> Explanation {
    let (namespace, _) = crate::overview::place(facts.csv);
    let former = string(facts.csv, "/spec/replaces");
    let condition = facts.conditions.iter().find(|each| each["metadata"]["name"] == *former);
    let said = condition.and_then(|each| crate::condition::upgradeable(Some(each)).err()).map(|error| error.to_string());
    let found = answer(subject, "not-upgradeable", State::Held, format!("waits, because {former} says that it may not be upgraded now"))
        .because(said.unwrap_or_else(|| string(facts.csv, "/status/message")));
    let found = Explanation { waits_for: Some(format!("condition Upgradeable of operatorcondition {namespace}/{former}")), ..found };
    found.then(super::operator_condition::allow(&namespace, &former))
}

/// Components that could not be written (OLM0-ADMIN-33).
fn component_failed(subject: &str, csv: &Value, message: &str) -> Explanation {
    if let Some(forbidden) = super::told::forbidden(message) {
        return install_plan::forbidden(subject, &string(csv, "/metadata/namespace"), &forbidden, message);
    }
    answer(subject, "install-failed", State::Degraded, "its components could not be written").because(message.to_owned()).then(inspect(csv))
}

/// Components that are not healthy, or not yet.
fn unhealthy(subject: &str, facts: &CsvFacts<'_>, phase: Phase) -> Explanation {
    let csv = facts.csv;
    let (namespace, _) = crate::overview::place(csv);
    let ill = facts.deployments.iter().find_map(|deployment| match health(deployment) {
        Health::Ready => None,
        Health::Waiting(why) | Health::Failed(why) => Some((string(deployment, "/metadata/name"), why)),
    });
    let state = if phase == Phase::Installing { State::Working } else { State::Degraded };
    let situation = if phase == Phase::Installing { "installing" } else { "unhealthy" };
    let summary = match (&ill, phase) {
        (Some((name, _)), _) => format!("deployment {namespace}/{name} is not available"),
        (None, Phase::Installing) => "is being installed".to_owned(),
        (None, _) => "its components are not healthy".to_owned(),
    };
    let found = answer(subject, situation, state, summary).because(string(csv, "/status/message"));
    match ill {
        Some((name, why)) => {
            let deployment = facts.deployments.iter().find(|each| each["metadata"]["name"] == *name);
            let selector = deployment.and_then(pods::selector).map(|selector| format!(" -l {selector}")).unwrap_or_default();
            // The same obstacle of several pods is told once.
            let obstacles: BTreeSet<String> = facts.pods.iter().filter_map(pods::obstacle).collect();
            let found = obstacles.into_iter().fold(found.because(why), |found, obstacle| found.because(format!("a pod waits: {obstacle}")));
            Explanation { waits_for: Some(format!("deployment {namespace}/{name}")), ..found }
                .then(Action::new("Look at its pods:").command(format!("kubectl describe pods -n {namespace}{selector}")))
        }
        None => found.then(inspect(csv)),
    }
}
