//! Which node a pod gets, or why none: filters in upstream's order, then preferences (KAPI-WL-02).

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use serde_json::Value;

use super::resources::{Amounts, Taken, amounts, requests};
use crate::object::{Read as _, items, selects};

/// A node and what is taken of it.
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a DynamicObject,
    /// What its pods take.
    pub taken: Taken,
}

/// The pods that rules between pods look at.
pub struct Neighbours<'a> {
    /// All pods that have a node.
    pub pods: &'a [crate::object::Object],
}

/// The node, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its name.
    Bind(String),
    /// For people.
    Unschedulable(String),
}

/// How little a node is liked, its pods of the same controller, its load, its name: the smallest wins.
type Score<'a> = (std::cmp::Reverse<i64>, usize, i128, &'a str);

struct Refusal {
    reasons: Vec<String>,
    /// Whether evicting other pods could not help either.
    final_word: bool,
}

/// Decides.
pub fn plan(pod: &DynamicObject, candidates: &[Candidate<'_>], neighbours: &Neighbours<'_>) -> Decision {
    if candidates.is_empty() {
        return Decision::Unschedulable("no nodes available to schedule pods".into());
    }
    let needs = requests(pod);
    let mut refusals = Vec::new();
    let mut best: Option<Score<'_>> = None;
    for candidate in candidates {
        if let Some(refusal) = refuse(pod, &needs, candidate, candidates, neighbours) {
            refusals.push(refusal);
            continue;
        }
        let name = candidate.node.name();
        let siblings = pod.controller().and_then(|owner| candidate.taken.by_controller.get(&owner.uid)).copied().unwrap_or_default();
        let avoided =
            items(candidate.node, "/spec/taints").filter(|taint| taint["effect"] == "PreferNoSchedule" && !tolerated(pod, taint)).count();
        let liked = preference(pod, candidate.node) - i64::try_from(avoided).unwrap_or(i64::MAX) * 100;
        let score = (std::cmp::Reverse(liked), siblings, load(candidate, &needs), name);
        if best.as_ref().is_none_or(|present| score < *present) {
            best = Some(score);
        }
    }
    match best {
        Some((.., name)) => Decision::Bind(name.to_owned()),
        None => Decision::Unschedulable(explain(candidates.len(), &refusals)),
    }
}

fn explain(total: usize, refusals: &[Refusal]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.iter().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let list = |counts: &BTreeMap<&str, usize>| {
        let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        texts.join(", ")
    };
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    for refusal in refusals {
        let why =
            if refusal.final_word { "Preemption is not helpful for scheduling" } else { "No preemption victims found for incoming pod" };
        *preemption.entry(why).or_default() += 1;
    }
    let (reasons, preemption) = (list(&counts), list(&preemption));
    format!("0/{total} nodes are available: {reasons}. preemption: 0/{total} nodes are available: {preemption}.")
}

fn refuse(
    pod: &DynamicObject,
    needs: &Amounts,
    candidate: &Candidate<'_>,
    all: &[Candidate<'_>],
    neighbours: &Neighbours<'_>,
) -> Option<Refusal> {
    let node = candidate.node;
    let finally = |reason: String| Some(Refusal { reasons: vec![reason], final_word: true });
    if node.at("/spec/unschedulable") == &Value::Bool(true) && !tolerates_unschedulable(pod) {
        return finally("node(s) were unschedulable".into());
    }
    let untolerated = items(node, "/spec/taints")
        .find(|taint| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")) && !tolerated(pod, taint));
    if let Some(taint) = untolerated {
        let part = |name: &str| taint[name].as_str().unwrap_or_default().to_owned();
        return finally(format!("node(s) had untolerated taint {{{}: {}}}", part("key"), part("value")));
    }
    if !matches_node(pod, node) {
        return finally("node(s) didn't match Pod's node affinity/selector".into());
    }
    let lacking = lacking(needs, candidate);
    if !lacking.is_empty() {
        return Some(Refusal { reasons: lacking, final_word: false });
    }
    between_pods(pod, node, all, neighbours)
}

fn lacking(needs: &Amounts, candidate: &Candidate<'_>) -> Vec<String> {
    let free = amounts(candidate.node.at("/status/allocatable"));
    let mut reasons = Vec::new();
    let pods = free.get("pods").map_or(0, |pods| usize::try_from(pods / 1000).unwrap_or_default());
    if candidate.taken.pods + 1 > pods {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in needs.iter().filter(|(_, amount)| **amount > 0) {
        let taken = candidate.taken.amounts.get(name).copied().unwrap_or_default();
        if taken + amount > free.get(name).copied().unwrap_or_default() {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    reasons
}

/// How full a node would be, in millionths: the mean over processor, memory and pods.
fn load(candidate: &Candidate<'_>, needs: &Amounts) -> i128 {
    let free = amounts(candidate.node.at("/status/allocatable"));
    let share = |name: &str, taken: i128| free.get(name).filter(|all| **all > 0).map_or(0, |all| taken * 1_000_000 / all);
    let taken = |name: &str| {
        let own = needs.get(name).copied().unwrap_or_default();
        candidate.taken.amounts.get(name).copied().unwrap_or_default() + own
    };
    let pods = i128::try_from(candidate.taken.pods).unwrap_or_default() * 1000;
    share("cpu", taken("cpu")) + share("memory", taken("memory")) + share("pods", pods)
}

fn tolerates_unschedulable(pod: &DynamicObject) -> bool {
    tolerated(pod, &serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
}

/// Whether a pod tolerates a taint.
pub fn tolerated(pod: &DynamicObject, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items(pod, "/spec/tolerations").any(|toleration| {
        let (effect, key) = (text(&toleration["effect"]), text(&toleration["key"]));
        let exists = toleration["operator"] == "Exists";
        (effect.is_empty() || effect == text(&taint["effect"]))
            && (if key.is_empty() { exists } else { key == text(&taint["key"]) })
            && (exists || text(&toleration["value"]) == text(&taint["value"]))
    })
}

/// Whether a node has what a pod's nodeSelector and required node affinity ask for.
pub fn matches_node(pod: &DynamicObject, node: &DynamicObject) -> bool {
    let selector = pod.at("/spec/nodeSelector").as_object().into_iter().flatten();
    let selected = selector.clone().all(|(key, value)| node.labels().get(key).map(String::as_str) == value.as_str());
    let required = pod.at("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    selected && required.as_array().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
}

fn preference(pod: &DynamicObject, node: &DynamicObject) -> i64 {
    let terms = items(pod, "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
    terms.filter(|term| term_matches(&term["preference"], node)).filter_map(|term| term["weight"].as_i64()).sum()
}

fn term_matches(term: &Value, node: &DynamicObject) -> bool {
    let list = |name: &str| term[name].as_array().cloned().unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    // A term that asks for nothing matches nothing.
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|expression| {
            let key = expression["key"].as_str().unwrap_or_default();
            requirement(expression, node.labels().get(key).map(String::as_str))
        })
        && fields.iter().all(|field| requirement(field, (field["key"] == "metadata.name").then(|| node.name())))
}

fn requirement(expression: &Value, value: Option<&str>) -> bool {
    let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|one| one.as_str() == Some(value)));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = number(values.first().and_then(Value::as_str));
    match expression["operator"].as_str() {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => matches!((number(value), bound), (Some(value), Some(bound)) if value > bound),
        Some("Lt") => matches!((number(value), bound), (Some(value), Some(bound)) if value < bound),
        _ => false,
    }
}

/// Required affinity and anti-affinity between pods, of the new pod and of those that are there.
fn between_pods(pod: &DynamicObject, node: &DynamicObject, all: &[Candidate<'_>], neighbours: &Neighbours<'_>) -> Option<Refusal> {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let refusal = |reason: &str| Some(Refusal { reasons: vec![reason.to_owned()], final_word: false });
    let same_place = |term: &Value, other: &str| {
        let key = term["topologyKey"].as_str().unwrap_or_default();
        let there = all.iter().find(|candidate| candidate.node.name() == other);
        let (own, there) = (node.labels().get(key), there.and_then(|there| there.node.labels().get(key)));
        own.is_some() && own == there
    };
    let meets = |term: &Value, asks: &DynamicObject, other: &DynamicObject| {
        let listed = term["namespaces"].as_array().filter(|list| !list.is_empty());
        let namespace = listed.map_or(asks.namespace() == other.namespace(), |list| list.iter().any(|name| name == other.namespace()));
        let everywhere = term["namespaceSelector"].as_object().is_some_and(serde_json::Map::is_empty);
        (namespace || everywhere) && selects(&term["labelSelector"], other.labels())
    };
    let present = || neighbours.pods.iter().filter(|other| !crate::pod::finished(other) && !other.text("/spec/nodeName").is_empty());
    for term in items(pod, &format!("/spec/affinity/podAffinity/{required}")) {
        let mut any = false;
        let here = present().filter(|other| meets(term, pod, other)).any(|other| {
            any = true;
            same_place(term, other.text("/spec/nodeName"))
        });
        // The first of a group that wants to be together may go anywhere.
        if !(here || !any && meets(term, pod, pod)) {
            return refusal("node(s) didn't match pod affinity rules");
        }
    }
    for term in items(pod, &format!("/spec/affinity/podAntiAffinity/{required}")) {
        if present().any(|other| meets(term, pod, other) && same_place(term, other.text("/spec/nodeName"))) {
            return refusal("node(s) didn't match pod anti-affinity rules");
        }
    }
    let objects = present().any(|other| {
        let mut terms = items(other, "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution");
        terms.any(|term| meets(term, other, pod) && same_place(term, other.text("/spec/nodeName")))
    });
    if objects { refusal("node(s) didn't satisfy existing pods anti-affinity rules") } else { None }
}
