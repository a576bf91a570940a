//! Jobs: pods that run to their end (KAPI-WL-01).

pub mod plan;
pub mod policy;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::plan::{INDEX, Made, TRACKING};
use self::policy::FAILURES;
use crate::api::{Delete, Patch};
use crate::live::Live;
use crate::object::{Object, Read as _, condition};
use crate::replicaset::{delete_pod, make_pods, settle};
use crate::world::{World, label_selector, wake_controller, wake_selecting, wake_self};
use crate::{Result, claim, pod};

const COMPONENT: &str = "job-controller";
/// The pods that are created concurrently.
const AT_ONCE: usize = 16;

#[derive(Clone)]
struct Controller {
    world: World,
    jobs: Live,
}

/// Runs the controller.
pub async fn run(world: World, jobs: Live) {
    let queue = Queue::default();
    jobs.ready().await;
    world.pods.ready().await;
    wake_self(&jobs, &queue);
    wake_controller(&world.pods, "Job", &queue);
    wake_selecting(&jobs, &world.pods, &queue, label_selector);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, jobs };
    mainstay_runtime::run("job", queue, 2, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(job) = self.jobs.get(key) else { return self.release_orphans(key).await };
        if job.deleting() {
            let held: Vec<Object> = self.world.pods.owned_by(job.uid());
            self.release(&held).await?;
            return Ok(Outcome::Done);
        }
        // Another controller manages it.
        if !matches!(job.text("/spec/managedBy"), "" | "kubernetes.io/job-controller") {
            return Ok(Outcome::Done);
        }
        let claim = claim::claim(&job, job.at("/spec/selector"), self.world.pods.claimable(&key.namespace, job.uid()));
        let pods = claim::carry_out(claim, &self.jobs, &job, &self.world.pods).await?;
        let plan = plan::plan(&job, &pods, self.world.env.now());
        for pod in &plan.delete {
            delete_pod(&self.world, &self.jobs, COMPONENT, &job, pod).await?;
        }
        for made in plan.make.chunks(AT_ONCE) {
            let bodies: Vec<Value> = made.iter().map(|made| body(&job, *made)).collect();
            let making = bodies.iter().map(|body| make_pods(&self.world, &self.jobs, COMPONENT, &job, body, 1));
            for outcome in futures::future::join_all(making).await {
                outcome?;
            }
        }
        if *job.at("/status") != plan.status {
            self.jobs.write_status(&job, &plan.status).await?;
            self.tell(&job, &plan.status);
        }
        // Only pods that the status counts are released.
        self.release(&plan.release).await?;
        if plan.expired {
            let options = Delete { propagation: Some("Foreground"), ..Delete::uid(job.uid()) };
            self.jobs.delete(key, &options).await?;
        }
        Ok(plan.again.map_or(Outcome::Done, Outcome::After))
    }

    /// Releases the pods of a deleted Job.
    async fn release_orphans(&self, key: &Key) -> Result<Outcome> {
        let of_job = |pod: &DynamicObject| pod.controller().is_some_and(|owner| owner.kind == "Job" && owner.name == key.name);
        let pods = self.world.pods.matching(&key.namespace, of_job);
        self.release(&pods).await?;
        Ok(Outcome::Done)
    }

    async fn release(&self, pods: &[Object]) -> Result<()> {
        for pod in pods.iter().filter(|pod| pod.metadata.finalizers.iter().flatten().any(|own| own == TRACKING)) {
            let rest: Vec<&String> = pod.metadata.finalizers.iter().flatten().filter(|own| *own != TRACKING).collect();
            let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
            let meta = json!({"uid": pod.uid(), "resourceVersion": pod.metadata.resource_version, "finalizers": rest});
            match self.world.pods.patch(&Key::of(pod), "", &Patch::Merge(json!({"metadata": meta}))).await {
                Err(error) if error.is_not_found() => {}
                outcome => {
                    outcome?;
                }
            }
        }
        Ok(())
    }

    fn tell(&self, job: &DynamicObject, status: &Value) {
        let is = |kind: &str| condition(&status["conditions"], kind).filter(|one| one["status"] == "True").cloned();
        let was = |kind: &str| condition(job.at("/status/conditions"), kind).is_some_and(|one| one["status"] == "True");
        let record = |kind, reason, message: &str| self.world.events.record(COMPONENT, kind, self.jobs.served(), job, reason, message);
        if is("Complete").is_some() && !was("Complete") {
            record("Normal", "Completed", "Job completed");
        }
        if let Some(failed) = is("Failed").filter(|_| !was("Failed")) {
            const REASONS: [&str; 5] =
                ["DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes", "BackoffLimitExceeded"];
            let reason = REASONS.into_iter().find(|reason| failed["reason"] == *reason).unwrap_or("BackoffLimitExceeded");
            record("Warning", reason, failed["message"].as_str().unwrap_or_default());
        }
        if is("Suspended").is_some() && !was("Suspended") {
            record("Normal", "Suspended", "Job suspended");
        }
        if was("Suspended") && is("Suspended").is_none() {
            record("Normal", "Resumed", "Job resumed");
        }
    }
}

/// Builds a pod of a Job.
fn body(job: &DynamicObject, made: Made) -> Value {
    let mut body = pod::from_template(job.at("/spec/template"), "batch/v1", "Job", job);
    let mut finalizers = body["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(TRACKING));
    body["metadata"]["finalizers"] = json!(finalizers);
    let Some(index) = made.index else { return body };
    let number = index.to_string();
    body["metadata"]["generateName"] = json!(format!("{}-{index}-", job.name()));
    for place in ["annotations", "labels"] {
        body["metadata"][place][INDEX] = json!(number);
    }
    if let Some(failures) = made.failures {
        body["metadata"]["annotations"][FAILURES] = json!(failures.to_string());
    }
    body["spec"]["hostname"] = json!(format!("{}-{index}", job.name()));
    let variable = json!({
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{INDEX}']")}},
    });
    for list in ["containers", "initContainers"] {
        for container in body["spec"][list].as_array_mut().into_iter().flatten() {
            let mut env = container["env"].as_array().cloned().unwrap_or_default();
            env.push(variable.clone());
            container["env"] = json!(env);
        }
    }
    body
}
