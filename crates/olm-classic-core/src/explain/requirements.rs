//! Requirements of a CSV that are not met (OLM0-CSV-08, OLM0-CSV-09).

use serde_json::Value;

use super::{Action, Explanation, answer, permissions, string, told};
use mainstay_lifecycle::explanation::State;

/// A requirement that is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unmet {
    pub kind: String,
    pub name: String,
    pub group: String,
    pub version: String,
    pub status: String,
    pub message: String,
    /// Rules that are not met, of a service account.
    pub dependents: Vec<String>,
}

/// The requirements of a CSV that are not met, as its status has them.
pub(super) fn unmet(csv: &Value) -> Vec<Unmet> {
    let all = csv["status"]["requirementStatus"].as_array().into_iter().flatten();
    let is_met = |status: &str| matches!(status, "Present" | "Satisfied");
    all.filter(|each| !is_met(each["status"].as_str().unwrap_or_default()))
        .map(|each| Unmet {
            kind: string(each, "/kind"),
            name: string(each, "/name"),
            group: string(each, "/group"),
            version: string(each, "/version"),
            status: string(each, "/status"),
            message: string(each, "/message"),
            dependents: each["dependents"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|each| !is_met(each["status"].as_str().unwrap_or_default()))
                .map(|each| string(each, "/message"))
                .collect(),
        })
        .collect()
}

/// The explanation of a CSV whose requirements are not met: the first one decides about what to do.
pub(super) fn explain(subject: &str, csv: &Value, state: State) -> Explanation {
    let all = unmet(csv);
    let namespace = string(csv, "/metadata/namespace");
    let Some(first) = all.first() else {
        return answer(subject, "requirements-not-met", state, "its requirements are not met")
            .because(string(csv, "/status/message"))
            .then(
                Action::new("Look at its requirements:")
                    .command(format!("kubectl get csv {} -n {namespace} -o yaml", string(csv, "/metadata/name"))),
            );
    };
    let (situation, summary, action) = match first.kind.as_str() {
        "CustomResourceDefinition" => definition(first, csv),
        "ServiceAccount" => account(first, &namespace),
        "APIService" => (
            "api-service-missing",
            format!("APIService {} is not there, or not available", first.name),
            Action::new("Install the operator that provides it, or look at it:").command("kubectl get apiservices"),
        ),
        "ClusterServiceVersion" => (
            "kubernetes-too-old",
            format!("it needs another version of Kubernetes: {}", first.message),
            Action::new("Upgrade the cluster, or install a version of the operator that is made for it"),
        ),
        _ => (
            "requirements-not-met",
            format!("{} {} is missing", first.kind, first.name),
            Action::new("Install what provides it, in a namespace that it watches"),
        ),
    };
    let mut found = answer(subject, situation, state, summary).then(action);
    for each in &all {
        let text = format!("{} {}: {}", each.kind, each.name, each.status);
        found = found.because(if each.message.is_empty() { text } else { format!("{text}: {}", each.message) });
        found = each.dependents.iter().fold(found, |found, rule| found.because(format!("  not satisfied: {rule}")));
    }
    found
}

fn definition(unmet: &Unmet, csv: &Value) -> (&'static str, String, Action) {
    let (name, version) = (&unmet.name, &unmet.version);
    if unmet.status == "NotPresent" {
        let summary = format!("CRD {name} is missing");
        if crate::removal::definitions(csv, "owned").any(|owned| owned == *name)
            && let Some(package) = crate::overview::package(csv)
        {
            let (namespace, csv) = crate::overview::place(csv);
            let action =
                Action::new("It is the operator's own, which its InstallPlan wrote once; install the operator again:").commands(vec![
                    format!("mainstay uninstall {csv} --classic -n {namespace}"),
                    format!("mainstay install {package} --classic -n {namespace}"),
                ]);
            return ("crd-missing", summary, action);
        }
        let action = Action::new("Install the operator that owns it; an InstallPlan that brings it along has to be made again:")
            .command(format!("kubectl get crd {name}"));
        return ("crd-missing", summary, action);
    }
    let summary = format!("CRD {name} does not serve what is needed, version {version}");
    let action = Action::new(format!("Upgrade the operator that owns {name} to a version with {version}:"))
        .command(format!("kubectl get crd {name} -o jsonpath='{{.spec.versions[*].name}}'"));
    ("crd-version-missing", summary, action)
}

fn account(unmet: &Unmet, namespace: &str) -> (&'static str, String, Action) {
    let name = &unmet.name;
    if unmet.status == "NotPresent" {
        let action = Action::new("Create it; its InstallPlan created it once, and the next one will again:")
            .command(format!("kubectl create serviceaccount {name} -n {namespace}"));
        return ("service-account-missing", format!("service account {namespace}/{name} is missing"), action);
    }
    let summary = format!("service account {namespace}/{name} lacks permissions that the CSV asks for");
    let missing: Vec<(Value, bool)> = unmet.dependents.iter().filter_map(|message| told::missing_rule(message)).collect();
    let of = |wide: bool| -> Vec<Value> { missing.iter().filter(|(_, is_wide)| *is_wide == wide).map(|(rule, _)| rule.clone()).collect() };
    let commands: Vec<String> = [(of(false), Some(namespace)), (of(true), None)]
        .into_iter()
        .filter(|(rules, _)| !rules.is_empty())
        .map(|(rules, place)| permissions::grant(&format!("{name}-missing"), place, (namespace, name), &rules))
        .collect();
    let action = if commands.is_empty() {
        Action::new("Give the account what is listed; these are the roles and bindings that are there:")
            .command(format!("kubectl get role,rolebinding -n {namespace}"))
    } else {
        Action::new("Give the account what is listed; its InstallPlan did so once, and the next one will again:").commands(commands)
    };
    ("permissions-missing", summary, action)
}
