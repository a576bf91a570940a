//! The knowledge of the server of pools at one moment, and the answers that were made of it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use kube::api::DynamicObject;
use mainstay_ignition::Spec;
use mainstay_machine_config_core::config_server::{Bootstrap, Inputs, SERVED, config_of, ignition_config};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::error::Refusal;

/// The facts that all pools share.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Common {
    /// The spec of the ControllerConfig.
    pub(crate) controller: Option<Value>,
    /// The way to the API.
    pub(crate) bootstrap: Option<Bootstrap>,
}

/// The pools at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    common: Arc<Common>,
    pools: HashMap<String, Result<Arc<Pool>, Refusal>>,
}

/// The configuration of a pool, and its answers.
#[derive(Debug)]
struct Pool {
    machine_config: Arc<DynamicObject>,
    common: Arc<Common>,
    answers: [OnceCell<Result<Bytes, Refusal>>; SERVED.len()],
}

impl Snapshot {
    /// A snapshot of these pools; answers of the one before are kept where their inputs are the same.
    pub(crate) fn new(
        before: &Snapshot,
        common: Common,
        pools: &[Arc<DynamicObject>],
        config: impl Fn(&str) -> Option<Arc<DynamicObject>>,
    ) -> Self {
        let common = if *before.common == common { before.common.clone() } else { Arc::new(common) };
        let one = |pool: &Arc<DynamicObject>| {
            let name = config_of(&pool.data).ok_or(Refusal::NoConfiguration)?;
            let machine_config = config(name).ok_or_else(|| Refusal::NoMachineConfig(name.to_owned()))?;
            let known = pool.metadata.name.as_ref().and_then(|name| before.pools.get(name)?.as_ref().ok());
            Ok(match known.filter(|known| Arc::ptr_eq(&known.common, &common) && is_same(&known.machine_config, &machine_config)) {
                Some(known) => known.clone(),
                None => Arc::new(Pool { machine_config, common: common.clone(), answers: Default::default() }),
            })
        };
        let pools = pools.iter().filter_map(|pool| Some((pool.metadata.name.clone()?, one(pool)))).collect();
        Self { common, pools }
    }

    /// The answer for a pool in a version; none if there is no such pool.
    pub(crate) async fn answer(&self, pool: &str, version: Spec) -> Option<Result<Bytes, Refusal>> {
        match self.pools.get(pool)? {
            Ok(pool) => Some(pool.clone().answer(version).await),
            Err(refusal) => Some(Err(refusal.clone())),
        }
    }
}

/// Returns whether two copies are of one version of an object.
fn is_same(one: &Arc<DynamicObject>, other: &Arc<DynamicObject>) -> bool {
    Arc::ptr_eq(one, other)
        || (one.metadata.uid == other.metadata.uid
            && one.metadata.resource_version.is_some()
            && one.metadata.resource_version == other.metadata.resource_version)
}

impl Pool {
    async fn answer(self: Arc<Self>, version: Spec) -> Result<Bytes, Refusal> {
        let Some(slot) = SERVED.iter().position(|served| *served == version).and_then(|index| self.answers.get(index)) else {
            return Err(Refusal::BrokenOff(format!("version {} is not served", version.text())));
        };
        let made = slot.get_or_init(|| async {
            let pool = self.clone();
            // A large config takes a while, and its requests must not wait on the threads of others.
            match tokio::task::spawn_blocking(move || pool.make(version)).await {
                Ok(made) => made,
                Err(error) => Err(Refusal::BrokenOff(error.to_string())),
            }
        });
        made.await.clone()
    }

    fn make(&self, version: Spec) -> Result<Bytes, Refusal> {
        let controller = self.common.controller.as_ref().ok_or(Refusal::NoControllerConfig)?;
        let object = machine_config(&self.machine_config);
        let inputs = Inputs { machine_config: &object, controller, bootstrap: self.common.bootstrap.as_ref() };
        Ok(Bytes::from(ignition_config(&inputs, version)?))
    }
}

/// The MachineConfig as machines get it: without who wrote which field, which is of no use there.
fn machine_config(object: &DynamicObject) -> Value {
    let mut metadata = json!({"name": object.metadata.name});
    let metas = [
        ("labels", json!(object.metadata.labels)),
        ("annotations", json!(object.metadata.annotations)),
        ("uid", json!(object.metadata.uid)),
        ("resourceVersion", json!(object.metadata.resource_version)),
        ("generation", json!(object.metadata.generation)),
        ("creationTimestamp", json!(object.metadata.creation_timestamp)),
        ("ownerReferences", json!(object.metadata.owner_references)),
    ];
    for (key, value) in metas {
        if !value.is_null() {
            metadata[key] = value;
        }
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": metadata,
        "spec": object.data.get("spec"),
    })
}
