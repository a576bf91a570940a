//! The settings of the operator, from its flags and its environment (CVO-RUN-02).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay_apply::Writer;
use mainstay_cluster_version::{Clients, Config, Images, NAMESPACE, Pace, PodSettings, Pods, Releases, Services};
use mainstay_cluster_version_core::payload_pod;
use mainstay_release::ImageReferences;
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_runtime::Env;
use mainstay_runtime::leader::Times;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, runtime};
use mainstay_update_client::MetricsConfig;
use serde_json::Value;
use tokio::sync::watch;

use crate::logging::Format;

/// The Lease of the operator; upstream's name, so that this program and upstream's do not work at the same time.
pub const LEASE: &str = "version";
/// The folder of the pod's account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const PROFILE: &str = "self-managed-high-availability";
/// The port of the Service of metrics.
const METRICS_PORT: u16 = 9091;

/// Flags of the operator.
#[derive(Debug, Args)]
pub struct Start {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The release to begin with [default: the one that the ClusterVersion asks for]. A cluster that is at a release stays at it
    #[arg(long, value_name = "IMAGE")]
    pub release_image: Option<String>,
    /// Where metrics are served, with --serving-cert-file; 0 means off
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9099")]
    pub listen: String,
    /// The serving certificate of metrics
    #[arg(long, value_name = "FILE", requires = "serving_key_file")]
    pub serving_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "serving_cert_file")]
    pub serving_key_file: Option<PathBuf>,
    /// The way releases are retrieved: by this process from their registry, or by pods on its node, as on OpenShift
    #[arg(long, value_name = "registry|pod", value_enum, default_value_t = Retriever::Registry, hide_possible_values = true)]
    pub retriever: Retriever,
    /// The node of this process, where --retriever pod runs its pods
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: Option<String>,
    /// The folder that --retriever pod fills: this process sees the node's folder by the same path
    #[arg(long, value_name = "DIR", default_value = payload_pod::FOLDER)]
    pub payloads_dir: PathBuf,
    /// Take every recommended update, the highest version first
    #[arg(long)]
    pub enable_auto_update: bool,
    /// The update service, before the one that the ClusterVersion names
    #[arg(long, value_name = "URL")]
    pub update_service: Option<String>,
    /// The control plane runs elsewhere: metrics are served to anybody, and the API's internal address is left alone
    #[arg(long)]
    pub hypershift: bool,
    /// Capabilities that are enabled in any case
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub always_enable_capabilities: Vec<String>,
    /// The server of metrics for risks of updates [default: the Service of --metrics-service, if the cluster has it]
    #[arg(long, value_name = "URL", help_heading = "Risks of updates")]
    pub metrics_url: Option<String>,
    /// The namespace of the Service of metrics
    #[arg(long, value_name = "NAME", default_value = "openshift-monitoring", help_heading = "Risks of updates")]
    pub metrics_namespace: String,
    /// The Service of metrics
    #[arg(long, value_name = "NAME", default_value = "thanos-querier", help_heading = "Risks of updates")]
    pub metrics_service: String,
    /// The authorities of that server [default: service-ca.crt of the pod's account]
    #[arg(long, value_name = "FILE", help_heading = "Risks of updates")]
    pub metrics_ca_bundle_file: Option<PathBuf>,
    /// The token for that server [default: that of the pod's account]
    #[arg(long, value_name = "FILE", help_heading = "Risks of updates")]
    pub metrics_token_file: Option<PathBuf>,
    /// Use the Service's name without a look whether it exists
    #[arg(long, help_heading = "Risks of updates")]
    pub use_dns_for_services: bool,
    /// Work although another operator is deployed
    #[arg(long, value_name = "NAME", value_parser = ["cluster-version"])]
    pub take_over: Option<String>,
    /// How long the Lease counts that is not renewed [default: 137s; 270s with one control plane node]
    #[arg(long, value_name = "DURATION")]
    pub leader_elect_lease_duration: Option<String>,
    /// How long the leader may fail to renew before it stops [default: 107s; 240s with one control plane node]
    #[arg(long, value_name = "DURATION")]
    pub leader_elect_renew_deadline: Option<String>,
    /// Between two looks at the Lease [default: 26s; 60s with one control plane node]
    #[arg(long, value_name = "DURATION")]
    pub leader_elect_retry_period: Option<String>,
    /// Where /healthz and /readyz are served; 0 means off
    #[arg(long, value_name = "ADDR", default_value = "0")]
    pub health_probe_bind_address: String,
    /// The layout of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub log_format: Format,
    /// Let waits and intervals of an update pass faster by this factor, for rehearsals
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub accelerate: f64,
}

/// The way in which releases are retrieved (CVO-RET-02, CVO-RET-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Retriever {
    /// This process pulls them.
    Registry,
    /// Pods that run the release image copy them to the node.
    Pod,
}

