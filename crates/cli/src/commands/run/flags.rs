//! The plan that the flags of `mainstay run` make (OLM1-GEN-09): a mistake is reported before anything starts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mainstay_cluster_operators::storage_migration;
use mainstay_olm_v1::Parts;
use mainstay_olm_v1::manifests::{CATALOGD_LEASE, OPERATOR_CONTROLLER_LEASE};
use mainstay_olm_v1_core::gates::{FeatureGates, Profile};
use mainstay_operations::settings::SYSTEM_NAMESPACE;
use mainstay_runtime::Key;
use mainstay_runtime::leader::Times;
use mainstay_terminal::errors::{Exit, Failure};

use super::Arguments;
use super::classic::{self, ClassicPlan};
use crate::durations;

/// Writes in a second of the storage migrator, unless a flag says otherwise (COP-SVM-05).
pub const MIGRATION_WRITES: u32 = 20;
/// The namespace of the pod that this process is in.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
const CATALOGS: &str = ":8443";
const EXTERNAL: &str = "catalogd-service.olmv1-system.svc";
const WEBHOOK: u16 = 9443;
const GC_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// The components that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// ClusterCatalogs.
    Catalogd,
    /// ClusterExtensions.
    OperatorController,
    /// Serving certificates.
    ServiceCa,
    /// The additions of OpenShift.
    ClusterOlmOperator,
    /// CatalogSources, Subscriptions and InstallPlans.
    CatalogOperator,
    /// ClusterServiceVersions and OperatorGroups.
    OlmOperator,
    /// PackageManifests.
    PackageServer,
    /// OperatorHub.
    Marketplace,
    /// Secrets for CredentialsRequests.
    CloudCredential,
    /// The status of the Proxy, and trusted CA certificates.
    NetworkExtras,
    /// Objects that are stored in an old version.
    StorageMigrator,
    /// The configuration of nodes.
    MachineConfig,
    /// Machines, their sets and health checks.
    MachineApi,
    /// The sizes of sets of machines.
    Autoscaler,
}

/// The webhook of catalogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The address on which it is served.
    pub address: SocketAddr,
    /// Certificate and key, unless they are those of everything else.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Component {
    /// The components of `all`. OLM classic is not part of it: it is as powerful as an administrator, and is asked for by its name.
    const ALL: [Self; 4] = [Self::Catalogd, Self::OperatorController, Self::ServiceCa, Self::ClusterOlmOperator];
    /// Components of the platform; what they are for is not on every cluster.
    const PLATFORM: [Self; 6] =
        [Self::CloudCredential, Self::NetworkExtras, Self::StorageMigrator, Self::MachineConfig, Self::MachineApi, Self::Autoscaler];
    /// The components of OLM classic.
    const CLASSIC: [Self; 4] = [Self::CatalogOperator, Self::OlmOperator, Self::PackageServer, Self::Marketplace];

    /// True for the parts of OLM classic.
    pub fn is_classic(self) -> bool {
        Self::CLASSIC.contains(&self)
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Catalogd => "catalogd",
            Self::OperatorController => "operator-controller",
            Self::ServiceCa => "service-ca",
            Self::ClusterOlmOperator => "cluster-olm-operator",
            Self::CatalogOperator => "catalog-operator",
            Self::OlmOperator => "olm-operator",
            Self::PackageServer => "package-server",
            Self::Marketplace => "marketplace",
            Self::CloudCredential => "cloud-credential",
            Self::NetworkExtras => "network-extras",
            Self::StorageMigrator => "storage-migrator",
            Self::MachineConfig => "machine-config",
            Self::MachineApi => "machine-api",
            Self::Autoscaler => "autoscaler",
        }
    }

    /// The Lease of the component; upstream's name, so that this program and upstream's do not work at the same time.
    pub fn lease(self) -> &'static str {
        match self {
            Self::Catalogd => CATALOGD_LEASE,
            Self::OperatorController => OPERATOR_CONTROLLER_LEASE,
            Self::ServiceCa => mainstay_service_ca::LEASE,
            Self::ClusterOlmOperator => mainstay_olm_v1::cluster_operator::LEASE,
            Self::CatalogOperator => mainstay_olm_classic::catalog::LEASE,
            Self::OlmOperator => mainstay_olm_classic::olm::LEASE,
            Self::PackageServer => mainstay_package_server::LEASE,
            Self::Marketplace => mainstay_marketplace::LEASE,
            Self::CloudCredential => mainstay_cloud_credential::LEASE,
            Self::NetworkExtras => mainstay_network_extras::LEASE,
            Self::StorageMigrator => storage_migration::LEASE,
            Self::MachineConfig => mainstay_machine_config::LEASE,
            Self::MachineApi => mainstay_machine_api::LEASE,
            Self::Autoscaler => mainstay_autoscaler::LEASE,
        }
    }
}

