//! The components that run besides the API, and the objects that they need.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_cluster_operators::storage_migration;
use mainstay_node_agent::boot::ConfigServer;
use mainstay_objects::{Expect, ObjectRef, Propagation, Until};
use mainstay_olm_classic::catalog::PodImages;
use mainstay_olm_v1::cluster_operator;
use mainstay_olm_v1::manifests::{CATALOGD, OPERATOR_CONTROLLER};
use mainstay_olm_v1::{Setup, Surroundings};
use mainstay_olm_v1_core::cluster_operator::catalogs::openshift;
use mainstay_operations::settings::{self, SYSTEM_NAMESPACE};
use mainstay_operations::simulated;
use mainstay_rbac::UserInfo;
use mainstay_runtime::{Env, Kinds};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::classic::Classic;
use super::pod_images::Puller;
use super::{Apis, Options};
use mainstay_terminal::errors::InvalidArgument;

/// Limit for a CRD to be served.
pub(super) const ESTABLISHED: Duration = Duration::from_secs(30);
/// Interval at which content that no catalog refers to is removed.
const GARBAGE: Duration = Duration::from_secs(600);

/// A component that this version has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The controllers of kube-controller-manager.
    Controllers,
    /// Binds pods to nodes.
    Scheduler,
    /// Simulated kubelets.
    Nodes,
    /// ClusterCatalog and ClusterExtension.
    OlmV1,
    /// CatalogSource, Subscription, ClusterServiceVersion and their kin.
    OlmClassic,
    /// Secrets for CredentialsRequests.
    CloudCredential,
    /// The status of the Proxy, and trusted CA certificates.
    NetworkExtras,
    /// The Cluster Version Operator.
    ClusterVersion,
    /// Certificates of Services. They are part of OLM v1, whose webhooks need them.
    ServiceCa,
    /// Writes objects once more when the storage version of their kind changes.
    StorageMigrator,
    /// Machines, their sets and health checks, and the simulated provider.
    MachineApi,
    /// The Machine Config Operator.
    MachineConfig,
    /// The cluster autoscaler. It is part of the Machine API, whose sets it scales.
    Autoscaler,
}

const ALL: [(&str, Component); 13] = [
    ("controllers", Component::Controllers),
    ("scheduler", Component::Scheduler),
    ("nodes", Component::Nodes),
    ("olm-v1", Component::OlmV1),
    ("olm-classic", Component::OlmClassic),
    ("service-ca", Component::ServiceCa),
    ("cloud-credential", Component::CloudCredential),
    ("network-extras", Component::NetworkExtras),
    ("cluster-version", Component::ClusterVersion),
    ("storage-migrator", Component::StorageMigrator),
    ("machine-api", Component::MachineApi),
    ("machine-config", Component::MachineConfig),
    ("autoscaler", Component::Autoscaler),
];
const LATER: [&str; 1] = ["console"];

/// The components of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components(BTreeSet<Component>);

impl Components {
    /// Everything that this version has.
    pub fn all() -> Self {
        Self(ALL.iter().map(|(_, component)| *component).collect())
    }

    /// The components that run unless the user says otherwise. Credentials are for a platform that has a cloud, the Cluster Version Operator and
    /// the storage migrator for a cluster that has a release; machines and the configuration of nodes are asked for by their names.
    pub fn usual(has_cloud: bool, has_release: bool) -> Self {
        let is_usual = |component: &Component| match component {
            Component::CloudCredential => has_cloud,
            Component::ClusterVersion | Component::StorageMigrator => has_release,
            Component::MachineApi | Component::MachineConfig | Component::Autoscaler => false,
            _ => true,
        };
        Self(ALL.iter().map(|(_, component)| *component).filter(is_usual).collect())
    }

    /// Returns true if the component is to run.
    pub fn has(&self, component: Component) -> bool {
        self.0.contains(&component)
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        ALL.iter().filter(|(_, component)| self.has(*component)).map(|(name, _)| (*name).to_owned()).collect()
    }
}

impl FromStr for Components {
    type Err = InvalidArgument;

    fn from_str(text: &str) -> Result<Self, InvalidArgument> {
        let mut chosen = BTreeSet::new();
        let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let (true, Some(other)) = (names.contains(&"none"), names.iter().find(|name| **name != "none")) {
            return Err(InvalidArgument(format!("none and {other} cannot both be meant")));
        }
        for name in names {
            match name {
                "all" => chosen.extend(Self::all().0),
                "none" => {}
                _ => match ALL.iter().find(|(known, _)| *known == name) {
                    Some((_, component)) => {
                        chosen.insert(*component);
                    }
                    None if LATER.contains(&name) => {
                        return Err(InvalidArgument(format!("{name} is not part of this version of mainstay")));
                    }
                    None => {
                        return Err(InvalidArgument(format!(
                            "{name} is no component; there are {}",
                            ALL.map(|(known, _)| known).join(", ")
                        )));
                    }
                },
            }
        }
        Ok(Self(chosen))
    }
}

