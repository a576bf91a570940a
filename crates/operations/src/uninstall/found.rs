//! Facts that the preview of a removal rests on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, GroupVersionKind, ListParams};
use mainstay_api::lifecycle::LifecyclePolicy;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind, Finding};
use mainstay_lifecycle::removal::{self, Facts, Preview};
use mainstay_lifecycle::revision::History;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1::manifests::TOKEN_LABEL;
use mainstay_olm_v1_core::extension::KIND;
use mainstay_olm_v1_core::extension::owned::Tie;
use mainstay_olm_v1_core::extension::plan::{Stays, stays};
use mainstay_olm_v1_core::extension::preview::unknown_definitions;
use serde_json::Value;

use super::{RemovalRequest, refusal, warning};
use crate::failure::{not_written, refused};
use crate::plan::installer::INSTALLER_LABEL;
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;
use crate::view::{AssumedPermissions, ClusterView};
use crate::{extensions, ownership};

/// Kinds that operators create for custom resources.
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
/// More webhook configurations than any cluster has.
const WEBHOOKS: usize = 10_000;

/// The known objects of an extension.
pub(super) struct Found {
    /// The objects that go with it: those that it applied and those that it owns, each once.
    pub objects: Vec<Value>,
    /// The objects that it applied or marked, and that nothing deletes with it.
    pub remaining: Vec<Value>,
    /// The CRDs that it owns on the cluster, or the reason why they are not known.
    pub definitions: Result<Vec<(Value, Tie)>, Failure>,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// The reasons why that namespace is not its own: other extensions in it, or objects of Kubernetes and of the controllers.
    pub neighbours: Vec<String>,
    /// Notes about what could not be read.
    pub notes: Vec<String>,
    /// The objects that the extension asks to keep.
    pub staying: Option<Stays>,
}

