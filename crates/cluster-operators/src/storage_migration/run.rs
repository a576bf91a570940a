//! The loop: it compares discovery with the record, and writes objects back page by page (COP-SVM-03 to COP-SVM-05).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::cluster_operator::{self, Problem, Related, Report};
use mainstay_apply::{WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectError, ObjectRef, Patch, Propagation};
use mainstay_runtime::{Cache, Cluster, ConnectError, Env, Kinds, Optional, Outcome, Part, Queue, Scope};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::objects::{ACCOUNT, API_VERSION, GROUP, NAMESPACE};
use super::plan::{Resource, plan, resources};

/// Keys that are reconciled concurrently.
const WORKERS: usize = 2;
/// Objects of one page.
const PAGE: usize = 500;
/// The pause after a change of a CRD: its kind is served a moment later.
const SETTLE: Duration = Duration::from_millis(500);
/// The name of the ClusterOperator.
const OPERATOR: &str = "kube-storage-version-migrator";
/// The most failures that the ClusterOperator names.
const SHOWN: usize = 10;
/// The most objects of the loop's own kinds.
const MOST: usize = 10_000;

/// The settings of the loop.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most writes in a second.
    pub writes_per_second: f64,
    /// The time between two looks at discovery, beside changes of CRDs.
    pub period: Duration,
    /// The version that the ClusterOperator reports.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { writes_per_second: 20.0, period: Duration::from_secs(600), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// An error of the loop.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// No client could be made.
    #[error("the storage version migrator has no client")]
    Connect(#[from] ConnectError),
    /// The cluster refused a request or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A list or a discovery document cannot be read.
    #[error("{path} cannot be read")]
    Read {
        /// The path.
        path: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// A path is none.
    #[error("a request cannot be made")]
    Request(#[from] http::Error),
    /// An object has no name or kind.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Runs until `stop` is cancelled.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), MigrationError> {
    let queue: Queue<Work> = Queue::default();
    let migrator = Arc::new(Migrator::start(&cluster.client()?, env.clone(), config, &queue, &stop));
    queue.add(Work::Discover);
    let reconcile = move |work: Work| {
        let migrator = migrator.clone();
        async move { migrator.reconcile(work).await }
    };
    mainstay_runtime::run("storage-version-migrator", queue, WORKERS, env, stop, reconcile).await;
    Ok(())
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Discovery and the record.
    Discover,
    /// A migration.
    Migrate(String),
    /// The ClusterOperator.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discover => out.write_str("discovery"),
            Self::Migrate(name) => write!(out, "StorageVersionMigration {name}"),
            Self::Report => write!(out, "ClusterOperator {OPERATOR}"),
        }
    }
}

struct Migrator {
    writer: Writer,
    env: Env,
    config: Config,
    queue: Queue<Work>,
    migrations: Optional,
    operators: Optional,
    /// When the next write may be made.
    next: Mutex<Instant>,
    stop: CancellationToken,
}

/// How the write of one object ended.
enum Written {
    Done,
    /// The object can never be written in this form.
    Refused(WriteError),
}

impl Migrator {
    fn start(client: &Client, env: Env, config: Config, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let woken = queue.clone();
        let migrations = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(GROUP, "v1alpha1", "StorageVersionMigration"),
            "storageversionmigrations",
        );
        let migrations = Optional::start(client, migrations, stop, move || {
            woken.add(Work::Discover);
            woken.add(Work::Report);
        });
        let woken = queue.clone();
        let operators =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator"), "clusteroperators");
        let operators = Optional::start(client, operators, stop, move || woken.add(Work::Report));
        let definition = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definition = ApiResource::from_gvk_with_plural(&definition, "customresourcedefinitions");
        let definitions = Cache::start(client, &definition, &Scope { part: Part::Metadata, ..Scope::default() }, stop);
        let woken = queue.clone();
        definitions.on_change(move |_| woken.add_after(Work::Discover, SETTLE));
        Self {
            migrations: migrations.shown(env.metrics()),
            operators: operators.shown(env.metrics()),
            writer: Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT),
            env,
            config,
            queue: queue.clone(),
            next: Mutex::new(Instant::now()),
            stop: stop.clone(),
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, MigrationError> {
        match work {
            Work::Discover => self.discover().await,
            Work::Migrate(name) => self.migrate(&name).await,
            Work::Report => self.report().await,
        }
    }

