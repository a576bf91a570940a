//! Releases of the embedded cluster (CVO-SIM-01): `mainstay up --release`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_cluster_operators::{base, cluster_config, player, samples};
use mainstay_cluster_version::{Config, Images, NAMESPACE, Pace, Services};
use mainstay_cluster_version_core::stand_in::Candidate;
use mainstay_objects::ObjectRef;
use mainstay_oci::Digest;
use mainstay_rbac::UserInfo;
use mainstay_release::{Files, Folder};
use mainstay_release_source::{Limits, Place, ReadError};
use mainstay_runtime::Env;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images;
use mainstay_update_client::{Metrics, MetricsConfig};
use mainstay_update_graph::{GraphData, Release, ReleaseMetadata};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::components::{Component, apply};
use super::platform::definitions;
use super::{Apis, Options};

/// The repository of releases that were given as files.
const REPOSITORY: &str = "mainstay.local/release";
/// The profile of the cluster.
const PROFILE: &str = "self-managed-high-availability";
/// The ClusterOperator of component `olm-classic` that has settings of its own.
const MARKETPLACE: &str = "marketplace";
/// The largest script, in bytes.
const LARGEST_SCRIPT: u64 = 1 << 20;

fn operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::new(
        format!("system:serviceaccount:{NAMESPACE}:default"),
        &["system:masters", "system:serviceaccounts", "system:authenticated"],
    ))));
}

fn account(extensions: &mut Extensions, name: &str) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(mainstay_cluster_operators::NAMESPACE, name))));
}

fn status_player(extensions: &mut Extensions) {
    account(extensions, mainstay_cluster_operators::ACCOUNT);
}

fn config_operator(extensions: &mut Extensions) {
    account(extensions, cluster_config::ACCOUNT);
}

fn samples_operator(extensions: &mut Extensions) {
    account(extensions, samples::ACCOUNT);
}

/// Flags of releases.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Releases")]
pub struct Arguments {
    /// Install this release, and keep the cluster at it: a payload's folder, an OCI layout, an archive, or an image. Repeated: releases that the
    /// cluster can be updated to
    #[arg(long, value_name = "DIR|IMAGE")]
    pub release: Vec<String>,
    /// The channel of updates [default: stable-X.Y of the first release if there are several]
    #[arg(long, value_name = "CHANNEL", requires = "release")]
    pub channel: Option<String>,
    /// The update service [default: the releases that were given, if there are several]
    #[arg(long, value_name = "URL", requires = "release")]
    pub update_service: Option<String>,
    /// Channels and known issues of the releases that were given, as an update service reads them: a folder with channels/ and blocked-edges/
    #[arg(long, value_name = "DIR", requires = "release", conflicts_with = "update_service")]
    pub graph_data: Option<PathBuf>,
    /// A server of metrics for risks of updates, as Prometheus serves them
    #[arg(long, value_name = "URL", requires = "release")]
    pub metrics_url: Option<String>,
    /// Let waits and intervals of an update pass faster by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "release")]
    pub accelerate: f64,
    /// How the played cluster operators behave: durations and failures by name (YAML)
    #[arg(long, value_name = "FILE", requires = "release")]
    pub script: Option<PathBuf>,
}

/// A release that was given.
struct Given {
    image: String,
    place: Place,
    metadata: ReleaseMetadata,
}

impl Arguments {
    /// Returns true if the cluster has a release.
    pub fn any(&self) -> bool {
        !self.release.is_empty()
    }

    /// Channels and blocked edges of the releases that were given.
    pub fn graph_data(&self) -> Result<Option<GraphData>, Failure> {
        let Some(path) = &self.graph_data else { return Ok(None) };
        let subject = format!("--graph-data {}", path.display());
        let files = mainstay_update_service::graph_data_from_directory(path).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
        GraphData::read(&files).map(Some).map_err(|error| Failure::of(Exit::Usage, &subject, &error))
    }

