//! The rules of pods about nodes and about each other: node affinity, pod affinity and anti-affinity, topology spread (KAPI-WL-02).

use std::collections::{BTreeMap, HashMap};

use kube::api::DynamicObject;
use serde_json::Value;

use super::cluster::{Cluster, Placed};
use super::plan::tolerated;
use crate::object::{Object, Read as _, items};

/// The part of a rule that must be met.
pub const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The part of a rule that is only preferred.
pub const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const HARD_WEIGHT: i64 = 1;

/// Returns true if a node meets a pod's nodeSelector and required node affinity.
pub fn matches_node(pod: &DynamicObject, node: &DynamicObject) -> bool {
    let mut selector = pod.at("/spec/nodeSelector").as_object().into_iter().flatten();
    let selected = selector.all(|(key, value)| node.labels().get(key).map(String::as_str) == value.as_str());
    let required = pod.at("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    selected && required.as_array().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
}

/// Returns the preference for a node by node affinity: the sum of the weights that match.
pub fn preferred_node(pod: &DynamicObject, node: &DynamicObject) -> i64 {
    let terms = items(pod, "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution");
    terms.filter(|term| term_matches(&term["preference"], node)).filter_map(|term| term["weight"].as_i64()).sum()
}

/// Returns true if a term of a node selector matches.
pub fn term_matches(term: &Value, node: &DynamicObject) -> bool {
    let list = |name: &str| term[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    // An empty term matches nothing.
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

/// Returns true if a label selector matches: an absent one matches nothing, an empty one everything.
pub fn selector_matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector.as_object() else { return false };
    let label = |key: &str| labels.get(key).map(String::as_str);
    let mut wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    wanted.all(|(key, value)| value.is_string() && label(key) == value.as_str())
        && expressions.all(|expression| requirement(expression, label(expression["key"].as_str().unwrap_or_default())))
}

/// The namespaces, by name.
pub type Namespaces<'a> = &'a dyn Fn(&str) -> Option<Object>;

/// Returns true if a term of `asks` applies to `other`.
fn about(term: &Value, asks: &DynamicObject, other: &DynamicObject, namespaces: Namespaces<'_>) -> bool {
    let listed = term["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let selector = &term["namespaceSelector"];
    let named = listed.iter().any(|name| name == other.namespace());
    let own = listed.is_empty() && !selector.is_object() && asks.namespace() == other.namespace();
    let selected = || match namespaces(other.namespace()) {
        Some(namespace) => selector_matches(selector, namespace.labels()),
        None => selector_matches(selector, &BTreeMap::new()),
    };
    (named || own || (selector.is_object() && selected())) && selector_matches(&term["labelSelector"], other.labels())
}

fn terms<'a>(pod: &'a DynamicObject, rule: &str, part: &str) -> impl Iterator<Item = &'a Value> {
    pod.at("/spec/affinity")[rule][part].as_array().into_iter().flatten()
}

fn key(term: &Value) -> &str {
    term["topologyKey"].as_str().unwrap_or_default()
}

/// Returns the preferences of a pod with their weights, which are negative for anti-affinity.
fn preferences(pod: &DynamicObject) -> impl Iterator<Item = (&Value, i64)> {
    [("podAffinity", 1), ("podAntiAffinity", -1)].into_iter().flat_map(move |(rule, sign)| {
        terms(pod, rule, PREFERRED).map(move |term| (&term["podAffinityTerm"], sign * term["weight"].as_i64().unwrap_or_default()))
    })
}

/// Counts by topology key and its value. Zero counts are left out.
type Counts = HashMap<String, HashMap<String, i64>>;

fn count(counts: &mut Counts, key: &str, value: &str, by: i64) {
    if !counts.contains_key(key) {
        counts.insert(key.to_owned(), HashMap::new());
    }
    if let Some(values) = counts.get_mut(key) {
        let total = values.entry(value.to_owned()).or_default();
        *total += by;
        if *total == 0 {
            values.remove(value);
        }
    }
}

/// Returns the counts of a node's domains.
fn counted<'a>(counts: &'a Counts, node: &'a DynamicObject) -> impl Iterator<Item = i64> {
    counts.iter().filter_map(|(key, values)| values.get(node.labels().get(key)?).copied())
}