    /// Starts migrations and keeps the record; wakes the migrations that are not done.
    async fn discover(&self) -> Result<Outcome, MigrationError> {
        if !self.migrations.is_known() {
            return Ok(Outcome::Done);
        }
        if self.migrations.objects().is_none() {
            // It is called when they are.
            tracing::info!("waits until StorageVersionMigrations of {GROUP} are served");
            return Ok(Outcome::Done);
        }
        let kind = |kind: &str| GroupVersionKind::gvk(GROUP, "v1alpha1", kind);
        let states = self.writer.list(&kind("StorageState"), MOST).await?;
        let mut migrations = self.writer.list(&kind("StorageVersionMigration"), MOST).await?;
        let found = self.discovered().await?;
        let plan = plan(&found, &states, &migrations, self.config.period, self.env.now_seconds());
        for launch in plan.launches {
            for name in &launch.replaces {
                self.writer.delete(&at("StorageVersionMigration", name), &Expect::default(), Propagation::Background).await?;
            }
            migrations.retain(|old| !launch.replaces.iter().any(|name| old["metadata"]["name"] == name.as_str()));
            migrations.push(self.writer.create(&launch.migration).await?);
        }
        // The record follows the launch: after a crash between the two, the migration is started once more.
        for state in plan.states {
            let known = states.iter().find(|known| known["metadata"]["name"] == state["metadata"]["name"]);
            if known.is_some_and(|known| is_fresh(&known["status"], &state["status"], self.config.period)) {
                continue;
            }
            let mut own = state.clone();
            if let Some(own) = own.as_object_mut() {
                own.remove("status");
            }
            self.writer.keep_status(&own, |_| state["status"].clone()).await?;
        }
        for migration in migrations.iter().filter(|migration| !is_over(migration)) {
            if let Some(name) = migration["metadata"]["name"].as_str() {
                self.queue.add(Work::Migrate(name.to_owned()));
            }
        }
        Ok(Outcome::After(self.config.period))
    }

    /// Every resource of every group, the preferred version of a group first.
    async fn discovered(&self) -> Result<Vec<Resource>, MigrationError> {
        let mut all = resources(&self.get("/api/v1").await?);
        let groups = self.get("/apis").await?;
        for group in groups["groups"].as_array().into_iter().flatten() {
            let preferred = group["preferredVersion"]["groupVersion"].as_str();
            let versions = group["versions"].as_array().into_iter().flatten().filter_map(|version| version["groupVersion"].as_str());
            let others = versions.filter(|version| Some(*version) != preferred);
            for version in preferred.into_iter().chain(others) {
                match self.get(&format!("/apis/{version}")).await {
                    Ok(document) => all.extend(resources(&document)),
                    // An aggregated API that is away keeps its resources from being judged, and no other.
                    Err(error) => tracing::warn!(error = chain(&error), version, "a version cannot be discovered"),
                }
            }
        }
        Ok(all)
    }

