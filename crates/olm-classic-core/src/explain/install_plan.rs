//! Why an InstallPlan is as it is (OLM0-IP-03, OLM0-IP-04, OLM0-IP-10, OLM0-IP-11, OLM0-ADMIN-33).

use mainstay_lifecycle::explanation::State;
use serde_json::Value;

use super::told::{self, Forbidden, MissingKind, PullProblem};
use super::{Action, Explanation, answer, evidence, groups_finding, string, subject, timestamp};
use crate::csv::Group;
use crate::overview::condition;

/// The facts about an InstallPlan.
#[derive(Debug, Clone, Copy)]
pub struct InstallPlanFacts<'a> {
    /// The InstallPlan.
    pub plan: &'a Value,
    /// The OperatorGroups of its namespace.
    pub groups: &'a [Value],
}

/// Explains an InstallPlan.
pub fn install_plan(facts: &InstallPlanFacts<'_>) -> Explanation {
    let plan = facts.plan;
    let subject = subject("installplan", plan);
    let mut found = of_phase(&subject, facts);
    let installed = condition(&plan["status"], "Installed");
    found.since = found.since.or_else(|| installed.and_then(|condition| timestamp(&condition["lastTransitionTime"])));
    let phase = string(plan, "/status/phase");
    if !phase.is_empty() {
        let says = if let Some(message) = plan["status"]["message"].as_str() { format!("{phase}: {message}") } else { phase };
        found.evidence.push(mainstay_lifecycle::explanation::Evidence { what: "phase".to_owned(), says, at: None });
    }
    found.evidence.extend(installed.map(|condition| evidence("condition", condition)));
    found
}

fn of_phase(subject: &str, facts: &InstallPlanFacts<'_>) -> Explanation {
    let plan = facts.plan;
    let (namespace, name) = crate::overview::place(plan);
    let csvs = csvs(plan).join(", ");
    if let Some(lookup) = pending_lookup(plan) {
        return unpacking(subject, plan, &lookup);
    }
    match plan["status"]["phase"].as_str().unwrap_or_default() {
        "RequiresApproval" => {
            let found = answer(subject, "waits-for-approval", State::Held, format!("waits for an approval: {csvs}"));
            Explanation { waits_for: Some("an approval".to_owned()), ..found }
                .because("a Subscription of the namespace has installPlanApproval Manual, and so every plan of the namespace waits")
                .then(
                    Action::new("See what it writes, and approve it:")
                        .command(format!("mainstay approve installplan/{name} -n {namespace}")),
                )
        }
        "Complete" => answer(subject, "complete", State::Healthy, format!("is done: {csvs}")),
        "Failed" => failed(subject, facts),
        "Installing" => groups_finding(subject, &namespace, facts.groups, State::Degraded)
            .or_else(|| account_finding(subject, facts.groups))
            .or_else(|| retrying(subject, plan))
            .unwrap_or_else(|| answer(subject, "installing", State::Working, format!("is being carried out: {csvs}"))),
        _ => answer(subject, "planning", State::Working, "has not been looked at yet"),
    }
}

