//! Which node a pod gets, whom it drives away for it, or why there is none: filters in upstream's order, then preferences
//! (KAPI-WL-02).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use kube::api::DynamicObject;
use serde_json::Value;

use super::affinity::{Broken, Namespaces, Rules, matches_node, selector_matches, term_matches, wished_node};
use super::cluster::{Cluster, HostPort, Place, Placed, priority};
use super::resources::{Amounts, add, requests, subtract};
use crate::object::{Object, Read as _, items};

/// A pod that looks for a node.
pub struct Incoming<'a> {
    /// The pod.
    pub pod: &'a Object,
    /// Why no node will do, whatever it has: its claims.
    pub problem: Option<String>,
    /// The node affinities of its volumes: all of them must be met.
    pub volumes: Vec<Value>,
}

/// A budget of disruptions, as far as preemption looks at it.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Its namespace.
    pub namespace: String,
    /// The pods that it covers.
    pub selector: Value,
    /// How many may be disturbed now.
    pub allowed: i64,
}

/// The node, or why there is none.
#[derive(Debug, PartialEq)]
pub enum Decision {
    /// Its name.
    Bind(String),
    /// Nothing fits now, and a node would if these pods left it.
    Preempt {
        /// Its name.
        node: String,
        /// Who leaves.
        victims: Vec<Object>,
        /// Why it does not fit now, for people.
        why: String,
    },
    /// For people.
    Unschedulable(String),
}

/// How little a node is liked, its pods of the same controller, its load, its name: the smallest wins.
type Score<'a> = (Reverse<i64>, usize, i128, &'a str);

#[derive(Debug)]
struct Refusal {
    reasons: Vec<String>,
    /// Whether driving pods away could not help either.
    final_word: bool,
}

/// What is looked at for one decision.
struct Search<'a> {
    incoming: &'a Incoming<'a>,
    cluster: &'a Cluster,
    needs: Amounts,
    ports: Vec<HostPort>,
    priority: i64,
}

/// What a node's pods take of it, as some of them are thought away and back.
struct Room {
    taken: Amounts,
    pods: usize,
    /// How many of them have a port that the incoming pod wants.
    clashes: usize,
}

/// Decides. `budgets` are asked for only where pods might be driven away.
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
    // Those who were driven away for it may need a while to leave: nobody else has to go meanwhile.
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

/// `2 this reason, 1 that reason`, as texts in order.
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
    /// Why a node will not do with the pods that are left on it.
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

    /// What is taken of a node now, with what is kept for others that come first.
    fn room(&self, node: &Object, place: &Place) -> Room {
        // Most pods want no port; then nobody needs to be asked.
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
        let parts: Vec<[i64; 4]> =
            fitting.iter().map(|(node, _)| [-avoided(node), wished_node(pod, node), rules.wished(node), -rules.crowd(node)]).collect();
        // Each preference counts from 0 to 100 between the worst and the best of the nodes, and then by its weight.
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

    /// The fewest pods of lower priority that must leave a node, or why that does not help. Pods are thought away and back one by
    /// one, so that the work grows with their number; in the end the rules are as they were.
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
        // Those that budgets protect are asked to stay first, then the more important, then those that began first.
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

/// The uids of those that a budget does not allow to be disturbed any more.
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
    /// Fewest violations, least important, least in sum, fewest, youngest.
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

/// How full a node would be, in millionths: the mean over processor, memory and pods.
fn load(place: &Place, needs: &Amounts) -> i128 {
    let share = |name: &str, taken: i128| place.allocatable.get(name).filter(|all| **all > 0).map_or(0, |all| taken * 1_000_000 / all);
    let taken = |name: &str| place.taken.get(name).copied().unwrap_or_default() + needs.get(name).copied().unwrap_or_default();
    let pods = i128::try_from(place.pods.len()).unwrap_or_default() * 1000;
    share("cpu", taken("cpu")) + share("memory", taken("memory")) + share("pods", pods)
}

/// The reason why a node does not take a pod, whatever else runs there.
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

/// The reason why none of these nodes takes a pod, however little runs there: taints, selectors, affinity to nodes.
pub fn barred_everywhere(pod: &DynamicObject, nodes: &[DynamicObject]) -> Option<String> {
    let reasons = nodes.iter().map(|node| bar(pod, node)).collect::<Option<Vec<_>>>()?;
    let total = nodes.len();
    (total > 0).then(|| format!("0/{total} nodes are available: {}", tally(reasons.iter().map(String::as_str))))
}

fn tolerates_unschedulable(pod: &DynamicObject) -> bool {
    tolerated(pod, &serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
}

/// Whether a pod tolerates a taint.
pub fn tolerated(pod: &DynamicObject, taint: &Value) -> bool {
    items(pod, "/spec/tolerations").any(|toleration| tolerates(toleration, taint))
}

/// Whether a toleration is about a taint.
pub fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (effect, key) = (text(&toleration["effect"]), text(&toleration["key"]));
    let exists = toleration["operator"] == "Exists";
    (effect.is_empty() || effect == text(&taint["effect"]))
        && (if key.is_empty() { exists } else { key == text(&taint["key"]) })
        && (exists || text(&toleration["value"]) == text(&taint["value"]))
}
