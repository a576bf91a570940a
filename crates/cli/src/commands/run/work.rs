//! The components of `mainstay run`, opened on every replica and run by the leader.

use std::net::IpAddr;

use axum::Router;
use mainstay_cluster_operators::storage_migration;
use mainstay_oci::ClientConfig;
use mainstay_olm_v1::endpoint::Endpoint;
use mainstay_olm_v1::{Ready, Setup, Surroundings, cluster_operator};
use mainstay_olm_v1_core::cluster_operator::catalogs;
use mainstay_runtime::{Cluster, Env};
use mainstay_serve::Certificates;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::classic::Classic;
use super::flags::{Component, Plan};
use super::health::{Health, State};
use super::listeners;

/// The work of a leader.
pub struct Work {
    cluster: Cluster,
    env: Env,
    olm_v1: Option<Ready>,
    classic: Option<Classic>,
}

/// Opens the caches and creates the clients.
pub fn open(plan: &Plan, cluster: &Cluster, env: &Env) -> Result<Work, Failure> {
    let olm_v1 = plan.olm_v1().map(|parts| {
        let setup = Setup {
            catalogd: cluster.clone(),
            operator_controller: cluster.clone(),
            env: env.clone(),
            gates: plan.gates.clone(),
            system_namespace: plan.system_namespace.clone(),
            cache: plan.cache.clone(),
            external_address: plan.external_address.clone(),
            authority: Vec::new(),
            registries: ClientConfig::default(),
            gc_interval: plan.gc_interval,
            ignore_service_account: plan.use_own_service_account,
        };
        let around = Surroundings {
            parts,
            files: Some(images::settings()),
            pull_authorities: plan.pull_cas.clone(),
            catalog_authorities: plan.catalogd_cas.clone(),
            pull_secret: plan.pull_secret.clone(),
        };
        setup.open_in(around).map_err(|error| {
            Failure::failed(format!("cache {}", plan.cache.display()), &error).hint("--cache-path DIR chooses another folder")
        })
    });
    let classic = plan.has_classic().then(|| Classic::open(plan, cluster, env)).transpose()?;
    Ok(Work { cluster: cluster.clone(), env: env.clone(), olm_v1: olm_v1.transpose()?, classic })
}

