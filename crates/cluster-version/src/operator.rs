//! The loop over the ClusterVersion: its wish, the release in force, and its status.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::config_v1::{CapabilitiesStatus, Capability, ClusterOperator, ClusterVersion, Release, StatusCondition};
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::error::UpdateError;
use mainstay_cluster_version_core::load::{EventType, Load, Step};
use mainstay_cluster_version_core::metrics::{self, Sample};
use mainstay_cluster_version_core::release::Known;
use mainstay_cluster_version_core::retrieval::{self, Decision};
use mainstay_cluster_version_core::stand_in::Candidate;
use mainstay_cluster_version_core::status::{self, Facts, Work, Write};
use mainstay_cluster_version_core::upgradeable::{self, ConfigMap, Operators};
use mainstay_cluster_version_core::validation::{validate, without_invalid};
use mainstay_cluster_version_core::wanted::{self, Wanted};
use mainstay_objects::{Expect, ObjectRef, Patch};
use mainstay_release::signature::SignatureConfigMap;
use mainstay_release::{Capabilities, Override};
use mainstay_release_source::signature::{CustomStore, StoreAuthority};
use mainstay_runtime::{Cache, Cluster, Env, Key, Kinds, Optional, Outcome, Queue, Scope};
use mainstay_update_client::LIMITS;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::accept::{self, Signatures};
use crate::accepted::{Accepted, Circumstances};
use crate::metrics::{Metrics, Page, Samples};
use crate::pace::Pace;
use crate::pass::Job;
use crate::source::Releases;
use crate::task::Settings;
use crate::updates::{Proxy, Retrieval, Subject, UpdateService};
use crate::worker::{Shared, Worker};
use crate::{ACCOUNT, Error, NAMESPACE};

/// The name of the ClusterVersion that counts (CVO-API-01).
pub(crate) const NAME: &str = "version";
const API_VERSION: &str = "config.openshift.io/v1";
/// Namespaces of ConfigMaps.
const MANAGED: &str = "openshift-config-managed";
const SETTINGS: &str = "openshift-config";
/// The ConfigMap with certificates that are trusted besides.
const TRUSTED: &str = "trusted-ca-bundle";
/// The ConfigMaps that an installer leaves.
const INSTALLERS: [&str; 2] = ["openshift-install", "openshift-install-manifests"];
/// The name of the operator in its requests.
const AGENT: &str = concat!("ClusterVersionOperator/", env!("CARGO_PKG_VERSION"));
/// Keys that are worked on at once.
const WORKERS: usize = 3;
/// The failures in a row after which the status says that it cannot be kept (CVO-COND-08).
const MOST_FAILURES: u32 = 15;
/// Reports of the worker: one in this time, and some at once (CVO-SYNC-06).
const REPORT_EVERY: Duration = Duration::from_secs(15);
const REPORTS_AT_ONCE: f64 = 2.0;

/// The settings of the operator.
#[derive(Clone)]
pub struct Config {
    /// The pullspec of the operator's own release.
    pub image: String,
    /// Where releases come from.
    pub releases: Arc<dyn Releases>,
    /// The update service and the metrics.
    pub updates: Arc<dyn UpdateService>,
    /// The endpoint that wins over the ClusterVersion's.
    pub update_service: Option<String>,
    /// Every recommended update is taken, the highest version first (CVO-AUTO-01).
    pub is_automatic: bool,
    /// The profile of the cluster.
    pub profile: String,
    /// The identifier of the installation whose exclusions count.
    pub exclude_identifier: String,
    /// Capabilities that are enabled in any case.
    pub always_enabled: Vec<String>,
    /// The control plane runs elsewhere: the API's internal address is left alone.
    pub is_hosted: bool,
    /// Operators are played: what they would make and a release takes for granted is made here, and says that it is simulated.
    pub plays: bool,
    /// What the played operators would make beside it: settings and their definitions.
    pub candidates: Arc<[Candidate]>,
    /// The times.
    pub pace: Pace,
    /// Gets the ClusterOperators that the release in force describes.
    pub expected: watch::Sender<Arc<[Value]>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Config").field("image", &self.image).field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// Runs until `stop` is cancelled. When the feature set changes the operator starts anew, as the set of manifests is another (CVO-INC-04).
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    while !stop.is_cancelled() {
        let turn = stop.child_token();
        run_once(&cluster.client()?, env.clone(), config.clone(), &turn).await;
        turn.cancel();
    }
    Ok(())
}

