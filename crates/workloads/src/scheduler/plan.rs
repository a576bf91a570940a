//! The scheduling decision: the node for a pod, the pods that it preempts, or the reason why no node fits. Filters come in upstream's order,
//! then preferences (KAPI-WL-02).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use kube::api::DynamicObject;
use serde_json::Value;

use super::affinity::{Broken, Namespaces, Rules, matches_node, preferred_node, selector_matches, term_matches};
use super::cluster::{Cluster, HostPort, Place, Placed, priority};
use super::resources::{Amounts, add, requests, subtract};
use crate::object::{Object, Read as _, items};

/// A pod that needs a node.
pub struct Incoming<'a> {
    /// The pod.
    pub pod: &'a Object,
    /// The problem with its claims because of which no node fits.
    pub problem: Option<String>,
    /// The node affinities of its volumes, all of which must be met.
    pub volumes: Vec<Value>,
}

/// The part of a disruption budget that preemption needs.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Its namespace.
    pub namespace: String,
    /// The pods that it covers.
    pub selector: Value,
    /// The number of pods that may be disrupted now.
    pub allowed: i64,
}

/// The node, or the reason why there is none.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// The name of the node.
    Bind(String),
    /// No node fits now, but one would if these pods left it.
    Preempt {
        /// The name of the node.
        node: String,
        /// The pods to evict.
        victims: Vec<Object>,
        /// The reason why the pod does not fit now, for people.
        why: String,
    },
    /// No node fits; the reason, for people.
    Unschedulable(String),
}

/// The score of a node: its preference, its pods of the same controller, its load, its name. The smallest wins.
type Score<'a> = (Reverse<i64>, usize, i128, &'a str);

#[derive(Debug)]
struct Refusal {
    reasons: Vec<String>,
    /// True if preemption cannot help either.
    final_word: bool,
}

/// The input of one decision.
struct Search<'a> {
    incoming: &'a Incoming<'a>,
    cluster: &'a Cluster,
    needs: Amounts,
    ports: Vec<HostPort>,
    priority: i64,
}

/// The resources that a node's pods take, as some of them are removed and restored hypothetically.
struct Room {
    taken: Amounts,
    pods: usize,
    /// The number of them with a port that the incoming pod needs.
    clashes: usize,
}

/// Decides. `budgets` is called only if pods might be preempted.
pub fn plan(incoming: &Incoming<'_>, cluster: &Cluster, namespaces: Namespaces<'_>, budgets: &dyn Fn() -> Vec<Budget>) -> Decision {
    let pod = incoming.pod;
    let total = cluster.nodes().count();
    if total == 0 {
        return Decision::Unschedulable("no nodes available to schedule pods".into());
    }
    if let Some(problem) = &incoming.problem {
        let none = "Preemption is not helpful for scheduling";
        return Decision::Unschedulable(format!(
            "0/{total} nodes are available: {problem}. preemption: 0/{total} nodes are available: {total} {none}."
        ));
    }
    let search = Search { incoming, cluster, needs: requests(pod), ports: HostPort::of(pod), priority: priority(pod) };
    let mut rules = Rules::of(pod, cluster, namespaces);
    let mut refusals = Vec::new();
    let mut fitting = Vec::new();
    for (node, place) in cluster.nodes() {
        let refusal =
            bar(pod, node).map(|why| Refusal::new(&why, true)).or_else(|| search.refuse(node, place, &search.room(node, place), &rules));
        match refusal {
            Some(refusal) => refusals.push((node, place, refusal)),
            None => fitting.push((node, place)),
        }
    }
    // A pod that room was made for goes there, if it can.
    let nominated = pod.text("/status/nominatedNodeName");
    if fitting.iter().any(|(node, _)| node.name() == nominated) {
        return Decision::Bind(nominated.to_owned());
    }
    if let Some(best) = search.best(&fitting, &rules) {
        return Decision::Bind(best.to_owned());
    }
    let reasons = tally(refusals.iter().flat_map(|(.., refusal)| refusal.reasons.iter().map(String::as_str)));
    let why = format!("0/{total} nodes are available: {reasons}.");
    if pod.text("/spec/preemptionPolicy") == "Never" {
        return Decision::Unschedulable(format!("{why} preemption: not eligible due to preemptionPolicy=Never."));
    }
    // The preempted pods may need a while to leave, and no other pod is evicted meanwhile.
    let leaving = refusals.iter().any(|(node, place, refusal)| {
        let making_room = || cluster.pods_on(place).any(|placed| placed.pod.deleting() && placed.priority < search.priority);
        node.name() == nominated && !refusal.final_word && making_room()
    });
    if leaving {
        return Decision::Unschedulable(format!("{why} preemption: not eligible due to a terminating pod on the nominated node."));
    }
    let budgets = budgets();
    let mut hopeless: Vec<String> = Vec::new();
    let mut options: Vec<Victims<'_>> = Vec::new();
    for (node, place, refusal) in &refusals {
        if refusal.final_word {
            hopeless.push("Preemption is not helpful for scheduling".to_owned());
            continue;
        }
        match search.victims(node, place, &mut rules, &budgets) {
            Ok(victims) => options.push(victims),
            Err(reasons) => hopeless.extend(reasons),
        }
    }
    if let Some(victims) = options.into_iter().min_by_key(Victims::cost) {
        let pods = victims.pods.iter().map(|placed| placed.pod.clone()).collect();
        return Decision::Preempt { node: victims.node.to_owned(), victims: pods, why };
    }
    let hopeless = tally(hopeless.iter().map(String::as_str));
    Decision::Unschedulable(format!("{why} preemption: 0/{total} nodes are available: {hopeless}."))
}