/// The components, running.
pub struct Running {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Running {
    /// Stops the components.
    pub async fn end(mut self, patience: Duration) {
        self.stop.cancel();
        let ended = tokio::time::timeout(patience, async { while self.tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!("components did not end in time; they are cut off");
            self.tasks.shutdown().await;
        }
    }
}

fn administrator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new("system:mainstay", &["system:masters", "system:authenticated"]))));
}

fn operator_controller(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM_NAMESPACE, OPERATOR_CONTROLLER))));
}

fn catalogd(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(SYSTEM_NAMESPACE, CATALOGD))));
}

fn service_ca(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(mainstay_service_ca::NAMESPACE, mainstay_service_ca::ACCOUNT))));
}

fn storage_migrator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(storage_migration::NAMESPACE, storage_migration::ACCOUNT))));
}

fn machine_api(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(mainstay_machine_api::NAMESPACE, mainstay_machine_api::ACCOUNT))));
}

fn autoscaler(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(mainstay_autoscaler::NAMESPACE, mainstay_autoscaler::ACCOUNT))));
}

fn cluster_olm_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(cluster_operator::NAMESPACE, cluster_operator::ACCOUNT))));
}

/// A client inside the process that may do everything.
pub fn client(apis: &Apis) -> Result<kube::Client, Failure> {
    apis.in_process(administrator).client().map_err(|error| Failure::failed("cluster", &error))
}

