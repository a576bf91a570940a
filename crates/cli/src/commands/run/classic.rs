//! The components of OLM classic in `mainstay run` (OLM0-API-01, OLM0-CAT-33).
//!
//! ```text
//!   catalog-operator ──── contents of the catalogs ────► package-server ◄── API server, by the Service
//!   olm-operator
//!   marketplace
//! ```
//!
//! Beside an operator, the package server and the marketplace act with tokens of their own accounts, which may do far less.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use mainstay_catalog_store::SourceContents;
use mainstay_objects::Labels;
use mainstay_olm_classic::{catalog, olm, report};
use mainstay_olm_classic_core::catalog_source::registry::Tools;
use mainstay_olm_classic_core::cluster_operators::Part;
use mainstay_olm_classic_core::hub;
use mainstay_package_server::Listener;
use mainstay_runtime::{Accounts, Cluster, Env, Key};
use mainstay_serve::Certificates;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::flags::{Component, Plan, address, duration, pair, usage};
use super::listeners;
use crate::up::classic::{CatalogServing, Resolution, UnhealthyCatalogs};

const ADDRESS: &str = ":5443";
const RELEASE: &str = "4.19.0";

/// Flags of OLM classic, with the names that upstream's two operators have for them.
#[derive(Debug, Args)]
#[command(next_help_heading = "OLM classic")]
pub struct ClassicArguments {
    /// The namespace whose catalogs every namespace sees
    #[arg(long, value_name = "NAMESPACE", default_value = hub::NAMESPACE)]
    namespace: String,
    /// How long the unpacking of a bundle may take; 0 means for ever
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    bundle_unpack_timeout: String,
    /// How long an InstallPlan whose step fails is tried again
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    install_plan_retry_timeout: String,
    /// The only namespaces whose operators and groups are looked after [default: all]
    #[arg(long = "watchedNamespaces", alias = "watched-namespaces", value_name = "LIST", value_delimiter = ',')]
    watched_namespaces: Vec<String>,
    /// The namespaces that keep copies of CSVs when copies are disabled
    #[arg(
        long = "protectedCopiedCSVNamespaces",
        alias = "protected-copied-csv-namespaces",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "openshift"
    )]
    protected_copied_csv_namespaces: Vec<String>,
    /// How far a failed resolution reaches: to what has to do with it, or to the whole namespace as upstream has it [default: component]
    #[arg(long, value_name = "component|namespace")]
    resolution: Option<Resolution>,
    /// What a catalog that cannot be read holds back: all Subscriptions that see it, as upstream has it, or those that it could concern [default: block]
    #[arg(long, value_name = "block|isolate")]
    unhealthy_catalogs: Option<UnhealthyCatalogs>,
    /// Serve catalogs and unpack bundles by pods and Jobs, as upstream has it, or by this process [default: in-process]
    #[arg(long, value_name = "pods|in-process")]
    catalog_serving: Option<CatalogServing>,
    /// The image of the server of catalogs in ConfigMaps, with --catalog-serving pods
    #[arg(long = "configmapServerImage", value_name = "REF")]
    configmap_server_image: Option<String>,
    /// The image of opm, which unpacks bundles and serves extracted catalogs, with --catalog-serving pods
    #[arg(long = "opmImage", value_name = "REF")]
    opm_image: Option<String>,
    /// The image of the tools that copy content, with --catalog-serving pods
    #[arg(long, value_name = "REF")]
    util_image: Option<String>,
    /// Run restricted catalog pods and unpack Jobs as user 1001, with --catalog-serving pods
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    set_workload_user_id: bool,
    /// The platform's release, which the images of the default catalogs follow [default: $RELEASE_VERSION, or 4.19.0]
    #[arg(long, value_name = "VERSION")]
    release_version: Option<String>,
    /// The ClusterOperator of the operator, where the cluster has the kind; of both, the catalog operator's has `-catalog` behind it; empty for none [default: operator-lifecycle-manager]
    #[arg(long = "writeStatusName", alias = "write-status-name", value_name = "NAME")]
    write_status_name: Option<String>,
    /// The ClusterOperator of the package server; empty for none [default: operator-lifecycle-manager-packageserver]
    #[arg(long = "writePackageServerStatusName", alias = "write-package-server-status-name", value_name = "NAME")]
    write_package_server_status_name: Option<String>,
    /// Where the package server listens, by HTTPS, for the API server
    #[arg(long, value_name = "ADDR", default_value = ADDRESS)]
    package_server_address: String,
    /// Its serving certificate, with --package-server-tls-key; both are read again when they change [default: made at each start]
    #[arg(long, value_name = "FILE")]
    package_server_tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    package_server_tls_key: Option<PathBuf>,
    /// What the APIService trusts [default: with a given certificate, what others write into its caBundle]
    #[arg(long, value_name = "FILE", requires = "package_server_tls_cert")]
    package_server_ca: Option<PathBuf>,
    /// The authorities of client certificates: one that is presented to the listener of metrics must be theirs; a token is needed all the same
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    #[command(flatten)]
    unused: Unused,
}

