//! The plan for a HorizontalPodAutoscaler without metrics: it keeps its target within its bounds, and says why it does no more
//! (KAPI-WL-01).

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::events::Event;
use crate::object::{Read as _, condition, items, parse_time, time};

/// Why a target has no scale, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoScale(pub String);

/// The target's `/scale`, or the reason why it is unavailable.
pub type Scale<'a> = Result<&'a Value, &'a NoScale>;

/// The plan for an autoscaler.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The target's new replicas, if they change.
    pub replicas: Option<i64>,
    /// The status.
    pub status: Value,
    /// The events to record.
    pub events: Vec<Event>,
}

/// Decides the next changes.
pub fn plan(autoscaler: &DynamicObject, scale: Scale<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut conditions = Conditions { list: autoscaler.at("/status/conditions").as_array().cloned().unwrap_or_default(), now };
    let mut status = Map::new();
    if let Some(generation) = autoscaler.metadata.generation {
        status.insert("observedGeneration".into(), json!(generation));
    }
    let last = parse_time(autoscaler.at("/status/lastScaleTime"));
    let scale = match scale {
        Ok(scale) => scale,
        Err(why) => {
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            conditions.set("AbleToScale", "False", "FailedGetScale", &message);
            plan.events.push(Event::warning("FailedGetScale", why.to_string()));
            status
                .insert("currentReplicas".into(), autoscaler.at("/status/currentReplicas").as_i64().map_or(json!(0), |count| json!(count)));
            status.insert("desiredReplicas".into(), json!(autoscaler.int("/status/desiredReplicas").unwrap_or_default()));
            plan.status = conditions.finish(status, last);
            return plan;
        }
    };
    conditions.set("AbleToScale", "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale");
    let present = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    let shown = scale.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or_default();
    let least = autoscaler.int("/spec/minReplicas").unwrap_or(1);
    let most = autoscaler.int("/spec/maxReplicas").unwrap_or(least);
    let (mut desired, mut why) = (present, "");
    if present == 0 && least != 0 {
        // A target that was scaled to zero disables the autoscaler.
        conditions.set("ScalingActive", "False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero");
    } else if present > most {
        (desired, why) = (most, "Current number of replicas above Spec.MaxReplicas");
    } else if present < least {
        (desired, why) = (least, "Current number of replicas below Spec.MinReplicas");
    } else {
        let (reason, message) = unmeasured(autoscaler);
        conditions.set("ScalingActive", "False", reason, &format!("the HPA was unable to compute the replica count: {message}"));
        plan.events.push(Event::warning(reason, message));
    }
    let mut scaled = last;
    if desired != present {
        plan.replicas = Some(desired);
        scaled = Some(now);
        conditions.set(
            "AbleToScale",
            "True",
            "SucceededRescale",
            &format!("the HPA controller was able to update the target scale to {desired}"),
        );
        plan.events.push(Event::normal("SuccessfulRescale", format!("New size: {desired}; reason: {why}")));
    }
    status.insert("currentReplicas".into(), json!(shown));
    status.insert("desiredReplicas".into(), json!(desired));
    plan.status = conditions.finish(status, scaled);
    plan
}

/// Returns the reason and message for the missing first metric.
fn unmeasured(autoscaler: &DynamicObject) -> (&'static str, String) {
    const MISSING: &str = "the server could not find the requested resource";
    let metric = items(autoscaler, "/spec/metrics").next().unwrap_or(&Value::Null);
    let text = |pointer: &str| metric.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match text("/type") {
        "Pods" => {
            let name = text("/pods/metric/name");
            ("FailedGetPodsMetric", format!("unable to get metric {name}: unable to fetch metrics from custom metrics API: {MISSING}"))
        }
        "Object" => {
            let name = text("/object/metric/name");
            ("FailedGetObjectMetric", format!("unable to get metric {name}: unable to fetch metrics from custom metrics API: {MISSING}"))
        }
        "External" => {
            let name = text("/external/metric/name");
            (
                "FailedGetExternalMetric",
                format!("unable to get external metric {name}: unable to fetch metrics from external metrics API: {MISSING}"),
            )
        }
        kind => {
            let (place, reason) = if kind == "ContainerResource" {
                ("/containerResource", "FailedGetContainerResourceMetric")
            } else {
                ("/resource", "FailedGetResourceMetric")
            };
            let name = match text(&format!("{place}/name")) {
                "" => "cpu",
                name => name,
            };
            let of = if metric.pointer(&format!("{place}/target/averageValue")).is_some() { "usage" } else { "utilization" };
            let message = format!(
                "failed to get {name} {of}: unable to get metrics for resource {name}: unable to fetch metrics from resource metrics API: {MISSING} \
                 (get pods.metrics.k8s.io)"
            );
            (reason, message)
        }
    }
}

struct Conditions {
    list: Vec<Value>,
    now: Timestamp,
}

impl Conditions {
    fn set(&mut self, kind: &str, state: &str, reason: &str, message: &str) {
        let whole = Value::Array(std::mem::take(&mut self.list));
        let since =
            condition(&whole, kind).filter(|present| present["status"] == state).map(|present| present["lastTransitionTime"].clone());
        let next = json!({
            "type": kind, "status": state, "lastTransitionTime": since.unwrap_or_else(|| time(self.now)), "reason": reason, "message": message,
        });
        if let Value::Array(list) = whole {
            self.list = list;
        }
        match self.list.iter_mut().find(|present| present["type"] == kind) {
            Some(present) => *present = next,
            None => self.list.push(next),
        }
    }

    fn finish(self, mut status: Map<String, Value>, scaled: Option<Timestamp>) -> Value {
        status.insert("currentMetrics".into(), Value::Null);
        status.insert("conditions".into(), Value::Array(self.list));
        if let Some(at) = scaled {
            status.insert("lastScaleTime".into(), time(at));
        }
        Value::Object(status)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WL-01: the target is kept within bounds, and the conditions say what is missing for more.
    #[test]
    fn targets_are_kept_within_bounds() {
        let autoscaler: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "h", "generation": 1},
            "spec": {"minReplicas": 2, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
        }))
        .unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        for (replicas, desired, reason) in [
            (1, Some(2), "SucceededRescale"),
            (9, Some(5), "SucceededRescale"),
            (3, None, "FailedGetResourceMetric"),
            (0, None, "ScalingDisabled"),
        ] {
            let scale = json!({"spec": {"replicas": replicas}, "status": {"replicas": replicas}});
            let plan = plan(&autoscaler, Ok(&scale), now);
            let reasons: Vec<&Value> = plan.status["conditions"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
            assert_eq!(plan.replicas, desired, "{replicas}");
            assert!(reasons.contains(&&json!(reason)), "{replicas} {reasons:?}");
        }
        let lost = plan(&autoscaler, Err(&NoScale("deployments/scale.apps \"d\" not found".to_owned())), now);
        assert_eq!((lost.replicas, &lost.status["conditions"][0]["reason"]), (None, &json!("FailedGetScale")));
    }
}