/// The rule about pods that refuses a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by the rule")]
pub enum Broken {
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    Spread,
    SpreadLabel,
}

/// The effect of the existing pods on a new one, counted once for all nodes. Pods can be removed and restored one by one, hypothetically.
pub struct Rules<'a> {
    pod: &'a DynamicObject,
    cluster: &'a Cluster,
    namespaces: Namespaces<'a>,
    /// The pod's own terms: required affinity, required anti-affinity, and preferences.
    beside: Vec<&'a Value>,
    apart: Vec<&'a Value>,
    preferences: Vec<(&'a Value, i64)>,
    /// True if the pod matches its own required affinity, so that it may be the first of its group.
    first: bool,
    /// The pods that required affinity selects, by domain; only pods that all terms apply to count.
    affinity: Counts,
    avoided: Counts,
    forbidden: Counts,
    preferred: Counts,
    spread: Vec<Spread<'a>>,
}

impl<'a> Rules<'a> {
    /// Counts the existing pods.
    pub fn of(pod: &'a DynamicObject, cluster: &'a Cluster, namespaces: Namespaces<'a>) -> Self {
        let beside: Vec<&Value> = terms(pod, "podAffinity", REQUIRED).collect();
        let mut rules = Self {
            first: beside.iter().all(|term| about(term, pod, pod, namespaces)),
            beside,
            apart: terms(pod, "podAntiAffinity", REQUIRED).collect(),
            preferences: preferences(pod).collect(),
            affinity: Counts::new(),
            avoided: Counts::new(),
            forbidden: Counts::new(),
            preferred: Counts::new(),
            spread: items(pod, "/spec/topologySpreadConstraints").map(|constraint| Spread::of(constraint, pod, cluster)).collect(),
            pod,
            cluster,
            namespaces,
        };
        // Most pods have no rules: then only pods that have some are counted.
        if !(rules.beside.is_empty() && rules.apart.is_empty() && rules.preferences.is_empty()) {
            for other in cluster.pods() {
                rules.count_own(other, 1);
            }
        }
        for other in cluster.with_rules() {
            rules.count_theirs(other, 1);
        }
        if !rules.spread.is_empty() {
            for other in cluster.pods_in(pod.namespace()) {
                rules.count_spread(other, 1);
            }
        }
        rules
    }

    /// Removes a counted pod, hypothetically.
    pub fn leave(&mut self, other: &Placed) {
        self.count(other, -1);
    }

    /// Restores a pod that was removed.
    pub fn enter(&mut self, other: &Placed) {
        self.count(other, 1);
    }

    fn count(&mut self, other: &Placed, by: i64) {
        self.count_own(other, by);
        self.count_theirs(other, by);
        self.count_spread(other, by);
    }

    /// Counts another pod for the rules of this one.
    fn count_own(&mut self, other: &Placed, by: i64) {
        let (cluster, pod, namespaces) = (self.cluster, self.pod, self.namespaces);
        let domain = |term| cluster.domain(&other.node, key(term));
        let about = |term| about(term, pod, &other.pod, namespaces);
        if !self.beside.is_empty() && self.beside.iter().all(|term| about(term)) {
            // Terms with the same key see the same pods, so one of them counts for all.
            let keys: BTreeMap<&str, &Value> = self.beside.iter().map(|term| (key(term), *term)).collect();
            for (key, term) in keys {
                if let Some(value) = domain(term) {
                    count(&mut self.affinity, key, value, by);
                }
            }
        }
        for term in self.apart.iter().filter(|term| about(term)) {
            if let Some(value) = domain(term) {
                count(&mut self.avoided, key(term), value, by);
            }
        }
        for (term, weight) in self.preferences.iter().filter(|(term, _)| about(term)) {
            if let Some(value) = domain(term) {
                count(&mut self.preferred, key(term), value, by * weight);
            }
        }
    }

