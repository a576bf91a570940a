//! The watches of the operator, and the work that each wakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use mainstay_api::cluster_operator::Inertia;
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::pool::membership::SelectingPool;
use mainstay_machine_config_core::pool::node::Node;
use mainstay_objects::ObjectRef;
use mainstay_runtime::{Cache, Cluster, Env, Key, Kinds, Optional, Outcome, Queue, Scope};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Measures;
use crate::places::{CONFIG, GROUP, OS_IMAGE, REGISTRY_OVERRIDE, V1, name, resource, value};
use crate::release::Release;
use crate::{ACCOUNT, Error, NAMESPACE};

/// Keys that are reconciled concurrently.
const WORKERS: usize = 4;
/// The time in which changes of MachineConfigs are gathered before they are rendered.
const GATHER: Duration = Duration::from_millis(500);
/// The pause after a write of others that came between.
const BEHIND: Duration = Duration::from_millis(200);
/// The work that a change of registries' configuration wakes.
const REGISTRIES: &[Work] = &[Work::Registries];
/// The work that a change of a KubeletConfig or ContainerRuntimeConfig wakes.
const GENERATED: &[Work] = &[Work::Generated, Work::Render];
/// The Deployment of a Machine Config Operator that is not this one.
const OTHER: &str = "machine-config-controller";

/// Settings of the operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The time that a simulated node takes to reboot.
    pub reboot: Duration,
    /// The operators as the release that is being applied names them, where a Cluster Version Operator applies one.
    pub release: Option<watch::Receiver<Arc<[Value]>>>,
}

impl Default for Config {
    fn default() -> Self {
        Self { reboot: Duration::from_secs(5), release: None }
    }
}

/// Runs the operator until `stop` is cancelled.
///
/// # Errors
/// No client can be made, or a real cluster has a Machine Config Operator of its own.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let client = cluster.client()?;
    let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
    refuse_other(&cluster, &writer).await?;
    let queue: Queue<Work> = Queue::default();
    let release = config.release.clone();
    let operator = Arc::new(Operator::start(&client, writer, env.clone(), config, &queue, &stop));
    // A first list without objects wakes nothing.
    let lists = async { tokio::join!(operator.nodes.ready(), operator.maps.ready(), operator.secrets.ready()) };
    if stop.run_until_cancelled(lists).await.is_none() {
        return Ok(());
    }
    for work in [Work::Base, Work::Generated, Work::Registries, Work::Render, Work::Pools, Work::Report] {
        queue.add(work);
    }
    let woken = queue.clone();
    let until = stop.clone();
    let followed = async move {
        let Some(mut release) = release else { return };
        while let Some(Ok(())) = until.run_until_cancelled(release.changed()).await {
            woken.add(Work::Report);
        }
    };
    let reconcile = move |work: Work| {
        let operator = operator.clone();
        async move { operator.reconcile(work).await }
    };
    tokio::join!(mainstay_runtime::run("machine-config", queue, WORKERS, env, stop, reconcile), followed);
    Ok(())
}

/// A real cluster with its own operator is left alone. On the embedded one a release brings the Deployment, and nothing runs in its pods.
async fn refuse_other(cluster: &Cluster, writer: &Writer) -> Result<(), Error> {
    if cluster.is_embedded() {
        return Ok(());
    }
    let place = ObjectRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: OTHER.to_owned(),
    };
    match writer.get(&place).await? {
        Some(_) => Err(Error::Other { namespace: NAMESPACE, name: OTHER }),
        None => Ok(()),
    }
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// The objects that each cluster has.
    Base,
    /// MachineConfigs of KubeletConfigs and ContainerRuntimeConfigs.
    Generated,
    /// MachineConfigs of registries.
    Registries,
    /// Rendered MachineConfigs.
    Render,
    /// The nodes and the status of every pool.
    Pools,
    /// The drain or uncordoning that a node asks for.
    Drain(String),
    /// The daemon of a simulated node.
    Daemon(String),
    /// The ClusterOperator.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => out.write_str("ControllerConfig"),
            Self::Generated => out.write_str("KubeletConfigs and ContainerRuntimeConfigs"),
            Self::Registries => out.write_str("registries"),
            Self::Render => out.write_str("rendered MachineConfigs"),
            Self::Pools => out.write_str("MachineConfigPools"),
            Self::Drain(node) => write!(out, "drain of node {node}"),
            Self::Daemon(node) => write!(out, "daemon of node {node}"),
            Self::Report => out.write_str("ClusterOperator machine-config"),
        }
    }
}