/// Starts the components, and applies the objects of `--manifests`.
pub async fn start(apis: &Apis, options: &Options, tell: &mut impl FnMut(&str, &str, Duration)) -> Result<Running, Failure> {
    let cluster = apis.in_process(administrator);
    let client = client(apis)?;
    let writer = Writer::new(client.clone(), Kinds::new(client), "mainstay-up");
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let chosen = &options.components;
    // New with each start: the components that ran before are no longer on the page.
    let env = Env::system();
    apis.metrics.show(env.metrics().clone());

    let authority = mainstay_workloads::Authority::from_pem(apis.server.ca_certificate(), apis.server.ca_key())
        .map_err(|error| Failure::failed("CA", &error))?;
    if let Some(machine) = &apis.machine {
        machine.reach(super::processes::reached(apis));
    }
    let pods = chosen.has(Component::Nodes) && options.nodes > 0 && chosen.has(Component::Scheduler) && chosen.has(Component::Controllers);
    let by_pods = chosen.has(Component::OlmClassic) && options.classic.by_pods(pods)?;
    let pod_images = by_pods.then(PodImages::default);
    let workloads = mainstay_workloads::Options {
        controllers: chosen.has(Component::Controllers),
        scheduler: chosen.has(Component::Scheduler),
        nodes: chosen.has(Component::Nodes) && (options.nodes > 0 || chosen.has(Component::MachineApi)),
        node_count: options.nodes,
        script: options.simulation.script(),
        registries: options.simulation.registries()?,
        machine: apis.machine.clone(),
        puller: pod_images.as_ref().map(Puller::shared),
        ca_pem: apis.server.ca_certificate().as_bytes().to_vec(),
        authority: Some(Arc::new(authority)),
    };
    let (of, around, until) = (cluster.clone(), env.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = mainstay_workloads::run(of, workloads, around, until).await {
            tracing::error!(error = &error as &dyn std::error::Error, "workload components ended");
        }
    });
    for (name, component) in
        ALL.into_iter().filter(|(_, component)| matches!(component, Component::Controllers | Component::Scheduler | Component::Nodes))
    {
        if chosen.has(component) {
            let detail = if component == Component::Nodes { format!("{} simulated", options.nodes) } else { String::new() };
            tell(name, &detail, Duration::ZERO);
            if component == Component::Nodes && options.processes.any() {
                tell("processes", &options.processes.shown(), Duration::ZERO);
            }
        }
    }

    if chosen.has(Component::Nodes) && options.nodes > 0 {
        apply(&writer, &simulated::published(&options.local_services, options.skip_simulated_webhooks)).await?;
    }
    if chosen.has(Component::OlmV1) {
        let begun = Instant::now();
        olm_v1_objects(&writer).await?;
        // A user who plans a change has to know them, and nothing else on the cluster tells them.
        apply(&writer, &settings::published(&options.gates)).await?;
        let setup = Setup {
            catalogd: apis.in_process(catalogd),
            operator_controller: apis.in_process(operator_controller),
            env: env.clone(),
            gates: options.gates.clone(),
            system_namespace: SYSTEM_NAMESPACE.to_owned(),
            cache: options.data_dir.join("olm-v1"),
            external_address: apis.catalogs_url.clone(),
            authority: apis.server.ca_certificate().as_bytes().to_vec(),
            registries: images::config()?,
            gc_interval: GARBAGE,
            ignore_service_account: false,
        };
        // Read again before each pull (OLM1-GEN-12).
        let around = Surroundings { files: Some(images::settings()), ..Surroundings::default() };
        let mut ready = setup.open_in(around).map_err(|error| Failure::failed("olm-v1", &error))?;
        apis.serve_catalogs(std::mem::take(&mut ready.router));
        let until = stop.clone();
        tasks.spawn(async move { ready.run(until).await });
        for object in cluster_operator::manifests(SYSTEM_NAMESPACE) {
            apply(&writer, &object).await?;
        }
        // It does nothing until OpenShift's kinds are installed.
        let config = cluster_operator::Config { system_namespace: SYSTEM_NAMESPACE.to_owned(), catalogs: openshift() };
        let (of, around, until) = (apis.in_process(cluster_olm_operator), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = cluster_operator::run(of, config, around, until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the cluster operator of OLM ended");
            }
        });
        tell("olm-v1", "catalogs and extensions", begun.elapsed());
    } else {
        // Left by a start with other components.
        let stale = settings::published(&options.gates);
        let place = ObjectRef::of(&stale).map_err(|error| Failure::failed("settings of olm-v1", &error))?;
        writer
            .delete(&place, &Expect::default(), Propagation::Background)
            .await
            .map_err(|error| Failure::failed("settings of olm-v1", &error))?;
    }
    // Webhooks of bundles need certificates, so it starts with the component that installs them, too.
    if chosen.has(Component::OlmV1) || chosen.has(Component::ServiceCa) {
        let begun = Instant::now();
        for object in mainstay_service_ca::manifests() {
            apply(&writer, &object).await?;
        }
        let (of, around, until) = (apis.in_process(service_ca), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = mainstay_service_ca::run(of, around, until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the service CA ended");
            }
        });
        tell("service-ca", "certificates of Services", begun.elapsed());
    }
    if chosen.has(Component::CloudCredential) || chosen.has(Component::NetworkExtras) {
        super::platform::start(apis, options, &env, &writer, &stop, &mut tasks, tell).await?;
    }
    let mut release = None;
    if chosen.has(Component::ClusterVersion) && options.release.any() {
        release = super::release::start(apis, options, &env, &writer, &stop, &mut tasks, tell).await?;
    }
    let mut config_server = None;
    if chosen.has(Component::MachineConfig) {
        config_server = super::machine_config::start(apis, options, &env, &writer, release.clone(), &stop, &mut tasks, tell).await?;
    }
    if chosen.has(Component::StorageMigrator) {
        let begun = Instant::now();
        for object in storage_migration::definitions().into_iter().chain(storage_migration::manifests()) {
            apply(&writer, &object).await?;
        }
        let (of, around, until) = (apis.in_process(storage_migrator), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = storage_migration::run(of, around, storage_migration::Config::default(), until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the storage migrator ended");
            }
        });
        tell("storage-migrator", "objects are written in the storage version", begun.elapsed());
    }
    if chosen.has(Component::MachineApi) {
        let begun = Instant::now();
        let others = [mainstay_machine_api::manifests(), mainstay_machine_api::simulation_manifests()].concat();
        objects_of(&writer, "machine-api", mainstay_machine_api::definitions(), &others).await?;
        let clouds = options.simulation.clouds();
        let authority = apis.server.ca_certificate().as_bytes();
        let config_server = config_server.map(|url| ConfigServer::new(&url, authority)).transpose();
        let config_server = config_server.map_err(|error| Failure::failed("machine-api", &error))?;
        let simulation = Some(mainstay_machine_api::Simulation { cluster: cluster.clone(), clouds, config_server });
        let config = mainstay_machine_api::Config { simulation, release: release.clone(), ..mainstay_machine_api::Config::default() };
        let (of, around, until) = (apis.in_process(machine_api), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = mainstay_machine_api::run(of, around, config, until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the Machine API ended");
            }
        });
        let detail = if clouds { "simulated machines, those of clouds too: no cloud is asked" } else { "simulated machines" };
        tell("machine-api", detail, begun.elapsed());
    }
    if chosen.has(Component::MachineApi) || chosen.has(Component::Autoscaler) {
        let begun = Instant::now();
        objects_of(&writer, "autoscaler", mainstay_autoscaler::definitions(), &mainstay_autoscaler::manifests()).await?;
        let config = mainstay_autoscaler::Config { release, ..mainstay_autoscaler::Config::default() };
        let (of, around, until) = (apis.in_process(autoscaler), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = mainstay_autoscaler::run(of, around, config, until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the autoscaler ended");
            }
        });
        tell("autoscaler", "idle until there is a ClusterAutoscaler", begun.elapsed());
    }
    if chosen.has(Component::OlmClassic) {
        let classic = Classic { apis, options, env: &env, writer: &writer, stop: &stop, pod_images };
        classic.start(&mut tasks, tell).await?;
    }
    tasks.spawn(super::alerting::run(self::client(apis)?, chosen.clone(), env.clone(), apis.alerts.clone(), stop.clone()));
    for object in &options.manifests {
        apply(&writer, object).await?;
    }
    Ok(Running { stop, tasks })
}

