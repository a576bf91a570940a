//! CatalogSources of a namespace (OLM0-ADMIN-21, OLM0-ADMIN-34, OLM0-ADMIN-39).

use std::time::{Duration, Instant};

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Expect, Propagation, Step};
use mainstay_olm_classic_core::catalog_source::is_ready;
use serde_json::{Value, json};

use super::objects::{CATALOG_SOURCE, find, get, list, text};
use crate::apply::execute;
use crate::progress::Progress;
use crate::session::Session;

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// A catalog that is added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCatalog {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its image.
    pub image: String,
    /// Its name for people.
    pub display_name: Option<String>,
    /// Its publisher.
    pub publisher: Option<String>,
}

/// Lists the CatalogSources of a namespace, or all.
pub async fn all(session: &Session, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
    list(session, CATALOG_SOURCE, namespace).await
}

/// The labels of an index image with its name for people and its publisher.
const TITLE_LABELS: [&str; 2] =
    ["alpha.operators.operatorframework.io.index.display-name.v1", "alpha.operators.operatorframework.io.index.publisher.v1"];

/// Reads what the request leaves open from the labels of its image: the display name and the publisher.
pub async fn titled(session: &Session, mut new: NewCatalog) -> Result<NewCatalog, Failure> {
    if new.display_name.is_some() && new.publisher.is_some() {
        return Ok(new);
    }
    let failed = |error: mainstay_oci::Error| crate::images::failure(&format!("image {}", new.image), &error);
    let client = session.registries.client()?;
    let reference = client.reference(&new.image).map_err(failed)?;
    let workspace = client.workspace().map_err(failed)?;
    let labels = client.inspect(&reference, workspace.store()).await.map_err(failed)?.config.config.labels;
    let [title, publisher] = TITLE_LABELS.map(|label| labels.get(label).filter(|text| !text.is_empty()).cloned());
    new.display_name = new.display_name.or(title);
    new.publisher = new.publisher.or(publisher);
    Ok(new)
}

/// Makes a CatalogSource, and waits until it serves.
pub async fn add(session: &Session, new: &NewCatalog, timeout: Duration, progress: &mut dyn Progress) -> Result<Value, Failure> {
    let NewCatalog { name, namespace, image, display_name, publisher } = new;
    let begun = Instant::now();
    let mut spec = json!({"sourceType": "grpc", "image": image});
    for (field, text) in [("displayName", display_name), ("publisher", publisher)] {
        if let Some(text) = text {
            spec[field] = json!(text);
        }
    }
    let object = json!({
        "apiVersion": CATALOG_SOURCE.api_version(), "kind": CATALOG_SOURCE.kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    });
    execute(session, &Step::Create(object)).await?;
    loop {
        let source = get(session, CATALOG_SOURCE, namespace, name).await?;
        if is_ready(&source) {
            return Ok(source);
        }
        let waits = text(&source, "/status/message");
        if begun.elapsed() >= timeout {
            let failure = Failure::new(FailureKind::TimedOut, format!("catalogsource {namespace}/{name}"), "does not serve in time");
            let failure = if waits.is_empty() { failure } else { failure.because(waits) };
            return Err(failure.hint(format!("mainstay explain catalogsource {name} -n {namespace} says what it waits for")));
        }
        progress.doing(&format!("catalogsource {namespace}/{name}: {}", if waits.is_empty() { "its image is being read" } else { &waits }));
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes a CatalogSource.
pub async fn remove(session: &Session, namespace: &str, name: &str) -> Result<(), Failure> {
    if find(session, CATALOG_SOURCE, namespace, name).await?.is_none() {
        return Err(CATALOG_SOURCE.not_found(namespace, name));
    }
    let object = CATALOG_SOURCE.place(namespace, name);
    execute(session, &Step::Delete { object, expect: Expect::default(), propagation: Propagation::Background }).await
}
