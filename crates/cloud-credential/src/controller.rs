//! The controller: it watches the inputs of the plans, and carries the plans out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_api::cluster_operator;
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_cloud_credential_core::plan::{self, Answer, Need, Plan, Snapshot, Write};
use mainstay_cloud_credential_core::report::{self, Facts};
use mainstay_cloud_credential_core::{Cloud, FINALIZER, REQUEST_MARK, ROOT_MODE, ROOT_NAMESPACE, Request, Settings, SettingsError};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_runtime::{Cache, Cluster, Env, Key, Kinds, Optional, Outcome, Part, Queue, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::metrics::RequestMetrics;
use crate::{ACCOUNT, Error, NAMESPACE, Provider};

/// Requests that are reconciled concurrently.
const WORKERS: usize = 2;
/// The name of the ClusterOperator.
const OPERATOR: &str = "cloud-credential";
/// The ConfigMap of older releases that switches the operator off.
const LEGACY: &str = "cloud-credential-operator-config";

/// Runs the operator until `stop` is cancelled. Without a provider, credentials are passed on or refer to tokens, and are never minted.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, provider: Option<Arc<dyn Provider>>, stop: CancellationToken) -> Result<(), Error> {
    let queue: Queue<Work> = Queue::default();
    let operator = Arc::new(Operator::start(&cluster.client()?, env.clone(), provider, &queue, &stop));
    queue.add(Work::Scan);
    let reconcile = move |work: Work| {
        let operator = operator.clone();
        async move { operator.reconcile(work).await }
    };
    mainstay_runtime::run("cloud-credential", queue, WORKERS, env, stop, reconcile).await;
    Ok(())
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Settings and requests are compared with those before; what is new becomes work.
    Scan,
    /// A request.
    Request(Key),
    /// The ClusterOperator and the metrics.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scan => out.write_str("CloudCredential cluster"),
            Self::Request(key) => write!(out, "CredentialsRequest {key}"),
            Self::Report => write!(out, "ClusterOperator {OPERATOR}"),
        }
    }
}

struct Operator {
    writer: Writer,
    env: Env,
    provider: Option<Arc<dyn Provider>>,
    queue: Queue<Work>,
    requests: Optional,
    credentials: Optional,
    authentications: Optional,
    infrastructures: Optional,
    versions: Optional,
    operators: Optional,
    legacy: Cache,
    /// Metadata of the root Secrets.
    roots: Cache,
    recorder: Recorder,
    metrics: RequestMetrics,
    state: Mutex<State>,
}

/// The state since the start.
#[derive(Default)]
struct State {
    settings: Option<Result<Settings, SettingsError>>,
    /// The resource version of each request at the last scan.
    seen: BTreeMap<Key, String>,
}

