//! Facts that a removal rests on.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, GroupVersionKind, ListParams};
use mainstay_api::lifecycle::LifecyclePolicy;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind, SharedError};
use mainstay_lifecycle::preview::Bundle;
use mainstay_lifecycle::removal::{Choices, Facts, Owned, Stays};
use mainstay_lifecycle::revision::{History, Record};
use mainstay_lifecycle::{Live, object};
use mainstay_objects::ObjectRef;
use mainstay_olm_v1::manifests::TOKEN_LABEL;
use mainstay_olm_v1_core::extension::KIND;
use mainstay_olm_v1_core::extension::facts::{Fact, Snapshot};
use mainstay_olm_v1_core::extension::plan::{InvalidAnnotation, stays};
use serde_json::{Value, json};

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

/// The facts about a removed extension, as read from the cluster.
pub(super) struct Found {
    /// Every object that it may have applied or owns, each once, with its tie to the extension.
    pub objects: Vec<Owned>,
    /// The reason why its CRDs are unknown, if they are.
    pub definitions_unknown: Option<String>,
    /// The reason why its records are unknown, if they are.
    pub records_unknown: Option<String>,
    /// The installed bundle.
    pub installed: Option<Bundle>,
    /// The reasons why its namespace is not its own: other extensions in it, or objects of Kubernetes and of the controllers.
    pub neighbours: Vec<String>,
    /// The objects that the extension asks to keep, or the reason why that is unknown.
    pub stays: Result<Option<Stays>, InvalidAnnotation>,
    /// The other extensions with an installed bundle.
    pub others: Vec<(String, Arc<Record>)>,
    /// The others that need it, in words.
    pub needed_by: Vec<String>,
    /// The custom resources of its CRDs: the namespace of each.
    pub instances: BTreeMap<String, Result<Vec<String>, SharedError>>,
    /// Objects that have an owner, of the kinds that operators create for custom resources.
    pub operands: Vec<Value>,
    /// All webhook configurations of the cluster.
    pub webhooks: Vec<Value>,
    /// Objects that install created for the account.
    pub installer: Vec<ObjectRef>,
}

impl Found {
    /// Returns the facts of the plan.
    pub fn facts<'a>(&'a self, extension: &'a ClusterExtension, choices: Choices, invalid: &'a str) -> Facts<'a> {
        Facts {
            kind: KIND,
            name: extension.metadata.name.as_deref().unwrap_or_default(),
            package: extensions::package(extension),
            namespace: &extension.spec.namespace,
            installed: self.installed.clone(),
            choices,
            stays: self.stays.as_ref().map(|stays| *stays).map_err(|_| invalid),
            objects: &self.objects,
            definitions_unknown: self.definitions_unknown.as_deref(),
            records_unknown: self.records_unknown.as_deref(),
            instances: self.instances.clone(),
            operands: &self.operands,
            others: &self.others,
            needed_by: &self.needed_by,
            webhooks: &self.webhooks,
            installer: &self.installer,
            neighbours: &self.neighbours,
        }
    }
}

/// Reads the records, the objects that the extension owns on the cluster, and their other users. What an object says of itself decides about
/// it; the records may be incomplete.
pub(super) async fn found(
    view: &mut ClusterView<'_>,
    extension: &ClusterExtension,
    choices: Choices,
    progress: &mut dyn Progress,
) -> Result<Found, Failure> {
    let session = view.session;
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    let mut snapshot = view.begin(extension, &AssumedPermissions::Live).await?;
    progress.doing("look at what it owns on the cluster");
    let (mut objects, definitions_unknown) = match ownership::definitions(session, extension).await {
        Ok(found) => (found.into_iter().map(|(object, tie)| Owned { object, tie: Ok(Some(tie)) }).collect(), None),
        Err(failure) => (Vec::new(), Some(failure.to_line())),
    };
    let mut records_unknown = None;
    let mut installed = None;
    match snapshot.history.clone() {
        Ok(history) => {
            installed = history.installed().map(|revision| Bundle::installed(&revision.record.bundle));
            recorded(view, &mut snapshot, &history, extension, &mut objects, progress).await?;
        }
        Err(problem) => {
            records_unknown = Some(problem.to_string());
            let kinds = view.kinds().await?;
            let (owned, notes) = ownership::objects(session, extension, kinds).await;
            view.notes.extend(notes.into_iter().map(|problem| format!("not looked at: {problem}")));
            let others = owned.into_iter().filter(|(object, _)| !is_definition(object));
            objects.extend(others.map(|(object, tie)| Owned { object, tie: Ok(Some(tie)) }));
        }
    }
    let mut instances = BTreeMap::new();
    for definition in objects.iter().map(|own: &Owned| &own.object).filter(|object| is_definition(object)) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        instances.insert(name.to_owned(), ownership::instances(session, definition).await.map_err(SharedError::from));
    }
    let used = instances.values().any(|found| found.as_ref().is_ok_and(|all| !all.is_empty()));
    let operands = if used { operands(view).await } else { Vec::new() };
    let (others, unknown) = extensions::others(session, name).await?;
    view.notes.extend(unknown);
    let all: Vec<Value> = objects.iter().map(|own| own.object.clone()).collect();
    let needed_by = view.needed_by(&mut snapshot, &all, &others, progress).await;
    let mut webhooks = Vec::new();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        match session.writer.list(&kind, WEBHOOKS).await {
            Ok(found) => webhooks.extend(found),
            // The removal is planned without them.
            Err(error) => {
                view.notes.push(format!("which webhooks are called for its APIs is not known: {}", not_written(&error).to_line()));
            }
        }
    }
    let installer = installer(session, name).await.unwrap_or_else(|failure| {
        // They are read again before anything is deleted, and have to be known then.
        view.notes.push(format!("what install made for its account: {}", failure.to_line()));
        Vec::new()
    });
    Ok(Found {
        objects,
        definitions_unknown,
        records_unknown,
        installed,
        neighbours: if choices.delete_namespace { neighbours(session, extension).await? } else { Vec::new() },
        stays: stays(extension),
        others,
        needed_by,
        instances,
        operands,
        webhooks,
        installer,
    })
}

