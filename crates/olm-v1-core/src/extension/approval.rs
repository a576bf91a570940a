//! Approvals of a ClusterExtension's changes (MS-POL-01): the settings that identify a change, and the extensions that an approval created.

use std::sync::Arc;

use kube_core::ResourceExt;
use mainstay_api::lifecycle::{CHANGE_PLAN, ChangePlan, DependencyRef};
use mainstay_api::olm_v1::{ClusterExtension, WATCH_NAMESPACE};
use mainstay_lifecycle::approval::approving_plan;
use serde_json::json;

use super::account_name;

/// The settings of an extension that decide what may be written and are not rendered; they are part of the digest of its changes.
pub fn settings(extension: &ClusterExtension) -> [String; 3] {
    let more = json!([extension.spec.install, extension.annotations().get(WATCH_NAMESPACE), extension.spec.config]);
    [extension.spec.namespace.clone(), account_name(extension).to_owned(), more.to_string()]
}

/// The approved plan that created an extension as a dependency: its approval names this extension as it is now.
pub fn made_for<'p>(extension: &ClusterExtension, plans: &'p [Arc<ChangePlan>]) -> Option<&'p ChangePlan> {
    let name = extension.annotations().get(CHANGE_PLAN)?;
    approving_plan(name, &dependency_ref(extension)?, plans)
}

/// An extension as an approval names it; none if it does not exist yet.
pub fn dependency_ref(extension: &ClusterExtension) -> Option<DependencyRef> {
    Some(DependencyRef {
        name: extension.metadata.name.clone()?,
        uid: extension.metadata.uid.clone().filter(|uid| !uid.is_empty())?,
        package: extension.spec.source.catalog.as_ref()?.package_name.clone(),
        namespace: extension.spec.namespace.clone(),
        service_account: account_name(extension).to_owned(),
    })
}
