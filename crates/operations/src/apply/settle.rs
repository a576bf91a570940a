//! Waiting until the cluster has installed the requested bundle.

use std::time::{Duration, Instant};

use mainstay_api::condition::Status;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::WriteError;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{ObjectRef, Until};
use mainstay_olm_v1_core::extension::{explain, webhooks};
use serde_json::Value;

use crate::extensions::{condition, get, installed, pods};
use crate::failure::not_written;
use crate::progress::Progress;
use crate::session::Session;

/// Interval between two reads of the state while waiting.
const LOOK: Duration = Duration::from_millis(150);
/// Time to wait for a workload before its state is read.
const GLANCE: Duration = Duration::from_secs(1);

/// Waits until `bundle` is installed and its Deployments are available.
pub async fn settle(
    session: &Session,
    name: &str,
    bundle: &str,
    objects: &[Value],
    timeout: Duration,
    progress: &mut dyn Progress,
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
                return Err(
                    Failure::new(FailureKind::Impossible, subject(), message.clone()).hint(format!("mainstay describe {name} shows more"))
                );
            }
            progress.doing(message);
        }
        if begun.elapsed() > timeout {
            let message = said.map_or_else(|| "the cluster said nothing about it; is olm-v1 running?".to_owned(), |(_, message)| message);
            return Err(Failure::new(FailureKind::TimedOut, subject(), format!("{bundle} is not installed after {} s", timeout.as_secs()))
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
            // The error is reported without the pods, too.
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

/// Waits until a workload is available, or until waiting cannot help any more.
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

/// Returns the failure for a webhook that nothing answers and that refuses the pods.
fn stopped(name: &str, bundle: &str, refusal: &webhooks::Refusal, said: &str) -> Failure {
    let message = format!("the pods of {bundle} cannot be created: {} cannot be asked, since its pods are simulated", refusal.whose());
    let failure = Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), message).because(said);
    match &refusal.extension {
        Some(extension) => failure.hint(format!("mainstay uninstall {extension} removes the webhook; {bundle} goes on by itself then")),
        None => failure.hint(format!("mainstay explain {name} shows what would help")),
    }
}
