//! ClusterExtensions of a cluster: what is chosen for one, what it needs, how it comes along.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use mainstay_api::condition::{self, Status};
use mainstay_api::olm_v1::{ClusterExtension, WATCH_NAMESPACE};
use mainstay_apply::WriteError;
use mainstay_bundle::rights::{ExtensionRef, Grant, derive};
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, gates, render};
use mainstay_lifecycle::revision::{History, Record};
use mainstay_objects::{ObjectRef, Until};
use mainstay_olm_v1_core::extension::{explain, webhooks};
use mainstay_resolver::{InstalledBundle, Request, Resolution, UpgradeConstraintPolicy};
use serde_json::Value;

use crate::cluster::{Session, not_written, refused};
use crate::errors::{Exit, Failure};
use crate::market::{Market, only};
use crate::progress::Progress;
use crate::{bundles, images, records};

/// `apiVersion` of a ClusterExtension.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// How often the state is looked at while waiting.
const LOOK: Duration = Duration::from_millis(150);
/// How long a workload is waited for before its state is looked at.
const GLANCE: Duration = Duration::from_secs(1);
/// Pods of one workload that are read.
const PODS: u32 = 50;

/// What is wanted of the catalogs.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The package.
    pub package: String,
    /// The channels.
    pub channels: Vec<String>,
    /// The version range.
    pub version: Option<String>,
    /// The only catalog that may be used.
    pub catalog: Option<String>,
    /// Whether update edges bind.
    pub policy: UpgradeConstraintPolicy,
    /// What is installed.
    pub installed: Option<InstalledBundle>,
}

/// A bundle that was chosen, and read.
pub struct Chosen {
    /// Which one, and why.
    pub resolution: Resolution,
    /// Its content.
    pub bundle: Bundle,
}

/// Chooses a bundle from the cluster's catalogs and pulls it, in this process.
pub async fn choose(session: &Session, wanted: &Wanted, progress: &mut Progress) -> Result<Chosen, Failure> {
    progress.doing(&format!("{}: resolve", wanted.package));
    let market = Market::open(session, None).await?;
    let request = Request {
        package: wanted.package.clone(),
        channels: wanted.channels.clone(),
        version: wanted.version.clone(),
        selector: only(wanted.catalog.as_deref()),
        policy: wanted.policy,
        installed: wanted.installed.clone(),
    };
    let resolution = market.resolve(&request)?;
    let image = resolution.choice.image.clone();
    progress.doing(&format!("{}: pull {image}", resolution.choice.bundle));
    let mut client = images::client()?;
    if let Some(told) = progress.transfer(&format!("{}: pull", resolution.choice.bundle)) {
        client = client.with_progress(told);
    }
    let files = bundles::pull_with(&client, &image).await?;
    let bundle = bundles::read(&image, &files)?;
    Ok(Chosen { resolution, bundle })
}

/// The objects that a bundle installs, as a controller renders them that has its webhooks' certificates made so: [`Settings::read`] says how
/// that of a cluster does it.
///
/// [`Settings::read`]: crate::plans::settings::Settings::read
pub fn rendered(
    bundle: &Bundle,
    namespace: &str,
    watch_namespace: Option<&str>,
    certificates: CertificateProvider,
) -> Result<Vec<Value>, Failure> {
    let subject = || format!("bundle {}", bundle.csv.name);
    let impossible = |error: &dyn std::error::Error| Failure::new(Exit::Impossible, subject(), error.to_string());
    let target_namespaces = gates::target_namespaces(watch_namespace).map_err(|error| impossible(&error))?;
    let options = RenderOptions { install_namespace: namespace.to_owned(), target_namespaces, certificates, deployment: None };
    render(bundle, &options).map_err(|error| impossible(&error))
}

/// The rights that an installer of these objects needs (MS-RBAC-01).
pub fn rights(objects: &[Value], extension: &str) -> Vec<Grant> {
    derive(objects, &ExtensionRef { name: extension.to_owned() })
}

