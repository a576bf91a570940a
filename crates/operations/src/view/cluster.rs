//! Facts about the cluster itself: its roles, its platform, its nodes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_apply::WriteError;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::FactRevision;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::cluster_operator::compat::Platform;
use mainstay_olm_v1_core::extension::webhooks::{Simulation, Unanswered};
use mainstay_rbac::PolicyIndex;
use mainstay_runtime::KindError;

use crate::failure::{not_written, refused};
use crate::session::Session;
use crate::simulated;

/// Maximum number of nodes that pods are checked against; larger clusters are not checked.
const NODES: u32 = 200;

/// Reads roles and bindings; fails with the reason if they cannot be read.
pub(super) async fn policy(session: &Session) -> Result<Arc<PolicyIndex>, Failure> {
    let list = |kind: &'static str, plural: &'static str| {
        let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural));
        async move {
            let found = api.list(&ListParams::default()).await.map_err(|error| refused(plural, &error))?;
            Ok::<_, Failure>((kind, found.items))
        }
    };
    let (roles, cluster_roles, bindings, cluster_bindings) = tokio::try_join!(
        list("Role", "roles"),
        list("ClusterRole", "clusterroles"),
        list("RoleBinding", "rolebindings"),
        list("ClusterRoleBinding", "clusterrolebindings"),
    )?;
    let mut index = PolicyIndex::default();
    for (kind, items) in [roles, cluster_roles, bindings, cluster_bindings] {
        for item in items {
            let mut object = serde_json::to_value(&item).map_err(|error| Failure::failed("roles", &error))?;
            object["kind"] = kind.into();
            index.apply(&object).map_err(|error| Failure::failed("roles", &error))?;
        }
    }
    Ok(Arc::new(index))
}

/// Reads the platform's version; `None` if the cluster has no platform.
pub(super) async fn platform(session: &Session) -> Result<Option<Platform>, Failure> {
    let place = ObjectRef {
        api_version: "config.openshift.io/v1".to_owned(),
        kind: "ClusterVersion".to_owned(),
        namespace: String::new(),
        name: "version".to_owned(),
    };
    match session.writer.get(&place).await {
        Ok(Some(found)) => Platform::of(&found).map_err(|error| Failure::failed("clusterversion version", &error)),
        // A cluster without a platform does not serve the kind.
        Ok(None) | Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => Ok(None),
        Err(error) => Err(not_written(&error)),
    }
}

/// Reads the simulated nodes of the cluster, and its webhooks that nothing answers.
pub(super) async fn simulation(session: &Session) -> Result<(Simulation, Vec<Unanswered>), Failure> {
    let simulation = simulated::read(session).await?;
    if !simulation.everywhere || simulation.passes_over {
        return Ok((simulation, Vec::new()));
    }
    let configurations = simulated::configurations(session).await?;
    let unanswered = simulation.unanswered(&configurations);
    Ok((simulation, unanswered))
}

/// Reads the nodes; empty for a cluster with so many that one of them will fit.
pub(super) async fn nodes(session: &Session) -> Result<Vec<DynamicObject>, Failure> {
    let gvk = GroupVersionKind::gvk("", "v1", "Node");
    let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, "nodes"));
    let found = api.list(&ListParams::default().limit(NODES)).await.map_err(|error| refused("nodes", &error))?;
    let more = found.metadata.continue_.is_some_and(|token| !token.is_empty());
    Ok(if more { Vec::new() } else { found.items })
}

/// Returns the identity of the cluster: the uid of a namespace that each has, or the address for users who may not read it.
pub(super) async fn system(session: &Session) -> Result<FactRevision, Failure> {
    let api: Api<Namespace> = Api::all(session.client.clone());
    let identity = match api.get_metadata_opt("kube-system").await {
        Ok(found) => {
            let uid = found.and_then(|found| found.metadata.uid).unwrap_or_default();
            format!("the one whose namespace kube-system has uid {uid}")
        }
        Err(kube::Error::Api(status)) if status.code == 403 => format!("the one at {}", session.server),
        Err(error) => return Err(refused("namespace kube-system", &error)),
    };
    Ok(FactRevision::of("cluster", identity))
}
