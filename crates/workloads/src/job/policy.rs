//! The policies of a Job: failure policy, success policy, indexes.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use serde_json::Value;

use super::plan::INDEX;
use crate::object::{Object, Read as _, condition, items};

/// The number of earlier failures of a pod's index.
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The most indexes of a Job.
const MOST: i64 = 100_000;

/// The meaning of a pod's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It counts as one more failure.
    Count,
    /// It is ignored.
    Ignore,
    /// It fails the pod's index for good.
    FailIndex,
    /// It fails the Job, for this reason.
    FailJob(String),
}

/// Returns the meaning of a failed pod by the Job's failure policy: the first rule that matches decides.
pub fn meaning(job: &DynamicObject, pod: &DynamicObject) -> Meaning {
    for (position, rule) in items(job, "/spec/podFailurePolicy/rules").enumerate() {
        let Some(matched) = by_exit_code(rule, pod).or_else(|| by_condition(rule, pod)) else { continue };
        return match rule["action"].as_str() {
            Some("FailJob") => Meaning::FailJob(format!("{matched} matching FailJob rule at index {position}")),
            Some("FailIndex") => Meaning::FailIndex,
            Some("Ignore") => Meaning::Ignore,
            _ => Meaning::Count,
        };
    }
    Meaning::Count
}

fn by_exit_code(rule: &Value, pod: &DynamicObject) -> Option<String> {
    let asked = rule.get("onExitCodes").filter(|asked| asked.is_object())?;
    let values: Vec<i64> = asked["values"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    let statuses = items(pod, "/status/initContainerStatuses").chain(items(pod, "/status/containerStatuses"));
    let mut failed = statuses
        .filter(|status| asked["containerName"].as_str().is_none_or(|name| status["name"] == name))
        .filter_map(|status| Some((status, status.pointer("/state/terminated/exitCode")?.as_i64()?)))
        .filter(|(_, code)| *code != 0);
    let wanted = asked["operator"] == "In";
    failed.find(|(_, code)| values.contains(code) == wanted).map(|(status, code)| {
        let name = status["name"].as_str().unwrap_or_default();
        format!("Container {name} for pod {}/{} failed with exit code {code}", pod.namespace(), pod.name())
    })
}

fn by_condition(rule: &Value, pod: &DynamicObject) -> Option<String> {
    let asked = rule["onPodConditions"].as_array()?;
    let kind = asked.iter().find_map(|asked| {
        let kind = asked["type"].as_str()?;
        let wanted = asked["status"].as_str().unwrap_or("True");
        condition(pod.at("/status/conditions"), kind).filter(|present| present["status"] == wanted).map(|_| kind)
    })?;
    Some(format!("Pod {}/{} has condition {kind}", pod.namespace(), pod.name()))
}

/// Returns the index of a pod.
pub fn index(pod: &DynamicObject) -> Option<i64> {
    pod.annotation(INDEX)?.parse().ok()
}

/// The failures of an index, by its failed pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// The number of failures.
    pub times: i64,
    /// True if the failure policy has given the index up.
    pub for_good: bool,
}

/// Returns the failures of each index of a Job that has failed pods.
pub fn failures<'a>(job: &DynamicObject, failed: impl IntoIterator<Item = &'a Object>) -> BTreeMap<i64, Failures> {
    let mut all: BTreeMap<i64, Failures> = BTreeMap::new();
    for pod in failed {
        let Some(index) = index(pod) else { continue };
        let before: i64 = pod.annotation(FAILURES).and_then(|count| count.parse().ok()).unwrap_or_default();
        let meaning = meaning(job, pod);
        let known = all.entry(index).or_default();
        known.times = known.times.max(before.saturating_add(i64::from(meaning != Meaning::Ignore)));
        known.for_good |= meaning == Meaning::FailIndex;
    }
    all
}