/// The environment of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The release image and the folder with its content.
    pub payload: Option<(String, PathBuf)>,
    /// The identifier of the installation whose exclusions count; empty for none.
    pub exclude_identifier: String,
    /// The profile of the cluster.
    pub profile: String,
}

impl Environment {
    /// Reads the environment of this process; `release_image` is the flag.
    pub fn of_process(release_image: Option<&str>) -> Result<Self, Failure> {
        Self::of(|name| std::env::var(name).ok(), release_image)
    }

    fn of(variable: impl Fn(&str) -> Option<String>, release_image: Option<&str>) -> Result<Self, Failure> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let payload = match (set("PAYLOAD_OVERRIDE"), release_image) {
            (Some(folder), Some(image)) => Some((image.to_owned(), PathBuf::from(folder))),
            (Some(_), None) => {
                return Err(Failure::new(Exit::Usage, "PAYLOAD_OVERRIDE", "it holds the content of --release-image, which is not given"));
            }
            (None, _) => None,
        };
        Ok(Self {
            namespace: set("CVO_NAMESPACE").unwrap_or_else(|| NAMESPACE.to_owned()),
            payload,
            exclude_identifier: set("EXCLUDE_MANIFESTS").unwrap_or_default(),
            profile: set("CLUSTER_PROFILE").unwrap_or_else(|| PROFILE.to_owned()),
        })
    }
}

/// The place of retrieval pods; none if this process retrieves releases itself.
pub fn pods(flags: &Start, environment: &Environment) -> Result<Option<PodSettings>, Failure> {
    let folder = &flags.payloads_dir;
    if flags.retriever == Retriever::Registry {
        return Ok(None);
    }
    let wrong = |flag: &str, problem: String| Err(Failure::new(Exit::Usage, flag, problem));
    let Some(node) = flags.node_name.clone().filter(|node| !node.is_empty()) else {
        return wrong("--retriever pod", "it runs its pods on the node of this process, which --node-name or NODE_NAME names".to_owned());
    };
    let parts: Option<Vec<&str>> = folder.components().skip(1).map(|part| part.as_os_str().to_str()).collect();
    match parts {
        // The pods remove what is in the folder: the root of a node is none.
        Some(parts) if folder.is_absolute() && !parts.is_empty() && !parts.contains(&"..") => {
            let folder = PathBuf::from(format!("/{}", parts.join("/")));
            Ok(Some(PodSettings { namespace: environment.namespace.clone(), node, folder }))
        }
        _ => wrong("--payloads-dir", format!("expected an absolute path below the root, found {:?}", folder.display().to_string())),
    }
}

/// The source of releases: `pods` are run with `writer`.
pub fn releases(environment: &Environment, env: &Env, clients: Clients, pods: Option<&PodSettings>, writer: &Writer) -> Arc<dyn Releases> {
    let own = environment.payload.iter().map(|(image, folder)| (image.clone(), Place::Folder(folder.clone()))).collect::<BTreeMap<_, _>>();
    let images = Images::new(clients, own);
    match pods {
        None => Arc::new(images),
        Some(settings) => Arc::new(Pods::new(images, writer.clone(), env.clone(), settings.clone())),
    }
}

/// The operator's settings.
pub fn config(flags: &Start, environment: &Environment, env: &Env, updates: Services, releases: Arc<dyn Releases>) -> Config {
    Config {
        release_image: flags.release_image.clone(),
        releases,
        updates: Arc::new(updates),
        update_service: flags.update_service.clone(),
        is_automatic: flags.enable_auto_update,
        profile: environment.profile.clone(),
        exclude_identifier: environment.exclude_identifier.clone(),
        always_enabled: flags.always_enable_capabilities.clone(),
        is_hosted: flags.hypershift,
        plays: false,
        candidates: Arc::from(Vec::new()),
        pace: Pace::new(env.fraction()).accelerated(flags.accelerate),
        expected: watch::Sender::new(Arc::from(Vec::new())),
    }
}

/// The usual times of the Lease on a cluster with this Infrastructure (CVO-RUN-03).
pub fn usual_times(infrastructure: Option<&Value>) -> Times {
    let is_single = infrastructure.is_some_and(|object| object["status"]["controlPlaneTopology"] == "SingleReplica");
    let [lease, renew, retry] = if is_single { [270, 240, 60] } else { [137, 107, 26] }.map(Duration::from_secs);
    Times { lease, renew, retry }
}

