//! Rules of pods about nodes and about each other: node affinity, pod affinity and anti-affinity, topology spread (KAPI-WL-02).

use std::collections::{BTreeMap, HashMap};

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::cluster::{Cluster, Placed};
use super::plan::{Incoming, tolerated};
use crate::object::{Read as _, items};

/// The part of a rule that must be met.
pub const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The part that is only wished for.
pub const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const HARD_WEIGHT: i64 = 1;

/// Whether a node has what a pod's nodeSelector and required node affinity ask for.
pub fn matches_node(pod: &DynamicObject, node: &DynamicObject) -> bool {
    let mut selector = pod.at("/spec/nodeSelector").as_object().into_iter().flatten();
    let selected = selector.all(|(key, value)| node.labels().get(key).map(String::as_str) == value.as_str());
    let required = pod.at("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    selected && required.as_array().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
}

/// How much a node is wished for by node affinity.
pub fn wished_node(pod: &DynamicObject, node: &DynamicObject) -> i64 {
    let terms = items(pod, "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
    terms.filter(|term| term_matches(&term["preference"], node)).filter_map(|term| term["weight"].as_i64()).sum()
}

/// Whether a term of a node selector matches.
pub fn term_matches(term: &Value, node: &DynamicObject) -> bool {
    let list = |name: &str| term[name].as_array().map(Vec::as_slice).unwrap_or_default();
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

/// Whether a label selector matches: absent it matches nothing, empty everything.
pub fn selector_matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    if !selector.is_object() {
        return false;
    }
    let labels = Value::Object(labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect::<Map<_, _>>());
    mainstay_rbac::selector_matches(selector, Some(&labels))
}

/// The labels of namespaces, by name.
pub type Namespaces<'a> = &'a dyn Fn(&str) -> Option<BTreeMap<String, String>>;

/// Whether a term of `asks` is about `other`.
fn about(term: &Value, asks: &DynamicObject, other: &DynamicObject, namespaces: Namespaces<'_>) -> bool {
    let listed = term["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let selector = &term["namespaceSelector"];
    let named = listed.iter().any(|name| name == other.namespace());
    let own = listed.is_empty() && !selector.is_object() && asks.namespace() == other.namespace();
    let place = named || own || (selector.is_object() && selector_matches(selector, &namespaces(other.namespace()).unwrap_or_default()));
    place && selector_matches(&term["labelSelector"], other.labels())
}

fn terms<'a>(pod: &'a DynamicObject, rule: &str, part: &str) -> impl Iterator<Item = &'a Value> {
    pod.at("/spec/affinity")[rule][part].as_array().into_iter().flatten()
}

fn key(term: &Value) -> &str {
    term["topologyKey"].as_str().unwrap_or_default()
}

/// A topology key and one of its values.
type Domain = (String, String);

/// Why a node is refused by rules about pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by the rule")]
pub enum Broken {
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    Spread,
    SpreadLabel,
}

/// What the pods that are there mean for a new one: counted once for all nodes.
#[derive(Debug, Default)]
pub struct Rules {
    /// For each required affinity term, where pods are that it is about; and whether there are any at all.
    affinity: Vec<(String, HashMap<String, usize>)>,
    /// Whether the pod matches all of its own terms, so that it may be the first of its group.
    first: bool,
    avoided: HashMap<Domain, usize>,
    forbidden: HashMap<Domain, usize>,
    wished: HashMap<Domain, i64>,
    spread: Vec<Spread>,
}

#[derive(Debug)]
struct Spread {
    key: String,
    hard: bool,
    most: i64,
    /// One more with the pod itself.
    own: i64,
    least: i64,
    counts: HashMap<String, i64>,
}

impl Rules {
    /// Counts. `except` are pods that are thought away.
    pub fn of(incoming: &Incoming<'_>, cluster: &Cluster, except: &dyn Fn(&Placed) -> bool, namespaces: Namespaces<'_>) -> Self {
        let pod = incoming.pod;
        let mut rules = Self::default();
        let domain = |term: &Value, node: &str| -> Option<Domain> {
            let value = cluster.node(node)?.labels().get(key(term))?;
            Some((key(term).to_owned(), value.clone()))
        };
        if pod.at("/spec/affinity/podAffinity").is_object() || pod.at("/spec/affinity/podAntiAffinity").is_object() {
            rules.own(pod, cluster, except, namespaces, &domain);
        }
        for other in cluster.with_rules().filter(|other| !except(other)) {
            for term in terms(&other.pod, "podAntiAffinity", REQUIRED).filter(|term| about(term, &other.pod, pod, namespaces)) {
                if let Some(domain) = domain(term, &other.node) {
                    *rules.forbidden.entry(domain).or_default() += 1;
                }
            }
            for (rule, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
                for term in terms(&other.pod, rule, PREFERRED) {
                    let (inner, weight) = (&term["podAffinityTerm"], term["weight"].as_i64().unwrap_or_default());
                    if about(inner, &other.pod, pod, namespaces)
                        && let Some(domain) = domain(inner, &other.node)
                    {
                        *rules.wished.entry(domain).or_default() += sign * weight;
                    }
                }
            }
            for term in terms(&other.pod, "podAffinity", REQUIRED).filter(|term| about(term, &other.pod, pod, namespaces)) {
                if let Some(domain) = domain(term, &other.node) {
                    *rules.wished.entry(domain).or_default() += HARD_WEIGHT;
                }
            }
        }
        rules.spread =
            items(pod, "/spec/topologySpreadConstraints").map(|constraint| Spread::of(constraint, incoming, cluster, except)).collect();
        rules
    }

    fn own(
        &mut self,
        pod: &DynamicObject,
        cluster: &Cluster,
        except: &dyn Fn(&Placed) -> bool,
        namespaces: Namespaces<'_>,
        domain: &dyn Fn(&Value, &str) -> Option<Domain>,
    ) {
        let required: Vec<&Value> = terms(pod, "podAffinity", REQUIRED).collect();
        self.first = required.iter().all(|term| about(term, pod, pod, namespaces));
        self.affinity = required.iter().map(|term| (key(term).to_owned(), HashMap::new())).collect();
        for other in cluster.pods().filter(|other| !except(other)) {
            // With several terms, only a pod that all of them are about counts for any.
            if !required.is_empty() && required.iter().all(|term| about(term, pod, &other.pod, namespaces)) {
                for (term, (_, places)) in required.iter().zip(&mut self.affinity) {
                    if let Some((_, value)) = domain(term, &other.node) {
                        *places.entry(value).or_default() += 1;
                    }
                }
            }
            for term in terms(pod, "podAntiAffinity", REQUIRED).filter(|term| about(term, pod, &other.pod, namespaces)) {
                if let Some(domain) = domain(term, &other.node) {
                    *self.avoided.entry(domain).or_default() += 1;
                }
            }
            for (rule, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
                for term in terms(pod, rule, PREFERRED) {
                    let (inner, weight) = (&term["podAffinityTerm"], term["weight"].as_i64().unwrap_or_default());
                    if about(inner, pod, &other.pod, namespaces)
                        && let Some(domain) = domain(inner, &other.node)
                    {
                        *self.wished.entry(domain).or_default() += sign * weight;
                    }
                }
            }
        }
    }

    /// Whether a node may be had.
    pub fn broken(&self, node: &DynamicObject) -> Option<Broken> {
        for spread in self.spread.iter().filter(|spread| spread.hard) {
            let Some(value) = node.labels().get(&spread.key) else { return Some(Broken::SpreadLabel) };
            let there = spread.counts.get(value).copied().unwrap_or_default();
            if there + spread.own - spread.least > spread.most {
                return Some(Broken::Spread);
            }
        }
        if !self.affinity.is_empty() {
            let labelled = self.affinity.iter().all(|(key, _)| node.labels().contains_key(key));
            let together = self.affinity.iter().all(|(key, places)| node.labels().get(key).is_some_and(|value| places.contains_key(value)));
            let nobody = self.affinity.iter().all(|(_, places)| places.is_empty());
            // The first of a group that wants to be together may go anywhere.
            if !labelled || !(together || nobody && self.first) {
                return Some(Broken::Affinity);
            }
        }
        let there = |counts: &HashMap<Domain, usize>| counts.keys().any(|(key, value)| node.labels().get(key) == Some(value));
        if there(&self.avoided) {
            return Some(Broken::AntiAffinity);
        }
        there(&self.forbidden).then_some(Broken::ExistingAntiAffinity)
    }

    /// How much a node is wished for for its pods.
    pub fn wished(&self, node: &DynamicObject) -> i64 {
        self.wished.iter().filter(|((key, value), _)| node.labels().get(key) == Some(value)).map(|(_, weight)| weight).sum()
    }

    /// How many pods a node's domains have that the new one had better be apart from.
    pub fn crowd(&self, node: &DynamicObject) -> i64 {
        let soft = self.spread.iter().filter(|spread| !spread.hard);
        soft.map(|spread| match node.labels().get(&spread.key) {
            Some(value) => spread.counts.get(value).copied().unwrap_or_default(),
            None => spread.counts.values().sum::<i64>() + 1,
        })
        .sum()
    }
}

impl Spread {
    fn of(constraint: &Value, incoming: &Incoming<'_>, cluster: &Cluster, except: &dyn Fn(&Placed) -> bool) -> Self {
        let pod = incoming.pod;
        let key = key(constraint).to_owned();
        let keys: Vec<&str> = constraint["matchLabelKeys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let alike = |labels: &BTreeMap<String, String>| {
            let same = keys.iter().all(|key| pod.labels().get(*key).is_none_or(|value| labels.get(*key) == Some(value)));
            same && selector_matches(&constraint["labelSelector"], labels)
        };
        let mut counts: HashMap<String, i64> = HashMap::new();
        let all: Vec<&str> =
            items(pod, "/spec/topologySpreadConstraints").map(|one| one["topologyKey"].as_str().unwrap_or_default()).collect();
        let mut counted: HashMap<&str, &str> = HashMap::new();
        for (node, _) in cluster.nodes() {
            let affinity = constraint["nodeAffinityPolicy"] == "Ignore" || matches_node(pod, node);
            let untainted = || {
                items(node, "/spec/taints")
                    .all(|taint| !matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")) || tolerated(pod, taint))
            };
            let taints = constraint["nodeTaintsPolicy"] != "Honor" || untainted();
            if affinity
                && taints
                && all.iter().all(|key| node.labels().contains_key(*key))
                && let Some(value) = node.labels().get(&key)
            {
                counts.entry(value.clone()).or_default();
                counted.insert(node.name(), value);
            }
        }
        for other in cluster.pods_in(pod.namespace()).filter(|other| !except(other) && !other.pod.deleting() && alike(other.pod.labels())) {
            if let Some(value) = counted.get(other.node.as_str()) {
                *counts.entry((*value).to_owned()).or_default() += 1;
            }
        }
        let few = constraint["minDomains"].as_u64().is_some_and(|least| (counts.len() as u64) < least);
        let least = if few { 0 } else { counts.values().min().copied().unwrap_or_default() };
        Self {
            key,
            hard: constraint["whenUnsatisfiable"] != "ScheduleAnyway",
            most: constraint["maxSkew"].as_i64().unwrap_or(1),
            own: i64::from(selector_matches(&constraint["labelSelector"], pod.labels())),
            least,
            counts,
        }
    }
}
