//! The collector of abandoned pods: those of deleted nodes, those that ended before they had a node, and the oldest of
//! too many that have ended (KAPI-WL-01).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_runtime::Key;
use serde_json::json;

use super::plan::disrupted;
use crate::Result;
use crate::api::{Delete, Patch};
use crate::object::{Object, Read as _};
use crate::pod;
use crate::world::World;

/// The interval between two collections.
const PERIOD: Duration = Duration::from_secs(20);
/// The time for which a node must be missing.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// Terminated pods kept before collection.
const ENDED: usize = 12_500;

/// A pod to collect, and the message of its condition.
#[derive(Debug, PartialEq)]
struct Collected {
    /// The pod.
    pod: Object,
    /// The message, if one is set.
    why: Option<&'static str>,
}

/// Missing nodes that pods are bound to, with the time since when.
#[derive(Debug, Default)]
struct Missing(HashMap<String, Timestamp>);

impl Missing {
    /// Returns the names of the nodes that have been missing long enough.
    fn follow(&mut self, pods: &[Object], nodes: &HashSet<String>, now: Timestamp) -> HashSet<String> {
        let named: HashSet<&str> =
            pods.iter().map(|pod| pod.text("/spec/nodeName")).filter(|name| !name.is_empty() && !nodes.contains(*name)).collect();
        self.0.retain(|name, _| named.contains(name.as_str()));
        for name in named {
            self.0.entry(name.to_owned()).or_insert(now);
        }
        let long = |since: &Timestamp| now.duration_since(*since) >= QUARANTINE;
        self.0.iter().filter(|(_, since)| long(since)).map(|(name, _)| name.clone()).collect()
    }
}

/// Decides which pods are collected.
fn plan(pods: &[Object], gone: &HashSet<String>, threshold: usize) -> Vec<Collected> {
    let mut ended: Vec<&Object> = pods.iter().filter(|pod| pod::finished(pod) && !pod.deleting()).collect();
    let over = ended.len().saturating_sub(threshold);
    ended.sort_by_key(|pod| (pod.text("/status/reason") != "Evicted", pod.created(), pod.name().to_owned()));
    let mut all: Vec<Collected> = ended.into_iter().take(over).map(|pod| Collected { pod: pod.clone(), why: None }).collect();
    for pod in pods {
        let node = pod.text("/spec/nodeName");
        if gone.contains(node) {
            all.push(Collected { pod: pod.clone(), why: Some("PodGC: node no longer exists") });
        } else if node.is_empty() && pod.deleting() {
            all.push(Collected { pod: pod.clone(), why: None });
        }
    }
    all
}

/// Runs the collector.
pub async fn run(world: World) {
    let mut missing = Missing::default();
    loop {
        tokio::select! {
            () = world.stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let pods = world.pods.all();
        let nodes: HashSet<String> = world.nodes.all().iter().map(|node| node.name().to_owned()).collect();
        let gone = missing.follow(&pods, &nodes, world.env.now());
        for collected in plan(&pods, &gone, ENDED) {
            if let Err(error) = take(&world, &collected).await
                && !error.is_stale()
            {
                tracing::warn!(%error, pod = %Key::of(&collected.pod), "a pod could not be collected");
            }
        }
    }
}

async fn take(world: &World, collected: &Collected) -> Result<()> {
    let (pod, key) = (&collected.pod, Key::of(&collected.pod));
    if !pod::finished(pod) {
        let mut status = json!({"phase": "Failed"});
        if let Some(why) = collected.why {
            status["conditions"] = json!([disrupted(pod, "DeletionByPodGC", why, world.env.now())]);
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        world.pods.patch(&key, "status", &patch).await?;
    }
    world.pods.delete(&key, &Delete { grace_seconds: Some(0), ..Delete::uid(pod.uid()) }).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, deleted: bool) -> Object {
        let mut metadata = json!({"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T00:00:0{}Z", name.len())});
        if deleted {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
        }
        let pod: Value = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// KAPI-WL-01: pods without their node, without any node, and too many that have ended.
    #[test]
    fn what_is_collected() {
        let pods = [
            pod("a", "here", "Running", false),
            pod("bb", "lost", "Running", false),
            pod("ccc", "", "Pending", true),
            pod("dddd", "here", "Succeeded", false),
            pod("eeeee", "here", "Failed", false),
        ];
        let mut missing = Missing::default();
        let nodes = HashSet::from(["here".to_owned()]);
        let start: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(missing.follow(&pods, &nodes, start), HashSet::new());
        let gone = missing.follow(&pods, &nodes, start + QUARANTINE);
        assert_eq!(gone, HashSet::from(["lost".to_owned()]));
        let names = |threshold| plan(&pods, &gone, threshold).iter().map(|one| one.pod.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(2), ["bb", "ccc"]);
        assert_eq!(names(1), ["dddd", "bb", "ccc"]);
        // A node that comes back is forgiven.
        assert_eq!(missing.follow(&pods, &HashSet::from(["here".to_owned(), "lost".to_owned()]), start + QUARANTINE), HashSet::new());
        assert_eq!(missing.follow(&pods, &nodes, start + QUARANTINE), HashSet::new());
    }
}