/// The settings that are known before the first request to the cluster.
#[derive(Debug)]
pub struct Plan {
    pub components: BTreeSet<Component>,
    pub health: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    /// True if no flag names the address of metrics: OLM classic works without it, as upstream's does.
    pub metrics_by_default: bool,
    pub catalogs: Option<SocketAddr>,
    pub webhook: Option<Webhook>,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The address with its scheme.
    pub external_address: String,
    pub system_namespace: String,
    /// The Leases in the order of their names; none without `--leader-elect`.
    pub leases: Vec<&'static str>,
    pub times: Times,
    pub gc_interval: Duration,
    pub pull_secret: Option<Key>,
    pub gates: FeatureGates,
    pub cache: PathBuf,
    pub catalogd_cas: Option<PathBuf>,
    pub pull_cas: Option<PathBuf>,
    pub use_own_service_account: bool,
    /// Writes in a second of the storage migrator (COP-SVM-05).
    pub migration_writes: u32,
    /// Programs that are providers of machines (MACH-PROV-08).
    pub programs: BTreeMap<String, PathBuf>,
    pub classic: ClassicPlan,
    /// Notes on requested settings that are not available.
    pub notes: Vec<String>,
}

impl Plan {
    /// True if a component of OLM classic runs.
    pub fn has_classic(&self) -> bool {
        self.components.iter().any(|component| component.is_classic())
    }

    /// The controllers of OLM v1 that run.
    pub fn olm_v1(&self) -> Option<Parts> {
        let has = |component| self.components.contains(&component);
        match (has(Component::Catalogd), has(Component::OperatorController)) {
            (true, true) => Some(Parts::Both),
            (true, false) => Some(Parts::Catalogd),
            (false, true) => Some(Parts::OperatorController),
            (false, false) => None,
        }
    }
}

pub(super) fn usage(subject: &str, problem: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, subject, problem)
}

