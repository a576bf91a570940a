//! Facts that no decision rests on: custom resources and image sizes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use mainstay_diagnostics::{Failure, FailureKind, SharedError};
use mainstay_lifecycle::preview::{CustomResources, ImageSize, NOT_ASKED, Served};
use mainstay_oci::Client;
use mainstay_olm_v1::extension::observe::Observer;
use mainstay_olm_v1_core::extension::preview::{Extra, Wanted};
use serde_json::Value;

use crate::failure::refused;
use crate::images;
use crate::ownership::stored_resource;
use crate::progress::Progress;
use crate::session::Session;

/// Maximum number of custom resources that are checked against a new schema; more are only counted.
const CHECKED: usize = 5_000;
/// Custom resources per page.
const PAGE: u32 = 500;
/// Time limit for a registry to report the size of an image.
const PATIENCE: Duration = Duration::from_secs(3);
/// Number of registries that are asked at a time.
const AT_A_TIME: usize = 8;

/// Fetches the wanted facts that are not known yet.
pub async fn extra(session: &Session, client: &Client, wanted: Wanted, sizes: bool, extra: &mut Extra, progress: &mut dyn Progress) {
    for crd in &wanted.crds {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        if !extra.instances.contains_key(name) {
            progress.doing(&format!("look at the custom resources of {name}"));
            extra.instances.insert(name.to_owned(), instances(session, crd).await.map_err(SharedError::from));
        }
    }
    if !sizes {
        let quiet = |reference: String| (reference, Err(SharedError::from(NOT_ASKED)));
        for (reference, size) in wanted.images.into_iter().map(quiet) {
            extra.images.entry(reference).or_insert(size);
        }
        return;
    }
    let missing: Vec<String> = wanted.images.into_iter().filter(|image| !matches!(extra.images.get(image), Some(Ok(_)))).collect();
    if missing.is_empty() {
        return;
    }
    progress.doing("ask registries for sizes");
    let ask = |reference: String| async move {
        let answer = tokio::time::timeout(PATIENCE, size(client, &reference)).await;
        let answer = match answer {
            Ok(answer) => answer.map_err(SharedError::from),
            Err(_) => Err(format!("the registry did not answer within {} s", PATIENCE.as_secs()).into()),
        };
        (reference, answer)
    };
    let found: BTreeMap<_, _> = futures::stream::iter(missing).map(ask).buffer_unordered(AT_A_TIME).collect().await;
    extra.images.extend(found);
}

/// Reads the custom resources of a live CRD, in the version that it stores.
pub async fn instances(session: &Session, crd: &Value) -> Result<CustomResources, Failure> {
    let text = |path: &str| crd.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let subject = || format!("custom resources of {}", text("/metadata/name"));
    let Some(resource) = stored_resource(crd) else {
        return Err(Failure::new(FailureKind::Impossible, subject(), "no version of the kind is served"));
    };
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &resource);
    let mut found = CustomResources::default();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = match api.list(&page).await {
            Ok(list) => list,
            // The CRD is gone already.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(refused(subject(), &error)),
        };
        found.count += list.items.len();
        for item in list.items {
            let mut object = serde_json::to_value(item).map_err(|error| Failure::failed(subject(), &error))?;
            object["apiVersion"] = resource.api_version.as_str().into();
            object["kind"] = resource.kind.as_str().into();
            found.objects.push(object);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            None => return Ok(found),
            Some(_) if found.objects.len() >= CHECKED => {
                found.count += list.metadata.remaining_item_count.and_then(|left| usize::try_from(left).ok()).unwrap_or_default();
                return Ok(found);
            }
            Some(token) => page = page.continue_token(&token),
        }
    }
}

/// Asks the server which kinds it serves.
pub async fn served(observer: &Observer<'_>) -> Result<Served, Failure> {
    let all = observer.served().await.map_err(|error| refused("discovery", &error))?;
    Ok(Served::new(all.into_iter().map(|resource| (resource.group, resource.version, resource.plural))))
}

/// Asks the registry for the size of an image, without pulling its layers.
async fn size(client: &Client, reference: &str) -> Result<ImageSize, Failure> {
    let said = |error: mainstay_oci::Error| images::failure(reference, &error);
    let parsed = client.reference(reference).map_err(said)?;
    let workspace = client.workspace().map_err(said)?;
    let image = client.inspect(&parsed, workspace.store()).await.map_err(said)?;
    let size = image.manifest.layers.iter().map(|layer| layer.size).sum();
    Ok(ImageSize { digest: image.digest.to_string(), size })
}
