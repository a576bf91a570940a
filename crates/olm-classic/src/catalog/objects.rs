//! Objects on the cluster that pods and Jobs of catalogs consist of, as they are now.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_apply::{WriteError, Writer};
use mainstay_objects::ObjectRef;
use serde_json::{Value, json};

/// The most objects of one catalog or bundle that are read.
const MOST: u32 = 200;

/// Objects that cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An object cannot be read.
    #[error(transparent)]
    Get(#[from] WriteError),
    /// A list cannot be read.
    #[error("the {what} of namespace {namespace} cannot be listed")]
    List {
        /// The resource.
        what: String,
        /// The namespace.
        namespace: String,
        /// The cause.
        #[source]
        cause: Box<kube::Error>,
    },
    /// An object has no form of JSON.
    #[error("an object of namespace {0} cannot be read")]
    Form(String, #[source] serde_json::Error),
}

/// Pods.
pub fn pods() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods")
}

/// Services.
pub fn services() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Service"), "services")
}

/// ServiceAccounts.
pub fn accounts() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ServiceAccount"), "serviceaccounts")
}

/// Jobs.
pub fn jobs() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("batch", "v1", "Job"), "jobs")
}

/// Returns those of the wanted objects that exist.
pub async fn present<'a>(writer: &Writer, wanted: impl IntoIterator<Item = &'a Value>) -> Result<Vec<Value>, ReadError> {
    let mut found = Vec::new();
    for object in wanted {
        let place = ObjectRef::of(object).map_err(WriteError::from)?;
        found.extend(writer.get(&place).await?);
    }
    Ok(found)
}

/// Lists the objects of a namespace with these labels that are not being deleted.
pub async fn labelled(client: &Client, kind: &ApiResource, namespace: &str, labels: &str) -> Result<Vec<Value>, ReadError> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
    let listed = api.list(&ListParams::default().labels(labels).limit(MOST)).await;
    let failed = |cause| ReadError::List { what: kind.plural.clone(), namespace: namespace.to_owned(), cause: Box::new(cause) };
    let mut found = Vec::new();
    for object in listed.map_err(failed)?.items {
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let mut value = serde_json::to_value(&object).map_err(|error| ReadError::Form(namespace.to_owned(), error))?;
        value["apiVersion"] = json!(kind.api_version);
        value["kind"] = json!(kind.kind);
        found.push(value);
    }
    Ok(found)
}