    /// Counts the rules of another pod about this one.
    fn count_theirs(&mut self, other: &Placed, by: i64) {
        let (cluster, pod, namespaces) = (self.cluster, self.pod, self.namespaces);
        let domain = |term| cluster.domain(&other.node, key(term));
        let about = |term| about(term, &other.pod, pod, namespaces);
        for term in terms(&other.pod, "podAntiAffinity", REQUIRED).filter(|term| about(term)) {
            if let Some(value) = domain(term) {
                count(&mut self.forbidden, key(term), value, by);
            }
        }
        let hard = terms(&other.pod, "podAffinity", REQUIRED).map(|term| (term, HARD_WEIGHT));
        for (term, weight) in preferences(&other.pod).chain(hard).filter(|(term, _)| about(term)) {
            if let Some(value) = domain(term) {
                count(&mut self.preferred, key(term), value, by * weight);
            }
        }
    }

    fn count_spread(&mut self, other: &Placed, by: i64) {
        if other.pod.namespace() == self.pod.namespace() && !other.pod.deleting() {
            for spread in &mut self.spread {
                spread.count(self.pod, other, by);
            }
        }
    }

    /// Returns the rule that refuses a node, if any.
    pub fn broken(&self, node: &DynamicObject) -> Option<Broken> {
        for spread in self.spread.iter().filter(|spread| spread.hard) {
            let Some(value) = node.labels().get(spread.key) else { return Some(Broken::SpreadLabel) };
            let there = spread.counts.get(value.as_str()).copied().unwrap_or_default();
            if there + spread.own - spread.least() > spread.most {
                return Some(Broken::Spread);
            }
        }
        if !self.beside.is_empty() {
            let value = |term: &Value| node.labels().get(key(term));
            let labelled = self.beside.iter().all(|term| value(term).is_some());
            let there = |term: &Value| Some(self.affinity.get(key(term))?.contains_key(value(term)?));
            let together = self.beside.iter().all(|term| there(term) == Some(true));
            let nobody = self.affinity.values().all(HashMap::is_empty);
            // The first pod of a group with affinity to itself may go to any labelled node.
            if !labelled || !(together || nobody && self.first) {
                return Some(Broken::Affinity);
            }
        }
        if counted(&self.avoided, node).next().is_some() {
            return Some(Broken::AntiAffinity);
        }
        counted(&self.forbidden, node).next().map(|_| Broken::ExistingAntiAffinity)
    }

    /// Returns the preference for a node because of its pods.
    pub fn preferred(&self, node: &DynamicObject) -> i64 {
        counted(&self.preferred, node).sum()
    }

    /// Returns the number of pods in a node's domains that soft spread constraints count.
    pub fn crowd(&self, node: &DynamicObject) -> i64 {
        let soft = self.spread.iter().filter(|spread| !spread.hard);
        soft.map(|spread| match node.labels().get(spread.key) {
            Some(value) => spread.counts.get(value.as_str()).copied().unwrap_or_default(),
            None => spread.counts.values().sum::<i64>() + 1,
        })
        .sum()
    }
}

/// One constraint of topology spread, with the pods of each domain counted.
struct Spread<'a> {
    key: &'a str,
    selector: &'a Value,
    /// Labels of the pod that another pod must share to count.
    alike: Vec<&'a str>,
    hard: bool,
    most: i64,
    /// The count of the pod itself.
    own: i64,
    /// True if there are fewer domains than `minDomains`: then the minimum counts as zero.
    few: bool,
    /// The domain of each node that counts.
    domains: HashMap<&'a str, &'a str>,
    counts: HashMap<&'a str, i64>,
    /// The number of domains by their count of pods, so that the minimum is known without a look at all domains.
    heights: BTreeMap<i64, usize>,
}

