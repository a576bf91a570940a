//! The controller: it watches the inputs of the Proxy's status and of the bundle, and writes both.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::cluster_operator::{self, Problem};
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::{Expect, ObjectRef, Patch};
use mainstay_runtime::{Cache, Cluster, Env, Key, Kinds, Optional, Outcome, Part, Queue, Scope};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use crate::manifests::{MANAGED, SETTINGS};
use crate::proxy::{self, Inputs};
use crate::trust::{self, InvalidBundle};
use crate::{ACCOUNT, Error, report};

/// Keys that are reconciled concurrently.
const WORKERS: usize = 2;
/// The name of the ClusterOperator.
const OPERATOR: &str = "network";
/// The ConfigMap with the merged bundle.
const BUNDLE: &str = "trusted-ca-bundle";
/// The ConfigMap with the install configuration.
const INSTALL: (&str, &str) = ("kube-system", "cluster-config-v1");
/// The interval at which everything is looked at, beside changes: the system's certificates may change.
const LOOK: Duration = Duration::from_secs(3600);
/// The most bytes of the system's certificates.
const MOST_SYSTEM_BYTES: u64 = 4 * 1024 * 1024;
/// Where systems keep their certificates.
const SYSTEM: [&str; 3] = ["/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"];

/// The settings of the loop.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The file with the system's certificates; `None` for the first usual one that exists.
    pub system_certificates: Option<PathBuf>,
}

/// Runs until `stop` is cancelled.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let queue: Queue<Work> = Queue::default();
    let extras = Arc::new(Extras::start(&cluster.client()?, env.clone(), config, &queue, &stop));
    queue.add(Work::Proxy);
    let reconcile = move |work: Work| {
        let extras = extras.clone();
        async move { extras.reconcile(work).await }
    };
    mainstay_runtime::run("network-extras", queue, WORKERS, env, stop, reconcile).await;
    Ok(())
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// The Proxy's status and the bundle.
    Proxy,
    /// A ConfigMap that asks for the bundle.
    Inject(Key),
    /// The ClusterOperator.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy => out.write_str("Proxy cluster"),
            Self::Inject(key) => write!(out, "ConfigMap {key}"),
            Self::Report => write!(out, "ClusterOperator {OPERATOR}"),
        }
    }
}

struct Extras {
    writer: Writer,
    env: Env,
    config: Config,
    queue: Queue<Work>,
    proxies: Optional,
    infrastructures: Optional,
    networks: Optional,
    operators: Optional,
    install: Cache,
    askers: Cache,
    recorder: Recorder,
    state: Mutex<State>,
}

/// The state since the start.
#[derive(Default)]
struct State {
    bundle: Option<Arc<str>>,
    problem: Option<Problem>,
}

