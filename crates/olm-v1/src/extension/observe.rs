//! The collection of facts. Nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::api::{Api, ApiResource, ListParams};
use kube::{Client, ResourceExt};
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_apply::{WriteError, Writer};
use mainstay_bundle::Bundle;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::Live;
use mainstay_lifecycle::live::INSTANCES_READ;
use mainstay_lifecycle::object;
use mainstay_lifecycle::revision::History;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::dependencies::ApiFact;
use mainstay_olm_v1_core::extension::facts::{BundleImage, CatalogFact, Fact, Known, PullFailure, Snapshot, UnreadableHistory};
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL};
use mainstay_olm_v1_core::gates::FeatureGates;
use mainstay_rbac::PolicyIndex;
use mainstay_resolver::joint::Provided;
use mainstay_runtime::{Key, KindError};
use tokio::time::Instant;

/// The source of bundle images.
#[async_trait]
pub trait BundleSource: Send + Sync {
    /// Returns the content of an image, which is pulled and unpacked if it is not stored yet.
    async fn bundle(&self, extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure>;

    /// Drops what was unpacked for an extension.
    async fn forget(&self, extension: &str) -> Result<(), SharedError>;
}

/// The source of catalogs' content.
#[async_trait]
pub trait CatalogSource: Send + Sync {
    /// Returns every ClusterCatalog with its content, if known. `who` is woken when pending content has arrived.
    async fn catalogs(&self, who: &Key) -> Stocked;

    /// Sets the callback that wakes the callers of `catalogs`.
    fn wake_by(&self, wake: Box<dyn Fn(Key) + Send + Sync>);

    /// Forgets everything for which `who` waits.
    fn forget(&self, who: &Key);
}

/// The catalogs of a cluster.
pub struct Stocked {
    /// The catalogs with their content.
    pub catalogs: Vec<CatalogFact>,
    /// The start of the earliest pending fetch; `None` if nothing is pending.
    pub pending: Option<Instant>,
}

/// The source of the cluster's roles and bindings.
#[async_trait]
pub trait PolicySource: Send + Sync {
    /// Returns all roles and bindings as they are now.
    async fn index(&self) -> Arc<PolicyIndex>;
}

/// The collector of the facts of one extension.
pub struct Observer<'a> {
    /// The controller's own identity.
    pub own: &'a Client,
    /// The extension's account, which reads its objects; `None` if it cannot be used.
    pub account: Option<&'a Writer>,
    /// The source of bundle images.
    pub bundles: &'a dyn BundleSource,
    /// The source of roles and bindings.
    pub policy: &'a dyn PolicySource,
    /// The namespace of the install records.
    pub system_namespace: &'a str,
}

/// Live objects that are read at a time.
const READERS: usize = 8;