/// Flags of upstream's operators that mean nothing here.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Unused {
    /// Accepted for compatibility, as are the next ones: changes are watched
    #[arg(long, value_name = "DURATION")]
    interval: Option<String>,
    /// mainstay log-level changes what is logged
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    debug: bool,
}

/// The settings of OLM classic that are known before the first request to the cluster.
#[derive(Debug)]
pub struct ClassicPlan {
    pub namespace: String,
    pub unpack_timeout: Duration,
    pub retry_for: Duration,
    pub watched: Vec<String>,
    pub protected: Vec<String>,
    pub resolution: Resolution,
    pub unhealthy: UnhealthyCatalogs,
    pub serving: catalog::CatalogServing,
    pub release: String,
    /// The parts that report, with the names of their ClusterOperators.
    pub reports: Vec<(Part, String)>,
    /// Where the package server listens.
    pub packages: Option<SocketAddr>,
    /// Certificate and key of the package server.
    pub packages_tls: Option<(PathBuf, PathBuf)>,
    /// The authorities that the APIService is to trust, PEM.
    pub packages_ca: Option<String>,
    /// The authorities of clients that read metrics, PEM.
    pub client_ca: Option<PathBuf>,
}

/// Reads the flags; `notes` gets those that have no effect.
pub fn plan(
    given: &ClassicArguments,
    components: &BTreeSet<Component>,
    has_tls: bool,
    notes: &mut Vec<String>,
) -> Result<ClassicPlan, Failure> {
    let has = |component| components.contains(&component);
    if has(Component::PackageServer) && !has(Component::CatalogOperator) {
        return Err(usage("package-server", "it shows the catalogs that catalog-operator reads in the same process")
            .hint("mainstay run catalog-operator,package-server"));
    }
    let any = components.iter().any(|component| component.is_classic());
    for (flag, is_given) in [
        ("--resolution", given.resolution.is_some()),
        ("--unhealthy-catalogs", given.unhealthy_catalogs.is_some()),
        ("--catalog-serving", given.catalog_serving.is_some()),
        ("--watchedNamespaces", !given.watched_namespaces.is_empty()),
        ("--release-version", given.release_version.is_some()),
        ("--client-ca", given.client_ca.is_some()),
    ] {
        if is_given && !any {
            return Err(usage(flag, "it is OLM classic's, of which nothing is among the components"));
        }
    }
    for (flag, is_given) in [
        ("--package-server-tls-cert", given.package_server_tls_cert.is_some()),
        ("--package-server-tls-key", given.package_server_tls_key.is_some()),
    ] {
        if is_given && !has(Component::PackageServer) {
            return Err(usage(flag, "it is the package server's, which is not among the components"));
        }
    }
    let named = |flag: &str, names: &[String]| -> Result<Vec<String>, Failure> {
        let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        match names.iter().find(|name| crate::named::namespace(name).is_err()) {
            Some(odd) => Err(usage(flag, format!("{odd:?} is no namespace"))),
            None => Ok(names),
        }
    };
    crate::named::namespace(&given.namespace).map_err(|_| usage("--namespace", format!("{:?} is no namespace", given.namespace)))?;
    let release = given.release_version.clone().or_else(|| std::env::var("RELEASE_VERSION").ok().filter(|text| !text.is_empty()));
    let release = release.unwrap_or_else(|| RELEASE.to_owned());
    hub::definitions(&hub::default_catalogs(), &release).map_err(|error| Failure::of(Exit::Usage, "--release-version", &error))?;
    let packages = address("--package-server-address", &given.package_server_address)?;
    if has(Component::PackageServer) && packages.is_none() {
        return Err(usage("--package-server-address", "a package server without a listener would serve no client"));
    }
    let ca = given.package_server_ca.as_ref().map(|path| {
        std::fs::read_to_string(path).map_err(|error| Failure::of(Exit::Usage, format!("--package-server-ca, {}", path.display()), &error))
    });
    notes.extend(unused(given, has_tls));
    Ok(ClassicPlan {
        namespace: given.namespace.clone(),
        unpack_timeout: duration("--bundle-unpack-timeout", &given.bundle_unpack_timeout)?,
        retry_for: duration("--install-plan-retry-timeout", &given.install_plan_retry_timeout)?,
        watched: named("--watchedNamespaces", &given.watched_namespaces)?,
        protected: named("--protectedCopiedCSVNamespaces", &given.protected_copied_csv_namespaces)?,
        resolution: given.resolution.unwrap_or_default(),
        unhealthy: given.unhealthy_catalogs.unwrap_or_default(),
        serving: serving(given),
        release,
        reports: reports(given, components)?,
        packages,
        packages_tls: pair(
            "--package-server-tls-cert, --package-server-tls-key",
            given.package_server_tls_cert.as_ref(),
            given.package_server_tls_key.as_ref(),
        )?,
        packages_ca: ca.transpose()?,
        client_ca: given.client_ca.clone().filter(|_| has_tls),
    })
}

