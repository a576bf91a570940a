//! ClusterExtensions of a cluster, and the records and pods that belong to them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use mainstay_api::condition;
use mainstay_api::olm_v1::{ClusterExtension, WATCH_NAMESPACE};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::revision::{History, Record};
use mainstay_objects::ObjectRef;
use mainstay_resolver::InstalledBundle;
use serde_json::Value;

use crate::failure::refused;
use crate::records;
use crate::session::Session;

/// `apiVersion` of a ClusterExtension.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// Maximum number of pods that are read of one workload.
const PODS: u32 = 50;

/// Returns the reference of an extension.
pub fn reference(name: &str) -> ObjectRef {
    ObjectRef { api_version: API_VERSION.to_owned(), kind: "ClusterExtension".to_owned(), namespace: String::new(), name: name.to_owned() }
}

/// Reads one extension.
pub async fn get(session: &Session, name: &str) -> Result<ClusterExtension, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    api.get(name).await.map_err(|error| {
        let failure = refused(format!("clusterextension {name}"), &error);
        if failure.kind() == FailureKind::NotFound { failure.hint("mainstay list shows what is installed") } else { failure }
    })
}

/// Looks for an extension; `None` if it is not found.
pub async fn find(session: &Session, name: &str) -> Result<Option<ClusterExtension>, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    api.get_opt(name).await.map_err(|error| refused(format!("clusterextension {name}"), &error))
}

/// Lists all extensions.
pub async fn all(session: &Session) -> Result<Vec<ClusterExtension>, Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    Ok(api.list(&ListParams::default()).await.map_err(|error| refused("clusterextensions", &error))?.items)
}

/// Reads what was applied for an extension, revision by revision; fails if that is not known.
pub async fn history(session: &Session, extension: &ClusterExtension) -> Result<History, Failure> {
    records::read(session, extension).await?.known(extension)
}

/// Returns the package that an extension asks for.
pub fn package(extension: &ClusterExtension) -> &str {
    extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name)
}

/// Returns the namespace that the extension watches, if it watches only one.
pub fn watch_namespace(extension: &ClusterExtension) -> Option<&str> {
    let inline = extension.spec.config.as_ref().and_then(|config| config.inline.as_ref());
    if let Some(configured) = inline.and_then(|inline| inline["watchNamespace"].as_str()) {
        return Some(configured);
    }
    extension.metadata.annotations.as_ref()?.get(WATCH_NAMESPACE).map(String::as_str)
}

/// Returns the bundle that is installed.
pub fn installed(extension: &ClusterExtension) -> Option<InstalledBundle> {
    let bundle = &extension.status.as_ref()?.install.as_ref()?.bundle;
    Some(InstalledBundle { name: bundle.name.clone(), version: bundle.version.clone() })
}

/// Returns one of the extension's conditions.
pub fn condition<'e>(extension: &'e ClusterExtension, kind: &str) -> Option<&'e condition::Condition> {
    condition::get(&extension.status.as_ref()?.conditions, kind)
}

/// Lists the pods of a workload, by the labels that it selects.
pub async fn pods(session: &Session, namespace: &str, labels: &Value) -> Result<Vec<Value>, Failure> {
    let labels: Vec<String> =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let api: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
    let parameters = ListParams::default().labels(&labels.join(",")).limit(PODS);
    let pods = api.list(&parameters).await.map_err(|error| refused(format!("pods in namespace {namespace}"), &error))?.items;
    pods.iter().map(|pod| serde_json::to_value(pod).map_err(|error| Failure::failed("pod", &error))).collect()
}

/// Reads the records of the other extensions. Also returns the extensions whose records are not known, with the reason.
pub async fn others(session: &Session, but: &str) -> Result<(Vec<(String, Arc<Record>)>, Vec<String>), Failure> {
    let (mut others, mut unknown) = (Vec::new(), Vec::new());
    for other in all(session).await? {
        let name = other.metadata.name.clone().unwrap_or_default();
        if name == but {
            continue;
        }
        match history(session, &other).await {
            Ok(history) => others.extend(history.installed().map(|installed| (name, installed.record.clone()))),
            Err(failure) => {
                unknown
                    .push(format!("whether clusterextension {name} needs it was looked up in the catalogs alone: {}", failure.to_line()));
            }
        }
    }
    Ok((others, unknown))
}
