//! Aggregated ClusterRoles: their rules are the union of those of the roles that their selectors match (KAPI-WL-01).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::api::Patch;
use crate::live::Live;
use crate::object::Read as _;
use crate::replicaset::settle;
use crate::world::World;
use crate::{Error, Result};

#[derive(Clone)]
struct Controller {
    roles: Live,
}

/// Runs the controller.
pub async fn run(world: World) {
    let roles = world.follow("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false);
    let queue: Queue<Key> = Queue::default();
    roles.ready().await;
    let wake = queue.clone();
    let aggregated = Mutex::<BTreeMap<Key, Vec<Value>>>::default();
    roles.on_change(move |change| {
        let before = change.before.as_deref();
        let now = change.now.as_deref();
        let same = match (before, now) {
            (Some(before), Some(now)) => before.labels() == now.labels() && before.at("/rules") == now.at("/rules"),
            _ => false,
        };
        let mut aggregated = aggregated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = change.object() {
            let key = Key::of(object);
            match now.and_then(selectors) {
                Some(selectors) => {
                    wake.add(key.clone());
                    aggregated.insert(key, selectors.clone());
                }
                None => _ = aggregated.remove(&key),
            }
        }
        if same {
            return;
        }
        // A role contributes to few aggregated roles, and a cluster has thousands of roles.
        let labels: Vec<Value> = before.into_iter().chain(now).map(|role| json!(role.labels())).collect();
        for (key, selectors) in &*aggregated {
            if labels.iter().any(|labels| is_part(selectors, labels)) {
                wake.add(key.clone());
            }
        }
    });
    let controller = Controller { roles };
    mainstay_runtime::run("clusterrole-aggregation", queue, 1, world.env.clone(), world.stop.clone(), move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(role) = self.roles.get(key).filter(|role| !role.deleting()) else { return Ok(Outcome::Done) };
        let Some(rules) = rules(&role, self.roles.all().iter().map(AsRef::as_ref)).map_err(|error| Error::Object {
            kind: "ClusterRole".into(),
            key: key.clone(),
            problem: error.to_string(),
        })?
        else {
            return Ok(Outcome::Done);
        };
        if !same(role.at("/rules"), &rules) {
            let patch = Patch::Json(json!([
                {"op": "test", "path": "/metadata/uid", "value": role.uid()},
                {"op": "add", "path": "/rules", "value": rules},
            ]));
            self.roles.patch(key, "", &patch).await?;
        }
        Ok(Outcome::Done)
    }
}

/// Returns the selectors of an aggregated role.
fn selectors(role: &DynamicObject) -> Option<&Vec<Value>> {
    static NONE: Vec<Value> = Vec::new();
    let rule = role.data.get("aggregationRule").filter(|rule| rule.is_object())?;
    Some(rule.get("clusterRoleSelectors").and_then(Value::as_array).unwrap_or(&NONE))
}

fn is_part(selectors: &[Value], labels: &Value) -> bool {
    selectors.iter().any(|selector| mainstay_rbac::selector_matches(selector, Some(labels)))
}

/// Why the rules of an aggregated role are unknown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum UnreadableRules {
    Union(#[from] mainstay_rbac::Error),
    Json(#[from] serde_json::Error),
}

/// Returns the rules that an aggregated role should have; `None` if it is not aggregated.
fn rules<'a>(role: &DynamicObject, all: impl Iterator<Item = &'a DynamicObject>) -> std::result::Result<Option<Value>, UnreadableRules> {
    let Some(selectors) = selectors(role) else { return Ok(None) };
    let value = |role: &DynamicObject| {
        let mut value = json!({"metadata": {"name": role.name(), "labels": role.labels()}});
        for part in ["rules", "aggregationRule"] {
            if let Some(present) = role.data.get(part) {
                value[part] = present.clone();
            }
        }
        value
    };
    let parts: Vec<Value> = all.filter(|other| is_part(selectors, &json!(other.labels()))).map(value).collect();
    let union = mainstay_rbac::aggregated_rules(&value(role), &parts)?;
    Ok(union.map(serde_json::to_value).transpose()?)
}

/// Compares rules; absent and empty ones are equal.
fn same(present: &Value, wanted: &Value) -> bool {
    present == wanted || (present.is_null() && wanted.as_array().is_some_and(Vec::is_empty))
}