/// The operator: its copies of the cluster, and what it remembers between looks.
pub(crate) struct Operator {
    pub writer: Writer,
    pub client: Client,
    pub env: Env,
    pub config: Config,
    pub queue: Queue<Work>,
    pub nodes: Cache,
    pub maps: Cache,
    pub secrets: Cache,
    pub pools: Optional,
    pub configs: Optional,
    pub kubelets: Optional,
    pub runtimes: Optional,
    pub controller_configs: Optional,
    pub settings: Optional,
    pub images: Optional,
    pub digest_mirrors: Optional,
    pub tag_mirrors: Optional,
    pub old_mirrors: Optional,
    pub infrastructures: Optional,
    pub node_settings: Optional,
    pub proxies: Optional,
    pub versions: Optional,
    pub operators: Optional,
    pub measures: Arc<Measures>,
    recorder: Recorder,
    state: Mutex<State>,
}

/// The memory since the start.
#[derive(Default)]
pub(crate) struct State {
    /// Inputs of the last rendering that had nothing to write, by pool.
    pub rendered: HashMap<String, String>,
    /// Beginnings of the drains under way, by node.
    pub drains: HashMap<String, Timestamp>,
    /// When a drain that lasts was told of last, by node.
    pub told: HashMap<String, Timestamp>,
    /// Since when pools keep the operator from its end.
    pub inertia: Inertia,
}