/// Reads the records, and the objects that the extension owns on the cluster. The latter decide about CRDs; the former may be incomplete.
pub(super) async fn found(
    session: &Session,
    request: &RemovalRequest,
    extension: &ClusterExtension,
    progress: &mut dyn Progress,
) -> Result<Found, Failure> {
    let (mut objects, mut remaining, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let definitions = ownership::definitions(session, extension).await;
    if let (Err(problem), false) = (&definitions, request.deletes_crds()) {
        let subject = format!("clusterextension {}", request.name);
        return Err(refusal(&subject, unknown_definitions(&request.name, &problem.to_line())));
    }
    let history = match extensions::history(session, extension).await {
        Ok(history) => history,
        Err(failure) => {
            notes.push(format!("what goes is told by owner marks on the cluster alone: {}", failure.to_line()));
            let served = Box::pin(served(session, progress)).await?;
            let (owned, more) = ownership::objects(session, extension, served).await;
            notes.extend(more.into_iter().map(|problem| format!("not looked at: {problem}")));
            for (object, tie) in owned.into_iter().filter(|(object, _)| !is_definition(object)) {
                if tie == Tie::Mark { remaining.push(object) } else { objects.push(object) }
            }
            History::default()
        }
    };
    let owns = |object: &Value| definitions.as_ref().map_or(true, |all| all.iter().any(|(other, _)| same(object, other)));
    for object in history.may_be_live().flat_map(|revision| &revision.record.objects) {
        if objects.iter().chain(&remaining).any(|other| same(other, object)) {
            continue;
        }
        if !is_definition(object) || owns(object) {
            objects.push(object.clone());
            continue;
        }
        let place = ObjectRef::of(object).map_err(|error| Failure::failed(request.name.clone(), &error))?;
        if session.writer.get(&place).await.map_err(|error| not_written(&error))?.is_some() {
            remaining.push(object.clone());
        }
    }
    for (definition, tie) in definitions.iter().flatten() {
        objects.retain(|other| !same(other, definition));
        // Without custom resources the user is not asked, and objects that nothing deletes stay.
        if *tie == Tie::Mark
            && !request.deletes_crds()
            && ownership::instances(session, definition).await.is_ok_and(|found| found.is_empty())
        {
            remaining.push(definition.clone());
        } else {
            objects.push(definition.clone());
        }
    }
    let namespace = extension.spec.namespace.clone();
    let neighbours = if request.delete_namespace { neighbours(session, extension).await? } else { Vec::new() };
    let staying = stays(extension)
        .map_err(|invalid| Failure::new(FailureKind::Impossible, format!("clusterextension {}", request.name), invalid.to_string()))?;
    Ok(Found { objects, remaining, definitions, namespace, neighbours, notes, staying })
}

/// Returns the other users of the extension's namespace.
async fn neighbours(session: &Session, extension: &ClusterExtension) -> Result<Vec<String>, Failure> {
    let namespace = &extension.spec.namespace;
    let mut all = Vec::new();
    if matches!(namespace.as_str(), "default" | "kube-system" | "kube-public" | "kube-node-lease")
        || Settings::read(session).await.system_namespace == *namespace
    {
        all.push(format!("namespace {namespace} belongs to the cluster"));
    }
    let name = &extension.metadata.name;
    let others = extensions::all(session).await?.into_iter().filter(|other| other.metadata.name != *name);
    let inside =
        others.filter(|other| other.spec.namespace == *namespace || extensions::watch_namespace(other) == Some(namespace.as_str()));
    all.extend(inside.map(|other| format!("clusterextension {} is in it, or watches it", other.metadata.name.unwrap_or_default())));
    Ok(all)
}

/// Lists every kind that is served.
async fn served(session: &Session, progress: &mut dyn Progress) -> Result<Vec<ApiResource>, Failure> {
    let view = ClusterView::open(session, progress).await?;
    view.kinds().await
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn same(one: &Value, other: &Value) -> bool {
    let key = |object: &Value| {
        let group = object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').map(|(group, _)| group.to_owned());
        (group, object["kind"].clone(), object["metadata"]["namespace"].clone(), object["metadata"]["name"].clone())
    };
    key(one) == key(other)
}

/// Gathers the facts of the preview, and makes it.
pub(super) async fn preview(
    session: &Session,
    request: &RemovalRequest,
    extension: &ClusterExtension,
    found: &Found,
    progress: &mut dyn Progress,
) -> Result<(Preview, Vec<Finding>), Failure> {
    let mut warnings = Vec::new();
    let mut instances = BTreeMap::new();
    for definition in found.objects.iter().filter(|object| is_definition(object)) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        instances.insert(name.to_owned(), ownership::instances(session, definition).await.map_err(|failure| failure.to_line()));
    }
    let mut operands = Vec::new();
    if instances.values().any(|found| found.as_ref().is_ok_and(|all| !all.is_empty())) {
        for (group, version, kind) in OPERANDS {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            match ownership::metadata(session, &resource, None).await {
                Ok(found) => operands.extend(found.into_iter().flatten().filter(|object| object["metadata"]["ownerReferences"].is_array())),
                // The preview is useful without them.
                Err(failure) => {
                    warnings.push(warning(kind.to_lowercase(), format!("what was made for custom resources is not counted: {failure}")));
                }
            }
        }
    }
    let (others, unknown) = extensions::others(session, &request.name).await?;
    let mut view = ClusterView::open(session, progress).await?;
    let mut snapshot = view.begin(extension, &AssumedPermissions::Live).await?;
    let needed_by = view.needed_by(&mut snapshot, &found.objects, &others, progress).await;
    let subject = || format!("clusterextension {}", request.name);
    warnings.extend(found.notes.iter().chain(&unknown).chain(&view.notes).map(|problem| warning(subject(), problem)));
    let mut webhooks = Vec::new();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        webhooks.extend(session.writer.list(&kind, WEBHOOKS).await.map_err(|error| not_written(&error))?);
    }
    let installer = installer(session, &request.name).await?;
    let preview = removal::preview(&Facts {
        kind: KIND,
        objects: &found.objects,
        remaining: &found.remaining,
        package: extensions::package(extension),
        keep_definitions: request.keep_crds == Some(true) || found.staying.is_some(),
        keep_everything: found.staying == Some(Stays::Everything),
        instances,
        operands: &operands,
        needed_by: &needed_by,
        others: &others,
        webhooks: &webhooks,
        installer: &installer,
        namespace: &extension.spec.namespace,
    });
    Ok((preview, warnings))
}

/// Returns the objects that install created for the account, in the order of removal.
pub(crate) async fn installer(session: &Session, extension: &str) -> Result<Vec<ObjectRef>, Failure> {
    let ours = ListParams::default().labels(&format!("{INSTALLER_LABEL}={extension}"));
    // As mainstay deploy and mainstay rbac create it.
    let access = ListParams::default().labels(&format!("{TOKEN_LABEL}={extension},!{INSTALLER_LABEL}"));
    let client = &session.client;
    let mut all = named::<ClusterRoleBinding>(&Api::all(client.clone()), &ours).await?;
    for which in [&ours, &access] {
        all.extend(named::<RoleBinding>(&Api::all(client.clone()), which).await?);
    }
    all.extend(named::<ClusterRole>(&Api::all(client.clone()), &ours).await?);
    for which in [&ours, &access] {
        all.extend(named::<Role>(&Api::all(client.clone()), which).await?);
    }
    all.extend(named::<ServiceAccount>(&Api::all(client.clone()), &ours).await?);
    match named::<LifecyclePolicy>(&Api::all(client.clone()), &ours).await {
        Ok(policies) => all.extend(policies),
        // A cluster without Mainstay's kinds has no such objects.
        Err(failure) if failure.kind() == FailureKind::NotFound => {}
        Err(failure) => return Err(failure),
    }
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
