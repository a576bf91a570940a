//! Permissions of an account beyond the needs of the installed bundle (MS-POL-02).

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ListParams};
use mainstay_bundle::permissions::{Grant, Scope, missing};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::permissions::needed as needs;
use mainstay_rbac::{AUTHENTICATED_GROUP, PolicyIndex, RoleView as _, UserInfo, parse_binding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Known;
use crate::failure::refused;
use crate::session::Session;

/// Permissions of an extension's account beyond what the installed bundle needs.
#[derive(Clone, Debug)]
pub struct Excess {
    /// The account: `NAMESPACE/NAME`.
    pub account: String,
    /// The installed bundle's name.
    pub bundle: String,
    /// The permissions, each with the role that grants it.
    pub grants: Vec<(Grant, String)>,
}

/// Compares the permissions of an extension's account with the needs of the installed bundle.
pub async fn excess(session: &Session, name: &str) -> Result<Excess, Failure> {
    let Some(known) = Known::read(session, name).await? else {
        return Err(
            Failure::new(FailureKind::NotFound, format!("clusterextension {name}"), "not found").hint("mainstay list shows the extensions")
        );
    };
    let Some(installed) = known.installed() else {
        return Err(Failure::new(FailureKind::NotFound, format!("clusterextension {name}"), "has nothing installed"));
    };
    let account = account_name(&known.extension);
    let user = UserInfo::service_account(&known.extension.spec.namespace, account);
    let needed = needs(&installed.record.objects, name);
    let bindings = bindings(session).await?;
    let grants = held(&bindings, &user)
        .into_iter()
        .flat_map(|(role, grants)| missing(&needed, &grants).into_iter().map(move |grant| (grant, role.clone())))
        .collect();
    let account = format!("{}/{account}", known.extension.spec.namespace);
    Ok(Excess { account, bundle: installed.record.bundle.name.clone(), grants })
}

/// Roles and bindings as the cluster has them.
struct Bindings {
    index: PolicyIndex,
    bindings: Vec<Value>,
}

async fn bindings(session: &Session) -> Result<Bindings, Failure> {
    let (roles, cluster_roles, own, cluster) = tokio::try_join!(
        list::<Role>(session, "Role"),
        list::<ClusterRole>(session, "ClusterRole"),
        list::<RoleBinding>(session, "RoleBinding"),
        list::<ClusterRoleBinding>(session, "ClusterRoleBinding"),
    )?;
    let mut index = PolicyIndex::default();
    for object in roles.iter().chain(&cluster_roles) {
        index.apply(object).map_err(|error| Failure::failed("roles", &error))?;
    }
    Ok(Bindings { index, bindings: own.into_iter().chain(cluster).collect() })
}

async fn list<K>(session: &Session, kind: &str) -> Result<Vec<Value>, Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let subject = || format!("{}s", kind.to_lowercase());
    let found = Api::<K>::all(session.client.clone()).list(&ListParams::default()).await.map_err(|error| refused(subject(), &error))?;
    let value = |object: K| {
        let mut value = serde_json::to_value(&object).map_err(|error| Failure::failed(subject(), &error))?;
        value["kind"] = kind.into();
        Ok(value)
    };
    found.items.into_iter().map(value).collect()
}

/// Returns the permissions that roles grant to the account itself, role by role. Permissions of every account are no excess.
fn held(bindings: &Bindings, user: &UserInfo) -> Vec<(String, Vec<Grant>)> {
    let everybody = UserInfo::new("", &[AUTHENTICATED_GROUP, "system:serviceaccounts"]);
    let mut held = Vec::new();
    for object in &bindings.bindings {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let Ok(binding) = parse_binding(object) else { continue };
        let applies = |who: &UserInfo| binding.subjects.iter().any(|subject| subject.applies_to(who, namespace));
        if !applies(user) || applies(&everybody) {
            continue;
        }
        // A binding to a role that does not exist grants nothing.
        let Ok(rules) = bindings.index.referenced(&binding.role_ref, namespace) else { continue };
        let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespace(namespace.to_owned()) };
        let grants = rules.iter().map(|rule| Grant { scope: scope.clone(), rule: rule.clone() }).collect();
        held.push((format!("{} {}", binding.role_ref.kind.to_lowercase(), binding.role_ref.name), grants));
    }
    held
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// MS-POL-02: excess permissions of an account, with the role that they are from; what everybody may do does not count.
    #[test]
    fn excess_is_what_roles_grant_beyond_need() {
        let role = |name: &str, verbs: &[&str]| json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
        let binding = |role: &str, subject: Value| {
            json!({"kind": "ClusterRoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject]})
        };
        let account = json!({"kind": "ServiceAccount", "name": "installer", "namespace": "work"});
        let group = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated"});
        let mut index = PolicyIndex::default();
        for object in [role("wide", &["get", "delete"]), role("all", &["list"])] {
            index.apply(&object).unwrap();
        }
        let bindings =
            Bindings { index, bindings: vec![binding("wide", account.clone()), binding("all", group), binding("gone", account)] };
        let held = held(&bindings, &UserInfo::service_account("work", "installer"));
        let need = [Grant { scope: Scope::Cluster, rule: mainstay_rbac::PolicyRule::resources(&["get"], &[""], &["pods"]) }];
        let told: Vec<String> = held
            .iter()
            .flat_map(|(role, grants)| missing(&need, grants).into_iter().map(move |grant| format!("{grant} by {role}")))
            .collect();
        assert_eq!(told, ["delete on pods by clusterrole wide"]);
    }
}
