//! The health of an installed extension, and the pod that fails.

use mainstay_api::lifecycle::CHANGE_PLAN;
use mainstay_lifecycle::revision::History;
use mainstay_objects::{Health, ObjectRef, health};
use serde_json::Value;

use super::super::webhooks;
use super::{Action, Evidence, Explanation, Facts, State, attempt, extension_subject, name, newer, words};
use crate::cluster_operator::compat;

/// An object of the installed version, as observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object's reference.
    pub target: ObjectRef,
    /// The live object; none if it is missing.
    pub live: Option<Value>,
    /// The pods of a Deployment.
    pub pods: Vec<Value>,
}

pub(super) fn explain(facts: &Facts) -> Explanation {
    let mut answer = match facts.objects.iter().find_map(|observed| broken(facts, observed)) {
        Some(answer) => answer,
        None => well(facts),
    };
    answer.notes.extend(deprecations(facts));
    answer.notes.extend(platform(facts));
    answer.notes.extend(unanswered(facts));
    answer
}

/// The extension's webhooks that nothing answers, with the remedies.
fn unanswered(facts: &Facts) -> Vec<String> {
    let Some(simulation) = &facts.simulation else { return Vec::new() };
    let live: Vec<Value> = facts.objects.iter().filter_map(|observed| observed.live.clone()).collect();
    simulation.unanswered(&live).iter().map(|hook| format!("{}\n  {}", hook.consequence(), hook.ways_out())).collect()
}

fn well(facts: &Facts) -> Explanation {
    let name = name(&facts.snapshot.extension);
    let version = super::installed(facts).map(|(_, version)| version).unwrap_or_default();
    let mut answer =
        Explanation::new(extension_subject(name), "healthy", State::Healthy, format!("version {version} is installed and works"));
    newer::tell(facts, &mut answer);
    answer.notes.extend(made_along(facts, &version));
    answer
}

/// The note that an approval created the extension, at the version that it still has.
fn made_along(facts: &Facts, installed: &str) -> Option<String> {
    let extension = &*facts.snapshot.extension;
    let plan = extension.metadata.annotations.as_ref()?.get(CHANGE_PLAN)?;
    let pinned = extension.spec.source.catalog.as_ref()?.version.as_deref()?;
    (pinned == installed).then(|| {
        let name = name(extension);
        format!("the approval of change plan {plan} made it, at the version that was approved; mainstay upgrade {name} lets it follow the catalog")
    })
}

fn broken(facts: &Facts, observed: &Observed) -> Option<Explanation> {
    let name = name(&facts.snapshot.extension);
    let degraded = |situation, summary: String| Explanation::new(extension_subject(name), situation, State::Degraded, summary);
    let target = &observed.target;
    let Some(live) = &observed.live else {
        return Some(
            Explanation {
                waits_for: Some("the controller, which puts missing objects back".to_owned()),
                ..degraded("object-missing", format!("{target} is missing"))
            }
            .then(Action::new("It comes back within seconds. If it does not, see whether the controller runs:").command("mainstay status")),
        );
    };
    let (why, failed) = match health(live) {
        Health::Ready => return None,
        Health::Waiting(why) => (why, false),
        Health::Failed(why) => (why, true),
    };
    if let Some(pod) = observed.pods.iter().find_map(trouble) {
        let mut answer = degraded(pod.situation, format!("{target} is not available: {}", pod.summary));
        answer.waits_for = Some(format!("pods of {target}"));
        answer.evidence.push(Evidence { what: format!("pod {}", pod.name), says: pod.says, at: None });
        return Some(answer.because(why).then(pod.next));
    }
    let situation = if failed { "failed-object" } else { "waiting-object" };
    let mut answer = degraded(situation, format!("{target} is not ready: {}", words::first_line(&why)));
    answer.state = if failed { State::Degraded } else { State::Working };
    answer.waits_for = Some(target.to_string());
    let place = if target.namespace.is_empty() { String::new() } else { format!(" --namespace {}", target.namespace) };
    let describe = format!("kubectl describe {} {}{place}", target.kind.to_lowercase(), target.name);
    if let Some(why) = no_pods(live) {
        if let Some(refusal) = webhooks::Refusal::find(&why) {
            let summary = format!("{target} has no pods: {} cannot be asked, since its pods are simulated", refusal.whose());
            let answer = Explanation { situation: "webhook-simulated", state: State::Degraded, summary, ..answer };
            return Some(attempt::simulated(answer.because(why), &refusal));
        }
        let answer = Explanation { situation: "pods-refused", state: State::Degraded, ..answer };
        return Some(
            answer
                .because(format!("no pod can be made: {why}"))
                .then(Action::new("Correct what the message names (a quota, a policy, an account); pods are then made by themselves.")),
        );
    }
    Some(answer.then(Action::new("If it does not become ready by itself, its events say why:").command(describe)))
}