    async fn migrate(&self, name: &str) -> Result<Outcome, MigrationError> {
        let place = at("StorageVersionMigration", name);
        let Some(migration) = self.writer.get(&place).await?.filter(|migration| !is_over(migration)) else { return Ok(Outcome::Done) };
        let target = &migration["spec"]["resource"];
        let text = |field: &str| target[field].as_str().unwrap_or_default().to_owned();
        let (group, version, resource) = (text("group"), text("version"), text("resource"));
        let path = if group.is_empty() { format!("/api/{version}/{resource}") } else { format!("/apis/{group}/{version}/{resource}") };
        let definition = self.definition(&group, &resource).await?;
        let storage = definition.as_ref().and_then(storage_version);
        let mut token = migration["spec"]["continueToken"].as_str().unwrap_or_default().to_owned();
        let mut count = 0_usize;
        self.tell(&place, "Running", "", &format!("at most {} writes a second", self.config.writes_per_second)).await?;
        loop {
            let page = match self.page(&path, &token).await {
                Err(MigrationError::Read { source, .. }) if !token.is_empty() && is_expired(&source) => {
                    token.clear();
                    self.remember(&place, "").await?;
                    continue;
                }
                // The kind is gone, and with it every object of it.
                Err(MigrationError::Read { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.code == 404) => json!({}),
                page => page?,
            };
            for mut item in page["items"].as_array().cloned().unwrap_or_default() {
                if self.stop.is_cancelled() {
                    // The page is written once more after the next start.
                    return Ok(Outcome::Done);
                }
                item["apiVersion"] = if group.is_empty() { version.clone() } else { format!("{group}/{version}") }.into();
                item["kind"] = page["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().into();
                self.wait().await;
                if let Written::Refused(error) = self.write(&item).await? {
                    let message = format!("{resource}: {}", chain(&error));
                    self.tell(&place, "Failed", "ObjectRefused", &message).await?;
                    self.queue.add(Work::Report);
                    return Ok(Outcome::Done);
                }
                count += 1;
            }
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
            self.remember(&place, &token).await?;
            self.tell(&place, "Running", "", &format!("{count} objects written, at most {} a second", self.config.writes_per_second))
                .await?;
        }
        self.finish(&place, &group, &resource, definition, storage, count).await?;
        Ok(Outcome::Done)
    }

    /// Records the end: only what was the storage version at the start and still is, is all that is stored.
    async fn finish(
        &self,
        place: &ObjectRef,
        group: &str,
        resource: &str,
        before: Option<Value>,
        storage: Option<String>,
        count: usize,
    ) -> Result<(), MigrationError> {
        if let (Some(_), Some(storage)) = (before, storage) {
            let now = self.definition(group, resource).await?;
            let Some(now) = now.filter(|now| storage_version(now).as_deref() == Some(&storage)) else {
                // Discovery has started, or will start, the migration to the new storage version.
                self.tell(place, "Failed", "StorageVersionChanged", "the storage version changed meanwhile").await?;
                return Ok(());
            };
            let mut status = now["status"].clone();
            status["storedVersions"] = json!([storage]);
            self.writer.update_status(&now, &status).await?;
        }
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        if let Some(state) = self.writer.get(&at("StorageState", &name)).await? {
            let mut status = state["status"].clone();
            status["persistedStorageVersionHashes"] = json!([status["currentStorageVersionHash"]]);
            self.writer.update_status(&state, &status).await?;
        }
        self.tell(place, "Succeeded", "", &format!("{count} objects written")).await?;
        self.queue.add(Work::Report);
        Ok(())
    }

    async fn definition(&self, group: &str, resource: &str) -> Result<Option<Value>, MigrationError> {
        if group.is_empty() {
            return Ok(None);
        }
        let place = ObjectRef {
            api_version: "apiextensions.k8s.io/v1".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: String::new(),
            name: format!("{resource}.{group}"),
        };
        Ok(self.writer.get(&place).await?)
    }

    /// Writes an object back as it is. One that is gone or was changed meanwhile needs no write.
    async fn write(&self, object: &Value) -> Result<Written, MigrationError> {
        match self.writer.replace(object).await {
            Ok(_) => Ok(Written::Done),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Written::Done),
            Err(error) if error.is_forbidden() || matches!(error.reason(), Some(mainstay_apply::Reason::Invalid(_))) => {
                Ok(Written::Refused(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the next write's turn.
    async fn wait(&self) {
        let turn = {
            let mut next = self.next.lock().await;
            let turn = (*next).max(Instant::now());
            *next = turn + Duration::from_secs_f64(1.0 / self.config.writes_per_second.max(0.001));
            turn
        };
        tokio::time::sleep_until(turn).await;
    }

    async fn page(&self, path: &str, token: &str) -> Result<Value, MigrationError> {
        // A token is base64 for URLs in every server that is known; what else it may hold is escaped.
        let token: String = token
            .bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            })
            .collect::<Vec<_>>()
            .concat();
        let token = if token.is_empty() { token } else { format!("&continue={token}") };
        self.get(&format!("{path}?limit={PAGE}{token}")).await
    }

    async fn get(&self, path: &str) -> Result<Value, MigrationError> {
        let request = Request::get(path).header(http::header::ACCEPT, "application/json").body(Vec::new())?;
        let read = |source| MigrationError::Read { path: path.to_owned(), source: Box::new(source) };
        self.writer.client().request(request).await.map_err(read)
    }

    async fn remember(&self, place: &ObjectRef, token: &str) -> Result<(), MigrationError> {
        self.writer.patch(place, "", &Patch::Merge(json!({"spec": {"continueToken": token}}))).await?;
        Ok(())
    }

    /// Sets a condition to True; Running ends with the others.
    async fn tell(&self, place: &ObjectRef, kind: &str, reason: &str, message: &str) -> Result<(), MigrationError> {
        let Some(live) = self.writer.get(place).await? else { return Ok(()) };
        let now = self.env.now_seconds().to_string();
        let mut conditions = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut set = |kind: &str, status: &str, reason: &str, message: &str| {
            let wanted = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastUpdateTime": now});
            match conditions.iter_mut().find(|each| each["type"] == kind) {
                Some(found) => *found = wanted,
                None => conditions.push(wanted),
            }
        };
        if kind != "Running" {
            set("Running", "False", "", "");
        }
        set(kind, "True", reason, message);
        self.writer.update_status(&live, &json!({"conditions": conditions})).await?;
        Ok(())
    }

    async fn report(&self) -> Result<Outcome, MigrationError> {
        // Only a release has a ClusterOperator of this name, and makes it itself.
        let place = ObjectRef::of(&cluster_operator::object(OPERATOR))?;
        if !self.operators.is_known() || self.operators.named(OPERATOR).is_none() {
            return Ok(Outcome::Done);
        }
        let Some(live) = self.writer.get(&place).await?.filter(cluster_operator::is_of_release) else { return Ok(Outcome::Done) };
        let all = self.migrations.objects().map(|all| all.all()).unwrap_or_default();
        let mut failed: Vec<String> = all.iter().filter_map(|migration| failure(&migration.data)).collect();
        failed.sort();
        let more = failed.len().saturating_sub(SHOWN);
        failed.truncate(SHOWN);
        if more > 0 {
            failed.push(format!("and {more} more"));
        }
        let report = Report {
            unavailable: None,
            progressing: None,
            degraded: (!failed.is_empty()).then(|| Problem::new("MigrationFailed", failed.join("\n"))),
            not_upgradeable: None,
            version: Some(self.config.version.clone()),
            related: vec![
                Related::new("", "namespaces", "", NAMESPACE),
                Related::new(GROUP, "storageversionmigrations", "", ""),
                Related::new(GROUP, "storagestates", "", ""),
            ],
        };
        self.writer.update_status(&live, &cluster_operator::status(&live, &report, self.env.now_seconds())).await?;
        Ok(Outcome::Done)
    }
}

fn at(kind: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: API_VERSION.to_owned(), kind: kind.to_owned(), namespace: String::new(), name: name.to_owned() }
}

fn has(migration: &Value, kind: &str) -> bool {
    let all = migration["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn is_over(migration: &Value) -> bool {
    has(migration, "Succeeded") || has(migration, "Failed")
}

/// What a failed migration says; one that was overtaken by another is no failure.
fn failure(migration: &Value) -> Option<String> {
    let all = migration["status"]["conditions"].as_array()?;
    let failed = all.iter().find(|condition| condition["type"] == "Failed" && condition["status"] == "True")?;
    (failed["reason"] != "StorageVersionChanged").then(|| failed["message"].as_str().unwrap_or_default().to_owned())
}

/// Returns true if the record says the same and its time is recent enough.
fn is_fresh(known: &Value, wanted: &Value, period: Duration) -> bool {
    let time = |status: &Value| status["lastHeartbeat"].as_str()?.parse::<jiff::Timestamp>().ok();
    let same = |field: &str| known[field] == wanted[field];
    let (Some(before), Some(now)) = (time(known), time(wanted)) else { return false };
    let age = Duration::try_from(now.duration_since(before)).unwrap_or_default();
    same("currentStorageVersionHash") && same("persistedStorageVersionHashes") && age < period
}

fn storage_version(definition: &Value) -> Option<String> {
    let versions = definition["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str().map(str::to_owned)
}

fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}