/// Reads the flags.
pub fn plan(given: &Arguments) -> Result<Plan, Failure> {
    let components = components(&given.components)?;
    let catalogd = components.contains(&Component::Catalogd);
    let tls = pair("--tls-cert, --tls-key", given.tls_cert.as_ref(), given.tls_key.as_ref())?;
    for (flag, is_given) in [
        ("--catalogs-server-addr", given.catalogs_server_addr.is_some()),
        ("--external-address", given.external_address.is_some()),
        ("--gc-interval", given.gc_interval.is_some()),
        ("--webhook-server-port", given.webhook_server_port.is_some()),
        ("--webhook-tls-cert", given.webhook_tls_cert.is_some()),
        ("--webhook-tls-key", given.webhook_tls_key.is_some()),
    ] {
        if is_given && !catalogd {
            return Err(usage(flag, "it is catalogd's, which is not among the components"));
        }
    }
    let operator_controller = components.contains(&Component::OperatorController);
    for (flag, is_given) in
        [("--catalogd-cas-dir", given.catalogd_cas_dir.is_some()), ("--use-own-service-account", given.use_own_service_account)]
    {
        if is_given && !operator_controller {
            return Err(usage(flag, "it is operator-controller's, which is not among the components"));
        }
    }
    let is_classic = components.iter().all(|component| component.is_classic());
    let metrics = match (&given.metrics_bind_address, &tls) {
        (Some(text), _) => address("--metrics-bind-address", text)?,
        (None, Some(_)) => address("--metrics-bind-address", if catalogd { ":7443" } else { ":8443" })?,
        (None, None) if is_classic => address("--metrics-bind-address", ":8080")?,
        (None, None) => None,
    };
    if metrics.is_some() && tls.is_none() && !is_classic {
        return Err(usage("--metrics-bind-address", "it needs --tls-cert and --tls-key"));
    }
    let catalogs = given.catalogs_server_addr.as_deref().unwrap_or(CATALOGS);
    let catalogs = if catalogd { address("--catalogs-server-addr", catalogs)? } else { None };
    if catalogd && catalogs.is_none() {
        return Err(usage("--catalogs-server-addr", "catalogd without a listener would serve no client"));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let external = given.external_address.as_deref().unwrap_or(EXTERNAL);
    if external.is_empty() || external.contains(['/', ' ']) {
        return Err(usage("--external-address", format!("expected HOST or HOST:PORT, found {external:?}")));
    }
    let times = Times {
        lease: duration("--leader-elect-lease-duration", &given.leader_elect_lease_duration)?,
        renew: duration("--leader-elect-renew-deadline", &given.leader_elect_renew_deadline)?,
        retry: duration("--leader-elect-retry-period", &given.leader_elect_retry_period)?,
    };
    if given.leader_elect {
        times.check().map_err(|problem| usage("--leader-elect", problem))?;
    }
    let gc_interval = given.gc_interval.as_deref().map_or(Ok(GC_INTERVAL), |text| duration("--gc-interval", text))?;
    let mut notes = Vec::new();
    if address("--pprof-bind-address", &given.pprof_bind_address)?.is_some() {
        notes.push("--pprof-bind-address: this program has no profiles to serve".to_owned());
    }
    let classic = classic::plan(&given.classic, &components, tls.is_some(), &mut notes)?;
    for (flag, folder) in [("--catalogd-cas-dir", &given.catalogd_cas_dir), ("--pull-cas-dir", &given.pull_cas_dir)] {
        if let Some(folder) = folder
            && !folder.is_dir()
        {
            return Err(usage(flag, format!("{} is no folder", folder.display())));
        }
    }
    Ok(Plan {
        health: address("--health-probe-bind-address", &given.health_probe_bind_address)?,
        metrics,
        metrics_by_default: given.metrics_bind_address.is_none() && is_classic,
        catalogs,
        webhook: if catalogd { webhook(given, tls.is_some())? } else { None },
        tls,
        external_address: format!("{scheme}://{external}"),
        system_namespace: system_namespace(given.system_namespace.as_deref(), Path::new(OWN_NAMESPACE), &components)?,
        leases: if given.leader_elect { components.iter().map(|component| component.lease()).collect() } else { Vec::new() },
        times,
        gc_interval,
        pull_secret: given.global_pull_secret.as_deref().map(pull_secret).transpose()?,
        gates: FeatureGates::parse(Profile::Run, &given.feature_gates)
            .map_err(|error| Failure::of(Exit::Usage, "--feature-gates", &error))?,
        cache: given.cache_path.clone(),
        catalogd_cas: given.catalogd_cas_dir.clone(),
        pull_cas: given.pull_cas_dir.clone(),
        use_own_service_account: given.use_own_service_account,
        migration_writes: given.migration_writes_per_second,
        programs: programs(&given.provider, &components)?,
        classic,
        components,
        notes,
    })
}

/// The programs that are providers.
fn programs(given: &[String], components: &BTreeSet<Component>) -> Result<BTreeMap<String, PathBuf>, Failure> {
    if !given.is_empty() && !components.contains(&Component::MachineApi) {
        return Err(usage("--provider", "it is machine-api's, which is not among the components"));
    }
    let mut programs = BTreeMap::new();
    for text in given {
        let Some((name, program)) = text.split_once('=').filter(|(name, program)| !name.is_empty() && !program.is_empty()) else {
            return Err(usage("--provider", format!("expected NAME=PROGRAM, found {text:?}")));
        };
        let path = PathBuf::from(program);
        if !path.is_file() {
            return Err(usage("--provider", format!("{program} is no file")));
        }
        if programs.insert(name.to_owned(), path).is_some() {
            return Err(usage("--provider", format!("{name} is given twice")));
        }
    }
    Ok(programs)
}

/// A certificate and its key.
pub(super) fn pair(flags: &str, cert: Option<&PathBuf>, key: Option<&PathBuf>) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some((cert.clone(), key.clone()))),
        (None, None) => Ok(None),
        _ => Err(usage(flags, "they are given only together")),
    }
}

