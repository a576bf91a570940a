//! The platform, as far as operators that authenticate by tokens are concerned, and the permissions of accounts.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams};
use mainstay_diagnostics::Failure;
use mainstay_olm_classic_core::csv::Group;
use mainstay_olm_classic_core::token_auth::TokenCloud;
use mainstay_rbac::{PolicyIndex, PolicyRule, UserInfo, rules_for};
use mainstay_versions::Version;
use serde_json::Value;

use super::objects::{Kind, list_if_served};
use crate::failure::refused;
use crate::session::Session;

const fn config(kind: &'static str, plural: &'static str, word: &'static str) -> Kind {
    Kind { group: "config.openshift.io", version: "v1", kind, plural, word }
}

/// Infrastructure.
pub(crate) const INFRASTRUCTURE: Kind = config("Infrastructure", "infrastructures", "infrastructure");
/// Authentication.
pub(crate) const AUTHENTICATION: Kind = config("Authentication", "authentications", "authentication");
/// CloudCredential.
pub(crate) const CLOUD_CREDENTIAL: Kind =
    Kind { group: "operator.openshift.io", version: "v1", kind: "CloudCredential", plural: "cloudcredentials", word: "cloudcredential" };

/// ClusterVersion.
const CLUSTER_VERSION: Kind = config("ClusterVersion", "clusterversions", "clusterversion");
/// ClusterOperator.
const CLUSTER_OPERATOR: Kind = config("ClusterOperator", "clusteroperators", "clusteroperator");

/// The object `cluster` of a kind; `None` if it is missing, or the kind is not served.
pub(crate) async fn cluster(session: &Session, kind: Kind) -> Result<Option<Value>, Failure> {
    let all = list_if_served(session, kind, None).await?.unwrap_or_default();
    Ok(all.into_iter().find(|object| object["metadata"]["name"] == "cluster"))
}

/// The cloud that tokens open. A user who may not read the settings installs as on any cluster.
pub(crate) async fn token_cloud(session: &Session) -> Option<TokenCloud> {
    let credential = cluster(session, CLOUD_CREDENTIAL).await.ok()??;
    let (authentication, infrastructure) = (cluster(session, AUTHENTICATION).await.ok()?, cluster(session, INFRASTRUCTURE).await.ok()?);
    TokenCloud::of_cluster(Some(&credential), authentication.as_ref(), infrastructure.as_ref())
}

/// The version of the platform: the ClusterVersion's, else the one that OLM's ClusterOperator reports, which is `--release-version` without a
/// ClusterVersion. `None` if neither is there, or a user may not read them.
pub(crate) async fn version(session: &Session) -> Option<Version> {
    let all = list_if_served(session, CLUSTER_VERSION, None).await.ok()?.unwrap_or_default();
    let desired = all.iter().find_map(|each| each.pointer("/status/desired/version")?.as_str());
    if let Some(version) = desired.and_then(|text| Version::parse(text).ok()) {
        return Some(version);
    }
    let operators = list_if_served(session, CLUSTER_OPERATOR, None).await.ok()?.unwrap_or_default();
    let own = operators.iter().find(|each| each["metadata"]["name"] == "operator-lifecycle-manager")?;
    let versions = own["status"]["versions"].as_array()?;
    Version::parse(versions.iter().find(|each| each["name"] == "operator")?["version"].as_str()?).ok()
}

/// The cluster-wide rules of the account that an OperatorGroup names; none if it names none. A user who may not read them gets no warning.
pub(crate) async fn account_rules(session: &Session, groups: &[Group]) -> Vec<PolicyRule> {
    let [group] = groups else { return Vec::new() };
    let Some(account) = &group.service_account else { return Vec::new() };
    match policy(session).await {
        Ok(policy) => rules_for(&policy, &UserInfo::service_account(&group.namespace, account), "").rules,
        Err(failure) => {
            tracing::debug!(failure = failure.to_line(), "permissions of the OperatorGroup's account are not known");
            Vec::new()
        }
    }
}

/// The cluster-wide roles and bindings.
async fn policy(session: &Session) -> Result<PolicyIndex, Failure> {
    let parameters = ListParams::default();
    let (roles, bindings) = (Api::<ClusterRole>::all(session.client.clone()), Api::<ClusterRoleBinding>::all(session.client.clone()));
    let (roles, bindings) =
        tokio::try_join!(roles.list(&parameters), bindings.list(&parameters)).map_err(|error| refused("clusterroles", &error))?;
    let mut policy = PolicyIndex::default();
    let values = roles.items.iter().map(serde_json::to_value).chain(bindings.items.iter().map(serde_json::to_value));
    for (index, value) in values.enumerate() {
        let mut value = value.map_err(|error| Failure::failed("clusterroles", &error))?;
        value["kind"] = if index < roles.items.len() { "ClusterRole" } else { "ClusterRoleBinding" }.into();
        policy.apply(&value).map_err(|error| Failure::failed("clusterroles", &error))?;
    }
    Ok(policy)
}