/// The CSVs that a plan installs.
pub(super) fn csvs(plan: &Value) -> Vec<&str> {
    plan["spec"]["clusterServiceVersionNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A step that failed, and is tried again.
fn retrying(subject: &str, plan: &Value) -> Option<Explanation> {
    let installed = condition(&plan["status"], "Installed").filter(|condition| condition["status"] == "False")?;
    let message = installed["message"].as_str().filter(|message| !message.is_empty())?;
    let found = of_message(subject, plan, message);
    Some(Explanation { waits_for: Some("the next try; if the tries go on failing, the plan fails for good".to_owned()), ..found })
}

fn failed(subject: &str, facts: &InstallPlanFacts<'_>) -> Explanation {
    let (plan, namespace) = (facts.plan, string(facts.plan, "/metadata/namespace"));
    if let Some(found) =
        groups_finding(subject, &namespace, facts.groups, State::Degraded).or_else(|| account_finding(subject, facts.groups))
    {
        return found.because("the plan failed; another is made once its Subscription is made again");
    }
    let installed = condition(&plan["status"], "Installed").and_then(|condition| condition["message"].as_str()).unwrap_or_default();
    let message = if installed.is_empty() { string(plan, "/status/message") } else { installed.to_owned() };
    of_message(subject, plan, &message)
}

/// The finding of a step that failed.
fn of_message(subject: &str, plan: &Value, message: &str) -> Explanation {
    let namespace = string(plan, "/metadata/namespace");
    if let Some(found) = told::forbidden(message) {
        return forbidden(subject, &namespace, &found, message);
    }
    if told::is_about_crd_versions(message) {
        return answer(subject, "crd-version-missing", State::Degraded, "a CRD of the plan would lose what existing objects need")
            .because(message.to_owned())
            .then(
                Action::new(
                    "Upgrade through a version of the operator that has both, or migrate the custom resources to the stored version:",
                )
                .command(format!("kubectl get installplan {} -n {namespace} -o yaml", string(plan, "/metadata/name"))),
            );
    }
    if let Some(missing) = told::missing_kind(message) {
        return kind_missing(subject, &missing);
    }
    answer(subject, "step-failed", State::Degraded, "a step failed")
        .because(if message.is_empty() { "its status does not say why".to_owned() } else { message.to_owned() })
        .then(
            Action::new("Look at its steps:")
                .command(format!("kubectl describe installplan {} -n {namespace}", string(plan, "/metadata/name"))),
        )
}

/// A kind of a step that the cluster does not serve.
fn kind_missing(subject: &str, missing: &MissingKind) -> Explanation {
    let MissingKind { group, version, kind } = missing;
    let place = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let found = answer(subject, "kind-missing", State::Degraded, format!("the cluster does not serve {kind} of {place}"));
    if missing.is_of_kubernetes() {
        found
            .because("the bundle has an object of this kind, and this version of Kubernetes does not have the kind any more, or not yet")
            .then(
                Action::new("Take a version of the operator that is made for this version of Kubernetes; see what its channels have:")
                    .command("mainstay operator list-available"),
            )
    } else {
        found.because("the bundle has an object of this kind, and nothing on the cluster brings its CRD").then(
            Action::new("Install what brings it, then make the Subscription again; see what serves the group:")
                .command(format!("kubectl api-resources --api-group={group}")),
        )
    }
}

/// A permission that the account of the OperatorGroup lacks: one at a time is reported (OLM0-ADMIN-33).
pub(super) fn forbidden(subject: &str, place: &str, forbidden: &Forbidden, message: &str) -> Explanation {
    let who = match forbidden.account() {
        Some((namespace, name)) => format!("service account {namespace}/{name}"),
        None => forbidden.user.clone().unwrap_or_else(|| "the OLM operator".to_owned()),
    };
    let summary = format!("{who} may not write {}", forbidden.object);
    let found = answer(subject, "permission-missing", State::Degraded, summary).because(message.to_owned());
    if let (Some((namespace, name)), false) = (forbidden.account(), forbidden.grants.is_empty()) {
        let target = if forbidden.object.starts_with("clusterrole") { None } else { Some(place) };
        let object = forbidden.object.split('"').nth(1).unwrap_or("rules");
        let command = super::permissions::grant(&format!("{name}-{object}"), target, (namespace, name), &forbidden.grants);
        return found
            .because("a permission can only be given to an operator by those who have it themselves")
            .then(Action::new("Give the account what it is to pass on; the next one that is missing shows itself then:").command(command));
    }
    let (Some((namespace, name)), Some(verb), Some(resource)) = (forbidden.account(), &forbidden.verb, &forbidden.resource) else {
        return found.then(Action::new("Give it the permission; the next one that is missing shows itself then"));
    };
    let group = forbidden.group.as_deref().filter(|group| !group.is_empty());
    let resource = group.map_or_else(|| resource.clone(), |group| format!("{resource}.{group}"));
    let role = format!("{name}-{verb}-{}", resource.split('.').next().unwrap_or_default());
    let commands = match &forbidden.namespace {
        Some(place) => vec![
            format!("kubectl create role {role} --verb={verb} --resource={resource} -n {place}"),
            format!("kubectl create rolebinding {role} --role={role} --serviceaccount={namespace}:{name} -n {place}"),
        ],
        None => vec![
            format!("kubectl create clusterrole {role} --verb={verb} --resource={resource}"),
            format!("kubectl create clusterrolebinding {role} --clusterrole={role} --serviceaccount={namespace}:{name}"),
        ],
    };
    found.then(Action::new("Give it the permission; the next one that is missing shows itself then:").commands(commands))
}

/// The account that an OperatorGroup names and that is missing (OLM0-OG-25).
pub(super) fn account_finding(subject: &str, groups: &[Value]) -> Option<Explanation> {
    let [object] = groups else { return None };
    let group = Group::read(object);
    let account = group.service_account.as_ref()?;
    if object["status"]["serviceAccountRef"].is_object() {
        return None;
    }
    let namespace = &group.namespace;
    Some(
        answer(subject, "service-account-missing", State::Degraded, format!("service account {namespace}/{account} is missing"))
            .because(format!("OperatorGroup {namespace}/{} installs with this account only", group.name))
            .then(
                Action::new("Make the account, and give it what the operators of the namespace need:")
                    .command(format!("kubectl create serviceaccount {account} -n {namespace}")),
            ),
    )
}

/// A bundle that is not unpacked yet.
struct Lookup {
    image: String,
    reason: String,
    message: String,
    is_failed: bool,
}

fn pending_lookup(plan: &Value) -> Option<Lookup> {
    plan["status"]["bundleLookups"].as_array()?.iter().find_map(|lookup| {
        let holds = |kind: &str| condition(lookup, kind).filter(|condition| condition["status"] == "True");
        let (found, is_failed) = match (holds("BundleLookupFailed"), holds("BundleLookupPending")) {
            (Some(failed), _) => (failed, true),
            (None, Some(pending)) => (pending, false),
            (None, None) => return None,
        };
        Some(Lookup { image: string(lookup, "/path"), reason: string(found, "/reason"), message: string(found, "/message"), is_failed })
    })
}

fn unpacking(subject: &str, plan: &Value, lookup: &Lookup) -> Explanation {
    let Lookup { image, reason, message, is_failed } = lookup;
    let said = if message.is_empty() { reason.clone() } else { message.clone() };
    if *is_failed || told::pull(message).is_some() {
        let namespace = string(plan, "/metadata/namespace");
        let again = vec![format!("kubectl delete installplan {} -n {namespace}", string(plan, "/metadata/name"))];
        return unpack_failed(subject, Some(image), &said, again);
    }
    let found = answer(subject, "unpacking", State::Working, "its bundles are being unpacked").because(said);
    Explanation { waits_for: Some(format!("image {image}")), ..found }
}

/// The meaning of a message about a bundle image that cannot be pulled, if it is known.
pub(super) fn pull_advice(message: &str) -> Option<&'static str> {
    Some(match told::pull(message)? {
        PullProblem::Unauthorized => "the registry wants other credentials: name a Secret with them in spec.secrets of the CatalogSource",
        PullProblem::UnknownHost => "the host name of the registry does not resolve: check the reference, and the mirrors",
        PullProblem::NotFound => "the registry does not have the image: check the catalog, and the mirrors",
        PullProblem::Certificate => "the certificate of the registry is not trusted: trust its authority",
        PullProblem::Unreachable => "the registry does not answer: check the network and the proxy",
    })
}

/// A bundle image that cannot be read (OLM0-ADMIN-12, OLM0-CAT-32).
pub(super) fn unpack_failed(subject: &str, image: Option<&str>, message: &str, again: Vec<String>) -> Explanation {
    let what = match pull_advice(message) {
        Some(what) => what,
        None if told::is_of_job(message) => "its Job gave up; events of its pods say what was wrong",
        None => "the message says what is wrong with it",
    };
    let summary =
        image.map_or_else(|| "a bundle cannot be unpacked".to_owned(), |image| format!("bundle image {image} cannot be unpacked"));
    let found = answer(subject, "unpack-failed", State::Degraded, summary).because(message.to_owned()).because(what);
    found.then(Action::new("Put that right. Unpacking begins from the start after:").commands(again))
}