impl Work {
    /// Works until told to stop, or until a part fails.
    pub async fn run(
        self,
        plan: &Plan,
        certificates: Option<Certificates>,
        health: &Health,
        stop: CancellationToken,
    ) -> Result<(), Failure> {
        health.set(State::TakingOver);
        let mut tasks: JoinSet<Result<&'static str, Failure>> = JoinSet::new();
        if let Some(mut ready) = self.olm_v1 {
            let router = std::mem::take(&mut ready.router);
            if let Some(address) = plan.catalogs {
                serve_catalogs(router, &self.cluster, plan, address, certificates.as_ref(), &stop, &mut tasks).await?;
            }
            let until = stop.clone();
            tasks.spawn(async move {
                ready.run(until).await;
                Ok("olm-v1")
            });
        }
        if plan.components.contains(&Component::ServiceCa) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = mainstay_service_ca::run(cluster, env, until).await;
                ended.map(|()| "service-ca").map_err(|error| Failure::failed("service-ca", &error))
            });
        }
        if plan.components.contains(&Component::CloudCredential) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = mainstay_cloud_credential::run(cluster, env, None, until).await;
                ended.map(|()| "cloud-credential").map_err(|error| Failure::failed("cloud-credential", &error))
            });
        }
        if plan.components.contains(&Component::NetworkExtras) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = mainstay_network_extras::run(cluster, env, mainstay_network_extras::Config::default(), until).await;
                ended.map(|()| "network-extras").map_err(|error| Failure::failed("network-extras", &error))
            });
        }
        if plan.components.contains(&Component::StorageMigrator) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            let config = storage_migration::Config { writes_per_second: f64::from(plan.migration_writes), ..Default::default() };
            tasks.spawn(async move {
                let ended = storage_migration::run(cluster, env, config, until).await;
                ended.map(|()| "storage-migrator").map_err(|error| Failure::failed("storage-migrator", &error))
            });
        }
        if plan.components.contains(&Component::MachineConfig) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = mainstay_machine_config::run(cluster, env, mainstay_machine_config::Config::default(), until).await;
                ended.map(|()| "machine-config").map_err(|error| Failure::failed("machine-config", &error))
            });
        }
        if plan.components.contains(&Component::MachineApi) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            let config = mainstay_machine_api::Config { programs: plan.programs.clone(), ..mainstay_machine_api::Config::default() };
            tasks.spawn(async move {
                let ended = mainstay_machine_api::run(cluster, env, config, until).await;
                ended.map(|()| "machine-api").map_err(|error| Failure::failed("machine-api", &error))
            });
        }
        if plan.components.contains(&Component::Autoscaler) {
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = mainstay_autoscaler::run(cluster, env, mainstay_autoscaler::Config::default(), until).await;
                ended.map(|()| "autoscaler").map_err(|error| Failure::failed("autoscaler", &error))
            });
        }
        if plan.components.contains(&Component::ClusterOlmOperator) {
            let config = cluster_operator::Config { system_namespace: plan.system_namespace.clone(), catalogs: catalogs::openshift() };
            let (cluster, env, until) = (self.cluster.clone(), self.env.clone(), stop.clone());
            tasks.spawn(async move {
                let ended = cluster_operator::run(cluster, config, env, until).await;
                ended.map(|()| "cluster-olm-operator").map_err(|error| Failure::failed("cluster-olm-operator", &error))
            });
        }
        if let Some(classic) = self.classic {
            classic.start(plan, &stop, &mut tasks).await?;
        }
        health.set(State::Leading);
        let mut outcome = Ok(());
        // A component that stops by itself stops the others, too.
        while let Some(ended) = tasks.join_next().await {
            let failure = match ended {
                Ok(Ok(_)) if stop.is_cancelled() => continue,
                Ok(Ok(name)) => Failure::new(Exit::Failed, name, "ended by itself"),
                Ok(Err(failure)) => failure,
                Err(error) => Failure::failed("components", &error),
            };
            if outcome.is_ok() {
                outcome = Err(failure);
            }
            stop.cancel();
        }
        outcome
    }
}

async fn serve_catalogs(
    router: Router,
    cluster: &Cluster,
    plan: &Plan,
    address: std::net::SocketAddr,
    certificates: Option<&Certificates>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<Result<&'static str, Failure>>,
) -> Result<(), Failure> {
    let server = listeners::catalogs(address, certificates).await?;
    let bound = server.address();
    tracing::info!(address = %bound, external = plan.external_address, "catalogs are served");
    let until = stop.clone();
    tasks.spawn(async move {
        server.run(router, until).await;
        Ok("catalogs")
    });
    if let Some(endpoint) = endpoint(plan, bound.port())? {
        let client = cluster.client().map_err(|error| Failure::failed("cluster", &error))?;
        let until = stop.clone();
        tasks.spawn(async move {
            endpoint.publish(client, &until).await;
            until.cancelled().await;
            Ok("endpoint")
        });
    }
    Ok(())
}

/// The endpoint to which the Service of the external address is to lead, in a pod with leader election.
fn endpoint(plan: &Plan, port: u16) -> Result<Option<Endpoint>, Failure> {
    let Some(ip) = pod_address()? else { return Ok(None) };
    let host = plan.external_address.split("://").nth(1).unwrap_or_default();
    let mut labels = host.split(':').next().unwrap_or_default().split('.');
    let (Some(service), Some(namespace)) = (labels.next(), labels.next()) else { return Ok(None) };
    let leads = !plan.leases.is_empty() && namespace == plan.system_namespace;
    Ok(leads.then(|| Endpoint { namespace: namespace.to_owned(), service: service.to_owned(), address: ip, port }))
}

/// The address of the pod that this process runs in.
pub fn pod_address() -> Result<Option<IpAddr>, Failure> {
    let Some(text) = std::env::var("POD_IP").ok().filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Failure::new(Exit::Usage, "POD_IP", format!("{text:?} is no address")))
}