/// Finds the first of these nodes that takes a pod as it is, without preemption.
///
/// # Errors
/// None does: the reasons, each once.
pub fn first_fitting(
    incoming: &Incoming<'_>,
    cluster: &Cluster,
    namespaces: Namespaces<'_>,
    nodes: &mut dyn Iterator<Item = &str>,
) -> Result<String, Vec<String>> {
    if let Some(problem) = &incoming.problem {
        return Err(vec![problem.clone()]);
    }
    let pod = incoming.pod;
    let search = Search { incoming, cluster, needs: requests(pod), ports: HostPort::of(pod), priority: priority(pod) };
    let rules = Rules::of(pod, cluster, namespaces);
    let mut reasons = BTreeSet::new();
    for (node, place) in nodes.filter_map(|name| cluster.find(name)) {
        let refused =
            bar(pod, node).map(|why| Refusal::new(&why, true)).or_else(|| search.refuse(node, place, &search.room(node, place), &rules));
        match refused {
            None => return Ok(node.name().to_owned()),
            Some(refusal) => reasons.extend(refusal.reasons),
        }
    }
    Err(reasons.into_iter().collect())
}

/// Returns `2 this reason, 1 that reason`, with the texts in order.
fn tally<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    texts.join(", ")
}

impl Refusal {
    fn new(reason: &str, final_word: bool) -> Self {
        Self { reasons: vec![reason.to_owned()], final_word }
    }
}

impl<'a> Search<'a> {
    /// Returns the reason why a node does not fit with its remaining pods.
    fn refuse(&self, node: &Object, place: &Place, room: &Room, rules: &Rules<'_>) -> Option<Refusal> {
        if room.clashes > 0 {
            return Some(Refusal::new("node(s) didn't have free ports for the requested pod ports", false));
        }
        let lacking = lacking(&self.needs, &place.allocatable, room);
        if lacking.is_some() {
            return lacking;
        }
        let meets = |affinity: &Value| {
            affinity["nodeSelectorTerms"].as_array().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
        };
        if !self.incoming.volumes.iter().all(meets) {
            return Some(Refusal::new("node(s) didn't match PersistentVolume's node affinity", true));
        }
        Some(match rules.broken(node)? {
            Broken::SpreadLabel => Refusal::new("node(s) didn't match pod topology spread constraints (missing required label)", true),
            Broken::Spread => Refusal::new("node(s) didn't match pod topology spread constraints", false),
            Broken::Affinity => Refusal::new("node(s) didn't match pod affinity rules", true),
            Broken::AntiAffinity => Refusal::new("node(s) didn't match pod anti-affinity rules", false),
            Broken::ExistingAntiAffinity => Refusal::new("node(s) didn't satisfy existing pods anti-affinity rules", false),
        })
    }

    /// Returns the taken resources of a node, including those reserved for other pods of at least the same priority.
    fn room(&self, node: &Object, place: &Place) -> Room {
        // Most pods need no port, and then no pod is checked.
        let clashes = if self.ports.is_empty() { 0 } else { self.cluster.pods_on(place).filter(|placed| self.clashes(placed)).count() };
        let mut room = Room { taken: place.taken.clone(), pods: place.pods.len(), clashes };
        for placed in self.cluster.nominated(node.name(), self.incoming.pod.uid()).filter(|placed| placed.priority >= self.priority) {
            self.enter(&mut room, placed);
        }
        room
    }

