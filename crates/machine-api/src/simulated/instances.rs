//! The life of simulated instances: what a cloud and a first boot do.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use mainstay_apply::Writer;
use mainstay_golang::parse_duration;
use mainstay_objects::{Expect, Propagation};
use mainstay_runtime::{Cache, Env, Key, Kinds, Outcome, Queue, Scope};
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
    /// Its kubelet needs a certificate.
    Join,
    /// It is lost by itself.
    Vanish,
    /// It is gone.
    Release,
}

/// Runs the instances. `machines` are woken when theirs change.
pub(crate) async fn run(client: Client, env: Env, machines: Queue<Key>, stop: CancellationToken) {
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
    let controller = Arc::new(Controller { writer, env: env.clone() });
    mainstay_runtime::run("simulated-instances", queue, WORKERS, env, stop, move |key| {
        let controller = controller.clone();
        async move { settled(controller.reconcile(&key).await) }
    })
    .await;
}

struct Controller {
    writer: Writer,
    env: Env,
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(live) = self.writer.get(&SIM_INSTANCE.at(key)).await? else { return Ok(Outcome::Done) };
        match plan(&live, self.env.now()) {
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
            Step::Join => self.join(&live).await,
        }
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

fn plan(instance: &Value, now: Timestamp) -> Step {
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
        RUNNING => left(since, delay("joinDelay")).map_or(Step::Join, Step::Wait),
        _ => Step::Enter(PENDING),
    };
    match (step, vanishes.flatten()) {
        (Step::Rest, Some(end)) => Step::Wait(end),
        (Step::Wait(wait), Some(end)) => Step::Wait(wait.min(end)),
        (step, _) => step,
    }
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
        assert_eq!(plan(&instance, start), Step::Enter(PENDING));
        instance["status"] = json!({"state": PENDING, "since": "2026-03-10T12:00:00Z"});
        assert_eq!(plan(&instance, start), Step::Wait(Duration::from_secs(5)));
        let later = start + SignedDuration::from_secs(5);
        assert_eq!(plan(&instance, later), Step::Enter(RUNNING));
        instance["status"] = json!({"state": RUNNING, "since": "2026-03-10T12:00:05Z"});
        assert_eq!(plan(&instance, later), Step::Wait(Duration::from_secs(2)));
        assert_eq!(plan(&instance, later + SignedDuration::from_secs(2)), Step::Join);
        instance["spec"]["neverJoin"] = json!(true);
        assert_eq!(plan(&instance, later), Step::Rest);
        instance["spec"]["vanishAfter"] = json!("1m");
        assert_eq!(plan(&instance, later), Step::Wait(Duration::from_secs(55)));
        assert_eq!(plan(&instance, start + SignedDuration::from_secs(60)), Step::Vanish);
        instance["metadata"]["deletionTimestamp"] = json!("2026-03-10T12:01:00Z");
        instance["spec"]["deleteDelay"] = json!("3s");
        let deleted = start + SignedDuration::from_secs(60);
        assert_eq!(plan(&instance, deleted), Step::Enter(SHUTTING_DOWN));
        instance["status"]["state"] = json!(SHUTTING_DOWN);
        assert_eq!(plan(&instance, deleted), Step::Wait(Duration::from_secs(3)));
        assert_eq!(plan(&instance, deleted + SignedDuration::from_secs(3)), Step::Release);
    }
}
