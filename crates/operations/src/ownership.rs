//! Objects that an extension owns on the cluster, told by the objects themselves (MS-RB-02): CRDs above all, because their custom resources
//! go with them. Objects that cannot be read are a failure, never an empty list.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::removal::Tie;
use mainstay_olm_v1_core::extension::owned::{Holder, Identity, holders};
use serde_json::{Value, json};

use crate::failure::{not_written, refused};
use crate::session::Session;

/// Objects per page.
const PAGE: u32 = 500;
/// Number of kinds that are listed at a time.
const READERS: usize = 8;
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

/// Returns the identity of an extension in the marks of its objects.
pub fn identity(extension: &ClusterExtension) -> Identity<'_> {
    Identity { name: extension.metadata.name.as_deref().unwrap_or_default(), uid: extension.metadata.uid.as_deref().unwrap_or_default() }
}

/// Reads the CRDs that an extension owns, in full, and how each is tied to it.
///
/// # Errors
/// The CRDs cannot be listed or read: then it is not known what would be lost with the extension.
pub async fn definitions(session: &Session, extension: &ClusterExtension) -> Result<Vec<(Value, Tie)>, Failure> {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let all = metadata(session, &resource, None).await?.unwrap_or_default();
    let identity = identity(extension);
    let between = its_holders(session, identity, &all).await?;
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &resource);
    let mut found = Vec::new();
    for (object, tie) in all.iter().filter_map(|object| Some((object, identity.tie(object, &between)?))) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let subject = || format!("customresourcedefinition {name}");
        let Some(live) = api.get_opt(name).await.map_err(|error| refused(subject(), &error))? else { continue };
        let mut live = serde_json::to_value(live).map_err(|error| Failure::failed(subject(), &error))?;
        live["apiVersion"] = DEFINITION.0.into();
        live["kind"] = DEFINITION.1.into();
        found.push((live, tie));
    }
    Ok(found)
}

/// Lists the metadata of all objects of these kinds that an extension owns, by its labels. Also returns the problems of objects that cannot
/// be read.
pub async fn objects(session: &Session, extension: &ClusterExtension, served: Vec<ApiResource>) -> (Vec<(Value, Tie)>, Vec<String>) {
    let mut kinds = BTreeSet::new();
    let once = served.into_iter().filter(|kind| kinds.insert((kind.group.clone(), kind.plural.clone())));
    let identity = identity(extension);
    let selector = identity.selector();
    let look = |resource: ApiResource| {
        let selector = selector.clone();
        async move { metadata(session, &resource, Some(&selector)).await }
    };
    let found: Vec<Result<Option<Vec<Value>>, Failure>> =
        futures::stream::iter(once.collect::<Vec<_>>()).map(look).buffered(READERS).collect().await;
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    for one in found {
        match one {
            Ok(some) => objects.extend(some.into_iter().flatten()),
            Err(failure) => notes.push(failure.to_line()),
        }
    }
    let between = match its_holders(session, identity, &objects).await {
        Ok(between) => between,
        Err(failure) => {
            notes.push(failure.to_line());
            Vec::new()
        }
    };
    let tied = objects.into_iter().filter_map(|object| identity.tie(&object, &between).map(|tie| (object, tie)));
    (tied.collect(), notes)
}

/// Returns the tie of each of these objects to an extension.
///
/// # Errors
/// An owner between an object and the extension cannot be read.
pub async fn ties(session: &Session, extension: &ClusterExtension, objects: &[Value]) -> Result<Vec<Option<Tie>>, Failure> {
    let identity = identity(extension);
    let between = its_holders(session, identity, objects).await?;
    Ok(objects.iter().map(|object| identity.tie(object, &between)).collect())
}

/// Returns the owners between these objects and the extension that are the extension's own.
async fn its_holders(session: &Session, identity: Identity<'_>, objects: &[Value]) -> Result<Vec<Holder>, Failure> {
    let asked: BTreeSet<Holder> = objects.iter().flat_map(holders).collect();
    let mut its = Vec::new();
    for holder in asked {
        let live = session.writer.get(&holder.place).await.map_err(|error| not_written(&error))?;
        if live.is_some_and(|live| live["metadata"]["uid"] == holder.uid.as_str() && identity.tie(&live, &[]).is_some()) {
            its.push(holder);
        }
    }
    Ok(its)
}

/// Lists the namespace of each custom resource of a CRD; empty for a cluster-wide one.
pub async fn instances(session: &Session, crd: &Value) -> Result<Vec<String>, Failure> {
    let unknown = |message: &str| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        Failure::new(FailureKind::Impossible, format!("custom resources of {name}"), message)
    };
    let Some(resource) = stored_resource(crd) else {
        return Err(unknown("no version of the kind is served, so it cannot be listed"));
    };
    let found = metadata(session, &resource, None).await?;
    let found = found.ok_or_else(|| unknown("the cluster does not serve the kind, so it cannot be listed"))?;
    Ok(found.iter().map(|object| object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()).collect())
}

/// Returns the resource of a CRD's custom resources in the version that it stores, else in the first that is served; `None` if none is
/// served.
pub(crate) fn stored_resource(crd: &Value) -> Option<ApiResource> {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let versions = || crd["spec"]["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let version = versions().find(|version| version["storage"] == true).or_else(|| versions().next());
    let gvk = GroupVersionKind::gvk(text("/spec/group"), version?["name"].as_str()?, text("/spec/names/kind"));
    Some(ApiResource::from_gvk_with_plural(&gvk, text("/spec/names/plural")))
}

/// Lists the metadata of all objects of a kind, or of those with these labels; `None` if the kind is not served, or cannot be listed at
/// all.
pub async fn metadata(session: &Session, resource: &ApiResource, labels: Option<&str>) -> Result<Option<Vec<Value>>, Failure> {
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), resource);
    let subject = || resource.plural.clone();
    let mut found = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    if let Some(labels) = labels {
        page = page.labels(labels);
    }
    loop {
        let list = match api.list_metadata(&page).await {
            Ok(list) => list,
            // The kind is gone, or its objects are only requests: tokens, reviews.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => return Ok(None),
            Err(error) => return Err(refused(subject(), &error)),
        };
        for item in list.items {
            let metadata = serde_json::to_value(&item.metadata).map_err(|error| Failure::failed(subject(), &error))?;
            found.push(json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(Some(found)),
        }
    }
}