/// Returns the position of the success policy's rule that the succeeded indexes meet.
pub fn success(job: &DynamicObject, succeeded: &BTreeSet<i64>) -> Option<usize> {
    items(job, "/spec/successPolicy/rules").position(|rule| {
        let named = rule["succeededIndexes"].as_str().map(parse_ranges);
        let there = |among: &BTreeSet<i64>| i64::try_from(among.intersection(succeeded).count()).unwrap_or(i64::MAX);
        match (named, rule["succeededCount"].as_i64()) {
            (Some(named), Some(count)) => there(&named) >= count,
            (Some(named), None) => named.is_subset(succeeded),
            (None, Some(count)) => there(succeeded) >= count,
            (None, None) => false,
        }
    })
}

/// Writes indexes as `1,3-5`.
pub fn ranges(indexes: &BTreeSet<i64>) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => parts.push((*index, *index)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Parses `1,3-5`.
pub fn parse_ranges(text: &str) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
            indexes.extend(first..=last.min(first.saturating_add(MOST)));
        }
    }
    indexes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7,8"] {
            assert_eq!(ranges(&parse_ranges(text)), text);
        }
    }

    /// KAPI-WL-01: the first rule that matches a failed pod decides.
    #[test]
    fn failure_policies() {
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        ]);
        let job: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": rules}}})).unwrap();
        let pod = |code: i64, conditions: Value| -> DynamicObject {
            let status =
                json!({"conditions": conditions, "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]});
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n"}, "status": status})).unwrap()
        };
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let why = "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        assert_eq!(meaning(&job, &pod(42, disrupted)), Meaning::Ignore);
        assert_eq!(meaning(&job, &pod(42, json!([]))), Meaning::FailJob(why.to_owned()));
        assert_eq!(meaning(&job, &pod(7, json!([]))), Meaning::FailIndex);
        assert_eq!(meaning(&job, &pod(1, json!([]))), Meaning::Count);
    }

    /// KAPI-WL-01: an index has failed as often as the worst of its pods tells, whatever those of other indexes do.
    #[test]
    fn failures_are_counted_by_index() {
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        ]);
        let job: DynamicObject =
            serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": {"podFailurePolicy": {"rules": rules}}})).unwrap();
        let pod = |index: &str, before: i64, code: i64, disrupted: bool| -> Object {
            let conditions = if disrupted { json!([{"type": "DisruptionTarget", "status": "True"}]) } else { json!([]) };
            let annotations = json!({INDEX: index, FAILURES: before.to_string()});
            let terminated = json!([{"name": "main", "state": {"terminated": {"exitCode": code}}}]);
            let status = json!({"conditions": conditions, "containerStatuses": terminated});
            let value = json!({"metadata": {"name": "p", "namespace": "n", "annotations": annotations}, "status": status});
            std::sync::Arc::new(serde_json::from_value(value).unwrap())
        };
        let pods = [
            pod("3", 1, 1, false),
            pod("1", 0, 42, false),
            pod("3", 0, 1, false),
            pod("7", 4, 1, true),
            pod("1", 2, 1, false),
            pod("none", 9, 1, false),
        ];
        let told: Vec<_> = failures(&job, &pods).into_iter().map(|(index, failed)| (index, failed.times, failed.for_good)).collect();
        assert_eq!(told, [(1, 3, true), (3, 2, false), (7, 4, false)]);
    }

    /// KAPI-WL-01: a success policy asks for indexes, for a number, or for a number of these.
    #[test]
    fn success_policies() {
        let matched = |rule: Value, succeeded: &str| {
            let spec = json!({"successPolicy": {"rules": [{"succeededCount": 90}, rule]}});
            let job: DynamicObject = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec})).unwrap();
            success(&job, &parse_ranges(succeeded))
        };
        assert_eq!(matched(json!({"succeededIndexes": "0,2"}), "0-1"), None);
        assert_eq!(matched(json!({"succeededIndexes": "0,2"}), "0-2"), Some(1));
        assert_eq!(matched(json!({"succeededCount": 2}), "5,7"), Some(1));
        assert_eq!(matched(json!({"succeededIndexes": "0-3", "succeededCount": 2}), "3,7"), None);
        assert_eq!(matched(json!({"succeededIndexes": "0-3", "succeededCount": 2}), "1,3"), Some(1));
    }
}