/// The CRDs, the namespace, the accounts and the roles of OLM v1.
async fn olm_v1_objects(writer: &Writer) -> Result<(), Failure> {
    let manifests = mainstay_api::manifests().map_err(|error| Failure::failed("manifests of olm-v1", &error))?;
    let others = mainstay_olm_v1::manifests::manifests(SYSTEM_NAMESPACE);
    for object in manifests.iter().map(|manifest| &manifest.definition).chain(&others) {
        apply(writer, object).await?;
    }
    for manifest in &manifests {
        let place = ObjectRef::of(&manifest.definition).map_err(|error| Failure::failed("manifests of olm-v1", &error))?;
        writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| Failure::failed("manifests of olm-v1", &error))?;
    }
    Ok(())
}

/// Applies the kinds of a component and its other objects, and waits until the kinds are served.
async fn objects_of(
    writer: &Writer,
    component: &str,
    definitions: Result<Vec<Value>, mainstay_yaml::Error>,
    others: &[Value],
) -> Result<(), Failure> {
    let subject = format!("manifests of {component}");
    let definitions = definitions.map_err(|error| Failure::failed(&*subject, &error))?;
    for object in definitions.iter().chain(others) {
        apply(writer, object).await?;
    }
    for definition in &definitions {
        let place = ObjectRef::of(definition).map_err(|error| Failure::failed(&*subject, &error))?;
        writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| Failure::failed(&*subject, &error))?;
    }
    Ok(())
}

pub(super) async fn apply(writer: &Writer, object: &Value) -> Result<(), Failure> {
    let name = format!("{} {}", object["kind"].as_str().unwrap_or("object"), object["metadata"]["name"].as_str().unwrap_or_default());
    writer.apply(object, true, &Expect::default()).await.map_err(|error| Failure::failed(name, &error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// MS-CLI-03: which components run.
    #[test]
    fn components() {
        assert_eq!("all".parse::<Components>().unwrap(), Components::all());
        assert_eq!("none".parse::<Components>().unwrap().names(), Vec::<String>::new());
        assert_eq!("nodes,controllers".parse::<Components>().unwrap().names(), ["controllers", "nodes"]);
        assert_eq!("console".parse::<Components>().unwrap_err().to_string(), "console is not part of this version of mainstay");
        assert!("kubelet".parse::<Components>().unwrap_err().to_string().contains("is no component"));
    }

    /// MS-CLI-11: what contradicts itself is refused with both names.
    #[test]
    fn contradictions() {
        for text in ["all,none", "none,all", "nodes,none"] {
            let refused = text.parse::<Components>().unwrap_err().to_string();
            assert!(refused.contains("none") && refused.ends_with("cannot both be meant"), "{text}: {refused}");
        }
        assert_eq!("none,none".parse::<Components>().unwrap().names(), Vec::<String>::new());
    }

    /// MS-CLI-11: components of the platform have names, and credentials are for a platform that has a cloud.
    #[test]
    fn components_of_the_platform() {
        let named: Components = "service-ca,cloud-credential,network-extras".parse().unwrap();
        assert_eq!(named.names(), ["service-ca", "cloud-credential", "network-extras"]);
        assert_eq!("autoscaler".parse::<Components>().unwrap().names(), ["autoscaler"]);
        assert!(Components::usual(true, false).has(Component::CloudCredential) && Components::all().has(Component::CloudCredential));
        let usual = Components::usual(false, false);
        assert!(!usual.has(Component::CloudCredential) && usual.has(Component::NetworkExtras) && usual.has(Component::OlmClassic));
        assert!(!Components::usual(true, true).has(Component::MachineApi));
        for component in [Component::ClusterVersion, Component::StorageMigrator] {
            assert!(!usual.has(component) && Components::usual(false, true).has(component));
        }
        assert!(!Components::usual(true, true).has(Component::MachineConfig), "it is asked for");
        assert_eq!("machine-config".parse::<Components>().unwrap().names(), ["machine-config"]);
    }
}