/// The parts among the components that report, with the names of their ClusterOperators.
fn reports(given: &ClassicArguments, components: &BTreeSet<Component>) -> Result<Vec<(Part, String)>, Failure> {
    let has = |component| components.contains(&component);
    let both = has(Component::OlmOperator) && has(Component::CatalogOperator);
    let own = given.write_status_name.as_deref();
    let mut all = Vec::new();
    for (part, component, flag, name) in [
        (Part::Olm, Component::OlmOperator, "--writeStatusName", own.map(str::to_owned)),
        (
            Part::Catalog,
            Component::CatalogOperator,
            "--writeStatusName",
            own.map(|name| if both && !name.is_empty() { format!("{name}-catalog") } else { name.to_owned() }),
        ),
        (Part::Packages, Component::PackageServer, "--writePackageServerStatusName", given.write_package_server_status_name.clone()),
    ] {
        let name = name.unwrap_or_else(|| part.name().to_owned());
        if !has(component) || name.is_empty() {
            continue;
        }
        if crate::named::namespace(&name).is_err() {
            return Err(usage(flag, format!("{name:?} is no name of an object")));
        }
        all.push((part, name));
    }
    Ok(all)
}

/// The user of restricted pods, as upstream has it.
const POD_USER: i64 = 1001;

fn by_pods(given: &ClassicArguments) -> bool {
    given.catalog_serving == Some(CatalogServing::Pods)
}

fn serving(given: &ClassicArguments) -> catalog::CatalogServing {
    if !by_pods(given) {
        return catalog::CatalogServing::InProcess;
    }
    let usual = Tools::default();
    let tools = Tools {
        opm: given.opm_image.clone().unwrap_or(usual.opm),
        util: given.util_image.clone().unwrap_or(usual.util),
        config_map_server: given.configmap_server_image.clone().unwrap_or(usual.config_map_server),
        user: given.set_workload_user_id.then_some(POD_USER),
    };
    catalog::CatalogServing::Pods { tools, content: catalog::PodContent::Server }
}

