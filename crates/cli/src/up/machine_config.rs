//! The Machine Config Operator of `mainstay up`: kinds, account, and the operator itself (MACH-OPER-01).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Extensions;
use mainstay_api::Manifest;
use mainstay_apiserver::TrustedIdentity;
use mainstay_apply::Writer;
use mainstay_cluster_operators::base;
use mainstay_machine_config::{ACCOUNT, Config, NAMESPACE, manifests};
use mainstay_rbac::UserInfo;
use mainstay_runtime::Env;
use mainstay_terminal::errors::Failure;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::components::apply;
use super::platform::definitions;
use super::{Apis, Options};

/// The definitions of registries' configuration.
const REGISTRIES: [&str; 4] = [
    "imagedigestmirrorsets.config.openshift.io",
    "imagetagmirrorsets.config.openshift.io",
    "imagecontentsourcepolicies.operator.openshift.io",
    "images.config.openshift.io",
];
/// Name of the component, and of its ClusterOperator.
pub const NAME: &str = "machine-config";

fn machine_config_operator(extensions: &mut Extensions) {
    extensions.insert(TrustedIdentity(Arc::new(UserInfo::service_account(NAMESPACE, ACCOUNT))));
}

/// The kinds of registries' configuration, which a release brings otherwise.
fn registries() -> Result<Vec<Manifest>, Failure> {
    let all = base::definitions().map_err(|error| Failure::failed("manifests of registries", &error))?;
    let wanted = |object: &Value| REGISTRIES.iter().any(|name| object["metadata"]["name"] == *name);
    let manifest = |object: Value| Manifest { file: String::new(), definition: object };
    Ok(all.into_iter().map(|candidate| candidate.object).filter(wanted).map(manifest).collect())
}

/// Makes kinds and account, and starts the operator. `release` is what the release that is being applied says of its operators.
#[allow(clippy::too_many_arguments, reason = "the parts of a cluster, as its neighbours get them")]
pub async fn start(
    apis: &Apis,
    options: &Options,
    env: &Env,
    writer: &Writer,
    release: Option<watch::Receiver<Arc<[Value]>>>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
    tell: &mut impl FnMut(&str, &str, Duration),
) -> Result<(), Failure> {
    let begun = Instant::now();
    let kinds = mainstay_api::machine_config_manifests().map_err(|error| Failure::failed("manifests of machine-config", &error))?;
    definitions(writer, &kinds).await?;
    if !options.release.any() {
        definitions(writer, &registries()?).await?;
    }
    for object in manifests() {
        apply(writer, &object).await?;
    }
    let config = Config { reboot: options.simulation.reboot_delay(), release };
    let (of, around, until) = (apis.in_process(machine_config_operator), env.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = mainstay_machine_config::run(of, around, config, until).await {
            tracing::error!(error = &error as &dyn std::error::Error, "the Machine Config Operator ended");
        }
    });
    tell(NAME, "configuration of nodes; disks and reboots are simulated", begun.elapsed());
    Ok(())
}
