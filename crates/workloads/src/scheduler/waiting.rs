//! Pods that fit nowhere yet, with the events that could help them: waking all of them for every change would repeat the same decisions.

use std::collections::HashMap;

use kube::api::DynamicObject;
use mainstay_runtime::Key;

use crate::object::Read as _;
use crate::volumes::plan::claims_of;

/// An event that pods may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A node changed, or taken room is free: it may help any pod.
    Room,
    /// A pod arrived, or changed in a way that rules consider.
    Rules,
    /// The labels of a namespace changed, which rules of its pods and about them may select.
    Namespace(&'a str),
    /// A claim of this namespace changed or, if the name is empty, a volume or a class.
    Storage(&'a str),
}

#[derive(Clone, Copy, Debug)]
struct Interest {
    rules: bool,
    claims: bool,
}

/// The waiting pods.
#[derive(Debug, Default)]
pub struct Waiting {
    pods: HashMap<Key, Interest>,
}

impl Waiting {
    /// Adds a pod.
    pub fn insert(&mut self, key: &Key, pod: &DynamicObject) {
        let has = |pointer: &str| !pod.at(pointer).is_null();
        let rules = has("/spec/affinity/podAffinity") || has("/spec/affinity/podAntiAffinity") || has("/spec/topologySpreadConstraints");
        self.pods.insert(key.clone(), Interest { rules, claims: !claims_of(pod).is_empty() });
    }

    /// Removes a pod.
    pub fn remove(&mut self, key: &Key) {
        self.pods.remove(key);
    }

    /// Returns the pods that an event may help; it cannot help the others.
    pub fn helped_by(&self, event: Event<'_>) -> impl Iterator<Item = &Key> {
        let helped = move |key: &Key, interest: &Interest| match event {
            Event::Room => true,
            Event::Rules => interest.rules,
            Event::Namespace(namespace) => interest.rules || key.namespace == namespace,
            Event::Storage(namespace) => interest.claims && (namespace.is_empty() || key.namespace == namespace),
        };
        self.pods.iter().filter(move |(key, interest)| helped(key, interest)).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    /// KAPI-WL-02: a change wakes whom it may help, and nobody else.
    #[test]
    fn events_help_whom_they_concern() {
        let mut waiting = Waiting::default();
        let mut add = |namespace: &str, name: &str, spec: Value| {
            let pod = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
            waiting.insert(&Key::new(namespace, name), &serde_json::from_value(pod).unwrap());
        };
        add("n", "plain", json!({}));
        add("n", "beside", json!({"affinity": {"podAffinity": {}}}));
        add("m", "apart", json!({"affinity": {"podAntiAffinity": {}}}));
        add("m", "spread", json!({"topologySpreadConstraints": []}));
        add("n", "claims", json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}));
        let cases = [
            (Event::Room, "apart beside claims plain spread"),
            (Event::Rules, "apart beside spread"),
            (Event::Namespace("n"), "apart beside claims plain spread"),
            (Event::Namespace("m"), "apart beside spread"),
            (Event::Storage("n"), "claims"),
            (Event::Storage("m"), ""),
            (Event::Storage(""), "claims"),
        ];
        for (event, expected) in cases {
            let mut names: Vec<&str> = waiting.helped_by(event).map(|key| key.name.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names.join(" "), expected, "{event:?}");
        }
        waiting.remove(&Key::new("n", "plain"));
        assert_eq!(waiting.helped_by(Event::Room).count(), 4);
    }
}