/// A right in words.
pub fn in_words(grant: &Grant) -> String {
    grant.to_string()
}

/// One extension.
pub async fn get(session: &Session, name: &str) -> Result<ClusterExtension, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    api.get(name).await.map_err(|error| {
        let failure = refused(format!("clusterextension {name}"), &error);
        if failure.exit == Exit::NotFound { failure.hint("mainstay list shows what is installed") } else { failure }
    })
}

/// Whether there is one of this name.
pub async fn find(session: &Session, name: &str) -> Result<Option<ClusterExtension>, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    api.get_opt(name).await.map_err(|error| refused(format!("clusterextension {name}"), &error))
}

/// All extensions.
pub async fn all(session: &Session) -> Result<Vec<ClusterExtension>, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    Ok(api.list(&ListParams::default()).await.map_err(|error| refused("clusterextensions", &error))?.items)
}

/// What was applied for it, revision by revision; a failure where that is not known.
pub async fn history(session: &Session, extension: &ClusterExtension) -> Result<History, Failure> {
    records::read(session, extension).await?.known(extension)
}

/// The package that an extension wants.
pub fn package(extension: &ClusterExtension) -> &str {
    extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name)
}

/// The namespace that it watches, where it watches only one.
pub fn watch_namespace(extension: &ClusterExtension) -> Option<&str> {
    let inline = extension.spec.config.as_ref().and_then(|config| config.inline.as_ref());
    if let Some(configured) = inline.and_then(|inline| inline["watchNamespace"].as_str()) {
        return Some(configured);
    }
    extension.metadata.annotations.as_ref()?.get(WATCH_NAMESPACE).map(String::as_str)
}

/// The bundle that is installed.
pub fn installed(extension: &ClusterExtension) -> Option<InstalledBundle> {
    let bundle = &extension.status.as_ref()?.install.as_ref()?.bundle;
    Some(InstalledBundle { name: bundle.name.clone(), version: bundle.version.clone() })
}

/// A condition, where there is one.
pub fn condition<'e>(extension: &'e ClusterExtension, kind: &str) -> Option<&'e condition::Condition> {
    condition::get(&extension.status.as_ref()?.conditions, kind)
}

/// Waits until `bundle` is installed and its Deployments are available.
pub async fn settle(
    session: &Session,
    name: &str,
    bundle: &str,
    objects: &[Value],
    timeout: Duration,
    progress: &mut Progress,
) -> Result<ClusterExtension, Failure> {
    let subject = || format!("clusterextension {name}");
    let begun = Instant::now();
    progress.doing(&format!("{bundle}: preflight and apply"));
    let extension = loop {
        let extension = get(session, name).await?;
        let current =
            |kind: &str| condition(&extension, kind).filter(|condition| condition.observed_generation == extension.metadata.generation);
        let done = installed(&extension).is_some_and(|installed| installed.name == bundle)
            && current("Installed").is_some_and(|installed| installed.status == Status::True)
            && current("Progressing").is_some_and(|progressing| progressing.reason == "Succeeded");
        if done {
            break extension;
        }
        let said = ["Progressing", "Installed"]
            .into_iter()
            .filter_map(current)
            .find(|condition| matches!(condition.reason.as_str(), "Blocked" | "Retrying" | "Failed"))
            .map(|condition| (condition.reason.clone(), condition.message.clone()));
        if let Some((reason, message)) = &said {
            if let Some(refusal) = webhooks::Refusal::find(message) {
                return Err(stopped(name, bundle, &refusal, message));
            }
            if reason == "Blocked" {
                return Err(Failure::new(Exit::Impossible, subject(), message.clone()).hint(format!("mainstay describe {name} shows more")));
            }
            progress.doing(message);
        }
        if begun.elapsed() > timeout {
            let message = said.map_or_else(|| "the cluster said nothing about it; is olm-v1 running?".to_owned(), |(_, message)| message);
            return Err(Failure::new(Exit::TimedOut, subject(), format!("{bundle} is not installed after {} s", timeout.as_secs()))
                .because(message)
                .hint(format!("the cluster goes on trying; mainstay describe {name} shows how it stands")));
        }
        tokio::time::sleep(LOOK).await;
    };
    for deployment in objects.iter().filter(|object| object["kind"] == "Deployment") {
        let place = ObjectRef::of(deployment).map_err(|error| Failure::failed(subject(), &error))?;
        progress.doing(&format!("{bundle}: wait for deployment {}", place.name));
        if let Err(error) = available(session, &place, timeout.saturating_sub(begun.elapsed())).await {
            if let WriteError::TimedOut { state, .. } = &error
                && let Some(refusal) = webhooks::Refusal::find(state)
            {
                return Err(stopped(name, bundle, &refusal, state));
            }
            // The error stands without the pods, too.
            let pods = pods(session, &place.namespace, &deployment["spec"]["selector"]["matchLabels"]).await.unwrap_or_default();
            let failure = not_written(&error);
            let failure = match explain::pod_problem(&pods) {
                Some(problem) => failure.because(problem),
                None => failure,
            };
            return Err(failure.hint(format!("{bundle} is installed; mainstay explain {name} shows the pods that do not run")));
        }
    }
    Ok(extension)
}

