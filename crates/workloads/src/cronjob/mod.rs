//! CronJobs: a Job each time that a schedule is due (KAPI-WL-01).

pub mod plan;
pub mod schedule;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Result;
use crate::api::Delete;
use crate::events::Event;
use crate::live::Live;
use crate::object::{Object, Read as _, controlled_by, time};
use crate::replicaset::settle;
use crate::world::{World, wake_controller, wake_self};

const COMPONENT: &str = "cronjob-controller";

#[derive(Clone)]
struct Controller {
    world: World,
    crons: Live,
    jobs: Live,
}

/// Runs the controller.
pub async fn run(world: World, crons: Live, jobs: Live) {
    let queue = Queue::default();
    crons.ready().await;
    jobs.ready().await;
    wake_self(&crons, &queue);
    wake_controller(&jobs, "CronJob", &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, crons, jobs };
    mainstay_runtime::run("cronjob", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(cron) = self.crons.get(key) else { return Ok(Outcome::Done) };
        let jobs: Vec<Object> = self.jobs.owned_by(cron.uid()).into_iter().filter(|job| controlled_by(job, cron.uid())).collect();
        let plan = plan::plan(&cron, &jobs, self.world.env.now());
        for event in plan.events {
            self.tell(&cron, event);
        }
        for job in &plan.delete {
            self.delete(&cron, job).await?;
        }
        let mut status = plan.status;
        let mut failure = None;
        if let Some(start) = plan.make {
            match self.start(&cron, &start.job).await {
                Ok(Some(job)) => {
                    let mut active = status["active"].as_array().cloned().unwrap_or_default();
                    active.push(json!({
                        "kind": "Job", "namespace": job.namespace(), "name": job.name(), "uid": job.uid(),
                        "apiVersion": "batch/v1", "resourceVersion": job.metadata.resource_version,
                    }));
                    status["active"] = Value::Array(active);
                    status["lastScheduleTime"] = time(start.at);
                }
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        let present = cron.data.get("status").filter(|status| !status.is_null()).cloned().unwrap_or_else(|| json!({}));
        if present != status {
            self.crons.write_status(&cron, &status).await?;
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(plan.again.map_or(Outcome::Done, Outcome::After)),
        }
    }

    /// Creates the Job. An existing one of the same name counts as the created one, if this CronJob owns it.
    async fn start(&self, cron: &DynamicObject, job: &Value) -> Result<Option<DynamicObject>> {
        match self.jobs.create(cron.namespace(), job).await {
            Ok(made) => {
                self.tell(cron, Event::normal("SuccessfulCreate", format!("Created job {}", made.name())));
                Ok(Some(made))
            }
            Err(error) if error.is_already_there() => {
                let name = job["metadata"]["name"].as_str().unwrap_or_default();
                let there = self.jobs.get(&Key::new(cron.namespace(), name));
                Ok(there.filter(|there| controlled_by(there, cron.uid())).map(|there| DynamicObject::clone(&there)))
            }
            Err(error) => {
                if !error.is_terminating() {
                    self.tell(cron, Event::warning("FailedCreate", format!("Error creating job: {}", error.message())));
                }
                Err(error)
            }
        }
    }

    async fn delete(&self, cron: &DynamicObject, job: &Object) -> Result<()> {
        let options = Delete { propagation: Some("Background"), ..Delete::uid(job.uid()) };
        match self.jobs.delete(&Key::of(job), &options).await {
            Ok(_) => {
                self.tell(cron, Event::normal("SuccessfulDelete", format!("Deleted job {}", job.name())));
                Ok(())
            }
            Err(error) => {
                self.tell(cron, Event::warning("FailedDelete", format!("Deleted job: {}", error.message())));
                Err(error)
            }
        }
    }

    fn tell(&self, cron: &DynamicObject, event: Event) {
        self.world.events.tell(COMPONENT, self.crons.served(), cron, event);
    }
}
