//! The settings of the operator, from its flags and its environment (CVO-RUN-02).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mainstay_cluster_version::{Clients, Config, Images, NAMESPACE, Pace, Services};
use mainstay_release::ImageReferences;
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_runtime::Env;
use mainstay_runtime::leader::Times;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, runtime};
use mainstay_update_client::MetricsConfig;
use serde_json::Value;
use tokio::sync::watch;

use super::Start;

/// The Lease of the operator; upstream's name, so that this program and upstream's do not work at the same time.
pub const LEASE: &str = "version";
/// The folder of the pod's account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const PROFILE: &str = "self-managed-high-availability";
/// The port of the Service of metrics.
const METRICS_PORT: u16 = 9091;

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

/// The operator's settings.
pub fn config(flags: &Start, environment: &Environment, env: &Env, updates: Services, clients: Clients) -> Config {
    let own = environment.payload.iter().map(|(image, folder)| (image.clone(), Place::Folder(folder.clone()))).collect::<BTreeMap<_, _>>();
    Config {
        release_image: flags.release_image.clone(),
        releases: Arc::new(Images::new(clients, own)),
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
