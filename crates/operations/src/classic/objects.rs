//! Objects of OLM classic, read from the cluster.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::ObjectRef;
use serde_json::Value;

use crate::failure::refused;
use crate::session::Session;

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// A kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its API group.
    pub group: &'static str,
    /// The version that is asked for.
    pub version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its plural.
    pub plural: &'static str,
    /// Its name in sentences.
    pub word: &'static str,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str, word: &'static str) -> Kind {
    Kind { group, version, kind, plural, word }
}

const OPERATORS: &str = "operators.coreos.com";

/// Subscriptions.
pub const SUBSCRIPTION: Kind = kind(OPERATORS, "v1alpha1", "Subscription", "subscriptions", "subscription");
/// InstallPlans.
pub const INSTALL_PLAN: Kind = kind(OPERATORS, "v1alpha1", "InstallPlan", "installplans", "installplan");
/// ClusterServiceVersions.
pub const CSV: Kind = kind(OPERATORS, "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", "csv");
/// CatalogSources.
pub const CATALOG_SOURCE: Kind = kind(OPERATORS, "v1alpha1", "CatalogSource", "catalogsources", "catalogsource");
/// OperatorGroups.
pub const OPERATOR_GROUP: Kind = kind(OPERATORS, "v1", "OperatorGroup", "operatorgroups", "operatorgroup");
/// OperatorConditions.
pub const OPERATOR_CONDITION: Kind = kind(OPERATORS, "v2", "OperatorCondition", "operatorconditions", "operatorcondition");
/// PackageManifests.
pub const PACKAGE_MANIFEST: Kind = kind("packages.operators.coreos.com", "v1", "PackageManifest", "packagemanifests", "package");
/// Namespaces.
pub const NAMESPACE: Kind = kind("", "v1", "Namespace", "namespaces", "namespace");
/// CRDs.
pub const DEFINITION: Kind =
    kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "customresourcedefinition");

impl Kind {
    /// Its `apiVersion`.
    pub fn api_version(self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// One of its objects.
    pub fn place(self, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { api_version: self.api_version(), kind: self.kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Its place in the API.
    pub(super) fn resource(self) -> ApiResource {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(self.group, self.version, self.kind), self.plural)
    }

    fn api(self, session: &Session, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = self.resource();
        match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => Api::namespaced_with(session.client.clone(), namespace, &resource),
            None => Api::all_with(session.client.clone(), &resource),
        }
    }

    /// The failure for an object that is not there.
    pub fn not_found(self, namespace: &str, name: &str) -> Failure {
        let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        Failure::new(FailureKind::NotFound, format!("{} {place}", self.word), "not found")
    }

    pub(super) fn value(self, object: &DynamicObject) -> Result<Value, Failure> {
        let mut value = serde_json::to_value(object).map_err(|error| Failure::failed(self.word, &error))?;
        // Items of a list omit the fields that they all share.
        value["apiVersion"] = self.api_version().into();
        value["kind"] = self.kind.into();
        Ok(value)
    }
}

/// Returns whether the API does not serve the kind at all.
fn is_not_served(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let unknown_path = ["could not find the requested resource", "page not found"];
    status.code == 404 && (status.reason != "NotFound" || unknown_path.iter().any(|words| status.message.contains(words)))
}

fn failure(kind: Kind, subject: String, error: &kube::Error) -> Failure {
    if kind.group.ends_with(OPERATORS) && is_not_served(error) {
        return Failure::new(FailureKind::NotFound, subject, "the cluster does not serve this kind: OLM classic is not installed on it")
            .hint("mainstay up starts an embedded cluster that has it");
    }
    refused(subject, error)
}

/// Reads an object; `None` if it is not there.
pub async fn find(session: &Session, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>, Failure> {
    let found = kind.api(session, Some(namespace)).get_opt(name).await;
    let subject = || if namespace.is_empty() { format!("{} {name}", kind.word) } else { format!("{} {namespace}/{name}", kind.word) };
    found.map_err(|error| failure(kind, subject(), &error))?.map(|object| kind.value(&object)).transpose()
}

/// Reads an object.
///
/// # Errors
/// It is not there, or cannot be read.
pub async fn get(session: &Session, kind: Kind, namespace: &str, name: &str) -> Result<Value, Failure> {
    find(session, kind, namespace, name).await?.ok_or_else(|| kind.not_found(namespace, name))
}

/// Lists the objects of a kind in one namespace, or all.
pub async fn list(session: &Session, kind: Kind, namespace: Option<&str>) -> Result<Vec<Value>, Failure> {
    list_by(session, kind, namespace, &ListParams::default()).await
}

/// Lists the objects that a selector chooses.
pub async fn list_by(session: &Session, kind: Kind, namespace: Option<&str>, which: &ListParams) -> Result<Vec<Value>, Failure> {
    let api = kind.api(session, namespace);
    let (mut all, mut page) = (Vec::new(), which.clone().limit(PAGE));
    loop {
        let list = api.list(&page).await.map_err(|error| failure(kind, kind.plural.to_owned(), &error))?;
        for item in &list.items {
            all.push(kind.value(item)?);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

/// Lists the names of the objects of a kind in one namespace, or all, each once.
pub async fn names(session: &Session, kind: Kind, namespace: Option<&str>) -> Result<Vec<String>, Failure> {
    let (api, mut page) = (kind.api(session, namespace), ListParams::default().limit(PAGE));
    let mut all = Vec::new();
    loop {
        let list = api.list_metadata(&page).await.map_err(|error| failure(kind, kind.plural.to_owned(), &error))?;
        all.extend(list.items.into_iter().filter_map(|object| object.metadata.name));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => break,
        }
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// Lists as [`list`] does; `None` if the cluster does not have OLM classic.
pub async fn list_if_served(session: &Session, kind: Kind, namespace: Option<&str>) -> Result<Option<Vec<Value>>, Failure> {
    let api = kind.api(session, namespace);
    match api.list(&ListParams::default().limit(1)).await {
        Err(error) if is_not_served(&error) => Ok(None),
        Err(error) => Err(failure(kind, kind.plural.to_owned(), &error)),
        Ok(_) => list(session, kind, namespace).await.map(Some),
    }
}

/// A field as text; empty if it is none.
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