/// Adds the live objects of the records, each with what it says of itself.
async fn recorded(
    view: &mut ClusterView<'_>,
    snapshot: &mut Snapshot,
    history: &History,
    extension: &ClusterExtension,
    objects: &mut Vec<Owned>,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let mut targets: Vec<ObjectRef> = Vec::new();
    for target in history.may_be_live().flat_map(|revision| &revision.record.objects).map(object::place) {
        let known = |other: &ObjectRef| other.same(&target);
        if !targets.iter().any(known) && !objects.iter().any(|own| known(&object::place(&own.object))) {
            targets.push(target);
        }
    }
    view.fetch(snapshot, targets.iter().cloned().map(Fact::Live).collect(), progress).await;
    let live = |target: &ObjectRef| match snapshot.known.live.get(target) {
        Some(Live::Present(found)) => Some(Ok((**found).clone())),
        Some(Live::Unreadable(problem)) => Some(Err(problem.clone())),
        Some(Live::Absent | Live::NotServed) | None => None,
    };
    let found: Vec<_> = targets.iter().filter_map(|target| Some((target, live(target)?))).collect();
    let present: Vec<Value> = found.iter().filter_map(|(_, found)| found.clone().ok()).collect();
    let mut ties = ownership::ties(view.session, extension, &present).await?.into_iter();
    objects.extend(found.into_iter().map(|(target, found)| match found {
        Ok(object) => Owned { object, tie: Ok(ties.next().flatten()) },
        Err(problem) => Owned { object: named_only(target), tie: Err(problem) },
    }));
    Ok(())
}

/// Returns an object of which only the name is known.
fn named_only(target: &ObjectRef) -> Value {
    let mut metadata = json!({"name": target.name});
    if !target.namespace.is_empty() {
        metadata["namespace"] = target.namespace.as_str().into();
    }
    json!({"apiVersion": target.api_version, "kind": target.kind, "metadata": metadata})
}

/// Lists the objects that have an owner, of the kinds that operators create for custom resources.
async fn operands(view: &mut ClusterView<'_>) -> Vec<Value> {
    let mut operands = Vec::new();
    for (group, version, kind) in OPERANDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match ownership::metadata(view.session, &resource, None).await {
            Ok(found) => operands.extend(found.into_iter().flatten().filter(|object| object["metadata"]["ownerReferences"].is_array())),
            // The removal is planned without them.
            Err(failure) => view.notes.push(format!("what was made for custom resources is not counted: {}", failure.to_line())),
        }
    }
    operands
}

/// Returns the other users of the extension's namespace.
async fn neighbours(session: &Session, extension: &ClusterExtension) -> Result<Vec<String>, Failure> {
    let namespace = &extension.spec.namespace;
    let mut all = Vec::new();
    if matches!(namespace.as_str(), "default" | "kube-system" | "kube-public" | "kube-node-lease")
        || Settings::read(session).await.system_namespace == *namespace
    {
        all.push(format!("namespace {namespace} is the cluster's own"));
    }
    let name = &extension.metadata.name;
    let others = extensions::all(session).await?.into_iter().filter(|other| other.metadata.name != *name);
    let inside =
        others.filter(|other| other.spec.namespace == *namespace || extensions::watch_namespace(other) == Some(namespace.as_str()));
    all.extend(inside.map(|other| format!("clusterextension {} is in it, or watches it", other.metadata.name.unwrap_or_default())));
    Ok(all)
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
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
