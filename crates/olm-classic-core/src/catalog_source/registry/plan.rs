//! The next work on the objects by which a source is served, and how far they are (OLM0-CAT-17, OLM0-CAT-22).

use std::time::Duration;

use jiff::Timestamp;
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Step};
use serde_json::{Value, json};

use super::objects::secrets;
use super::{
    CONFIG_MAP_VERSION, EXTRACT, FIELD_MANAGER, POD_HASH, PodError, SERVICE_HASH, SOURCE, Tools, UPDATE, fixed, is_config_map, is_due, pod,
    service, text,
};

/// The objects of a source as they are.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Those of [`fixed`] and [`service`] that exist.
    pub objects: &'a [Value],
    /// The pods of the source that are not being deleted, those of polls among them.
    pub pods: &'a [Value],
    /// True if the namespace lets in only restricted pods.
    pub restricted: bool,
}

/// The next work on the objects of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Steps, in their order.
    pub steps: Vec<Step>,
    /// The pod that serves.
    pub serving: Serving,
    /// True if the registry is asked by a new pod.
    pub polled: bool,
    /// The time until the next poll.
    pub again: Option<Duration>,
}

/// State of the pod of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// It starts.
    Starting,
    /// It cannot start, for this reason.
    Failing(String),
    /// It serves the image with this ID, which may be unknown.
    Ready {
        /// Its name.
        pod: String,
        /// The image's ID.
        image_id: String,
    },
}

/// Decides what is done for a source.
pub fn plan(source: &Value, tools: &Tools, facts: &Facts<'_>, now: Timestamp) -> Result<Plan, PodError> {
    let mut steps = Vec::new();
    let mut account = None;
    for wanted in fixed(source) {
        let live = found(facts.objects, &wanted);
        match (wanted["kind"].as_str(), live) {
            (Some("ServiceAccount"), _) => account = Some(ensure_account(source, wanted, live, &mut steps)),
            (_, None) => steps.push(Step::CreateOnce(wanted)),
            (_, Some(live)) if differs(&wanted, live) => steps.extend([delete(live), Some(Step::CreateOnce(wanted))].into_iter().flatten()),
            _ => {}
        }
    }
    let wanted = service(source);
    match found(facts.objects, &wanted) {
        Some(live) if live["metadata"]["labels"][SERVICE_HASH] == wanted["metadata"]["labels"][SERVICE_HASH] => {}
        live => steps.extend([live.and_then(delete), Some(Step::CreateOnce(wanted))].into_iter().flatten()),
    }
    let wanted = pod(source, tools, account.as_ref(), facts.restricted)?;
    let of = |label: &'static str| facts.pods.iter().filter(move |pod| pod["metadata"]["labels"][label] == text(source, "name"));
    let (mut right, wrong): (Vec<&Value>, Vec<&Value>) = of(SOURCE).partition(|live| fits(live, &wanted) && !is_disrupted(live));
    // One pod serves: a ready one, else the oldest.
    right.sort_by_key(|pod| (!is_ready(pod), text(pod, "creationTimestamp").to_owned(), text(pod, "name").to_owned()));
    let mut superfluous: Vec<&Value> = wrong.into_iter().chain(right.iter().skip(1).copied()).collect();
    let mut serving = right.first().copied();
    let mut plan = Plan { steps, serving: Serving::Starting, polled: false, again: None };
    if serving.is_none() {
        plan.steps.push(Step::Create(wanted.clone()));
    }
    if !is_config_map(source) {
        poll(source, &wanted, &of(UPDATE).collect::<Vec<_>>(), (&mut serving, &mut superfluous), &mut plan, now);
    }
    plan.steps.extend(superfluous.into_iter().filter_map(delete));
    plan.serving = serving.map_or(Serving::Starting, state);
    Ok(plan)
}

/// Looks whether the registry has another image (OLM0-CAT-22).
fn poll<'a>(
    source: &Value,
    wanted: &Value,
    updates: &[&'a Value],
    (serving, superfluous): (&mut Option<&'a Value>, &mut Vec<&'a Value>),
    plan: &mut Plan,
    now: Timestamp,
) {
    let due = is_due(source, now);
    plan.again = due.and_then(Result::err);
    for update in updates {
        if due.is_none() || !fits(update, wanted) || has_failed(update) {
            superfluous.push(*update);
        } else if is_ready(update) {
            let (ours, theirs) = (serving.map(image_id).unwrap_or_default(), image_id(update));
            if theirs.is_empty() || (serving.is_some() && (ours.is_empty() || ours == theirs)) {
                superfluous.push(*update);
                continue;
            }
            let labels = json!({SOURCE: text(source, "name"), UPDATE: ""});
            if let Ok(object) = ObjectRef::of(update) {
                let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
                plan.steps.push(Step::Patch { object, subresource: String::new(), patch });
            }
            superfluous.extend(serving.replace(*update));
        }
    }
    if serving.is_some() && updates.is_empty() && due == Some(Ok(())) {
        let mut pod = wanted.clone();
        pod["metadata"]["labels"][SOURCE] = json!("");
        pod["metadata"]["labels"][UPDATE] = json!(text(source, "name"));
        plan.steps.push(Step::Create(pod));
        plan.polled = true;
    }
}