async fn run_once(client: &Client, env: Env, config: Config, stop: &CancellationToken) {
    let queue: Queue<Part> = Queue::default();
    let (jobs, received) = watch::channel(None);
    let operator = Arc::new(Operator::start(client, env.clone(), config, &queue, jobs, stop));
    env.metrics().register(|registry| registry.register_collector(Box::new(Page(Arc::downgrade(&operator)))));
    let worker = Worker {
        writer: operator.writer.clone(),
        kinds: Kinds::new(client.clone()),
        env: env.clone(),
        pace: operator.config.pace,
        shared: operator.shared.clone(),
        metrics: operator.metrics.clone(),
        plays: operator.config.plays,
        candidates: operator.config.candidates.clone(),
        reported: Box::new({
            let operator = operator.clone();
            move || operator.reported()
        }),
    };
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(received, stop).await }
    });
    for key in [Part::Sync, Part::Upgradeable, Part::Updates] {
        queue.add(key);
    }
    let reconcile = move |key: Part| {
        let operator = operator.clone();
        async move { operator.reconcile(key).await }
    };
    mainstay_runtime::run("cluster-version", queue, WORKERS, env, stop.clone(), reconcile).await;
    if let Err(error) = working.await {
        tracing::error!(%error, "the worker of the Cluster Version Operator ended");
    }
}

/// The parts of the status, each kept by itself (CVO-SYNC-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// The wish, the release in force, and the status as a whole.
    Sync,
    /// Condition Upgradeable.
    Upgradeable,
    /// Available updates.
    Updates,
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sync => "ClusterVersion version",
            Self::Upgradeable => "Upgradeable",
            Self::Updates => "available updates",
        })
    }
}

struct Operator {
    config: Config,
    writer: Writer,
    env: Env,
    queue: Queue<Part>,
    recorder: Recorder,
    shared: Arc<Shared>,
    metrics: Arc<Metrics>,
    jobs: watch::Sender<Option<Arc<Job>>>,
    versions: Optional,
    operators: Optional,
    feature_gates: Optional,
    proxies: Optional,
    infrastructures: Optional,
    gates: Cache,
    config_maps: Cache,
    trusted: Cache,
    signed: Cache,
    state: Mutex<State>,
    /// Ends this turn of the operator.
    stop: CancellationToken,
}

/// The state since the start.
#[derive(Default)]
struct State {
    /// The release in force.
    running: Option<Arc<Accepted>>,
    /// The feature set that it was loaded for.
    feature_set: Option<String>,
    /// The loading of the wish.
    load: Load,
    /// The attempt at a release, running or ended.
    attempt: Option<Attempt>,
    upgradeable: Vec<StatusCondition>,
    evaluated: Option<Timestamp>,
    failures: u32,
    reports: Option<(Timestamp, f64)>,
    retrieval: Retrieval,
}

/// An attempt to accept a release.
struct Attempt {
    wanted: Wanted,
    generation: i64,
    stop: CancellationToken,
    ended: Option<Timestamp>,
}