impl Operator {
    fn start(client: &Client, env: Env, provider: Option<Arc<dyn Provider>>, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let optional = |group: &str, kind: &str, plural: &str, work: Work| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || woken.add(work.clone())).shown(env.metrics())
        };
        let config = "config.openshift.io";
        let requests = optional("cloudcredential.openshift.io", "CredentialsRequest", "credentialsrequests", Work::Scan);
        let scope = Scope { namespace: Some(NAMESPACE.to_owned()), fields: Some(format!("metadata.name={LEGACY}")), ..Scope::default() };
        let legacy = Cache::start(client, &core("ConfigMap", "configmaps"), &scope, stop).shown(env.metrics());
        let woken = queue.clone();
        legacy.on_change(move |_| woken.add(Work::Scan));
        follow_secrets(client, queue, &env, stop);
        follow_namespaces(client, &requests, queue, &env, stop);
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            roots: follow_roots(client, &requests, queue, &env, stop),
            credentials: optional("operator.openshift.io", "CloudCredential", "cloudcredentials", Work::Scan),
            authentications: optional(config, "Authentication", "authentications", Work::Scan),
            infrastructures: optional(config, "Infrastructure", "infrastructures", Work::Scan),
            versions: optional(config, "ClusterVersion", "clusterversions", Work::Report),
            operators: optional(config, "ClusterOperator", "clusteroperators", Work::Report),
            recorder: Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay"),
            metrics: RequestMetrics::new(env.metrics()),
            legacy,
            requests,
            writer,
            provider,
            queue: queue.clone(),
            state: Mutex::default(),
            env,
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::Scan => self.scan(),
            Work::Request(key) => {
                let outcome = self.request(&key).await;
                self.queue.add(Work::Report);
                outcome
            }
            Work::Report => self.report().await,
        }
    }

    /// Wakes the requests that changed, and all of them after a change of the settings.
    fn scan(&self) -> Result<Outcome, Error> {
        let known = [&self.credentials, &self.authentications, &self.infrastructures, &self.requests];
        if !known.iter().all(|kind| kind.is_known()) || !self.legacy.is_ready() {
            return Ok(Outcome::Done);
        }
        let read = |kind: &Optional| kind.named("cluster").map(|object| serde_json::to_value(&*object)).transpose();
        let legacy = self.legacy.get(&Key::new(NAMESPACE, LEGACY)).map(|object| serde_json::to_value(&*object)).transpose()?;
        let (credential, authentication, infrastructure) =
            (read(&self.credentials)?, read(&self.authentications)?, read(&self.infrastructures)?);
        let settings = Settings::read(credential.as_ref(), authentication.as_ref(), infrastructure.as_ref(), legacy.as_ref());
        if let Err(problem) = &settings {
            tracing::info!(%problem, "credentials are not reconciled");
        }
        let now: BTreeMap<Key, String> = self
            .requests
            .objects()
            .map(|cache| cache.all())
            .unwrap_or_default()
            .iter()
            .map(|request| (Key::of(request), request.metadata.resource_version.clone().unwrap_or_default()))
            .collect();
        let due: Vec<Key> = self.with(|state| {
            let all = state.settings.as_ref() != Some(&settings);
            state.settings = Some(settings);
            let due = now.iter().filter(|(key, version)| all || state.seen.get(key) != Some(version)).map(|(key, _)| key.clone()).collect();
            state.seen = now;
            due
        });
        for key in due {
            self.queue.add(Work::Request(key));
        }
        self.queue.add(Work::Report);
        Ok(Outcome::Done)
    }

    async fn request(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(Ok(settings)) = self.with(|state| state.settings.clone()) else { return Ok(Outcome::Done) };
        // The cache may lag behind; a plan is made of what is there now.
        let Some(mut object) = self.writer.get(&request_at(key)).await? else { return Ok(Outcome::Done) };
        let request = match Request::read(&object) {
            Ok(request) => request,
            Err(error) => return Err(Error::Refused { request: key.to_string(), problem: error.to_string() }),
        };
        let has_namespace = self.writer.get(&namespace_at(&request.secret_namespace)).await?.is_some();
        let secret = self.writer.get(&request.secret()).await?;
        let root = match settings.cloud().filter(|_| !settings.is_token_mode()) {
            Some(cloud) => self.writer.get(&root_at(cloud)).await?,
            None => None,
        };
        let mut answer = None;
        loop {
            let snapshot = Snapshot {
                object: &object,
                request: &request,
                settings: &settings,
                has_namespace,
                secret: secret.as_ref(),
                root: root.as_ref(),
                can_mint: self.provider.is_some(),
                answer: answer.as_ref(),
                now: self.env.now_seconds(),
            };
            match (plan::plan(&snapshot), &self.provider) {
                (Plan::Need(need), Some(provider)) if answer.is_none() => {
                    answer = Some(match need {
                        Need::Mint(order) => Answer::Minted(provider.mint(&order).await),
                        Need::Release(notes) => Answer::Released(provider.release(&notes).await),
                    });
                    if let Some(Answer::Minted(Ok(minted))) = &answer {
                        // What exists in the cloud is noted before anything that may fail.
                        let mut status =
                            object.get("status").cloned().unwrap_or_else(|| json!({"provisioned": false, "lastSyncGeneration": 0}));
                        status["providerStatus"] = minted.notes.clone();
                        if let Some(written) = self.writer.update_status(&object, &status).await? {
                            object = written;
                        }
                    }
                }
                (Plan::Need(_), _) => {
                    let problem = "no provider mints credentials here".to_owned();
                    return Err(Error::Refused { request: key.to_string(), problem });
                }
                (Plan::Nothing, _) => return Ok(Outcome::Done),
                (Plan::AddFinalizer, _) => {
                    self.writer.add_finalizer(&object, FINALIZER).await?;
                    return Ok(Outcome::Done);
                }
                (Plan::Sync { secret: write, status, again, failure }, _) => {
                    return self.sync(&object, &request, write, &status, again, failure).await;
                }
                (Plan::Remove { secret, status }, _) => return self.remove(&object, secret, &status).await,
            }
        }
    }

    async fn sync(
        &self,
        object: &Value,
        request: &Request,
        write: Option<Write>,
        status: &Value,
        again: Option<std::time::Duration>,
        failure: Option<String>,
    ) -> Result<Outcome, Error> {
        let written = write.is_some();
        match write {
            Some(Write::Create(secret)) => drop(self.writer.create(&secret).await?),
            Some(Write::Patch(patch)) => drop(self.writer.patch(&request.secret(), "", &Patch::Merge(patch)).await?),
            None => {}
        }
        if written {
            tracing::info!(request = request.id(), secret = %request.secret(), "the Secret of a CredentialsRequest is written");
            let note = format!("secret {}/{} is written", request.secret_namespace, request.secret_name);
            self.tell(object, EventKind::Normal, "CredentialsProvisioned", &note);
        }
        self.writer.update_status(object, status).await?;
        if let Some(problem) = failure {
            self.tell(object, EventKind::Warning, "CredentialsProvisionFailure", &problem);
            return Err(Error::Refused { request: request.id(), problem });
        }
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    async fn remove(&self, object: &Value, secret: Option<(ObjectRef, String)>, status: &Value) -> Result<Outcome, Error> {
        let object = self.writer.update_status(object, status).await?.unwrap_or_else(|| object.clone());
        if let Some((place, uid)) = secret {
            let expect = Expect { uid: Some(uid), ..Expect::default() };
            self.writer.delete(&place, &expect, Propagation::Background).await?;
            tracing::info!(secret = %place, "the Secret of a CredentialsRequest is deleted");
        }
        self.writer.remove_finalizer(&object, FINALIZER).await?;
        Ok(Outcome::Done)
    }

    async fn report(&self) -> Result<Outcome, Error> {
        let Some(settings) = self.with(|state| state.settings.clone()) else { return Ok(Outcome::Done) };
        let all = self.requests.objects().map(|cache| cache.all()).unwrap_or_default();
        let requests = all.iter().map(|request| serde_json::to_value(&**request)).collect::<Result<Vec<_>, _>>()?;
        let version = self.versions.named("version").map(|version| serde_json::to_value(&*version)).transpose()?;
        let cloud = settings.as_ref().ok().and_then(Settings::cloud);
        let root = cloud.and_then(|cloud| self.roots.get(&Key::new(ROOT_NAMESPACE, cloud.root_secret())));
        let now = self.env.now_seconds();
        let facts = Facts {
            settings: settings.as_ref(),
            requests: &requests,
            has_root: root.is_some(),
            version: version.as_ref(),
            release: env!("CARGO_PKG_VERSION"),
            now,
        };
        let mark = root.as_ref().and_then(|root| root.metadata.annotations.as_ref()?.get(ROOT_MODE));
        self.metrics.show(&report::measure(&facts, mark.map(String::as_str)));
        if !self.operators.is_known() || self.operators.objects().is_none() || !self.versions.is_known() {
            return Ok(Outcome::Done);
        }
        let (report, again) = report::report(&facts);
        let written =
            self.writer.keep_status(&cluster_operator::object(OPERATOR), |live| cluster_operator::status(live, &report, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.tell(&live, EventKind::Normal, "OperatorStatusChanged", &note);
        }
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    /// Reports an event; failing to report never fails the work.
    fn tell(&self, about: &Value, kind: EventKind, reason: &str, note: &str) {
        if let Err(error) = self.recorder.record(about, kind, reason, "Reconciling", note) {
            tracing::warn!(%error, reason, "an event could not be reported");
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Wakes the request that a Secret was written for.
fn follow_secrets(client: &Client, queue: &Queue<Work>, env: &Env, stop: &CancellationToken) {
    let scope = Scope { part: Part::Metadata, labels: Some(format!("{REQUEST_MARK}=true")), ..Scope::default() };
    let woken = queue.clone();
    Cache::start(client, &core("Secret", "secrets"), &scope, stop).shown(env.metrics()).on_change(move |change| {
        let mark = change.object().and_then(|secret| secret.metadata.annotations.as_ref()?.get(REQUEST_MARK));
        if let Some((namespace, name)) = mark.and_then(|mark| mark.split_once('/')) {
            woken.add(Work::Request(Key::new(namespace, name)));
        }
    });
}

/// Follows the metadata of root Secrets; a change concerns every request.
fn follow_roots(client: &Client, requests: &Optional, queue: &Queue<Work>, env: &Env, stop: &CancellationToken) -> Cache {
    let scope = Scope { part: Part::Metadata, namespace: Some(ROOT_NAMESPACE.to_owned()), ..Scope::default() };
    let cache = Cache::start(client, &core("Secret", "secrets"), &scope, stop).shown(env.metrics());
    let (requests, woken) = (requests.clone(), queue.clone());
    cache.on_change(move |change| {
        let name = change.object().and_then(|secret| secret.metadata.name.as_deref());
        if name.is_some_and(|name| Cloud::ALL.iter().any(|cloud| cloud.root_secret() == name)) {
            wake(&requests, &woken, |_| true);
            woken.add(Work::Report);
        }
    });
    cache
}

/// Wakes the requests whose Secret is to be in a namespace that came or went.
fn follow_namespaces(client: &Client, requests: &Optional, queue: &Queue<Work>, env: &Env, stop: &CancellationToken) {
    let scope = Scope { part: Part::Metadata, ..Scope::default() };
    let (requests, woken) = (requests.clone(), queue.clone());
    Cache::start(client, &core("Namespace", "namespaces"), &scope, stop).shown(env.metrics()).on_change(move |change| {
        if change.before.is_some() && change.now.is_some() {
            return;
        }
        let Some(name) = change.object().and_then(|namespace| namespace.metadata.name.clone()) else { return };
        wake(&requests, &woken, |request| request.data.pointer("/spec/secretRef/namespace").and_then(Value::as_str) == Some(&name));
    });
}

fn wake(requests: &Optional, queue: &Queue<Work>, concerned: impl Fn(&DynamicObject) -> bool) {
    for request in requests.objects().map(|cache| cache.all()).unwrap_or_default() {
        if concerned(&request) {
            queue.add(Work::Request(Key::of(&request)));
        }
    }
}

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { api_version: api_version.to_owned(), kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn request_at(key: &Key) -> ObjectRef {
    place(mainstay_cloud_credential_core::API_VERSION, "CredentialsRequest", &key.namespace, &key.name)
}

fn namespace_at(name: &str) -> ObjectRef {
    place("v1", "Namespace", "", name)
}

fn root_at(cloud: Cloud) -> ObjectRef {
    place("v1", "Secret", ROOT_NAMESPACE, cloud.root_secret())
}
