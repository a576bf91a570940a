//! ClusterCatalogs: adding, waiting for, listing and removing them (MS-CLI-05).

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, ListParams};
use mainstay_api::condition;
use mainstay_api::lifecycle::PULL_SECRET;
use mainstay_api::olm_v1::{ClusterCatalog, NAME_LABEL};
use mainstay_apply::Effect;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Expect, ObjectRef, Step, Until};
use mainstay_oci::{ErrorKind, Reference};
use serde_json::json;

use crate::apply::execute;
use crate::failure::{not_written, refused};
use crate::progress::Progress;
use crate::session::Session;

/// `apiVersion` of a ClusterCatalog.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// Interval between two reads of the state while waiting.
const LOOK: Duration = Duration::from_millis(150);
/// Time limit for a registry's answer before the check is left to the cluster.
const ASK: Duration = Duration::from_secs(15);

/// A request to add a catalog, or to change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRequest {
    /// Its name on the cluster.
    pub name: String,
    /// The catalog image.
    pub reference: String,
    /// Minutes between two checks of a tag.
    pub poll_minutes: Option<i64>,
    /// Its priority among catalogs.
    pub priority: i32,
    /// The Secret with credentials for its images.
    pub pull_secret: Option<String>,
}

/// A setting of a live catalog that differs from the requested one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The setting.
    pub setting: &'static str,
    /// Its value on the cluster.
    pub live: String,
    /// The requested value.
    pub wanted: String,
}

fn api(session: &Session) -> Api<ClusterCatalog> {
    Api::all(session.client.clone())
}

fn subject(name: &str) -> String {
    format!("clustercatalog {name}")
}

/// Reads one catalog.
pub async fn get(session: &Session, name: &str) -> Result<ClusterCatalog, Failure> {
    api(session).get(name).await.map_err(|error| refused(subject(name), &error))
}

/// Looks for a catalog; `None` if it is not found.
pub async fn find(session: &Session, name: &str) -> Result<Option<ClusterCatalog>, Failure> {
    api(session).get_opt(name).await.map_err(|error| refused(subject(name), &error))
}

/// Lists all catalogs.
pub async fn all(session: &Session) -> Result<Vec<ClusterCatalog>, Failure> {
    Ok(api(session).list(&ListParams::default()).await.map_err(|error| refused("clustercatalogs", &error))?.items)
}

impl CatalogRequest {
    /// Returns the settings of the live catalog that differ from the requested ones.
    pub fn differences(&self, live: &ClusterCatalog) -> Vec<Difference> {
        let image = live.spec.source.image.as_ref();
        let poll = |minutes: Option<i64>| minutes.map_or_else(|| "never".to_owned(), |minutes| format!("every {minutes} min"));
        let secret = |secret: Option<&str>| secret.map_or_else(|| "none".to_owned(), str::to_owned);
        let has = live.metadata.annotations.as_ref().and_then(|annotations| annotations.get(PULL_SECRET));
        let settings = [
            ("image", image.map(|image| image.reference.clone()).unwrap_or_default(), self.reference.clone()),
            ("priority", live.spec.priority.to_string(), self.priority.to_string()),
            ("polled", poll(image.and_then(|image| image.poll_interval_minutes)), poll(self.poll_minutes)),
            ("pull secret", secret(has.map(String::as_str)), secret(self.pull_secret.as_deref())),
        ];
        let differ = settings.into_iter().filter(|(_, live, wanted)| live != wanted);
        differ.map(|(setting, live, wanted)| Difference { setting, live, wanted }).collect()
    }
}