impl Operator {
    fn start(client: &Client, writer: Writer, env: Env, config: Config, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let optional = |resource: ApiResource, wakes: &'static [Work]| {
            let woken = queue.clone();
            let wake = move || {
                for work in wakes {
                    match work {
                        Work::Render => woken.add_after(Work::Render, GATHER),
                        other => woken.add(other.clone()),
                    }
                }
            };
            Optional::start(client, resource, stop, wake).shown(env.metrics())
        };
        let own = |kind: &str, plural: &str, wakes| optional(resource(GROUP, "v1", kind, plural), wakes);
        let of_config = |kind: &str, plural: &str, wakes| optional(resource(CONFIG, "v1", kind, plural), wakes);
        let nodes = Cache::start(client, &resource("", "v1", "Node", "nodes"), &Scope::default(), stop).shown(env.metrics());
        let woken = queue.clone();
        nodes.on_change(move |change| {
            woken.add(Work::Pools);
            if let Some(node) = change.now.as_deref().and_then(|node| node.metadata.name.clone()) {
                woken.add(Work::Drain(node.clone()));
                woken.add(Work::Daemon(node));
            }
            if change.before.is_none() || change.now.is_none() {
                woken.add(Work::Base);
            }
        });
        let scope = Scope { namespace: Some(NAMESPACE.to_owned()), ..Scope::default() };
        let maps = Cache::start(client, &resource("", "v1", "ConfigMap", "configmaps"), &scope, stop).shown(env.metrics());
        let woken = queue.clone();
        maps.on_change(move |change| {
            let Some(name) = change.object().and_then(|map| map.metadata.name.clone()) else { return };
            match name.strip_prefix("simulated-disk-") {
                Some(node) => woken.add(Work::Daemon(node.to_owned())),
                None => woken.add(Work::Base),
            }
        });
        let scope = Scope {
            namespace: Some("openshift-config".to_owned()),
            fields: Some("metadata.name=pull-secret".to_owned()),
            ..Scope::default()
        };
        let secrets = Cache::start(client, &resource("", "v1", "Secret", "secrets"), &scope, stop);
        let woken = queue.clone();
        secrets.on_change(move |_| woken.add(Work::Base));
        Self {
            pools: own(
                "MachineConfigPool",
                "machineconfigpools",
                &[Work::Render, Work::Generated, Work::Registries, Work::Pools, Work::Report],
            ),
            configs: own("MachineConfig", "machineconfigs", &[Work::Render]),
            kubelets: own("KubeletConfig", "kubeletconfigs", GENERATED),
            runtimes: own("ContainerRuntimeConfig", "containerruntimeconfigs", GENERATED),
            controller_configs: own(
                "ControllerConfig",
                "controllerconfigs",
                &[Work::Base, Work::Render, Work::Generated, Work::Registries],
            ),
            settings: optional(resource("operator.openshift.io", "v1", "MachineConfiguration", "machineconfigurations"), &[Work::Base]),
            images: of_config("Image", "images", REGISTRIES),
            digest_mirrors: of_config("ImageDigestMirrorSet", "imagedigestmirrorsets", REGISTRIES),
            tag_mirrors: of_config("ImageTagMirrorSet", "imagetagmirrorsets", REGISTRIES),
            old_mirrors: optional(
                resource("operator.openshift.io", "v1alpha1", "ImageContentSourcePolicy", "imagecontentsourcepolicies"),
                REGISTRIES,
            ),
            node_settings: of_config("Node", "nodes", &[Work::Report]),
            infrastructures: of_config("Infrastructure", "infrastructures", &[Work::Base]),
            proxies: of_config("Proxy", "proxies", &[Work::Base]),
            versions: of_config("ClusterVersion", "clusterversions", &[Work::Base, Work::Registries]),
            operators: of_config("ClusterOperator", "clusteroperators", &[Work::Report]),
            measures: Measures::shown(&env),
            recorder: Recorder::new(writer.clone(), env.clone(), "machineconfigcontroller", "mainstay"),
            nodes,
            maps,
            secrets,
            writer,
            client: client.clone(),
            env,
            config,
            queue: queue.clone(),
            state: Mutex::default(),
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        self.measures.overrides_registries(self.overrides_registries());
        let outcome = match &work {
            Work::Base => self.base().await,
            Work::Generated => self.generated().await,
            Work::Registries => self.registries().await,
            Work::Render => self.render().await,
            Work::Pools => self.all_pools().await,
            Work::Drain(node) => self.drain(node).await,
            Work::Daemon(node) => self.daemon(node).await,
            Work::Report => self.report().await,
        };
        match outcome {
            Err(error) if error.is_behind() => Ok(Outcome::After(BEHIND)),
            outcome => outcome,
        }
    }

    /// Returns whether pools, MachineConfigs and nodes are known.
    pub fn is_known(&self) -> bool {
        self.nodes.is_ready() && self.maps.is_ready() && [&self.pools, &self.configs].iter().all(|kind| kind.is_known())
    }

    /// All objects of a kind of the group, by name; none while it is not served.
    pub fn all(kind: &Optional, name: &str) -> Result<Vec<Value>, Error> {
        let Some(objects) = kind.objects() else { return Ok(Vec::new()) };
        objects.all().iter().map(|object| Ok(value(object, V1, name)?)).collect()
    }

    /// All objects of a kind as they are, without kind and version.
    pub fn bare(kind: &Optional) -> Result<Vec<Value>, Error> {
        let Some(objects) = kind.objects() else { return Ok(Vec::new()) };
        objects.all().iter().map(|object: &Arc<DynamicObject>| Ok(serde_json::to_value(&**object)?)).collect()
    }

    /// One object of a kind without namespaces.
    pub fn named(kind: &Optional, name: &str) -> Result<Option<Value>, Error> {
        Ok(kind.named(name).map(|object| serde_json::to_value(&*object)).transpose()?)
    }