    fn clashes(&self, placed: &Placed) -> bool {
        placed.ports.iter().any(|port| self.ports.iter().any(|own| own.conflicts(port)))
    }

    fn enter(&self, room: &mut Room, placed: &Placed) {
        add(&mut room.taken, &placed.requests);
        room.pods += 1;
        room.clashes += usize::from(self.clashes(placed));
    }

    fn leave(&self, room: &mut Room, placed: &Placed) {
        subtract(&mut room.taken, &placed.requests);
        room.pods -= 1;
        room.clashes -= usize::from(self.clashes(placed));
    }

    fn best<'b>(&self, fitting: &[(&'b Object, &'b Place)], rules: &Rules<'_>) -> Option<&'b str> {
        let pod = self.incoming.pod;
        let avoided = |node: &DynamicObject| {
            items(node, "/spec/taints").filter(|taint| taint["effect"] == "PreferNoSchedule" && !tolerated(pod, taint)).count() as i64
        };
        let parts: Vec<[i64; 4]> = fitting
            .iter()
            .map(|(node, _)| [-avoided(node), preferred_node(pod, node), rules.preferred(node), -rules.crowd(node)])
            .collect();
        // Each preference counts from 0 to 100 between the worst and the best of the nodes, times its weight.
        let weights = [3, 2, 2, 2];
        let range = |part: usize| {
            let values = || parts.iter().map(|all| all[part]);
            (values().min().unwrap_or_default(), values().max().unwrap_or_default())
        };
        let ranges = [range(0), range(1), range(2), range(3)];
        let scores = fitting.iter().zip(&parts).map(|((node, place), values)| {
            let liked: i64 = (0..4)
                .filter(|part| ranges[*part].1 > ranges[*part].0)
                .map(|part| weights[part] * (values[part] - ranges[part].0) * 100 / (ranges[part].1 - ranges[part].0))
                .sum();
            let siblings = pod.controller().and_then(|owner| place.by_controller.get(&owner.uid)).copied().unwrap_or_default();
            (Reverse(liked), siblings, load(place, &self.needs), node.name())
        });
        scores.min_by(|one: &Score<'_>, other| one.cmp(other)).map(|(.., name)| name)
    }

    /// Returns the fewest pods of lower priority that must leave a node, or the reason why that does not help. Pods are removed and restored
    /// one by one, so that the work grows with their number; in the end the rules are unchanged.
    fn victims(&self, node: &'a Object, place: &'a Place, rules: &mut Rules<'_>, budgets: &[Budget]) -> Result<Victims<'a>, Vec<String>> {
        let mut lower: Vec<&Placed> = self.cluster.pods_on(place).filter(|placed| placed.priority < self.priority).collect();
        if lower.is_empty() {
            return Err(vec!["No preemption victims found for incoming pod".to_owned()]);
        }
        let mut room = self.room(node, place);
        for placed in &lower {
            self.leave(&mut room, placed);
            rules.leave(placed);
        }
        if let Some(refusal) = self.refuse(node, place, &room, rules) {
            for placed in &lower {
                rules.enter(placed);
            }
            return Err(refusal.reasons);
        }
        // Pods that budgets protect are kept first, then the more important ones, then those that started first.
        let violating = violating(&lower, budgets);
        lower.sort_by_cached_key(|placed| {
            let protected = violating.contains(placed.pod.uid());
            (Reverse(protected), Reverse(placed.priority), placed.pod.text("/status/startTime").to_owned(), placed.pod.name().to_owned())
        });
        let mut pods = Vec::new();
        for placed in lower {
            self.enter(&mut room, placed);
            rules.enter(placed);
            if self.refuse(node, place, &room, rules).is_some() {
                self.leave(&mut room, placed);
                rules.leave(placed);
                pods.push(placed);
            }
        }
        for placed in &pods {
            rules.enter(placed);
        }
        let violations = pods.iter().filter(|placed| violating.contains(placed.pod.uid())).count();
        Ok(Victims { node: node.name(), violations, pods })
    }
}

/// Returns the uids of the pods whose disruption a budget does not allow any more.
fn violating<'a>(pods: &[&'a Placed], budgets: &[Budget]) -> HashSet<&'a str> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut violating = HashSet::new();
    for placed in pods {
        for (budget, left) in budgets.iter().zip(&mut left) {
            let covered = budget.namespace == placed.pod.namespace() && selector_matches(&budget.selector, placed.pod.labels());
            if covered {
                *left -= 1;
                if *left < 0 {
                    violating.insert(placed.pod.uid());
                }
            }
        }
    }
    violating
}

