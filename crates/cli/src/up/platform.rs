//! The platform in the embedded cluster: credentials, proxy, networks (OLM0-TOKEN-21, COP-NET-01 to COP-NET-03).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use mainstay_api::Manifest;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_cloud_credential::{Simulated, fresh};
use mainstay_network_extras::fresh::{self as networks, Families};
use mainstay_objects::{ObjectRef, Until};
use mainstay_rbac::UserInfo;
use mainstay_runtime::Env;
use mainstay_terminal::errors::Failure;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::components::{Component, ESTABLISHED, apply};
use super::{Apis, Options};

/// The annotation of manifests that belong to a release of the platform, which then owns the definition.
const RELEASE: &str = "include.release.openshift.io/self-managed-high-availability";

fn cloud_credential(extensions: &mut Extensions) {
    let account = UserInfo::service_account(mainstay_cloud_credential::NAMESPACE, mainstay_cloud_credential::ACCOUNT);
    extensions.insert(TrustedIdentity(Arc::new(account)));
}

fn network_extras(extensions: &mut Extensions) {
    let account = UserInfo::service_account(mainstay_network_extras::NAMESPACE, mainstay_network_extras::ACCOUNT);
    extensions.insert(TrustedIdentity(Arc::new(account)));
}

/// Flags of the platform.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Platform")]
pub struct Arguments {
    /// The platform that the cluster pretends to be on, in token mode: operators get short-lived credentials by their tokens
    #[arg(long, value_name = "aws-sts|azure-wif|gcp-wif")]
    pub platform: Option<Platform>,
    /// The families of the networks that Network/cluster reports
    #[arg(long, value_name = "ipv4|ipv6|dual", default_value = "ipv4")]
    pub network: NetworkFamilies,
}

/// A platform in token mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Platform {
    /// AWS with the security token service.
    AwsSts,
    /// Azure with workload identity.
    AzureWif,
    /// Google with workload identity federation.
    GcpWif,
}

impl From<Platform> for fresh::Platform {
    fn from(platform: Platform) -> Self {
        match platform {
            Platform::AwsSts => Self::AwsSts,
            Platform::AzureWif => Self::AzureWif,
            Platform::GcpWif => Self::GcpWif,
        }
    }
}

/// Families of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum NetworkFamilies {
    /// IPv4 alone.
    #[default]
    Ipv4,
    /// IPv6 alone.
    Ipv6,
    /// IPv4, then IPv6.
    Dual,
}

impl From<NetworkFamilies> for Families {
    fn from(families: NetworkFamilies) -> Self {
        match families {
            NetworkFamilies::Ipv4 => Self::Ipv4,
            NetworkFamilies::Ipv6 => Self::Ipv6,
            NetworkFamilies::Dual => Self::Dual,
        }
    }
}

/// Makes the kinds and objects of the platform, and starts the components that were chosen.
pub async fn start(
    apis: &Apis,
    options: &Options,
    env: &Env,
    writer: &Writer,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
    tell: &mut impl FnMut(&str, &str, Duration),
) -> Result<(), Failure> {
    let begun = Instant::now();
    let platform = options.platform.platform.map(fresh::Platform::from);
    let families = Families::from(options.platform.network);
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed("platform", error);
    definitions(writer, &mainstay_api::platform_manifests().map_err(|error| failed(&error))?).await?;
    let status = |live: &_| fresh::infrastructure_status(live, platform, &apis.url);
    writer.keep_status(&fresh::infrastructure(), status).await.map_err(|error| failed(&error))?;
    writer.execute(&fresh::settings(platform, &apis.url), |_| {}).await.map_err(|error| failed(&*error))?;
    writer
        .keep_status(&networks::network(families), |live| networks::network_status(live, families))
        .await
        .map_err(|error| failed(&error))?;
    writer.execute(&networks::settings_once(families), |_| {}).await.map_err(|error| failed(&*error))?;
    if options.components.has(Component::CloudCredential) {
        for object in mainstay_cloud_credential::manifests() {
            apply(writer, &object).await?;
        }
        let (cluster, around, until) = (apis.in_process(cloud_credential), env.clone(), stop.clone());
        let provider = Arc::new(Simulated::new(env.clone()));
        tasks.spawn(async move {
            if let Err(error) = mainstay_cloud_credential::run(cluster, around, Some(provider), until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the cloud credential operator ended");
            }
        });
        let detail = match platform {
            Some(platform) => format!("tokens open {}, whose issuer is {}", platform.cloud().platform(), apis.url),
            None => "no cloud (--platform)".to_owned(),
        };
        tell("cloud-credential", &detail, begun.elapsed());
    }
    if options.components.has(Component::NetworkExtras) {
        for object in mainstay_network_extras::manifests() {
            apply(writer, &object).await?;
        }
        let (cluster, around, until) = (apis.in_process(network_extras), env.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = mainstay_network_extras::run(cluster, around, mainstay_network_extras::Config::default(), until).await {
                tracing::error!(error = &error as &dyn std::error::Error, "network-extras ended");
            }
        });
        tell("network-extras", "proxy and trusted certificates", begun.elapsed());
    }
    Ok(())
}

/// Applies definitions that a release of the platform has not brought itself, and waits until all are served.
pub(super) async fn definitions(writer: &Writer, manifests: &[Manifest]) -> Result<(), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::failed("manifests of the platform", error);
    let mut places = Vec::new();
    for manifest in manifests {
        let place = ObjectRef::of(&manifest.definition).map_err(|error| failed(&error))?;
        let live = writer.get(&place).await.map_err(|error| failed(&error))?;
        let is_of_a_release = live.is_some_and(|live| live["metadata"]["annotations"].get(RELEASE).is_some());
        if !is_of_a_release {
            apply(writer, &manifest.definition).await?;
        }
        places.push(place);
    }
    for place in places {
        writer.wait(&place, &Until::Healthy, ESTABLISHED).await.map_err(|error| failed(&error))?;
    }
    Ok(())
}