/// Refuses a reference that its registry says it does not have. The cluster checks what cannot be asked from here (another network, no
/// credentials).
pub async fn check_image(session: &Session, request: &CatalogRequest) -> Result<(), Failure> {
    let client = session.registries.client()?;
    // The API refuses what is no reference.
    let Ok(parsed) = Reference::parse_familiar(&request.reference) else { return Ok(()) };
    match tokio::time::timeout(ASK, client.resolve(&parsed)).await {
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Err(Failure::of(FailureKind::NotFound, subject(&request.name), &error)
            .because("nothing was written to the cluster")
            .hint("check the repository's name and the tag; --keep writes the catalog all the same, where the cluster has credentials or mirrors that are not known here")),
        Ok(Err(error)) => {
            tracing::info!(%error, "the image cannot be looked at from here");
            Ok(())
        }
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Writes a catalog as requested; returns whether it is new.
pub async fn write(session: &Session, request: &CatalogRequest) -> Result<bool, Failure> {
    let CatalogRequest { name, reference, poll_minutes, priority, pull_secret } = request;
    let image = match poll_minutes {
        Some(minutes) => json!({"ref": reference, "pollIntervalMinutes": minutes}),
        None => json!({"ref": reference}),
    };
    let mut object = json!({
        "apiVersion": API_VERSION, "kind": "ClusterCatalog",
        // With the label, the API does not call the webhook that sets it (OLM1-CAT-03) and that may not be served yet.
        "metadata": {"name": name, "labels": {NAME_LABEL: name}},
        "spec": {"priority": priority, "source": {"type": "Image", "image": image}},
    });
    if let Some(secret) = pull_secret {
        object["metadata"]["annotations"] = json!({PULL_SECRET: secret});
    }
    let written = session.writer.apply(&object, true, &Expect::default()).await;
    Ok(written.map_err(|error| not_written(&error))?.1 == Effect::Created)
}

/// Waits until the catalog serves what its spec says.
pub async fn serve(session: &Session, name: &str, timeout: Duration, progress: &mut dyn Progress) -> Result<Duration, Failure> {
    let api: Api<ClusterCatalog> = Api::all(session.client.clone());
    let begun = Instant::now();
    progress.doing(&format!("clustercatalog {name}: pull, verify and unpack"));
    loop {
        let catalog = api.get(name).await.map_err(|error| refused(format!("clustercatalog {name}"), &error))?;
        let conditions = catalog.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let current =
            |kind: &str| condition::get(conditions, kind).filter(|condition| condition.observed_generation == catalog.metadata.generation);
        let (serving, progressing) = (current("Serving"), current("Progressing"));
        if serving.is_some_and(|serving| serving.status == condition::Status::True)
            && progressing.is_some_and(|progressing| progressing.reason == "Succeeded")
        {
            return Ok(begun.elapsed());
        }
        let said = progressing
            .filter(|progressing| progressing.reason != "Succeeded")
            .map(|progressing| (progressing.reason.as_str(), progressing.message.clone()));
        if let Some((reason, message)) = &said {
            if *reason == "Blocked" {
                return Err(Failure::new(FailureKind::Impossible, format!("clustercatalog {name}"), message.clone())
                    .hint("mend the image or the reference; the cluster does not try again by itself"));
            }
            progress.doing(message);
        }
        if begun.elapsed() > timeout {
            let message = said.map_or_else(|| "the cluster said nothing about it; is olm-v1 running?".to_owned(), |(_, message)| message);
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("clustercatalog {name}"),
                format!("does not serve after {} s", timeout.as_secs()),
            )
            .because(message)
            .hint(format!("the cluster goes on trying; mainstay catalog remove {name} ends it")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes a catalog without waiting until it is gone.
pub async fn delete(session: &Session, name: &str) -> Result<(), Failure> {
    api(session).delete(name, &DeleteParams::default()).await.map(drop).map_err(|error| refused(subject(name), &error))
}

/// Deletes a catalog and waits until it is gone.
pub async fn remove(session: &Session, name: &str) -> Result<(), Failure> {
    delete(session, name).await?;
    let object = ObjectRef {
        api_version: API_VERSION.to_owned(),
        kind: "ClusterCatalog".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    execute(session, &Step::Wait { object, until: Until::Gone, timeout: Duration::from_secs(60) }).await
}
