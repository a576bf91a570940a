//! The loop: it follows the configuration and the ImageStreams, does what is planned, and reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_apply::{Reason, WriteError, Writer};
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_runtime::{Cache, Cluster, Env, Kinds, Optional, Outcome, Part, Queue, Scope};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::plan::{FINALIZER, Snapshot, Step, plan};
use super::streams::NAMESPACE;
use crate::Error;
use crate::follow::follow;
use crate::reported::{Reported, manifest};

/// The name of the ClusterOperator.
pub const OPERATOR: &str = "openshift-samples";
/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "samples-operator";

const SAMPLES: &str = "samples.operator.openshift.io";
const IMAGES: &str = "image.openshift.io";
/// The Secret of namespace `openshift-config` with the credentials of registries.
const PULL_SECRET: &str = "pull-secret";
/// The pause after a write of others that came between: the copies here are behind.
const BEHIND: Duration = Duration::from_millis(200);

/// Returns account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let mut credentials = rule("", &["secrets"], &read);
    credentials["resourceNames"] = json!([PULL_SECRET]);
    let rules = [
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "patch"]),
        rule("config.openshift.io", &["clusteroperators/status"], &["update"]),
        rule(SAMPLES, &["configs"], &["get", "list", "watch", "create", "update", "patch"]),
        rule(SAMPLES, &["configs/status"], &["update"]),
        rule(IMAGES, &["imagestreams"], &["get", "list", "watch", "create", "update", "delete"]),
        credentials,
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    crate::manifests::account(ACCOUNT, &rules)
}

/// Runs until `stop` is cancelled. `release` is what the release that is being applied says of its operators.
///
/// # Errors
/// The cluster is not embedded, or no client of it can be made.
pub async fn run(cluster: Cluster, env: Env, release: watch::Receiver<Arc<[Value]>>, stop: CancellationToken) -> Result<(), Error> {
    if !crate::embedded::is_embedded(&cluster) {
        return Err(Error::RealCluster(cluster.server()));
    }
    let client = cluster.client()?;
    let queue: Queue<Work> = Queue::default();
    let watched = |group: &str, kind: &str, plural: &str| {
        let woken = queue.clone();
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
        Optional::start(&client, resource, &stop, move || woken.add(Work)).shown(env.metrics())
    };
    let scope = Scope {
        part: Part::Metadata,
        namespace: Some("openshift-config".to_owned()),
        fields: Some(format!("metadata.name={PULL_SECRET}")),
        ..Scope::default()
    };
    let secrets = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Secret"), "secrets");
    let credentials = Cache::start(&client, &secrets, &scope, &stop);
    let woken = queue.clone();
    credentials.on_change(move |_| woken.add(Work));
    let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
    let operator = Arc::new(Operator {
        reported: Reported::new(OPERATOR, writer.clone(), env.clone(), ACCOUNT),
        writer,
        env: env.clone(),
        operators: watched("config.openshift.io", "ClusterOperator", "clusteroperators"),
        configs: watched(SAMPLES, "Config", "configs"),
        streams: watched(IMAGES, "ImageStream", "imagestreams"),
        credentials,
        release: release.clone(),
    });
    queue.add(Work);
    let followed = follow(release, stop.clone(), {
        let queue = queue.clone();
        move || queue.add(Work)
    });
    let reconcile = move |_: Work| {
        let operator = operator.clone();
        async move { operator.reconcile().await }
    };
    let work = mainstay_runtime::run(ACCOUNT, queue, 1, env, stop, reconcile);
    tokio::join!(work, followed);
    Ok(())
}

/// The only item of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Work;

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterOperator {OPERATOR}")
    }
}

struct Operator {
    reported: Reported,
    writer: Writer,
    env: Env,
    operators: Optional,
    configs: Optional,
    streams: Optional,
    credentials: Cache,
    release: watch::Receiver<Arc<[Value]>>,
}

impl Operator {
    async fn reconcile(&self) -> Result<Outcome, Error> {
        let (configs, streams) = (self.configs.objects(), self.streams.objects());
        let are_known = [&self.operators, &self.configs, &self.streams].iter().filter(|kind| !kind.is_known()).count() == 0;
        // Both kinds come with the release that brings the operator.
        let (Some(_), Some(streams), true) = (configs, streams, are_known) else { return Ok(Outcome::Done) };
        let release = self.release.borrow().clone();
        let Some(expected) = manifest(&release, OPERATOR) else { return Ok(Outcome::Done) };
        if self.operators.named(OPERATOR).is_none() {
            return Ok(Outcome::Done);
        }
        let Some(live) = self.reported.live().await? else { return Ok(Outcome::Done) };
        let config = self.writer.get(&config()).await?;
        let streams: Vec<Value> =
            streams.in_namespace(NAMESPACE).iter().map(|stream| serde_json::to_value(&**stream)).collect::<Result<_, _>>()?;
        let found = plan(&Snapshot {
            expected,
            live: &live,
            config: config.as_ref(),
            streams: &streams,
            has_credentials: !self.credentials.is_empty(),
            now: self.env.now_seconds(),
        });
        match self.act(config.as_ref(), found.status.as_ref(), &found.steps).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() || error.reason() == Some(&Reason::AlreadyExists) => return Ok(Outcome::After(BEHIND)),
            Err(error) => return Err(error.into()),
        }
        let wait = self.reported.write(live, found.told).await?;
        // Every write wakes the loop again.
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }

    async fn act(&self, config: Option<&Value>, status: Option<&Value>, steps: &[Step]) -> Result<(), WriteError> {
        if let (Some(config), Some(status)) = (config, status) {
            self.writer.update_status(config, status).await?;
        }
        for step in steps {
            match step {
                Step::Create(object) => {
                    self.writer.create(object).await?;
                }
                Step::Replace(object) => {
                    self.writer.replace(object).await?;
                }
                Step::Delete(object) => {
                    self.writer.delete(&ObjectRef::of(object)?, &Expect::exactly(object), Propagation::Background).await?;
                }
                Step::Release => self.release_config().await?,
            }
        }
        Ok(())
    }

    async fn release_config(&self) -> Result<(), WriteError> {
        if let Some(config) = self.writer.get(&config()).await? {
            self.writer.remove_finalizer(&config, FINALIZER).await?;
        }
        Ok(())
    }
}

fn config() -> ObjectRef {
    ObjectRef { api_version: format!("{SAMPLES}/v1"), kind: "Config".to_owned(), namespace: String::new(), name: "cluster".to_owned() }
}