/// Waits until a workload is available, or waiting does not help any more.
async fn available(session: &Session, place: &ObjectRef, limit: Duration) -> Result<(), WriteError> {
    let begun = Instant::now();
    loop {
        let left = limit.saturating_sub(begun.elapsed());
        match session.writer.wait(place, &Until::Healthy, left.min(GLANCE)).await {
            Err(WriteError::TimedOut { object, state, .. }) => {
                if left <= GLANCE || webhooks::Refusal::find(&state).is_some() {
                    return Err(WriteError::TimedOut { object, seconds: limit.as_secs(), state });
                }
            }
            outcome => return outcome.map(drop),
        }
    }
}

/// What to say where a webhook that nothing answers refuses the pods.
fn stopped(name: &str, bundle: &str, refusal: &webhooks::Refusal, said: &str) -> Failure {
    let message = format!("the pods of {bundle} cannot be created: {} cannot be asked, since its pods are simulated", refusal.whose());
    let failure = Failure::new(Exit::Impossible, format!("clusterextension {name}"), message).because(said);
    match &refusal.extension {
        Some(extension) => failure.hint(format!("mainstay uninstall {extension} removes the webhook; {bundle} goes on by itself then")),
        None => failure.hint(format!("mainstay explain {name} shows what would help")),
    }
}

/// The pods of a workload, by the labels that it selects.
pub async fn pods(session: &Session, namespace: &str, labels: &Value) -> Result<Vec<Value>, Failure> {
    let labels: Vec<String> =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let api: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
    let parameters = ListParams::default().labels(&labels.join(",")).limit(PODS);
    let pods = api.list(&parameters).await.map_err(|error| refused(format!("pods in namespace {namespace}"), &error))?.items;
    pods.iter().map(|pod| serde_json::to_value(pod).map_err(|error| Failure::failed("pod", &error))).collect()
}

/// The other extensions with what they have installed; beside them, those of which it is not known, and why.
pub async fn others(session: &Session, but: &str) -> Result<(Vec<(String, Record)>, Vec<String>), Failure> {
    let (mut others, mut unknown) = (Vec::new(), Vec::new());
    for other in all(session).await? {
        let name = other.metadata.name.clone().unwrap_or_default();
        if name == but {
            continue;
        }
        match history(session, &other).await {
            Ok(history) => others.extend(history.installed().map(|installed| (name, installed.record.clone()))),
            Err(failure) => {
                unknown
                    .push(format!("whether clusterextension {name} needs it was looked up in the catalogs alone: {}", failure.to_line()));
            }
        }
    }
    Ok((others, unknown))
}