/// The steps that remove what served a source by pods.
pub fn leftovers(source: &Value, objects: &[Value], pods: &[Value]) -> Vec<Step> {
    let uid = &source["metadata"]["uid"];
    let owned = |object: &&Value| object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["uid"] == *uid);
    pods.iter().chain(objects).filter(owned).filter_map(delete).collect()
}

/// The account with the Secrets that the source names; those that the platform added stay, those that the source named before go.
fn ensure_account(source: &Value, wanted: Value, live: Option<&Value>, steps: &mut Vec<Step>) -> Value {
    let Some(live) = live else {
        steps.push(Step::CreateOnce(wanted.clone()));
        return wanted;
    };
    if is_config_map(source) {
        return live.clone();
    }
    let named: Vec<&str> = secrets(source).collect();
    let held: Vec<&str> = live["imagePullSecrets"].as_array().into_iter().flatten().filter_map(|secret| secret["name"].as_str()).collect();
    let ours = set_by_us(live);
    let outdated = |name: &str| ours.contains(&name) && !named.contains(&name);
    let missing = named.iter().filter(|name| !held.contains(name));
    if missing.clone().next().is_none() && !held.iter().any(|name| outdated(name)) {
        return live.clone();
    }
    let all: Vec<Value> = held.iter().filter(|name| !outdated(name)).chain(missing).map(|name| json!({"name": name})).collect();
    let mut account = live.clone();
    account["imagePullSecrets"] = json!(all);
    steps.push(Step::Apply { object: wanted, force: true, expect: Expect::uid_of(live) });
    account
}

/// The Secrets of an account that this operator has set.
fn set_by_us(account: &Value) -> Vec<&str> {
    let managers = account["metadata"]["managedFields"].as_array().into_iter().flatten();
    let ours = managers.filter(|manager| manager["manager"] == FIELD_MANAGER);
    let keys = ours.filter_map(|manager| manager["fieldsV1"]["f:imagePullSecrets"].as_object()).flat_map(|fields| fields.keys());
    keys.filter_map(|key| key.strip_prefix("k:{\"name\":\"")?.strip_suffix("\"}")).collect()
}

fn found<'a>(objects: &'a [Value], wanted: &Value) -> Option<&'a Value> {
    objects.iter().find(|live| live["kind"] == wanted["kind"] && live["metadata"]["name"] == wanted["metadata"]["name"])
}

fn differs(wanted: &Value, live: &Value) -> bool {
    ["spec", "rules", "subjects", "roleRef"].into_iter().any(|field| wanted[field] != live[field])
}

fn delete(object: &Value) -> Option<Step> {
    let place = ObjectRef::of(object).ok()?;
    Some(Step::Delete { object: place, expect: Expect::uid_of(object), propagation: Propagation::Background })
}

fn fits(live: &Value, wanted: &Value) -> bool {
    let label = |name: &str| live["metadata"]["labels"][name] == wanted["metadata"]["labels"][name];
    label(POD_HASH) && label(CONFIG_MAP_VERSION)
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Returns true if a pod is about to be lost with its node; nothing makes it again.
fn is_disrupted(pod: &Value) -> bool {
    condition(pod, "DisruptionTarget").is_some_and(|target| target["status"] == "True")
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["status"][list].as_array().into_iter().flatten()
}

fn has_failed(pod: &Value) -> bool {
    let crashing = |status: &Value| status["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Unknown"))
        || containers(pod, "containerStatuses").chain(containers(pod, "initContainerStatuses")).any(crashing)
}

/// The ID of the catalog's image: of the container that copies its content, if there is one.
fn image_id(pod: &Value) -> String {
    let mut init = containers(pod, "initContainerStatuses");
    let server = || containers(pod, "containerStatuses").next();
    let status = init.find(|status| status["name"] == EXTRACT).or_else(server);
    status.and_then(|status| status["imageID"].as_str()).unwrap_or_default().to_owned()
}

fn state(pod: &Value) -> Serving {
    let name = text(pod, "name");
    if is_ready(pod) {
        return Serving::Ready { pod: name.to_owned(), image_id: image_id(pod) };
    }
    let place = format!("pod {}/{name}", text(pod, "namespace"));
    for status in containers(pod, "initContainerStatuses").chain(containers(pod, "containerStatuses")) {
        let waiting = &status["state"]["waiting"];
        let (reason, message) = (waiting["reason"].as_str().unwrap_or_default(), waiting["message"].as_str().unwrap_or_default());
        if !matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            let container = status["name"].as_str().unwrap_or_default();
            return Serving::Failing(format!("{place}: container {container} is waiting: {reason}: {message}"));
        }
    }
    let unplaced = condition(pod, "PodScheduled").filter(|placed| placed["status"] == "False");
    match (unplaced, pod["status"]["phase"].as_str()) {
        (Some(placed), _) => Serving::Failing(format!("{place} has no node: {}", placed["message"].as_str().unwrap_or_default())),
        (None, Some("Failed")) => Serving::Failing(format!("{place} has failed")),
        (None, _) => Serving::Starting,
    }
}