impl Extras {
    fn start(client: &Client, env: Env, config: Config, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let optional = |kind: &str, plural: &str, work: Work| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || woken.add(work.clone())).shown(env.metrics())
        };
        let config_maps = |scope: Scope| Cache::start(client, &core("ConfigMap", "configmaps"), &scope, stop).shown(env.metrics());
        let wakes = |cache: &Cache| {
            let woken = queue.clone();
            cache.on_change(move |_| woken.add(Work::Proxy));
        };
        let named = |name: &str| Some(format!("metadata.name={name}"));
        // Their caches live on in their tasks; only their changes matter.
        wakes(&config_maps(Scope { namespace: Some(SETTINGS.to_owned()), part: Part::Metadata, ..Scope::default() }));
        wakes(&config_maps(Scope { namespace: Some(MANAGED.to_owned()), fields: named(BUNDLE), part: Part::Metadata, ..Scope::default() }));
        let install = config_maps(Scope { namespace: Some(INSTALL.0.to_owned()), fields: named(INSTALL.1), ..Scope::default() });
        wakes(&install);
        let askers = config_maps(Scope { labels: Some(format!("{}=true", trust::LABEL)), part: Part::Metadata, ..Scope::default() });
        let woken = queue.clone();
        askers.on_change(move |change| {
            if let Some(now) = &change.now {
                woken.add(Work::Inject(Key::of(now)));
            }
        });
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            proxies: optional("Proxy", "proxies", Work::Proxy),
            infrastructures: optional("Infrastructure", "infrastructures", Work::Proxy),
            networks: optional("Network", "networks", Work::Proxy),
            operators: optional("ClusterOperator", "clusteroperators", Work::Report),
            recorder: Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay"),
            install,
            askers,
            writer,
            config,
            queue: queue.clone(),
            state: Mutex::default(),
            env,
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::Proxy => {
                let outcome = self.proxy().await;
                let Some(outcome) = outcome.transpose() else { return Ok(Outcome::Done) };
                self.note(outcome.as_ref().err());
                match outcome {
                    Err(error) if error.waits_for_a_change() => {
                        tracing::warn!(problem = chain(&error), "a setting is not accepted; the last accepted one stays");
                        Ok(Outcome::After(LOOK))
                    }
                    Err(error) => Err(error),
                    Ok(()) => Ok(Outcome::After(LOOK)),
                }
            }
            Work::Inject(key) => self.inject(&key).await,
            Work::Report => self.report().await,
        }
    }

    /// Makes bundle and status what they should be; `None` until the inputs are known, which wakes this item.
    async fn proxy(&self) -> Result<Option<()>, Error> {
        let known = [&self.proxies, &self.infrastructures, &self.networks].iter().all(|kind| kind.is_known());
        if !known || !self.install.is_ready() {
            return Ok(None);
        }
        let live = match self.proxies.objects() {
            Some(_) => self.writer.get(&config_at("Proxy")).await?,
            None => None,
        };
        let proxy = live.clone().unwrap_or_else(|| json!({}));
        proxy::validate(&proxy)?;
        self.bundle(&proxy).await?;
        let Some(live) = live else { return Ok(Some(())) };
        let read = |kind: &Optional| kind.named("cluster").map(|object| serde_json::to_value(&*object)).transpose();
        let (infrastructure, network) = (read(&self.infrastructures)?, read(&self.networks)?);
        let install = self.install.get(&Key::new(INSTALL.0, INSTALL.1)).map(|object| serde_json::to_value(&*object)).transpose()?;
        let inputs = Inputs { infrastructure: infrastructure.as_ref(), network: network.as_ref(), cluster: install.as_ref() };
        let wanted = proxy::status(&live, inputs)?;
        let Some(status) = proxy::renewed(&live, &wanted) else { return Ok(Some(())) };
        if self.writer.update_status(&live, &status).await?.is_some() {
            self.tell(&live, EventKind::Normal, "ProxyStatusChanged", "the status follows the spec and the networks of the cluster");
        }
        Ok(Some(()))
    }

    /// Makes the merged bundle, and wakes those who ask for it if it changed.
    async fn bundle(&self, proxy: &Value) -> Result<(), Error> {
        let name = proxy.pointer("/spec/trustedCA/name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let user = match name {
            None => None,
            Some(name) => {
                // The merged bundle itself stands for the system's alone.
                let config_map = if name == BUNDLE { None } else { self.writer.get(&config_map_at(&Key::new(SETTINGS, name))).await? };
                match (config_map, name) {
                    (None, BUNDLE) => None,
                    (None, name) => return Err(Error::NoBundle { namespace: SETTINGS, name: name.to_owned() }),
                    (Some(config_map), name) => {
                        let bundle = format!("{SETTINGS}/{name}");
                        let text = config_map.pointer("/data").and_then(|data| data.get(trust::KEY)).and_then(Value::as_str);
                        let missing =
                            || InvalidBundle { bundle: bundle.clone(), problem: format!("ConfigMap {name:?} is missing {:?}", trust::KEY) };
                        let text = text.ok_or_else(missing)?.to_owned();
                        Some((bundle, text))
                    }
                }
            }
        };
        let system = self.system().await?;
        let merged = trust::merge(user.as_ref().map(|(name, text)| (name.as_str(), text.as_str())), &system)?;
        let place = config_map_at(&Key::new(MANAGED, BUNDLE));
        let live = self.writer.get(&place).await?;
        let has = |live: &Value| live.pointer("/data").and_then(|data| data.get(trust::KEY)).and_then(Value::as_str) == Some(&merged);
        if !live.as_ref().is_some_and(has) {
            let wanted = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": BUNDLE, "namespace": MANAGED}, "data": {trust::KEY: merged},
            });
            self.writer.apply(&wanted, true, &Expect::default()).await?;
        }
        let merged: Arc<str> = merged.into();
        let changed = self.with(|state| {
            let changed = state.bundle.as_ref() != Some(&merged);
            state.bundle = Some(merged);
            changed
        });
        if changed {
            for asker in self.askers.all() {
                self.queue.add(Work::Inject(Key::of(&asker)));
            }
        }
        Ok(())
    }

    /// The system's certificates; none where the system has none.
    async fn system(&self) -> Result<String, Error> {
        let usual = || SYSTEM.iter().map(Path::new).find(|path| path.exists()).map(Path::to_owned);
        let Some(path) = self.config.system_certificates.clone().or_else(usual) else { return Ok(String::new()) };
        let mut text = String::new();
        let failed = |source| Error::System { path: path.clone(), source };
        let file = tokio::fs::File::open(&path).await.map_err(failed)?;
        let read = file.take(MOST_SYSTEM_BYTES + 1).read_to_string(&mut text).await.map_err(failed)?;
        if read as u64 > MOST_SYSTEM_BYTES {
            return Err(failed(std::io::Error::other(format!("it has more than {MOST_SYSTEM_BYTES} bytes"))));
        }
        Ok(text)
    }

    async fn inject(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(bundle) = self.with(|state| state.bundle.clone()) else { return Ok(Outcome::Done) };
        let place = config_map_at(key);
        // The cache holds only metadata; the content comes from the object itself.
        let Some(live) = self.writer.get(&place).await? else { return Ok(Outcome::Done) };
        if let Some(patch) = trust::injection(&live, &bundle) {
            self.writer.patch(&place, "", &Patch::Merge(patch)).await?;
            self.tell(&live, EventKind::Normal, "TrustedCABundleInjected", "the trusted CA bundle was put in");
        }
        Ok(Outcome::Done)
    }

    /// Records the outcome, and wakes the report if it changed.
    fn note(&self, error: Option<&Error>) {
        let problem = error.map(|error| Problem::new(error.reason(), chain(error)));
        let changed = self.with(|state| std::mem::replace(&mut state.problem, problem.clone()) != problem);
        if changed {
            self.queue.add(Work::Report);
        }
    }

    async fn report(&self) -> Result<Outcome, Error> {
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let now = self.env.now_seconds();
        let report = report::report(self.with(|state| state.problem.clone()));
        let written =
            self.writer.keep_status(&cluster_operator::object(OPERATOR), |live| cluster_operator::status(live, &report, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.tell(&live, EventKind::Normal, "OperatorStatusChanged", &note);
        }
        Ok(Outcome::Done)
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

fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

fn config_at(kind: &str) -> ObjectRef {
    ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: "cluster".to_owned(),
    }
}

fn config_map_at(key: &Key) -> ObjectRef {
    ObjectRef { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), namespace: key.namespace.clone(), name: key.name.clone() }
}
