//! The condition that says that `grpcPodConfig` has no effect, because no pod serves the source (OLM0-CAT-34).

use jiff::Timestamp;
use mainstay_objects::{Condition, set_condition};
use serde_json::{Value, json};

use super::registry::{Tools, pod};
use super::time;

const CONDITION: &str = "PodConfigInUse";

/// The status of a source with the condition about its pod's configuration, or without it: if it has none, or a pod uses it.
pub fn status(source: &Value, by_pods: bool, now: Timestamp) -> Value {
    let mut object = json!({"status": source["status"]});
    let config = source.pointer("/spec/grpcPodConfig").filter(|config| config.as_object().is_some_and(|config| !config.is_empty()));
    if config.is_none() || by_pods {
        if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
            conditions.retain(|condition| condition["type"] != CONDITION);
        }
        return object["status"].take();
    }
    // What a pod would be made of is checked all the same.
    let problem = pod(source, &Tools::default(), None, false).err().map(|error| error.to_string());
    let unused = "no pod serves this catalog (--catalog-serving=in-process): spec.grpcPodConfig has no effect";
    let (reason, message) = match &problem {
        Some(problem) => ("InvalidPodConfig", problem.as_str()),
        None => ("ServedInProcess", unused),
    };
    set_condition(&mut object, &Condition { kind: CONDITION, status: false, reason, message }, &time(now));
    object["status"].take()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM0-CAT-34: the condition stands while a configuration has no effect, and goes with it.
    #[test]
    fn the_condition_comes_and_goes() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let source =
            |config: Value| json!({"spec": {"sourceType": "grpc", "image": "i", "grpcPodConfig": config}, "status": {"message": "m"}});
        let told = status(&source(json!({"priorityClassName": "p"})), false, now);
        assert_eq!((&told["conditions"][0]["type"], &told["conditions"][0]["status"]), (&json!(CONDITION), &json!("False")));
        assert_eq!((&told["conditions"][0]["reason"], &told["message"]), (&json!("ServedInProcess"), &json!("m")));
        let wrong = status(&source(json!({"memoryTarget": "much"})), false, now);
        assert_eq!(wrong["conditions"][0]["reason"], "InvalidPodConfig");
        for (config, by_pods) in [(json!({"priorityClassName": "p"}), true), (json!({}), false), (Value::Null, false)] {
            let mut before = source(config);
            before["status"] = told.clone();
            assert_eq!(status(&before, by_pods, now), json!({"message": "m", "conditions": []}));
        }
    }
}