/// The flags that are given and have no effect, each with the reason.
fn unused(all: &ClassicArguments, has_tls: bool) -> Vec<String> {
    let given = &all.unused;
    let in_process = !by_pods(all);
    let catalogs = "no pods serve catalogs or unpack bundles, this process does (--catalog-serving)";
    let flags = [
        ("--interval", given.interval.is_some(), "changes are watched, and looked for in intervals that cannot be set"),
        ("--configmapServerImage", in_process && all.configmap_server_image.is_some(), catalogs),
        ("--opmImage", in_process && all.opm_image.is_some(), catalogs),
        ("--util-image", in_process && all.util_image.is_some(), catalogs),
        ("--set-workload-user-id", in_process && all.set_workload_user_id, catalogs),
        ("--client-ca", all.client_ca.is_some() && !has_tls, "without --tls-cert no client presents a certificate"),
        ("--debug", given.debug, "mainstay log-level changes what is logged"),
    ];
    flags.into_iter().filter(|(_, is_given, _)| *is_given).map(|(flag, _, why)| format!("{flag} has no effect: {why}")).collect()
}

/// The parts of OLM classic, opened.
pub struct Classic {
    cluster: Cluster,
    env: Env,
    contents: SourceContents,
    catalog: Option<catalog::Setup>,
    /// Present if the package server and the marketplace act with tokens of their own accounts.
    accounts: Option<Accounts>,
}

impl Classic {
    /// Reads the settings of registries and makes the clients.
    pub fn open(plan: &Plan, cluster: &Cluster, env: &Env) -> Result<Self, Failure> {
        let has = |component| plan.components.contains(&component);
        let contents = SourceContents::default();
        let catalog = if has(Component::CatalogOperator) {
            let cache = plan.cache.join("olm-classic");
            let mut setup = catalog::Setup::new(cluster.clone(), env.clone(), cache, images::config()?);
            setup.files = Some(images::settings());
            setup.authorities.clone_from(&plan.pull_cas);
            setup.contents = contents.clone();
            setup.global_namespace.clone_from(&plan.classic.namespace);
            setup.isolation = plan.classic.resolution.into();
            setup.unhealthy_catalogs = plan.classic.unhealthy.into();
            setup.serving = plan.classic.serving.clone();
            setup.global_pull_secret.clone_from(&plan.pull_secret);
            setup.retry_for = plan.classic.retry_for;
            setup.unpack_timeout = plan.classic.unpack_timeout;
            Some(setup)
        } else {
            None
        };
        let lends = has(Component::CatalogOperator) || has(Component::OlmOperator);
        let accounts = if lends {
            let client = cluster.client().map_err(|error| Failure::failed("cluster", &error))?;
            Some(Accounts::new(cluster.clone(), client, env.clone()))
        } else {
            None
        };
        Ok(Self { cluster: cluster.clone(), env: env.clone(), contents, catalog, accounts })
    }

