//! ClusterExtension: the decision for one, its reason, and how it is shown to people.
//!
//! [`plan`] decides from a [`facts::Snapshot`] or names the facts that it lacks; everything else here reads its answer. The parts that any
//! installer needs are in `mainstay-lifecycle`.

use mainstay_api::lifecycle::{LifecyclePolicySpec, Subject};
use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_lifecycle::policy::{self, Concerned, PolicyFact, Ruling};
use mainstay_objects::Owner;

pub mod approval;
pub mod dependencies;
pub mod explain;
pub mod facts;
pub mod owned;
pub mod permissions;
pub mod plan;
pub mod preview;
pub mod record;
pub mod request;
pub mod status;
pub mod supported;
mod told;
pub mod webhooks;

/// The field manager of everything that is applied for an extension (OLM1-CTRL-10).
pub const FIELD_MANAGER: &str = "operator-controller";
/// `apiVersion` of a ClusterExtension.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// Its kind.
pub const KIND: &str = "ClusterExtension";

/// An extension as the subject of its changes.
pub fn subject(extension: &ClusterExtension) -> Subject {
    Subject {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        namespace: String::new(),
        name: extension.metadata.name.clone().unwrap_or_default(),
        uid: extension.metadata.uid.clone().unwrap_or_default(),
    }
}

/// The owner of everything that is applied for an extension (OLM1-CTRL-10).
pub fn owner(extension: &ClusterExtension) -> Owner {
    let name = extension.metadata.name.clone().unwrap_or_default();
    Owner {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        labels: vec![(OWNER_KIND_LABEL.to_owned(), KIND.to_owned()), (OWNER_NAME_LABEL.to_owned(), name.clone())],
        name,
        uid: extension.metadata.uid.clone().unwrap_or_default(),
        manager: FIELD_MANAGER.to_owned(),
    }
}

/// The account that the extension names; empty if it names none (OLM1-API-07).
pub fn account_name(extension: &ClusterExtension) -> &str {
    extension.spec.service_account.as_ref().and_then(|account| account.name.as_deref()).unwrap_or_default()
}

/// The decision of the policies for an extension (MS-POL-01).
pub fn ruling(extension: &ClusterExtension, policies: &[PolicyFact]) -> Ruling {
    with_concerned(extension, |concerned| policy::ruling(concerned, policies))
}

/// Returns true if a policy applies to an extension.
pub fn applies(policy: &LifecyclePolicySpec, extension: &ClusterExtension) -> bool {
    with_concerned(extension, |concerned| policy::applies(policy, concerned))
}

fn with_concerned<T>(extension: &ClusterExtension, ask: impl FnOnce(Concerned<'_>) -> T) -> T {
    let none = std::collections::BTreeMap::new();
    let package = extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name);
    let labels = extension.metadata.labels.as_ref().unwrap_or(&none);
    ask(Concerned { api_version: API_VERSION, kind: KIND, package, labels })
}