    /// The script of the player.
    pub fn script(&self) -> Result<player::Script, Failure> {
        let Some(path) = &self.script else { return Ok(player::Script::default().accelerated(self.accelerate)) };
        let subject = format!("--script {}", path.display());
        let text = read(path).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
        let script = player::Script::read(&text).map_err(|error| Failure::of(Exit::Usage, &subject, &error))?;
        Ok(script.accelerated(self.accelerate))
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST_SCRIPT + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads the releases that were given.
async fn given(arguments: &Arguments) -> Result<Vec<Given>, Failure> {
    let mut all: Vec<Given> = Vec::new();
    for text in &arguments.release {
        let subject = format!("--release {text}");
        let place = Place::parse(text).map_err(|error| Failure::failed(&subject, &error))?;
        let client = || images::plain_client().map_err(|error| ReadError::Settings(Box::new(error)));
        let release = mainstay_release_source::read(&place, client, &Limits::default()).await;
        let release = release.map_err(|error| Failure::failed(&subject, &error))?;
        let digest = release.image.as_ref().map_or_else(|| fingerprint(&release.files), |image| image.listed.clone());
        let image = match &place {
            Place::Image(text) => format!("{}@{digest}", repository(text)),
            _ => format!("{REPOSITORY}@{digest}"),
        };
        let content = release.files.release("release-metadata").unwrap_or_default();
        let metadata = ReleaseMetadata::parse(content).map_err(|error| Failure::failed(&subject, &error))?;
        if let Some(other) = all.iter().find(|other| other.metadata.version == metadata.version) {
            let message = format!("has version {}, as {} does", metadata.version, other.image);
            return Err(Failure::new(Exit::Usage, subject, message));
        }
        all.push(Given { image, place, metadata });
    }
    Ok(all)
}

/// The digest of a payload that is no image: that of the list of its files with their digests.
fn fingerprint(files: &Files) -> String {
    let line = |(folder, name, content): (Folder, &str, &[u8])| format!("{}/{name} {}\n", folder.name(), Digest::of(content));
    let list = files.ordered().map(line).collect::<Vec<_>>().concat();
    Digest::of(list.as_bytes()).to_string()
}

/// The name of an image without tag and digest.
pub fn repository(text: &str) -> &str {
    let text = text.split_once('@').map_or(text, |(name, _)| name);
    match text.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => text,
    }
}

/// Makes the kinds and the ClusterVersion, and starts the operator and the player.
pub async fn start(
    apis: &Apis,
    options: &Options,
    env: &Env,
    writer: &Writer,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
    tell: &mut impl FnMut(&str, &str, Duration),
) -> Result<Option<watch::Receiver<Arc<[Value]>>>, Failure> {
    let begun = Instant::now();
    let arguments = &options.release;
    let script = arguments.script()?;
    let given = given(arguments).await?;
    let Some(first) = given.first() else { return Ok(None) };
    let manifests = mainstay_api::release_manifests().map_err(|error| Failure::failed("manifests of releases", &error))?;
    definitions(writer, &manifests).await?;
    apply(writer, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await?;
    let (image, is_new) = cluster_version(writer, env, arguments, &given, first).await?;

    let (expected, followed) = watch::channel(Arc::from(Vec::new()));
    let architecture = |metadata: &ReleaseMetadata| if metadata.is_multi() { "multi" } else { mainstay_cluster_version::go_architecture() };
    let known = given.iter().filter_map(|one| Release::of_image(one.image.clone(), "", architecture(&one.metadata), one.metadata.clone()));
    let (several, graph_data) = (given.len() > 1, arguments.graph_data()?);
    let metrics = MetricsConfig { url: arguments.metrics_url.clone(), ..MetricsConfig::default() };
    let agent = mainstay_update_client::user_agent(&first.metadata.version.to_string());
    let clients = Arc::new(|| images::plain_client().map_err(|error| ReadError::Settings(Box::new(error))));
    let places: BTreeMap<String, Place> = given.iter().map(|one| (one.image.clone(), one.place.clone())).collect();
    let local = places.into_iter().filter(|(_, place)| !matches!(place, Place::Image(_))).collect();
    let config = Config {
        release_image: Some(image),
        releases: Arc::new(Images::new(clients, local)),
        updates: Arc::new(match graph_data {
            Some(data) => Services::new(known.collect(), Metrics::new(metrics), agent).with_graph_data(data),
            None => Services::new(if several { known.collect() } else { Vec::new() }, Metrics::new(metrics), agent),
        }),
        update_service: None,
        is_automatic: false,
        profile: PROFILE.to_owned(),
        exclude_identifier: String::new(),
        always_enabled: Vec::new(),
        is_hosted: false,
        plays: true,
        candidates: candidates(options)?.into(),
        pace: Pace::new(env.fraction()).accelerated(arguments.accelerate),
        expected,
    };
    let (of, around, until) = (apis.in_process(operator), env.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = mainstay_cluster_version::run(of, around, config, until).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the Cluster Version Operator ended");
        }
    });
    let accounts = [mainstay_cluster_operators::manifests(), cluster_config::manifests(), samples::manifests()];
    for object in accounts.iter().flatten() {
        apply(writer, object).await?;
    }
    let mut reported: BTreeSet<String> = [cluster_config::OPERATOR, samples::OPERATOR].map(str::to_owned).into();
    if options.components.has(Component::MachineConfig) {
        reported.insert(super::machine_config::NAME.to_owned());
    }
    if options.components.has(Component::MachineApi) {
        reported.extend(mainstay_machine_api::OPERATORS.map(str::to_owned));
    }
    if options.components.has(Component::MachineApi) || options.components.has(Component::Autoscaler) {
        reported.insert(mainstay_autoscaler::OPERATOR.to_owned());
    }
    let play =
        player::run(apis.in_process(status_player), env.clone(), player::Config { script, reported }, followed.clone(), stop.clone());
    let config = cluster_config::run(apis.in_process(config_operator), env.clone(), followed.clone(), stop.clone());
    let samples = samples::run(apis.in_process(samples_operator), env.clone(), followed.clone(), stop.clone());
    tasks.spawn(watched("status player", play));
    tasks.spawn(watched("config operator", config));
    tasks.spawn(watched("samples operator", samples));
    let doing = if is_new { format!("installs {}", first.metadata.version) } else { "goes on".to_owned() };
    tell("cluster-version", &format!("{doing}; its operators are played"), begun.elapsed());
    Ok(Some(followed))
}

