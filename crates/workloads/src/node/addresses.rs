//! The addresses of pods on their nodes.

use std::collections::{BTreeSet, HashMap};

use kube::api::DynamicObject;
use serde_json::Value;

use super::object::Simulated;
use crate::object::Read as _;
use crate::pod;

/// The last numbers of pod addresses: the first and the last of a range belong to no pod.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=254;

/// The assigned addresses of each node.
#[derive(Default)]
pub(super) struct Addresses {
    by_pod: HashMap<String, (String, u8)>,
    used: HashMap<String, BTreeSet<u8>>,
}

impl Addresses {
    /// Returns the address that a pod has or gets: `None` if it has none of its own, or all are in use.
    pub fn of(&mut self, pod: &DynamicObject, node: &Simulated) -> Option<String> {
        if !needs(pod) {
            return None;
        }
        if let Some((_, number)) = self.by_pod.get(pod.uid()) {
            return Some(node.pod_address(*number));
        }
        let used = self.used.entry(node.name.clone()).or_default();
        // After a restart a pod keeps its address.
        let shown = pod.text("/status/podIP");
        let free = |number: &u8| NUMBERS.contains(number) && !used.contains(number);
        let present = shown.rsplit('.').next().and_then(|last| last.parse().ok()).filter(free);
        let present = present.filter(|number| node.pod_address(*number) == shown);
        let number = present.or_else(|| { NUMBERS }.find(free))?;
        used.insert(number);
        self.by_pod.insert(pod.uid().to_owned(), (node.name.clone(), number));
        Some(node.pod_address(number))
    }

    /// Releases the address of a pod that is gone or replaced, or needs none any more.
    pub fn changed(&mut self, before: Option<&DynamicObject>, now: Option<&DynamicObject>) {
        if let Some(before) = before.filter(|before| now.is_none_or(|now| now.uid() != before.uid())) {
            self.free(before.uid());
        }
        if let Some(now) = now.filter(|now| !needs(now)) {
            self.free(now.uid());
        }
    }

    fn free(&mut self, uid: &str) {
        if let Some((node, number)) = self.by_pod.remove(uid)
            && let Some(used) = self.used.get_mut(&node)
        {
            used.remove(&number);
        }
    }
}

/// Returns true if a pod needs an address of its own. One that has ended has no sandbox any more, and one may use its node's network.
fn needs(pod: &DynamicObject) -> bool {
    !pod::finished(pod) && !on_host(pod)
}

/// Returns true if a pod is on its node's network.
pub(super) fn on_host(pod: &DynamicObject) -> bool {
    pod.at("/spec/hostNetwork") == &Value::Bool(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::object::nodes;
    use super::*;

    fn pod(name: &str, phase: &str, address: &str, host: bool) -> DynamicObject {
        let spec = json!({"hostNetwork": host});
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "spec": spec, "status": {"phase": phase, "podIP": address}}))
            .unwrap()
    }

    /// KAPI-WL-03: an address is one pod's alone, free again when the pod has ended or gone, and refused when all are in use.
    #[test]
    fn addresses_are_given_back() {
        let node = &nodes(2)[1];
        let mut addresses = Addresses::default();
        let mut all = BTreeSet::new();
        // A node sees far more pods than it has addresses, as long as they end.
        for number in 0..600 {
            let name = format!("job-{number}");
            let own = addresses.of(&pod(&name, "Running", "", false), node).unwrap();
            assert!(own.starts_with("10.244.1."), "{own}");
            let ended = pod(&name, "Succeeded", &own, false);
            addresses.changed(Some(&pod(&name, "Running", &own, false)), Some(&ended));
            // It is looked at once more, and gets none.
            assert_eq!(addresses.of(&ended, node), None);
        }
        for number in NUMBERS {
            let name = format!("pod-{number}");
            let own = addresses.of(&pod(&name, "", "", false), node);
            assert_eq!(addresses.of(&pod(&name, "Running", "", false), node), own, "it keeps it");
            assert!(all.insert(own.unwrap()));
        }
        assert_eq!(addresses.of(&pod("one-more", "", "", false), node), None);
        assert!(addresses.of(&pod("elsewhere", "", "", false), &nodes(2)[0]).is_some());
        addresses.changed(Some(&pod("pod-7", "Running", "10.244.1.7", false)), None);
        assert_eq!(addresses.of(&pod("one-more", "", "", false), node).as_deref(), Some("10.244.1.7"));
    }

    /// KAPI-WL-03: after a restart pods keep what they have; who is on its node's network takes nothing.
    #[test]
    fn addresses_are_kept() {
        let node = &nodes(2)[1];
        let mut addresses = Addresses::default();
        let mut of = |name: &str, shown: &str, host: bool| addresses.of(&pod(name, "Running", shown, host), node);
        assert_eq!(of("kept", "10.244.1.9", false).as_deref(), Some("10.244.1.9"));
        assert_eq!(of("the same twice", "10.244.1.9", false).as_deref(), Some("10.244.1.1"));
        assert_eq!(of("no pod's", "10.244.1.0", false).as_deref(), Some("10.244.1.2"));
        assert_eq!(of("on the host", "172.31.0.3", true), None);
        assert_eq!(of("the next", "", false).as_deref(), Some("10.244.1.3"));
    }
}
