//! What the preview of a removal rests on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::ObjectRef;
use mainstay_olm_v1::extension::removal::{self, Facts, Preview};
use mainstay_olm_v1::extension::rollback;
use serde_json::{Value, json};

use super::Arguments;
use crate::cluster::{Session, not_written, refused};
use crate::commands::install::INSTALLER_LABEL;
use crate::errors::{Failure, warn};
use crate::extensions;
use crate::plans::world::{Rights, World};
use crate::progress::Progress;

/// Kinds that operators make for custom resources.
const OPERANDS: [(&str, &str, &str); 10] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"),
    ("batch", "v1", "CronJob"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "PersistentVolumeClaim"),
];
const PAGE: u32 = 500;
/// More webhook configurations than any cluster has.
const WEBHOOKS: usize = 10_000;

/// Gathers the facts and makes the preview.
pub(super) async fn preview(
    session: &Session,
    arguments: &Arguments,
    extension: &ClusterExtension,
    objects: &[Value],
) -> Result<Preview, Failure> {
    let mut instances = BTreeMap::new();
    let definitions: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").collect();
    for definition in &definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(kind) = rollback::kind(definition) {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
            let resource = ApiResource::from_gvk_with_plural(&kind.gvk(), plural);
            let found = metadata(session, &resource).await?;
            let namespace = |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            instances.insert(name.to_owned(), found.iter().map(namespace).collect::<Vec<String>>());
        }
    }
    let mut operands = Vec::new();
    if instances.values().any(|found| !found.is_empty()) {
        for (group, version, kind) in OPERANDS {
            match metadata(session, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))).await {
                Ok(found) => operands.extend(found.into_iter().filter(|object| object["metadata"]["ownerReferences"].is_array())),
                // The preview is worth something without them.
                Err(failure) => {
                    warn(&kind.to_lowercase(), &format!("what was made for custom resources is not counted: {}", failure.to_line()));
                }
            }
        }
    }
    let others = extensions::others(session, &arguments.name).await?;
    let mut progress = Progress::start();
    let mut world = World::open(session, &mut progress).await?;
    let mut snapshot = world.begin(extension, &Rights::Live).await?;
    let needed_by = world.needed_by(&mut snapshot, &others, &mut progress).await;
    drop(progress);
    world.notes.iter().for_each(|problem| warn(&format!("clusterextension {}", arguments.name), problem));
    let mut webhooks = Vec::new();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        webhooks.extend(session.writer.list(&kind, WEBHOOKS).await.map_err(|error| not_written(&error))?);
    }
    let installer = installer(session, &arguments.name).await?;
    Ok(removal::preview(&Facts {
        objects,
        package: extensions::package(extension),
        keep_definitions: arguments.keep_crds,
        instances,
        operands: &operands,
        needed_by: &needed_by,
        others: &others,
        webhooks: &webhooks,
        installer: &installer,
        namespace: &extension.spec.namespace,
    }))
}

/// The metadata of all objects of a kind.
async fn metadata(session: &Session, resource: &ApiResource) -> Result<Vec<Value>, Failure> {
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), resource);
    let mut found = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = match api.list_metadata(&page).await {
            Ok(list) => list,
            // The definition is gone already.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(found),
            Err(error) => return Err(refused(resource.plural.clone(), &error)),
        };
        for item in list.items {
            let metadata = serde_json::to_value(&item.metadata).map_err(|error| Failure::failed(resource.plural.clone(), &error))?;
            found.push(json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// What install made for the account, in the order of removal.
pub(super) async fn installer(session: &Session, extension: &str) -> Result<Vec<ObjectRef>, Failure> {
    let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={extension}"));
    let client = &session.client;
    let mut all = named::<ClusterRoleBinding>(&Api::all(client.clone()), &ours).await?;
    all.extend(named::<RoleBinding>(&Api::all(client.clone()), &ours).await?);
    all.extend(named::<ClusterRole>(&Api::all(client.clone()), &ours).await?);
    all.extend(named::<Role>(&Api::all(client.clone()), &ours).await?);
    all.extend(named::<ServiceAccount>(&Api::all(client.clone()), &ours).await?);
    Ok(all)
}

async fn named<K>(api: &Api<K>, which: &ListParams) -> Result<Vec<ObjectRef>, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let kind = K::kind(&());
    let list = api.list(which).await.map_err(|error| refused(kind.to_lowercase(), &error))?;
    let place = |object: &K| ObjectRef {
        api_version: K::api_version(&()).into_owned(),
        kind: kind.clone().into_owned(),
        namespace: object.meta().namespace.clone().unwrap_or_default(),
        name: object.meta().name.clone().unwrap_or_default(),
    };
    Ok(list.items.iter().map(place).collect())
}
