//! Keeps the classes at what the objects say, their status, and the objects that must exist.

use std::sync::Arc;
use std::time::Duration;

use mainstay_store::Expect;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Flows;
use crate::cache::Scope;
use crate::error::{ApiError, Result};
use crate::fields::Owners;
use crate::object::{meta, metadata_mut};
use crate::object_store::{ObjectStore, retry_on_conflict};
use crate::served::Served;
use crate::strategy;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";
/// Writers of the objects and of their status.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";
/// The annotation that has the content of a built-in object kept up to date.
const UPDATED: &str = "apf.kubernetes.io/autoupdate-spec";
/// The pause before a failed step is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// The configuration that every cluster begins with: (resource, object). Of what Kubernetes 1.34 makes.
fn defaults() -> Vec<(&'static str, Value)> {
    // Checked in, and read by a test.
    let all: Value = serde_json::from_str(include_str!("defaults.json")).unwrap_or_default();
    let made = |of: &'static str, list: &str| {
        let objects = all[list].as_array().cloned().unwrap_or_default();
        objects.into_iter().map(move |one| {
            let metadata = json!({"name": one["name"], "generation": 1, "annotations": {UPDATED: "true"}});
            (of, json!({"metadata": metadata, "spec": one["spec"], "status": {}}))
        })
    };
    made(LEVELS, "priorityLevels").chain(made(SCHEMAS, "flowSchemas")).collect()
}

/// The task that follows both kinds.
pub struct Keeper {
    objects: Arc<ObjectStore>,
    flows: Arc<Flows>,
    changed: Arc<Notify>,
}

impl Keeper {
    /// Over these objects; it is told of changes from now on.
    pub fn new(objects: Arc<ObjectStore>, flows: Arc<Flows>) -> Self {
        let changed = Arc::new(Notify::new());
        let wake = changed.clone();
        objects.cache.observe(Box::new(move |resource, _| {
            if resource.starts_with(GROUP) {
                wake.notify_one();
            }
        }));
        Self { objects, flows, changed }
    }

    /// Makes what is missing of the default configuration.
    pub async fn begin(&self) -> Result<()> {
        futures::future::try_join_all(defaults().into_iter().map(|(plural, object)| self.ensure(plural, object))).await.map(|_| ())
    }

    /// Follows both kinds until the server ends.
    pub async fn run(self, closing: CancellationToken) {
        loop {
            let kept = self.pass().await;
            if let Err(error) = &kept {
                tracing::debug!(%error, "flow schemas are not up to date");
            }
            tokio::select! {
                () = closing.cancelled() => return,
                () = self.changed.notified() => {}
                () = tokio::time::sleep(AGAIN), if kept.is_err() => {}
            }
        }
    }

    /// Brings the classes up to date with what the cache shows; the objects that it found, schemas and levels.
    pub fn refresh(&self) -> Result<(Vec<Value>, Vec<Value>)> {
        let all = |plural: &str| -> Result<Vec<Value>> {
            let served = self.objects.built_in(GROUP, plural)?;
            Ok(self.objects.cache.resource(&served.storage).list(&Scope::default()).iter().map(|entry| entry.value()).collect())
        };
        let (schemas, levels) = (all(SCHEMAS)?, all(LEVELS)?);
        self.flows.replace(&schemas, &levels);
        Ok((schemas, levels))
    }

    /// Brings classes, status and the objects that must exist up to date.
    async fn pass(&self) -> Result<()> {
        let (schemas, levels) = self.refresh()?;
        for schema in &schemas {
            let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
            let found = levels.iter().any(|one| meta(one, "name") == level);
            if is_told(schema, level, found) {
                continue;
            }
            match retry_on_conflict(|| self.tell(meta(schema, "name"), found)).await {
                // Gone meanwhile: the next pass knows.
                Err(error) if error.code == http::StatusCode::NOT_FOUND => {}
                other => other?,
            }
        }
        for (plural, object) in defaults() {
            let present = if plural == SCHEMAS { &schemas } else { &levels };
            if present.iter().all(|one| meta(one, "name") != meta(&object, "name")) {
                self.ensure(plural, object).await?;
            }
        }
        Ok(())
    }

    async fn ensure(&self, plural: &str, mut object: Value) -> Result<()> {
        let served = self.objects.built_in(GROUP, plural)?;
        if self.objects.load(&served, "", meta(&object, "name")).await?.is_some() {
            return Ok(());
        }
        let metadata = metadata_mut(&mut object);
        metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
        metadata.insert("creationTimestamp".into(), crate::clock::now().into());
        strategy::default(&served, &mut object);
        crate::fields::written(&served, None, &mut object, PRODUCER, None).await;
        if plural == SCHEMAS {
            // Its level is one of the same configuration. Told at once, so that a new cluster is quiet when it answers.
            object = told(&served, &object, true).await?;
        }
        match self.objects.save(&served, &mut object, Expect::Absent).await {
            Err(error) if error.reason == "AlreadyExists" => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Says in the status of a FlowSchema whether its priority level exists.
    async fn tell(&self, name: &str, found: bool) -> Result<()> {
        let served = self.objects.built_in(GROUP, SCHEMAS)?;
        let live = self.objects.require(&served, "", name).await?;
        let mut new = told(&served, &live.value, found).await?;
        match self.objects.save(&served, &mut new, Expect::Revision(live.revision)).await {
            Err(ApiError { code: http::StatusCode::NOT_FOUND, .. }) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// A FlowSchema whose status says whether its priority level exists.
async fn told(served: &Served, schema: &Value, found: bool) -> Result<Value> {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let wanted = json!({
        "apiVersion": served.api_version(), "kind": served.facts.kind, "metadata": {"name": meta(schema, "name")},
        "status": {"conditions": [dangling(level, found)]},
    });
    Owners::new(served, CONSUMER, Some("status")).applied(Some(schema), &wanted, true).await
}

fn is_told(schema: &Value, level: &str, found: bool) -> bool {
    let wanted = dangling(level, found);
    let known = schema["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Dangling");
    known.is_some_and(|known| ["status", "reason", "message"].iter().all(|member| known[member] == wanted[member]))
}

fn dangling(level: &str, found: bool) -> Value {
    let begin = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if found {
        ("False", "Found", format!("{begin} and it exists"))
    } else {
        ("True", "NotFound", format!("{begin} but there is no such object"))
    };
    json!({"type": "Dangling", "status": status, "lastTransitionTime": crate::clock::now(), "reason": reason, "message": message})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-07: the default configuration is that of Kubernetes: eleven FlowSchemas, eight priority levels, each schema's among them.
    #[test]
    fn default_configuration() {
        let all = defaults();
        let of = |kind: &str| all.iter().filter(|(plural, _)| *plural == kind).map(|(_, object)| object.clone()).collect::<Vec<_>>();
        let (schemas, levels) = (of(SCHEMAS), of(LEVELS));
        assert_eq!((schemas.len(), levels.len()), (11, 8));
        for schema in &schemas {
            let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
            assert!(levels.iter().any(|one| one["metadata"]["name"] == *level), "{schema}");
        }
    }
}