impl<'a> Spread<'a> {
    /// Returns the constraint with its domains, before any pods are counted.
    fn of(constraint: &'a Value, pod: &'a DynamicObject, cluster: &'a Cluster) -> Self {
        let own_key = key(constraint);
        let all: Vec<&str> = items(pod, "/spec/topologySpreadConstraints").map(key).collect();
        let untainted = |node: &DynamicObject| {
            items(node, "/spec/taints")
                .all(|taint| !matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute")) || tolerated(pod, taint))
        };
        let mut domains = HashMap::new();
        for (node, _) in cluster.nodes() {
            let affinity = constraint["nodeAffinityPolicy"] == "Ignore" || matches_node(pod, node);
            let taints = constraint["nodeTaintsPolicy"] != "Honor" || untainted(node);
            if affinity
                && taints
                && all.iter().all(|key| node.labels().contains_key(*key))
                && let Some(value) = node.labels().get(own_key)
            {
                domains.insert(node.name(), value.as_str());
            }
        }
        let counts: HashMap<&str, i64> = domains.values().map(|value| (*value, 0)).collect();
        let selector = &constraint["labelSelector"];
        Self {
            key: own_key,
            selector,
            alike: constraint["matchLabelKeys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
            hard: constraint["whenUnsatisfiable"] != "ScheduleAnyway",
            most: constraint["maxSkew"].as_i64().unwrap_or(1),
            own: i64::from(selector_matches(selector, pod.labels())),
            few: constraint["minDomains"].as_u64().is_some_and(|least| (counts.len() as u64) < least),
            heights: BTreeMap::from([(0, counts.len())]),
            domains,
            counts,
        }
    }

    fn count(&mut self, pod: &DynamicObject, other: &Placed, by: i64) {
        let labels = other.pod.labels();
        let alike = self.alike.iter().all(|key| pod.labels().get(*key).is_none_or(|value| labels.get(*key) == Some(value)));
        if !alike || !selector_matches(self.selector, labels) {
            return;
        }
        let Some(total) = self.domains.get(other.node.as_str()).and_then(|value| self.counts.get_mut(value)) else { return };
        if let Some(domains) = self.heights.get_mut(total) {
            *domains -= 1;
            if *domains == 0 {
                self.heights.remove(total);
            }
        }
        *total += by;
        *self.heights.entry(*total).or_default() += 1;
    }

    fn least(&self) -> i64 {
        if self.few { 0 } else { self.heights.first_key_value().map_or(0, |(least, _)| *least) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Label selectors mean what they mean everywhere else.
    #[test]
    fn selectors_match_as_elsewhere() {
        let labels = BTreeMap::from([("app".to_owned(), "x".to_owned()), ("tier".to_owned(), "9".to_owned())]);
        let expression =
            |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "x", "tier": "9"}}), true),
            (json!({"matchLabels": {"app": "y"}}), false),
            (json!({"matchLabels": {"gone": "x"}}), false),
            (json!({"matchLabels": {"gone": null}}), false),
            (expression("app", "In", json!(["y", "x"])), true),
            (expression("app", "NotIn", json!(["x"])), false),
            (expression("gone", "NotIn", json!(["x"])), true),
            (expression("app", "Exists", json!(null)), true),
            (expression("gone", "Exists", json!(null)), false),
            (expression("gone", "DoesNotExist", json!(null)), true),
            (expression("app", "Like", json!(["x"])), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(selector_matches(&selector, &labels), expected, "{selector}");
            assert_eq!(mainstay_rbac::selector_matches(&selector, Some(&json!(labels))), expected, "{selector}");
        }
        assert!(!selector_matches(&Value::Null, &labels));
    }
}
