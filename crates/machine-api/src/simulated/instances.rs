//! The life of simulated instances: what a cloud and a first boot do.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_golang::parse_duration;
use mainstay_machine_config_core::config_server::pool_of_role;
use mainstay_node_agent::boot::ConfigServer;
use mainstay_objects::{Expect, Patch, Propagation};
use mainstay_runtime::{Cache, Env, Key, Kinds, Outcome, Queue, Scope};
use mainstay_workloads::NODE_ANNOTATIONS;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::FINALIZER;
use super::join::{self, Certificate};
use crate::kinds::{REQUEST, SIM_INSTANCE};
use crate::shared::settled;
use crate::{Error, SIMULATED};

const WORKERS: usize = 4;
/// The wait until a refused certificate is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// The wait until a first boot that failed is tried again.
const BOOT_AGAIN: Duration = Duration::from_secs(2);
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
const PENDING: &str = "pending";
const RUNNING: &str = "running";
const SHUTTING_DOWN: &str = "shutting-down";

/// The next step of an instance.
#[derive(Debug, PartialEq)]
enum Step {
    /// Nothing until something changes.
    Rest,
    /// Nothing for this time.
    Wait(Duration),
    /// It enters a state.
    Enter(&'static str),
    /// It reads what it boots with.
    Boot,
    /// Its kubelet needs a certificate.
    Join,
    /// It is lost by itself.
    Vanish,
    /// It is gone.
    Release,
}

/// Runs the instances. `machines` are woken when theirs change.
pub(crate) async fn run(client: Client, env: Env, config_server: Option<ConfigServer>, machines: Queue<Key>, stop: CancellationToken) {
    let queue: Queue<Key> = Queue::default();
    let instances = Cache::start(&client, &SIM_INSTANCE.resource(), &Scope::default(), &stop).shown(env.metrics());
    let woken = queue.clone();
    instances.on_change(move |change| {
        let Some(instance) = change.object() else { return };
        woken.add(Key::of(instance));
        if let Some(machine) = instance.data.pointer("/spec/nodeName").and_then(Value::as_str) {
            machines.add(Key::new(instance.metadata.namespace.clone().unwrap_or_default(), machine));
        }
    });
    let scope = Scope { labels: Some(format!("{SIMULATED}=true")), ..Scope::default() };
    let woken = queue.clone();
    Cache::start(&client, &REQUEST.resource(), &scope, &stop).on_change(move |change| {
        if let Some(key) = change.object().and_then(|request| join::instance_of(request)) {
            woken.add(key);
        }
    });
    let writer = Writer::new(client.clone(), Kinds::new(client), "simulated-instances");
    let events = Recorder::new(writer.clone(), env.clone(), "simulated-instances", "mainstay");
    let controller = Arc::new(Controller { writer, env: env.clone(), events, config_server });
    mainstay_runtime::run("simulated-instances", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

struct Controller {
    writer: Writer,
    env: Env,
    events: Recorder,
    config_server: Option<ConfigServer>,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.writer.get(&SIM_INSTANCE.at(key)).await? else { return Ok(Outcome::Done) };
        match plan(&live, self.config_server.is_some(), self.env.now()) {
            Step::Rest => Ok(Outcome::Done),
            Step::Wait(wait) => Ok(Outcome::After(wait)),
            Step::Enter(state) => self.write(&live, &[("state", json!(state)), ("since", json!(self.env.now().to_string()))]).await,
            Step::Vanish => {
                self.writer.delete(&SIM_INSTANCE.at(key), &Expect::uid_of(&live), Propagation::Background).await?;
                Ok(Outcome::Done)
            }
            Step::Release => {
                self.writer.remove_finalizer(&live, FINALIZER).await?;
                Ok(Outcome::Done)
            }
            Step::Boot => self.boot(&live).await,
            Step::Join => self.join(&live).await,
        }
    }

    /// Reads what the instance boots with; its kubelet registers the node with what that says.
    async fn boot(&self, live: &Value) -> Result<Outcome, Error> {
        let Some(config_server) = &self.config_server else { return Ok(Outcome::Done) };
        let labels = live.pointer("/spec/labels");
        let is_control_plane = labels.is_some_and(|labels| CONTROL_PLANE.iter().any(|label| labels.get(*label).is_some()));
        let pool = pool_of_role(is_control_plane);
        let booted = match config_server.fetch(pool).await {
            Ok(booted) => booted,
            Err(error) => {
                let note = format!("the first boot from pool {pool} failed: {}", mainstay_diagnostics::chain(&error));
                if let Err(error) = self.events.record(live, EventKind::Warning, "BootFailed", "Boot", &note) {
                    tracing::warn!(%error, "an event could not be reported");
                }
                return Ok(Outcome::After(BOOT_AGAIN));
            }
        };
        let note = format!("booted with {} of pool {pool}", booted.machine_config.name);
        if let Err(error) = self.events.record(live, EventKind::Normal, "Booted", "Boot", &note) {
            tracing::warn!(%error, "an event could not be reported");
        }
        let patch =
            json!({"metadata": {"uid": live["metadata"]["uid"], "annotations": {NODE_ANNOTATIONS: json!(booted.annotations).to_string()}}});
        let place = mainstay_objects::ObjectRef::of(live)?;
        self.writer.patch(&place, "", &Patch::Merge(patch)).await?;
        Ok(Outcome::Done)
    }

    async fn join(&self, live: &Value) -> Result<Outcome, Error> {
        let asked = live.pointer("/status/certificateRequest").and_then(Value::as_str);
        match join::certificate(&self.writer, asked).await? {
            Certificate::Waiting => Ok(Outcome::Done),
            Certificate::Missing => {
                let name = join::ask(self.writer.client(), live, join::Use::Client).await?;
                self.write(live, &[("certificateRequest", json!(name))]).await
            }
            Certificate::Refused => {
                self.write(live, &[("certificateRequest", Value::Null)]).await?;
                Ok(Outcome::After(ASK_AGAIN))
            }
            Certificate::Issued => {
                join::ask(self.writer.client(), live, join::Use::Serving).await?;
                self.write(live, &[("joined", json!(true))]).await
            }
        }
    }

    async fn write(&self, live: &Value, fields: &[(&str, Value)]) -> Result<Outcome, Error> {
        let mut status = live.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        for (field, value) in fields {
            match value {
                Value::Null => drop(status.remove(*field)),
                value => drop(status.insert((*field).to_owned(), value.clone())),
            }
        }
        self.writer.update_status(live, &Value::Object(status)).await?;
        Ok(Outcome::Done)
    }
}

fn plan(instance: &Value, has_config_server: bool, now: Timestamp) -> Step {
    let text = |pointer: &str| instance.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let time = |pointer: &str| text(pointer).parse::<Timestamp>().ok();
    // A delay that a person has written wrongly is none.
    let delay = |field: &str| parse_duration(text(&format!("/spec/{field}"))).unwrap_or_default();
    let left = |since: Option<Timestamp>, delay: Duration| {
        let end =
            since.unwrap_or(now).checked_add(SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX);
        Some(end.duration_since(now)).filter(SignedDuration::is_positive).map(SignedDuration::unsigned_abs)
    };
    let state = text("/status/state");
    if let Some(deleted) = time("/metadata/deletionTimestamp") {
        if state != SHUTTING_DOWN {
            return Step::Enter(SHUTTING_DOWN);
        }
        return left(Some(deleted), delay("deleteDelay")).map_or(Step::Release, Step::Wait);
    }
    let vanishes = (!text("/spec/vanishAfter").is_empty()).then(|| left(time("/metadata/creationTimestamp"), delay("vanishAfter")));
    if vanishes == Some(None) {
        return Step::Vanish;
    }
    let since = time("/status/since");
    let is_set = |pointer: &str| instance.pointer(pointer) == Some(&Value::Bool(true));
    let step = match state {
        PENDING => left(since, delay("bootDelay")).map_or(Step::Enter(RUNNING), Step::Wait),
        RUNNING if is_set("/status/joined") || is_set("/spec/neverJoin") => Step::Rest,
        RUNNING => match left(since, delay("joinDelay")) {
            Some(left) => Step::Wait(left),
            None if has_config_server && !has_booted(instance) => Step::Boot,
            None => Step::Join,
        },
        _ => Step::Enter(PENDING),
    };
    match (step, vanishes.flatten()) {
        (Step::Rest, Some(end)) => Step::Wait(end),
        (Step::Wait(wait), Some(end)) => Step::Wait(wait.min(end)),
        (step, _) => step,
    }
}

/// Returns whether an instance has read what it boots with.
fn has_booted(instance: &Value) -> bool {
    instance.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(NODE_ANNOTATIONS).is_some())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MACH-PROV-05, MACH-PROV-06: each state lasts as long as it should, and a lost instance goes through its end, too.
    #[test]
    fn the_life_of_an_instance() {
        let start: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let mut instance =
            json!({"metadata": {"creationTimestamp": "2026-03-10T12:00:00Z"}, "spec": {"bootDelay": "5s", "joinDelay": "2s"}});
        assert_eq!(plan(&instance, false, start), Step::Enter(PENDING));
        instance["status"] = json!({"state": PENDING, "since": "2026-03-10T12:00:00Z"});
        assert_eq!(plan(&instance, false, start), Step::Wait(Duration::from_secs(5)));
        let later = start + SignedDuration::from_secs(5);
        assert_eq!(plan(&instance, false, later), Step::Enter(RUNNING));
        instance["status"] = json!({"state": RUNNING, "since": "2026-03-10T12:00:05Z"});
        assert_eq!(plan(&instance, false, later), Step::Wait(Duration::from_secs(2)));
        assert_eq!(plan(&instance, false, later + SignedDuration::from_secs(2)), Step::Join);
        // MACH-MCS-03: before it joins, it boots, where there is something to boot from.
        let begun = later + SignedDuration::from_secs(2);
        assert_eq!(plan(&instance, true, later), Step::Wait(Duration::from_secs(2)));
        assert_eq!(plan(&instance, true, begun), Step::Boot);
        instance["metadata"]["annotations"] = json!({NODE_ANNOTATIONS: "{}"});
        assert_eq!(plan(&instance, true, begun), Step::Join);
        instance["spec"]["neverJoin"] = json!(true);
        assert_eq!(plan(&instance, false, later), Step::Rest);
        instance["spec"]["vanishAfter"] = json!("1m");
        assert_eq!(plan(&instance, false, later), Step::Wait(Duration::from_secs(55)));
        assert_eq!(plan(&instance, false, start + SignedDuration::from_secs(60)), Step::Vanish);
        instance["metadata"]["deletionTimestamp"] = json!("2026-03-10T12:01:00Z");
        instance["spec"]["deleteDelay"] = json!("3s");
        let deleted = start + SignedDuration::from_secs(60);
        assert_eq!(plan(&instance, false, deleted), Step::Enter(SHUTTING_DOWN));
        instance["status"]["state"] = json!(SHUTTING_DOWN);
        assert_eq!(plan(&instance, false, deleted), Step::Wait(Duration::from_secs(3)));
        assert_eq!(plan(&instance, false, deleted + SignedDuration::from_secs(3)), Step::Release);
    }
}
