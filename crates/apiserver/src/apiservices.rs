//! The APIService objects of what this server serves itself (KAPI-AGG-01, local part): made at start for built-in groups, and with
//! the CRDs of a group for custom ones.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use mainstay_kinds::registry;
use mainstay_objects::{Condition, set_condition};
use mainstay_store::Expect;
use serde_json::{Value, json};

use crate::cache::Scope;
use crate::error::Result;
use crate::object::{meta, metadata_mut};
use crate::object_store::ObjectStore;
use crate::served::Served;
use crate::{clock, fields, strategy};

/// The message of an APIService that is served here.
pub const LOCAL: &str = "Local APIServices are always available";
/// Says who looks after the object.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The priorities of custom groups and their versions.
const CUSTOM: (i64, i64) = (1_000, 100);

/// The order in which clients look: the priority of a group, and of a version in it.
fn priorities(group: &str, version: &str) -> (i64, i64) {
    let of_group = match group {
        "" => return (18_000, 1),
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => return (17_500, if version == "v2" { 30 } else { 15 }),
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "apiextensions.k8s.io" | "admissionregistration.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" => 16_200,
        "resource.k8s.io" => return (16_200, 21),
        "flowcontrol.apiserver.k8s.io" => return (16_100, 21),
        _ => 15_900,
    };
    (of_group, 15)
}

/// The priority of a group among all groups.
pub fn group_priority(group: &str) -> i64 {
    match group {
        // Always the first one of the list.
        "apiregistration.k8s.io" => 20_000,
        _ if registry().group(group).is_some() => priorities(group, "").0,
        _ => CUSTOM.0,
    }
}

/// Makes the objects of the built-in groups.
pub async fn built_in(objects: &ObjectStore) -> Result<()> {
    let groups = registry().groups().iter().filter(|group| group.name != "apiregistration.k8s.io");
    let all = groups.flat_map(|group| group.versions.iter().map(move |version| (group.name.as_str(), version.as_str())));
    let services = objects.built_in("apiregistration.k8s.io", "apiservices")?;
    let made = all.map(|(group, version)| ensure(objects, &services, group, version, priorities(group, version), "onstart"));
    try_join_all(made).await.map(|_| ())
}

/// Makes the objects of custom groups and removes those whose CRDs are gone.
pub async fn custom(objects: &ObjectStore, groups: &BTreeMap<String, Vec<String>>) -> Result<()> {
    let services = objects.built_in("apiregistration.k8s.io", "apiservices")?;
    for (group, versions) in groups {
        for version in versions {
            ensure(objects, &services, group, version, CUSTOM, "true").await?;
        }
    }
    for entry in objects.cache.resource(&services.storage).list(&Scope::default()) {
        if entry.labels.get(AUTOMANAGED).map(String::as_str) != Some("true") {
            continue;
        }
        // The name is made of both, and nobody may change it.
        let served = entry
            .name()
            .split_once('.')
            .is_some_and(|(version, group)| groups.get(group).is_some_and(|versions| versions.iter().any(|one| one == version)));
        if !served {
            match objects.remove(&services, "", entry.name(), entry.revision).await {
                Err(error) if !matches!(&*error.reason, "NotFound" | "Conflict") => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

async fn ensure(
    objects: &ObjectStore,
    services: &Served,
    group: &str,
    version: &str,
    (of_group, of_version): (i64, i64),
    managed: &str,
) -> Result<()> {
    let name = format!("{version}.{group}");
    if objects.cached(services, "", &name).is_some() || objects.load(services, "", &name).await?.is_some() {
        return Ok(());
    }
    let mut object = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": clock::now(), "labels": {AUTOMANAGED: managed}},
        "spec": {"version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version},
    });
    if !group.is_empty() {
        object["spec"]["group"] = group.into();
    }
    strategy::default(services, &mut object);
    fields::by_server(services, &Value::Null, &mut object, None);
    let available = Condition { kind: "Available", status: true, reason: "Local", message: LOCAL };
    set_condition(&mut object, &available, &clock::now());
    metadata_mut(&mut object).remove("resourceVersion");
    match objects.save(services, &mut object, Expect::Absent).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        other => other.map(|_| ()),
    }
    .inspect(|()| tracing::debug!(name = meta(&object, "name"), "API service registered"))
}