/// The webhook of catalogs: API servers call no webhook without a certificate.
fn webhook(given: &Arguments, has_usual: bool) -> Result<Option<Webhook>, Failure> {
    let tls = pair("--webhook-tls-cert, --webhook-tls-key", given.webhook_tls_cert.as_ref(), given.webhook_tls_key.as_ref())?;
    let has_certificate = tls.is_some() || has_usual;
    let port = match given.webhook_server_port {
        Some(0) => return Ok(None),
        Some(_) if !has_certificate => {
            return Err(usage("--webhook-server-port", "it needs --webhook-tls-cert or --tls-cert, and their keys"));
        }
        Some(port) => port,
        None if has_certificate => WEBHOOK,
        None => return Ok(None),
    };
    Ok(Some(Webhook { address: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port), tls }))
}

fn components(names: &[String]) -> Result<BTreeSet<Component>, Failure> {
    let olm_v1 = [Component::Catalogd, Component::OperatorController];
    let mut chosen = BTreeSet::new();
    for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        match name {
            "olm-v1" => chosen.extend(olm_v1),
            "olm-classic" => chosen.extend(Component::CLASSIC),
            "all" => chosen.extend(Component::ALL),
            _ => match Component::ALL.into_iter().chain(Component::CLASSIC).chain(Component::PLATFORM).find(|known| known.name() == name) {
                Some(component) => {
                    chosen.insert(component);
                }
                None => {
                    return Err(usage("components", format!("{name} cannot be run by this version of mainstay"))
                        .hint("there are olm-v1 (catalogd and operator-controller), service-ca, cluster-olm-operator, and all; olm-classic (catalog-operator, \
                            olm-operator, package-server and marketplace); cloud-credential; network-extras; storage-migrator; machine-config; machine-api; autoscaler"));
                }
            },
        }
    }
    if chosen.is_empty() { Err(usage("components", "none is named")) } else { Ok(chosen) }
}

fn system_namespace(given: Option<&str>, own: &Path, components: &BTreeSet<Component>) -> Result<String, Failure> {
    if let Some(given) = given {
        return if given.is_empty() { Err(usage("--system-namespace", "it is empty")) } else { Ok(given.to_owned()) };
    }
    match std::fs::read_to_string(own) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let is_alone = |component: Component| components.iter().eq([&component]);
            let is_classic = components.iter().all(|component| component.is_classic());
            let homes = [
                (is_classic, mainstay_olm_classic::olm::NAMESPACE),
                (is_alone(Component::ServiceCa), mainstay_service_ca::NAMESPACE),
                (is_alone(Component::CloudCredential), mainstay_cloud_credential::NAMESPACE),
                (is_alone(Component::NetworkExtras), mainstay_network_extras::NAMESPACE),
                (is_alone(Component::StorageMigrator), storage_migration::NAMESPACE),
                (is_alone(Component::MachineConfig), mainstay_machine_config::NAMESPACE),
                (is_alone(Component::MachineApi), mainstay_machine_api::NAMESPACE),
                (is_alone(Component::Autoscaler), mainstay_autoscaler::NAMESPACE),
            ];
            Ok(homes.into_iter().find(|(fits, _)| *fits).map_or(SYSTEM_NAMESPACE, |(_, home)| home).to_owned())
        }
        Err(error) => Err(Failure::of(Exit::Usage, format!("--system-namespace, {}", own.display()), &error)),
    }
}

fn pull_secret(text: &str) -> Result<Key, Failure> {
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(Key::new(*namespace, *name)),
        _ => Err(usage("--global-pull-secret", format!("expected NAMESPACE/NAME, found {text:?}"))),
    }
}

/// Parses an address as Go's programs write it: `HOST:PORT`, `:PORT` for all interfaces, `0` or nothing for none.
pub(super) fn address(flag: &str, text: &str) -> Result<Option<SocketAddr>, Failure> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let wrong = || usage(flag, format!("expected HOST:PORT, :PORT or 0, found {text:?}"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().map_err(|_| wrong())?,
    };
    Ok(Some(SocketAddr::new(host, port)))
}

