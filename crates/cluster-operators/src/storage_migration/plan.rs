//! Which resources are to be migrated: those whose storage version is not the recorded one (COP-SVM-01, COP-SVM-02).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::API_VERSION;

/// A recorded hash that stands for all that was stored before the record began.
const UNKNOWN: &str = "Unknown";

/// A resource that discovery has, with the hash of its storage version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version by which objects are read and written.
    pub version: String,
    /// The plural name.
    pub name: String,
    /// The hash of the storage version.
    pub hash: String,
}

impl Resource {
    /// Returns the name of the resource's StorageState.
    pub fn state_name(&self) -> String {
        if self.group.is_empty() { self.name.clone() } else { format!("{}.{}", self.name, self.group) }
    }
}

/// Returns the resources of a discovery document of one version that can be migrated: they have a hash, and can be listed and updated.
pub fn resources(document: &Value) -> Vec<Resource> {
    let group_version = document["groupVersion"].as_str().unwrap_or_default();
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let can = |entry: &Value, verb: &str| entry["verbs"].as_array().is_some_and(|all| all.iter().any(|each| each == verb));
    let all = document["resources"].as_array().into_iter().flatten();
    all.filter(|entry| can(entry, "list") && can(entry, "update"))
        .filter_map(|entry| {
            let (name, hash) = (entry["name"].as_str()?, entry["storageVersionHash"].as_str().filter(|hash| !hash.is_empty())?);
            (!name.contains('/')).then(|| Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                name: name.to_owned(),
                hash: hash.to_owned(),
            })
        })
        .collect()
}

/// A migration to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The names of migrations of the same resource, which it replaces.
    pub replaces: Vec<String>,
    /// The StorageVersionMigration.
    pub migration: Value,
}

/// What is to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Migrations to start.
    pub launches: Vec<Launch>,
    /// StorageStates with the status that they are to have.
    pub states: Vec<Value>,
}

/// Returns the migrations to start and the states to record. Of a resource with several versions the first one counts, which discovery prefers.
///
/// A resource is migrated if its hash differs from the recorded one, if nothing is recorded, or if the record was not kept up for two
/// periods, in which its storage version may have changed and changed back.
pub fn plan(resources: &[Resource], states: &[Value], migrations: &[Value], period: Duration, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut first = BTreeMap::<(&str, &str), &Resource>::new();
    for resource in resources {
        first.entry((&resource.group, &resource.name)).or_insert(resource);
    }
    for resource in first.into_values() {
        let name = resource.state_name();
        let recorded = states.iter().find(|state| state["metadata"]["name"] == name.as_str()).map(|state| &state["status"]);
        let beat = recorded.and_then(|status| status["lastHeartbeat"].as_str()?.parse::<Timestamp>().ok());
        let is_stale =
            recorded.is_some() && beat.is_none_or(|beat| Duration::try_from(now.duration_since(beat)).unwrap_or_default() > period * 2);
        let is_same = recorded.is_some_and(|status| status["currentStorageVersionHash"] == resource.hash.as_str());
        let mut persisted: Vec<&str> = recorded
            .filter(|_| !is_stale)
            .and_then(|status| status["persistedStorageVersionHashes"].as_array())
            .map_or_else(|| vec![UNKNOWN], |all| all.iter().filter_map(Value::as_str).collect());
        if !persisted.contains(&resource.hash.as_str()) {
            persisted.push(&resource.hash);
        }
        let target = json!({"group": resource.group, "resource": resource.name});
        plan.states.push(json!({
            "apiVersion": API_VERSION, "kind": "StorageState", "metadata": {"name": name}, "spec": {"resource": target},
            "status": {
                "currentStorageVersionHash": resource.hash, "persistedStorageVersionHashes": persisted, "lastHeartbeat": now.to_string(),
            },
        }));
        if is_same && !is_stale {
            continue;
        }
        let of_resource = |migration: &&Value| {
            let target = &migration["spec"]["resource"];
            target["group"].as_str().unwrap_or_default() == resource.group && target["resource"] == resource.name.as_str()
        };
        let replaces =
            migrations.iter().filter(of_resource).filter_map(|old| old["metadata"]["name"].as_str().map(str::to_owned)).collect();
        let migration = json!({
            "apiVersion": API_VERSION, "kind": "StorageVersionMigration", "metadata": {"generateName": format!("{name}-")},
            "spec": {"resource": {"group": resource.group, "version": resource.version, "resource": resource.name}},
        });
        plan.launches.push(Launch { replaces, migration });
    }
    plan
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const PERIOD: Duration = Duration::from_secs(600);

    fn widgets(hash: &str) -> Vec<Resource> {
        let document = json!({"groupVersion": "demo.io/v1", "resources": [
            {"name": "widgets", "verbs": ["list", "update"], "storageVersionHash": hash},
            {"name": "widgets/status", "verbs": ["list", "update"], "storageVersionHash": hash},
            {"name": "reviews", "verbs": ["create"], "storageVersionHash": hash},
            {"name": "unknown", "verbs": ["list", "update"]},
        ]});
        resources(&document)
    }

    /// COP-SVM-01, COP-SVM-02: no record, another hash and an old record start a migration that replaces older ones; the same hash does not.
    #[test]
    fn plans() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let first = plan(&widgets("a"), &[], &[], PERIOD, at(0));
        assert_eq!((first.launches.len(), first.states.len()), (1, 1));
        assert_eq!(first.states[0]["status"]["persistedStorageVersionHashes"], json!(["Unknown", "a"]));
        assert_eq!(first.launches[0].migration["spec"]["resource"], json!({"group": "demo.io", "version": "v1", "resource": "widgets"}));
        let mut done = first.states.clone();
        done[0]["status"]["persistedStorageVersionHashes"] = json!(["a"]);
        let old = json!({"metadata": {"name": "old"}, "spec": {"resource": {"group": "demo.io", "resource": "widgets"}}});
        let other = json!({"metadata": {"name": "other"}, "spec": {"resource": {"group": "", "resource": "widgets"}}});
        let migrations = [old, other];
        for (hash, seconds, launches, persisted) in
            [("a", 1_200, 0, json!(["a"])), ("b", 1_200, 1, json!(["a", "b"])), ("a", 1_201, 1, json!(["Unknown", "a"]))]
        {
            let found = plan(&widgets(hash), &done, &migrations, PERIOD, at(seconds));
            assert_eq!(found.launches.len(), launches, "{hash} {seconds}");
            assert_eq!(found.states[0]["status"]["persistedStorageVersionHashes"], persisted);
            assert!(found.launches.iter().all(|launch| launch.replaces == ["old"]));
        }
    }
}