    /// A MachineConfig by name.
    pub fn machine_config(&self, name: &str) -> Result<Option<MachineConfig>, Error> {
        let Some(found) = self.configs.named(name) else { return Ok(None) };
        let found = value(&found, V1, "MachineConfig")?;
        match MachineConfig::from_object(&found) {
            Ok(config) => Ok(Some(config)),
            Err(error) => {
                tracing::warn!(%error, name, "a MachineConfig cannot be read");
                Ok(None)
            }
        }
    }

    /// The pools with their selectors of nodes.
    pub fn selecting_pools(&self) -> Result<Vec<SelectingPool>, Error> {
        let pools = Self::all(&self.pools, "MachineConfigPool")?;
        let one = |pool: &Value| SelectingPool {
            name: name(pool).to_owned(),
            node_selector: serde_json::from_value(pool["spec"]["nodeSelector"].clone()).ok(),
        };
        // The definition of the kind has checked the form of a selector; one that is missing selects nothing.
        Ok(pools.iter().map(one).collect())
    }

    /// The pool of a node; none if there is none, or several claim it.
    pub fn pool_of(&self, node: &Node) -> Result<Option<String>, Error> {
        let found = mainstay_machine_config_core::pool::membership::membership(&node.name, &node.labels, &self.selecting_pools()?);
        Ok(match found {
            Ok(found) => found.and_then(|found| found.pools.into_iter().next()),
            Err(error) => {
                tracing::warn!(%error, node = node.name, "can't get pool for node");
                None
            }
        })
    }

    /// A ConfigMap of the operator's namespace.
    pub fn map(&self, name: &str) -> Result<Option<Value>, Error> {
        Ok(self.maps.get(&Key::new(NAMESPACE, name)).map(|map| value(&map, "v1", "ConfigMap")).transpose()?)
    }

    /// Returns whether changes of registries never drain.
    pub fn overrides_registries(&self) -> bool {
        self.maps.get(&Key::new(NAMESPACE, REGISTRY_OVERRIDE)).is_some()
    }

    /// The release that nodes are to be at.
    pub fn release(&self) -> Result<Release, Error> {
        let (map, version) = (self.map(OS_IMAGE)?, Self::named(&self.versions, "version")?);
        Ok(Release::of(map.as_ref(), version.as_ref()))
    }

    /// The time as objects have it.
    pub fn now(&self) -> String {
        self.env.now_seconds().to_string()
    }

    /// Creates an object, or makes labels, annotations, owners and spec of it as given. Returns whether it was written.
    pub async fn keep(&self, wanted: &Value) -> Result<bool, Error> {
        let Some(live) = self.writer.get(&ObjectRef::of(wanted)?).await? else {
            self.writer.create(wanted).await?;
            return Ok(true);
        };
        let mut next = live.clone();
        next["spec"] = wanted["spec"].clone();
        for part in ["labels", "annotations"] {
            for (key, value) in wanted["metadata"].get(part).and_then(Value::as_object).into_iter().flatten() {
                next["metadata"][part][key] = value.clone();
            }
        }
        if let Some(owners) = wanted["metadata"].get("ownerReferences") {
            next["metadata"]["ownerReferences"] = owners.clone();
        }
        if next == live {
            return Ok(false);
        }
        self.writer.replace(&next).await?;
        Ok(true)
    }

    /// Reports an event; one that cannot be reported is no reason to fail the work.
    pub fn tell(&self, about: &Value, is_warning: bool, reason: &str, note: &str) {
        let kind = if is_warning { EventKind::Warning } else { EventKind::Normal };
        if let Err(error) = self.recorder.record(about, kind, reason, "Reconciling", note) {
            tracing::warn!(%error, reason, "an event could not be reported");
        }
    }

    /// Works on what is remembered.
    pub fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        // The value is whole between statements.
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
