//! The controller of the cluster operator: it watches the inputs of the plans and carries the plans out. All objects are examined together, since
//! they are few and depend on each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Client, ResourceExt as _};
use mainstay_api::cluster_operator::{self, Inertia, Problem, Related, Report};
use mainstay_api::condition::{self, Condition};
use mainstay_apply::{Effect, Recorder, WriteError, Writer};
use mainstay_diagnostics::{SharedError, chain};
use mainstay_objects::{Expect, ObjectError, ObjectRef, Patch};
use mainstay_olm_v1_core::cluster_operator::catalogs::{self, DefaultCatalog};
use mainstay_olm_v1_core::cluster_operator::compat::{self, CompatError, Deployed, Platform};
use mainstay_olm_v1_core::cluster_operator::deployments::{self, DeploymentError};
use mainstay_olm_v1_core::cluster_operator::gates::{self, Component};
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL};
use mainstay_olm_v1_core::text::bounded;
use mainstay_runtime::{Cache, Cluster, ConnectError, Env, Key, Kinds, Optional, Outcome, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::manifests::ACCOUNT;
use crate::events::Events;
use crate::manifests::{CATALOGD, COMBINED, OPERATOR_CONTROLLER};

/// The name of the ClusterOperator.
const NAME: &str = "olm";

/// A kind that only OpenShift serves.
pub(super) struct Foreign {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

const fn foreign(group: &'static str, kind: &'static str, plural: &'static str) -> Foreign {
    Foreign { group, kind, plural }
}

pub(super) const KINDS: [Foreign; 5] = [
    foreign("operator.openshift.io", "OLM", "olms"),
    foreign("config.openshift.io", "ClusterOperator", "clusteroperators"),
    foreign("config.openshift.io", "ClusterVersion", "clusterversions"),
    foreign("config.openshift.io", "Proxy", "proxies"),
    foreign("config.openshift.io", "FeatureGate", "featuregates"),
];

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespace of both controllers and of the install records.
    pub system_namespace: String,
    /// The default catalogs.
    pub catalogs: Vec<DefaultCatalog>,
}

/// An error of the operator. The work is tried again.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No client could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The cluster refused or did not answer.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object lacks its kind or name.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Install records cannot be listed.
    #[error("the install records cannot be listed")]
    Records(#[source] Box<kube::Error>),
    /// An object cannot be read.
    #[error("an object cannot be read")]
    Form(#[from] serde_json::Error),
    /// The platform's version cannot be read.
    #[error(transparent)]
    Platform(#[from] CompatError),
    /// A Deployment cannot be patched and stays unchanged.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
}

impl OperatorError {
    /// Returns true if the error needs a person to resolve it. What the cluster did not accept is tried again, and counts when it lasts.
    fn asks_for_attention(&self) -> bool {
        matches!(self, Self::Platform(_) | Self::Deployment(_))
    }
}

/// Runs the operator until `stop`. While its kinds are not served it only waits for them.
pub async fn run(cluster: Cluster, config: Config, env: Env, stop: CancellationToken) -> Result<(), OperatorError> {
    let queue: Queue<Key> = Queue::default();
    let operator = Arc::new(Operator::start(cluster.client()?, config, env.clone(), &queue, &stop));
    let reconcile = move |_: Key| {
        let operator = operator.clone();
        async move { operator.reconcile().await }
    };
    mainstay_runtime::run("cluster-olm-operator", queue, 1, env, stop, reconcile).await;
    Ok(())
}

struct Operator {
    client: Client,
    writer: Writer,
    events: Events,
    env: Env,
    config: Config,
    extensions: Cache,
    catalogs: Cache,
    deployments: Cache,
    olms: Optional,
    operators: Optional,
    versions: Optional,
    proxies: Optional,
    gates: Optional,
    /// Each extension's bundle by the extension's uid, with the status for which it was read.
    bundles: Mutex<HashMap<String, (Value, Bundle)>>,
    inertia: Mutex<Inertia>,
}

/// The installed bundle and its properties, or the reason why they cannot be read. `None` if nothing is installed.
type Bundle = Option<Result<(String, Option<String>), SharedError>>;

impl Operator {
    fn start(client: Client, config: Config, env: Env, queue: &Queue<Key>, stop: &CancellationToken) -> Self {
        let wake = || {
            let queue = queue.clone();
            move || queue.add(Key::new("", "cluster"))
        };
        let follow = |group: &str, version: &str, kind: &str, plural: &str, scope: &Scope| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let (cache, woken) = (Cache::start(&client, &resource, scope, stop).shown(env.metrics()), wake());
            cache.on_change(move |_| woken());
            let (ready, woken, stop) = (cache.clone(), wake(), stop.clone());
            tokio::spawn(async move {
                if stop.run_until_cancelled(ready.ready()).await.is_some() {
                    woken();
                }
            });
            cache
        };
        let own = Scope { namespace: Some(config.system_namespace.clone()), ..Scope::default() };
        let olm = |kind: &str, plural: &str| follow("olm.operatorframework.io", "v1", kind, plural, &Scope::default());
        let (extensions, catalogs) = (olm("ClusterExtension", "clusterextensions"), olm("ClusterCatalog", "clustercatalogs"));
        let deployments = follow("apps", "v1", "Deployment", "deployments", &own);
        let [olms, operators, versions, proxies, gates] = KINDS.map(|Foreign { group, kind, plural }| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
            Optional::start(&client, resource, stop, wake()).shown(env.metrics())
        });
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            events: Events::new(Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay")),
            writer,
            client,
            env,
            config,
            extensions,
            catalogs,
            deployments,
            olms,
            operators,
            versions,
            proxies,
            gates,
            bundles: Mutex::default(),
            inertia: Mutex::default(),
        }
    }

    async fn reconcile(&self) -> Result<Outcome, OperatorError> {
        let optional = [&self.olms, &self.operators, &self.versions, &self.proxies, &self.gates];
        let known = optional.iter().all(|each| each.is_known());
        if !known || ![&self.extensions, &self.catalogs, &self.deployments].iter().all(|each| each.is_ready()) {
            // The change that makes it known wakes this controller.
            return Ok(Outcome::Done);
        }
        let Some(olm) = value(self.olms.named("cluster"))? else { return Ok(Outcome::Done) };
        let version = value(self.versions.named("version"))?;
        let version = version.as_ref();
        let platform = version.map(Platform::of).transpose().map(Option::flatten);
        // A failure does not keep the other work from being done; the first failure is reported.
        let mut failures: Vec<OperatorError> = Vec::new();
        let platform = platform.unwrap_or_else(|error| {
            failures.push(error.into());
            None
        });
        let conditions = self.compat(&olm, platform).await.unwrap_or_else(|error| {
            failures.push(error);
            conditions(&olm)
        });
        if let Some(platform) = platform {
            failures.extend(self.keep_catalogs(&olm, platform).await.err());
        }
        failures.extend(self.hand_on(version).await.err());
        for failure in failures.iter().filter(|failure| failure.asks_for_attention()) {
            self.events.warning(&olm, "OperatorFailing", &chain(failure));
        }
        let outcome = self.report(&conditions, failures.first()).await;
        match failures.into_iter().next() {
            Some(first) => Err(first),
            None => outcome,
        }
    }

    /// Writes the conditions that block the platform's next version, and returns the conditions that result.
    async fn compat(&self, olm: &Value, platform: Option<Platform>) -> Result<Vec<Condition>, OperatorError> {
        let Some(platform) = platform else { return Ok(conditions(olm)) };
        let mut problem = compat::judge(&self.deployed().await?, platform);
        if let Some(problem) = &mut problem {
            problem.message = bounded(&problem.message, "mainstay list");
        }
        let before = conditions(olm);
        let mut conditions = before.clone();
        if condition::set(&mut conditions, compat::condition(problem.as_ref(), self.env.now_seconds())) {
            let mut status = olm.get("status").cloned().unwrap_or_else(|| serde_json::json!({}));
            status["conditions"] = serde_json::to_value(&conditions)?;
            self.writer.update_status(olm, &status).await?;
            self.events.transitions(olm, &before, &conditions);
        }
        Ok(conditions)
    }

    /// Returns every extension with an installed bundle.
    async fn deployed(&self) -> Result<Vec<Deployed>, OperatorError> {
        let (mut deployed, mut known) = (Vec::new(), HashMap::new());
        for extension in self.extensions.all() {
            let (name, uid) = (extension.name_any(), extension.uid().unwrap_or_default());
            let status = extension.data.pointer("/status/install").cloned().unwrap_or_default();
            let before = self.bundles.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
            let bundle = match before.filter(|(of, _)| *of == status) {
                Some((_, bundle)) => bundle,
                None => self.bundle(&uid).await?,
            };
            known.insert(uid, (status, bundle.clone()));
            deployed.extend(bundle.map(|bundle| Deployed { extension: name, bundle }));
        }
        *self.bundles.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(deployed)
    }

    async fn bundle(&self, extension: &str) -> Result<Bundle, OperatorError> {
        let records: Api<Secret> = Api::namespaced(self.client.clone(), &self.config.system_namespace);
        let of = ListParams::default().labels(&format!("{EXTENSION_LABEL}={extension}"));
        let found = records.list(&of).await.map_err(|error| OperatorError::Records(Box::new(error)))?;
        Ok(match record::read(&found.items) {
            Err(error) => Some(Err(SharedError::new(error))),
            Ok(history) => history.installed().map(|revision| {
                let record = &revision.record;
                Ok((record.bundle.name.clone(), record.annotations.get(compat::ANNOTATION).cloned()))
            }),
        })
    }

    async fn keep_catalogs(&self, olm: &Value, platform: Platform) -> Result<(), OperatorError> {
        let live = self.catalogs.all().into_iter().map(|each| serde_json::to_value(&*each)).collect::<Result<Vec<_>, _>>()?;
        for object in catalogs::plan(&self.config.catalogs, platform, olm, &live) {
            // The cache may lag behind a repair made a moment ago.
            if self.writer.get(&ObjectRef::of(&object)?).await?.is_some_and(|live| catalogs::is_kept(&object, &live)) {
                continue;
            }
            let reference = object["spec"]["source"]["image"]["ref"].as_str().unwrap_or_default();
            tracing::info!(catalog = %object["metadata"]["name"], reference, "a default catalog is restored");
            let (catalog, effect) = self.writer.apply(&object, true, &Expect::default()).await?;
            let (reason, done) = match effect {
                Effect::Created => ("DefaultCatalogCreated", "made"),
                _ => ("DefaultCatalogRestored", "restored"),
            };
            let note =
                format!("the default catalog of platform {platform} was {done}: {reference}, priority {}", object["spec"]["priority"]);
            self.events.normal(&catalog, reason, &note);
        }
        Ok(())
    }

    /// Passes proxy settings and feature gates to the existing Deployments.
    async fn hand_on(&self, version: Option<&Value>) -> Result<(), OperatorError> {
        let proxy = value(self.proxies.named("cluster"))?.map(|proxy| proxy.get("status").cloned().unwrap_or_default());
        let gate = value(self.gates.named("cluster"))?;
        let enabled = gate.map(|gate| gates::enabled(&gate, version.and_then(compat::platform_version)));
        let programs = [(CATALOGD, Component::Catalogd), (OPERATOR_CONTROLLER, Component::OperatorController), (COMBINED, Component::Both)];
        for (name, component) in programs {
            let key = Key::new(self.config.system_namespace.clone(), name);
            let Some(live) = value(self.deployments.get(&key))? else { continue };
            if let Some(wanted) = deployments::plan(&live, component, proxy.as_ref(), enabled.as_ref())? {
                let patched = self.writer.patch(&ObjectRef::of(&live)?, "", &Patch::Json(deployments::patch(&live, &wanted))).await?;
                self.events.normal(&patched, "SettingsHandedOn", &deployments::told(&live, &wanted));
            }
        }
        Ok(())
    }

    /// Reports to the ClusterOperator, if the cluster has that kind.
    async fn report(&self, conditions: &[Condition], failure: Option<&OperatorError>) -> Result<Outcome, OperatorError> {
        if self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let now = self.env.now_seconds();
        let problem = failure.map(|failure| Problem::new("OperatorFailing", chain(failure)));
        let (degraded, wait) = self.inertia.lock().unwrap_or_else(PoisonError::into_inner).judge(problem, now).split();
        let report = Report {
            unavailable: None,
            progressing: None,
            degraded,
            not_upgradeable: compat::aggregate(conditions),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            related: vec![
                Related::new("operator.openshift.io", "olms", "", "cluster"),
                Related::new("", "namespaces", "", &self.config.system_namespace),
            ],
        };
        let written = self.writer.keep_status(&cluster_operator::object(NAME), |live| cluster_operator::status(live, &report, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.events.normal(&live, "OperatorStatusChanged", &note);
        }
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }
}

fn value(object: Option<Arc<DynamicObject>>) -> Result<Option<Value>, serde_json::Error> {
    object.map(|object| serde_json::to_value(&*object)).transpose()
}

/// Returns the conditions of an object without those that cannot be read.
fn conditions(object: &Value) -> Vec<Condition> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| serde_json::from_value(each.clone()).ok()).collect()
}
