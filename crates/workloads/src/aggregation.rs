//! Aggregated ClusterRoles: their rules are the union of those of the roles that their selectors match (KAPI-WL-01).

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
    let (wake, all) = (queue.clone(), roles.clone());
    roles.on_change(move |change| {
        let before = change.before.as_deref();
        let now = change.now.as_deref();
        let same = match (before, now) {
            (Some(before), Some(now)) => before.labels() == now.labels() && before.at("/rules") == now.at("/rules"),
            _ => false,
        };
        if let Some(role) = change.now.as_ref().filter(|role| role.at("/aggregationRule").is_object()) {
            wake.add(Key::of(role));
        }
        // Any role may be part of any aggregated one; there are few of those.
        if !same {
            for role in all.all().iter().filter(|role| role.at("/aggregationRule").is_object()) {
                wake.add(Key::of(role));
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
        let Some(rules) = rules(&role, self.roles.all().iter().map(AsRef::as_ref)).map_err(|problem| Error::Object {
            kind: "ClusterRole".into(),
            key: key.clone(),
            problem,
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

/// The rules that an aggregated role should have; nothing where it is none.
fn rules<'a>(role: &DynamicObject, all: impl Iterator<Item = &'a DynamicObject>) -> std::result::Result<Option<Value>, String> {
    if !role.at("/aggregationRule").is_object() {
        return Ok(None);
    }
    let value = |role: &DynamicObject| {
        let mut value = json!({"metadata": {"name": role.name(), "labels": role.labels()}});
        for part in ["rules", "aggregationRule"] {
            if let Some(present) = role.data.get(part) {
                value[part] = present.clone();
            }
        }
        value
    };
    let all: Vec<Value> = all.map(value).collect();
    let union = mainstay_rbac::aggregated_rules(&value(role), &all).map_err(|error| error.to_string())?;
    union.map(|rules| serde_json::to_value(rules).map_err(|error| error.to_string())).transpose()
}

/// Absent and empty are the same.
fn same(present: &Value, wanted: &Value) -> bool {
    present == wanted || (present.is_null() && wanted.as_array().is_some_and(Vec::is_empty))
}