/// The first of these pods that does not run, with the reason from its status.
pub fn pod_problem(pods: &[Value]) -> Option<String> {
    pods.iter().find_map(trouble).map(|trouble| format!("{}: {}", trouble.summary, words::first_line(&trouble.says)))
}

/// The reason why a Deployment cannot create pods.
fn no_pods(live: &Value) -> Option<String> {
    let conditions = live.pointer("/status/conditions")?.as_array()?;
    let failure = conditions.iter().find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True")?;
    Some(failure["message"].as_str().unwrap_or_default().to_owned())
}

/// A pod that does not run, with the action for it.
struct Trouble {
    name: String,
    situation: &'static str,
    summary: String,
    says: String,
    next: Action,
}

fn trouble(pod: &Value) -> Option<Trouble> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let found = |situation, summary: String, says: String, next: Action| {
        Some(Trouble { name: format!("{namespace}/{name}"), situation, summary, says, next })
    };
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if let Some(scheduled) = conditions.iter().find(|each| each["type"] == "PodScheduled" && each["status"] == "False") {
        let says = scheduled["message"].as_str().unwrap_or_default().to_owned();
        return found(
            "pod-unschedulable",
            format!("no node takes pod {name}"),
            says,
            Action::new("Add a node, or free or allow what the message names; the pod is placed by itself.")
                .command(format!("kubectl describe pod {name} --namespace {namespace}")),
        );
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses.into_iter().filter_map(|pointer| pod.pointer(pointer)?.as_array()).flatten();
    for container in containers {
        let which = container["name"].as_str().unwrap_or_default();
        let waiting = &container["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        let message = waiting["message"].as_str().unwrap_or_default().to_owned();
        let image = container["image"].as_str().unwrap_or_default();
        match reason {
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => {
                return found(
                    "image-pull",
                    format!("pod {name} cannot pull {image}"),
                    format!("{reason}: {message}"),
                    Action::new(format!(
                        "Make the image available to the nodes: mirror it, or give namespace {namespace} the credentials."
                    ))
                    .command(format!("kubectl describe pod {name} --namespace {namespace}")),
                );
            }
            "CrashLoopBackOff" => {
                let ended = &container["lastState"]["terminated"];
                let why = match (ended["reason"].as_str(), ended["exitCode"].as_i64()) {
                    (Some("OOMKilled"), _) => "it needs more memory than its limit".to_owned(),
                    (_, Some(code)) => format!("it ends with exit code {code}"),
                    _ => "it ends right after its start".to_owned(),
                };
                return found(
                    "crash-loop",
                    format!("container {which} of pod {name} crashes again and again: {why}"),
                    format!("{reason}: {message}"),
                    Action::new(if ended["reason"] == "OOMKilled" {
                        "The limit is the package's own: ask for a version with a higher one. Its log says what it was doing:"
                    } else {
                        "Its log says why:"
                    })
                    .command(format!("kubectl logs {name} --container {which} --namespace {namespace} --previous")),
                );
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                return found(
                    "container-config",
                    format!("container {which} of pod {name} cannot be started"),
                    format!("{reason}: {message}"),
                    Action::new("Make the ConfigMap or Secret that the message names; the container is started by itself.")
                        .command(format!("kubectl describe pod {name} --namespace {namespace}")),
                );
            }
            _ => {}
        }
    }
    None
}

/// Deprecations of the installed version (OLM1-CTRL-05).
fn deprecations(facts: &Facts) -> Vec<String> {
    let Some(found) = facts.plan.as_ref().ok().and_then(|plan| plan.resolution.as_ref()).map(|resolution| &resolution.deprecations) else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    notes.extend(found.package.as_ref().map(|message| format!("the package is deprecated: {}", words::first_line(message))));
    notes.extend(found.channels.iter().map(|(name, message)| format!("channel {name} is deprecated: {}", words::first_line(message))));
    notes.extend(found.bundle.as_ref().map(|message| format!("this version is deprecated: {}", words::first_line(message))));
    notes
}

/// The note that the installed version blocks the platform's next update, if it does (OLM1-COMPAT-02, OLM1-COMPAT-06).
fn platform(facts: &Facts) -> Option<String> {
    let platform = facts.platform?;
    let record = &facts.snapshot.history.as_ref().ok().and_then(History::installed)?.record;
    let bundle = &record.bundle.name;
    match compat::blocks(record.annotations.get(compat::ANNOTATION).map(String::as_str), platform) {
        Ok(blocked) => blocked.map(|blocked| format!("{bundle}: {blocked}: {}", blocked.remedy())),
        Err(problem) => Some(format!("{bundle}: which platform versions it supports cannot be told: {problem}")),
    }
}