/// Runs a loop, and tells if it ends by an error.
async fn watched(name: &'static str, running: impl Future<Output = Result<(), mainstay_cluster_operators::Error>>) {
    if let Err(error) = running.await {
        tracing::error!(error = &error as &dyn std::error::Error, "the {name} ended");
    }
}

/// The settings that operators of the release leave to this program. Those of a component that runs are its own.
fn candidates(options: &Options) -> Result<Vec<Candidate>, Failure> {
    let all = base::candidates().map_err(|error| Failure::failed("settings of operators", &error))?;
    let has_hub = options.components.has(Component::OlmClassic);
    Ok(all.into_iter().filter(|candidate| !has_hub || candidate.operator != MARKETPLACE).collect())
}

/// The ClusterVersion, made if there is none; and the pullspec of the operator's own release: the one that the cluster is at, since the operator
/// replaces itself (CVO-GRAPH-09).
async fn cluster_version(
    writer: &Writer,
    env: &Env,
    arguments: &Arguments,
    given: &[Given],
    first: &Given,
) -> Result<(String, bool), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed("clusterversion version", error);
    let version = &first.metadata.version;
    let channel =
        arguments.channel.clone().or_else(|| (given.len() > 1).then(|| format!("stable-{}.{}", version.major(), version.minor())));
    let mut object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": uuid(env), "channel": channel.unwrap_or_default()},
    });
    if let Some(service) = &arguments.update_service {
        object["spec"]["upstream"] = json!(service);
    }
    let place = ObjectRef::of(&object).map_err(|error| failed(&error))?;
    let live = writer.get(&place).await.map_err(|error| failed(&error))?;
    let Some(live) = live else {
        writer.create(&object).await.map_err(|error| failed(&error))?;
        return Ok((first.image.clone(), true));
    };
    let at = live["status"]["desired"]["image"].as_str().filter(|image| !image.is_empty());
    Ok((at.unwrap_or(&first.image).to_owned(), at.is_none()))
}

/// A random UUID of version 4.
pub fn uuid(env: &Env) -> String {
    let random = u128::from(env.random()) << 64 | u128::from(env.random());
    // The version and the variant have places of their own.
    let id = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{id:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-SIM-01: the repository of a pullspec with a tag, a digest or neither.
    #[test]
    fn repositories() {
        for (text, expected) in [
            ("registry.example/release:4.19.1", "registry.example/release"),
            ("registry.example:5000/release", "registry.example:5000/release"),
            ("registry.example:5000/a/b:x@sha256:00", "registry.example:5000/a/b"),
        ] {
            assert_eq!(repository(text), expected);
        }
    }

    /// CVO-API-03: cluster IDs are UUIDs of version 4.
    #[test]
    fn cluster_ids() {
        let id = uuid(&Env::system());
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!((parts, &id[14..15]), (vec![8, 4, 4, 4, 12], "4"));
        assert!("89ab".contains(&id[19..20]), "{id}");
    }
}