/// Parses a duration as Go writes it: `12h`, `1m30s`, `500ms`.
pub(super) fn duration(flag: &str, text: &str) -> Result<Duration, Failure> {
    let wrong = || usage(flag, format!("expected a duration such as 90s or 1h30m, found {text:?}"));
    durations::go(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn read(line: &str) -> Result<Plan, Failure> {
        let words = std::iter::once("run").chain(line.split_whitespace());
        plan(&Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).arguments)
    }

    fn refused(line: &str) -> String {
        let failure = read(line).map(|_| ()).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage, "{line}");
        failure.to_line()
    }

    /// OLM1-GEN-09, OLM1-GEN-01: the defaults of both controllers, together and apart.
    #[test]
    fn defaults() {
        let both = read("olm-v1").unwrap();
        assert_eq!(both.olm_v1(), Some(Parts::Both));
        let any = |port| Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
        assert_eq!((both.health, both.metrics, both.catalogs), (any(8081), None, any(8443)));
        assert_eq!(both.external_address, "http://catalogd-service.olmv1-system.svc");
        assert_eq!((both.gc_interval, both.cache.as_path()), (Duration::from_secs(43_200), Path::new("/var/cache")));
        assert!(both.leases.is_empty() && both.pull_secret.is_none() && both.notes.is_empty());
        assert_eq!(both.system_namespace, "olmv1-system");
        assert_eq!(
            read("service-ca").unwrap().system_namespace,
            "openshift-service-ca",
            "where mainstay deploy gives it permissions on its Lease"
        );
        let migrator = read("storage-migrator --leader-elect").unwrap();
        assert_eq!(
            (migrator.system_namespace.as_str(), &migrator.leases[..]),
            (storage_migration::NAMESPACE, &["storage-version-migrator-lock"][..])
        );
        let machines = read("machine-api --leader-elect").unwrap();
        assert_eq!(
            (machines.system_namespace.as_str(), &machines.leases[..]),
            ("openshift-machine-api", &["cluster-api-provider-machineset-leader"][..])
        );
        let scaled = read("autoscaler --leader-elect").unwrap();
        assert_eq!(
            (scaled.system_namespace.as_str(), &scaled.leases[..]),
            ("openshift-machine-api", &["cluster-autoscaler-operator-leader"][..])
        );
        assert_eq!(read("service-ca,catalogd").unwrap().system_namespace, "olmv1-system");
        assert!(both.gates.on("WebhookProviderCertManager") && !both.gates.on("PreflightPermissions"));
        let apart = read("operator-controller --tls-cert c --tls-key k --leader-elect").unwrap();
        assert_eq!((apart.metrics, apart.catalogs, apart.olm_v1()), (any(8443), None, Some(Parts::OperatorController)));
        assert_eq!(apart.leases, ["9c4404e7.operatorframework.io"]);
        let seconds = Duration::from_secs;
        assert_eq!(apart.times, Times { lease: seconds(137), renew: seconds(107), retry: seconds(26) });
        let apart = read("catalogd --tls-cert c --tls-key k --leader-elect=true --cache-dir /c/").unwrap();
        assert_eq!((apart.metrics, apart.catalogs, apart.cache.as_path()), (any(7443), any(8443), Path::new("/c/")));
        assert_eq!(apart.external_address, "https://catalogd-service.olmv1-system.svc");
        assert_eq!(read("all --leader-elect=false").unwrap().components.len(), 4);
    }

    /// OLM1-CAT-03, OLM1-GEN-09: the webhook is served at upstream's port once there is a certificate, which may be one of its own.
    #[test]
    fn the_webhook_needs_a_certificate() {
        let port = |line: &str| read(line).unwrap().webhook.map(|webhook| webhook.address.port());
        assert_eq!(port("catalogd"), None);
        assert_eq!(port("catalogd --webhook-server-port 0"), None);
        assert_eq!(port("operator-controller --tls-cert c --tls-key k"), None);
        assert_eq!(port("olm-v1 --tls-cert c --tls-key k"), Some(9443));
        assert_eq!(port("catalogd --tls-cert c --tls-key k --webhook-server-port 0"), None);
        assert_eq!(port("catalogd --tls-cert c --tls-key k --webhook-server-port 9444"), Some(9444));
        let own = read("catalogd --webhook-tls-cert c --webhook-tls-key k").unwrap();
        assert_eq!((own.tls, own.webhook.and_then(|webhook| webhook.tls)), (None, Some(("c".into(), "k".into()))));
        assert_eq!(refused("catalogd --webhook-server-port 9443"), "it needs --webhook-tls-cert or --tls-cert, and their keys");
        assert_eq!(refused("catalogd --webhook-tls-cert c"), "they are given only together");
        assert!(refused("operator-controller --webhook-tls-cert c").contains("catalogd's"));
    }

    /// OLM1-GEN-09, OLM1-GEN-08, MS-CLI-04: mistakes are told at once, with exit code 2.
    #[test]
    fn mistakes() {
        assert_eq!(refused("olm-v1 --tls-cert c"), "they are given only together");
        assert_eq!(refused("olm-v1 --metrics-bind-address :7443"), "it needs --tls-cert and --tls-key");
        for odd in ["a", "a/b/c", "/b", "a/"] {
            assert_eq!(refused(&format!("olm-v1 --global-pull-secret {odd}")), format!("expected NAMESPACE/NAME, found {odd:?}"));
        }
        assert!(refused("operator-controller --gc-interval 1h").contains("catalogd's"));
        assert!(refused("catalogd --use-own-service-account").contains("operator-controller's"));
        assert!(refused("olm-v1 --gc-interval 12").contains("expected a duration"));
        assert!(refused("olm-v1 --health-probe-bind-address nowhere").contains("HOST:PORT"));
        assert!(refused("olm-v1 --feature-gates Nonsense=true").contains("unrecognized feature gate: Nonsense"));
        assert!(refused("olm-v1 --leader-elect --leader-elect-lease-duration 1s").contains("leaseDuration must be greater"));
        assert!(refused("olm-v1 --pull-cas-dir /does/not/exist").contains("is no folder"));
        assert!(refused("console").contains("cannot be run"));
        assert!(refused("machine-api --provider x").contains("NAME=PROGRAM"));
        assert!(refused("machine-api --provider x=/does/not/exist").contains("is no file"));
        assert!(refused("catalogd --provider x=/bin/sh").contains("machine-api's"));
        assert_eq!(read("machine-api --provider x=/bin/sh").unwrap().programs["x"], Path::new("/bin/sh"));
        assert_eq!(read("olm-v1 --pprof-bind-address :6060").unwrap().notes.len(), 1);
    }

    /// OLM0-CAT-33, OLM0-API-01: OLM classic by itself, together and apart; upstream's names and defaults.
    #[test]
    fn olm_classic() {
        let whole = read("olm-classic --leader-elect").unwrap();
        assert_eq!(whole.components.len(), 4);
        assert_eq!(whole.leases, ["catalog-operator-lock", "olm-operator-lock", "packageserver-lock", "marketplace-operator-lock"]);
        assert_eq!(whole.system_namespace, "openshift-operator-lifecycle-manager");
        let classic = &whole.classic;
        assert_eq!(
            (classic.namespace.as_str(), &classic.watched, &classic.protected[..]),
            ("openshift-marketplace", &Vec::new(), &["openshift".to_owned()][..])
        );
        assert_eq!((classic.unpack_timeout, classic.retry_for), (Duration::from_secs(600), Duration::from_secs(60)));
        assert_eq!(classic.packages.map(|address| address.port()), Some(5443));
        let apart = read("olm-operator --watchedNamespaces team-a,team-b --protectedCopiedCSVNamespaces=openshift,shared").unwrap();
        assert_eq!((&apart.classic.watched[..], apart.classic.protected.len()), (&["team-a".to_owned(), "team-b".to_owned()][..], 2));
        assert!(!read("all").unwrap().has_classic(), "it is asked for by its name");
        assert_eq!(read("marketplace,catalogd").unwrap().system_namespace, "olmv1-system");
    }

    /// OLM0-MET-03: metrics and health of OLM classic are at 8080, and with a certificate at 8443; beside OLM v1 its rules hold.
    #[test]
    fn metrics_of_olm_classic() {
        for (line, port) in [
            ("olm-classic", Some(8080)),
            ("olm-operator", Some(8080)),
            ("catalog-operator,package-server", Some(8080)),
            ("marketplace", Some(8080)),
            ("catalog-operator --tls-cert c --tls-key k", Some(8443)),
            ("olm-operator --metrics-bind-address :9090", Some(9090)),
            ("olm-operator --metrics-bind-address 0", None),
            ("olm-operator --tls-cert c --tls-key k --metrics-bind-address=", None),
            ("olm-operator,operator-controller", None),
            ("service-ca", None),
        ] {
            assert_eq!(read(line).unwrap().metrics.map(|address| address.port()), port, "{line}");
        }
        assert!(
            read("olm-operator").unwrap().metrics_by_default
                && !read("olm-operator --metrics-bind-address :8080").unwrap().metrics_by_default
        );
        assert_eq!(refused("olm-operator,catalogd --metrics-bind-address :8080"), "it needs --tls-cert and --tls-key");
        let mutual = read("olm-operator --tls-cert c --tls-key k --client-ca a").unwrap();
        assert_eq!((mutual.classic.client_ca, mutual.notes.len()), (Some("a".into()), 0));
        assert!(refused("catalogd --client-ca a").contains("OLM classic's"));
    }

    /// OLM0-CAT-33, OLM0-CAT-34: upstream's flags that mean nothing here are accepted, and each says why it has no effect.
    #[test]
    fn flags_without_effect() {
        let line = "olm-classic --interval 5m --configmapServerImage a --opmImage b --util-image c --set-workload-user-id=true \
            --client-ca f --debug";
        let notes = read(line).unwrap().notes;
        assert_eq!(notes.len(), 7, "{notes:?}");
        assert!(notes.iter().all(|note| note.starts_with("--") && note.contains(" has no effect: ")), "{notes:?}");
        assert!(read("olm-classic --set-workload-user-id=false").unwrap().notes.is_empty());
        // With pods they have one.
        let line = "olm-classic --catalog-serving pods --configmapServerImage a --opmImage b --util-image c --set-workload-user-id=true";
        let by_pods = read(line).unwrap();
        assert!(by_pods.notes.is_empty(), "{:?}", by_pods.notes);
        let mainstay_olm_classic::catalog::CatalogServing::Pods { tools, content } = by_pods.classic.serving else { panic!("not by pods") };
        assert_eq!((tools.config_map_server.as_str(), tools.opm.as_str(), tools.util.as_str(), tools.user), ("a", "b", "c", Some(1001)));
        assert_eq!(content, mainstay_olm_classic::catalog::PodContent::Server);
    }

    /// OLM0-CAT-33: the names of the ClusterOperators; an empty one asks for none.
    #[test]
    fn names_of_cluster_operators() {
        let names = |line: &str| read(line).unwrap().classic.reports.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        let usual = ["operator-lifecycle-manager", "operator-lifecycle-manager-catalog", "operator-lifecycle-manager-packageserver"];
        assert_eq!(names("olm-classic"), usual);
        assert_eq!(names("olm-classic --writeStatusName=a --writePackageServerStatusName="), ["a", "a-catalog"]);
        assert_eq!(names("catalog-operator --writeStatusName mine"), ["mine"]);
        assert!(names("olm-operator --writeStatusName=").is_empty());
        assert!(refused("olm-operator --writeStatusName=Odd/Name").contains("is no name of an object"));
    }

    /// OLM0-CAT-33, MS-CLI-04: mistakes with OLM classic are told at once.
    #[test]
    fn mistakes_with_olm_classic() {
        assert!(refused("package-server").contains("catalog-operator"));
        assert!(refused("olm-operator --package-server-tls-cert c --package-server-tls-key k").contains("the package server's"));
        assert_eq!(refused("olm-classic --package-server-tls-cert c"), "they are given only together");
        assert!(refused("olm-classic --watchedNamespaces Team").contains("is no namespace"));
        assert!(refused("olm-classic --namespace Team").contains("is no namespace"));
        assert!(refused("olm-classic --bundle-unpack-timeout 10").contains("expected a duration"));
        assert!(refused("olm-classic --package-server-address 0").contains("would serve no client"));
        assert!(!refused("olm-classic --release-version newest").is_empty());
        assert!(refused("catalogd --unhealthy-catalogs isolate").contains("OLM classic's"));
        assert!(refused("catalogd --catalog-serving pods").contains("OLM classic's"));
        assert!(
            refused("olm-classic --package-server-tls-cert c --package-server-tls-key k --package-server-ca /does/not/exist")
                .contains("No such file")
        );
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0), ("0s", 0)] {
            assert_eq!(duration("f", text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for odd in ["", "s", "-1s", "1", "99999999999999999999h"] {
            assert!(duration("f", odd).is_err(), "{odd}");
        }
    }
}