/// Where risks of updates are asked for; `has_service` says that the cluster has the Service of metrics.
pub fn metrics(flags: &Start, has_service: bool) -> MetricsConfig {
    let (namespace, service) = (&flags.metrics_namespace, &flags.metrics_service);
    let by_service = || format!("https://{service}.{namespace}.svc.cluster.local:{METRICS_PORT}");
    let of_account = |name: &str| Some(Path::new(ACCOUNT).join(name)).filter(|path| path.exists());
    MetricsConfig {
        url: flags.metrics_url.clone().or_else(|| has_service.then(by_service)),
        authorities: flags.metrics_ca_bundle_file.clone().or_else(|| of_account("service-ca.crt")),
        token: flags.metrics_token_file.clone().or_else(|| of_account("token")),
        ..MetricsConfig::default()
    }
}

/// Prints the pullspec of an image of a release (CVO-RUN-01).
pub fn image(name: &str, release: Option<&str>) -> Result<(), Failure> {
    let by_environment = || std::env::var("PAYLOAD_OVERRIDE").ok().filter(|folder| !folder.is_empty());
    let Some(text) = release.map(str::to_owned).or_else(by_environment) else {
        return Err(Failure::new(Exit::Usage, "image", "no release is given").hint("--release-image names one"));
    };
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed(format!("release {text}"), error);
    let place = Place::parse(&text).map_err(|error| failed(&error))?;
    let client = || images::plain_client().map_err(|error| ReadError::Settings(Box::new(error)));
    let read = runtime::block_on(async {
        mainstay_release_source::read(&place, client, &Limits::default()).await.map_err(|error| failed(&error))
    })?;
    let references = read.files.release("image-references").unwrap_or_default();
    let references = ImageReferences::parse(references).map_err(|error| failed(&error))?;
    match references.image(name).filter(|found| !found.image.is_empty()) {
        Some(found) => output::line(&found.image),
        None => Err(Failure::new(Exit::NotFound, format!("release {text}"), format!("has no image {name}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// CVO-RUN-03: the times of the Lease, which depend on the control plane.
    #[test]
    fn times_by_topology() {
        let of = |topology: &str| usual_times(Some(&json!({"status": {"controlPlaneTopology": topology}})));
        let seconds = |times: Times| [times.lease, times.renew, times.retry].map(|time| time.as_secs());
        assert_eq!(seconds(usual_times(None)), [137, 107, 26]);
        assert_eq!(seconds(of("HighlyAvailable")), [137, 107, 26]);
        assert_eq!(seconds(of("SingleReplica")), [270, 240, 60]);
        assert!(of("SingleReplica").check().is_ok());
    }

    /// CVO-RET-02, CVO-RET-03, CVO-RET-06: this process retrieves releases unless pods are asked for, which need a node and a folder of their own.
    #[test]
    fn retrievers() {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            start: Start,
        }
        let environment = Environment::of(|_| None, None).unwrap();
        let read = |line: &str| {
            let words = std::iter::once("run").chain(line.split_whitespace());
            pods(&Line::try_parse_from(words).unwrap().start, &environment).map_err(|failure| failure.to_line())
        };
        assert_eq!(read("--node-name n").unwrap().map(|pods| pods.node), None);
        let found = read("--retriever pod --node-name n").unwrap().unwrap();
        let expected = (NAMESPACE, "n", Path::new("/etc/cvo/updatepayloads"));
        assert_eq!((found.namespace.as_str(), found.node.as_str(), found.folder.as_path()), expected);
        assert_eq!(read("--retriever pod --node-name n --payloads-dir //a/./b/").unwrap().unwrap().folder, Path::new("/a/b"));
        assert!(read("--retriever pod --node-name=").unwrap_err().contains("--node-name or NODE_NAME"));
        for odd in ["/", "a", "/a/../..", "./a"] {
            let refused = read(&format!("--retriever pod --node-name n --payloads-dir {odd}")).unwrap_err();
            assert!(refused.contains("an absolute path below the root"), "{odd}: {refused}");
        }
        assert!(Line::try_parse_from(["run", "--retriever", "job"]).is_err());
    }

    /// CVO-RUN-02: the environment, its defaults, and a folder without the image that it stands for.
    #[test]
    fn environment() {
        let usual = Environment::of(|_| None, None).unwrap();
        assert_eq!((usual.namespace.as_str(), usual.profile.as_str(), usual.payload), (NAMESPACE, PROFILE, None));
        let all = |name: &str| Some(format!("{name}-value"));
        let set = Environment::of(all, Some("r.test/release@sha256:ab")).unwrap();
        assert_eq!(set.namespace, "CVO_NAMESPACE-value");
        assert_eq!(set.exclude_identifier, "EXCLUDE_MANIFESTS-value");
        assert_eq!(set.profile, "CLUSTER_PROFILE-value");
        assert_eq!(set.payload, Some(("r.test/release@sha256:ab".to_owned(), PathBuf::from("PAYLOAD_OVERRIDE-value"))));
        let refused = Environment::of(all, None).unwrap_err().to_line();
        assert!(refused.contains("--release-image, which is not given"), "{refused}");
    }
}