struct Victims<'a> {
    node: &'a str,
    violations: usize,
    pods: Vec<&'a Placed>,
}

impl<'a> Victims<'a> {
    /// Returns the cost: fewest violations, lowest priority, lowest sum of priorities, fewest pods, youngest pods.
    fn cost(&self) -> (usize, i64, i64, usize, Reverse<&'a str>, &'a str) {
        let highest = self.pods.iter().map(|placed| placed.priority).max().unwrap_or(i64::MIN);
        // As upstream, so that negative priorities do not make many victims cheaper than few.
        let sum = self.pods.iter().map(|placed| placed.priority + (1 << 31)).sum();
        let earliest =
            self.pods.iter().filter(|placed| placed.priority == highest).map(|placed| placed.pod.text("/status/startTime")).min();
        (self.violations, highest, sum, self.pods.len(), Reverse(earliest.unwrap_or_default()), self.node)
    }
}

fn lacking(needs: &Amounts, has: &Amounts, room: &Room) -> Option<Refusal> {
    let mut reasons = Vec::new();
    let mut final_word = false;
    let most = has.get("pods").map_or(0, |pods| usize::try_from(pods / 1000).unwrap_or_default());
    if room.pods + 1 > most {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in needs.iter().filter(|(_, amount)| **amount > 0) {
        let all = has.get(name).copied().unwrap_or_default();
        if room.taken.get(name).copied().unwrap_or_default() + amount > all {
            reasons.push(format!("Insufficient {name}"));
            // Not even an empty node has so much.
            final_word |= *amount > all;
        }
    }
    (!reasons.is_empty()).then_some(Refusal { reasons, final_word })
}

/// Returns the load of a node in millionths: the sum over processor and memory, both including the new pod, and pods.
fn load(place: &Place, needs: &Amounts) -> i128 {
    let share = |name: &str, taken: i128| place.allocatable.get(name).filter(|all| **all > 0).map_or(0, |all| taken * 1_000_000 / all);
    let taken = |name: &str| place.taken.get(name).copied().unwrap_or_default() + needs.get(name).copied().unwrap_or_default();
    let pods = i128::try_from(place.pods.len()).unwrap_or_default() * 1000;
    share("cpu", taken("cpu")) + share("memory", taken("memory")) + share("pods", pods)
}

/// Returns the reason why a node does not take a pod, whatever else runs there.
fn bar(pod: &DynamicObject, node: &DynamicObject) -> Option<String> {
    if node.at("/spec/unschedulable") == &Value::Bool(true) && !tolerates_unschedulable(pod) {
        return Some("node(s) were unschedulable".to_owned());
    }
    let untolerated = items(node, "/spec/taints")
        .find(|taint| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")) && !tolerated(pod, taint));
    if let Some(taint) = untolerated {
        let part = |name: &str| taint[name].as_str().unwrap_or_default();
        return Some(format!("node(s) had untolerated taint {{{}: {}}}", part("key"), part("value")));
    }
    (!matches_node(pod, node)).then(|| "node(s) didn't match Pod's node affinity/selector".to_owned())
}

/// Returns the reason why none of these nodes takes a pod, however little runs there: taints, selectors, node affinity.
pub fn barred_everywhere(pod: &DynamicObject, nodes: &[DynamicObject]) -> Option<String> {
    let reasons = nodes.iter().map(|node| bar(pod, node)).collect::<Option<Vec<_>>>()?;
    let total = nodes.len();
    (total > 0).then(|| format!("0/{total} nodes are available: {}", tally(reasons.iter().map(String::as_str))))
}

fn tolerates_unschedulable(pod: &DynamicObject) -> bool {
    tolerated(pod, &serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
}

/// Returns true if a pod tolerates a taint.
pub fn tolerated(pod: &DynamicObject, taint: &Value) -> bool {
    items(pod, "/spec/tolerations").any(|toleration| tolerates(toleration, taint))
}

/// Returns true if a toleration covers a taint.
pub fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (effect, key) = (text(&toleration["effect"]), text(&toleration["key"]));
    let exists = toleration["operator"] == "Exists";
    (effect.is_empty() || effect == text(&taint["effect"]))
        && (if key.is_empty() { exists } else { key == text(&taint["key"]) })
        && (exists || text(&toleration["value"]) == text(&taint["value"]))
}