    /// Starts the parts.
    pub async fn start(
        self,
        plan: &Plan,
        stop: &CancellationToken,
        tasks: &mut JoinSet<Result<&'static str, Failure>>,
    ) -> Result<(), Failure> {
        if plan.components.contains(&Component::PackageServer) {
            self.package_server(plan, stop, tasks).await?;
        }
        if plan.components.contains(&Component::Marketplace) {
            let (_, release) = watch::channel(plan.classic.release.clone());
            let config = mainstay_marketplace::Config { catalogs: mainstay_marketplace::default_catalogs(), release };
            let client = self.client(mainstay_marketplace::NAMESPACE, mainstay_marketplace::ACCOUNT)?;
            let (env, until) = (self.env.clone(), stop.clone());
            tasks.spawn(async move {
                mainstay_marketplace::run_as(client, env, config, until).await;
                Ok(Component::Marketplace.name())
            });
        }
        if !plan.classic.reports.is_empty() {
            let (_, release) = watch::channel(plan.classic.release.clone());
            let setup = report::Setup {
                cluster: self.cluster.clone(),
                env: self.env.clone(),
                namespace: olm::NAMESPACE.to_owned(),
                parts: plan.classic.reports.clone(),
                release,
            };
            let until = stop.clone();
            tasks.spawn(async move {
                let reported = report::run(setup, until).await;
                reported.map(|()| "reports").map_err(|error| Failure::failed("reports to ClusterOperators", &error))
            });
        }
        if plan.components.contains(&Component::OlmOperator) {
            let mut setup = olm::Setup::new(self.cluster.clone(), self.env.clone());
            setup.watched_namespaces.clone_from(&plan.classic.watched);
            setup.protected_copied_csv_namespaces.clone_from(&plan.classic.protected);
            let (name, until) = (Component::OlmOperator.name(), stop.clone());
            tasks.spawn(async move { olm::run(setup, until).await.map(|()| name).map_err(|error| Failure::failed(name, &error)) });
        }
        if let Some(setup) = self.catalog {
            let (name, until) = (Component::CatalogOperator.name(), stop.clone());
            tasks.spawn(async move { catalog::run(setup, until).await.map(|()| name).map_err(|error| Failure::failed(name, &error)) });
        }
        Ok(())
    }

    async fn package_server(
        &self,
        plan: &Plan,
        stop: &CancellationToken,
        tasks: &mut JoinSet<Result<&'static str, Failure>>,
    ) -> Result<(), Failure> {
        let Some(address) = plan.classic.packages else { return Ok(()) };
        let flags = "--package-server-tls-cert, --package-server-tls-key";
        let given = listeners::certificates(flags, plan.classic.packages_tls.as_ref(), &self.env, stop)?;
        let listener = listen(address, given.as_ref(), plan.classic.packages_ca.as_deref()).await?;
        let endpoint = endpoint(plan, listener.address().port())?;
        tracing::info!(address = %listener.address(), ?endpoint, "packages are served");
        let setup = mainstay_package_server::Setup {
            contents: self.contents.clone(),
            global_namespace: plan.classic.namespace.clone(),
            listener,
            // Only the leader serves, so the Service selects no pods.
            selector: Labels::new(),
            endpoint,
        };
        let client = self.client(mainstay_package_server::NAMESPACE, mainstay_package_server::ACCOUNT)?;
        let (env, until) = (self.env.clone(), stop.clone());
        tasks.spawn(async move {
            mainstay_package_server::run_as(client, env, setup, until).await;
            Ok(Component::PackageServer.name())
        });
        Ok(())
    }

    /// The client of a part with an account of its own.
    fn client(&self, namespace: &str, account: &str) -> Result<kube::Client, Failure> {
        match &self.accounts {
            Some(accounts) => Ok(accounts.acting_as(Key::new(namespace, account))),
            None => self.cluster.client().map_err(|error| Failure::failed("cluster", &error)),
        }
    }
}

/// Binds the package server; if a machine has no IPv6, all interfaces are those of IPv4.
async fn listen(address: SocketAddr, given: Option<&Certificates>, ca: Option<&str>) -> Result<Listener, Failure> {
    let bind = async |address| match given {
        Some(certificates) => Listener::with_certificates(address, certificates, ca.map(str::to_owned)).await,
        None => Listener::bind(address).await,
    };
    let listener = match bind(address).await {
        Err(_) if address.ip().is_unspecified() && address.is_ipv6() => {
            bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port())).await
        }
        bound => bound,
    };
    listener.map_err(|error| Failure::failed("--package-server-address", &error))
}

/// Where the Service of the package server is to lead: to this pod.
fn endpoint(plan: &Plan, port: u16) -> Result<Option<SocketAddr>, Failure> {
    let ip = super::work::pod_address()?;
    Ok(ip.filter(|_| !plan.leases.is_empty()).map(|ip| SocketAddr::new(ip, port)))
}
