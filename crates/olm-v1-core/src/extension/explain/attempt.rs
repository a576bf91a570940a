//! A change that was attempted and failed, or that waits for an approval.

use jiff::Timestamp;
use mainstay_api::lifecycle::ChangePlanSpec;

use super::super::told::AttemptProblem;
use super::super::webhooks;
use super::account::grant_permissions;
use super::words::{first_line, held};
use super::{Action, Explanation, Facts, name};

/// A change that waits for an approval, from the plan or from a kept ChangePlan.
pub(super) fn approval(facts: &Facts, plan: &str, spec: &ChangePlanSpec, since: Option<Timestamp>) -> Explanation {
    let what = match &spec.from {
        Some(from) => format!("the upgrade from {} to {} waits for approval", from.version, spec.to.version),
        None => format!("the install of {} waits for approval", spec.to.version),
    };
    let mut answer = held(facts, "approval", what);
    answer.since = since;
    let summary = &spec.summary;
    let along: Vec<String> = summary.dependencies.iter().map(|bundle| format!("{} ({})", bundle.name, bundle.version)).collect();
    let sections = [
        ("installed in addition:", &along),
        ("custom resource definitions:", &summary.custom_resource_definitions),
        ("permissions that the operator gains:", &summary.permissions_gained),
        ("permissions that the operator loses:", &summary.permissions_lost),
        ("warnings:", &summary.warnings),
    ];
    for (title, lines) in sections.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        answer.why.push(title.to_owned());
        answer.why.extend(lines.iter().map(|line| format!("  {line}")));
    }
    answer.then(Action::new("This shows the change once more, asks, and lets it happen:").command(format!("mainstay approve {plan}")))
}

/// The explanation with the remedies for a refusal by a webhook whose pods are simulated.
pub(super) fn simulated(answer: Explanation, refusal: &webhooks::Refusal) -> Explanation {
    let answer = match (&refusal.extension, &refusal.configuration) {
        (Some(extension), _) => answer.then(
            Action::new(format!("Remove {extension}, which brings the webhook; it goes on by itself then:"))
                .command(format!("mainstay uninstall {extension}")),
        ),
        (None, Some(configuration)) => answer.then(
            Action::new(format!("Remove the webhook configuration {configuration}; it goes on by itself then. It is one of these:"))
                .command("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        ),
        (None, None) => answer.then(
            Action::new("Remove the webhook; it goes on by itself then. It is one of these:")
                .command("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        ),
    };
    let answer = match &refusal.service {
        Some(service) => answer.or(Action::new(format!(
            "Run the webhook's program on the machine of mainstay up, and start that again with --serve-local {service}=HOST:PORT besides its other flags"
        ))),
        None => answer,
    };
    answer.or(Action::new(
        "Start mainstay up again with --skip-simulated-webhooks besides its other flags: such webhooks are then passed over",
    ))
}

/// A failed attempt at a change, in the API server's own words, classified by remedy.
pub(super) fn tried(facts: &Facts, text: &str) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let namespace = &extension.spec.namespace;
    let said = |situation, summary: &str| held(facts, situation, summary.to_owned()).because(first_line(text).to_owned());
    match AttemptProblem::told(text) {
        AttemptProblem::Cleared => said("cleared", "what was in the way seems to be gone"),
        AttemptProblem::Quota => said("quota", "a quota does not allow it").then(
            Action::new("Raise the quota, or free what uses it up:")
                .command(format!("kubectl describe resourcequota --namespace {namespace}")),
        ),
        AttemptProblem::Simulated(refusal) => {
            let whose = refusal.whose();
            let answer = said("webhook-simulated", &format!("{whose} cannot be asked: its pods are simulated, and answer nothing"));
            simulated(answer, &refusal)
        }
        AttemptProblem::Webhook => said("webhook-unreachable", "an admission webhook could not be asked").then(
            Action::new("Bring the webhook's service back; nothing that it looks after can be changed until then.")
                .command("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        ),
        AttemptProblem::Admission => said("admission", "a rule of this cluster refuses an object of the package").then(Action::new(
            "Change the rule, or ask its administrators for an exception for this namespace; it is tried again by itself.",
        )),
        AttemptProblem::Namespace => said("namespace-missing", &format!("namespace {namespace} does not exist"))
            .then(Action::new("Make the namespace:").command(format!("kubectl create namespace {namespace}"))),
        AttemptProblem::Permissions => said("rights-missing", "the account may not make a change that this version needs")
            .then(grant_permissions(facts, "Grant the account what this version needs, and no more:")),
        AttemptProblem::Slow => said("server-slow", "the API server did not answer in time")
            .then(Action::new("Nothing, unless it lasts: it is tried again by itself.")),
        AttemptProblem::Other => said("failed", "the last attempt failed").then(
            Action::new("The message says what the API server minds. It is tried again by itself; see what happened in the attempts:")
                .command(format!("mainstay describe {}", name(extension))),
        ),
    }
}