impl Operator {
    fn start(
        client: &Client,
        env: Env,
        config: Config,
        queue: &Queue<Part>,
        jobs: watch::Sender<Option<Arc<Job>>>,
        stop: &CancellationToken,
    ) -> Self {
        let optional = |kind: &str, plural: &str, parts: &'static [Part]| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || parts.iter().for_each(|part| woken.add(*part))).shown(env.metrics())
        };
        let config_maps = |namespace: &str, scope: Scope| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
            let scope = Scope { namespace: Some(namespace.to_owned()), ..scope };
            let cache = Cache::start(client, &resource, &scope, stop).shown(env.metrics());
            let woken = queue.clone();
            cache.on_change(move |_| woken.add(Part::Upgradeable));
            cache
        };
        let named = |name: &str| Scope { fields: Some(format!("metadata.name={name}")), ..Scope::default() };
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        let shared = Arc::new(Shared::default());
        Self {
            versions: optional("ClusterVersion", "clusterversions", &[Part::Sync, Part::Upgradeable, Part::Updates]),
            operators: optional("ClusterOperator", "clusteroperators", &[Part::Upgradeable]),
            feature_gates: optional("FeatureGate", "featuregates", &[Part::Sync]),
            proxies: optional("Proxy", "proxies", &[Part::Sync]),
            infrastructures: optional("Infrastructure", "infrastructures", &[Part::Sync]),
            gates: config_maps(MANAGED, named(upgradeable::ADMIN_GATES)),
            trusted: config_maps(MANAGED, named(TRUSTED)),
            config_maps: config_maps(SETTINGS, Scope::default()),
            signed: config_maps(MANAGED, Scope { labels: Some(SignatureConfigMap::LABEL.to_owned()), ..Scope::default() }),
            recorder: Recorder::new(writer.clone(), env.clone(), "openshift-cluster-version", "mainstay"),
            metrics: Arc::default(),
            queue: queue.clone(),
            state: Mutex::default(),
            stop: stop.clone(),
            config,
            writer,
            env,
            shared,
            jobs,
        }
    }

    /// Counts the transitions of conditions as they are seen.
    fn note_conditions(&self) -> Result<(), Error> {
        for operator in self.cluster_operators()?.iter().flatten() {
            self.metrics.seen(operator.metadata.name.as_deref().unwrap_or_default(), &operator.status.conditions);
        }
        if let Some((_, cluster_version)) = self.cluster_version()? {
            self.metrics.seen(NAME, &cluster_version.status.conditions);
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reconcile(self: Arc<Self>, part: Part) -> Result<Outcome, Error> {
        let outcome = match part {
            Part::Sync => self.clone().sync().await,
            Part::Upgradeable => self.evaluate_upgradeable(),
            Part::Updates => self.updates().await,
        };
        if part == Part::Sync {
            match &outcome {
                Ok(_) => self.state().failures = 0,
                Err(error) => self.failed(error).await,
            }
        }
        outcome
    }

    /// Says in the status that it could not be kept for many times in a row.
    async fn failed(&self, error: &Error) {
        let failures = {
            let mut state = self.state();
            state.failures = state.failures.saturating_add(1);
            state.failures
        };
        if failures < MOST_FAILURES {
            return;
        }
        let Some((live, cluster_version)) = self.cluster_version().ok().flatten() else { return };
        let mut status = cluster_version.status.clone();
        status::update_failed(&mut status, error, &self.own(), Known::default(), self.env.now_seconds());
        if let Err(error) = self.write(&live, &cluster_version, &status).await {
            tracing::warn!(%error, "the failure is not in the status of the ClusterVersion");
        }
    }

    /// The worker's report changed: soon it is in the status (CVO-SYNC-06).
    fn reported(&self) {
        let now = self.env.now();
        let every = self.config.pace.shortened(REPORT_EVERY).as_secs_f64();
        let wait = {
            let mut state = self.state();
            let (at, tokens) = state.reports.unwrap_or((now, REPORTS_AT_ONCE));
            let tokens = (tokens + now.duration_since(at).as_secs_f64() / every).min(REPORTS_AT_ONCE);
            let taken = tokens >= 1.0;
            state.reports = Some((now, if taken { tokens - 1.0 } else { tokens }));
            (!taken).then(|| Duration::from_secs_f64((1.0 - tokens) * every))
        };
        match wait {
            None => self.queue.add(Part::Sync),
            Some(wait) => self.queue.add_after(Part::Sync, wait),
        }
    }

    /// The ClusterVersion as it is, and as it is read.
    fn cluster_version(&self) -> Result<Option<(Value, ClusterVersion)>, Error> {
        let Some(live) = self.versions.named(NAME) else { return Ok(None) };
        let unreadable = |source| Error::Object { object: "ClusterVersion version", source };
        let live = serde_json::to_value(&*live).map_err(unreadable)?;
        let read = serde_json::from_value(live.clone()).map_err(unreadable)?;
        Ok(Some((live, read)))
    }

    /// The operator's own release, as far as it is known.
    fn own(&self) -> Release {
        let state = self.state();
        let running = state.running.as_ref().filter(|running| running.image() == self.config.image);
        running.map_or_else(|| Release { image: self.config.image.clone(), ..Release::default() }, |running| running.release())
    }

    fn feature_set(&self) -> String {
        let gate = self.feature_gates.named("cluster");
        gate.and_then(|gate| gate.data["spec"]["featureSet"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    async fn sync(self: Arc<Self>) -> Result<Outcome, Error> {
        if !(self.versions.is_known() && self.feature_gates.is_known() && self.proxies.is_known() && self.infrastructures.is_known()) {
            // Each of them calls when it is known.
            return Ok(Outcome::Done);
        }
        let Some((live, cluster_version)) = self.cluster_version()? else {
            tracing::info!("there is no ClusterVersion {NAME:?}");
            return Ok(Outcome::After(self.config.pace.interval()));
        };
        let feature_set = self.feature_set();
        if self.state().feature_set.as_ref().is_some_and(|loaded| *loaded != feature_set) {
            tracing::info!(feature_set, "the feature set changed: the operator starts anew");
            self.stop.cancel();
            return Ok(Outcome::Done);
        }
        let settings = self.settings();
        {
            let mut held = self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
            if *held != settings {
                *held = settings;
                self.shared.settled.forget();
            }
        }
        let errors = validate(&cluster_version);
        let accepted = without_invalid(cluster_version.clone(), &errors);
        let capabilities = self.capabilities(&accepted);
        let again = self.clone().follow(&accepted, &live, &capabilities, feature_set);
        let running = self.state().running.clone();
        if let Some(running) = &running {
            self.submit(&accepted, running, capabilities);
        }

        let now = self.env.now_seconds();
        let mut status = cluster_version.status.clone();
        let work = self.work(&accepted, running.as_deref());
        let since = self.shared.since.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = self.state().retrieval.answer.clone();
        let known = Known {
            current: answer.as_ref().and_then(|answer| answer.current.as_ref()),
            updates: answer.as_ref().and_then(|answer| answer.updates.as_deref()).unwrap_or_default(),
        };
        let facts = Facts { own: &self.own(), known, invalid: &errors, since: &since, shows_architecture: true };
        if let Some(work) = &work {
            status::update(&mut status, work, &facts, now);
        }
        if let Some(answer) = &answer {
            let mut shown = ClusterVersion { status, ..accepted.clone() };
            retrieval::put(answer, &mut shown, true, now);
            status = shown.status;
        }
        upgradeable::put(&mut status.conditions, &self.state().upgradeable);
        self.write(&live, &cluster_version, &status).await?;
        Ok(again.map_or(Outcome::Done, Outcome::After))
    }

    /// Begins to load the wished release if it is not the one in force. Returns when a failed attempt is repeated.
    fn follow(
        self: Arc<Self>,
        cluster_version: &ClusterVersion,
        live: &Value,
        capabilities: &Capabilities,
        feature_set: String,
    ) -> Option<Duration> {
        let own = self.own();
        let mut state = self.state();
        let running = state.running.clone();
        let mut target = wanted::target(cluster_version, &own, running.is_some())?;
        if let Some(running) = &running {
            let history = &cluster_version.status.history;
            let requested = wanted::requested(cluster_version, own.architecture);
            if requested.is_none() {
                // Without a wish the cluster stays where it is (CVO-API-12).
                target = running.wanted.clone();
            } else if target.image != running.image() && wanted::mode(history, &running.wanted) == Mode::Initializing {
                tracing::warn!(
                    wished = target.name(),
                    running = running.version(),
                    "an installation goes on with the release that it began with"
                );
                target = running.wanted.clone();
            }
            if target.image == running.image() {
                if let Some(attempt) = state.attempt.take_if(|attempt| attempt.wanted.image != target.image) {
                    attempt.stop.cancel();
                }
                if state.load.wanted.image != target.image {
                    let step = Some(Step::Loaded { architecture: None });
                    let (verified, local) = (false, target.image == own.image);
                    state.load = Load { wanted: running.wanted.clone(), step, verified, local, ..Load::default() };
                }
                return None;
            }
        }
        let generation = cluster_version.metadata.generation.unwrap_or_default();
        if let Some(attempt) = &state.attempt
            && attempt.wanted == target
            && (attempt.ended.is_none() || attempt.generation == generation)
        {
            let interval = self.config.pace.interval();
            let waited = attempt.ended.map(|ended| self.env.now().duration_since(ended).unsigned_abs());
            match waited {
                None => return None,
                Some(waited) if waited < interval => return Some(interval.saturating_sub(waited)),
                Some(_) => {}
            }
        }
        if let Some(attempt) = state.attempt.take() {
            attempt.stop.cancel();
        }
        let stop = self.stop.child_token();
        state.attempt = Some(Attempt { wanted: target.clone(), generation, stop: stop.clone(), ended: None });
        drop(state);
        let (cluster_version, live, capabilities) = (cluster_version.clone(), event_subject(live), capabilities.clone());
        let operator = self.clone();
        tokio::spawn(async move {
            let accepting = operator.accept(target, &cluster_version, &live, &capabilities, running, feature_set);
            stop.run_until_cancelled(accepting).await;
        });
        None
    }

    async fn accept(
        &self,
        target: Wanted,
        cluster_version: &ClusterVersion,
        subject: &Value,
        capabilities: &Capabilities,
        running: Option<Arc<Accepted>>,
        feature_set: String,
    ) {
        let Config { profile, exclude_identifier, releases, .. } = &self.config;
        let circumstances =
            Circumstances { profile: profile.clone(), exclude_identifier: exclude_identifier.clone(), feature_set: feature_set.clone() };
        let signatures = self.signatures(cluster_version).await;
        let facts = accept::Facts {
            signatures: &signatures,
            now: self.env.now(),
            releases: releases.as_ref(),
            circumstances: &circumstances,
            running: running.as_deref(),
            cluster_version,
            capabilities,
        };
        let stepped = |load: &Load| {
            if let Some(event) = load.event() {
                self.event(subject, &event);
            }
            if load.condition().is_some() {
                self.state().load = load.clone();
                self.queue.add(Part::Sync);
            }
        };
        let (load, accepted) = accept::accept(target, &facts, stepped).await;
        if load.verified
            && let Err(error) = self.keep_signatures().await
        {
            tracing::warn!(%error, "the signatures of the release are not kept in the cluster");
        }
        {
            let mut state = self.state();
            match accepted {
                Some(accepted) => {
                    let expected: Vec<Value> = accepted.cluster_operators().cloned().collect();
                    self.config.expected.send_replace(expected.into());
                    state.running = Some(accepted);
                    state.feature_set = Some(feature_set);
                    state.attempt = None;
                }
                None => {
                    if let Some(attempt) = &mut state.attempt {
                        attempt.ended = Some(self.env.now());
                    }
                }
            }
            state.load = load;
        }
        for part in [Part::Sync, Part::Upgradeable, Part::Updates] {
            self.queue.add(part);
        }
    }

    /// The places of signatures, as the cluster has them (CVO-SIG-06, CVO-SIG-07).
    async fn signatures(&self, cluster_version: &ClusterVersion) -> Signatures {
        let objects = self.signed.all();
        let read = objects.iter().filter_map(|object| serde_json::to_value(&**object).ok());
        let config_maps = read.filter_map(|object| SignatureConfigMap::of(&object)).collect();
        let mut stores = None;
        for store in cluster_version.spec.signature_stores.iter().flatten() {
            let authority = match &store.ca {
                None => StoreAuthority::Default,
                Some(ca) => self.authority(&ca.name).await,
            };
            stores.get_or_insert_with(Vec::new).push(CustomStore { url: store.url.clone(), authority });
        }
        if cluster_version.spec.signature_stores.as_ref().is_some_and(Vec::is_empty) {
            stores = Some(Vec::new());
        }
        let outbound = self.proxy().of_requests().outbound(AGENT, LIMITS);
        Signatures { config_maps, stores, outbound }
    }

    async fn authority(&self, name: &str) -> StoreAuthority {
        let place = ObjectRef { api_version: "v1".into(), kind: "ConfigMap".into(), namespace: SETTINGS.into(), name: name.to_owned() };
        match self.writer.get(&place).await {
            Ok(Some(map)) if map["data"]["ca.crt"].is_string() => {
                let pem = map["data"]["ca.crt"].as_str().unwrap_or_default().as_bytes().to_vec();
                StoreAuthority::ConfigMap { name: name.to_owned(), pem }
            }
            Ok(_) => StoreAuthority::Missing(name.to_owned()),
            Err(error) => {
                tracing::warn!(%error, name, "the authority of a store of signatures cannot be read");
                StoreAuthority::Missing(name.to_owned())
            }
        }
    }

    /// Keeps the signatures of what was verified in the cluster (CVO-SIG-08).
    async fn keep_signatures(&self) -> Result<(), Error> {
        if let Some(map) = self.config.releases.verified() {
            self.writer.apply(&map, true, &Expect::default()).await?;
        }
        Ok(())
    }

    fn event(&self, subject: &Value, event: &mainstay_cluster_version_core::load::Event) {
        let kind = match event.kind {
            EventType::Normal => EventKind::Normal,
            EventType::Warning => EventKind::Warning,
        };
        if let Err(error) = self.recorder.record(subject, kind, event.reason, "Update", &event.message) {
            tracing::debug!(%error, "no event");
        }
    }

    /// The capabilities of the cluster: those of the spec, of before, and those that are always on (CVO-CAP-03).
    fn capabilities(&self, cluster_version: &ClusterVersion) -> Capabilities {
        let spec = cluster_version.spec.capabilities.as_ref().and_then(|spec| serde_json::to_value(spec).ok()).unwrap_or_default();
        let before: Vec<String> = cluster_version.status.capabilities.enabled_capabilities.iter().map(|one| one.0.clone()).collect();
        let mut capabilities = Capabilities::of(&spec, before.clone()).unwrap_or_else(|error| {
            // The schema lets known sets through alone.
            tracing::warn!(%error, "the default capability set counts");
            let additional = json!({"additionalEnabledCapabilities": spec["additionalEnabledCapabilities"]});
            Capabilities::of(&additional, before).unwrap_or_else(|_| Capabilities::all())
        });
        let always = &self.config.always_enabled;
        capabilities.enabled.extend(always.iter().cloned());
        for one in always {
            capabilities.implicitly_enabled.remove(one);
        }
        let implied = self.state().running.as_ref().map(|running| running.implied.clone()).unwrap_or_default();
        capabilities.imply(implied);
        capabilities
    }

    fn settings(&self) -> Settings {
        let text = |object: Option<&Arc<kube::api::DynamicObject>>, field: &str| {
            object.and_then(|object| object.data["status"][field].as_str().map(str::to_owned)).unwrap_or_default()
        };
        let proxy = self.proxies.named("cluster");
        let infrastructure = self.infrastructures.named("cluster").filter(|_| !self.config.is_hosted);
        Settings {
            http_proxy: text(proxy.as_ref(), "httpProxy"),
            https_proxy: text(proxy.as_ref(), "httpsProxy"),
            no_proxy: text(proxy.as_ref(), "noProxy"),
            internal_api: text(infrastructure.as_ref(), "apiServerInternalURI"),
        }
    }

    /// Gives the worker its job.
    fn submit(&self, cluster_version: &ClusterVersion, running: &Arc<Accepted>, capabilities: Capabilities) {
        let overrides = cluster_version.spec.overrides.iter().map(|one| Override {
            kind: one.kind.clone(),
            group: one.group.clone(),
            namespace: one.namespace.clone(),
            name: one.name.clone(),
            unmanaged: one.unmanaged,
        });
        let metadata = &cluster_version.metadata;
        let job = Job {
            generation: metadata.generation.unwrap_or_default(),
            release: running.clone(),
            overrides: overrides.collect(),
            capabilities,
            mode: wanted::mode(&cluster_version.status.history, &running.wanted),
            owner: (NAME.to_owned(), metadata.uid.clone().unwrap_or_default()),
        };
        self.jobs.send_if_modified(|current| {
            let is_new = current.as_ref().is_none_or(|current| !current.is_same_work(&job) || current.generation != job.generation);
            if is_new {
                *current = Some(Arc::new(job));
            }
            is_new
        });
    }

    /// The facts of the status; nothing before the operator's own release is loaded or has failed to.
    fn work(&self, cluster_version: &ClusterVersion, running: Option<&Accepted>) -> Option<Work> {
        let load = self.state().load.clone();
        let Some(running) = running else {
            let failed = load.has_failed();
            let no_image = self.config.image.is_empty();
            return (failed || no_image).then(|| Work {
                generation: cluster_version.metadata.generation.unwrap_or_default(),
                failure: no_image.then_some(UpdateError::NoDesiredImage),
                load,
                ..Work::default()
            });
        };
        let report = self.shared.report().filter(|report| report.job.release.image() == running.image());
        let job = self.jobs.borrow().clone();
        let capabilities = job.as_ref().map(|job| &job.capabilities);
        let named = |names: &std::collections::BTreeSet<String>| names.iter().cloned().map(Capability).collect::<Vec<_>>();
        Some(Work {
            generation: report.as_ref().map_or(0, |report| report.job.generation).max(job.as_ref().map_or(0, |job| job.generation)),
            failure: report.as_ref().and_then(|report| report.failure.clone()),
            done: report.as_ref().map_or(0, |report| report.done),
            total: running.manifests().len(),
            completed: report.as_ref().map_or(0, |report| report.completed),
            reconciling: report.as_ref().is_some_and(|report| report.mode == Mode::Reconciling),
            version_hash: running.version_hash().to_owned(),
            actual: running.release(),
            verified: load.verified && load.wanted.image == running.image(),
            capabilities: capabilities.map_or_else(CapabilitiesStatus::default, |all| CapabilitiesStatus {
                enabled_capabilities: named(&all.enabled),
                known_capabilities: named(&all.known),
            }),
            implicitly_enabled: capabilities.map(|all| named(&all.implicitly_enabled)).unwrap_or_default(),
            load,
        })
    }

    /// Evaluates Upgradeable, not too often (CVO-UPG-01).
    fn evaluate_upgradeable(&self) -> Result<Outcome, Error> {
        if !(self.operators.is_known() && self.gates.is_ready() && self.config_maps.is_ready() && self.versions.is_known()) {
            return Ok(Outcome::After(Duration::from_millis(100)));
        }
        let Some((_, cluster_version)) = self.cluster_version()? else { return Ok(Outcome::Done) };
        self.note_conditions()?;
        let now = self.env.now();
        let interval = self.config.pace.shortened(upgradeable::interval(&cluster_version.status.conditions, now));
        let evaluated = self.state().evaluated;
        if let Some(left) = evaluated.and_then(|at| interval.checked_sub(now.duration_since(at).unsigned_abs())) {
            return Ok(Outcome::After(left));
        }
        let operators = self.cluster_operators()?;
        let deletions = self.shared.deletions.lock().unwrap_or_else(PoisonError::into_inner).in_progress();
        let facts = upgradeable::Facts {
            cluster_version: upgradeable::Found::ClusterVersion(&cluster_version),
            gates: &config_map(&self.gates, MANAGED, upgradeable::ADMIN_GATES),
            acks: &config_map(&self.config_maps, SETTINGS, upgradeable::ADMIN_ACKS),
            operators: operators.as_deref().map_or(Operators::NotServed, Operators::List),
            deletions: &deletions,
        };
        let conditions = upgradeable::conditions_of(&upgradeable::obstacles(&facts), self.env.now_seconds());
        let mut state = self.state();
        state.evaluated = Some(now);
        if state.upgradeable != conditions {
            state.upgradeable = conditions;
            drop(state);
            self.queue.add(Part::Sync);
        }
        Ok(Outcome::Done)
    }

    /// Asks the update service when it is time, and evaluates risks (CVO-USC-04 to CVO-USC-06).
    async fn updates(&self) -> Result<Outcome, Error> {
        let Some(current) = self.state().running.as_ref().map(|running| running.release()) else { return Ok(Outcome::Done) };
        let Some((_, read)) = self.cluster_version()? else { return Ok(Outcome::Done) };
        let errors = validate(&read);
        let cluster_version = without_invalid(read, &errors);
        let service = self.config.updates.as_ref();
        let subject = Subject { flag: self.config.update_service.clone(), current };
        let (question, query) = subject.query(service, &cluster_version);
        let decision = {
            let mut state = self.state();
            state.retrieval.remember(&cluster_version);
            state.retrieval.decide(&question, &self.config.pace, self.env.now())
        };
        if let Decision::Ask(why) = decision {
            let outcome = service.ask(&query, &self.proxy()).await;
            self.metrics.retrieved(&outcome, self.env.now());
            self.state().retrieval.keep(why, question, outcome, self.env.now_seconds());
        }
        if decision != Decision::Wait {
            let wanted = self.state().retrieval.evaluate(&self.config.pace, self.env.now_seconds());
            if let Some(rule) = wanted {
                let result = service.evaluate(&rule).await;
                let mut state = self.state();
                state.retrieval.record(&rule, result, &self.config.pace, self.env.now());
                state.retrieval.evaluate(&self.config.pace, self.env.now_seconds());
            }
            self.queue.add(Part::Sync);
        }
        if self.config.is_automatic {
            self.choose(&cluster_version).await?;
        }
        Ok(Outcome::After(self.state().retrieval.again(&self.config.pace)))
    }

    /// Wishes for the highest recommended version (CVO-AUTO-01).
    async fn choose(&self, cluster_version: &ClusterVersion) -> Result<(), Error> {
        let highest = self.state().retrieval.answer.as_ref().and_then(|answer| answer.updates.as_ref()?.first().cloned());
        let Some(Release { version, image, .. }) = highest else { return Ok(()) };
        if cluster_version.spec.desired_update.as_ref().is_some_and(|wish| wish.version == version) {
            return Ok(());
        }
        let place =
            ObjectRef { api_version: API_VERSION.into(), kind: "ClusterVersion".into(), namespace: String::new(), name: NAME.into() };
        let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"version": version, "image": image}}}));
        self.writer.patch(&place, "", &patch).await?;
        Ok(())
    }

    fn proxy(&self) -> Proxy {
        let Settings { http_proxy, https_proxy, no_proxy, .. } = self.settings();
        let bundle =
            self.trusted.get(&Key::new(MANAGED, TRUSTED)).and_then(|map| map.data["data"]["ca-bundle.crt"].as_str().map(str::to_owned));
        Proxy { http_proxy, https_proxy, no_proxy, trusted: bundle.unwrap_or_default() }
    }

    /// The ClusterOperators by name; `None` if their kind is not served.
    fn cluster_operators(&self) -> Result<Option<Vec<ClusterOperator>>, Error> {
        let Some(cache) = self.operators.objects() else { return Ok(None) };
        let read = |object: &Arc<kube::api::DynamicObject>| serde_json::to_value(&**object).and_then(serde_json::from_value);
        let mut all: Vec<ClusterOperator> = cache
            .all()
            .iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(|source| Error::Object { object: "a ClusterOperator", source })?;
        all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        Ok(Some(all))
    }

    /// Writes the status if it differs; after a conflict once more, on the object as it is now (CVO-COND-09).
    async fn write(
        &self,
        live: &Value,
        cluster_version: &ClusterVersion,
        status: &mainstay_api::config_v1::ClusterVersionStatus,
    ) -> Result<(), Error> {
        if status::write(&cluster_version.status, status) == Write::Nothing {
            return Ok(());
        }
        let unreadable = |source| Error::Object { object: "the status of ClusterVersion version", source };
        let wanted = serde_json::to_value(status).map_err(unreadable)?;
        match self.writer.update_status(live, &wanted).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(now) = self.writer.get(&ObjectRef::of(live).map_err(mainstay_apply::WriteError::from)?).await? else { return Ok(()) };
        let read: ClusterVersion = serde_json::from_value(now.clone()).map_err(unreadable)?;
        let uid = |version: &ClusterVersion| version.metadata.uid.clone().unwrap_or_default();
        if status::write_after_conflict(&uid(cluster_version), &uid(&read), &read.status, status)? == Write::Status {
            self.writer.update_status(&now, &wanted).await?;
        }
        Ok(())
    }
}