impl Observer<'_> {
    /// Returns the facts with which every plan begins, and those that almost every plan asks for: each round of questions plans anew. A caller that
    /// has looked up the account already says what it found.
    pub async fn begin(
        &self,
        extension: Arc<ClusterExtension>,
        gates: FeatureGates,
        ignore_service_account: bool,
        catalogs: Vec<CatalogFact>,
        known_account: Option<Result<bool, SharedError>>,
    ) -> Snapshot {
        let account = async {
            match known_account {
                None if self.account.is_some() && !ignore_service_account => Some(self.account_exists(&extension).await),
                known => known,
            }
        };
        let policy = async { if gates.on("PreflightPermissions") { Some(self.policy.index().await) } else { None } };
        let (history, account, policy) = tokio::join!(self.history(&extension), account, policy);
        let known = Known { account, policy, ..Known::default() };
        Snapshot { extension, gates, ignore_service_account, catalogs, history, known }
    }

    async fn history(&self, extension: &ClusterExtension) -> Result<History, UnreadableHistory> {
        let Some(uid) = &extension.metadata.uid else { return Ok(History::default()) };
        let api: Api<Secret> = Api::namespaced(self.own.clone(), self.system_namespace);
        let list = api.list(&ListParams::default().labels(&format!("{EXTENSION_LABEL}={uid}"))).await;
        let list = list.map_err(|error| UnreadableHistory { secret: None, problem: SharedError::new(error) })?;
        Ok(record::read(&list.items)?)
    }

    /// Fetches what the plan asked for.
    pub async fn fetch(&self, snapshot: &mut Snapshot, facts: Vec<Fact>) {
        let mut live = Vec::new();
        for fact in facts {
            match fact {
                Fact::Account => snapshot.known.account = Some(self.account_exists(&snapshot.extension).await),
                Fact::Namespace => snapshot.known.namespace = Some(self.namespace(&snapshot.extension.spec.namespace).await),
                Fact::Policy => snapshot.known.policy = Some(self.policy.index().await),
                Fact::Bundle(image) => {
                    let name = snapshot.extension.metadata.name.clone().unwrap_or_default();
                    let bundle = self.bundles.bundle(&name, &image).await;
                    snapshot.known.bundles.insert(image.reference, bundle);
                }
                Fact::Live(target) => live.push(target),
                Fact::Apis => snapshot.known.apis = Some(self.apis().await),
                Fact::Instances(kind) => {
                    let found = self.instances(&kind).await;
                    snapshot.known.instances.insert(kind, found);
                }
            }
        }
        let read = |target: ObjectRef| async move {
            let found = self.live(&target).await;
            (target, found)
        };
        let found: Vec<_> = futures::stream::iter(live).map(read).buffer_unordered(READERS).collect().await;
        snapshot.known.live.extend(found);
    }

    async fn account_exists(&self, extension: &ClusterExtension) -> Result<bool, SharedError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.own.clone(), &extension.spec.namespace);
        api.get_metadata_opt(account_name(extension)).await.map(|found| found.is_some()).map_err(SharedError::new)
    }

    async fn namespace(&self, name: &str) -> Live {
        let api: Api<Namespace> = Api::all(self.own.clone());
        match api.get_metadata_opt(name).await {
            Ok(Some(found)) => match serde_json::to_value(&found) {
                Ok(found) => Live::Present(Arc::new(found)),
                Err(error) => Live::Unreadable(SharedError::new(error)),
            },
            Ok(None) => Live::Absent,
            Err(error) => Live::Unreadable(SharedError::new(error)),
        }
    }

    async fn instances(&self, kind: &ObjectRef) -> Instances {
        let Some(account) = self.account else {
            return Instances::Unreadable("no account to read them with".into());
        };
        account
            .list(&mainstay_apply::gvk(kind), INSTANCES_READ)
            .await
            .map_or_else(|error| Instances::Unreadable(SharedError::new(error)), Instances::Known)
    }

    /// Returns every API that the server serves. An API without a CRD is built in or comes from an aggregated server.
    async fn apis(&self) -> Result<Vec<ApiFact>, SharedError> {
        let mut kinds: BTreeMap<String, Vec<ApiResource>> = BTreeMap::new();
        for resource in self.served().await.map_err(SharedError::new)? {
            kinds.entry(format!("{}.{}", resource.plural, resource.group)).or_default().push(resource);
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(self.own.clone());
        let owned = |(name, resources): (String, Vec<ApiResource>)| {
            let definitions = definitions.clone();
            async move {
                // The core group has no name, and no CRD can have it.
                let definition =
                    if name.ends_with('.') { None } else { definitions.get_metadata_opt(&name).await.map_err(SharedError::new)? };
                let labels = definition.as_ref().map(|found| found.labels().clone()).unwrap_or_default();
                let of_extension = labels.get(OWNER_KIND_LABEL).is_some_and(|kind| kind == "ClusterExtension");
                let extension = labels.get(OWNER_NAME_LABEL).filter(|_| of_extension).cloned();
                let by = definition.map_or_else(|| "the server".to_owned(), |_| format!("customresourcedefinition {name}"));
                let fact = |ApiResource { group, version, kind, .. }: ApiResource| ApiFact {
                    provided: Provided { group, version, kind, by: by.clone() },
                    extension: extension.clone(),
                };
                Ok(resources.into_iter().map(fact).collect::<Vec<_>>())
            }
        };
        let facts: Result<Vec<Vec<ApiFact>>, SharedError> = futures::stream::iter(kinds).map(owned).buffered(READERS).try_collect().await;
        Ok(facts?.concat())
    }

    /// Returns the resources of every group and version, without subresources. Groups come and go with CRDs: a group that is gone when its resources
    /// are requested is skipped.
    pub async fn served(&self) -> Result<Vec<ApiResource>, kube::Error> {
        let client = self.own;
        let core = client.list_core_api_versions().await?.versions;
        let groups = client.list_api_groups().await?.groups;
        let named = groups.into_iter().flat_map(|group| group.versions).map(|version| (true, version.group_version));
        let asked = core.into_iter().map(|version| (false, version)).chain(named);
        let ask = |(named, version): (bool, String)| async move {
            let list = if named { client.list_api_group_resources(&version).await } else { client.list_core_api_resources(&version).await };
            match list {
                Ok(list) => Ok(list.resources.into_iter().filter_map(|resource| served(&version, &resource)).collect()),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        };
        let found: Vec<Vec<ApiResource>> = futures::stream::iter(asked).map(ask).buffered(READERS).try_collect().await?;
        Ok(found.concat())
    }

    async fn live(&self, target: &ObjectRef) -> Live {
        let Some(account) = self.account else {
            return Live::Unreadable(format!("{target}: no account to read it with").into());
        };
        match account.get(target).await {
            Ok(Some(object)) => Live::Present(Arc::new(object::lean(object))),
            Ok(None) => Live::Absent,
            Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => Live::NotServed,
            Err(error) => Live::Unreadable(SharedError::new(error)),
        }
    }
}

fn served(group_version: &str, resource: &APIResource) -> Option<ApiResource> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    (!resource.name.contains('/')).then(|| ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: group_version.to_owned(),
        kind: resource.kind.clone(),
        plural: resource.name.clone(),
    })
}