impl Samples for Operator {
    fn samples(&self) -> Vec<Sample> {
        let cluster_version = self.cluster_version().ok().flatten().map(|(_, read)| read);
        let operators = self.cluster_operators().ok().flatten().unwrap_or_default();
        let running = self.state().running.clone();
        let release = running.as_ref().map(|running| running.release());
        let report = self.shared.report();
        let total = running.as_ref().map_or(0, |running| running.manifests().len());
        let done = report.map_or(0, |report| if report.mode == Mode::Reconciling { total } else { report.done });
        let counts = self.metrics.counts();
        let installer = |name: &str| match config_map(&self.config_maps, SETTINGS, name) {
            ConfigMap::Data(data) => Some(data),
            _ => None,
        };
        let (binary, manifests) = (installer(INSTALLERS[0]), installer(INSTALLERS[1]));
        metrics::samples(&metrics::Facts {
            cluster_version: cluster_version.as_ref(),
            current: release.as_ref().map(|release| (release, running.as_ref().and_then(|running| running.created()))),
            update_service: self.config.update_service.as_deref(),
            operators: &operators,
            manifests: (done, total),
            transitions: &counts.transitions,
            payload_errors: &counts.payload_errors,
            retrieved: counts.retrieved,
            installers: [binary.as_ref(), manifests.as_ref()],
        })
    }
}

/// The ClusterVersion as events name it: in the operator's namespace (CVO-COND-07).
fn event_subject(live: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "ClusterVersion",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": live["metadata"]["uid"]},
    })
}

fn config_map(cache: &Cache, namespace: &str, name: &str) -> ConfigMap {
    let Some(found) = cache.get(&Key::new(namespace, name)) else { return ConfigMap::NotFound };
    let data = found.data["data"].as_object().into_iter().flatten();
    ConfigMap::Data(data.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect())
}
